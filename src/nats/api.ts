import { NatsError } from 'nats'
import type { Bus } from './connect.ts'

const encoder = new TextEncoder()

/** JetStream's own no: `code` is its err_code. Source: nats-server errors.json. */
export class JetStreamError extends Error {
  readonly code: number
  constructor (code: number, description: string) {
    super(`JetStream refused: ${description} (${code})`)
    this.code = code
  }
}

/** The err_codes we act upon. */
export const STREAM_NOT_FOUND = 10059
export const CONSUMER_NOT_FOUND = 10014
export const WRONG_LAST_SEQUENCE = 10071
/** As 10071, while the rival is still on its way to the other replicas. */
export const WRONG_LAST_SEQUENCE_UNKNOWN = 10164
export const DUPLICATE_IN_BATCH = 10201
export const NO_MESSAGE = 10037

/** One request to `$JS.API.<subject>`; throws JetStreamError, or the client's error when nobody answers in time. Only for calls the client lacks. */
export async function api<T> (bus: Bus, subject: string, body: unknown, timeoutMs = 5000): Promise<T> {
  const message = await bus.nc.request(`$JS.API.${subject}`, encoder.encode(body === undefined ? '' : JSON.stringify(body)), { timeout: timeoutMs })
  const answer = message.json<T & { error?: { err_code: number, description: string } }>()
  if (answer.error !== undefined) throw new JetStreamError(answer.error.err_code, answer.error.description)
  return answer
}

/** True when the answer never came (timeout, nobody there, line cut): what was asked may have been done. */
export function isUnanswered (error: unknown): boolean {
  return error instanceof NatsError
}
