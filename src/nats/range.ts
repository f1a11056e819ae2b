import type { AnyFact } from '#streams/catalog.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import type { ConsumerRange } from './consumer.ts'
import { ANSWER_MS, getDirectBatch, storedMessage } from './direct.ts'
import { isUnanswered, unreadable } from './errors.ts'
import { getFact, getMessage, lastSequence, type ReadFrom } from './get.ts'
import { decodeStored, type StoredFact, type StoredMessage } from './message.ts'
import { PullConsumer } from './pull.ts'

/** A position in a stream, and what is of interest from there on. */
export interface StreamPosition {
  /** Subject filter, wildcards allowed; null = every subject. The server counts what is under a filter for each page,
   *  which takes it a while where there is much: 80 ms with 100,000 subjects, against 10 ms without a filter. */
  filter: string | null
  /** Messages after this sequence. */
  afterSeq: number
}

export interface PageLimits {
  /** Messages. */
  max: number
  /** A page ends with the message that reaches so many bytes. */
  bytesMax?: number
  /** 2 s unless given. */
  timeoutMs?: number
}

export interface MessagePage {
  messages: StoredMessage[]
  /** How many follow them, as the replica that answered knows: another may know of newer ones. */
  pending: number
}

/** The next messages of a stream, oldest first, from any replica: it may not have the newest yet, but it leaves none
 *  out among those it gives. A page without messages is an answer. Throws what `isUnanswered` knows. */
export async function readMessages (
  bus: Bus,
  stream: string,
  { filter, afterSeq }: StreamPosition,
  { max, bytesMax, timeoutMs }: PageLimits
): Promise<MessagePage> {
  const request = { seq: afterSeq + 1, next_by_subj: filter ?? undefined, batch: max, max_bytes: bytesMax }
  const { messages, pending } = await getDirectBatch(bus, stream, request, timeoutMs)
  return { messages: messages.map(message => storedMessage(stream, message)), pending }
}

/** Pages after a position until there is no more, by the leader's word. `max` is asked before each page. Where so much
 *  lies under the filter that the server cannot count it in time, messages come one by one. Deadline 2 s a page. Throws
 *  what `isUnanswered` knows, or JetStreamError. */
export async function* readPages (
  bus: Bus,
  stream: string,
  { filter, afterSeq }: StreamPosition,
  { max, bytesMax }: { max: () => number, bytesMax: number }
): AsyncGenerator<StoredMessage[]> {
  let quick = true
  for (let seq = afterSeq;;) {
    const page: MessagePage | null = quick
      ? await readMessages(bus, stream, { filter, afterSeq: seq }, { max: max(), bytesMax }).catch(nullIfUnanswered)
      : null
    quick = page !== null
    if (page !== null && page.messages.length > 0) yield page.messages
    seq = page?.messages.at(-1)?.seq ?? seq
    if (page !== null && page.pending > 0) continue
    const next = await getMessage(bus, stream, { seq: seq + 1, next_by_subj: filter ?? '>' }, 'leader')
    if (next === null) return
    yield [next]
    seq = next.seq
  }
}

function nullIfUnanswered (error: unknown): null {
  if (isUnanswered(error)) return null
  throw error
}

const PAGE = { max: 500, bytesMax: 1024 * 1024 }
/** What one email of 50 recipients can have come to, and more. */
const FACTS_MAX = 25_000

/** All facts under a subject filter, oldest first; from the leader = whatever was acknowledged is there. Deadline 2 s
 *  for all of it. Throws what `isUnanswered` knows, for more facts than there can be as well; JetStreamError; the
 *  schema's error. */
export async function readFacts (
  bus: Bus,
  stream: string,
  filter: string,
  from: ReadFrom = 'any'
): Promise<StoredFact[]> {
  const endMs = performance.now() + ANSWER_MS
  const leftMs = () => Math.max(1, endMs - performance.now())
  const facts: StoredFact[] = []
  for (;;) {
    const afterSeq = facts.at(-1)?.seq ?? 0
    const page = await readMessages(bus, stream, { filter, afterSeq }, { ...PAGE, timeoutMs: leftMs() })
    for (const message of page.messages) facts.push(decodeStored(message))
    if (facts.length > FACTS_MAX) throw unreadable(stream, `there are more than ${FACTS_MAX} facts under one filter`)
    if (page.pending > 0) continue
    if (from === 'any') return facts
    const query = { seq: (facts.at(-1)?.seq ?? 0) + 1, next_by_subj: filter }
    const next = await getFact(bus, stream, query, 'leader', leftMs())
    if (next === null) return facts
    facts.push(next)
  }
}

/** The first fact on a subject that is not before the one sought, or null when all are. The facts must be in the order
 *  of `compare`, which says how one stands to the one sought (below 0: before). Halves the stream until it is found:
 *  some 30 reads. */
export async function bisect (
  bus: Bus,
  stream: string,
  subject: string,
  compare: (fact: AnyFact) => number
): Promise<StoredFact | null> {
  let [after, before] = [0, await lastSequence(bus, stream)]
  let found: StoredFact | null = null
  while (after < before) {
    const middle = Math.floor((after + before) / 2)
    const next = await getFact(bus, stream, { seq: middle + 1, next_by_subj: subject })
    if (next !== null && compare(next.fact) < 0) after = next.seq
    else [before, found] = [middle, next ?? found]
  }
  return found
}

export interface RangeOptions extends ConsumerRange {
  /** Up to this sequence; left out = up to the stream's last one now. */
  endSeq?: number
  signal?: AbortSignal
  /** Called at each interruption, after which reading goes on. Without it, the eighth interruption in a row is thrown.
   */
  onError?: (error: Error) => void
}

const FAILURES_MAX = 8
const PAUSE_MS = 500
const LEADER_MS = 5000

/** All messages of a range in order, in bulk: in arrays, as fast as they are taken. The leader says where the end is,
 *  since the consumer may be on a replica that has not heard of the newest. Ends early when `signal` is aborted. */
export async function* readRange (bus: Bus, range: RangeOptions): AsyncGenerator<StoredMessage[]> {
  const { stream, signal, onError } = range
  const isStopped = () => signal?.aborted === true
  const endSeq = range.endSeq ?? await lastSequence(bus, stream)
  let { afterSeq } = range
  for (let failures = 0; afterSeq < endSeq && !isStopped();) {
    let consumer: PullConsumer | null = null
    try {
      consumer = await PullConsumer.open(bus, { ...range, afterSeq }, signal)
      for (;;) {
        if (consumer.isDrained() && await isEnd(bus, { ...range, afterSeq }, endSeq)) return
        const messages = await consumer.take()
        const wanted = messages.filter(({ seq }) => seq <= endSeq)
        if (wanted.length > 0) {
          afterSeq = wanted.at(-1)!.seq
          failures = 0
          yield wanted
        }
        if (isStopped() || wanted.length < messages.length || afterSeq >= endSeq) return
      }
    } catch (error) {
      if (isStopped()) return
      if (onError !== undefined) onError(asError(error))
      else if (++failures >= FAILURES_MAX) throw error
    } finally {
      consumer?.close()
    }
    await sleep(PAUSE_MS, signal)
  }
}

async function isEnd (
  bus: Bus,
  { stream, filters = ['>'], afterSeq }: ConsumerRange,
  endSeq: number
): Promise<boolean> {
  const next = await Promise.all(
    filters.map(async filter =>
      await getMessage(bus, stream, { seq: afterSeq + 1, next_by_subj: filter }, 'leader', LEADER_MS)
    )
  )
  return next.every(message => message === null || message.seq > endSeq)
}
