import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import { groupsOf } from '#streams/groups.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import { ANSWER_MS, getDirectBatch, storedMessage } from './direct.ts'
import { unreadable } from './errors.ts'
import type { StoredMessage } from './message.ts'

/** Reads the last facts of many subjects of one stream, many callers to a request. */
export interface Lookup {
  /** The last fact of each subject, in their order; null = it has none. Exact subjects only. Deadline 2 s. Never gives
   *  null for an error: throws what `isUnanswered` knows for silence, a refusal and an answer with a gap, and the
   *  schema's error for a fact that does not fit. */
  last(subjects: readonly string[]): Promise<Array<AnyFact | null>>
}

/** The server refuses above 1024. */
const SUBJECTS_MAX = 512
const WAITING_MAX = 20_000

/** Any replica of the stream may answer, also one that has not heard of the newest facts: to decide upon a fact, read
 *  it from the leader. */
export function createLookup (bus: Bus, stream: string): Lookup {
  const lookup = new BatchingLookup(bus, stream)
  return { last: subjects => lookup.last(subjects) }
}

/** Some of a caller's subjects: as many as fit one request. */
interface Waiter {
  subjects: readonly string[]
  timer: NodeJS.Timeout
  /** On the steady clock. */
  endsAtMs: number
  resolve: (facts: Array<AnyFact | null>) => void
  reject: (error: Error) => void
}

/** One request is on its way at a time; those who come meanwhile share the next, so that no answer is older than its
 *  question. */
class BatchingLookup {
  private readonly bus: Bus
  private readonly stream: string
  private readonly waiting = new Set<Waiter>()
  private subjectsWaiting = 0
  private isRequesting = false

  constructor (bus: Bus, stream: string) {
    this.bus = bus
    this.stream = stream
  }

  async last (subjects: readonly string[]): Promise<Array<AnyFact | null>> {
    if (subjects.some(subject => /[*>]/.test(subject))) throw new Error('only exact subjects can be looked up')
    return (await Promise.all(groupsOf(subjects, SUBJECTS_MAX).map(group => this.enqueue(group)))).flat()
  }

  private enqueue (subjects: readonly string[]): Promise<Array<AnyFact | null>> {
    return new Promise((resolve, reject) => {
      if (this.subjectsWaiting + subjects.length > WAITING_MAX) {
        return reject(unreadable(this.stream, `${this.subjectsWaiting} subjects wait already`))
      }
      const timer = setTimeout(() => {
        this.dequeue(waiter)
        reject(unreadable(this.stream, `no answer within ${ANSWER_MS} ms`))
      }, ANSWER_MS)
      const waiter = { subjects, timer, endsAtMs: performance.now() + ANSWER_MS, resolve, reject }
      this.waiting.add(waiter)
      this.subjectsWaiting += subjects.length
      if (this.isRequesting) return
      this.isRequesting = true
      // One turn of the event loop gathers those who came with it.
      setImmediate(() => void this.requestAll())
    })
  }

  private dequeue (waiter: Waiter): void {
    if (this.waiting.delete(waiter)) this.subjectsWaiting -= waiter.subjects.length
  }

  private async requestAll (): Promise<void> {
    while (this.waiting.size > 0) {
      const waiters = this.takeBatch()
      const subjects = new Set(waiters.flatMap(waiter => waiter.subjects))
      // No longer than its last waiter has: a request nobody waits for any more must not hold up the next.
      const leftMs = Math.max(1, waiters.at(-1)!.endsAtMs - performance.now())
      const answer = await lastMessages(this.bus, this.stream, subjects, leftMs).then(({ found }) => found, asError)
      for (const waiter of waiters) settle(waiter, answer)
    }
    this.isRequesting = false
  }

  private takeBatch (): Waiter[] {
    const waiters: Waiter[] = []
    let count = 0
    for (const waiter of this.waiting) {
      count += waiter.subjects.length
      if (count > SUBJECTS_MAX) break
      this.dequeue(waiter)
      waiters.push(waiter)
    }
    return waiters
  }
}

function settle (
  { subjects, timer, resolve, reject }: Waiter,
  answer: ReadonlyMap<string, StoredMessage> | Error
): void {
  clearTimeout(timer)
  if (answer instanceof Error) return reject(answer)
  try {
    resolve(subjects.map(subject => {
      const last = answer.get(subject)
      return last === undefined ? null : decodeFact(last.data)
    }))
  } catch (error) {
    // Decoded for each caller: a fact that does not fit fails those who asked for it, and nobody else.
    reject(asError(error))
  }
}

interface LastMessages {
  /** By subject, for those that have one. */
  found: Map<string, StoredMessage>
  /** The last sequence that the replica had; 0 = it found nothing, and does not tell. */
  upToSeq: number
}

/** When no subject has any, a 404 "No Results" is the whole
 *  answer; any other 404 is a message that could not be read, and so is an end without messages. Source: nats-server
 *  ADR-31, getDirectMulti. */
async function lastMessages (
  bus: Bus,
  stream: string,
  subjects: ReadonlySet<string>,
  timeoutMs?: number
): Promise<LastMessages> {
  const { messages, pending, upToSeq, notFound } = await getDirectBatch(
    bus,
    stream,
    { multi_last: [...subjects] },
    timeoutMs
  )
  if (notFound === 'No Results') return { found: new Map(), upToSeq }
  if (notFound !== '') throw unreadable(stream, notFound)
  if (messages.length === 0 || pending > 0) throw unreadable(stream, 'the answer is cut short')
  const found = new Map(messages.map(message => storedMessage(stream, message)).map(last => [last.subject, last]))
  if ([...found.keys()].some(subject => !subjects.has(subject))) {
    throw unreadable(stream, 'the answer is to another question')
  }
  return { found, upToSeq }
}

/** The last messages of exact subjects, for those that have one, whatever these hold. Deadline 2 s for each 512
 *  subjects. Throws what `isUnanswered` knows. */
export async function lastMessagesOf (
  bus: Bus,
  stream: string,
  subjects: readonly string[]
): Promise<Map<string, StoredMessage>> {
  const found = new Map<string, StoredMessage>()
  for (const some of groupsOf(subjects, SUBJECTS_MAX)) {
    for (const [subject, last] of (await lastMessages(bus, stream, new Set(some))).found) found.set(subject, last)
  }
  return found
}

/** Their sequences alone. */
export async function lastSequencesOf (
  bus: Bus,
  stream: string,
  subjects: readonly string[]
): Promise<Map<string, number>> {
  return new Map([...await lastMessagesOf(bus, stream, subjects)].map(([subject, { seq }]) => [subject, seq]))
}

const BEHIND_PAUSE_MS = 20

/** The last facts of at most 512 exact subjects with their sequences, for those that have one. What is found is as a
 *  replica knows it that has everything up to `throughSeq`: others are asked again. What is not found may be there on
 *  another. Deadline 2 s. Throws what `isUnanswered` knows, and the schema's error for a fact that does not fit. */
export async function lastFactsOf (
  bus: Bus,
  stream: string,
  subjects: readonly string[],
  throughSeq: number
): Promise<Map<string, { fact: AnyFact, seq: number }>> {
  for (const endMs = performance.now() + ANSWER_MS;; await sleep(BEHIND_PAUSE_MS)) {
    const leftMs = Math.max(1, endMs - performance.now())
    const { found, upToSeq } = await lastMessages(bus, stream, new Set(subjects), leftMs)
    if (found.size === 0 || upToSeq >= throughSeq) {
      return new Map([...found].map(([subject, { seq, data }]) => [subject, { fact: decodeFact(data), seq }]))
    }
    if (performance.now() + BEHIND_PAUSE_MS >= endMs) throw unreadable(stream, 'a replica stays behind')
  }
}
