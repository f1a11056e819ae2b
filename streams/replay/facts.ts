import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Time, type FactOf } from '../define.ts'

/** Deliveries a second at most, so that new events go first. */
export const PACE_MAX = 1000

/** One job that goes over the past with a cursor and sends an endpoint what it finds. Repeated on each fact, so that
 *  the last fact of its subject holds all of it. */
const replay = {
  replay: Id('rpl'),
  webhook: Id('wh'),
  /** `window` = all of the endpoint's events in a span of the past; `backfill` = the same for the time before the
   *  endpoint was created; `failed` = its deliveries that failed in a span of the past. */
  what: Type.Union([Type.Literal('backfill'), Type.Literal('window'), Type.Literal('failed')]),
  /** Of the events, or of the failures: at or after, and before. */
  from: Time,
  to: Time,
  /** The last sequence of EMAILS that belongs to it; 0 for `failed`. */
  through: Type.Integer({ minimum: 0 }),
  /** Deliveries a second. */
  pace: Type.Integer({ minimum: 1, maximum: PACE_MAX }),
  /** Where the next page begins: after this sequence of EMAILS, or for `failed` after this row of the projection. '' =
   *  at the start. */
  cursor: Type.String({ maxLength: 200 }),
  /** Deliveries of the last page: by them the next one waits. */
  lastPage: Type.Integer({ minimum: 0 }),
  /** Deliveries requested so far. */
  made: Type.Integer({ minimum: 0 })
}
export const Replay = Type.Object(replay)
export type Replay = Static<typeof Replay>

export const ReplayRequested = factType('replay.requested', 1, Replay)

/** A page is done: appended together with its deliveries. */
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
