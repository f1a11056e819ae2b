import type { ConsumerPlan } from '#streams/topology.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { countAfter } from './consumer.ts'
import { getMessage } from './get.ts'

/** The state of a stream, by its leader. */
export interface StreamStatus {
  name: string
  messages: number
  bytes: number
  /** RFC 3339; null = there is no message. */
  firstAt: string | null
  lastSeq: number
  /** How long messages are kept, in ms; 0 = for ever. */
  ageMsMax: number
  isInMemory: boolean
  replicas: number
  /** Names of the servers whose copy is behind or away. */
  replicasBehind: string[]
}

/** The state of a durable consumer. */
export interface ConsumerStatus {
  stream: string
  name: string
  /** Not delivered to a worker yet. */
  pending: number
  /** Delivered and not acknowledged. */
  ackPending: number
  ackPendingMax: number
  /** Of those, delivered more than once. */
  redelivered: number
  /** Pull requests of workers that wait for messages; 0 = no worker is pulling just now. */
  waiting: number
}

const ANSWER_MS = 2000

interface StreamInfo {
  config: { max_age: number, num_replicas: number, storage: string }
  state: { messages: number, bytes: number, first_ts: string, last_seq: number }
  cluster?: { replicas?: Array<{ name: string, current: boolean, offline?: boolean }> }
}

/** Deadline 2 s. Throws what `isUnanswered` knows, or JetStreamError. */
export async function streamStatus (bus: Bus, name: string): Promise<StreamStatus> {
  const { config, state, cluster } = await api<StreamInfo>(bus, `STREAM.INFO.${name}`, undefined, ANSWER_MS)
  return {
    name,
    messages: state.messages,
    bytes: state.bytes,
    firstAt: state.messages === 0 ? null : new Date(state.first_ts).toISOString(),
    lastSeq: state.last_seq,
    ageMsMax: config.max_age / 1e6,
    isInMemory: config.storage === 'memory',
    replicas: config.num_replicas,
    replicasBehind: (cluster?.replicas ?? []).filter(({ current, offline }) => !current || offline === true).map((
      { name: server }
    ) => server)
  }
}

interface ConsumerInfo {
  num_pending: number
  num_ack_pending: number
  num_redelivered: number
  num_waiting: number
  config: { max_ack_pending: number }
}

/** Deadline 2 s. Throws what `isUnanswered` knows, or JetStreamError. */
export async function consumerStatus (bus: Bus, { stream, durable_name: name }: ConsumerPlan): Promise<ConsumerStatus> {
  const info = await api<ConsumerInfo>(bus, `CONSUMER.INFO.${stream}.${name}`, undefined, ANSWER_MS)
  return {
    stream,
    name,
    pending: info.num_pending,
    ackPending: info.num_ack_pending,
    ackPendingMax: info.config.max_ack_pending,
    redelivered: info.num_redelivered,
    waiting: info.num_waiting
  }
}

/** How many messages there are after a sequence, and when the first of them was stored (Unix ms; null = there are
 *  none). The server counts what is under the filter: too costly for every reader, fine for an operator. Throws what
 *  `isUnanswered` knows, or JetStreamError. */
export async function messagesAfter (
  bus: Bus,
  stream: string,
  filter: string,
  afterSeq: number
): Promise<{ count: number, firstMs: number | null }> {
  const count = await countAfter(bus, stream, filter, afterSeq)
  if (count === 0) return { count, firstMs: null }
  const first = await getMessage(bus, stream, { seq: afterSeq + 1, next_by_subj: filter }, 'leader')
  return { count, firstMs: first?.storedMs ?? null }
}

/** How long a stream keeps its messages, in ms; Infinity = for ever. Deadline 2 s. */
export async function ageMsMax (bus: Bus, stream: string): Promise<number> {
  const { ageMsMax } = await streamStatus(bus, stream)
  return ageMsMax === 0 ? Infinity : ageMsMax
}

/** Up to here the consumer's messages are all acknowledged. Deadline 2 s. Throws JetStreamError when there is no such
 *  consumer. */
export async function ackFloorOf (bus: Bus, { stream, durable_name: name }: ConsumerPlan): Promise<number> {
  const info = await api<{ ack_floor: { stream_seq: number } }>(
    bus,
    `CONSUMER.INFO.${stream}.${name}`,
    undefined,
    ANSWER_MS
  )
  return info.ack_floor.stream_seq
}

/** Subjects on one page of the server's answer. */
const SUBJECTS_PAGE = 100_000

/** Every subject under a filter that a stream holds messages on. */
export async function subjectsUnder (bus: Bus, stream: string, filter: string): Promise<string[]> {
  const found: string[] = []
  for (;;) {
    const request = { subjects_filter: filter, offset: found.length }
    const { state } = await api<{ state: { subjects?: Record<string, number> } }>(bus, `STREAM.INFO.${stream}`, request)
    const page = Object.keys(state.subjects ?? {})
    found.push(...page)
    if (page.length < SUBJECTS_PAGE) return found
  }
}
