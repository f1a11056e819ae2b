import { RESTORING } from '#streams/backup.ts'
import { consumerPlans, streamPlans, type ConsumerPlan, type Retention, type StreamPlan } from '#streams/topology.ts'
import { Complaint } from '#src/base/errors.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { CONSUMER_NOT_FOUND, isUnanswered, JetStreamError, NO_PLACE, STREAM_NOT_FOUND } from './errors.ts'

/** What may change under a running service; any other difference is a drift that a person must look at. */
const MOVABLE = new Set(['subjects', 'max_age', 'max_msgs_per_subject', 'duplicate_window', 'discard'])
const UNSAID: Record<string, unknown> = { max_age: 0, max_msgs_per_subject: -1, duplicate_window: 0 }

export interface EnsureOptions {
  retention: Retention
  /** Copies of each stream: 1 on one server, 3 on a cluster. */
  replicas: number
  log: Log
}

const JETSTREAM_MS = 30_000
/** After a reconnect. */
const AGAIN_MS = 500
const ROUND_MS_MAX = 120_000

/** Makes the streams and durable consumers as planned, moves what may move, and complains in a sentence about any other
 *  difference. */
export async function ensureTopology (bus: Bus, options: EnsureOptions, signal?: AbortSignal): Promise<void> {
  await waitForJetStream(bus, signal)
  for (const plan of streamPlans(options.retention)) {
    signal?.throwIfAborted()
    await ensureStream(bus, plan, options, signal)
  }
  for (const plan of Object.values(consumerPlans).flat()) {
    signal?.throwIfAborted()
    await ensureConsumer(bus, plan)
  }
}

/** Ensures the topology again after every reconnect: a server that was restarted has lost the streams it kept in
 *  memory, and without heartbeats nothing is sent. Tries until it succeeds. */
export function keepTopology (bus: Bus, options: EnsureOptions): Role {
  const reasonOf = (error: Error) => `the streams cannot be ensured: ${error.message}`
  const rounds = repeat({
    name: 'streams',
    firstInMs: Infinity,
    async round (signal) {
      // The next reconnect wakes it.
      if (bus.upSinceMs() === null) return null
      await ensureTopology(bus, options, signal)
      return Infinity
    },
    againMs: AGAIN_MS,
    roundMsMax: ROUND_MS_MAX,
    onError: error => options.log.warn({ reason: reasonOf(error) }, 'streams not ensured after a reconnect'),
    unhealthyReason: ({ error }) => (error === null ? null : reasonOf(error))
  })
  bus.onReconnect(() => rounds.wake())
  return rounds
}

/** After a start the server answers before its JetStream does. */
async function waitForJetStream (bus: Bus, signal?: AbortSignal): Promise<void> {
  for (const endMs = Date.now() + JETSTREAM_MS;;) {
    signal?.throwIfAborted()
    try {
      return void await api(bus, 'INFO', undefined, 2000)
    } catch (error) {
      if (!isUnanswered(error) || Date.now() > endMs) {
        throw new Complaint(`NATS answers but its JetStream does not: ${(error as Error).message}`)
      }
    }
    await sleep(100, signal)
  }
}

/** As the server tells it. */
type StreamConfig = Record<string, unknown> & { metadata?: Record<string, string> }

async function ensureStream (
  bus: Bus,
  plan: StreamPlan,
  options: EnsureOptions,
  signal?: AbortSignal
): Promise<void> {
  const wanted = {
    ...plan,
    num_replicas: options.replicas,
    ...(options.replicas > 1 ? { persist_mode: undefined } : {})
  }
  const found = await api<{ config: StreamConfig }>(bus, `STREAM.INFO.${plan.name}`, undefined).catch(
    unlessMissing(STREAM_NOT_FOUND)
  )
  if (found === null) return await createStream(bus, wanted, signal)
  if (found.config.metadata?.[RESTORING] !== undefined) {
    throw new Complaint('A restore of this log was not finished: run jetpost restore again.')
  }
  const different = Object.entries(wanted).filter(([name, value]) => !same(value, found.config[name], UNSAID[name]))
    .map(([name]) => name)
  const fixed = different.filter(name => !MOVABLE.has(name))
  if (fixed.length > 0) {
    throw new Complaint(
      `The stream ${plan.name} differs from what this version of Jetpost expects in ${
        fixed.join(', ')
      }, which cannot be changed in place: ` +
        'restore its configuration, or start with streams made by this version.'
    )
  }
  if (different.length === 0) return
  options.log.info({ stream: plan.name, changed: different }, 'stream brought up to date')
  await api(bus, `STREAM.UPDATE.${plan.name}`, { ...found.config, ...wanted })
}

/** The servers of a cluster find each other after their start: until then there is no place for all copies. What is
 *  asked for twice is made once. */
async function createStream (
  bus: Bus,
  wanted: { name: string, num_replicas: number },
  signal?: AbortSignal
): Promise<void> {
  for (const endMs = Date.now() + JETSTREAM_MS;; await sleep(AGAIN_MS, signal)) {
    signal?.throwIfAborted()
    try {
      return void await api(bus, `STREAM.CREATE.${wanted.name}`, wanted)
    } catch (error) {
      const hasNoPlace = error instanceof JetStreamError && error.code === NO_PLACE
      if (Date.now() < endMs && (hasNoPlace || isUnanswered(error))) continue
      if (!hasNoPlace) throw error
      throw new Complaint(
        `NATS has no place for ${wanted.num_replicas} replicas of ${wanted.name}: ` +
          'JETPOST_NATS_REPLICAS must not be more than the servers of the cluster.'
      )
    }
  }
}

async function ensureConsumer (bus: Bus, plan: ConsumerPlan): Promise<void> {
  const { stream, ...config } = plan
  // CREATE with an existing name updates what may be updated, and refuses the rest with its reason.
  await api(bus, `CONSUMER.CREATE.${stream}.${config.durable_name}.${config.filter_subject}`, {
    stream_name: stream,
    config
  })
}

/** Makes again a durable consumer or stream that somebody deleted under us. True when it was missing. */
export async function repair (bus: Bus, plan: ConsumerPlan, options: EnsureOptions): Promise<boolean> {
  const there = await api(bus, `CONSUMER.INFO.${plan.stream}.${plan.durable_name}`, undefined).then(
    () => true,
    error => {
      if (error instanceof JetStreamError && [CONSUMER_NOT_FOUND, STREAM_NOT_FOUND].includes(error.code)) return false
      throw error
    }
  )
  if (there) return false
  options.log.warn(
    { stream: plan.stream, consumer: plan.durable_name },
    'consumer is gone from the server and made again'
  )
  const streamPlan = streamPlans(options.retention).find(candidate => candidate.name === plan.stream)!
  await ensureStream(bus, streamPlan, options)
  await ensureConsumer(bus, plan)
  return true
}

function unlessMissing (code: number) {
  return (error: unknown): null => {
    if (error instanceof JetStreamError && error.code === code) return null
    throw error
  }
}

function same (wanted: unknown, found: unknown, unsaid: unknown): boolean {
  if (wanted === undefined) return true
  return JSON.stringify(wanted) === JSON.stringify(found ?? unsaid ?? false)
}
