import type { Problem } from './types.ts'

/** What went wrong with a request. It never holds the key. */
export class JetpostError extends Error {
  override readonly name = 'JetpostError'
  /** The answer's status; null when there was no answer. */
  readonly status: number | null
  /** For programs: the API's `code`, `http_<status>` where it gives none, and without an answer `network_error` or
   *  `timeout`. */
  readonly code: string
  /** Each fault of what was sent, where there are any. */
  readonly details: NonNullable<Problem['details']>
  /** The whole answer, parsed when it was JSON. */
  readonly body: unknown
  /** What the service's log has it under. */
  readonly requestId: string | null
  /** Seconds to wait before it makes sense to try again, where the service says so. */
  readonly retryAfterS: number | null
  /** The page of the documentation that says what is needed, where the service names one. */
  readonly helpUrl: string | null

  constructor (
    message: string,
    { code, status = null, details = [], body, requestId = null, retryAfterS = null, helpUrl = null, cause }: ErrorInput
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
    this.code = code
    this.details = details
    this.body = body
    this.requestId = requestId
    this.retryAfterS = retryAfterS
    this.helpUrl = helpUrl
  }
}

type ErrorInput =
  & Pick<JetpostError, 'code'>
  & Partial<Pick<JetpostError, 'status' | 'details' | 'body' | 'requestId' | 'retryAfterS' | 'helpUrl' | 'cause'>>

/** An answer that is no success. `text` = its body. */
export function refusedBy ({ status, headers }: Response, text: string): JetpostError {
  const body = parsed(text)
  const { error, code, details, retryAfter } = Object(body) as { [Key in keyof Problem | 'retryAfter']?: unknown }
  const faults = Array.isArray(details) ? details as JetpostError['details'] : []
  const told = typeof error === 'string' ? error : `The answer was ${status}`
  const why = reasonIn(headers.get('www-authenticate'))
  const sentence = why === null ? told : `${told}: ${why}`
  return new JetpostError(
    faults.length === 0 ? sentence : `${sentence}: ${faults.map(({ message }) => message).join(' ')}`,
    {
      status,
      code: typeof code === 'string' ? code : `http_${status}`,
      details: faults,
      body,
      requestId: headers.get('x-request-id'),
      retryAfterS: secondsIn(headers.get('retry-after')) ?? (typeof retryAfter === 'number' ? retryAfter : null),
      helpUrl: helpIn(headers.get('link'))
    }
  )
}

/** A proxy on the way answers HTML. */
function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** `Retry-After` is a number of seconds or a date. Source: RFC 9110 10.2.3. */
function secondsIn (header: string | null): number | null {
  if (header === null) return null
  if (/^\d+$/.test(header)) return Number(header)
  const ms = Date.parse(header)
  return Number.isNaN(ms) ? null : Math.max(0, Math.ceil((ms - Date.now()) / 1000))
}

/** Why the key may not do that. Source: RFC 6750 3. */
function reasonIn (challenge: string | null): string | null {
  return challenge === null ? null : /error_description="([^"]*)"/.exec(challenge)?.[1] ?? null
}

/** The target of the link whose relation is `help`. Source: RFC 8288 3. */
function helpIn (links: string | null): string | null {
  return /<([^>]*)>;\s*rel="?help"?/.exec(links ?? '')?.[1] ?? null
}
