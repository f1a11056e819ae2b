import { bodyOf, NO_BODIES } from '#src/actions/delivery-body.ts'
import { causeOf, failDelivery, recordAttempt } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { judgeWebhook } from '#src/actions/webhook.ts'
import { isGone, isSuccess, retryAfterMs, retryAtMs } from '#streams/delivery/decide.ts'
import type { DeliveryAttempted, Member } from '#streams/delivery/facts.ts'
import type { Pending } from '#streams/delivery/state.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { overlapOf } from '#streams/webhook/decide.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import { idTimeMs } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import type { Vault } from '#src/base/secret.ts'
import type { Bodies } from './bodies.ts'
import type { Health } from './health.ts'
import type { Ran } from './endpoint-queue.ts'
import type { Answer, Poster } from './post.ts'
import { signatureHeaders, signingKeys, type SigningKeys } from './sign.ts'

export interface AttemptOptions {
  appenders: Appenders
  directory: LiveDirectory
  vault: Vault
  bodies: Bodies
  poster: Poster
  health: Health
  log: Log
  random: () => number
  gapsS: readonly number[]
  onAttempt?: OnAttempt
}

/** Told of each request, for metrics. */
export type OnAttempt = (
  attempt: { result: DeliveryAttempted['data']['result'], status: number | null, durationMs: number }
) => void

/** One try, as the lane wants it. `record` makes it durable: the lane need not wait for it. */
export interface Try extends Ran {
  record(): Promise<void>
}

/** A fact younger than this that cannot be read has not reached every copy of the log yet. */
const YOUNG_MS = 60_000
const DISABLED_MS = 2000
const SECRETS_MAX = 10_000
/** In place of a request that could not be signed. */
const UNSIGNED: Answer = {
  status: null,
  error: 'the signing secret cannot be opened: JETPOST_SECRET has changed',
  errorKind: 'unsigned',
  response: '',
  retryAfter: null,
  durationMs: 0
}

/** What was asked, and what came of it. `url` as it was then: the endpoint's may change meanwhile. */
interface Asked {
  url: string
  headers: Record<string, string>
  answer: Answer
  startedMs: number
}

/** When the delivery was first tried, when this answer came, and when the next attempt is due (null = never), Unix ms.
 */
interface After {
  firstMs: number
  nowMs: number
  nextMs: number | null
}

/** Makes one request to an endpoint. Throws when the event cannot be read now. */
export function createAttempt (options: AttemptOptions): (pending: Pending, webhook: WebhookEntry) => Promise<Try> {
  const { appenders, directory, health, log, random, gapsS } = options
  const opened = new Memory<SigningKeys>(SECRETS_MAX)

  async function attempt (pending: Pending, webhook: WebhookEntry): Promise<Try> {
    // What is tried again is read in the log: memory would go on telling of somebody who is forgotten there.
    const body = await bodyOf(appenders.bus, pending.attempts === 0 ? options.bodies : NO_BODIES, pending.owed)
    if ('missing' in body) return untried(pending, body.missing)
    const asked = await ask(pending, webhook, body)
    const { status } = asked.answer
    const fine = isSuccess(status)
    // What an address says that the endpoint has left since is no more than a failure.
    const gone = isGone(status) && asked.url === webhook.url
    const after = afterwards(pending, asked, fine || gone)
    const record = () => keep(pending, asked, after)
    if (gone) return await giveUp(pending, webhook, record)
    if (isTelling(pending, asked.answer)) health.heard(webhook, asked.url, causeOf(pending), fine)
    return { fine, holdMs: holdMsOf(asked.answer, after), record }
  }

  /** The next in the lane must know. Whether the endpoint can be disabled now or not, its answer stands, and is
   *  recorded before: it is not asked again. */
  async function giveUp (pending: Pending, webhook: WebhookEntry, record: () => Promise<void>): Promise<Try> {
    await record()
    const said = { account: pending.account, webhook: webhook.id, host: new URL(webhook.url).host }
    try {
      const judged = await judgeWebhook({ appenders, directory }, causeOf(pending), webhook, { gone: true })
      if (judged !== null) await directory.reached(judged.seq, DISABLED_MS)
      log.warn(said, 'webhook endpoint said 410 and is disabled')
    } catch (error) {
      log.warn(
        { err: asError(error), ...said },
        'webhook endpoint said 410 and could not be disabled: the next event will tell'
      )
    }
    return { fine: false, holdMs: 0, record: () => Promise.resolve() }
  }

  /** The members of a batch stay what they are: without one of them that is not forgotten it is not sent at all. */
  function untried (pending: Pending, missing: Member[]): Try {
    const young = missing.find(({ id }) => appenders.clock.nowMs() - (idTimeMs(id) ?? 0) < YOUNG_MS)
    if (young !== undefined) throw new Error(`event ${young.id} cannot be read yet`)
    return { fine: null, holdMs: 0, record: () => failDelivery(appenders, pending, 'event_gone') }
  }

  async function ask ({ owed }: Pending, webhook: WebhookEntry, body: Uint8Array): Promise<Asked> {
    const startedMs = appenders.clock.nowMs()
    const { url } = webhook
    const plain = { 'Content-Type': 'application/json', 'User-Agent': 'Jetpost' }
    const overlap = overlapOf(webhook, startedMs)
    const keys = keysOf(webhook.id, webhook.sealedSecret)
    const previous = overlap === null ? null : keysOf(webhook.id, overlap.sealedSecret)
    if (keys === null || (overlap !== null && previous === null)) {
      return { url, headers: plain, answer: UNSIGNED, startedMs }
    }
    const id = owed.batch ? owed.delivery : owed.events[0]!.id
    const headers = {
      ...plain,
      ...signatureHeaders({ keys, previous, id, timestampS: Math.floor(startedMs / 1000), body })
    }
    return { url, headers, answer: await options.poster.post(new URL(url), headers, body), startedMs }
  }

  /** Opened once and kept: opening costs as much as the signature. Null when it cannot be opened. */
  function keysOf (id: string, sealedSecret: string): SigningKeys | null {
    const known = opened.get(sealedSecret)
    if (known !== undefined) return known
    try {
      const keys = signingKeys(options.vault.open(sealedSecret, id))
      opened.set(sealedSecret, keys)
      return keys
    } catch {
      return null
    }
  }

  /** `over`: nothing follows. */
  function afterwards (pending: Pending, { answer, startedMs }: Asked, over: boolean): After {
    const firstMs = pending.attempts === 0 ? startedMs : Date.parse(pending.firstAttemptAt!)
    const nowMs = startedMs + answer.durationMs
    const retry = {
      attempts: pending.attempts + 1,
      firstMs,
      nowMs,
      retryAfterMs: retryAfterMs(answer.retryAfter, nowMs),
      random,
      gapsS
    }
    return { firstMs, nowMs, nextMs: over ? null : retryAtMs(retry) }
  }

  /** Records the attempt with what follows. */
  async function keep (pending: Pending, { url, headers, answer }: Asked, { firstMs, nextMs }: After): Promise<void> {
    const { status, error, errorKind, response, durationMs } = answer
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
    await recordAttempt(appenders, pending, {
      ...outcome,
      request: { url, headers },
      response,
      firstAttemptAt: timestamp(firstMs)
    })
    options.onAttempt?.({ result, status, durationMs })
    log.info({ ...idsOf(pending), host: new URL(url).host, ...outcome }, 'webhook attempt')
  }

  return attempt
}

/** Does the answer tell how the endpoint is doing? None was asked for when the request could not be signed; and a first
 *  failure is not enough: the retries may say otherwise, and there may have been no other event for days. */
function isTelling ({ attempts }: Pending, { status, errorKind }: Answer): boolean {
  return errorKind !== 'unsigned' && (isSuccess(status) || attempts > 0)
}

/** As long as the endpoint asks to be left alone, but not beyond this delivery's next attempt: the last of its 24 hours
 *  is made whatever `Retry-After` says. */
function holdMsOf ({ status, retryAfter }: Answer, { nowMs, nextMs }: After): number {
  const askedMs = status === 429 || status === 503 ? retryAfterMs(retryAfter, nowMs) ?? 0 : 0
  return nextMs === null ? askedMs : Math.min(askedMs, nextMs - nowMs)
}

/** What every line about a delivery names. */
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
