import { Refusal } from '#streams/define.ts'
import { IdempotencyBusy, IdempotencyMismatch } from '#src/actions/acceptor.ts'
import { AcceptanceUnknown } from '#src/actions/email.ts'
import { QuotaExceeded } from '#src/actions/quota.ts'
import type { Log } from '#src/base/log.ts'
import { isUnanswered, LogUnavailable } from '#src/nats/errors.ts'

/** An answer that is not a success: the SMTP code, and a text that begins with the enhanced one (RFC 3463). */
export class SmtpRefusal extends Error {
  override name = 'SmtpRefusal'
  readonly responseCode: number
  constructor (responseCode: number, text: string) {
    super(text)
    this.responseCode = responseCode
  }
}

export const NOT_A_KEY = new SmtpRefusal(
  535,
  '5.7.8 The password must be a Jetpost API key that is live; the user name may be anything'
)
export const LACKS_SCOPE = new SmtpRefusal(535, '5.7.8 The API key must have the scope emails:send')
export const NEEDS_TLS = new SmtpRefusal(538, '5.7.0 TLS must come first: set the client to STARTTLS')
export const KEY_ENDED = new SmtpRefusal(535, '5.7.8 The API key is no longer live: log in with another one')
export const NOT_AN_ADDRESS = '5.1.7 The sender must be an address such as hello@example.com: the login is not an ' +
  'address, so set the From or sender address of the client'
export const NOT_A_RECIPIENT = '5.1.3 The recipient must be an address such as ada@example.com'
export const BUSY = new SmtpRefusal(451, '4.3.2 Too much mail arrives at once: try again in a moment')
export const BARE_LINE_END = new SmtpRefusal(
  550,
  '5.5.2 Lines must end in CRLF: the message has a CR or an LF that stands alone'
)
export const TOO_MANY_LOGINS = new SmtpRefusal(454, '4.7.0 Too many failed logins from your address: try again later')

/** What of the message is wrong. */
export function badMessage (must: string): SmtpRefusal {
  return new SmtpRefusal(550, `5.6.0 ${must}`)
}

/** Refused for who sends: spec 4.1 rule 1, and what the operator decided. */
export function notAllowed (sentence: string): SmtpRefusal {
  return new SmtpRefusal(550, `5.7.1 ${sentence}`)
}

export function rateLimited (retryAfterS: number): SmtpRefusal {
  return new SmtpRefusal(450, `4.7.1 Rate limit exceeded: try again in ${retryAfterS} s`)
}

const POLICY = new Set(['domain_not_linked', 'domain_unverified', 'account_suspended'])

export function refusalReply (refusal: Refusal): SmtpRefusal {
  return POLICY.has(refusal.code) ? notAllowed(refusal.message) : badMessage(refusal.message)
}

const LOG_AWAY = '4.3.0 The log is unavailable: try again'
const MAY_BE_STORED =
  '4.3.0 The mail may have been accepted, and the log does not say: with an Idempotency-Key header ' +
  'it can be sent again without a second copy'

/** What was thrown, as a reply; what we did not foresee is logged. */
export function errorReply (error: unknown, log: Log, requestId: string): SmtpRefusal {
  if (error instanceof SmtpRefusal) return error
  if (error instanceof QuotaExceeded) return new SmtpRefusal(450, `4.7.1 ${error.message}`)
  if (error instanceof IdempotencyBusy) return new SmtpRefusal(451, `4.3.0 ${error.message}`)
  if (error instanceof IdempotencyMismatch) {
    return badMessage(`${error.message.replace(/\.$/, '')}: it was used for ${error.emails.join(', ')}`)
  }
  if (error instanceof LogUnavailable || isUnanswered(error)) {
    log.warn({ requestId, err: error }, 'JetStream is unavailable; answering 451')
    return new SmtpRefusal(451, error instanceof AcceptanceUnknown ? MAY_BE_STORED : LOG_AWAY)
  }
  log.error({ requestId, err: error }, 'submission failed; answering 451')
  return new SmtpRefusal(451, `4.3.0 Internal error ${requestId}: try again`)
}
