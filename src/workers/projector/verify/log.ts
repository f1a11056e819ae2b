import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import { engagementEndOf, FACT_STREAMS, placeOf, type FactStream } from '#streams/place.ts'
import { CONTENT_BUCKET } from '#streams/topology.ts'
import { asError } from '#src/base/errors.ts'
import { CONTENT_STREAM } from '#src/nats/blob-transfer.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { StoredMessage } from '#src/nats/message.ts'
import { readRange } from '#src/nats/range.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { checkRelations } from './checks.ts'
import { FindingCollector, extentOf, type FindingGroup, type StreamExtent } from './findings.ts'
import { explainGaps, type GoneCounts } from './gaps.ts'
import { dropLogIndex, LogIndex, numberOf } from './log-index.ts'
import { lockName, withSession } from './session.ts'

const MSG_ID = 'Nats-Msg-Id'

export interface LogOptions {
  bus: Bus
  pool: Pool
  /** Unix ms. */
  nowMs(): number
  signal: AbortSignal
  onProgress(progress: LogProgress): void
}

/** How many messages of a stream have been read, of how many. */
export interface LogProgress {
  stream: string
  done: number
  total: number
}

/** A stream of facts, and why sequences of it have no message any more. */
export interface StreamVerification {
  stream: string
  first: number
  last: number
  facts: number
  gone: GoneCounts
}

export interface LogVerification {
  streams: StreamVerification[]
  found: FindingGroup[]
  seconds: number
}

/** Checks the log against itself: each fact alone, and then all of them together. What is stored while it reads is
 *  known, and checked the next time. Writes an index into PostgreSQL (some 250 bytes a fact, dropped at the end), so
 *  its memory does not depend on the log's length. Throws when NATS or PostgreSQL does not answer, and a Complaint when
 *  another process verifies the log. */
export async function verifyLog (options: LogOptions): Promise<LogVerification> {
  const startMs = performance.now()
  return await withSession(options.pool, async session => {
    await lockName(session, 'jetpost_log_verify', 'Another process verifies the log')
    try {
      const index = await LogIndex.open(session)
      const findings = new FindingCollector()
      const reader = new LogReader(options, index, findings)
      const { streams, extents } = await reader.readAll()
      const { ageMs: contentMs } = await extentOf(options.bus, CONTENT_STREAM)
      const log = { streams: extents, contentMs, nowMs: options.nowMs() }
      const gone = await explainGaps(session, index, findings, log)
      await checkRelations(session, findings, log)
      return {
        streams: streams.map(each => ({ ...each, gone: gone[each.stream] })),
        found: findings.list(),
        seconds: (performance.now() - startMs) / 1000
      }
    } finally {
      // The next one drops what is left. Findings and errors are not lost with it.
      await dropLogIndex(session).catch(() => {})
    }
  })
}

type Extents = Record<FactStream, StreamExtent>
type ReadStream = Omit<StreamVerification, 'gone' | 'stream'> & { stream: FactStream }

/** Reads the log into the index, and checks each fact by itself. */
class LogReader {
  private readonly options: LogOptions
  private readonly index: LogIndex
  private readonly findings: FindingCollector

  constructor (options: LogOptions, index: LogIndex, findings: FindingCollector) {
    this.options = options
    this.index = index
    this.findings = findings
  }

  async readAll (): Promise<{ streams: ReadStream[], extents: Extents }> {
    const before = await this.extents()
    const streams: ReadStream[] = []
    for (const stream of FACT_STREAMS) {
      const { first, last } = before[stream]
      streams.push({ stream, first, last, facts: await this.readStream(stream, before[stream]) })
    }
    await this.readObjects()
    const extents = await this.extents()
    for (const stream of FACT_STREAMS) await this.readLate(stream, before[stream].last, extents[stream].last)
    await this.index.close()
    return { streams, extents }
  }

  private async extents (): Promise<Extents> {
    const extents = await Promise.all(
      FACT_STREAMS.map(async stream => [stream, await extentOf(this.options.bus, stream)] as const)
    )
    return Object.fromEntries(extents) as Extents
  }

  /** Resolves to the number of messages. */
  private async readStream (stream: FactStream, { first, last, createdMs }: StreamExtent): Promise<number> {
    const { bus, signal, nowMs, onProgress } = this.options
    let count = 0
    let before = { seq: 0, storedMs: createdMs }
    for await (const messages of readRange(bus, { stream, afterSeq: 0, endSeq: last })) {
      signal.throwIfAborted()
      for (const message of messages) {
        this.addGap(stream, before, message)
        before = message
        this.add(stream, message, readFact(message, this.findings), false)
      }
      count += messages.length
      onProgress({ stream, done: count, total: last - first + 1 })
      await this.index.flushFull()
    }
    this.addGap(stream, before, { seq: last + 1, storedMs: nowMs() })
    return count
  }

  private addGap (stream: FactStream, before: StoredAt, next: StoredAt): void {
    if (next.seq <= before.seq + 1) return
    this.index.addGap({
      stream: numberOf(stream),
      low: before.seq + 1,
      high: next.seq - 1,
      beforeMs: before.storedMs,
      afterMs: next.storedMs
    })
  }

  /** What was appended meanwhile: it may explain what has been read. */
  private async readLate (stream: FactStream, afterSeq: number, endSeq: number): Promise<void> {
    for await (const messages of readRange(this.options.bus, { stream, afterSeq, endSeq })) {
      this.options.signal.throwIfAborted()
      for (const message of messages) {
        const fact = decode(message.data)
        this.add(stream, message, fact instanceof Error ? null : fact, true)
      }
      await this.index.flushFull()
    }
  }

  private add (stream: FactStream, message: StoredMessage, fact: AnyFact | null, late: boolean): void {
    const copy = fact !== null && isCopy(fact, message.header(MSG_ID))
    this.index.addFact({ stream: numberOf(stream), seq: message.seq, fact, copy, late })
  }

  /** The object store's descriptions, one an object. Source: nats-server ADR-20. */
  private async readObjects (): Promise<void> {
    const descriptions = { stream: CONTENT_STREAM, filters: [`$O.${CONTENT_BUCKET}.M.>`], afterSeq: 0 }
    for await (const messages of readRange(this.options.bus, descriptions)) {
      for (const { seq, data, storedMs } of messages) {
        const { name, deleted } = JSON.parse(Buffer.from(data).toString()) as { name: string, deleted?: boolean }
        if (deleted !== true) this.index.addObject(name, seq, storedMs)
      }
      await this.index.flushFull()
    }
  }
}

type StoredAt = Pick<StoredMessage, 'seq' | 'storedMs'>

/** The message as a fact, checked by itself; null when it is none. */
function readFact (message: StoredMessage, findings: FindingCollector): AnyFact | null {
  const { stream, seq, subject, data } = message
  const where = `${stream} ${seq}`
  const fact = decode(data)
  if (fact instanceof Error) {
    findings.add('unreadable', where, fact.message)
    return null
  }
  const msgId = message.header(MSG_ID)
  if (!hasItsId(fact, msgId)) {
    const found = msgId === '' ? 'no id' : `the id ${msgId.slice(0, 100)}`
    findings.add('id', where, `the message of ${fact.id} has ${found}`)
  }
  if (!isInItsPlace(fact, subject)) {
    findings.add('subject', where, `${fact.type} is on ${subject} and belongs on ${placeOf(fact).subject}`)
  }
  return fact
}

function isInItsPlace (fact: AnyFact, subject: string): boolean {
  return subject === placeOf(fact).subject ||
    (fact.type === 'email.erased' && subject === engagementEndOf(fact).subject)
}

/** Whether a message has its fact's id, or the one an erasure has given it. */
function hasItsId (fact: AnyFact, msgId: string): boolean {
  if (msgId === fact.id || isCopy(fact, msgId)) return true
  return fact.type === 'email.recorded' && msgId.startsWith(`${fact.data.email} ${fact.data.request} `)
}

/** A request that an erasure has moved is the same fact, without the person. */
function isCopy (fact: AnyFact, msgId: string): boolean {
  return fact.type === 'email.requested' && msgId.startsWith(`${fact.id} `)
}

function decode (data: Uint8Array): AnyFact | Error {
  try {
    return decodeFact(data)
  } catch (error) {
    // The parser's message quotes what it read.
    return error instanceof SyntaxError ? new Error('it is not JSON') : asError(error)
  }
}
