import { Value } from '@sinclair/typebox/value'
import { deferDelivery, failDelivery, releaseWaiting } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { decodeFact } from '#streams/catalog.ts'
import { deferUntilMs, GAPS_S, giveUpReason, holdUntilMs, releaseHold, RETRY_MS_MAX } from '#streams/delivery/decide.ts'
import { attemptKey, Pending, pendingAfter } from '#streams/delivery/state.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import { unhealthyReasonOf, type Role } from '#src/base/role.ts'
import type { Vault } from '#src/base/secret.ts'
import type { Resolve } from '#src/dns/guard.ts'
import { work, type Job } from '#src/nats/work.ts'
import { idsOf, Requester, type DeliveryAttemptOutcome, type OnAttempt } from './attempt.ts'
import type { BodyCache } from './body-cache.ts'
import { Deferrals, isReplay, orderingKeyAt, orderingKeyOf, seqOf } from './deferrals.ts'
import { createDoneCheck, type IsDone } from './done-check.ts'
import { EndpointHealth } from './endpoint-health.ts'
import { EndpointQueue, type EndpointQueueRules, type JobOutcome, type QueueLimits } from './endpoint-queue.ts'
import { createPoster, PostCut, type Poster } from './post.ts'

export interface DispatchOptions {
  factLog: FactLog
  directory: LiveDirectory
  vault: Vault
  bodies: BodyCache
  /** Recreates a consumer that is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
  /** Are http and private addresses allowed. */
  allowPrivate: boolean
  /** How host names are resolved; by default by DNS and the system. */
  resolve?: Resolve
  log: Log
  /** Asked about messages that may have been handled before a crash. */
  isDone?: IsDone
  /** In [0, 1); tests pass their own. */
  random?: () => number
  /** Seconds between attempts; by default the contract's. */
  gapsS?: readonly number[]
  /** One request, from DNS to the end of the response. */
  timeoutMs?: number
  onAttempt?: OnAttempt
}

/** Deliveries in this process at once: of one partition, of those that come due, of replays. */
const PARTITION_PLACES = 1000
const DUE_PLACES = 2000
const REPLAY_PLACES = 200
/** One endpoint gets half of the free places, and never more than these unless it drains fast: however many endpoints
 *  hang, some places stay free for the others. */
const QUEUE_PLACES_MAX = 500
/** Unless the endpoint's owner chose another number. */
const QUEUE_CONCURRENCY = 8
const QUEUE_FAILURES_MAX = 5
const QUEUE_DRAIN_S_MAX = 3
/** At an endpoint that is never idle, a replay still gets one turn in so many. One that waits longer gives its place
 *  back. */
const QUEUE_BACKGROUND_TURNS = 16
const QUEUE_BACKGROUND_MS_MAX = 5000
const QUEUE_PROBES_WAITING_MAX = 2
const QUEUE_HOLD_MS_MAX = 900_000
/** Beyond, idle queues are dropped. */
const QUEUES_MAX = 10_000
/** A delivery that waits no longer than this goes back to the consumer with a delay, without a fact in the log; so many
 *  at most, since they count against the consumer's unacknowledged ones. Others are deferred by a schedule. */
const SHORT_DELAY_MS_MAX = 2000
const SHORT_DELAYS_MAX = 1000
const LONGER_MS_MAX = 900_000
const TIMEOUT_MS = 15_000
const REMEMBERED_MAX = 50_000
const CATCH_UP_MS = 2000
/** A message handed out within this of its time comes for the first time; for others the projection is asked. */
const FRESH_MS = 30_000
/** When this process stops, what waits goes back to the consumer for so long, and requests may take so long to end. */
const STOP_DELAY_MS = 50
const STOP_MS = 3000

const RELEASE = subjects.dueRelease('')

/** What this process holds of one consumer: jobs at work or waiting here, and those sent back with a short delay. */
interface ConsumerLoad {
  places: number
  held: number
  delayed: number
}

/** Sends the deliveries: each endpoint has its own queue; retries, and deliveries that find no place there, come back
 *  by a schedule. */
export function startDispatch (options: DispatchOptions): Role {
  const dispatcher = new Dispatcher(options)
  const workers = [
    ...consumerPlans.deliveries.map(plan => dispatcher.consume(plan, PARTITION_PLACES)),
    dispatcher.consume(consumerPlans.deliveriesReplay, REPLAY_PLACES),
    dispatcher.consume(consumerPlans.deliveriesDue, DUE_PLACES)
  ]
  return {
    name: 'webhook dispatch',
    unhealthyReason: () => unhealthyReasonOf(workers),
    async stop () {
      dispatcher.closeQueues()
      const cutting = setTimeout(() => dispatcher.cut(), STOP_MS)
      await Promise.all(workers.map(worker => worker.stop()))
      clearTimeout(cutting)
      await dispatcher.close()
    }
  }
}

class Dispatcher {
  private readonly options: DispatchOptions
  private readonly random: () => number
  private readonly gapsS: readonly number[]
  private readonly poster: Poster
  private readonly health: EndpointHealth
  private readonly requester: Requester
  private readonly isDone: ReturnType<typeof createDoneCheck>
  /** Attempts that are over: the server may forget an acknowledgement, and a second request is worth avoiding. */
  private readonly finished = new Memory<true>(REMEMBERED_MAX)
  /** Attempts that this process has sent back itself. */
  private readonly delayed = new Memory<true>(REMEMBERED_MAX)
  private readonly deleted = new Memory<true>(REMEMBERED_MAX)
  private readonly deferrals = new Deferrals(REMEMBERED_MAX)
  private readonly queues = new Map<string, EndpointQueue>()
  private readonly queueRules: Omit<EndpointQueueRules, 'concurrency'>
  private stopping = false

  constructor (options: DispatchOptions) {
    const { random = Math.random, gapsS = GAPS_S } = options
    this.options = options
    this.random = random
    this.gapsS = gapsS
    this.poster = createPoster({ ...options, timeoutMs: options.timeoutMs ?? TIMEOUT_MS })
    this.health = new EndpointHealth(options)
    this.requester = new Requester({ ...options, poster: this.poster, health: this.health, random, gapsS })
    this.isDone = createDoneCheck(options.isDone)
    this.queueRules = {
      failuresMax: QUEUE_FAILURES_MAX,
      probesWaitingMax: QUEUE_PROBES_WAITING_MAX,
      pauseMs: gapsS[0]! * 200,
      pauseMsMax: gapsS[1]! * 1000,
      holdMsMax: QUEUE_HOLD_MS_MAX,
      drainSMax: QUEUE_DRAIN_S_MAX,
      backgroundTurns: QUEUE_BACKGROUND_TURNS,
      backgroundWaitMsMax: QUEUE_BACKGROUND_MS_MAX,
      reserveMsMin: gapsS[0]! * 50,
      nowMs: () => this.nowMs()
    }
  }

  consume (plan: ConsumerPlan, places: number): Role {
    const { factLog, log, repair } = this.options
    const load: ConsumerLoad = { places, held: 0, delayed: 0 }
    return work(factLog.bus, {
      plan,
      name: plan.durable_name,
      concurrency: places,
      repair,
      onError: error =>
        log.warn({ err: error, consumer: plan.durable_name }, 'webhook deliveries interrupted; retrying'),
      handle: async job => {
        load.held++
        await this.handle(job, load).finally(() => load.held--)
      }
    })
  }

  closeQueues (): void {
    this.stopping = true
    for (const queue of this.queues.values()) queue.close()
  }

  /** Requests that have not ended are made again by another process, with the same id. */
  cut (): void {
    this.poster.cut()
  }

  async close (): Promise<void> {
    await Promise.all([this.poster.close(), this.health.settled()])
  }

  private nowMs (): number {
    return this.options.factLog.clock.nowMs()
  }

  private async handle (job: Job, load: ConsumerLoad): Promise<void> {
    if (job.subject.startsWith(RELEASE)) return await this.release(job.subject.slice(RELEASE.length), job)
    const { pending, sinceMs } = read(job)
    const key = attemptKey(pending)
    if (this.finished.has(key) || (this.mayBeHandled(job, key, sinceMs) && await this.isDone(pending.owed))) {
      return job.ack()
    }
    const delayMs = await this.process(pending, load)
    if (delayMs === null) {
      this.finished.set(key, true)
      job.ack()
    } else {
      this.delayed.set(key, true)
      job.retryAfter(delayMs)
    }
  }

  /** A message that is older than our connection, or has been waiting, may have been handled before the server, a
   *  consumer or this process restarted. */
  private mayBeHandled (job: Job, key: string, sinceMs: number): boolean {
    if (job.redelivered) return !this.delayed.has(key)
    return sinceMs < (this.options.factLog.bus.upSinceMs() ?? Infinity) || sinceMs < this.nowMs() - FRESH_MS
  }

  /** Brings one delivery a step further, durably: null. Else the ms after which the message is to come again. */
  private async process (due: Pending, load: ConsumerLoad): Promise<number | null> {
    const { webhook } = due.owed
    const endpoint = await this.endpointOf(webhook)
    if (giveUpReason(due, endpoint, this.nowMs()) !== null) return await this.giveUp(due, endpoint)
    if (endpoint!.paused) return await this.hold(due)
    const pending = releaseHold(due, this.nowMs())
    const queue = this.queueOf(webhook)
    const behindMs = this.deferrals.waitsUntil(orderingKeyOf(pending), seqOf(pending), this.nowMs())
    if (behindMs !== null) {
      return await this.postpone(pending, Math.max(behindMs + 1, queue.reserve(isReplay(pending))), load)
    }
    const { result, record } = await this.enqueue(pending, queue, load)
    if (result === 'closed') return STOP_DELAY_MS
    if (result === 'full') return await this.postpone(pending, queue.reserve(isReplay(pending)), load)
    if (result === 'failing') {
      return await this.defer(pending, deferUntilMs(this.startOf(pending), this.nowMs(), this.random, this.gapsS))
    }
    this.settle(pending)
    await record()
    return null
  }

  /** Through the endpoint's queue, if it has a place. `record` then makes the outcome durable, or throws what went
   *  wrong on our side. */
  private async enqueue (pending: Pending, queue: EndpointQueue, load: ConsumerLoad) {
    let record: () => Promise<unknown> = () => Promise.resolve()
    let isCut = false
    const run = async (): Promise<JobOutcome> => {
      try {
        const outcome = await this.attempt(pending)
        record = () => outcome.record()
        return outcome
      } catch (error) {
        if (error instanceof PostCut) isCut = true
        else record = () => Promise.reject(asError(error))
        return NO_REQUEST
      }
    }
    const job = { orderingKey: orderingKeyAt(pending), background: isReplay(pending), run }
    const result = await queue.add(job, limitsOf(load))
    return { result: isCut ? 'closed' as const : result, record }
  }

  /** It may have waited in the queue: the endpoint may be deleted or paused meanwhile. */
  private async attempt (pending: Pending): Promise<DeliveryAttemptOutcome> {
    const endpoint = this.options.directory.now.webhooks.get(pending.owed.webhook)
    if (endpoint === undefined || giveUpReason(pending, endpoint, this.nowMs()) !== null) {
      return { ...NO_REQUEST, record: () => this.giveUp(pending, endpoint) }
    }
    return endpoint.paused
      ? { ...NO_REQUEST, record: () => this.hold(pending) }
      : await this.requester.attempt(pending, endpoint)
  }

  private queueOf (webhook: string): EndpointQueue {
    const concurrency = () => this.options.directory.now.webhooks.get(webhook)?.concurrency ?? QUEUE_CONCURRENCY
    const queue = this.queues.get(webhook) ?? new EndpointQueue({ ...this.queueRules, concurrency })
    if (this.stopping) queue.close()
    this.queues.set(webhook, queue)
    if (this.queues.size > QUEUES_MAX) {
      for (const [id, other] of this.queues) {
        if (other !== queue && other.isIdle()) this.queues.delete(id)
      }
    }
    return queue
  }

  /** An endpoint unknown here may be new: that it is deleted only a directory that has caught up can say, and then it
   *  stays deleted. */
  private async endpointOf (id: string): Promise<WebhookEntry | undefined> {
    const { directory } = this.options
    const known = directory.now.webhooks.get(id)
    if (known !== undefined || this.deleted.has(id)) return known
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    const endpoint = directory.now.webhooks.get(id)
    if (endpoint === undefined) this.deleted.set(id, true)
    return endpoint
  }

  private async giveUp (pending: Pending, endpoint: WebhookEntry | undefined): Promise<null> {
    const { factLog, log } = this.options
    const reason = giveUpReason(pending, endpoint, this.nowMs())!
    if (endpoint === undefined) this.queues.delete(pending.owed.webhook)
    this.settle(pending)
    await failDelivery(factLog, pending, reason)
    log.info({ ...idsOf(pending), attempts: pending.attempts, reason }, 'webhook delivery given up')
    return null
  }

  /** A short wait is a delay on the consumer, a long one a deferral. Later events of an email wait behind either. */
  private async postpone (pending: Pending, untilMs: number, load: ConsumerLoad): Promise<number | null> {
    const nowMs = this.nowMs()
    const firstMs = this.startOf(pending)
    const endMs = firstMs + RETRY_MS_MAX
    const waitMs = Math.max(1, untilMs - nowMs)
    // A reservation is an estimate: a delivery that has waited in vain waits half as long again (15 min at most), so
    // that a wrong estimate costs few turns.
    const longerMs = Math.max(untilMs, nowMs + Math.min((nowMs - firstMs) / 2, LONGER_MS_MAX))
    if (waitMs > SHORT_DELAY_MS_MAX || load.delayed >= SHORT_DELAYS_MAX) {
      return await this.defer(pending, nowMs >= endMs ? null : Math.min(longerMs, endMs))
    }
    this.deferrals.deferred(orderingKeyOf(pending), seqOf(pending), untilMs)
    load.delayed++
    setTimeout(() => load.delayed--, waitMs).unref()
    return waitMs
  }

  /** By a fact and a schedule; `untilMs` null = its 24 hours are over. */
  private async defer (pending: Pending, untilMs: number | null): Promise<null> {
    const { factLog, log } = this.options
    if (untilMs === null) {
      this.settle(pending)
      await failDelivery(factLog, pending, 'expired')
      return null
    }
    // A held delivery comes back when the pause ends: how long others would wait for it is unknown.
    if (pending.heldAt === null) this.deferrals.deferred(orderingKeyOf(pending), seqOf(pending), untilMs)
    await deferDelivery(factLog, pending, this.startOf(pending), untilMs)
    log.debug({ ...idsOf(pending), nextAttemptAt: timestamp(untilMs) }, 'webhook delivery deferred')
    return null
  }

  private settle (pending: Pending): void {
    this.deferrals.settled(orderingKeyOf(pending), seqOf(pending))
  }

  /** Its endpoint is paused. */
  private hold (pending: Pending): Promise<null> {
    const nowMs = this.nowMs()
    const held = { ...pending, heldAt: pending.heldAt ?? timestamp(nowMs) }
    return this.defer(held, holdUntilMs(this.startOf(pending), nowMs))
  }

  /** A pause is over: the deliveries it has held are due now. When the endpoint is deleted or disabled, all its waiting
   *  deliveries are, to end now and not when their time would come. */
  private async release (webhook: string, job: Job): Promise<void> {
    const { factLog, directory } = this.options
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    const endpoint = directory.now.webhooks.get(webhook)
    const over = endpoint === undefined || endpoint.disabled !== null
    if (over || !endpoint.paused) await releaseWaiting(factLog, webhook, over)
    job.ack()
  }

  /** Unix ms when its 24 hours began. */
  private startOf ({ firstAttemptAt }: Pending): number {
    return firstAttemptAt === null ? this.nowMs() : Date.parse(firstAttemptAt)
  }
}

/** The delivery of a message, and when it became due, Unix ms. */
function read (job: Job): { pending: Pending, sinceMs: number } {
  if (job.subject.startsWith('due.')) {
    const pending = Value.Parse(Pending, JSON.parse(Buffer.from(job.bytes).toString('utf8')))
    return { pending, sinceMs: Date.parse(pending.dueAt!) }
  }
  const fact = decodeFact(job.bytes)
  const pending = pendingAfter(fact)
  if (pending == null) throw new Error(`a ${fact.type} fact holds no pending delivery`)
  return { pending, sinceMs: Date.parse(fact.time) }
}

const NO_REQUEST: JobOutcome = { success: null, holdMs: 0 }

function limitsOf ({ places, held }: ConsumerLoad): QueueLimits {
  return { share: Math.min(QUEUE_PLACES_MAX, Math.max(1, (places - held) >> 1)), max: places * 3 >> 2 }
}
