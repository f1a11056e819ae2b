import { headers } from 'nats'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { isUnanswered, JetStreamError } from './errors.ts'
import { lastSequence } from './get.ts'
import type { StoredMessage } from './message.ts'
import { readMessages } from './range.ts'

export interface Schedule {
  /** One schedule a subject: the same again replaces it. */
  subject: string
  /** Where the message appears when its time has come. */
  target: string
  /** Unix ms; a past time is due at once. */
  atMs: number
  payload: unknown
}

/** What came due is not kept for long: after a longer stop the reconciler finds who was forgotten. */
const DUE_TTL = '24h'
const FIRED_AT_ONCE = 500
const ANSWER_MS = 2000

/** Stores a message schedule (server ADR-51) and resolves once the server has it. Tries until `timeoutMs` is over, then
 *  throws. Safe to repeat: the subject is the identity. */
export async function schedule (
  bus: Bus,
  { subject, target, atMs, payload }: Schedule,
  timeoutMs = 60_000
): Promise<void> {
  const head = headers()
  head.set('Nats-Schedule', `@at ${timestamp(atMs)}`)
  head.set('Nats-Schedule-Target', target)
  head.set('Nats-Schedule-TTL', DUE_TTL)
  for (const endMs = Date.now() + timeoutMs;;) {
    try {
      const answer = await bus.nc.request(subject, JSON.stringify(payload), { headers: head, timeout: ANSWER_MS })
      const { error } = answer.json<{ error?: { err_code: number, description: string } }>()
      if (error === undefined) return
      throw new JetStreamError(error.err_code, error.description)
    } catch (error) {
      if (!isUnanswered(error) || Date.now() > endMs) throw error
    }
    await sleep(100)
  }
}

/** Has every schedule stored now under `filter` (wildcards allowed) come due at once and removes it: in the order they
 *  were stored, neighbours (up to 500) by `rank`, for those that were due together once before may have changed places.
 *  Throws when NATS does not answer; safe to repeat. */
export async function fireNow (bus: Bus, filter: string, rank: (payload: unknown) => number): Promise<void> {
  const lastSeq = await lastSequence(bus, 'SCHEDULE')
  for (;;) {
    const { messages } = await readMessages(bus, 'SCHEDULE', { filter, afterSeq: 0 }, { max: FIRED_AT_ONCE })
    const waiting = messages.filter(({ seq }) => seq <= lastSeq)
    if (waiting.length === 0) return
    const ranks = new Map(waiting.map(message => [message, rank(JSON.parse(Buffer.from(message.data).toString()))]))
    await Promise.all(waiting.toSorted((a, b) => ranks.get(a)! - ranks.get(b)!).map(message => fire(bus, message)))
    await api(bus, 'STREAM.PURGE.SCHEDULE', { filter, seq: waiting.at(-1)!.seq + 1 }, ANSWER_MS)
  }
}

async function fire (bus: Bus, scheduled: StoredMessage): Promise<void> {
  const head = headers()
  head.set('Nats-Msg-Id', `fired ${scheduled.seq}`)
  head.set('Nats-TTL', DUE_TTL)
  const answer = await bus.nc.request(scheduled.header('Nats-Schedule-Target'), scheduled.data, {
    headers: head,
    timeout: ANSWER_MS
  })
  const { error } = answer.json<{ error?: { err_code: number, description: string } }>()
  if (error !== undefined) throw new JetStreamError(error.err_code, error.description)
}
