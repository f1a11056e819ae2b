import { Value } from '@sinclair/typebox/value'
import { failDelivery, parkDelivery, releaseHeld } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Ledger } from '#src/actions/ledger.ts'
import { decodeFact } from '#streams/catalog.ts'
import { GAPS_S, holdUntilMs, letGo, parkUntilMs, whyNot } from '#streams/delivery/decide.ts'
import { Pending, pendingAfter, tryKey } from '#streams/delivery/state.ts'
import type { Webhook } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Vault } from '#src/base/secret.ts'
import { work, type Job } from '#src/nats/work.ts'
import { createAttempt, idsOf, type OnAttempt } from './attempt.ts'
import type { Bodies } from './bodies.ts'
import { createLane, type Lane, type LaneRules } from './lane.ts'
import { createOrder } from './order.ts'
import { createPoster } from './post.ts'
import { createDoneCheck, createMemory, type IsDone } from './redelivery.ts'

export interface DispatchOptions {
  ledger: Ledger
  directory: LiveDirectory
  vault: Vault
  bodies: Bodies
  /** Makes a consumer again that is missing on the server. */
  repair (plan: ConsumerPlan): Promise<boolean>
  /** May http and private addresses be called. */
  allowPrivate: boolean
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
/** Of the places still free one endpoint gets half, and never more than these: however many endpoints hang, some stay free for the
 *  others. */
const LANE_PLACES_MAX = 500
/** Unless the endpoint's owner chose another number. */
const LANE_CONCURRENCY = 8
const LANE_FAILURES_MAX = 5
const LANE_PROBES_WAITING_MAX = 2
/** What has to wait no longer than this goes back to the server for so long, without a word in the log; so many at most, for they count
 *  against the consumer's unacknowledged ones. What waits longer is parked. */
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
interface Source { places: number, held: number, naps: number }

/** Makes the deliveries: each endpoint in its own lane, retries and what finds no place there by schedule. */
export function startDispatch (options: DispatchOptions): Role {
  const { ledger, directory, log, random = Math.random, gapsS = GAPS_S } = options
  const { clock } = ledger
  const poster = createPoster({ allowPrivate: options.allowPrivate, timeoutMs: options.timeoutMs ?? TIMEOUT_MS })
  const attempt = createAttempt({ ...options, poster, random, gapsS })
  const finished = createMemory(REMEMBERED_MAX)
  const napped = createMemory(REMEMBERED_MAX)
  const gone = createMemory(REMEMBERED_MAX)
  const order = createOrder(REMEMBERED_MAX)
  const isDone = createDoneCheck(options.isDone)
  const lanes = new Map<string, Lane>()
  const rules: Omit<LaneRules, 'concurrency'> = {
    failuresMax: LANE_FAILURES_MAX,
    probesWaitingMax: LANE_PROBES_WAITING_MAX,
    pauseMs: gapsS[0]! * 200,
    pauseMsMax: gapsS[1]! * 1000,
    bookMsMin: gapsS[0]! * 50,
    nowMs: () => clock.nowMs()
  }
  let stopping = false

  function start (plan: ConsumerPlan, places: number): Role {
    const source: Source = { places, held: 0, naps: 0 }
    return work(ledger.bus, {
      plan,
      name: plan.durable_name,
      concurrency: places,
      repair: options.repair,
      onTrouble: error => log.warn({ err: error, consumer: plan.durable_name }, 'webhook deliveries interrupted'),
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
    if (finished.has(key) || (mayBeOld(job, key, sinceMs) && await isDone(pending.owed.delivery))) return job.ack()
    const againMs = await deal(pending, source)
    if (againMs === null) {
      finished.add(key)
      job.ack()
    } else {
      napped.add(key)
      job.again(againMs)
    }
  }

  /** Whatever is older than our connection, or has been waiting, may have been handled before the server, a consumer or we came back. */
  function mayBeOld (job: Job, key: string, sinceMs: number): boolean {
    if (job.redelivered) return !napped.has(key)
    return sinceMs < (ledger.bus.upSinceMs() ?? Infinity) || sinceMs < clock.nowMs() - FRESH_MS
  }

  /** Brings one delivery a step further, durably: null; or says in how many ms it is to come again. */
  async function deal (due: Pending, source: Source): Promise<number | null> {
    const { webhook, event } = due.owed
    const endpoint = await endpointOf(webhook)
    if (refusal(due, endpoint) !== null) return await refuse(due, endpoint)
    if (endpoint!.paused) return await hold(due)
    const pending = letGo(due, clock.nowMs())
    const lane = laneOf(webhook)
    const behindMs = order.waitsUntil(placeOf(pending), event.seq, clock.nowMs())
    if (behindMs !== null) return await putOff(pending, Math.max(behindMs + 1, lane.book()), source)
    const { end, record } = await drive(pending, lane, source)
    if (end === 'released') return RELEASE_MS
    if (end === 'full') return await putOff(pending, lane.book(), source)
    if (end === 'failing') return await park(pending, parkUntilMs(startOf(pending), clock.nowMs(), random, gapsS))
    order.settled(placeOf(pending), event.seq)
    await record()
    return null
  }

  /** Through the lane, if it has a place; `record` then makes durable what came of it, or throws what went wrong on our side. */
  async function drive (pending: Pending, lane: Lane, source: Source) {
    let record: () => Promise<unknown> = () => Promise.resolve()
    const run = async () => {
      try {
        // It may have waited in its lane: the endpoint may have gone or been paused meanwhile.
        const endpoint = directory.now.webhooks.get(pending.owed.webhook)
        if (endpoint === undefined || refusal(pending, endpoint) !== null) {
          record = () => refuse(pending, endpoint)
          return null
        }
        if (endpoint.paused) {
          record = () => hold(pending)
          return null
        }
        const tried = await attempt(pending, endpoint)
        record = tried.record
        return tried.fine
      } catch (error) {
        record = () => Promise.reject(asError(error))
        return null
      }
    }
    const limit = Math.min(LANE_PLACES_MAX, Math.max(1, (source.places - source.held) >> 1))
    const end = await lane.offer({ key: pending.owed.email, run }, limit)
    return { end, record }
  }

  function laneOf (webhook: string): Lane {
    const concurrency = () => directory.now.webhooks.get(webhook)?.concurrency ?? LANE_CONCURRENCY
    const lane = lanes.get(webhook) ?? createLane({ ...rules, concurrency })
    if (stopping) lane.close()
    lanes.set(webhook, lane)
    if (lanes.size > LANES_MAX) for (const [id, other] of lanes) if (other !== lane && other.idle()) lanes.delete(id)
    return lane
  }

  /** An endpoint unknown here may be new: only a directory that has caught up tells that it is gone, and that is for ever. */
  async function endpointOf (webhook: string): Promise<Webhook | undefined> {
    const known = directory.now.webhooks.get(webhook)
    if (known !== undefined || gone.has(webhook)) return known
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    const found = directory.now.webhooks.get(webhook)
    if (found === undefined) gone.add(webhook)
    return found
  }

  function refusal (pending: Pending, endpoint: Webhook | undefined) {
    return whyNot(pending, endpoint, clock.nowMs())
  }

  async function refuse (pending: Pending, endpoint: Webhook | undefined): Promise<null> {
    const reason = refusal(pending, endpoint)!
    if (endpoint === undefined) lanes.delete(pending.owed.webhook)
    await failDelivery(ledger, pending, reason)
    log.info({ ...idsOf(pending), attempts: pending.attempts, reason }, 'webhook delivery given up')
    return null
  }

  /** A short wait is a nap, a long one is parked. Later events of the same email wait behind either. */
  async function putOff (pending: Pending, untilMs: number, source: Source): Promise<number | null> {
    const nowMs = clock.nowMs()
    const waitMs = Math.max(1, untilMs - nowMs)
    // A place is booked by a guess: who has waited in vain waits half as long again (15 min at most), so that a wrong guess costs few turns.
    const longerMs = Math.max(untilMs, nowMs + Math.min((nowMs - startOf(pending)) / 2, LONGER_MS_MAX))
    if (waitMs > NAP_MS_MAX || source.naps >= NAPS_MAX) return await park(pending, longerMs)
    order.parked(placeOf(pending), pending.owed.event.seq, untilMs)
    source.naps++
    setTimeout(() => source.naps--, waitMs).unref()
    return waitMs
  }

  /** Durable in the log and by schedule; `untilMs` null = its 24 hours are over. */
  async function park (pending: Pending, untilMs: number | null): Promise<null> {
    if (untilMs === null) {
      await failDelivery(ledger, pending, 'expired')
      return null
    }
    // What is held comes back when its pause ends: nobody can tell others how long to wait for it.
    if (pending.heldAt === null) order.parked(placeOf(pending), pending.owed.event.seq, untilMs)
    await parkDelivery(ledger, pending, startOf(pending), untilMs)
    log.debug({ ...idsOf(pending), nextAttemptAt: timestamp(untilMs) }, 'webhook delivery parked')
    return null
  }

  /** Its endpoint is paused. */
  function hold (pending: Pending): Promise<null> {
    const nowMs = clock.nowMs()
    return park({ ...pending, heldAt: pending.heldAt ?? timestamp(nowMs) }, holdUntilMs(startOf(pending), nowMs))
  }

  /** A pause is over: what it has held is due now. */
  async function release (webhook: string, job: Job): Promise<void> {
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    if (directory.now.webhooks.get(webhook)?.paused !== true) await releaseHeld(ledger, webhook)
    job.ack()
  }

  function startOf ({ firstAttemptAt }: Pending): number {
    return firstAttemptAt === null ? clock.nowMs() : Date.parse(firstAttemptAt)
  }

  const workers = [...consumerPlans.deliveries.map(plan => start(plan, PARTITION_PLACES)), start(consumerPlans.deliveriesDue, DUE_PLACES)]
  return {
    name: 'webhook dispatch',
    trouble: () => workers.map(worker => worker.trouble()).find(trouble => trouble !== null) ?? null,
    async stop () {
      stopping = true
      for (const lane of lanes.values()) lane.close()
      await Promise.all(workers.map(worker => worker.stop()))
      await poster.close()
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

function placeOf ({ owed: { webhook, email } }: Pending): string {
  return `${webhook} ${email}`
}
