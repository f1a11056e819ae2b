import { ErrorCode, NatsError, type Msg } from 'nats'
import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { groupsOf } from '#streams/groups.ts'
import type { ConsumerPlan } from '#streams/topology.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { ANSWER_MS, askDirect } from './direct.ts'
import { JetStreamError, NO_MESSAGE } from './errors.ts'

/** Reads the last facts of many subjects of one stream, many callers to a request. */
export interface Lookup {
  /** The last fact of each subject, in their order; null = it has none. Exact subjects only. Waits 2 s at most. An
   *  error is never "it has none": silence, a refusal and an answer with a gap throw what `isUnanswered` knows; a fact
   *  that does not fit its schema throws too. */
  last(subjects: readonly string[]): Promise<Array<AnyFact | null>>
}

/** Some of a caller's subjects: as many as fit one request. */
interface Rider {
  subjects: readonly string[]
  timer: NodeJS.Timeout
  /** On the steady clock. */
  endsAtMs: number
  resolve: (facts: Array<AnyFact | null>) => void
  reject: (error: Error) => void
}

/** The server refuses above 1024. */
const SUBJECTS_MAX = 512
const WAITING_MAX = 20_000

/** One request is on its way at a time; who comes meanwhile rides the next, so that no answer is older than its
 *  question. Any replica of the stream may answer, also one that has not heard of the newest facts: to decide upon a
 *  fact, read it with `lastAtLeader`. */
export function createLookup (bus: Bus, stream: string): Lookup {
  const waiting = new Set<Rider>()
  let subjectsWaiting = 0
  let flying = false

  async function last (subjects: readonly string[]): Promise<Array<AnyFact | null>> {
    if (subjects.some(subject => /[*>]/.test(subject))) throw new Error('only exact subjects can be looked up')
    return (await Promise.all(groupsOf(subjects, SUBJECTS_MAX).map(ride))).flat()
  }

  function ride (subjects: readonly string[]): Promise<Array<AnyFact | null>> {
    return new Promise((resolve, reject) => {
      if (subjectsWaiting + subjects.length > WAITING_MAX) {
        return reject(unanswered(stream, `${subjectsWaiting} subjects wait already`))
      }
      const timer = setTimeout(() => {
        leave(rider)
        reject(unanswered(stream, `no answer within ${ANSWER_MS} ms`))
      }, ANSWER_MS)
      const rider = { subjects, timer, endsAtMs: performance.now() + ANSWER_MS, resolve, reject }
      waiting.add(rider)
      subjectsWaiting += subjects.length
      if (flying) return
      flying = true
      // One turn of the event loop gathers those who came with it.
      setImmediate(() => void fly())
    })
  }

  function leave (rider: Rider): void {
    if (waiting.delete(rider)) subjectsWaiting -= rider.subjects.length
  }

  async function fly (): Promise<void> {
    while (waiting.size > 0) {
      const riders = board()
      // No longer than its last rider has: a flight that nobody waits for any more must not keep the next from taking
      // off.
      const leftMs = Math.max(1, riders.at(-1)!.endsAtMs - performance.now())
      const answer = await ask(bus, stream, new Set(riders.flatMap(({ subjects }) => subjects)), leftMs).catch((
        error: Error
      ) => error)
      for (const rider of riders) settle(rider, answer)
    }
    flying = false
  }

  function board (): Rider[] {
    const riders: Rider[] = []
    let count = 0
    for (const rider of waiting) {
      count += rider.subjects.length
      if (count > SUBJECTS_MAX) break
      leave(rider)
      riders.push(rider)
    }
    return riders
  }

  return { last }
}

function settle ({ subjects, timer, resolve, reject }: Rider, answer: Map<string, Last> | Error): void {
  clearTimeout(timer)
  if (answer instanceof Error) return reject(answer)
  try {
    resolve(subjects.map(subject => {
      const last = answer.get(subject)
      return last === undefined ? null : decodeFact(last.bytes)
    }))
  } catch (error) {
    // Decoded for each caller: a fact that does not fit fails those who asked for it, and nobody else.
    reject(error as Error)
  }
}

interface Last {
  bytes: Uint8Array
  seq: number
}

/** Subject → its last message, for those that have one. */
async function ask (
  bus: Bus,
  stream: string,
  subjects: ReadonlySet<string>,
  timeoutMs?: number
): Promise<Map<string, Last>> {
  const silence = unanswered(stream, `no answer within ${ANSWER_MS} ms`)
  return await askDirect(bus, stream, {
    question: { multi_last: [...subjects] },
    reader: () => createReader(stream, subjects),
    silence,
    timeoutMs
  })
}

/** The server sends the last message of each subject that has one, then a 204. Each says which sequence went before it
 *  in this answer (0 = none), the 204 as well, so that a gap shows wherever it is. When no subject has any, a 404 "No
 *  Results" is all; any other 404 is a message that could not be read. Source: nats-server ADR-31, getDirectMulti. */
function createReader (stream: string, subjects: ReadonlySet<string>) {
  const found = new Map<string, Last>()
  let before = '0'
  return ({ headers, data }: Msg): Map<string, Last> | Error | null => {
    const header = (name: string): string => headers?.get(name) ?? ''
    const code = headers?.code ?? 0
    if (code === 404 && headers!.description === 'No Results' && found.size === 0) return found
    if (code !== 0 && code !== 204) return unanswered(stream, headers!.status)
    if (header('Nats-Last-Sequence') !== before) return unanswered(stream, 'a part of the answer is lost')
    if (code === 204) {
      return found.size > 0 && header('Nats-Num-Pending') === '0'
        ? found
        : unanswered(stream, 'the answer is cut short')
    }
    if (!subjects.has(header('Nats-Subject'))) return unanswered(stream, 'the answer is to another question')
    found.set(header('Nats-Subject'), { bytes: data, seq: Number(header('Nats-Sequence')) })
    before = header('Nats-Sequence')
    return null
  }
}

function unanswered (stream: string, why: string): NatsError {
  return new NatsError(`${stream} cannot be looked up: ${why}`, ErrorCode.Timeout)
}

/** Sequences of the last messages of exact subjects, for those that have one, whatever these hold. Deadline 2 s for
 *  each 512 subjects. Throws what `isUnanswered` knows. */
export async function lastSequencesOf (
  bus: Bus,
  stream: string,
  subjects: readonly string[]
): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  for (const some of groupsOf(subjects, SUBJECTS_MAX)) {
    for (const [subject, { seq }] of await ask(bus, stream, new Set(some))) found.set(subject, seq)
  }
  return found
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

/** The last fact of a subject and its sequence as the stream's leader knows them, or null: what was acknowledged is
 *  there. Deadline 2 s. Throws what `isUnanswered` knows, or JetStreamError. */
export async function lastAtLeader (
  bus: Bus,
  stream: string,
  subject: string
): Promise<{ fact: AnyFact, seq: number } | null> {
  try {
    const { message } = await api<{ message: { seq: number, data: string } }>(bus, `STREAM.MSG.GET.${stream}`, {
      last_by_subj: subject
    }, ANSWER_MS)
    return { fact: decodeFact(Buffer.from(message.data, 'base64')), seq: message.seq }
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return null
    throw error
  }
}

interface Stored {
  message: { subject: string, seq: number, data: string }
}

/** The fact at a sequence as the stream's leader knows it, or null when it is gone for good: a replica that has fallen
 *  behind says so of what it has yet to hear. Deadline 2 s. Throws what `isUnanswered` knows, or JetStreamError. */
export async function factAtLeader (bus: Bus, stream: string, seq: number): Promise<Recorded<AnyFact> | null> {
  try {
    const { message } = await api<Stored>(bus, `STREAM.MSG.GET.${stream}`, { seq }, ANSWER_MS)
    return { fact: decodeFact(Buffer.from(message.data, 'base64')), seq: message.seq, subject: message.subject }
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return null
    throw error
  }
}
