import type { Msg } from 'nats'
import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { ANSWER_MS, askDirect, createPartReader, unread } from './direct.ts'
import { JetStreamError, NO_MESSAGE } from './errors.ts'
import { lastSequence, loadAfter } from './load.ts'

/** A fact, and when its stream stored it: Unix ms, what is below a millisecond cut off. */
export interface Stored extends Recorded<AnyFact> {
  storedMs: number
}

const PAGE = 500
const PAGE_BYTES_MAX = 1024 * 1024
/** What one email of 50 recipients can have come to, and more. */
const FACTS_MAX = 25_000

/** All facts under a subject filter, oldest first, with the times they were stored at: many subjects to a question, and
 *  the last word is the leader's, so that whatever was acknowledged is there. Deadline 2 s for it all. Throws what
 *  `isUnanswered` knows for silence, a refusal, a gap, and for more than there can be; JetStreamError; for a fact that
 *  does not fit its schema, the schema's error. */
export async function loadHistory (bus: Bus, stream: string, filter: string): Promise<Stored[]> {
  const endMs = performance.now() + ANSWER_MS
  const facts: Stored[] = []
  for (;;) {
    const leftMs = Math.max(1, endMs - performance.now())
    const { page, ended } = await readPage(bus, stream, { filter, afterSeq: facts.at(-1)?.seq ?? 0 }, leftMs)
    facts.push(...page)
    if (facts.length > FACTS_MAX) throw unread(stream, `there are more than ${FACTS_MAX} facts under one filter`)
    if (!ended) continue
    const next = await nextAtLeader(
      bus,
      stream,
      { filter, afterSeq: facts.at(-1)?.seq ?? 0 },
      Math.max(1, endMs - performance.now())
    )
    if (next === null) return facts
    facts.push(next)
  }
}

interface Place {
  filter: string
  afterSeq: number
}

async function readPage (
  bus: Bus,
  stream: string,
  { filter, afterSeq }: Place,
  timeoutMs: number
): Promise<{ page: Stored[], ended: boolean }> {
  const question = { seq: afterSeq + 1, next_by_subj: filter, batch: PAGE, max_bytes: PAGE_BYTES_MAX }
  const silence = unread(stream, `no answer within ${ANSWER_MS} ms`)
  const { messages, ended } = await askDirect(bus, stream, {
    question,
    reader: () => createPartReader(stream),
    silence,
    timeoutMs
  })
  return { page: messages.map(storedIn), ended }
}

function storedIn ({ data, headers }: Msg): Stored {
  return {
    fact: decodeFact(data),
    seq: Number(headers!.get('Nats-Sequence')),
    subject: headers!.get('Nats-Subject'),
    storedMs: Date.parse(headers!.get('Nats-Time-Stamp'))
  }
}

interface Answer {
  message: { subject: string, seq: number, data: string, time: string }
}

async function nextAtLeader (
  bus: Bus,
  stream: string,
  { filter, afterSeq }: Place,
  timeoutMs: number
): Promise<Stored | null> {
  try {
    const { message } = await api<Answer>(
      bus,
      `STREAM.MSG.GET.${stream}`,
      { seq: afterSeq + 1, next_by_subj: filter },
      timeoutMs
    )
    return {
      fact: decodeFact(Buffer.from(message.data, 'base64')),
      seq: message.seq,
      subject: message.subject,
      storedMs: Date.parse(message.time)
    }
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return null
    throw error
  }
}

/** The first fact on a subject that is not before what is looked for, where `compare` says how one stands to it (below
 *  0: before) and they stand in its order: halves the stream until it is found, some 30 questions, 2 s each. Null when
 *  all are before it. Throws like loadAfter. */
export async function seek (
  bus: Bus,
  stream: string,
  subject: string,
  compare: (fact: AnyFact) => number
): Promise<Recorded<AnyFact> | null> {
  let [after, before] = [0, await lastSequence(bus, stream)]
  let found: Recorded<AnyFact> | null = null
  while (after < before) {
    const middle = Math.floor((after + before) / 2)
    const [next] = await loadAfter(bus, stream, subject, middle, 1)
    if (next !== undefined && compare(next.fact) < 0) after = next.seq
    else [before, found] = [middle, next ?? found]
  }
  return found
}
