import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Time, type FactOf } from '../define.ts'

/** Deliveries a second at most, so that what is new goes first. */
export const PACE_MAX = 1000

/** What is sent to an endpoint once more, or after all. Repeated on each fact, so that the last one of its subject
 *  tells all. */
const replay = {
  replay: Id('rpl'),
  webhook: Id('wh'),
  /** `backfill` = what happened before the endpoint was there; `window` = all of its events in a stretch of the past;
   *  `failed` = its deliveries that failed then. */
  what: Type.Union([Type.Literal('backfill'), Type.Literal('window'), Type.Literal('failed')]),
  /** Of the events, or of the failures: from this time on, and before that. */
  from: Time,
  to: Time,
  /** Facts of EMAILS after this place are none of it; 0 for `failed`. */
  through: Type.Integer({ minimum: 0 }),
  /** Deliveries a second. */
  pace: Type.Integer({ minimum: 1, maximum: PACE_MAX }),
  /** How far it has come, in words of its own: '' = not begun. */
  place: Type.String({ maxLength: 200 }),
  /** Deliveries asked for so far. */
  made: Type.Integer({ minimum: 0 })
}
export const Replay = Type.Object(replay)
export type Replay = Static<typeof Replay>

export const ReplayRequested = factType('replay.requested', 1, Replay)

/** A page of it is done: appended together with the deliveries of that page. */
export const ReplayAdvanced = factType('replay.advanced', 1, Replay)

export const ReplayEnded = factType(
  'replay.ended',
  1,
  Type.Object({
    ...replay,
    reason: Type.Union([
      Type.Literal('done'),
      Type.Literal('canceled'),
      Type.Literal('endpoint_deleted'),
      Type.Literal('endpoint_disabled')
    ])
  })
)

export const replayFacts = [ReplayRequested, ReplayAdvanced, ReplayEnded] as const

export type ReplayRequested = FactOf<typeof ReplayRequested>
export type ReplayAdvanced = FactOf<typeof ReplayAdvanced>
export type ReplayEnded = FactOf<typeof ReplayEnded>
export type ReplayFact = ReplayRequested | ReplayAdvanced | ReplayEnded
