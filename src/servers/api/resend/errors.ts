import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FieldFault } from '#streams/define.ts'
import { answer, Forbidden, HttpProblem, labelOf } from '../errors.ts'
import { pathOf } from '../target.ts'

/** An error as Resend's clients read it. Source: resend.com/docs, "Errors". */
interface ResendError {
  statusCode: number
  name: string
  message: string
}

/** Faults told in one sentence each. */
const FAULTS_MAX = 10

export function answerInResend (request: FastifyRequest, reply: FastifyReply, problem: HttpProblem): FastifyReply {
  const { 'www-authenticate': _ours, ...headers } = problem.headers
  const error = resendErrorOf(problem, request.headers.authorization !== undefined)
  if (request.is404 && error.statusCode === 404) error.message = absenceOf(request)
  return answer(reply, new HttpProblem(error.statusCode, { ...error }, headers))
}

const PATH_CHARS_MAX = 100

/** Resend has more than Jetpost. */
function absenceOf ({ method, url }: FastifyRequest): string {
  return `Jetpost has no ${method} ${pathOf(url).slice(0, PATH_CHARS_MAX)}.`
}

/** `withKey`: the request named a key, whatever it is worth. */
export function resendErrorOf (problem: HttpProblem, withKey = true): ResendError {
  const { status: statusCode, body } = problem
  const message = String(body.error)
  switch (statusCode) {
    case 401:
      return withKey
        ? { statusCode: 403, name: 'invalid_api_key', message: 'API key is invalid' }
        : { statusCode, name: 'missing_api_key', message: 'Missing API key: send Authorization: Bearer and the key' }
    case 403:
      return forbiddenOf(problem)
    case 404:
      return { statusCode, name: 'not_found', message }
    case 405:
      return { statusCode, name: 'method_not_allowed', message }
    case 409:
      return conflictOf(String(body.code), message)
    case 422:
      return invalidOf((body.details ?? []) as FieldFault[])
    case 429:
      return { statusCode, name: body.code === undefined ? 'rate_limit_exceeded' : 'daily_quota_exceeded', message }
    case 500:
      return { statusCode, name: 'internal_server_error', message: `${message}: request ${body.request_id}` }
    case 503:
      return unavailableOf(String(body.code), message)
    default:
      return { statusCode, name: 'validation_error', message }
  }
}

/** A key that only sends is `restricted`; all else that is refused is about what it asks for. */
function forbiddenOf (problem: HttpProblem): ResendError {
  if (!(problem instanceof Forbidden)) {
    return { statusCode: 403, name: 'validation_error', message: String(problem.body.error) }
  }
  return problem.scope === null
    ? { statusCode: 403, name: 'validation_error', message: problem.why }
    : { statusCode: 401, name: 'restricted_api_key', message: `This API key is restricted. ${problem.why}` }
}

function conflictOf (code: string, message: string): ResendError {
  if (code === 'idempotency_mismatch') return { statusCode: 409, name: 'invalid_idempotent_request', message }
  return { statusCode: code === 'conflict' ? 409 : 422, name: 'validation_error', message }
}

function unavailableOf (code: string, message: string): ResendError {
  return code === 'idempotency_busy'
    ? { statusCode: 409, name: 'concurrent_idempotent_requests', message }
    : { statusCode: 503, name: 'application_error', message }
}

function invalidOf (faults: readonly FieldFault[]): ResendError {
  const message = messageOf(faults)
  const key = faults.some(({ field }) => field === 'Idempotency-Key')
  return key
    ? { statusCode: 400, name: 'invalid_idempotency_key', message }
    : { statusCode: 422, name: nameOf(faults), message }
}

/** By the fault that a client would look at first. */
function nameOf (faults: readonly FieldFault[]): string {
  if (faults.some(({ code }) => code === 'required' || code === 'subject_required')) return 'missing_required_field'
  const [field = '', code] = faults.length === 0 ? [] : [faults[0]!.field, faults[0]!.code]
  if (field === 'from' && code === 'invalid_address') return 'invalid_from_address'
  if (field.startsWith('attachments')) return 'invalid_attachment'
  return /^(limit|after|before)$/.test(field) ? 'invalid_parameter' : 'validation_error'
}

function messageOf (faults: readonly FieldFault[]): string {
  const told = faults.slice(0, FAULTS_MAX).map(fault => inResend(whole(fault)))
  const rest = faults.length - told.length
  return told.join(' ') + (rest > 0 ? ` And ${rest} more.` : '')
}

/** A message names a field without the list that it stands in. */
function whole ({ field, message }: FieldFault): string {
  const label = labelOf(field)
  return message.startsWith(`${label} `) ? field + message.slice(label.length) : message
}

/** Our names of fields as Resend has them. */
function inResend (message: string): string {
  return message.replaceAll(/\btemplate_id\b/g, 'template').replaceAll(/\bvariables\b/g, 'template.variables')
    .replaceAll(/\bmetadata\b/g, 'tags')
}
