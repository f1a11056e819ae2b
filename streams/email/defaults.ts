import { Type, type Static } from '@sinclair/typebox'
import { Nullable } from '../define.ts'

/** What a key or a domain says about mail that does not say it itself; null = nothing. */
export const SendDefaults = Type.Object({
  opens: Nullable(Type.Boolean()),
  clicks: Nullable(Type.Boolean()),
  unsubscribe: Nullable(Type.Boolean())
})
export type SendDefaults = Static<typeof SendDefaults>

export const NO_DEFAULTS: SendDefaults = { opens: null, clicks: null, unsubscribe: null }

/** What holds for one email. */
export interface MailOptions {
  opens: boolean
  clicks: boolean
  unsubscribe: boolean
}

/** The first that says something wins: the request, the key, the domain; then yes, because spec 6.5 promises those
 *  events for a plain send. */
export function resolveOptions (...layers: Array<Partial<SendDefaults> | undefined>): MailOptions {
  const first = (name: keyof SendDefaults) => layers.map(layer => layer?.[name]).find(value => value != null) ?? true
  return { opens: first('opens'), clicks: first('clicks'), unsubscribe: first('unsubscribe') }
}
