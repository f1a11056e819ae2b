import { Type } from '@sinclair/typebox'
import { Nullable } from '#streams/define.ts'
import type { SendDefaults } from '#streams/email/defaults.ts'

/** What a key or a domain may be told about mail that does not say it itself. `none` = what null means there. */
export function defaultFields (none: string) {
  const choice = (name: string) =>
    Type.Optional(
      Type.Union([Type.Boolean(), Type.Null()], { description: `${name} is true, false, or null ${none}.` })
    )
  return {
    track: Type.Optional(Type.Object({ opens: choice('track.opens'), clicks: choice('track.clicks') }, {
      additionalProperties: false,
      description:
        'track is an object with opens and clicks: whether they are tracked in mail that does not say so itself.'
    })),
    unsubscribe: choice('unsubscribe')
  }
}

/** The same in an answer. */
export const defaultsAnswer = {
  track: Type.Object({ opens: Nullable(Type.Boolean()), clicks: Nullable(Type.Boolean()) }),
  unsubscribe: Nullable(Type.Boolean())
}

/** What was said of them; what was left out is left out. */
export function defaultsOf (
  { track, unsubscribe }: { track?: Partial<SendDefaults>, unsubscribe?: boolean | null }
): Partial<SendDefaults> {
  return { ...track, ...(unsubscribe === undefined ? {} : { unsubscribe }) }
}

export function answerOfDefaults ({ opens, clicks, unsubscribe }: SendDefaults) {
  return { track: { opens, clicks }, unsubscribe }
}
