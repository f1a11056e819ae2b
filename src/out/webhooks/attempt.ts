import { failDelivery, recordAttempt } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Ledger } from '#src/actions/ledger.ts'
import { disableWebhook } from '#src/actions/webhook.ts'
import { eventIn, isGone, isSuccess, retryAtMs } from '#streams/delivery/decide.ts'
import type { DeliveryAttempted } from '#streams/delivery/facts.ts'
import type { Pending } from '#streams/delivery/state.ts'
import type { Webhook } from '#streams/directory.ts'
import { overlapOf } from '#streams/webhook/decide.ts'
import { timestamp } from '#src/base/clock.ts'
import { idTimeMs } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import type { Vault } from '#src/base/secret.ts'
import { loadFact } from '#src/nats/load.ts'
import type { Bodies } from './bodies.ts'
import type { Answer, Poster } from './post.ts'
import { signatureHeaders, signingKeys, type SigningKeys } from './sign.ts'

export interface AttemptOptions {
  ledger: Ledger
  directory: LiveDirectory
  vault: Vault
  bodies: Bodies
  poster: Poster
  log: Log
  random: () => number
  gapsS: readonly number[]
  onAttempt?: OnAttempt
}

/** Told of each request, for metrics. */
export type OnAttempt = (attempt: { result: DeliveryAttempted['data']['result'], status: number | null, durationMs: number }) => void

/** One try: `fine` as the lane wants it, true = success, false = failure, null = no request was made. `record` makes it durable: the lane
 *  need not wait for it. */
export interface Try {
  fine: boolean | null
  record (): Promise<void>
}

/** A fact younger than this that cannot be read has not reached every copy of the log yet. */
const YOUNG_MS = 60_000
const DISABLED_MS = 2000
const SECRETS_MAX = 10_000
/** In place of a request that could not be signed. */
const UNSIGNED: Answer = {
  status: null,
  error: 'the signing secret cannot be opened: JETPOST_SECRET has changed',
  response: '',
  retryAfterMs: null,
  durationMs: 0
}

/** Makes one request to an endpoint. Throws when the event cannot be read now. */
export function createAttempt (options: AttemptOptions): (pending: Pending, webhook: Webhook) => Promise<Try> {
  const { ledger, directory, log, random, gapsS } = options
  const opened = new Map<string, SigningKeys>()

  async function attempt (pending: Pending, webhook: Webhook): Promise<Try> {
    const body = await bodyOf(pending)
    if (body === null) return { fine: null, record: () => failDelivery(ledger, pending, 'event_gone') }
    const startedMs = ledger.clock.nowMs()
    const answer = await request(pending, webhook, body)
    if (isGone(answer.status)) await disable(pending, webhook)
    return { fine: isSuccess(answer.status), record: () => keep(pending, webhook, answer, startedMs) }
  }

  async function bodyOf ({ owed: { event, test } }: Pending): Promise<Uint8Array | null> {
    if (test !== undefined) return Buffer.from(test)
    const known = options.bodies.get(event.id)
    if (known !== null) return known
    const recorded = await loadFact(ledger.bus, 'EMAILS', event.seq)
    const found = recorded?.fact.id === event.id ? eventIn(recorded.fact) : null
    if (found !== null) return Buffer.from(found.body)
    if (ledger.clock.nowMs() - (idTimeMs(event.id) ?? 0) < YOUNG_MS) throw new Error(`event ${event.id} cannot be read yet`)
    return null
  }

  async function request (pending: Pending, webhook: Webhook, body: Uint8Array): Promise<Answer> {
    const nowMs = ledger.clock.nowMs()
    const overlap = overlapOf(webhook, nowMs)
    const keys = keysOf(webhook.id, webhook.sealedSecret)
    const previous = overlap === null ? null : keysOf(webhook.id, overlap.sealedSecret)
    if (keys === null || (overlap !== null && previous === null)) return UNSIGNED
    const timestampS = Math.floor(nowMs / 1000)
    return await options.poster.post(new URL(webhook.url), {
      'Content-Type': 'application/json',
      'User-Agent': 'Jetpost',
      ...signatureHeaders({ keys, previous, id: pending.owed.event.id, timestampS, body })
    }, body)
  }

  /** Opened once and kept: opening costs as much as the signature. Null when it cannot be opened. */
  function keysOf (id: string, sealedSecret: string): SigningKeys | null {
    const known = opened.get(sealedSecret)
    if (known !== undefined) return known
    try {
      const keys = signingKeys(options.vault.open(sealedSecret, id))
      opened.set(sealedSecret, keys)
      if (opened.size > SECRETS_MAX) opened.delete(opened.keys().next().value!)
      return keys
    } catch {
      return null
    }
  }

  /** The next in the lane must know. */
  async function disable ({ account, correlation, causation }: Pending, webhook: Webhook): Promise<void> {
    const seq = await disableWebhook({ ledger, directory }, { account, correlation, causation }, webhook)
    if (seq !== null) await directory.reached(seq, DISABLED_MS)
    log.warn({ account, webhook: webhook.id, host: new URL(webhook.url).host }, 'webhook endpoint said 410 and is disabled')
  }

  /** Records the attempt with what follows. */
  async function keep (pending: Pending, webhook: Webhook, answer: Answer, startedMs: number): Promise<void> {
    const attempt = pending.attempts + 1
    const firstMs = pending.attempts === 0 ? startedMs : Date.parse(pending.firstAttemptAt!)
    const { status, error, response, retryAfterMs, durationMs } = answer
    const over = isSuccess(status) || isGone(status)
    const nextMs = over ? null : retryAtMs({ attempts: attempt, firstMs, nowMs: startedMs + durationMs, retryAfterMs, random, gapsS })
    const result = isSuccess(status) ? 'delivered' : nextMs === null ? 'failed' : 'retrying'
    const nextAttemptAt = nextMs === null ? null : timestamp(nextMs)
    const outcome = { attempt, result, status, error, durationMs, nextAttemptAt } as const
    await recordAttempt(ledger, pending, { ...outcome, response, firstAttemptAt: timestamp(firstMs) })
    options.onAttempt?.({ result, status, durationMs })
    log.info({ ...idsOf(pending), host: new URL(webhook.url).host, ...outcome }, 'webhook attempt')
  }

  return attempt
}

/** What every line about a delivery names. */
export function idsOf ({ owed, account, correlation }: Pending) {
  return { delivery: owed.delivery, webhook: owed.webhook, event: owed.event.id, email: owed.email, account, correlation }
}
