import { ErrorCode, NatsError } from 'nats'
import { Late } from '#src/base/errors.ts'

/** JetStream's own no: `code` is its err_code. Source: nats-server errors.json. */
export class JetStreamError extends Error {
  readonly code: number
  constructor (code: number, description: string) {
    super(`JetStream refused: ${description} (${code})`)
    this.code = code
  }
}

/** The err_codes we act upon. */
/** The server that answered knows of no leader: ask again. */
export const NOT_AVAILABLE = 10008
/** Fewer servers are there than replicas are wished for. */
export const NO_PLACE = 10005
export const STREAM_NOT_FOUND = 10059
export const CONSUMER_NOT_FOUND = 10014
export const WRONG_LAST_SEQUENCE = 10071
/** As 10071, while the rival is still on its way to the other replicas. */
export const WRONG_LAST_SEQUENCE_UNKNOWN = 10164
export const DUPLICATE_IN_BATCH = 10201
export const NO_MESSAGE = 10037

const UNANSWERED = new Set<string>([
  ErrorCode.Timeout,
  ErrorCode.NoResponders,
  ErrorCode.Disconnect,
  ErrorCode.ConnectionClosed,
  ErrorCode.ConnectionDraining,
  ErrorCode.ConnectionRefused,
  ErrorCode.ConnectionTimeout,
  ErrorCode.Cancelled
])

/** True when the answer never came (timeout, nobody there, line cut): what was asked may have been done. */
export function isUnanswered (error: unknown): boolean {
  return error instanceof Late || (error instanceof NatsError && UNANSWERED.has(error.code))
}

/** The subject has moved on since it was read: read again, decide again. Nothing of the part was stored. */
export class Conflict extends Error {
  override name = 'Conflict'
}

/** The log could not take the part within its time. It may have been stored all the same when `doubt` is true. */
export class LogUnavailable extends Error {
  override name = 'LogUnavailable'
  readonly doubt: boolean
  constructor (message: string, doubt: boolean) {
    super(message)
    this.doubt = doubt
  }
}

/** An error that `isUnanswered` knows, for an answer that came and is no use. */
export function unreadable (stream: string, why: string): NatsError {
  return new NatsError(`${stream} cannot be read: ${why}`, ErrorCode.Timeout)
}
