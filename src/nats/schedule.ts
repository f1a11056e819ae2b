import { headers } from 'nats'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Bus } from './connect.ts'
import { isUnanswered, JetStreamError } from './errors.ts'

export interface Schedule {
  /** One schedule a subject: the same again replaces it. */
  subject: string
  /** Where the message appears when its time has come. */
  target: string
  /** Unix ms; a past time is due at once. */
  atMs: number
  payload: unknown
}

/** Stores a message schedule (server ADR-51) and resolves once the server has it. Tries until `timeoutMs` is over, then throws.
 *  Safe to repeat: the subject is the identity. */
export async function schedule (bus: Bus, { subject, target, atMs, payload }: Schedule, timeoutMs = 60_000): Promise<void> {
  const head = headers()
  head.set('Nats-Schedule', `@at ${timestamp(atMs)}`)
  head.set('Nats-Schedule-Target', target)
  // What came due is not kept for long: after a longer stop the sweep finds who was forgotten.
  head.set('Nats-Schedule-TTL', '24h')
  for (const endMs = Date.now() + timeoutMs; ;) {
    try {
      const answer = await bus.nc.request(subject, JSON.stringify(payload), { headers: head, timeout: 2000 })
      const { error } = answer.json<{ error?: { err_code: number, description: string } }>()
      if (error === undefined) return
      throw new JetStreamError(error.err_code, error.description)
    } catch (error) {
      if (!isUnanswered(error) || Date.now() > endMs) throw error
    }
    await sleep(100)
  }
}
