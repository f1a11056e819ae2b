import { encodeFact, type AnyFact } from '#streams/catalog.ts'
import type { Fact } from '#streams/define.ts'
import type { EmailErased } from '#streams/email/facts.ts'
import { engagementEndOf, FACT_STREAMS, placeOf, type FactStream, type Place } from '#streams/place.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import {
  Conflict,
  DUPLICATE_IN_BATCH,
  isUnanswered,
  JetStreamError,
  LogUnavailable,
  NOT_AVAILABLE,
  WRONG_LAST_SEQUENCE,
  WRONG_LAST_SEQUENCE_UNKNOWN
} from './errors.ts'
import { getMessage } from './get.ts'
import { ackOf, Publisher, type OutgoingMessage, type PublishAck } from './publish.ts'

/** One fact to append; where it lies follows from itself. */
export type Append =
  & AppendOptions
  & (
    | { fact: Fact, endsEngagements?: never }
    /** An erasure ends both subjects of a recipient: this is the end of the other one. */
    | { fact: EmailErased, endsEngagements: true }
  )

export interface AppendOptions {
  /** The last sequence its subject must have (0 = none yet); left out = whatever it has. */
  expectedSeq?: number
  /** How long it lives; left out = as long as its stream keeps facts. */
  ttlMs?: number
  /** The id by which the server recognises a repetition, where the fact's own id was in its stream before. */
  msgId?: string
}

/** Appends facts, many callers to a commit. */
export interface Appender {
  /** Appends facts that belong together, all to one stream: all of them or none; resolves to their sequences once they
   *  are durable. Throws Conflict, LogUnavailable, the schema's error, or where they are not of one stream. Waits
   *  `timeoutMs` at most, and 2 s more for a commit that is on its way. */
  append(facts: Append[], timeoutMs?: number): Promise<number[]>
  /** Messages waiting for a stream, or on their way to it. */
  pending(stream: FactStream): number
}

/** What one caller appends: it is stored as a whole or not at all. */
interface Part {
  messages: OutgoingMessage[]
  bytes: number
  endMs: number
  /** A commit with it went unanswered: it may be stored. */
  doubt: boolean
  resolve: (seqs: number[]) => void
  reject: (error: Error) => void
}

/** An atomic batch costs about 3 ms whatever its size, a plain publish one fsync: with this many waiting the plain ones
 *  are quicker (16 was no better than 6). */
const PLAIN_MAX = 6
const BATCH_MAX = 256
const BATCH_BYTES_MAX = 4 * 1024 * 1024
const WAITING_MAX = 20_000
const WAITING_BYTES_MAX = 64 * 1024 * 1024
/** Parts larger than this may fill three quarters of the waiting bytes: a few big batches must not keep everybody's
 *  mail out. */
const BIG_BYTES = 1024 * 1024
const LATE_CHECK_MS = 100
const SILENCE_PAUSE_MS = 50
/** err_codes that say "not now": no leader, the same id is still in process, an open batch lost its beginning with its
 *  server, too many open batches. */
const PASSING = new Set([NOT_AVAILABLE, 10158, 10176, 10210])

/** How long a commit after a full one waits for company: for `growth` times as many messages, `ms` at most. */
interface CommitDelay {
  growth: number
  ms: number
}

/** Callers answered by one batch come back together: a short wait makes one full batch of two halves. Waiting for more
 *  than came before only delays them (50 callers: 4,400 a second instead of 5,200). */
const SHORT_DELAY: CommitDelay = { growth: 0.9, ms: 2 }

/** Nobody stands and waits for facts about mail and callbacks as a client does for its 202: under load they gather
 *  longer, which saves the server a third of its CPU (a batch costs it about the same whatever its size). */
const DELAYS: Partial<Record<FactStream, CommitDelay>> = {
  EMAILS: { growth: 2, ms: 5 },
  WEBHOOKS: { growth: 2, ms: 15 }
}

/** One for the whole process, so that everybody's facts share commits. */
export function createAppender (bus: Bus): Appender {
  const commits = Object.fromEntries(
    FACT_STREAMS.map(stream => [stream, new GroupCommit(bus, stream, DELAYS[stream] ?? SHORT_DELAY)])
  ) as Record<FactStream, GroupCommit>
  return {
    async append (facts, timeoutMs) {
      // Encoded (and so checked) here: a fact that does not fit fails its caller alone.
      const messages = facts.map(encode)
      return await commits[streamOf(messages)].append(messages, timeoutMs)
    },
    pending: stream => commits[stream].pending()
  }
}

interface PlacedMessage extends OutgoingMessage, Place {}

function encode ({ fact, endsEngagements, msgId, expectedSeq, ttlMs }: Append): PlacedMessage {
  const bytes = encodeFact(fact)
  const { stream, subject } = endsEngagements === true ? engagementEndOf(fact) : placeOf(fact as AnyFact)
  return { stream, subject, id: msgId ?? fact.id, bytes, expectedSeq, ttlMs }
}

function streamOf (messages: PlacedMessage[]): FactStream {
  const [first] = messages
  if (first !== undefined && messages.every(({ stream }) => stream === first.stream)) return first.stream
  const streams = [...new Set(messages.map(({ stream }) => stream))]
  throw new Error(`facts of one append must lie in one stream, not in ${streams.join(' and ') || 'none'}`)
}

/** Group commit for one stream. While one commit is on its way the next one gathers, so that an fsync is shared by all
 *  who wait for it. */
class GroupCommit {
  private readonly bus: Bus
  private readonly stream: FactStream
  private readonly delay: CommitDelay
  private readonly publisher: Publisher
  private readonly waiting: Part[] = []
  private messagesWaiting = 0
  private bytesWaiting = 0
  private messagesInFlight = 0
  private running = false
  private lastCommit = 0
  private enough: { count: number, go: () => void } | null = null

  constructor (bus: Bus, stream: FactStream, delay: CommitDelay) {
    this.bus = bus
    this.stream = stream
    this.delay = delay
    this.publisher = new Publisher(bus)
  }

  append (messages: OutgoingMessage[], timeoutMs = 5000): Promise<number[]> {
    return new Promise((resolve, reject) => {
      const bytes = messages.reduce((sum, message) => sum + message.bytes.length, 0)
      const bytesMax = bytes > BIG_BYTES ? WAITING_BYTES_MAX * 3 / 4 : WAITING_BYTES_MAX
      if (this.messagesWaiting + messages.length > WAITING_MAX || this.bytesWaiting + bytes > bytesMax) {
        return reject(new LogUnavailable(`${this.messagesWaiting} facts wait for ${this.stream}`, false))
      }
      this.waiting.push({ messages, bytes, endMs: Date.now() + timeoutMs, doubt: false, resolve, reject })
      this.messagesWaiting += messages.length
      this.bytesWaiting += bytes
      if (this.enough !== null && this.messagesWaiting >= this.enough.count) this.enough.go()
      if (this.running) return
      this.running = true
      // One turn of the event loop gathers those who came with it.
      setImmediate(() => void this.run())
    })
  }

  pending (): number {
    return this.messagesWaiting + this.messagesInFlight
  }

  private async run (): Promise<void> {
    const lateCheck = setInterval(() => this.rejectLate(), LATE_CHECK_MS)
    while (this.waiting.length > 0) {
      await this.gather()
      // What was never sent is in nobody's doubt.
      await this.bus.whenUp(LATE_CHECK_MS)
      if (this.bus.upSinceMs() === null) continue
      const parts = this.takeParts()
      this.messagesInFlight = this.lastCommit = size(parts)
      const silent = await this.commit(parts).catch(error => rejectAll(parts, asError(error)))
      this.messagesInFlight = 0
      if (silent.length > 0) await this.requeue(silent)
    }
    clearInterval(lateCheck)
    this.running = false
    this.lastCommit = 0
  }

  /** Also behind a server that does not answer, every caller gets its error in time. */
  private rejectLate (): void {
    const nowMs = Date.now()
    for (const part of this.waiting.filter(part => part.endMs <= nowMs)) {
      this.waiting.splice(this.waiting.indexOf(part), 1)
      this.subtract(part)
      part.reject(new LogUnavailable(`${this.stream} did not acknowledge in time`, part.doubt))
    }
  }

  /** Silence may mean stored: the same messages go out again, first in the queue, and their ids make the repetition
   *  harmless. */
  private async requeue (parts: Part[]): Promise<void> {
    for (const part of parts) {
      part.doubt = true
      this.messagesWaiting += part.messages.length
      this.bytesWaiting += part.bytes
    }
    this.waiting.unshift(...parts)
    this.rejectLate()
    await sleep(SILENCE_PAUSE_MS)
  }

  private subtract (part: Part): void {
    this.messagesWaiting -= part.messages.length
    this.bytesWaiting -= part.bytes
  }

  /** After a full batch: until as many wait as the delay asks for, or its time is over. */
  private async gather (): Promise<void> {
    const wanted = Math.min(this.delay.growth * this.lastCommit, BATCH_MAX)
    if (this.lastCommit <= PLAIN_MAX || this.messagesWaiting >= wanted) return
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, this.delay.ms)
      this.enough = {
        count: wanted,
        go: () => {
          clearTimeout(timer)
          resolve()
        }
      }
    })
    this.enough = null
  }

  private takeParts (): Part[] {
    let count = 0
    let bytes = 0
    let parts = 0
    for (const part of this.waiting) {
      count += part.messages.length
      bytes += part.bytes
      if (parts > 0 && (count > BATCH_MAX || bytes > BATCH_BYTES_MAX)) break
      parts++
    }
    const taken = this.waiting.splice(0, parts)
    for (const part of taken) this.subtract(part)
    return taken
  }

  /** Settles the parts that the server answers for; resolves to those it said nothing about. */
  private async commit (parts: Part[]): Promise<Part[]> {
    if (parts.length === 1 || (parts.length <= PLAIN_MAX && parts.every(part => part.messages.length === 1))) {
      return (await Promise.all(parts.map(part => this.commitAlone(part)))).flat()
    }
    const ack = await this.send(parts.flatMap(part => part.messages))
    if (ack === null) return parts
    if (ack.error === undefined) return resolveAll(parts, ack)
    // One member's fault refuses all: halved until the faulty one stands alone.
    const half = parts.length >> 1
    return [...await this.commit(parts.slice(0, half)), ...await this.commit(parts.slice(half))]
  }

  private async commitAlone (part: Part): Promise<Part[]> {
    const ack = await this.send(part.messages)
    if (ack === null) return [part]
    return ack.error === undefined ? resolveAll([part], ack) : await this.settleRefused(part, ack.error)
  }

  /** Null when nobody answered. */
  private async send (messages: OutgoingMessage[]): Promise<PublishAck | null> {
    const sentMs = performance.now()
    const sent = messages.length === 1 ? this.publisher.publish(messages[0]!) : this.publisher.publishBatch(messages)
    const ack = await sent.catch(ackOf)
    this.bus.reportCommit(sentMs, ack !== null && !PASSING.has(ack.error?.err_code ?? 0))
    return ack
  }

  /** A refusal may be our own earlier success (one server checks the expectation before the id): who holds the sequence
   *  decides. */
  private async settleRefused (
    part: Part,
    { err_code: code, description }: NonNullable<PublishAck['error']>
  ): Promise<Part[]> {
    if (PASSING.has(code)) return [part]
    if (![WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_UNKNOWN, DUPLICATE_IN_BATCH].includes(code)) {
      part.reject(new LogUnavailable(new JetStreamError(code, description).message, part.doubt))
      return []
    }
    const firstSeq = await this.storedAt(part, code, description).catch(asUnknown)
    if (firstSeq === 'unknown') return [part]
    if (firstSeq === null) part.reject(new Conflict(`${this.stream} has moved on: ${description}`))
    else part.resolve(part.messages.map((_message, i) => firstSeq + i))
    return []
  }

  /** The part's first sequence when it is stored already, null when somebody else was there first, `unknown` when that
   *  cannot be told yet. A part is stored wholly or not at all, so one of its messages is enough to know. */
  private async storedAt (part: Part, code: number, description: string): Promise<number | null | 'unknown'> {
    const expected = part.messages.map((message, index) => ({ ...message, index })).filter(message =>
      message.expectedSeq !== undefined
    )
    if (expected.length === 0) {
      // One of its ids is known: published again, the first answers with its sequence and stores nothing.
      const ack = await this.publisher.publish(part.messages[0]!)
      return ack.error === undefined ? ack.seq : 'unknown'
    }
    for (const { subject, id, expectedSeq, index } of expected) {
      const winner = await getMessage(this.bus, this.stream, { seq: expectedSeq! + 1, next_by_subj: subject })
      if (winner !== null) return winner.header('Nats-Msg-Id') === id ? winner.seq - index : null
    }
    // Something is there that this replica does not show yet, or is still on its way: try again. Else the expectation
    // was never true.
    const lastSeq = Number(/wrong last sequence: (\d+)/.exec(description)?.[1] ?? Infinity)
    return code !== WRONG_LAST_SEQUENCE || expected.every(message => lastSeq > message.expectedSeq!) ? 'unknown' : null
  }
}

function rejectAll (parts: Part[], error: Error): [] {
  for (const part of parts) part.reject(error)
  return []
}

function resolveAll (parts: Part[], ack: PublishAck): [] {
  let next = ack.seq - size(parts) + 1
  for (const part of parts) part.resolve(part.messages.map(() => next++))
  return []
}

function size (parts: Part[]): number {
  return parts.reduce((sum, part) => sum + part.messages.length, 0)
}

function asUnknown (error: unknown): 'unknown' {
  if (isUnanswered(error)) return 'unknown'
  throw error
}
