import type { AnyFact } from '../catalog.ts'
import { Refusal } from '../define.ts'
import { isFor, type Event } from '../delivery/decide.ts'
import type { Owed } from '../delivery/facts.ts'
import type { WebhookEntry } from '../directory.ts'
import { PACE_MAX, type Replay, type ReplayEnded, type ReplayFact } from './facts.ts'
import type { WaitReason } from './wait.ts'

/** Deliveries a second unless somebody wants another number: a million in three hours. */
export const REPLAY_PACE = 100
/** Replays of one endpoint that may be under way together. */
export const REPLAYS_MAX = 10
/** Deliveries of one page, whatever the pace; events when they go out in batches. With the replay's own fact well below
 *  the 1,000 messages an atomic append may have. */
const PAGE_MAX = 500
const PAGE_EVENTS_MAX = 1000
/** An endpoint that does nothing but fail gets one delivery in so many ms, until one of them arrives. */
const FAILING_PAUSE_MS = 10_000

export type EndReason = ReplayEnded['data']['reason']

/** What somebody wants to have sent again. Times are Unix ms. */
export interface ReplayWish {
  what: 'window' | 'failed'
  fromMs: number
  /** Before that, and no later than now. */
  toMs: number
  /** Deliveries a second. */
  pace: number
}

/** What is wrong with a wish, or null. `keptMs` = how long the log keeps what it is about; `running` = the endpoint's
 *  replays under way. */
export function replayFault (
  wish: ReplayWish,
  { keptMs, nowMs, running }: { keptMs: number, nowMs: number, running: number }
): Refusal | null {
  const { fromMs, toMs, pace } = wish
  if (!Number.isInteger(pace) || pace < 1 || pace > PACE_MAX) {
    return new Refusal('invalid_pace', `The pace is a whole number of deliveries a second, 1 to ${PACE_MAX}.`)
  }
  if (toMs > nowMs) {
    return new Refusal('invalid_to', 'A replay ends now at the latest: what is still to come is sent anyway.')
  }
  if (fromMs >= toMs) return new Refusal('invalid_from', 'A replay begins before it ends.')
  if (nowMs - fromMs > keptMs) {
    return new Refusal(
      'invalid_from',
      `What is older than ${new Date(nowMs - keptMs).toISOString()} is no longer kept.`
    )
  }
  return running < REPLAYS_MAX
    ? null
    : new Refusal(
      'too_many_replays',
      `At most ${REPLAYS_MAX} replays of a webhook are under way together: wait for one of them, or cancel it.`
    )
}

/** What nobody sends to a disabled endpoint is not sent to it again. */
export function disabledFault ({ disabled }: WebhookEntry): Refusal | null {
  return disabled === null ? null : new Refusal('webhook_disabled', 'The webhook is disabled: enable it first.')
}

/** Is the event one of the replay's? Its endpoint's as it listens now, and of the time asked for. Where a backfill ends
 *  its place alone says: there the fan-out goes on, whatever the clocks of those who wrote the facts said. */
export function isOf (
  { what, from, to }: Pick<Replay, 'what' | 'from' | 'to'>,
  webhook: WebhookEntry,
  fact: AnyFact,
  event: Pick<Event, 'type' | 'between'>
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

/** How far a replay has come: `at` in words of its kind ('' = not begun), and the deliveries of the page before. */
export interface Progress {
  at: string
  before: number
}

export function progressOf ({ place }: Pick<Replay, 'place'>): Progress {
  const [at, before] = place.split(' ')
  return { at: at!, before: Number(before ?? 0) }
}

export function placeText ({ at, before }: Progress): string {
  return `${at} ${before}`
}

/** Ms until its next page may be made. `timeMs` = when the page before was. Never longer than the page is worth,
 *  however far the clocks are apart. */
export function pauseMs (
  replay: Replay,
  { failingSince }: Pick<WebhookEntry, 'failingSince'>,
  timeMs: number,
  nowMs: number
): number {
  const { before } = progressOf(replay)
  const worthMs = before === 0 ? 0 : Math.max(before / replay.pace * 1000, failingSince === null ? 0 : FAILING_PAUSE_MS)
  return Math.min(worthMs, Math.max(0, Math.ceil(timeMs + worthMs - nowMs)))
}

/** Why a replay cannot go on, or null. `webhook` is undefined once deleted. */
export function whyEnded (webhook: WebhookEntry | undefined, account: string): EndReason | null {
  if (webhook === undefined || webhook.account !== account) return 'endpoint_deleted'
  return webhook.disabled === null ? null : 'endpoint_disabled'
}

/** What a delivery's fact says is owed, for one more run of the same; null for a fact of none. */
export function owedIn (fact: AnyFact): Owed | null {
  switch (fact.type) {
    case 'delivery.requested':
    case 'delivery.attempted':
    case 'delivery.deferred':
    case 'delivery.failed': {
      const { delivery, webhook, replay, events, batch, test } = fact.data
      return { delivery, webhook, replay, events, batch, ...(test === undefined ? {} : { test }) }
    }
    default:
      return null
  }
}

/** Where a replay stands. */
export interface ReplayState extends Omit<Replay, 'place'> {
  account: string
  state: 'running' | EndReason
  /** Why it is put off for longer; null = it is not. */
  waits: WaitReason | null
  /** When it last came further, or ended. */
  changedAt: string
}

export function stateOf ({ account, data, time, type }: ReplayFact, waits: WaitReason | null = null): ReplayState {
  const { replay, webhook, what, from, to, through, pace, made } = data
  const state = type === 'replay.ended' ? (data as ReplayEnded['data']).reason : 'running'
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

/** The fact as one of a replay, or null. */
export function replayFactIn (fact: AnyFact): ReplayFact | null {
  return fact.type === 'replay.requested' || fact.type === 'replay.advanced' || fact.type === 'replay.ended'
    ? fact
    : null
}

/** Ends what is under way; said twice it happened once. */
export function cancelFault ({ state }: Pick<ReplayState, 'state'>): Refusal | null {
  return state === 'running' || state === 'canceled' ? null : new Refusal('replay_over', 'The replay is over already.')
}
