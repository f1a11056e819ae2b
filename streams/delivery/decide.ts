import type { AnyFact } from '../catalog.ts'
import type { WebhookEntry } from '../directory.ts'
import type { BounceChoice, EventType } from '../webhook/facts.ts'
import type { Owed, DeliveryFailed } from './facts.ts'

/** A delivery that has not ended: all that an attempt needs. */
export interface Pending {
  owed: Owed
  account: string
  correlation: string
  causation: string | null
  trace?: string
  /** Requests made so far. */
  attempts: number
  /** When the 24 hours began (RFC 3339); null before the first attempt. */
  firstAttemptAt: string | null
  /** When its next attempt is due, RFC 3339: the first at once. */
  dueAt: string
}

/** The delivery as `fact` leaves it: null when it has ended; undefined when the fact is of no delivery. Pure. */
export function pendingAfter (fact: AnyFact): Pending | null | undefined {
  switch (fact.type) {
    case 'delivery.requested':
      return { ...envelope(fact, fact.data), attempts: 0, firstAttemptAt: null, dueAt: fact.time }
    case 'delivery.moved': {
      const { attempts, firstAttemptAt, nextAttemptAt } = fact.data
      return { ...envelope(fact, fact.data), attempts, firstAttemptAt, dueAt: nextAttemptAt }
    }
    case 'delivery.attempted': {
      const { nextAttemptAt, attempt, firstAttemptAt } = fact.data
      if (nextAttemptAt === null) return null
      return { ...envelope(fact, fact.data), attempts: attempt, firstAttemptAt, dueAt: nextAttemptAt }
    }
    case 'delivery.failed':
      return null
    default:
      return undefined
  }
}

type Envelope = Pick<Pending, 'owed' | 'account' | 'correlation' | 'causation' | 'trace'>

function envelope (fact: AnyFact, owed: Owed): Envelope {
  return {
    owed: owedOnly(owed),
    account: fact.account,
    correlation: fact.correlation,
    causation: fact.id,
    ...(fact.trace === undefined ? {} : { trace: fact.trace })
  }
}

/** What a delivery is, without what became of it. */
export function owedOnly ({ delivery, webhook, replay, events, batch, format, test }: Owed): Owed {
  return {
    delivery,
    webhook,
    replay,
    events,
    batch,
    ...(format === undefined ? {} : { format }),
    ...(test === undefined ? {} : { test })
  }
}

/** What a delivery to an endpoint says of its format. */
export function formatOf ({ format }: Pick<WebhookEntry, 'format'>): Pick<Owed, 'format'> {
  return format === 'jetpost' ? {} : { format }
}

const HOUR_MS = 3_600_000

/** Seconds between attempts, by how many have been made: 23 h 42 m 35 s in all. Source: contract, "Webhooks". */
export const GAPS_S: readonly number[] = [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 21_600, 36_000]
/** "Failed deliveries are retried with exponential backoff for up to 24 hours" (spec 6.4). */
export const RETRY_MS_MAX = 24 * HOUR_MS
/** "A pause holds them and stops their clock for up to 24 h" (contract, "Webhooks"). */
const PAUSED_MS_MAX = 24 * HOUR_MS
/** An endpoint may be busy when its turn comes: this much after the 24 hours still counts as in time. */
const LATE_MS_MAX = 60_000
const JITTER = 0.1
/** Facts older than this are not fanned out: WEBHOOKS is kept so long, so an older fact's cursor may have left it. */
export const EVENT_AGE_MS_MAX = 30 * 24 * HOUR_MS

export interface RetryInput {
  /** Attempts made, from 1. */
  attempts: number
  /** Unix ms of the first one. */
  firstMs: number
  /** Unix ms now: gaps count from the end of an attempt. */
  nowMs: number
  /** The receiver's `Retry-After` in ms, or null. */
  retryAfterMs: number | null
  /** In [0, 1). */
  random: () => number
  gapsS?: readonly number[]
}

/** Unix ms of the next attempt, or null to give up. A gap is shortened by up to 10 %; `Retry-After` may lengthen it. An
 *  attempt that would come more than 24 h after the first is made right then, as the last. Source: contract,
 *  "Webhooks". */
export function retryAtMs (
  { attempts, firstMs, nowMs, retryAfterMs, random, gapsS = GAPS_S }: RetryInput
): number | null {
  const gapS = gapsS[attempts - 1]
  const endMs = firstMs + RETRY_MS_MAX
  if (gapS === undefined || nowMs >= endMs) return null
  const gapMs = gapS * 1000 * (1 - JITTER * random())
  return Math.round(Math.min(endMs, nowMs + Math.max(gapMs, retryAfterMs ?? 0)))
}

const WEEKDAY = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/
const ZONED = /GMT$/

/** `Retry-After` in milliseconds, from 0 on: seconds (however many) or an HTTP date in any of its three forms. Null
 *  when it is missing or malformed. Source: RFC 9110 10.2.3, 5.6.7. */
export function retryAfterMs (text: string | null, nowMs: number): number | null {
  if (text === null) return null
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, Number.MAX_SAFE_INTEGER)
  const untilMs = WEEKDAY.test(text) ? Date.parse(ZONED.test(text) ? text : `${text} GMT`) : NaN
  return Number.isNaN(untilMs) ? null : Math.max(0, untilMs - nowMs)
}

/** For how many ms an endpoint was paused since `fromMs` (Unix ms): 24 h at most. */
export function pausedMs ({ pauses }: Pick<WebhookEntry, 'pauses'>, fromMs: number, nowMs: number): number {
  const ms = pauses.reduce((sum, pause) => {
    return sum + Math.max(0, (pause.toMs ?? nowMs) - Math.max(fromMs, pause.fromMs))
  }, 0)
  return Math.min(ms, PAUSED_MS_MAX)
}

export type GiveUpReason = DeliveryFailed['data']['reason']

/** Why a delivery must not be attempted any more, or null. `webhook` is undefined once deleted. One that was never
 *  attempted may be late: it expires only behind a pause that lasts too long, and its 24 hours began when it was due.
 */
export function giveUpReason (
  pending: Pick<Pending, 'account' | 'attempts' | 'firstAttemptAt' | 'dueAt'>,
  webhook: WebhookEntry | undefined,
  nowMs: number
): GiveUpReason | null {
  if (webhook === undefined || webhook.account !== pending.account) return 'endpoint_deleted'
  if (webhook.disabled !== null) return 'endpoint_disabled'
  if (pending.attempts === 0 && !webhook.paused) return null
  const firstMs = Date.parse(pending.firstAttemptAt ?? pending.dueAt)
  const endMs = firstMs + RETRY_MS_MAX + pausedMs(webhook, firstMs, nowMs)
  return nowMs > endMs + (webhook.paused ? 0 : LATE_MS_MAX) ? 'expired' : null
}

/** 2xx is success. Source: contract, "Webhooks". */
export function isSuccess (status: number | null): boolean {
  return status !== null && status >= 200 && status < 300
}

/** 410 says that the URL is gone for good: the endpoint is disabled. Source: contract, "Webhooks"; RFC 9110 15.5.11. */
export function isGone (status: number | null): boolean {
  return status === 410
}

/** The event that each fact of EMAILS makes; the others make none. Source: spec 6.1. */
const EVENTS: Partial<Record<AnyFact['type'], EventType>> = {
  'email.delivered': 'email.delivered',
  'email.bounced': 'email.bounced',
  'email.deferred': 'email.bounced',
  'email.failed': 'email.bounced',
  'email.opened': 'email.opened',
  'email.clicked': 'email.clicked',
  'email.complained': 'email.complained',
  'email.unsubscribed': 'email.unsubscribed'
}

/** An event ready to be sent: its type, its exact bytes as text, and its email. */
export interface Event {
  type: EventType
  body: string
  email: string
  /** A deferral after the first one: only endpoints with `everyDeferral` get it. */
  isLaterDeferral: boolean
}

/** The event that a fact makes, or null. */
export function eventIn (fact: AnyFact): Event | null {
  const type = EVENTS[fact.type]
  if (type === undefined || !('email' in fact.data) || !('event' in fact.data) || typeof fact.data.event !== 'string') {
    return null
  }
  return {
    type,
    body: fact.data.event,
    email: fact.data.email,
    isLaterDeferral: fact.type === 'email.deferred' && !fact.data.first
  }
}

/** Is it of mail of a test key. */
function isTest (body: string): boolean {
  return (JSON.parse(body) as { data?: { test?: boolean } }).data?.test === true
}

function isChosen (choice: BounceChoice, isDeferral: boolean): boolean {
  return choice === 'all' || isDeferral === (choice === 'deferred')
}

/** Is the event for the endpoint? It must be of its account, of one of its types and its mode, and not before its
 *  start. */
export function isFor (
  webhook: WebhookEntry,
  fact: AnyFact,
  { type, isLaterDeferral, body }: Pick<Event, 'type' | 'isLaterDeferral' | 'body'>
): boolean {
  const wanted = webhook.events.includes(type) && (webhook.everyDeferral || !isLaterDeferral) &&
    (type !== 'email.bounced' || isChosen(webhook.bounces, fact.type === 'email.deferred')) &&
    (webhook.mode === 'both' || isTest(body) === (webhook.mode === 'test'))
  return wanted && webhook.account === fact.account && webhook.disabled === null && fact.time >= webhook.startAt
}
