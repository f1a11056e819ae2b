import { asError } from '#src/base/errors.ts'
import { backoffMs, sleep } from '#src/base/backoff.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { isUnanswered, unreadable } from './errors.ts'
import { getMessage, lastSequence } from './get.ts'
import { decodeStored, type StoredFact, type StoredMessage } from './message.ts'

/** A server that was cut off goes on taking itself for the leader for up to 20 s, and knows nothing of what was
 *  acknowledged elsewhere meanwhile. */
const OLD_LEADER_MS = 25_000
const TRY_MS = 1000
const TIMEOUT_MS = 3000
const PAUSE_MS_MAX = 500

/** What `look` finds at the leader; null = there is none, for certain: two words of a leader say so that lie further
 *  apart than one of before can live on, or the word of the only replica. Takes 25 s then. Throws what `look` throws,
 *  what `isUnanswered` knows, and the signal's reason when it is aborted meanwhile. */
export async function certainly<T> (
  bus: Bus,
  stream: string,
  look: () => Promise<T | null>,
  { signal, apartMs = OLD_LEADER_MS }: { signal?: AbortSignal, apartMs?: number } = {}
): Promise<T | null> {
  const found = await look()
  if (found !== null || (await infoOf(bus, stream)).config.num_replicas === 1) return found
  await sleep(apartMs, signal)
  signal?.throwIfAborted()
  return await look()
}

/** The first message from a place on, of any replica, or of the leader where that one knows of none. */
async function firstFrom (bus: Bus, stream: string, seq: number): Promise<StoredMessage | null> {
  const query = { seq, next_by_subj: '>' }
  return await getMessage(bus, stream, query, 'any', TRY_MS) ?? await getMessage(bus, stream, query, 'leader', TRY_MS)
}

/** The message at a sequence that was acknowledged once; null = it is gone for good. A replica that has not heard of it
 *  says "not found" just like one that has deleted it. So the question is for it or the next one: by a later message
 *  the replica has passed the place. Where nothing lies behind it, the leader must have passed it. Throws what
 *  `isUnanswered` knows where that cannot be told within 3 s; with `patient` it takes 25 s more to see whether the log
 *  has ever reached so far. */
async function messageAt (bus: Bus, stream: string, seq: number, patient: boolean): Promise<StoredMessage | null> {
  const endMs = performance.now() + TIMEOUT_MS
  let fault: Error = unreadable(stream, `no replica proves that message ${seq} is gone`)
  for (let tries = 1; performance.now() < endMs; tries++) {
    try {
      const found = await firstFrom(bus, stream, seq)
      if (found !== null) return found.seq === seq ? found : null
      if (await isDeleted(bus, stream, seq)) return null
    } catch (error) {
      if (!isUnanswered(error)) throw error
      fault = asError(error)
    }
    await sleep(backoffMs(tries, 20, PAUSE_MS_MAX))
  }
  if (patient && await isBeyond(bus, stream, seq)) return null
  throw fault
}

/** The same as a fact; throws as well when the message does not fit its schema. */
export async function factAt (bus: Bus, stream: string, seq: number, patient = false): Promise<StoredFact | null> {
  const message = await messageAt(bus, stream, seq, patient)
  return message === null ? null : decodeStored(message)
}

/** Whether a stream ends before a sequence, for certain: then it is not the one in which the sequence was seen. Throws
 *  like `certainly`. */
export async function isBeyond (bus: Bus, stream: string, seq: number, signal?: AbortSignal): Promise<boolean> {
  const reached = async () => (await lastSequence(bus, stream) >= seq ? true : null)
  return await certainly(bus, stream, reached, { signal }) === null
}

interface StreamInfo {
  config: { num_replicas: number }
  state: { first_seq: number, last_seq: number, deleted?: number[] }
}

async function infoOf (bus: Bus, stream: string, question?: object): Promise<StreamInfo> {
  return await api<StreamInfo>(bus, `STREAM.INFO.${stream}`, question, TRY_MS)
}

/** By the word of a server that takes itself for the leader: what it has passed and does not hold was deleted. */
async function isDeleted (bus: Bus, stream: string, seq: number): Promise<boolean> {
  const { config, state } = await infoOf(bus, stream)
  if (config.num_replicas === 1 || (state.last_seq >= seq && state.first_seq > seq)) return true
  if (state.last_seq < seq) return false
  const details = await infoOf(bus, stream, { deleted_details: true })
  return details.state.deleted?.includes(seq) === true
}
