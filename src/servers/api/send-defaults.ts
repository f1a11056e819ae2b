import { Type } from '@sinclair/typebox'
import { Nullable } from '#streams/define.ts'
import type { SendDefaults } from '#streams/email/defaults.ts'

/** The defaults of a key or a domain for mail that does not say it itself. `none` = what null means there. */
export function defaultFields (none: string) {
  const choice = (description: string) =>
    Type.Optional(
      Type.Union([Type.Boolean(), Type.Null()], {
        must: 'be true, false or null',
        description: `${description} ${none}`
      })
    )
  return {
    track: Type.Optional(Type.Object({
      opens: choice('Whether opens are tracked in mail that does not say so.'),
      clicks: choice('Whether clicks are tracked in mail that does not say so.')
    }, { additionalProperties: false, description: 'Defaults for `track` of an email.' })),
    unsubscribe: choice('Default for `unsubscribe` of an email.')
  }
}

/** The same in an answer. */
export const defaultsAnswer = {
  track: Type.Object({ opens: Nullable(Type.Boolean()), clicks: Nullable(Type.Boolean()) }),
  unsubscribe: Nullable(Type.Boolean())
}

/** The given ones; what is left out stays left out. */
export function defaultsOf (
  { track, unsubscribe }: { track?: Partial<SendDefaults>, unsubscribe?: boolean | null }
): Partial<SendDefaults> {
  return { ...track, ...(unsubscribe === undefined ? {} : { unsubscribe }) }
}

export function answerOfDefaults ({ opens, clicks, unsubscribe }: SendDefaults) {
  return { track: { opens, clicks }, unsubscribe }
}
