import type { TSchema } from '@sinclair/typebox'
import { Refusal, type FactType } from '../define.ts'
import type { WebhookEntry } from '../directory.ts'
import {
  EVENT_TYPES,
  WebhookChanged,
  WebhookDeleted,
  WebhookDisabled,
  WebhookEnabled,
  WebhookFailing,
  WebhookRecovered,
  WebhookRotationFinished,
  WebhookSecretRotated,
  type EventType
} from './facts.ts'

/** Endpoints an account may have: those of one partition, about an eighth, and a cursor must fit one atomic append
 *  (1,000 messages). */
export const WEBHOOKS_MAX = 1000
const URL_LENGTH_MAX = 2048
// The URL parser drops some of them and encodes others: what would be called is not what was said.
const CONTROL = /\p{Cc}/u

/** How long the secret before a rotation goes on signing. Source: contract, "Webhooks". */
const OVERLAP_MS = 24 * 3_600_000

/** What its owner decides about an endpoint. */
export interface WebhookSettings {
  url: string
  events: EventType[]
  paused: boolean
  /** Requests at once, 1 to 100; null = the dispatcher's choice. */
  concurrency: number | null
  /** Several events in one request; null = one event a request. */
  batch: { maxEvents: number, maxWaitMs: number } | null
  /** Is each deferral an event for it, or only the first and the end. */
  everyDeferral: boolean
}

/** What is left out stays as it is. `enabled` brings back an endpoint that is disabled. */
export type WebhookChanges = Partial<WebhookSettings> & { enabled?: true }

/** A fact to be: its type and data. */
export interface WebhookDecision {
  type: FactType<string, TSchema>
  data: unknown
}

/** Where callbacks may go, as far as the text tells; the address is checked when the connection is made. `plain` = http
 *  is allowed. Source: contract, "Webhooks". */
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

/** A subset of spec 6.1's types: at least one, none twice. */
export function eventsFault (events: readonly string[]): Refusal | null {
  const known = events.every(name => (EVENT_TYPES as readonly string[]).includes(name))
  const fine = known && events.length > 0 && new Set(events).size === events.length
  return fine
    ? null
    : new Refusal('invalid_events', 'events must be a list of at least 1 event type, without duplicates.')
}

/** `count` = the endpoints the account already has. */
export function countFault (count: number): Refusal | null {
  return count < WEBHOOKS_MAX
    ? null
    : new Refusal('too_many_webhooks', `An account can have at most ${WEBHOOKS_MAX} webhooks: delete one first.`)
}

/** What changes: nothing when all is so already. The order of events says nothing. */
export function decideChange (webhook: WebhookEntry, { enabled, ...changes }: WebhookChanges): WebhookDecision[] {
  const { id, url, events, paused, concurrency, batch, everyDeferral } = webhook
  const before: WebhookSettings = { url, events, paused, concurrency, batch, everyDeferral }
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

/** An endpoint that has failed for as long is said to be failing; said at once it would be a fact for every hiccup,
 *  kept for ever. */
const FAILING_SAID_MS = 15 * 60_000
/** "Five days of nothing but failure disable the endpoint, and say so" (contract, "Webhooks"). */
export const FAILING_MS_MAX = 5 * 24 * 3_600_000

/** What a failure means for an endpoint that, as far as this process saw, has done nothing but fail since `sinceMs`. */
export function decideFailure (webhook: WebhookEntry, sinceMs: number, nowMs: number): WebhookDecision[] {
  const { id, disabled, failingSince, workedAt } = webhook
  if (disabled !== null) return []
  if (failingSince !== null) {
    return nowMs - Date.parse(failingSince) < FAILING_MS_MAX
      ? []
      : [{ type: WebhookDisabled, data: { webhook: id, reason: 'failing' } }]
  }
  const begunMs = Math.max(sinceMs, workedAt === null ? 0 : Date.parse(workedAt))
  return nowMs - begunMs < FAILING_SAID_MS
    ? []
    : [{ type: WebhookFailing, data: { webhook: id, since: new Date(begunMs).toISOString() } }]
}

/** What 410 means. */
export function decideGone ({ id, disabled }: WebhookEntry): WebhookDecision[] {
  return disabled === null ? [{ type: WebhookDisabled, data: { webhook: id, reason: 'gone' } }] : []
}

/** What a success means. */
export function decideSuccess ({ id, failingSince }: WebhookEntry): WebhookDecision[] {
  return failingSince === null ? [] : [{ type: WebhookRecovered, data: { webhook: id } }]
}

/** The secret that still signs beside the present one, or null when no rotation is under way. */
export function overlapOf ({ previous }: WebhookEntry, nowMs: number): WebhookEntry['previous'] {
  return previous !== null && nowMs < previous.untilMs ? previous : null
}

/** A new secret. Refused during an overlap: receivers that still check by the oldest secret would be cut off without
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

/** The end of an overlap before its time. */
export function decideFinish (webhook: WebhookEntry, nowMs: number): WebhookDecision[] | Refusal {
  if (overlapOf(webhook, nowMs) === null) return new Refusal('no_rotation', 'No rotation of the secret is under way.')
  return [{ type: WebhookRotationFinished, data: { webhook: webhook.id } }]
}

export function decideDelete (webhook: WebhookEntry): WebhookDecision[] {
  return [{ type: WebhookDeleted, data: { webhook: webhook.id } }]
}

/** A test event shows that callbacks arrive now: where none are sent it is refused, not kept for later. */
export function testFault ({ disabled, paused }: WebhookEntry): Refusal | null {
  if (disabled !== null) return new Refusal('webhook_disabled', 'The webhook is disabled: enable it first.')
  return paused ? new Refusal('webhook_paused', 'The webhook is paused: resume it first.') : null
}
