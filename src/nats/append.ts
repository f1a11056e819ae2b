import { headers, type MsgHdrs } from 'nats'
import { randomUUID } from 'node:crypto'
import { encodeFact } from '#streams/catalog.ts'
import type { Fact } from '#streams/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import { Conflict, DUPLICATE_IN_BATCH, isUnanswered, JetStreamError, LogUnavailable, WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_UNKNOWN } from './errors.ts'
import { winnerAfter } from './load.ts'

/** One fact to append. `expectedSeq` = the last sequence its subject must have (0 = none yet); left out = whatever it has. */
export interface Append {
  subject: string
  fact: Fact
  expectedSeq?: number
  /** Seconds after which the message leaves the log by itself. */
  ttlS?: number
}

/** Appends to one stream, many callers to a commit. */
export interface Appender {
  /** Appends facts that belong together: all of them or none; resolves to their sequences once they are durable.
   *  Throws Conflict, LogUnavailable, or the schema's error. `timeoutMs` bounds the whole. */
  append (part: Append[], timeoutMs?: number): Promise<number[]>
  /** Messages waiting or on their way. */
  pending (): number
}

interface Message {
  subject: string
  id: string
  bytes: Uint8Array
  expectedSeq: number | undefined
  ttlS: number | undefined
}

interface Part {
  messages: Message[]
  endMs: number
  /** A commit with it went unanswered: it may be stored. */
  doubt: boolean
  resolve: (seqs: number[]) => void
  reject: (error: Error) => void
}

interface Ack {
  seq: number
  count?: number
  error?: { err_code: number, description: string }
}

/** An atomic batch costs about 3 ms whatever its size, a plain publish one fsync: with this many waiting the plain ones are quicker
 *  (research/performance.md 2; 16 was no better than 6 in research/claim-cost.md). */
const PLAIN_MAX = 6
const BATCH_MAX = 256
const BATCH_BYTES_MAX = 4 * 1024 * 1024
const WAITING_MAX = 20_000
/** How long a commit after a full one waits for company: for `growth` times as many messages, `ms` at most. */
export interface Patience { growth: number, ms: number }

/** Callers answered by one batch come back together: a short wait makes one full batch of two halves. Waiting for more than came before only
 *  delays them (50 callers: 4,400 a second instead of 5,200). */
const EAGER: Patience = { growth: 0.9, ms: 2 }
const ANSWER_MS = 2000

/** Group commit for one stream. While one commit is on its way the next one gathers, so that an fsync is shared by all who wait for it. */
export function createAppender (bus: Bus, stream: string, patience = EAGER): Appender {
  const waiting: Part[] = []
  const batchPrefix = randomUUID().slice(0, 8)
  let batches = 0
  let messagesWaiting = 0
  let messagesFlying = 0
  let running = false
  let lastCommit = 0
  let enough: { count: number, go: () => void } | null = null

  function append (facts: Append[], timeoutMs = 5000): Promise<number[]> {
    return new Promise((resolve, reject) => {
      if (messagesWaiting + facts.length > WAITING_MAX) return reject(new LogUnavailable(`${messagesWaiting} facts wait for ${stream}`, false))
      // Encoded (and so checked) here: a fact that does not fit fails its caller alone.
      waiting.push({ messages: facts.map(encode), endMs: Date.now() + timeoutMs, doubt: false, resolve, reject })
      messagesWaiting += facts.length
      if (enough !== null && messagesWaiting >= enough.count) enough.go()
      if (!running) {
        running = true
        // One turn of the event loop gathers those who came with it.
        setImmediate(() => void run())
      }
    })
  }

  async function run (): Promise<void> {
    while (waiting.length > 0) {
      await linger()
      const parts = take()
      messagesFlying = size(parts)
      lastCommit = messagesFlying
      await commit(parts).catch(error => { for (const part of parts) part.reject(asError(error)) })
      messagesFlying = 0
    }
    running = false
    lastCommit = 0
  }

  /** After a full batch: until as many wait as patience asks for, or its time is over. */
  async function linger (): Promise<void> {
    const wanted = Math.min(patience.growth * lastCommit, BATCH_MAX)
    if (lastCommit <= PLAIN_MAX || messagesWaiting >= wanted) return
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, patience.ms)
      enough = { count: wanted, go: () => { clearTimeout(timer); resolve() } }
    })
    enough = null
  }

  function take (): Part[] {
    let count = 0
    let bytes = 0
    let parts = 0
    for (const part of waiting) {
      count += part.messages.length
      bytes += part.messages.reduce((sum, message) => sum + message.bytes.length, 0)
      if (parts > 0 && (count > BATCH_MAX || bytes > BATCH_BYTES_MAX)) break
      parts++
    }
    const taken = waiting.splice(0, parts)
    for (const part of taken) messagesWaiting -= part.messages.length
    return taken
  }

  /** Settles every part: stored, refused, or out of time. */
  async function commit (parts: Part[]): Promise<void> {
    if (parts.length === 1 || (parts.length <= PLAIN_MAX && parts.every(part => part.messages.length === 1))) {
      return void await Promise.all(parts.map(commitAlone))
    }
    const answer = await publishBatch(parts.flatMap(part => part.messages)).catch(unanswered)
    if (answer instanceof Error) return await commitAgain(parts)
    if (answer.error === undefined) return settle(parts, answer)
    // One member's fault refuses all: halved until the faulty one stands alone.
    const half = parts.length >> 1
    await commit(parts.slice(0, half))
    await commit(parts.slice(half))
  }

  /** Silence may mean stored: the same messages go out again, and their ids make the repetition harmless. */
  async function commitAgain (parts: Part[]): Promise<void> {
    for (const part of parts) part.doubt = true
    const late = parts.filter(part => Date.now() >= part.endMs)
    for (const part of late) giveUp(part)
    await sleep(50)
    if (late.length < parts.length) await commit(parts.filter(part => !late.includes(part)))
  }

  function giveUp (part: Part): void {
    part.reject(new LogUnavailable(`${stream} did not acknowledge in time`, part.doubt))
  }

  function settle (parts: Part[], ack: Ack): void {
    let next = ack.seq - size(parts) + 1
    for (const part of parts) part.resolve(part.messages.map(() => next++))
  }

  /** Repeats one part until it is stored, refused or out of time; its `Nats-Msg-Id`s make the repetition harmless. */
  async function commitAlone (part: Part): Promise<void> {
    while (Date.now() < part.endMs) {
      const single = part.messages.length === 1
      const answer = await (single ? publishPlain(part.messages[0]!) : publishBatch(part.messages)).catch(unanswered)
      if (answer instanceof Error) {
        part.doubt = true
        await sleep(50)
      } else if (answer.error === undefined) {
        return settle([part], answer)
      } else {
        const verdict = await judge(part, answer.error).catch(unanswered)
        if (!(verdict instanceof Error)) return verdict.settle(part)
      }
    }
    giveUp(part)
  }

  /** A refusal may be our own earlier success (research/webhooks-and-streams.md C4): look who holds the place before believing it. */
  async function judge (part: Part, error: NonNullable<Ack['error']>): Promise<{ settle: (part: Part) => void }> {
    if (![WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_UNKNOWN, DUPLICATE_IN_BATCH].includes(error.err_code)) {
      const refusal = new LogUnavailable(new JetStreamError(error.err_code, error.description).message, false)
      return { settle: part => part.reject(refusal) }
    }
    const index = part.messages.findIndex(message => message.expectedSeq !== undefined)
    const firstSeq = index === -1 ? await storedBefore(part, error.err_code) : await wonBefore(part, index)
    if (firstSeq === null) return { settle: part => part.reject(new Conflict(`${stream} has moved on: ${error.description}`)) }
    return { settle: part => part.resolve(part.messages.map((_message, i) => firstSeq + i)) }
  }

  /** The part's first sequence when its message with an expectation holds the place it asked for. */
  async function wonBefore (part: Part, index: number): Promise<number | null> {
    const { subject, id, expectedSeq } = part.messages[index]!
    const winner = await winnerAfter(bus, stream, subject, expectedSeq!)
    return winner?.id === id ? winner.seq - index : null
  }

  /** A part is stored wholly or not at all: when one id is known, publishing the first again answers with its sequence and stores nothing. */
  async function storedBefore (part: Part, code: number): Promise<number | null> {
    return code === DUPLICATE_IN_BATCH ? (await publishPlain(part.messages[0]!)).seq : null
  }

  async function publishPlain (message: Message): Promise<Ack> {
    const answer = await bus.nc.request(message.subject, message.bytes, { timeout: ANSWER_MS, headers: headersOf(message) })
    return answer.json<Ack>()
  }

  async function publishBatch (messages: Message[]): Promise<Ack> {
    const id = `${batchPrefix}-${batches++}`
    for (const [i, message] of messages.entries()) {
      const head = headersOf(message)
      head.set('Nats-Batch-Id', id)
      head.set('Nats-Batch-Sequence', String(i + 1))
      if (i < messages.length - 1) {
        bus.nc.publish(message.subject, message.bytes, { headers: head })
        continue
      }
      head.set('Nats-Batch-Commit', '1')
      const answer = await bus.nc.request(message.subject, message.bytes, { timeout: ANSWER_MS, headers: head })
      return answer.json<Ack>()
    }
    throw new Error('an empty batch')
  }

  return { append, pending: () => messagesWaiting + messagesFlying }
}

function size (parts: Part[]): number {
  return parts.reduce((sum, part) => sum + part.messages.length, 0)
}

function encode ({ subject, fact, expectedSeq, ttlS }: Append): Message {
  return { subject, id: fact.id, bytes: encodeFact(fact), expectedSeq, ttlS }
}

function headersOf (message: Message): MsgHdrs {
  const head = headers()
  head.set('Nats-Msg-Id', message.id)
  if (message.expectedSeq !== undefined) head.set('Nats-Expected-Last-Subject-Sequence', String(message.expectedSeq))
  if (message.ttlS !== undefined) head.set('Nats-TTL', `${message.ttlS}s`)
  return head
}

/** Silence becomes a value to look at; anything else is a fault of ours and goes up. */
function unanswered (error: unknown): Error {
  if (isUnanswered(error)) return error as Error
  throw error
}
