import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import { bodyOf, NO_BODIES } from '#src/actions/delivery-body.ts'
import { causeOf, failDelivery, recordAttempt } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { judgeWebhook } from '#src/actions/webhook.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import { idTimeMs } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import type { Vault } from '#src/base/secret.ts'
import { inSpan, traceparentOf } from '#src/base/tracing.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { isGone, isSuccess, pausedMs, retryAfterMs, retryAtMs, type Pending } from '#streams/delivery/decide.ts'
import type { DeliveryAttempted, Member } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { overlapOf } from '#streams/webhook/decide.ts'
import type { BodyCache } from './body-cache.ts'
import type { InTurn } from './direct.ts'
import type { EndpointHealth } from './endpoint-health.ts'
import type { EndpointAnswer } from './endpoint.ts'
import type { Poster, PostResult } from './post.ts'

/** A signing secret as key objects, created once: a key passed as bytes costs five times the signature. */
export interface SigningKeys {
  /** The whole secret as it was shown, `whsec_` and base64. */
  text: KeyObject
  /** The bytes after `whsec_`. */
  bytes: KeyObject
}

export function signingKeys (secret: string): SigningKeys {
  return { text: createSecretKey(secret, 'utf8'), bytes: createSecretKey(secret.slice('whsec_'.length), 'base64') }
}

interface SignatureInput {
  keys: SigningKeys
  /** The keys of the secret before a rotation, while it still signs. */
  previous: SigningKeys | null
  /** The event's id: `webhook-id` is the same on every attempt. */
  id: string
  /** Unix seconds of this attempt. */
  timestampS: number
  body: Uint8Array
}

/** The headers that prove a callback is ours: spec 6.3's, keyed with the secret's text, and the three of Standard
 *  Webhooks, keyed with the bytes after `whsec_`, which also sign id and time. While a rotation overlaps, both secrets
 *  sign in the list, newest first; the spec's header holds one signature, the old secret's. Source: spec 6.3; contract,
 *  "Webhooks"; standardwebhooks.com. */
export function signatureHeaders ({ keys, previous, id, timestampS, body }: SignatureInput): Record<string, string> {
  const digest = createHmac('sha256', (previous ?? keys).text).update(body).digest('hex')
  const standard = ({ bytes }: SigningKeys) =>
    `v1,${createHmac('sha256', bytes).update(`${id}.${timestampS}.`).update(body).digest('base64')}`
  return {
    'X-Service-Signature': `sha256=${digest}`,
    'webhook-id': id,
    'webhook-timestamp': String(timestampS),
    'webhook-signature': previous === null ? standard(keys) : `${standard(keys)} ${standard(previous)}`
  }
}

/** The same under the names that Resend's receivers look for. */
function underSvixNames (headers: Record<string, string>): Record<string, string> {
  const three = ['id', 'timestamp', 'signature'].map(name => [`svix-${name}`, headers[`webhook-${name}`]!])
  return { ...headers, ...Object.fromEntries(three) }
}

export interface RequesterOptions {
  factLog: FactLog
  directory: LiveDirectory
  vault: Vault
  bodies: BodyCache
  /** What calls the endpoints of an account, where that account's may be called. */
  posterOf: (account: string) => Poster
  health: EndpointHealth
  log: Log
  random: () => number
  gapsS: readonly number[]
  onAttempt?: OnAttempt
}

/** Called for each request, for metrics. */
export type OnAttempt = (
  attempt: { result: DeliveryAttempted['data']['result'], status: number | null, durationMs: number }
) => void

/** An attempt. `record` makes it durable: the endpoint need not wait for it. */
export interface DeliveryAttemptOutcome extends EndpointAnswer {
  record(): Promise<Recorded<AnyFact>>
}

/** A fact younger than this that cannot be read has not reached every replica of the log yet. */
const YOUNG_MS = 60_000
const DISABLED_MS = 2000
const SECRETS_MAX = 10_000
/** In place of a request that could not be signed. */
const UNSIGNED: PostResult = {
  status: null,
  error: 'the signing secret cannot be opened: JETPOST_SECRET has changed',
  errorKind: 'unsigned',
  response: '',
  retryAfter: null,
  durationMs: 0
}

/** A request and its result. `url` as it was then: the endpoint's may change meanwhile. */
interface Exchange {
  url: string
  headers: Record<string, string>
  result: PostResult
  startedMs: number
}

/** When the delivery was first tried, when this request ended, and when the next attempt is due (null = never), Unix
 *  ms. */
interface AttemptTimes {
  firstMs: number
  nowMs: number
  nextMs: number | null
}

/** Makes the requests to endpoints. */
export class Requester {
  private readonly options: RequesterOptions
  private readonly keys = new Memory<SigningKeys>(SECRETS_MAX)

  constructor (options: RequesterOptions) {
    this.options = options
  }

  /** One request, whose outcome is written in its turn. Throws when the event cannot be read now. */
  async attempt (pending: Pending, webhook: WebhookEntry, inTurn: InTurn): Promise<DeliveryAttemptOutcome> {
    const { factLog, bodies, health } = this.options
    // A retry reads the log: the cache could still hold a person who was erased since.
    const body = await bodyOf(factLog.bus, pending.attempts === 0 ? bodies : NO_BODIES, pending.owed)
    if ('missing' in body) return this.withoutBody(pending, body.missing, inTurn)
    const exchange = await this.post(pending, webhook, body)
    const { status } = exchange.result
    const success = isSuccess(status)
    // A 410 of an address that the endpoint has left since is a plain failure.
    const gone = isGone(status) && exchange.url === webhook.url
    const times = this.timesOf(pending, exchange, { webhook, last: success || gone })
    const record = () => inTurn(() => this.record(pending, exchange, times))
    if (gone) return await this.disable(pending, webhook, record)
    if (exchange.result.errorKind !== 'unsigned') {
      health.report(webhook, exchange.url, causeOf(pending), { success, isRetry: pending.attempts > 0 })
    }
    return { success, holdMs: holdMsOf(exchange.result, times), record }
  }

  /** The next delivery must know that the endpoint is disabled. The attempt is recorded before: if disabling
   *  fails, it still is not repeated. */
  private async disable (
    pending: Pending,
    webhook: WebhookEntry,
    record: () => Promise<Recorded<AnyFact>>
  ): Promise<DeliveryAttemptOutcome> {
    const { factLog, directory, log } = this.options
    const recorded = await record()
    const fields = { account: pending.account, webhook: webhook.id, host: new URL(webhook.url).host }
    try {
      const judged = await judgeWebhook({ factLog, directory }, causeOf(pending), webhook, { gone: true })
      if (judged !== null) await directory.reached(judged.seq, DISABLED_MS)
      log.warn(fields, 'webhook endpoint answers 410 and is disabled')
    } catch (error) {
      log.warn(
        { err: asError(error), ...fields },
        'webhook endpoint answers 410 but could not be disabled; its next response retries'
      )
    }
    return { success: false, holdMs: 0, record: () => Promise.resolve(recorded) }
  }

  /** A batch keeps its members: when one is missing, and not because it was erased, the batch is not sent at all. */
  private withoutBody (pending: Pending, missing: Member[], inTurn: InTurn): DeliveryAttemptOutcome {
    const { factLog } = this.options
    const young = missing.find(({ id }) => factLog.clock.nowMs() - (idTimeMs(id) ?? 0) < YOUNG_MS)
    if (young !== undefined) throw new Error(`event ${young.id} cannot be read yet`)
    return { success: null, holdMs: 0, record: () => inTurn(() => failDelivery(factLog, pending, 'event_gone')) }
  }

  private async post (pending: Pending, webhook: WebhookEntry, body: Uint8Array): Promise<Exchange> {
    const { owed, attempts, trace: parent } = pending
    return await inSpan({ name: 'POST', kind: 'client', parent }, async span => {
      span?.setAttributes({
        'http.request.method': 'POST',
        'server.address': new URL(webhook.url).hostname,
        'jetpost.webhook': owed.webhook,
        'jetpost.delivery': owed.delivery,
        'jetpost.attempt': attempts + 1
      })
      const traceparent = span === null ? undefined : traceparentOf(span)
      const exchange = await this.exchange(pending, webhook, body, traceparent === undefined ? {} : { traceparent })
      if (exchange.result.status !== null) span?.setAttribute('http.response.status_code', exchange.result.status)
      return exchange
    })
  }

  private async exchange (
    { owed }: Pending,
    webhook: WebhookEntry,
    body: Uint8Array,
    ofTrace: Record<string, string>
  ): Promise<Exchange> {
    const { clock } = this.options.factLog
    const signedMs = clock.nowMs()
    const { url } = webhook
    const plain = { 'Content-Type': 'application/json', 'User-Agent': 'Jetpost' }
    const overlap = overlapOf(webhook, signedMs)
    const keys = this.keysOf(webhook.id, webhook.sealedSecret)
    const previous = overlap === null ? null : this.keysOf(webhook.id, overlap.sealedSecret)
    if (keys === null || (overlap !== null && previous === null)) {
      return { url, headers: plain, result: UNSIGNED, startedMs: signedMs }
    }
    const id = owed.batch ? owed.delivery : owed.events[0]!.id
    const signed = signatureHeaders({ keys, previous, id, timestampS: Math.floor(signedMs / 1000), body })
    const headers = { ...plain, ...ofTrace, ...(owed.format === undefined ? signed : underSvixNames(signed)) }
    // Signing took a while, and the request's duration counts from here.
    const startedMs = clock.nowMs()
    const poster = this.options.posterOf(webhook.account)
    return { url, headers, result: await poster.post(new URL(url), headers, body), startedMs }
  }

  /** Cached: opening a secret costs as much as the signature. Null when it cannot be opened. */
  private keysOf (id: string, sealedSecret: string): SigningKeys | null {
    const known = this.keys.get(sealedSecret)
    if (known !== undefined) return known
    try {
      const keys = signingKeys(this.options.vault.open(sealedSecret, id))
      this.keys.set(sealedSecret, keys)
      return keys
    } catch {
      return null
    }
  }

  /** `last`: no attempt follows. */
  private timesOf (
    pending: Pending,
    { result, startedMs }: Exchange,
    { webhook, last }: { webhook: WebhookEntry, last: boolean }
  ): AttemptTimes {
    const { random, gapsS } = this.options
    const firstMs = pending.attempts === 0 ? startedMs : Date.parse(pending.firstAttemptAt!)
    const nowMs = startedMs + result.durationMs
    const retry = {
      attempts: pending.attempts + 1,
      firstMs: firstMs + pausedMs(webhook, firstMs, nowMs),
      nowMs,
      retryAfterMs: retryAfterMs(result.retryAfter, nowMs),
      random,
      gapsS
    }
    return { firstMs, nowMs, nextMs: last ? null : retryAtMs(retry) }
  }

  private async record (
    pending: Pending,
    exchange: Exchange,
    { firstMs, nextMs }: AttemptTimes
  ): Promise<Recorded<AnyFact>> {
    const { url, headers, result: { status, error, errorKind, response, durationMs } } = exchange
    const result = isSuccess(status) ? 'delivered' : nextMs === null ? 'failed' : 'retrying'
    const nextAttemptAt = nextMs === null ? null : timestamp(nextMs)
    const outcome = {
      attempt: pending.attempts + 1,
      result,
      status,
      error,
      errorKind,
      durationMs,
      nextAttemptAt
    } as const
    const recorded = await recordAttempt(this.options.factLog, pending, {
      ...outcome,
      request: { url, headers },
      response,
      firstAttemptAt: timestamp(firstMs)
    })
    this.options.onAttempt?.({ result, status, durationMs })
    this.options.log.info({ ...idsOf(pending), host: new URL(url).host, ...outcome }, 'webhook attempt')
    return recorded
  }
}

/** As long as the endpoint asks not to be called, but not beyond this delivery's next attempt: the last one of its
 *  24 hours is made whatever `Retry-After` says. */
function holdMsOf ({ status, retryAfter }: PostResult, { nowMs, nextMs }: AttemptTimes): number {
  const askedMs = status === 429 || status === 503 ? retryAfterMs(retryAfter, nowMs) ?? 0 : 0
  return nextMs === null ? askedMs : Math.min(askedMs, nextMs - nowMs)
}

/** The ids in every log line about a delivery. */
export function idsOf ({ owed, account, correlation }: Pending) {
  return {
    delivery: owed.delivery,
    webhook: owed.webhook,
    event: owed.events[0]!.id,
    email: owed.events[0]!.email,
    events: owed.events.length,
    account,
    correlation
  }
}
