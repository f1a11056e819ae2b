import type { Msg } from 'nats'
import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { ANSWER_MS, askDirect, createPartReader, unread, type Part } from './direct.ts'
import { isUnanswered, JetStreamError, NO_MESSAGE } from './errors.ts'
import { find, type Found } from './follow.ts'
import { lastSequence } from './load.ts'

/** A place in a stream, and what is of interest from there on. */
export interface Place {
  /** Subject filter, wildcards allowed; null = every subject. The server counts what is under a filter for each page,
   *  which takes it a while where there is much: 80 ms with 100,000 subjects, against 10 ms without a filter. */
  filter: string | null
  /** Messages after this sequence. */
  afterSeq: number
}

export interface StreamPage {
  facts: Recorded<AnyFact>[]
  /** The replica that answered has no more; another may. */
  ended: boolean
}

/** The next facts of a stream, oldest first: at most `max`, and none more once they are `bytesMax`. Any replica
 *  answers, also one that has not heard of the newest: what comes after the last of these it never hides. Deadline 2 s.
 *  Throws what `isUnanswered` knows for silence, a refusal and an answer with a gap; for a fact that does not fit its
 *  schema, the schema's error. */
export async function readAfter (
  bus: Bus,
  stream: string,
  place: Place,
  max: number,
  bytesMax: number
): Promise<StreamPage> {
  const { messages, ended } = await askAfter(bus, stream, place, max, bytesMax)
  return { facts: messages.map(message => ({ ...placeOf(message), fact: decodeFact(message.data) })), ended }
}

/** The same for who goes on where something lies that is no fact, or one of a newer Jetpost. */
export async function findAfter (
  bus: Bus,
  stream: string,
  place: Place,
  max: number,
  bytesMax: number
): Promise<{ found: Found[], ended: boolean }> {
  const { messages, ended } = await askAfter(bus, stream, place, max, bytesMax)
  return { found: messages.map(message => find({ ...placeOf(message), data: message.data })), ended }
}

async function askAfter (
  bus: Bus,
  stream: string,
  { filter, afterSeq }: Place,
  max: number,
  bytesMax: number
): Promise<Part> {
  const question = {
    seq: afterSeq + 1,
    ...(filter === null ? {} : { next_by_subj: filter }),
    batch: max,
    max_bytes: bytesMax
  }
  const silence = unread(stream, `no answer within ${ANSWER_MS} ms`)
  return await askDirect(bus, stream, { question, reader: () => createPartReader(stream), silence })
}

function placeOf ({ headers }: Msg): { seq: number, subject: string } {
  return { seq: Number(headers!.get('Nats-Sequence')), subject: headers!.get('Nats-Subject') }
}

interface Stored {
  message: { subject: string, seq: number, data: string }
}

/** The next fact as the stream's leader knows it, so that whatever was acknowledged is there; null when there is none.
 *  Deadline 2 s. Throws what `isUnanswered` knows, or JetStreamError. */
export async function nextAtLeader (
  bus: Bus,
  stream: string,
  { filter, afterSeq }: Place
): Promise<Recorded<AnyFact> | null> {
  try {
    const { message } = await api<Stored>(bus, `STREAM.MSG.GET.${stream}`, {
      seq: afterSeq + 1,
      next_by_subj: filter ?? '>'
    }, ANSWER_MS)
    return { fact: decodeFact(Buffer.from(message.data, 'base64')), seq: message.seq, subject: message.subject }
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return null
    throw error
  }
}

/** What comes after a place, until there is no more: the leader alone says so, a replica may not have heard of the
 *  newest yet. Each answer has at most `max()` facts, and none more once they are `bytesMax`. Where so much lies under
 *  the filter that the server cannot count it in time, they come one by one. Throws like `nextAtLeader`. */
export async function* factsAfter (
  bus: Bus,
  stream: string,
  { filter, afterSeq }: Place,
  max: () => number,
  bytesMax: number
): AsyncGenerator<Recorded<AnyFact>[]> {
  let quick = true
  for (let seq = afterSeq;;) {
    const page: StreamPage | null = quick
      ? await readAfter(bus, stream, { filter, afterSeq: seq }, max(), bytesMax).catch(unlessUnanswered)
      : null
    quick = page !== null
    if (page !== null && page.facts.length > 0) yield page.facts
    seq = page?.facts.at(-1)?.seq ?? seq
    if (page?.ended === false) continue
    const next = await nextAtLeader(bus, stream, { filter, afterSeq: seq })
    if (next === null) return
    yield [next]
    seq = next.seq
  }
}

function unlessUnanswered (error: unknown): null {
  if (isUnanswered(error)) return null
  throw error
}

/** NATS counts nanoseconds in 64 bits: beyond the year 2262 they begin anew in the past. */
const TIME_MS_MAX = Date.UTC(2262, 0)

/** The sequence before the first message that was stored at `timeMs` (Unix) or later; the last of all when none was.
 *  Deadline 2 s. */
export async function sequenceBefore (bus: Bus, stream: string, timeMs: number): Promise<number> {
  try {
    const { message } = await api<Stored>(bus, `STREAM.MSG.GET.${stream}`, {
      start_time: new Date(Math.min(timeMs, TIME_MS_MAX)).toISOString(),
      next_by_subj: '>'
    }, ANSWER_MS)
    return message.seq - 1
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return await lastSequence(bus, stream)
    throw error
  }
}

/** How long a stream keeps its messages, in ms; Infinity = for ever. Deadline 2 s. */
export async function ageMsMax (bus: Bus, stream: string): Promise<number> {
  const { config } = await api<{ config: { max_age: number } }>(bus, `STREAM.INFO.${stream}`, undefined, ANSWER_MS)
  return config.max_age === 0 ? Infinity : config.max_age / 1e6
}
