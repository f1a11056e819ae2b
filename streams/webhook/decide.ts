import { Refusal, type UnstampedOf } from '../define.ts'
import type { WebhookEntry } from '../directory.ts'
import {
  EVENT_TYPES,
  URL_LENGTH_MAX,
  WebhookChanged,
  WebhookDeleted,
  WebhookDisabled,
  WebhookEnabled,
  WebhookFailing,
  WebhookRecovered,
  WebhookRotationFinished,
  WebhookSecretResealed,
  WebhookSecretRotated,
  webhookFacts,
  type BounceChoice,
  type EventType,
  type WebhookFormat,
  type WebhookMode
} from './facts.ts'

/** Endpoints an account may have: those of one partition, about an eighth, and a cursor must fit one atomic append
 *  (1,000 messages). */
export const WEBHOOKS_MAX = 1000
// The URL parser drops some of them and encodes others: the URL called would not be the one given.
const CONTROL = /\p{Cc}/u

/** How long the secret before a rotation goes on signing. Source: contract, "Webhooks". */
const OVERLAP_MS = 24 * 3_600_000

/** What an endpoint's owner decides. */
export interface WebhookSettings {
  url: string
  events: EventType[]
  paused: boolean
  /** Requests at once, 1 to CONCURRENCY_MAX; null = the default, 8. */
  concurrency: number | null
  /** Several events in one request; null = one event a request. */
  batch: { maxEvents: number, maxWaitMs: number } | null
  /** Does it get an event for each deferral, or only for the first one and the outcome. */
  everyDeferral: boolean
  bounces: BounceChoice
  /** The keys whose mail it hears of. */
  mode: WebhookMode
}

/** Settings that are missing stay as they are. `enabled` enables a disabled endpoint. */
export type WebhookChanges = Partial<WebhookSettings> & { enabled?: true }

export type WebhookDecision = UnstampedOf<typeof webhookFacts[number]>

/** What is wrong with an endpoint's URL, as far as the text shows, or null; the address is checked on connect. `plain`
 *  = http is allowed. Source: contract, "Webhooks". */
export function urlFault (text: string, plain: boolean): Refusal | null {
  const url = text.length > URL_LENGTH_MAX || text.trim() !== text || CONTROL.test(text) ? null : URL.parse(text)
  if (url === null) {
    return new Refusal('invalid_url', `url must be an absolute URL of at most ${URL_LENGTH_MAX} characters.`)
  }
  if (url.protocol !== 'https:' && !(plain && url.protocol === 'http:')) {
    return new Refusal(
      'invalid_url',
      plain ? 'url must start with https:// or http://.' : 'url must start with https://.'
    )
  }
  return url.username !== '' || url.password !== ''
    ? new Refusal('invalid_url', 'url must not contain a user name or password.')
    : null
}

/** Events must be a subset of spec 6.1's types: at least one, none twice. */
export function eventsFault (events: readonly string[]): Refusal | null {
  const known = events.every(name => (EVENT_TYPES as readonly string[]).includes(name))
  const fine = known && events.length > 0 && new Set(events).size === events.length
  return fine
    ? null
    : new Refusal('invalid_events', 'events must be a list of at least 1 event type, without duplicates.')
}

/** Resend knows no batches: its receivers could not read them. */
export function formatFault (format: WebhookFormat, batch: WebhookSettings['batch'] | undefined): Refusal | null {
  return format === 'jetpost' || batch == null
    ? null
    : new Refusal('not_supported', 'batch must be null while format is resend.')
}

/** `count` = the endpoints the account already has. */
export function countFault (count: number): Refusal | null {
  return count < WEBHOOKS_MAX
    ? null
    : new Refusal('too_many_webhooks', `An account can have at most ${WEBHOOKS_MAX} webhooks: delete one first.`)
}

/** What changes; nothing when the settings are the same. The order of events does not count. */
export function decideChange (webhook: WebhookEntry, { enabled, ...changes }: WebhookChanges): WebhookDecision[] {
  const { id, url, events, paused, concurrency, batch, everyDeferral, bounces, mode } = webhook
  const before: WebhookSettings = { url, events, paused, concurrency, batch, everyDeferral, bounces, mode }
  const settings = { ...before, ...changes }
  return [
    ...(sameSettings(before, settings) ? [] : [{ type: WebhookChanged, data: { webhook: id, ...settings } }]),
    ...(enabled === true && webhook.disabled !== null ? [{ type: WebhookEnabled, data: { webhook: id } }] : [])
  ]
}

function sameSettings (a: WebhookSettings, b: WebhookSettings): boolean {
  const { events, batch, ...plain } = a
  const sameEvents = events.length === b.events.length && b.events.every(name => events.includes(name))
  const sameBatch = batch?.maxEvents === b.batch?.maxEvents && batch?.maxWaitMs === b.batch?.maxWaitMs
  return sameEvents && sameBatch &&
    Object.entries(plain).every(([name, value]) => value === b[name as keyof typeof plain])
}

/** An endpoint is recorded as failing after so long. At once would be a fact for every short failure, kept for ever. */
const FAILING_MS_MIN = 15 * 60_000
/** "Five days of nothing but failure disable the endpoint, and say so" (contract, "Webhooks"). */
export const FAILING_MS_MAX = 5 * 24 * 3_600_000

/** After a failed request to an endpoint that, as far as this process saw, has done nothing but fail since `sinceMs`.
 */
export function decideFailure (webhook: WebhookEntry, sinceMs: number, nowMs: number): WebhookDecision[] {
  const { id, disabled, failingSince, workedAt } = webhook
  if (disabled !== null) return []
  if (failingSince !== null) {
    return nowMs - Date.parse(failingSince) < FAILING_MS_MAX
      ? []
      : [{ type: WebhookDisabled, data: { webhook: id, reason: 'failing' } }]
  }
  const begunMs = Math.max(sinceMs, workedAt === null ? 0 : Date.parse(workedAt))
  return nowMs - begunMs < FAILING_MS_MIN
    ? []
    : [{ type: WebhookFailing, data: { webhook: id, since: new Date(begunMs).toISOString() } }]
}

/** After a 410. */
export function decideGone ({ id, disabled }: WebhookEntry): WebhookDecision[] {
  return disabled === null ? [{ type: WebhookDisabled, data: { webhook: id, reason: 'gone' } }] : []
}

/** After a successful request. */
export function decideSuccess ({ id, failingSince }: WebhookEntry): WebhookDecision[] {
  return failingSince === null ? [] : [{ type: WebhookRecovered, data: { webhook: id } }]
}

/** The previous secret while it still signs beside the current one, or null when no rotation is under way. */
export function overlapOf ({ previous }: WebhookEntry, nowMs: number): WebhookEntry['previous'] {
  return previous !== null && nowMs < previous.untilMs ? previous : null
}

/** A new secret. Refused during an overlap: receivers that still verify with the oldest secret would fail without
 *  notice. */
export function decideRotation (
  webhook: WebhookEntry,
  sealedSecret: string,
  nowMs: number
): WebhookDecision[] | Refusal {
  if (overlapOf(webhook, nowMs) !== null) {
    return new Refusal(
      'rotation_under_way',
      'The previous secret still signs: finish that rotation first.'
    )
  }
  const previousUntil = new Date(nowMs + OVERLAP_MS).toISOString()
  return [{ type: WebhookSecretRotated, data: { webhook: webhook.id, sealedSecret, previousUntil } }]
}

/** The secrets that still sign, sealed with the newest of JETPOST_SECRET; nothing when they are so already. `reseal`
 *  says what becomes of a sealed one, null = it stays. */
export function decideReseal (
  webhook: WebhookEntry,
  reseal: (sealed: string) => string | null,
  nowMs: number
): WebhookDecision[] {
  const { id, sealedSecret } = webhook
  const previous = overlapOf(webhook, nowMs)?.sealedSecret ?? null
  const now = reseal(sealedSecret)
  const before = previous === null ? null : reseal(previous)
  if (now === null && before === null) return []
  const sealed = { sealedSecret: now ?? sealedSecret, previousSealedSecret: before ?? previous }
  return [{ type: WebhookSecretResealed, data: { webhook: id, ...sealed } }]
}

/** Ends an overlap early. */
export function decideFinish (webhook: WebhookEntry, nowMs: number): WebhookDecision[] | Refusal {
  if (overlapOf(webhook, nowMs) === null) return new Refusal('no_rotation', 'No rotation of the secret is under way.')
  return [{ type: WebhookRotationFinished, data: { webhook: webhook.id } }]
}

export function decideDelete (webhook: WebhookEntry): WebhookDecision[] {
  return [{ type: WebhookDeleted, data: { webhook: webhook.id } }]
}

/** A test event shows whether callbacks arrive now: it is refused when none are sent. */
export function testFault ({ disabled, paused }: WebhookEntry): Refusal | null {
  if (disabled !== null) return new Refusal('webhook_disabled', 'The webhook is disabled: enable it first.')
  return paused ? new Refusal('webhook_paused', 'The webhook is paused: resume it first.') : null
}
