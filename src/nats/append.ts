import { NatsError, type MsgHdrs } from 'nats'
import { randomUUID } from 'node:crypto'
import { encodeFact } from '#streams/catalog.ts'
import type { Fact } from '#streams/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import {
  Conflict,
  DUPLICATE_IN_BATCH,
  isUnanswered,
  JetStreamError,
  LogUnavailable,
  WRONG_LAST_SEQUENCE,
  WRONG_LAST_SEQUENCE_UNKNOWN
} from './errors.ts'
import { withConnection } from './retry-on-disconnect.ts'
import { getMessage } from './get.ts'

/** One fact to append. `expectedSeq` = the last sequence its subject must have (0 = none yet); left out = whatever it
 *  has. `ttlMs` = how long it lives; left out = as long as its stream keeps facts. */
export interface Append {
  subject: string
  fact: Fact
  expectedSeq?: number
  ttlMs?: number
  /** What the server knows a repetition by, where the fact's own id has been in this stream before. */
  msgId?: string
}

/** Appends to one stream, many callers to a commit. */
export interface Appender {
  /** Appends facts that belong together: all of them or none; resolves to their sequences once they are durable. Throws
   *  Conflict, LogUnavailable, or the schema's error. It waits `timeoutMs` at most, and 2 s more for a commit that is
   *  on its way. */
  append(part: Append[], timeoutMs?: number): Promise<number[]>
  /** Messages waiting or on their way. */
  pending(): number
}

interface Message {
  subject: string
  id: string
  bytes: Uint8Array
  expectedSeq: number | undefined
  ttlMs: number | undefined
}

interface Part {
  messages: Message[]
  bytes: number
  endMs: number
  /** A commit with it went unanswered: it may be stored. */
  doubt: boolean
  resolve: (seqs: number[]) => void
  reject: (error: Error) => void
}

interface Ack {
  seq: number
  error?: { err_code: number, description: string }
}

/** An atomic batch costs about 3 ms whatever its size, a plain publish one fsync: with this many waiting the plain ones
 *  are quicker (16 was no better than 6). */
const PLAIN_MAX = 6
const BATCH_MAX = 256
const BATCH_BYTES_MAX = 4 * 1024 * 1024
const WAITING_MAX = 20_000
const WAITING_BYTES_MAX = 64 * 1024 * 1024
/** Parts above this leave a quarter of the module to the others: a few big batches must not keep everybody's mail out.
 */
const BIG_BYTES = 1024 * 1024
const LATE_LOOK_MS = 100
const SILENCE_PAUSE_MS = 50
const ANSWER_MS = 2000
/** err_codes that say "not now": no leader, an open batch lost its beginning with its server, too many open batches. */
const PASSING = new Set([10008, 10176, 10210])

/** How long a commit after a full one waits for company: for `growth` times as many messages, `ms` at most. */
export interface Patience {
  growth: number
  ms: number
}

/** Callers answered by one batch come back together: a short wait makes one full batch of two halves. Waiting for more
 *  than came before only delays them (50 callers: 4,400 a second instead of 5,200). */
const EAGER: Patience = { growth: 0.9, ms: 2 }

/** Group commit for one stream. While one commit is on its way the next one gathers, so that an fsync is shared by all
 *  who wait for it. */
export function createAppender (bus: Bus, stream: string, patience = EAGER): Appender {
  const waiting: Part[] = []
  const batchPrefix = randomUUID().slice(0, 8)
  let batches = 0
  let messagesWaiting = 0
  let bytesWaiting = 0
  let messagesFlying = 0
  let running = false
  let lastCommit = 0
  let enough: { count: number, go: () => void } | null = null

  function append (facts: Append[], timeoutMs = 5000): Promise<number[]> {
    return new Promise((resolve, reject) => {
      // Encoded (and so checked) here: a fact that does not fit fails its caller alone.
      const messages = facts.map(encode)
      const bytes = messages.reduce((sum, message) => sum + message.bytes.length, 0)
      const module = bytes > BIG_BYTES ? WAITING_BYTES_MAX * 3 / 4 : WAITING_BYTES_MAX
      if (messagesWaiting + facts.length > WAITING_MAX || bytesWaiting + bytes > module) {
        return reject(new LogUnavailable(`${messagesWaiting} facts wait for ${stream}`, false))
      }
      waiting.push({ messages, bytes, endMs: Date.now() + timeoutMs, doubt: false, resolve, reject })
      messagesWaiting += messages.length
      bytesWaiting += bytes
      if (enough !== null && messagesWaiting >= enough.count) enough.go()
      if (!running) {
        running = true
        // One turn of the event loop gathers those who came with it.
        setImmediate(() => void run())
      }
    })
  }

  async function run (): Promise<void> {
    const lateLook = setInterval(dropLate, LATE_LOOK_MS)
    while (waiting.length > 0) {
      await linger()
      // What was never sent is in nobody's doubt.
      await bus.whenUp(LATE_LOOK_MS)
      if (bus.upSinceMs() === null) continue
      const parts = take()
      messagesFlying = lastCommit = size(parts)
      const silent = await commit(parts).catch(error => rejectAll(parts, asError(error)))
      messagesFlying = 0
      if (silent.length > 0) await putBack(silent)
    }
    clearInterval(lateLook)
    running = false
    lastCommit = 0
  }

  /** Whoever waits hears in time, also behind a server that does not answer. */
  function dropLate (): void {
    const nowMs = Date.now()
    for (const part of waiting.filter(part => part.endMs <= nowMs)) {
      waiting.splice(waiting.indexOf(part), 1)
      forget(part)
      part.reject(new LogUnavailable(`${stream} did not acknowledge in time`, part.doubt))
    }
  }

  /** Silence may mean stored: the same messages go out again, first in line, and their ids make the repetition
   *  harmless. */
  async function putBack (parts: Part[]): Promise<void> {
    for (const part of parts) {
      part.doubt = true
      messagesWaiting += part.messages.length
      bytesWaiting += part.bytes
    }
    waiting.unshift(...parts)
    dropLate()
    await sleep(SILENCE_PAUSE_MS)
  }

  function rejectAll (parts: Part[], error: Error): [] {
    for (const part of parts) part.reject(error)
    return []
  }

  function forget (part: Part): void {
    messagesWaiting -= part.messages.length
    bytesWaiting -= part.bytes
  }

  /** After a full batch: until as many wait as patience asks for, or its time is over. */
  async function linger (): Promise<void> {
    const wanted = Math.min(patience.growth * lastCommit, BATCH_MAX)
    if (lastCommit <= PLAIN_MAX || messagesWaiting >= wanted) return
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, patience.ms)
      enough = {
        count: wanted,
        go: () => {
          clearTimeout(timer)
          resolve()
        }
      }
    })
    enough = null
  }

  function take (): Part[] {
    let count = 0
    let bytes = 0
    let parts = 0
    for (const part of waiting) {
      count += part.messages.length
      bytes += part.bytes
      if (parts > 0 && (count > BATCH_MAX || bytes > BATCH_BYTES_MAX)) break
      parts++
    }
    const taken = waiting.splice(0, parts)
    for (const part of taken) forget(part)
    return taken
  }

  /** Settles what the server answers for; resolves to the parts it said nothing about. */
  async function commit (parts: Part[]): Promise<Part[]> {
    if (parts.length === 1 || (parts.length <= PLAIN_MAX && parts.every(part => part.messages.length === 1))) {
      return (await Promise.all(parts.map(commitAlone))).flat()
    }
    const answer = await publishBatch(parts.flatMap(part => part.messages)).catch(asAnswer)
    if (answer === null) return parts
    if (answer.error === undefined) return settle(parts, answer)
    // One member's fault refuses all: halved until the faulty one stands alone.
    const half = parts.length >> 1
    return [...await commit(parts.slice(0, half)), ...await commit(parts.slice(half))]
  }

  async function commitAlone (part: Part): Promise<Part[]> {
    const single = part.messages.length === 1
    const answer = await (single ? publishPlain(part.messages[0]!) : publishBatch(part.messages)).catch(asAnswer)
    if (answer === null) return [part]
    return answer.error === undefined ? settle([part], answer) : await judge(part, answer.error)
  }

  function settle (parts: Part[], ack: Ack): [] {
    let next = ack.seq - size(parts) + 1
    for (const part of parts) part.resolve(part.messages.map(() => next++))
    return []
  }

  /** A refusal may be our own earlier success (one server checks the expectation before the id): look who holds the
   *  place before believing it. */
  async function judge (part: Part, { err_code: code, description }: NonNullable<Ack['error']>): Promise<Part[]> {
    if (PASSING.has(code)) return [part]
    if (![WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_UNKNOWN, DUPLICATE_IN_BATCH].includes(code)) {
      part.reject(new LogUnavailable(new JetStreamError(code, description).message, part.doubt))
      return []
    }
    const firstSeq = await earlierSuccess(part, code, description).catch(asUnknown)
    if (firstSeq === 'unknown') return [part]
    if (firstSeq === null) part.reject(new Conflict(`${stream} has moved on: ${description}`))
    else part.resolve(part.messages.map((_message, i) => firstSeq + i))
    return []
  }

  /** The part's first sequence when it is stored already, null when somebody else was there first, `unknown` when that
   *  cannot be told yet. A part is stored wholly or not at all, so one of its messages speaks for all. */
  async function earlierSuccess (part: Part, code: number, description: string): Promise<number | null | 'unknown'> {
    const expected = part.messages.map((message, index) => ({ ...message, index })).filter(message =>
      message.expectedSeq !== undefined
    )
    if (expected.length === 0) {
      // One of its ids is known: published again, the first answers with its sequence and stores nothing.
      const answer = await publishPlain(part.messages[0]!)
      return answer.error === undefined ? answer.seq : 'unknown'
    }
    for (const { subject, id, expectedSeq, index } of expected) {
      const winner = await getMessage(bus, stream, { seq: expectedSeq! + 1, next_by_subj: subject })
      if (winner !== null) return winner.header('Nats-Msg-Id') === id ? winner.seq - index : null
    }
    // Something is there that this replica does not show yet, or is still on its way: ask again. Else the expectation
    // was never true.
    const lastSeq = Number(/wrong last sequence: (\d+)/.exec(description)?.[1] ?? Infinity)
    return code !== WRONG_LAST_SEQUENCE || expected.every(message => lastSeq > message.expectedSeq!) ? 'unknown' : null
  }

  async function publishPlain (message: Message): Promise<Ack> {
    const answer = await withConnection(
      bus,
      ANSWER_MS,
      async timeout => await bus.nc.request(message.subject, message.bytes, { timeout, headers: headersOf(message) })
    )
    return answer.json<Ack>()
  }

  async function publishBatch (messages: Message[]): Promise<Ack> {
    return await withConnection(bus, ANSWER_MS, async timeout => await publishAll(messages, timeout))
  }

  async function publishAll (messages: Message[], timeout: number): Promise<Ack> {
    const id = `${batchPrefix}-${batches++}`
    for (const [i, message] of messages.entries()) {
      const head = `Nats-Batch-Id: ${id}\r\nNats-Batch-Sequence: ${i + 1}\r\n`
      if (i < messages.length - 1) {
        bus.nc.publish(message.subject, message.bytes, { headers: headersOf(message, head) })
        continue
      }
      const last = headersOf(message, `${head}Nats-Batch-Commit: 1\r\n`)
      const answer = await bus.nc.request(message.subject, message.bytes, { timeout, headers: last })
      return answer.json<Ack>()
    }
    throw new Error('an empty batch')
  }

  return { append, pending: () => messagesWaiting + messagesFlying }
}

function size (parts: Part[]): number {
  return parts.reduce((sum, part) => sum + part.messages.length, 0)
}

function encode ({ subject, fact, expectedSeq, ttlMs, msgId }: Append): Message {
  return { subject, id: msgId ?? fact.id, bytes: encodeFact(fact), expectedSeq, ttlMs }
}

/** What the client needs of its MsgHdrs is their bytes; made by itself, name by name, they cost it as much as the rest
 *  of the publish. No value here comes from outside: ids and numbers. */
function headersOf (message: Message, more = ''): MsgHdrs {
  const ttl = message.ttlMs === undefined ? '' : `Nats-TTL: ${Math.ceil(message.ttlMs / 1000)}s\r\n`
  const expected = message.expectedSeq === undefined
    ? ''
    : `Nats-Expected-Last-Subject-Sequence: ${message.expectedSeq}\r\n`
  const text = `NATS/1.0\r\nNats-Msg-Id: ${message.id}\r\n${ttl}${expected}${more}\r\n`
  return { encode: () => Buffer.from(text) } as unknown as MsgHdrs
}

/** Silence is no answer: null. What the client itself refuses to send is a refusal like the server's. Anything else is
 *  a fault of ours and goes up. */
function asAnswer (error: unknown): Ack | null {
  if (isUnanswered(error)) return null
  if (error instanceof NatsError) return { seq: 0, error: { err_code: 0, description: error.message } }
  throw error
}

function asUnknown (error: unknown): 'unknown' {
  if (isUnanswered(error)) return 'unknown'
  throw error
}
