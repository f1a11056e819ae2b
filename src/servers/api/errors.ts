import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { RecipientStatusSchema } from '#projections/emails/status.ts'
import { IdempotencyBusy, IdempotencyMismatch } from '#src/actions/acceptor.ts'
import { QuotaExceeded } from '#src/actions/quota.ts'
import { nearest } from '#src/base/suggest.ts'
import type { SuspensionReason } from '#streams/account/facts.ts'
import type { FieldFault } from '#streams/define.ts'

/** Some of an email's recipients, and the status of each. */
export const RecipientStates = Type.Array(Type.Object({
  n: Type.Integer(),
  address: Type.String(),
  status: RecipientStatusSchema,
  may_have_arrived: Type.Optional(
    Type.Literal(true, { description: 'Whether an earlier copy arrived is not known.' })
  )
}))

/** What messages call a field: without the list it stands in, which `field` names. `attachments[0].content` is
 *  `content`. */
export function labelOf (field: string): string {
  return field.slice(field.lastIndexOf('].') + 1).replace(/^\./, '')
}

/** `must` goes on from "<field> must ". */
export function mustFault (field: string, code: string, must: string): FieldFault {
  return { field, code, message: `${labelOf(field)} must ${must}.` }
}

/** `member` = what it would be if it were known: `field`, `query parameter`; `known` = the names beside it. */
export function unknownFault (field: string, member: string, known: readonly string[] = []): FieldFault {
  const label = labelOf(field)
  const name = label.slice(label.lastIndexOf('.') + 1)
  const other = nearest(name, known)
  const meant = other === null ? '' : ` (did you mean \`${label.slice(0, -name.length)}${other}\`?)`
  return { field, code: 'unknown_field', message: `Unknown ${member} \`${label}\`${meant}.` }
}

/** The faults of a request: what the schema found, and what else is wrong with fields that it found nothing wrong
 *  with. */
export class FaultList {
  readonly all: FieldFault[]
  private readonly fields: Set<string>

  constructor (found: readonly FieldFault[] = []) {
    this.all = [...found]
    this.fields = new Set(found.map(({ field }) => field))
  }

  has (field: string): boolean {
    return this.fields.has(field)
  }

  /** The first fault of a field is the one that is told. */
  add (fault: FieldFault): void {
    if (this.fields.has(fault.field)) return
    this.fields.add(fault.field)
    this.all.push(fault)
  }

  must (field: string, code: string, must: string): void {
    this.add(mustFault(field, code, must))
  }
}

/** An error body as it is described, where one stands inside an answer. */
export const ProblemBody = Type.Object({
  error: Type.String(),
  code: Type.Optional(Type.String()),
  details: Type.Optional(
    Type.Array(Type.Object({ field: Type.String(), code: Type.String(), message: Type.String() }))
  ),
  email_id: Type.Optional(
    Type.String({
      description: 'With `idempotency_mismatch`: the email that was accepted under the Idempotency-Key. With ' +
        '`acceptance_unknown`: the email that may have been accepted.'
    })
  ),
  email_ids: Type.Optional(
    Type.Array(Type.String(), {
      description:
        'With `idempotency_mismatch`: the emails of the batch that was accepted. With `acceptance_unknown`: those ' +
        'that may have been accepted.'
    })
  ),
  recipients: Type.Optional({
    ...RecipientStates,
    description: 'When no recipient could be changed: the status of each.'
  })
})

/** Named at once, but not without end. */
export const FAULTS_MAX = 1000

/** An answer that is not a success, thrown from anywhere under /api and answered by the one error handler. */
export class HttpProblem extends Error {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly headers: Record<string, string>
  constructor (status: number, body: Record<string, unknown>, headers: Record<string, string> = {}) {
    super(String(body.error))
    this.status = status
    this.body = body
    this.headers = headers
  }
}

/** Spec section 7, word for word. */
export const unauthorized = () => new HttpProblem(401, { error: 'Unauthorized' })
/** `why` = a sentence for the header, `scope` = the one that is missing: the spec's body has no place for them. Source:
 *  RFC 6750 3.1. */
export class Forbidden extends HttpProblem {
  readonly why: string
  readonly scope: string | null
  constructor (why: string, scope: string | null) {
    super(403, { error: 'Insufficient API key permissions' }, {
      'www-authenticate':
        `Bearer error="insufficient_scope", error_description="${why.replace(/[^ !#-[\]-~]/g, '?')}"` +
        (scope === null ? '' : `, scope="${scope}"`)
    })
    this.why = why
    this.scope = scope
  }
}
export const forbidden = (why: string, scope: string | null = null) => new Forbidden(why, scope)
export const rateLimited = (retryAfterS: number) =>
  new HttpProblem(429, { error: 'Rate limit exceeded', retryAfter: retryAfterS }, {
    'retry-after': String(retryAfterS)
  })

/** Spec section 7's body, with what a window has not. */
export const quotaExceeded = ({ message, retryAfterS }: QuotaExceeded) =>
  new HttpProblem(429, {
    error: message,
    code: 'quota_exceeded',
    retryAfter: retryAfterS
  }, { 'retry-after': String(retryAfterS) })

/** Nothing of the account goes out. */
export const accountSuspended = (reason: SuspensionReason) =>
  new HttpProblem(403, {
    error: `The account is suspended (${reason}): it can be read, and sends nothing until the operator resumes it.`,
    code: 'account_suspended',
    reason
  })

/** The rest, which the spec leaves open: always a string `error`, with a `code` where a program may want to tell. Those
 *  without details are sentences that say what must be, or what is wrong. */
const refused = (status: number, code: string, sentence: string, headers: Record<string, string> = {}) =>
  new HttpProblem(status, { error: sentence, code }, headers)

export const notFound = () => new HttpProblem(404, { error: 'Not found' })
export const gone = () => new HttpProblem(404, { error: 'Not found', code: 'content_expired' })
/** What we did not foresee: the log has it, under the request's id. */
export const internal = (requestId: string) =>
  new HttpProblem(500, { error: 'Internal server error', code: 'internal', request_id: requestId })
export const methodNotAllowed = (allow: string[]) =>
  refused(405, 'method_not_allowed', `The method must be ${oneOf(allow)}.`, { allow: allow.join(', ') })
export const conflict = (code: string, message: string, more: Record<string, unknown> = {}) =>
  new HttpProblem(409, { error: message, code, ...more })
export const invalid = (details: readonly FieldFault[]) =>
  new HttpProblem(422, { error: 'Validation failed', code: 'validation_failed', details: details.slice(0, FAULTS_MAX) })
export const malformedJson = () => refused(400, 'malformed_json', 'The body must be valid JSON.')
/** A batch of emails with variables is less deep, and what reads a body may recurse. */
export const DEPTH_MAX = 64
export const tooDeep = () => refused(400, 'malformed_json', `The body must be nested at most ${DEPTH_MAX} levels deep.`)
/** A few bytes each, and some fifty once they are parsed. */
export const VALUES_MAX = 250_000
export const tooManyValues = () => refused(400, 'malformed_json', `The body must hold at most ${VALUES_MAX} values.`)
const unsupportedMediaType = (sentence: string, headers?: Record<string, string>) =>
  refused(415, 'unsupported_media_type', sentence, headers)
/** `types` = what the route takes. */
export const notTaken = (types: readonly string[] = ['application/json']) =>
  unsupportedMediaType(`The Content-Type of the body must be ${oneOf([...types])}.`)
export const wrongCharset = () => unsupportedMediaType('The body must be in UTF-8.')
/** Source of the header: RFC 9110 15.5.16. */
export const compressed = () =>
  unsupportedMediaType('The body must not be compressed: send it without Content-Encoding.', {
    'accept-encoding': 'identity'
  })
export const bodyTooLarge = (bytesMax: number) =>
  refused(413, 'body_too_large', `The body must be at most ${bytesMax / 1024 / 1024} MB.`)
export const cutShort = () => refused(400, 'malformed_request', 'The body must be as long as Content-Length says.')
export const malformedText = () => refused(400, 'malformed_text', 'The body must be UTF-8.')
export const malformedUrl = () => refused(400, 'malformed_request', 'The URL must be percent-encoded UTF-8.')
export const missingHost = () => refused(400, 'malformed_request', 'The Host header must be given once.')
export const unavailable = (code: string, sentence: string, retryAfterS = 2, more: Record<string, unknown> = {}) =>
  new HttpProblem(503, { error: sentence, code, ...more }, { 'retry-after': String(retryAfterS) })
/** Which emails an error is about. */
export const idsOf = (emails: readonly string[]) =>
  emails.length === 1 ? { email_id: emails[0]! } : { email_ids: emails }

/** Where a person finds help: what the documentation says of an operation, or all of it. Source: RFC 8288. */
export function helpLink (publicUrl: string, { operationId, tags = [] }: Described = {}): string {
  const place = operationId === undefined ? '' : `#/${tags[0]}/${operationId}`
  return `<${publicUrl}/docs${place}>; rel="help"`
}

interface Described {
  operationId?: string
  tags?: readonly string[]
}

function oneOf (words: string[]): string {
  return words.join(', ').replace(/, ([^,]*)$/, ' or $1')
}

/** What a route takes: so many bytes, and instead of JSON `uploads`. */
interface Takes {
  bodyLimit: number
  config: { uploads?: readonly string[] }
}

/** Fastify's own refusals, by its error code. */
const FASTIFY: Record<string, (route: Takes) => HttpProblem> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ({ config }) => notTaken(config.uploads),
  FST_ERR_CTP_BODY_TOO_LARGE: ({ bodyLimit }) => bodyTooLarge(bodyLimit),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () => cutShort(),
  FST_ERR_CTP_EMPTY_JSON_BODY: () => malformedJson(),
  FST_ERR_CTP_INVALID_JSON_BODY: () => malformedJson()
}

/** What was thrown, as a HttpProblem; null when we did not foresee it. */
export function asProblem (error: unknown, route: Takes): HttpProblem | null {
  if (error instanceof HttpProblem) return error
  if (error instanceof QuotaExceeded) return quotaExceeded(error)
  if (error instanceof IdempotencyBusy) return unavailable('idempotency_busy', error.message)
  if (error instanceof IdempotencyMismatch) return conflict('idempotency_mismatch', error.message, idsOf(error.emails))
  const { code, statusCode } = error as { code?: string, statusCode?: number }
  const known = FASTIFY[code ?? '']
  if (known !== undefined) return known(route)
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return refused(statusCode, 'malformed_request', 'The request must be valid HTTP.')
  }
  return null
}

export function answer (reply: FastifyReply, problem: HttpProblem): FastifyReply {
  return reply.code(problem.status).headers(problem.headers).type('application/json; charset=utf-8').send(problem.body)
}
