import { Value } from '@sinclair/typebox/value'
import { failDelivery, parkDelivery, releaseWaiting } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { decodeFact } from '#streams/catalog.ts'
import { GAPS_S, holdUntilMs, letGo, deferUntilMs, RETRY_MS_MAX, whyNot } from '#streams/delivery/decide.ts'
import { Pending, pendingAfter, tryKey } from '#streams/delivery/state.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import type { Role } from '#src/base/role.ts'
import type { Vault } from '#src/base/secret.ts'
import type { Resolve } from '#src/dns/guard.ts'
import { work, type Job } from '#src/nats/work.ts'
import { createAttempt, idsOf, type OnAttempt } from './attempt.ts'
import type { Bodies } from './bodies.ts'
import { createHealth } from './health.ts'
import { createEndpointQueue, type EndpointQueue, type EndpointQueueRules, type Ran } from './endpoint-queue.ts'
import { createOrder } from './order.ts'
import { createPoster } from './post.ts'
import { createDoneCheck, type IsDone } from './redelivery.ts'

export interface DispatchOptions {
  appenders: Appenders
  directory: LiveDirectory
  vault: Vault
  bodies: Bodies
  /** Makes a consumer again that is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
  /** May http and private addresses be called. */
  allowPrivate: boolean
  /** How their names are resolved; else by DNS and the system. */
  resolve?: Resolve
  log: Log
  /** Asked about messages that may have been handled before a crash. */
  isDone?: IsDone
  /** In [0, 1); tests hand in their own. */
  random?: () => number
  /** Seconds between attempts; the contract's unless a test is in a hurry. */
  gapsS?: readonly number[]
  /** One request, all in all. */
  timeoutMs?: number
  onAttempt?: OnAttempt
}

/** Deliveries of one partition, and those that come due, held in this process at once. */
const PARTITION_PLACES = 1000
const DUE_PLACES = 2000
const AGAIN_PLACES = 200
/** Of the places still free one endpoint gets half, and never more than these unless it is quick: however many
 *  endpoints hang, some stay free for the others. */
const LANE_PLACES_MAX = 500
/** Unless the endpoint's owner chose another number. */
const LANE_CONCURRENCY = 8
const LANE_FAILURES_MAX = 5
/** What an endpoint works off within so long is not put off. */
const LANE_BRISK_S = 3
/** At an endpoint that is never idle, a replay still gets a turn in so many; one that waits for longer gives its place
 *  back. */
const LANE_BACKGROUND_TURNS = 16
const LANE_BACKGROUND_MS_MAX = 5000
const LANE_PROBES_WAITING_MAX = 2
/** `Retry-After` keeps probes away for so long at most. */
const LANE_HOLD_MS_MAX = 900_000
/** What has to wait no longer than this goes back to the server for so long, without a word in the log; so many at
 *  most, for they count against the consumer's unacknowledged ones. What waits longer is deferred. */
const NAP_MS_MAX = 2000
const NAPS_MAX = 1000
const LONGER_MS_MAX = 900_000
const TIMEOUT_MS = 15_000
const REMEMBERED_MAX = 50_000
/** Beyond, lanes that have nothing to remember are forgotten. */
const LANES_MAX = 10_000
const CATCH_UP_MS = 2000
/** A message handed out within this of its time comes for the first time; with others the view is asked. */
const FRESH_MS = 30_000
const RELEASE_MS = 50

const RELEASE = subjects.dueRelease('')

/** One consumer's jobs in this process: those at work or waiting here, and those sent back for a nap. */
interface Source {
  places: number
  held: number
  naps: number
}

/** Makes the deliveries: each endpoint in its own lane, retries and what finds no place there by schedule. */
export function startDispatch (options: DispatchOptions): Role {
  const { appenders, directory, log, random = Math.random, gapsS = GAPS_S } = options
  const { clock } = appenders
  const poster = createPoster({ ...options, timeoutMs: options.timeoutMs ?? TIMEOUT_MS })
  const health = createHealth(options)
  const attempt = createAttempt({ ...options, poster, health, random, gapsS })
  /** Acknowledgements may be forgotten by the server, and one request too many is worth avoiding. */
  const finished = new Memory<true>(REMEMBERED_MAX)
  const napped = new Memory<true>(REMEMBERED_MAX)
  const gone = new Memory<true>(REMEMBERED_MAX)
  const order = createOrder(REMEMBERED_MAX)
  const isDone = createDoneCheck(options.isDone)
  const lanes = new Map<string, EndpointQueue>()
  const rules: Omit<EndpointQueueRules, 'concurrency'> = {
    failuresMax: LANE_FAILURES_MAX,
    probesWaitingMax: LANE_PROBES_WAITING_MAX,
    pauseMs: gapsS[0]! * 200,
    pauseMsMax: gapsS[1]! * 1000,
    holdMsMax: LANE_HOLD_MS_MAX,
    briskS: LANE_BRISK_S,
    backgroundTurns: LANE_BACKGROUND_TURNS,
    backgroundMsMax: LANE_BACKGROUND_MS_MAX,
    bookMsMin: gapsS[0]! * 50,
    nowMs: () => clock.nowMs()
  }
  let stopping = false

  function start (plan: ConsumerPlan, places: number): Role {
    const source: Source = { places, held: 0, naps: 0 }
    return work(appenders.bus, {
      plan,
      name: plan.durable_name,
      concurrency: places,
      repair: options.repair,
      onError: error => log.warn({ err: error, consumer: plan.durable_name }, 'webhook deliveries interrupted'),
      async handle (job) {
        source.held++
        await handle(job, source).finally(() => source.held--)
      }
    })
  }

  async function handle (job: Job, source: Source): Promise<void> {
    if (job.subject.startsWith(RELEASE)) return await release(job.subject.slice(RELEASE.length), job)
    const { pending, sinceMs } = read(job)
    const key = tryKey(pending)
    if (finished.has(key) || (mayBeOld(job, key, sinceMs) && await isDone(pending.owed))) return job.ack()
    const againMs = await deal(pending, source)
    if (againMs === null) {
      finished.set(key, true)
      job.ack()
    } else {
      napped.set(key, true)
      job.again(againMs)
    }
  }

  /** Whatever is older than our connection, or has been waiting, may have been handled before the server, a consumer or
   *  we came back. */
  function mayBeOld (job: Job, key: string, sinceMs: number): boolean {
    if (job.redelivered) return !napped.has(key)
    return sinceMs < (appenders.bus.upSinceMs() ?? Infinity) || sinceMs < clock.nowMs() - FRESH_MS
  }

  /** Brings one delivery a step further, durably: null; or says in how many ms it is to come again. */
  async function deal (due: Pending, source: Source): Promise<number | null> {
    const { webhook } = due.owed
    const { seq } = due.owed.events[0]!
    const endpoint = await endpointOf(webhook)
    if (refusal(due, endpoint) !== null) return await refuse(due, endpoint)
    if (endpoint!.paused) return await hold(due)
    const pending = letGo(due, clock.nowMs())
    const lane = laneOf(webhook)
    const behindMs = order.waitsUntil(placeOf(pending), seq, clock.nowMs())
    if (behindMs !== null) return await putOff(pending, Math.max(behindMs + 1, lane.book(isAgain(pending))), source)
    const { end, record } = await drive(pending, lane, source)
    if (end === 'released') return RELEASE_MS
    if (end === 'full') return await putOff(pending, lane.book(isAgain(pending)), source)
    if (end === 'failing') return await defer(pending, deferUntilMs(startOf(pending), clock.nowMs(), random, gapsS))
    settle(pending)
    await record()
    return null
  }

  /** Through the lane, if it has a place; `record` then makes durable what came of it, or throws what went wrong on our
   *  side. */
  async function drive (pending: Pending, lane: EndpointQueue, source: Source) {
    let record: () => Promise<unknown> = () => Promise.resolve()
    const run = async (): Promise<Ran> => {
      try {
        // It may have waited in its lane: the endpoint may have gone or been paused meanwhile.
        const endpoint = directory.now.webhooks.get(pending.owed.webhook)
        if (endpoint === undefined || refusal(pending, endpoint) !== null) {
          record = () => refuse(pending, endpoint)
          return NOTHING
        }
        if (endpoint.paused) {
          record = () => hold(pending)
          return NOTHING
        }
        const tried = await attempt(pending, endpoint)
        record = tried.record
        return tried
      } catch (error) {
        record = () => Promise.reject(asError(error))
        return NOTHING
      }
    }
    const free = source.places - source.held
    const room = { share: Math.min(LANE_PLACES_MAX, Math.max(1, free >> 1)), most: source.places * 3 >> 2 }
    const end = await lane.offer({ key: keyOf(pending), background: isAgain(pending), run }, room)
    return { end, record }
  }

  function laneOf (webhook: string): EndpointQueue {
    const concurrency = () => directory.now.webhooks.get(webhook)?.concurrency ?? LANE_CONCURRENCY
    const lane = lanes.get(webhook) ?? createEndpointQueue({ ...rules, concurrency })
    if (stopping) lane.close()
    lanes.set(webhook, lane)
    if (lanes.size > LANES_MAX) {
      for (const [id, other] of lanes) {
        if (other !== lane && other.idle()) lanes.delete(id)
      }
    }
    return lane
  }

  /** An endpoint unknown here may be new: only a directory that has caught up tells that it is gone, and that is for
   *  ever. */
  async function endpointOf (webhook: string): Promise<WebhookEntry | undefined> {
    const known = directory.now.webhooks.get(webhook)
    if (known !== undefined || gone.has(webhook)) return known
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    const found = directory.now.webhooks.get(webhook)
    if (found === undefined) gone.set(webhook, true)
    return found
  }

  function refusal (pending: Pending, endpoint: WebhookEntry | undefined) {
    return whyNot(pending, endpoint, clock.nowMs())
  }

  async function refuse (pending: Pending, endpoint: WebhookEntry | undefined): Promise<null> {
    const reason = refusal(pending, endpoint)!
    if (endpoint === undefined) lanes.delete(pending.owed.webhook)
    settle(pending)
    await failDelivery(appenders, pending, reason)
    log.info({ ...idsOf(pending), attempts: pending.attempts, reason }, 'webhook delivery given up')
    return null
  }

  /** A short wait is a nap, a long one is deferred. Later events of the same email wait behind either. */
  async function putOff (pending: Pending, untilMs: number, source: Source): Promise<number | null> {
    const nowMs = clock.nowMs()
    const endMs = startOf(pending) + RETRY_MS_MAX
    const waitMs = Math.max(1, untilMs - nowMs)
    // A place is booked by a guess: who has waited in vain waits half as long again (15 min at most), so that a wrong
    // guess costs few turns.
    const longerMs = Math.max(untilMs, nowMs + Math.min((nowMs - startOf(pending)) / 2, LONGER_MS_MAX))
    if (waitMs > NAP_MS_MAX || source.naps >= NAPS_MAX) {
      return await defer(pending, nowMs >= endMs ? null : Math.min(longerMs, endMs))
    }
    order.deferred(placeOf(pending), pending.owed.events[0]!.seq, untilMs)
    source.naps++
    setTimeout(() => source.naps--, waitMs).unref()
    return waitMs
  }

  /** Durable in the log and by schedule; `untilMs` null = its 24 hours are over. */
  async function defer (pending: Pending, untilMs: number | null): Promise<null> {
    if (untilMs === null) {
      settle(pending)
      await failDelivery(appenders, pending, 'expired')
      return null
    }
    // What is held comes back when its pause ends: nobody can tell others how long to wait for it.
    if (pending.heldAt === null) order.deferred(placeOf(pending), pending.owed.events[0]!.seq, untilMs)
    await parkDelivery(appenders, pending, startOf(pending), untilMs)
    log.debug({ ...idsOf(pending), nextAttemptAt: timestamp(untilMs) }, 'webhook delivery deferred')
    return null
  }

  /** Nobody waits for it any more. */
  function settle (pending: Pending): void {
    order.settled(placeOf(pending), pending.owed.events[0]!.seq)
  }

  /** Its endpoint is paused. */
  function hold (pending: Pending): Promise<null> {
    const nowMs = clock.nowMs()
    return defer({ ...pending, heldAt: pending.heldAt ?? timestamp(nowMs) }, holdUntilMs(startOf(pending), nowMs))
  }

  /** A pause is over: what it has held is due now. Or the endpoint is: all that waits for it ends now, and not when its
   *  time would come. */
  async function release (webhook: string, job: Job): Promise<void> {
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    const endpoint = directory.now.webhooks.get(webhook)
    const over = endpoint === undefined || endpoint.disabled !== null
    if (over || !endpoint.paused) await releaseWaiting(appenders, webhook, over)
    job.ack()
  }

  function startOf ({ firstAttemptAt }: Pending): number {
    return firstAttemptAt === null ? clock.nowMs() : Date.parse(firstAttemptAt)
  }

  const workers = [
    ...consumerPlans.deliveries.map(plan => start(plan, PARTITION_PLACES)),
    start(consumerPlans.deliveriesReplay, AGAIN_PLACES),
    start(consumerPlans.deliveriesDue, DUE_PLACES)
  ]
  return {
    name: 'webhook dispatch',
    unhealthyReason: () =>
      workers.map(worker => worker.unhealthyReason()).find(unhealthyReason => unhealthyReason !== null) ?? null,
    async stop () {
      stopping = true
      for (const lane of lanes.values()) lane.close()
      await Promise.all(workers.map(worker => worker.stop()))
      await Promise.all([poster.close(), health.settled()])
    }
  }
}

/** What a message asks for, and since when it does. */
function read (job: Job): { pending: Pending, sinceMs: number } {
  if (job.subject.startsWith('due.')) {
    const pending = Value.Parse(Pending, JSON.parse(Buffer.from(job.bytes).toString('utf8')))
    return { pending, sinceMs: Date.parse(pending.dueAt!) }
  }
  const fact = decodeFact(job.bytes)
  const pending = pendingAfter(fact)
  if (pending == null) throw new Error(`${fact.type} is no delivery to make`)
  return { pending, sinceMs: Date.parse(fact.time) }
}

/** Nothing was asked of the endpoint. */
const NOTHING: Ran = { fine: null, holdMs: 0 }

/** A replay asks for it. */
function isAgain ({ owed }: Pending): boolean {
  return owed.replay !== null
}

/** Whose order is kept at an endpoint: an email's; batches hold events of many, and go one after the other. What goes
 *  out again has an order of its own: what is new never waits for it. */
function keyOf (pending: Pending): string {
  const { batch, events } = pending.owed
  return `${isAgain(pending) ? 'again ' : ''}${batch ? 'batch' : events[0]!.email}`
}

function placeOf (pending: Pending): string {
  return `${pending.owed.webhook} ${keyOf(pending)}`
}
