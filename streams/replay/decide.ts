import { Type, type Static } from '@sinclair/typebox'
import type { AnyFact } from '../catalog.ts'
import { Id, Refusal } from '../define.ts'
import { isFor, owedOnly, type Event } from '../delivery/decide.ts'
import type { Owed } from '../delivery/facts.ts'
import type { WebhookEntry } from '../directory.ts'
import { PACE_MAX, type Replay, type ReplayEnded, type ReplayFact } from './facts.ts'

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

/** Deliveries a second by default: a million in three hours. */
export const REPLAY_PACE = 100
/** Replays of one endpoint under way at once. */
export const REPLAYS_MAX = 10
/** Deliveries of one page at any pace, and events when they go out in batches. With the replay's own fact well below
 *  the 1,000 messages an atomic append may have. */
const PAGE_MAX = 500
const PAGE_EVENTS_MAX = 1000
/** An endpoint that does nothing but fail gets one delivery in so many ms, until one of them arrives. */
const FAILING_PAUSE_MS = 10_000
/** The fact that opened the backfill of an older endpoint may have left the log of deliveries, which is kept 30 days.
 */
const BACKFILL_AGE_MS_MAX = 29 * 24 * 3_600_000

export type EndReason = ReplayEnded['data']['reason']

/** What a client asks to replay. Times are Unix ms. */
export interface ReplayWish {
  what: 'window' | 'failed'
  fromMs: number
  /** Before that, and no later than now. */
  toMs: number
  /** Deliveries a second. */
  pace: number
}

/** What is wrong with a request for a replay, or null. `keptMs` = how long the log keeps the facts that it reads;
 *  `running` = the endpoint's replays under way. */
export function replayFault (
  wish: ReplayWish,
  { keptMs, nowMs, running }: { keptMs: number, nowMs: number, running: number }
): Refusal | null {
  const { fromMs, toMs, pace } = wish
  if (!Number.isInteger(pace) || pace < 1 || pace > PACE_MAX) {
    return new Refusal('invalid_pace', `The pace must be a whole number of deliveries a second, 1 to ${PACE_MAX}.`)
  }
  if (toMs > nowMs) {
    return new Refusal('invalid_to', 'A replay must end now at the latest: later events are sent anyway.')
  }
  if (fromMs >= toMs) return new Refusal('invalid_from', 'A replay must begin before it ends.')
  if (nowMs - fromMs > keptMs) {
    return new Refusal(
      'invalid_from',
      `A replay must not begin before ${new Date(nowMs - keptMs).toISOString()}: what is older is no longer kept.`
    )
  }
  return running < REPLAYS_MAX
    ? null
    : new Refusal(
      'too_many_replays',
      `A webhook can have at most ${REPLAYS_MAX} replays under way: wait for one, or cancel one.`
    )
}

/** A disabled endpoint gets no events, and so no replay. */
export function disabledFault ({ disabled }: WebhookEntry): Refusal | null {
  return disabled === null ? null : new Refusal('webhook_disabled', 'The webhook is disabled: enable it first.')
}

/** The id of an endpoint's backfill: it has one at most, and any replay requested later has a greater id. */
export function backfillId (webhook: string): string {
  return `rpl_${webhook.slice('wh_'.length)}`
}

/** Does an endpoint get what happened before it was created? Then its backfill must be opened before anything else goes
 *  to it. */
export function wantsBackfill ({ startAt, createdAt }: WebhookEntry, nowMs: number): boolean {
  return startAt < createdAt && nowMs - Date.parse(createdAt) < BACKFILL_AGE_MS_MAX
}

/** A replay of which no page is made yet. */
export function newReplay (replay: Omit<Replay, 'cursor' | 'lastPage' | 'made'>): Replay {
  return { ...replay, cursor: '', lastPage: 0, made: 0 }
}

/** Does the event belong to the replay? It must be for the endpoint as it listens now, and of the replay's time. A
 *  backfill ends at `through` alone: there the fan-out goes on, whatever the clocks of those who wrote the facts said.
 */
export function isOf (
  { what, from, to }: Pick<Replay, 'what' | 'from' | 'to'>,
  webhook: WebhookEntry,
  fact: AnyFact,
  event: Pick<Event, 'type' | 'isLaterDeferral' | 'body'>
): boolean {
  return isFor({ ...webhook, startAt: from }, fact, event) && (what === 'backfill' || fact.time < to)
}

/** Deliveries of one page at most: about half a second's. */
export function pageSize (
  { pace }: Pick<Replay, 'pace'>,
  { batch, failingSince }: Pick<WebhookEntry, 'batch' | 'failingSince'>
): number {
  if (failingSince !== null) return 1
  return Math.min(PAGE_MAX, Math.ceil(pace / 2), Math.max(1, Math.floor(PAGE_EVENTS_MAX / (batch?.maxEvents ?? 1))))
}

/** Ms until its next page may be made. `timeMs` = when the last one was. Never longer than that page is worth, however
 *  far the clocks are apart. */
export function pauseMs (
  { lastPage, pace }: Pick<Replay, 'lastPage' | 'pace'>,
  { failingSince }: Pick<WebhookEntry, 'failingSince'>,
  timeMs: number,
  nowMs: number
): number {
  const worthMs = lastPage === 0 ? 0 : Math.max(lastPage / pace * 1000, failingSince === null ? 0 : FAILING_PAUSE_MS)
  return Math.min(worthMs, Math.max(0, Math.ceil(timeMs + worthMs - nowMs)))
}

/** Why a replay cannot go on, or null. `webhook` is undefined once deleted. */
export function endReasonOf (webhook: WebhookEntry | undefined, account: string): EndReason | null {
  if (webhook === undefined || webhook.account !== account) return 'endpoint_deleted'
  return webhook.disabled === null ? null : 'endpoint_disabled'
}

/** What a delivery's fact holds for one more run of it; null for any other fact. */
export function owedIn (fact: AnyFact): Owed | null {
  switch (fact.type) {
    case 'delivery.requested':
    case 'delivery.attempted':
    case 'delivery.moved':
    case 'delivery.failed':
      return owedOnly(fact.data)
    default:
      return null
  }
}

/** How far a replay has come. */
export interface ReplayState extends Omit<Replay, 'cursor' | 'lastPage'> {
  account: string
  state: 'running' | EndReason
  /** Why it waits for longer; null = it does not. */
  waits: WaitReason | null
  /** When its last page was made, or when it ended. */
  changedAt: string
}

export function stateOf ({ account, data, time, type }: ReplayFact, waits: WaitReason | null = null): ReplayState {
  const { replay, webhook, what, from, to, through, pace, made } = data
  const state = type === 'replay.ended' ? data.reason : 'running'
  return {
    replay,
    account,
    webhook,
    what,
    from,
    to,
    through,
    pace,
    made,
    state,
    waits: state === 'running' ? waits : null,
    changedAt: time
  }
}

/** The fact if it is a replay's, or null. */
export function replayFactIn (fact: AnyFact): ReplayFact | null {
  return fact.type === 'replay.requested' || fact.type === 'replay.advanced' || fact.type === 'replay.ended'
    ? fact
    : null
}

/** Canceling twice is the same as once. */
export function cancelFault ({ state }: Pick<ReplayState, 'state'>): Refusal | null {
  return state === 'running' || state === 'canceled' ? null : new Refusal('replay_over', 'The replay is over already.')
}
