import { isUnder } from '#streams/subjects.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { ANSWER_MS, storedMessage } from './direct.ts'
import { JetStreamError, NO_MESSAGE, unreadable } from './errors.ts'
import { decodeStored, type StoredFact, type StoredMessage } from './message.ts'
import { retryOnDisconnect } from './retry-on-disconnect.ts'

/** One message: at a sequence; the last on a subject; the first under a filter from a sequence or a time on. Wildcards
 *  allowed. The fields are JetStream's. */
export type MessageQuery =
  | { seq: number }
  | { last_by_subj: string }
  | { seq: number, next_by_subj: string }
  | { start_time: string, next_by_subj: string }

/** Who answers a read: any replica, quickly, though it may not have the newest messages yet; or the stream's leader,
 *  who has everything that was acknowledged. To decide upon a fact, or that there is none, ask the leader. */
export type ReadFrom = 'any' | 'leader'

/** Null when there is none. Deadline 2 s unless given. Throws what `isUnanswered` knows; for the leader, JetStreamError
 *  too. */
export async function getMessage (
  bus: Bus,
  stream: string,
  query: MessageQuery,
  from: ReadFrom = 'any',
  timeoutMs = ANSWER_MS
): Promise<StoredMessage | null> {
  return await (from === 'leader' ? getFromLeader : getFromAny)(bus, stream, query, timeoutMs)
}

/** The same as a fact; throws as well when the message does not fit its schema. */
export async function getFact (
  bus: Bus,
  stream: string,
  query: MessageQuery,
  from: ReadFrom = 'any',
  timeoutMs = ANSWER_MS
): Promise<StoredFact | null> {
  const message = await getMessage(bus, stream, query, from, timeoutMs)
  return message === null ? null : decodeStored(message)
}

async function getFromAny (
  bus: Bus,
  stream: string,
  query: MessageQuery,
  timeoutMs: number
): Promise<StoredMessage | null> {
  const message = await retryOnDisconnect(
    bus,
    timeoutMs,
    async timeout => await bus.nc.request(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify(query), { timeout }),
    'replicas'
  )
  const code = message.headers?.code ?? 0
  if (code === 404) return null
  if (code >= 400) throw unreadable(stream, message.headers!.status)
  return storedMessage(stream, message)
}

/** Bytes in base64; `hdrs` left out = none. */
interface LeaderAnswer {
  message: { subject: string, seq: number, hdrs?: string, data?: string, time: string }
}

async function getFromLeader (
  bus: Bus,
  stream: string,
  query: MessageQuery,
  timeoutMs: number
): Promise<StoredMessage | null> {
  try {
    const { message } = await api<LeaderAnswer>(bus, `STREAM.MSG.GET.${stream}`, query, timeoutMs)
    const { seq, subject, hdrs = '', data = '', time } = message
    const headers = Buffer.from(hdrs, 'base64').toString().split('\r\n')
    return {
      stream,
      seq,
      subject,
      storedMs: Date.parse(time),
      data: Buffer.from(data, 'base64'),
      header: name => headers.find(line => line.startsWith(`${name}:`))?.slice(name.length + 1).trim() ?? ''
    }
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return null
    throw error
  }
}

/** The stream's last sequence now; 0 when it is empty. Deadline 2 s unless given. */
export async function lastSequence (bus: Bus, stream: string, timeoutMs = ANSWER_MS): Promise<number> {
  const info = await api<{ state: { last_seq: number } }>(bus, `STREAM.INFO.${stream}`, undefined, timeoutMs)
  return info.state.last_seq
}

/** Sequence of the last message under a subject filter, as the stream's leader knows it; 0 when there is none. The
 *  server sends the message itself along: ask only when the stream's last sequence does not do. For a wildcard it walks
 *  all subjects that match, and nobody writes meanwhile: at a million emails each such query took EMAILS a second, and
 *  reads under load left no time to append. So the last message of all is asked for first, which costs nothing, and
 *  nearly always it is the one. */
export async function lastSequenceUnder (
  bus: Bus,
  stream: string,
  filter: string,
  timeoutMs = ANSWER_MS
): Promise<number> {
  const endMs = performance.now() + timeoutMs

  // Null also when the very last one has been deleted.
  const last = await getMessage(bus, stream, { last_by_subj: '>' }, 'leader', timeoutMs)
  if (last !== null && isUnder(last.subject, filter)) return last.seq
  const leftMs = Math.max(1, endMs - performance.now())
  return (await getMessage(bus, stream, { last_by_subj: filter }, 'leader', leftMs))?.seq ?? 0
}

/** NATS counts nanoseconds in 64 bits: beyond the year 2262 they begin again in the past. */
const TIME_MS_MAX = Date.UTC(2262, 0)

/** The sequence before the first message that was stored at `timeMs` (Unix) or later; the last of all when none was.
 *  Deadline 2 s. */
export async function sequenceBefore (bus: Bus, stream: string, timeMs: number): Promise<number> {
  const startTime = new Date(Math.min(timeMs, TIME_MS_MAX)).toISOString()
  const first = await getMessage(bus, stream, { start_time: startTime, next_by_subj: '>' }, 'leader')
  return first === null ? await lastSequence(bus, stream) : first.seq - 1
}
