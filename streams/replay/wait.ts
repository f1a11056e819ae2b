import { Type, type Static } from '@sinclair/typebox'
import { Id } from '../define.ts'

/** Why a replay makes no page now: its endpoint is paused, or does nothing but fail; the page before has not had its
 *  time; too much waits that replays have asked for, of all endpoints or of its own; the view of deliveries does not
 *  answer, or something else did not. */
const REASONS = ['paused', 'failing', 'pace', 'crowded', 'behind', 'view', 'trouble'] as const
export type WaitReason = typeof REASONS[number]

/** What a replay that waits for longer is woken with: for the turn of its fact at `seq`, having been put off for the
 *  same reason `waits` times before. */
export const ReplayWake = Type.Object({
  webhook: Id('wh'),
  replay: Id('rpl'),
  seq: Type.Integer({ minimum: 1 }),
  why: Type.Union(REASONS.map(reason => Type.Literal(reason))),
  waits: Type.Integer({ minimum: 0 })
})
export type ReplayWake = Static<typeof ReplayWake>

/** From how many ms it doubles to how many. Resuming brings forward what waits for the end of a pause; 0 = the wait
 *  itself is known. */
const AGAIN_MS: Record<WaitReason, [least: number, most: number]> = {
  paused: [60_000, 600_000],
  failing: [0, 0],
  pace: [0, 0],
  crowded: [1000, 8000],
  behind: [5000, 30_000],
  view: [5000, 60_000],
  trouble: [5000, 300_000]
}

/** How often a replay was put off for this reason before. */
export function waitsBefore (why: WaitReason, wake: Pick<ReplayWake, 'why' | 'waits'> | null): number {
  return wake?.why === why ? wake.waits + 1 : 0
}

/** Ms until a replay that was put off `waits` times before is looked at again; at least `ms`. */
export function lookAgainMs (why: WaitReason, waits: number, ms: number): number {
  const [least, most] = AGAIN_MS[why]
  return Math.max(ms, Math.min(most, least * 2 ** Math.min(waits, 20)))
}
