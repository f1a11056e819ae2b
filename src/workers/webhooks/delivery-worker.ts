import { failDelivery } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { owedFact } from '#src/actions/replay-job.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readMessages } from '#src/nats/range.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { giveUpReason, pendingAfter, type GiveUpReason, type Pending } from '#streams/delivery/decide.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { idsOf, type Requester } from './attempt.ts'
import type { DeliveryQueue, Entry } from './delivery-queue.ts'
import type { InTurn } from './direct.ts'
import type { EndpointAnswer } from './endpoint.ts'
import { PostCut } from './post.ts'

export interface DeliveryWorkerOptions {
  factLog: FactLog
  directory: LiveDirectory
  requester: Requester
  log: Log
}

/** Requests of this process at once, and outcomes on their way to the log. */
const REQUESTS_MAX = 2000
const RECORDS_MAX = 4000
const CATCH_UP_MS = 2000
const CONFIRMED_MAX = 50_000
const AHEAD = { max: 100, bytesMax: 256 * 1024 }
/** After something of ours did not answer. */
const RETRY_MS = 1000

const NOT_ASKED: EndpointAnswer = { success: null, holdMs: 0 }

/** Brings deliveries a step further, for all endpoints of this process. */
export class DeliveryWorker {
  private readonly options: DeliveryWorkerOptions
  /** When the directory had caught up for an endpoint that gets nothing, as `performance.now()` counts. */
  private readonly confirmedMs = new Memory<number>(CONFIRMED_MAX)
  private readonly stopping = new AbortController()
  /** Queues that are being read ahead. */
  private readonly reading = new Map<DeliveryQueue, Promise<void>>()
  private requests = 0
  private records = 0

  constructor (options: DeliveryWorkerOptions) {
    this.options = options
  }

  /** Whether an endpoint with `running` requests may get one more: half of the places that are free at most, so that
   *  however many hang, some are left for the others. */
  hasRoom (running: number): boolean {
    return this.records < RECORDS_MAX && running < Math.max(1, (REQUESTS_MAX - this.requests) >> 1) &&
      this.requests < REQUESTS_MAX && !this.stopping.signal.aborted
  }

  /** From now on nothing waits in vain. */
  stop (): void {
    this.stopping.abort()
  }

  /** One step: a request, or its end without one. Resolves when the endpoint has answered; its outcome goes to the log
   *  and the queue behind that, and `onSettled` is called then. */
  async deliver (
    webhook: string,
    entry: Entry,
    queue: DeliveryQueue,
    onSettled: () => void
  ): Promise<EndpointAnswer> {
    this.requests++
    try {
      return await this.step(webhook, entry, queue, onSettled)
    } catch (error) {
      // A stop has cut the request: the process that goes on makes it again.
      if (!(error instanceof PostCut)) await this.waitAfter(asError(error), webhook, entry)
      queue.putBack(entry, this.nowMs())
      return NOT_ASKED
    } finally {
      this.requests--
    }
  }

  /** Gives a delivery up without a request. */
  async giveUp (pending: Pending, reason: GiveUpReason): Promise<Recorded<AnyFact>> {
    const { factLog, log } = this.options
    const recorded = await failDelivery(factLog, pending, reason)
    log.info({ ...idsOf(pending), attempts: pending.attempts, reason }, 'webhook delivery given up')
    return recorded
  }

  /** All that an attempt needs; null when the log no longer holds it. Throws what `isUnanswered` knows. */
  async pendingOf (entry: Entry, queue: DeliveryQueue): Promise<Pending | null> {
    if (entry.pending === null && entry.attempts === 0) await this.readAhead(entry, queue)
    if (entry.pending !== null) return entry.pending
    const recorded = await owedFact(this.options.factLog.bus, entry.seq)
    return recorded === null ? null : pendingAfter(recorded.fact) ?? null
  }

  /** Those that were never tried lie one behind the other: the next ones are read with this one. */
  private async readAhead (entry: Entry, queue: DeliveryQueue): Promise<void> {
    await this.reading.get(queue)
    if (entry.pending !== null) return
    const reading = this.readPage(entry, queue).finally(() => this.reading.delete(queue))
    this.reading.set(queue, reading)
    await reading
  }

  private async readPage ({ seq }: Entry, queue: DeliveryQueue): Promise<void> {
    const position = { filter: queue.subject, afterSeq: seq - 1 }
    const { messages } = await readMessages(this.options.factLog.bus, 'WEBHOOKS', position, AHEAD)
    queue.complete(messages.map(decodeMessage))
  }

  private async step (
    webhook: string,
    entry: Entry,
    queue: DeliveryQueue,
    onSettled: () => void
  ): Promise<EndpointAnswer> {
    const pending = await this.pendingOf(entry, queue)
    if (pending === null) {
      queue.forget(entry)
      return NOT_ASKED
    }
    const endpoint = await this.endpointOf(webhook, entry.knownMs)
    const reason = giveUpReason(pending, endpoint, this.nowMs())
    const inTurn: InTurn = record => entry.direct === null ? record() : entry.direct(record)
    if (reason !== null) {
      void this.settle(entry, queue, () => inTurn(() => this.giveUp(pending, reason))).then(onSettled)
      return NOT_ASKED
    }
    if (endpoint!.paused) {
      queue.putBack(entry, entry.dueMs)
      return NOT_ASKED
    }
    const { record, ...answer } = await this.options.requester.attempt(pending, endpoint!, inTurn)
    void this.settle(entry, queue, record).then(onSettled)
    return answer
  }

  /** Never rejects. */
  private async settle (entry: Entry, queue: DeliveryQueue, record: () => Promise<Recorded<AnyFact>>): Promise<void> {
    this.records++
    try {
      queue.apply(await record())
    } catch (error) {
      const fields = { err: asError(error), delivery: entry.delivery }
      this.options.log.warn(fields, 'outcome of a webhook delivery not recorded; it is attempted again')
      // A log that is full refuses at once.
      await sleep(RETRY_MS, this.stopping.signal)
      queue.putBack(entry, this.nowMs())
    } finally {
      this.records--
    }
  }

  private async waitAfter (err: Error, webhook: string, { delivery }: Entry): Promise<void> {
    this.options.log.warn({ err, webhook, delivery }, 'webhook delivery interrupted; retrying')
    await sleep(RETRY_MS, this.stopping.signal)
  }

  /** An endpoint that is unknown or disabled here may be new, or enabled again: what a directory says that has caught
   *  up holds for every delivery that was known by then. */
  private async endpointOf (id: string, knownMs: number): Promise<WebhookEntry | undefined> {
    const { directory } = this.options
    const known = directory.now.webhooks.get(id)
    if (known?.disabled === null || (this.confirmedMs.get(id) ?? -Infinity) >= knownMs) return known
    const beganMs = performance.now()
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    this.confirmedMs.set(id, beganMs)
    return directory.now.webhooks.get(id)
  }

  private nowMs (): number {
    return this.options.factLog.clock.nowMs()
  }
}
