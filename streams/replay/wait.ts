import { Type, type Static } from '@sinclair/typebox'
import { Id } from '../define.ts'

/** Why a replay makes no page now: its endpoint is paused, or does nothing but fail; its last page has not had its
 *  time; too many replayed deliveries wait, of all endpoints or of its own; the projection of deliveries does not
 *  answer; another error. */
const REASONS = ['paused', 'failing', 'pace', 'behind', 'projection', 'error'] as const
export type WaitReason = typeof REASONS[number]

/** The payload of a waiting replay's schedule: its last fact is at `seq`, and it has waited for the same reason `waits`
 *  times before. */
export const ReplayWake = Type.Object({
  webhook: Id('wh'),
  replay: Id('rpl'),
  seq: Type.Integer({ minimum: 1 }),
  why: Type.Union(REASONS.map(reason => Type.Literal(reason))),
  waits: Type.Integer({ minimum: 0 })
})
export type ReplayWake = Static<typeof ReplayWake>

/** The delay in ms doubles from `min` to `max`. Resuming an endpoint wakes its replays at once; 0 = the wait itself is
 *  known. */
const BACKOFF_MS: Record<WaitReason, [min: number, max: number]> = {
  paused: [60_000, 600_000],
  failing: [0, 0],
  pace: [0, 0],
  behind: [5000, 30_000],
  projection: [5000, 60_000],
  error: [5000, 300_000]
}

/** How often a replay has waited for this reason before. */
export function waitsBefore (why: WaitReason, wake: Pick<ReplayWake, 'why' | 'waits'> | null): number {
  return wake?.why === why ? wake.waits + 1 : 0
}

/** Ms until a replay that has waited `waits` times before gets its next turn; at least `ms`. */
export function nextTurnMs (why: WaitReason, waits: number, ms: number): number {
  const [min, max] = BACKOFF_MS[why]
  return Math.max(ms, Math.min(max, min * 2 ** Math.min(waits, 20)))
}
