import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { Standings } from './standings.ts'

/** One fault of a request, named for the client. `field` as in the body: `to[1]`, `metadata.order`. */
export interface Fault {
  field: string
  code: string
  message: string
}

/** An error body as it is described, where one stands inside an answer. */
export const ProblemBody = Type.Object({
  error: Type.String(),
  code: Type.Optional(Type.String()),
  details: Type.Optional(
    Type.Array(Type.Object({ field: Type.String(), code: Type.String(), message: Type.String() }))
  ),
  email_id: Type.Optional(
    Type.String({ description: 'Of `idempotency_mismatch`: the email that the Idempotency-Key stands for.' })
  ),
  email_ids: Type.Optional(
    Type.Array(Type.String(), { description: 'The same, where it stands for a batch of several.' })
  ),
  recipients: Type.Optional({
    ...Standings,
    description: 'Of a change that could be made to none of them: how the recipients stand.'
  })
})

/** Named at once, but not without end. */
export const FAULTS_MAX = 1000

/** An answer that is not a success, thrown from anywhere under /api and answered by the one error handler. */
export class Problem extends Error {
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
export const unauthorized = () => new Problem(401, { error: 'Unauthorized' })
export const forbidden = () => new Problem(403, { error: 'Insufficient API key permissions' })
export const rateLimited = (retryAfterS: number) =>
  new Problem(429, { error: 'Rate limit exceeded', retryAfter: retryAfterS }, { 'retry-after': String(retryAfterS) })

/** The rest, which the spec leaves open: always a string `error`, with a `code` where a program may want to tell. */
export const notFound = () => new Problem(404, { error: 'Not found' })
export const gone = () => new Problem(404, { error: 'Not found', code: 'content_expired' })
export const methodNotAllowed = (allow: string[]) =>
  new Problem(405, { error: 'Method not allowed', code: 'method_not_allowed' }, { allow: allow.join(', ') })
export const conflict = (code: string, message: string, more: Record<string, unknown> = {}) =>
  new Problem(409, { error: message, code, ...more })
export const invalid = (details: Fault[]) =>
  new Problem(422, { error: 'Validation failed', code: 'validation_failed', details: details.slice(0, FAULTS_MAX) })
export const malformedJson = () => new Problem(400, { error: 'The body is not valid JSON', code: 'malformed_json' })
export const unsupportedMediaType = () =>
  new Problem(415, {
    error: 'The body must be application/json, in UTF-8 and as it is',
    code: 'unsupported_media_type'
  })
export const tooDeep = () => new Problem(400, { error: 'The body is nested too deeply', code: 'malformed_json' })
export const malformedUrl = () => new Problem(400, { error: 'The URL is malformed', code: 'malformed_request' })
export const missingHost = () =>
  new Problem(400, { error: 'The request has no Host header', code: 'malformed_request' })
export const unavailable = (code: string, message: string, retryAfterS = 2) =>
  new Problem(503, { error: message, code }, { 'retry-after': String(retryAfterS) })

/** Fastify's own refusals, by its error code. */
const FASTIFY: Record<string, () => Problem> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => unsupportedMediaType(),
  FST_ERR_CTP_BODY_TOO_LARGE: () =>
    new Problem(413, { error: 'The request body is larger than 20 MB', code: 'body_too_large' }),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new Problem(400, { error: 'The body is not as long as Content-Length says', code: 'malformed_request' }),
  FST_ERR_CTP_EMPTY_JSON_BODY: () => malformedJson(),
  FST_ERR_CTP_INVALID_JSON_BODY: () => malformedJson()
}

/** What was thrown, as a Problem; null when we did not foresee it. */
export function asProblem (error: unknown): Problem | null {
  if (error instanceof Problem) return error
  const { code, statusCode } = error as { code?: string, statusCode?: number }
  const known = FASTIFY[code ?? '']
  if (known !== undefined) return known()
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new Problem(statusCode, { error: 'The request is malformed', code: 'malformed_request' })
  }
  return null
}

export function answer (reply: FastifyReply, problem: Problem): FastifyReply {
  return reply.code(problem.status).headers(problem.headers).type('application/json; charset=utf-8').send(problem.body)
}
