import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import { CONTENT_BUCKET } from '#streams/topology.ts'
import { asError } from '#src/base/errors.ts'
import { CONTENT_STREAM } from '#src/nats/blob-places.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { StoredMessage } from '#src/nats/message.ts'
import { readRange } from '#src/nats/range.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { dropLogIndex, numberOf, openLogIndex, STREAMS, type LogIndex, type StreamName } from './log-index.ts'
import { atServices, holdAlone } from './session.ts'
import { collectFindings, type Findings, type Found } from './findings.ts'
import { explainGaps } from './gaps.ts'
import type { Gone, Known } from './known.ts'
import { isCopy, isNamed, isPlaced, placeOf } from './place.ts'
import { askQuestions } from './questions.ts'
import { stateOf, type StreamState } from './state.ts'

const MSG_ID = 'Nats-Msg-Id'

export interface LogOptions {
  bus: Bus
  pool: Pool
  /** Unix ms. */
  nowMs(): number
  signal: AbortSignal
  onProgress(progress: LogProgress): void
}

/** Messages of a stream read so far, of so many. */
export interface LogProgress {
  stream: string
  done: number
  total: number
}

/** A stream of facts, and why sequences of it are not there any more. */
export interface StreamReport {
  stream: string
  first: number
  last: number
  facts: number
  gone: Gone
}

export interface LogReport {
  streams: StreamReport[]
  found: Found[]
  seconds: number
}

/** The log against itself: each fact by itself, and then all of them together. What comes while it reads is known, and
 *  looked into the next time. Takes notes in PostgreSQL (some 250 bytes a fact, thrown away at the end), so its memory
 *  does not depend on the log's length. Throws when NATS or PostgreSQL does not answer, and a Complaint when somebody
 *  else is at it. */
export async function proveLog (options: LogOptions): Promise<LogReport> {
  const startMs = performance.now()
  return await atServices(options.pool, async session => {
    await holdAlone(session, 'jetpost_proof', 'Somebody verifies the log already')
    try {
      const index = await openLogIndex(session)
      const findings = collectFindings()
      const before = await statesOf(options.bus)
      const streams = await readAll(options, index, findings, before)
      await readObjects(options.bus, index)
      const states = await statesOf(options.bus)
      for (const stream of STREAMS) await readLate(options, index, stream, before[stream].last, states[stream].last)
      await index.close()
      const { ageMs: contentMs } = await stateOf(options.bus, CONTENT_STREAM)
      const known: Known = { states, contentMs, nowMs: options.nowMs() }
      const gone = await explainGaps(session, index, findings, known)
      await askQuestions(session, findings, known)
      return {
        streams: streams.map(each => ({ ...each, gone: gone[each.stream] })),
        found: findings.list(),
        seconds: (performance.now() - startMs) / 1000
      }
    } finally {
      // The next one drops what is left. What was found, or went wrong, is not lost with it.
      await dropLogIndex(session).catch(() => {})
    }
  })
}

async function statesOf (bus: Bus): Promise<Record<StreamName, StreamState>> {
  const states = await Promise.all(STREAMS.map(async stream => [stream, await stateOf(bus, stream)] as const))
  return Object.fromEntries(states) as Record<StreamName, StreamState>
}

async function readAll (
  options: LogOptions,
  index: LogIndex,
  findings: Findings,
  states: Record<StreamName, StreamState>
) {
  const streams: Array<Omit<StreamReport, 'gone' | 'stream'> & { stream: StreamName }> = []
  for (const stream of STREAMS) {
    const { first, last } = states[stream]
    streams.push({ stream, first, last, facts: await readStream(options, index, findings, stream, states[stream]) })
  }
  return streams
}

/** Resolves to the number of messages. */
async function readStream (
  options: LogOptions,
  index: LogIndex,
  findings: Findings,
  stream: StreamName,
  { first, last, createdMs }: StreamState
): Promise<number> {
  const number = numberOf(stream)
  let count = 0
  let before = { seq: 0, storedMs: createdMs }
  const upTo = (next: { seq: number, storedMs: number }) => {
    if (next.seq > before.seq + 1) {
      index.gap({
        stream: number,
        low: before.seq + 1,
        high: next.seq - 1,
        beforeMs: before.storedMs,
        afterMs: next.storedMs
      })
    }
    before = next
  }
  for await (const messages of readRange(options.bus, { stream, afterSeq: 0, endSeq: last })) {
    options.signal.throwIfAborted()
    for (const message of messages) {
      upTo(message)
      const fact = read(message, stream, findings)
      index.enter({
        stream: number,
        seq: message.seq,
        fact,
        copy: fact !== null && isCopy(fact, message.header(MSG_ID)),
        late: false
      })
    }
    count += messages.length
    options.onProgress({ stream, done: count, total: last - first + 1 })
    await index.settle()
  }
  upTo({ seq: last + 1, storedMs: options.nowMs() })
  return count
}

/** The message as a fact, looked at for what it says by itself; null when it is none. */
function read (message: StoredMessage, stream: string, findings: Findings): AnyFact | null {
  const { seq, subject, data } = message
  const msgId = message.header(MSG_ID)
  const where = `${stream} ${seq}`
  const fact = decode(data)
  if (fact instanceof Error) {
    findings.add('unreadable', where, fact.message)
    return null
  }
  if (!isNamed(fact, msgId)) {
    findings.add(
      'id',
      where,
      msgId === ''
        ? `the message of ${fact.id} has no id`
        : `the message of ${fact.id} has the id ${msgId.slice(0, 100)}`
    )
  }
  if (!isPlaced(fact, subject)) {
    findings.add('subject', where, `${fact.type} lies on ${subject} and belongs on ${placeOf(fact)}`)
  }
  return fact
}

function decode (data: Uint8Array): AnyFact | Error {
  try {
    return decodeFact(data)
  } catch (error) {
    // What the parser says quotes what it read.
    return error instanceof SyntaxError ? new Error('it is not JSON') : asError(error)
  }
}

/** What was appended meanwhile: what has been read may be explained by it. */
async function readLate (
  options: LogOptions,
  index: LogIndex,
  stream: StreamName,
  after: number,
  end: number
): Promise<void> {
  for await (const messages of readRange(options.bus, { stream, afterSeq: after, endSeq: end })) {
    options.signal.throwIfAborted()
    for (const message of messages) {
      const decoded = decode(message.data)
      const fact = decoded instanceof Error ? null : decoded
      index.enter({
        stream: numberOf(stream),
        seq: message.seq,
        fact,
        copy: fact !== null && isCopy(fact, message.header(MSG_ID)),
        late: true
      })
    }
    await index.settle()
  }
}

/** The object store's descriptions, one an object. Source: nats-server ADR-20. */
async function readObjects (bus: Bus, index: LogIndex): Promise<void> {
  const { last } = await stateOf(bus, CONTENT_STREAM)
  for await (
    const messages of readRange(bus, {
      stream: CONTENT_STREAM,
      filters: [`$O.${CONTENT_BUCKET}.M.>`],
      afterSeq: 0,
      endSeq: last
    })
  ) {
    for (const { seq, data, storedMs } of messages) {
      const { name, deleted } = JSON.parse(Buffer.from(data).toString()) as { name: string, deleted?: boolean }
      if (deleted !== true) index.object(name, seq, storedMs)
    }
    await index.settle()
  }
}
