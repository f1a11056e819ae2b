import type { Msg } from 'nats'
import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { askDirect, createPartReader, unread } from './direct.ts'
import { JetStreamError, NO_MESSAGE } from './errors.ts'
import { retryOnDisconnect } from './retry-on-disconnect.ts'

const TIMEOUT_MS = 2000
/** A subject holds one entity: far fewer facts than this, or something is wrong. */
const FACTS_MAX = 1000

type Get = { seq: number } | { last_by_subj: string } | { seq: number, next_by_subj: string }

/** One stored message by sequence, by subject's last, or the first on a subject from a sequence on; null when there is
 *  none. */
async function get (bus: Bus, stream: string, query: Get): Promise<Msg | null> {
  const message = await retryOnDisconnect(
    bus,
    TIMEOUT_MS,
    async timeout => await bus.nc.request(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify(query), { timeout })
  )
  const code = message.headers?.code ?? 0
  if (code === 404) return null
  if (code >= 400) throw new Error(`JetStream could not read ${stream}: ${message.headers?.description}`)
  return message
}

/** A message as a recorded fact; throws when it does not fit its schema. */
function recorded (message: Msg): Recorded<AnyFact> {
  return {
    fact: decodeFact(message.data),
    seq: Number(message.headers?.get('Nats-Sequence')),
    subject: message.headers?.get('Nats-Subject') ?? message.subject
  }
}

/** The fact at a sequence, or null when it is gone. Deadline 2 s. */
export async function loadFact (bus: Bus, stream: string, seq: number): Promise<Recorded<AnyFact> | null> {
  const message = await get(bus, stream, { seq })
  return message === null ? null : recorded(message)
}

/** The last fact on a subject (wildcards allowed), or null. */
export async function loadLast (bus: Bus, stream: string, subject: string): Promise<Recorded<AnyFact> | null> {
  const message = await get(bus, stream, { last_by_subj: subject })
  return message === null ? null : recorded(message)
}

/** `Nats-Msg-Id` and sequence of the first message on `subject` after `seq`, or null: who won the race for that place.
 */
export async function winnerAfter (
  bus: Bus,
  stream: string,
  subject: string,
  seq: number
): Promise<{ id: string, seq: number } | null> {
  const message = await get(bus, stream, { seq: seq + 1, next_by_subj: subject })
  return message === null
    ? null
    : { id: message.headers?.get('Nats-Msg-Id') ?? '', seq: Number(message.headers?.get('Nats-Sequence')) }
}

/** All facts of one subject, oldest first. Deadline 2 s. */
export async function loadSubject (bus: Bus, stream: string, subject: string): Promise<Recorded<AnyFact>[]> {
  return (await loadMessages(bus, stream, subject, FACTS_MAX)).map(recorded)
}

/** The first facts on a subject after a sequence, at most `max`, oldest first. Deadline 2 s. */
export async function loadAfter (
  bus: Bus,
  stream: string,
  subject: string,
  afterSeq: number,
  max: number
): Promise<Recorded<AnyFact>[]> {
  return (await loadMessages(bus, stream, subject, max, afterSeq)).map(recorded)
}

/** The first fact on a subject after a sequence, and how many there are from it on; null when there is none. Deadline 2
 *  s. */
export async function loadFirstAfter (
  bus: Bus,
  stream: string,
  subject: string,
  afterSeq: number
): Promise<{ first: Recorded<AnyFact>, count: number } | null> {
  const [message] = await loadMessages(bus, stream, subject, 1, afterSeq)
  return message === undefined
    ? null
    : { first: recorded(message), count: 1 + Number(message.headers?.get('Nats-Num-Pending')) }
}

/** The first messages on a subject (wildcards allowed) after a sequence, at most `max`: one request, many answers.
 *  Deadline 2 s. Throws what `isUnanswered` knows for silence, a refusal and an answer with a gap. */
export async function loadMessages (
  bus: Bus,
  stream: string,
  subject: string,
  max: number,
  afterSeq = 0
): Promise<Msg[]> {
  const question = { seq: afterSeq + 1, next_by_subj: subject, batch: max }
  const silence = unread(stream, `no answer within ${TIMEOUT_MS} ms`)
  const { messages } = await askDirect(bus, stream, {
    question,
    reader: () => createPartReader(stream),
    silence,
    timeoutMs: TIMEOUT_MS
  })
  return messages
}

/** The stream's last sequence now; 0 when it is empty. */
export async function lastSequence (bus: Bus, stream: string, timeoutMs = TIMEOUT_MS): Promise<number> {
  const info = await api<{ state: { last_seq: number } }>(bus, `STREAM.INFO.${stream}`, undefined, timeoutMs)
  return info.state.last_seq
}

/** Sequence of the last message under a subject filter, as the stream's leader knows it; 0 when there is none. The
 *  server sends the message itself along: ask only when the stream's last sequence does not do. For a wildcard it walks
 *  all subjects that match, and nobody writes meanwhile: at a million emails each such question took EMAILS a second,
 *  and reads under load left no time to append. So the last of all is looked at first, which costs nothing, and nearly
 *  always it is the one. `timeoutMs` is for both questions together. */
export async function lastSequenceUnder (
  bus: Bus,
  stream: string,
  filter: string,
  timeoutMs = TIMEOUT_MS
): Promise<number> {
  const endMs = performance.now() + timeoutMs
  const last = await lastMessage(bus, stream, '>', timeoutMs)
  if (last !== null && isUnder(last.subject, filter)) return last.seq
  const found = await lastMessage(bus, stream, filter, Math.max(1, endMs - performance.now()))
  return found?.seq ?? 0
}

/** Null = there is none; under `>` also when the very last one has been deleted. */
async function lastMessage (
  bus: Bus,
  stream: string,
  filter: string,
  timeoutMs: number
): Promise<{ subject: string, seq: number } | null> {
  try {
    const { message } = await api<{ message: { subject: string, seq: number } }>(bus, `STREAM.MSG.GET.${stream}`, {
      last_by_subj: filter
    }, timeoutMs)
    return message
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return null
    throw error
  }
}

/** Source: NATS documentation, "Subject-Based Messaging", wildcards. */
function isUnder (subject: string, filter: string): boolean {
  const [tokens, wanted] = [subject.split('.'), filter.split('.')]
  const isOpen = wanted.at(-1) === '>'
  if (isOpen ? tokens.length < wanted.length : tokens.length !== wanted.length) return false
  return wanted.every((token, i) => token === '*' || token === tokens[i] || (isOpen && i === wanted.length - 1))
}

/** Subjects on one page of the server's answer. */
const PAGE = 100_000

/** Every subject under a filter that a stream holds messages on. */
export async function subjectsUnder (bus: Bus, stream: string, filter: string): Promise<string[]> {
  const found: string[] = []
  for (;;) {
    const ask = { subjects_filter: filter, offset: found.length }
    const { state } = await api<{ state: { subjects?: Record<string, number> } }>(bus, `STREAM.INFO.${stream}`, ask)
    const page = Object.keys(state.subjects ?? {})
    found.push(...page)
    if (page.length < PAGE) return found
  }
}
