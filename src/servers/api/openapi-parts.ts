import { STATUS_CODES } from 'node:http'
import { SUSPENSION_REASONS } from '#streams/account/facts.ts'
import { GAPS_S } from '#streams/delivery/decide.ts'

export type Json = Record<string, unknown>

/** `5 s`, `2 min`, `10 h`. */
function timeOf (s: number): string {
  return s < 60 ? `${s} s` : s < 3600 ? `${s / 60} min` : `${s / 3600} h`
}

const WEBHOOKS = `Endpoints that get the events of mail.

An event that is not answered with 2xx within 15 s is retried: after ${GAPS_S.map(timeOf).join(', ')}, later where
\`Retry-After\` says so, for up to 24 hours. The gaps hold while few of an endpoint's deliveries fail. An endpoint that
fails again and again is probed, one request at a time; what else waits for it is retried after about as long as it has
already waited, at most 30 min later, within the same 24 hours.`

/** The description of each tag of a route. */
export const TAGS: Record<string, string> = {
  Emails: 'Send mail, read what became of it, cancel or reschedule it.',
  Events: 'What happened to mail, in order: to read, or to follow as it happens.',
  Templates: 'Mustache templates with versions that never change.',
  Domains: 'The domains mail is sent from, and the DNS records they need.',
  Keys: 'API keys: what they may do, from which domains, until when.',
  Users: 'The people who sign in to the dashboard, and what they may do.',
  Accounts: 'The accounts of the installation, for its operators: their limits, quotas and first keys.',
  Routes: 'The relays and source addresses that outgoing mail goes by, for operators.',
  'Feedback sources': 'The relays that report bounces and complaints, for operators: each has a URL of its own.',
  Webhooks: WEBHOOKS,
  Suppressions: 'Addresses that get no more mail.',
  Erasures: 'Erasing a person from the log, and the receipts.',
  Audit: 'Who changed what, and from which address.',
  Stats: 'How much mail there was, and what became of it.'
}

export const INTRODUCTION = `Send mail over HTTP; get signed webhooks about what becomes of it.

**Keys.** Every request carries \`Authorization: Bearer <key>\`. Each operation names the scope it needs; the scope
\`full\` allows all. A key sees its own account only: what belongs to another is a 404.

**Limits.** Requests are counted for each key in fixed windows of one minute. Every response has the headers
\`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\`. The operator may have set higher limits
for a key than those given here.

**Errors** are JSON objects with a string \`error\`; many have a \`code\` for programs. A 422 names all faults at once
in \`details\`, each with what must be. Unknown fields and query parameters are faults. A wrong method is a 405, whose
\`Allow\` lists the right ones. A request that is not valid HTTP gets 400, 408 or 431, in the same form.

**Webhooks.** The requests that your endpoint gets are described under \`webhooks\`, one for each type of event, and one
for a batch of several. Ignore keys that you do not know: more may be added. The same events can be read and followed at
\`/api/events\`, oldest first.

**Lists** come newest first, a page at a time: pass \`next_cursor\` as \`cursor\` for the next page. **Times** are RFC
3339 in UTC. **Reads** show every write that was answered with 2xx before, or answer 503.`

/** What a body is that is not JSON. */
export const OTHER_BODIES: Record<string, Json> = {
  'message/rfc822': { type: 'string', format: 'binary' },
  'text/event-stream': { type: 'string' },
  'text/csv': { type: 'string' },
  'application/x-ndjson': { type: 'string' }
}

const header = (description: string, schema: Json, required = true): Json => ({ description, required, schema })

export const HEADERS: Record<string, Json> = {
  'X-RateLimit-Limit': header('Requests allowed in the window.', { type: 'integer', minimum: 1 }),
  'X-RateLimit-Remaining': header('Requests left in the window.', { type: 'integer', minimum: 0 }),
  'X-RateLimit-Reset': header('When the window resets, in Unix seconds.', { type: 'integer', minimum: 0 }),
  'X-Request-Id': header('Names the request in the log: the one sent with it, when valid, or a new one.', {
    type: 'string',
    pattern: '^[A-Za-z0-9._-]{8,100}$'
  }),
  Link: header('Leads to the documentation of the operation, with `rel="help"`.', { type: 'string' }),
  'Retry-After': header('Seconds to wait before the next try.', { type: 'integer', minimum: 1 }),
  Location: header('Path of the new resource.', { type: 'string', format: 'uri-reference' }),
  'Idempotency-Replayed': header(
    '`true` when this is the answer to an earlier request with the same Idempotency-Key.',
    {
      type: 'string',
      const: 'true'
    },
    false
  )
}
/** Of every error. */
const HELP = 'Link'
const EVERYWHERE = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'X-Request-Id']

export const ref = (kind: string, name: string): Json => ({ $ref: `#/components/${kind}/${name}` })

/** The headers of every response, and those named. */
export function headersOf (...more: string[]): Json {
  return Object.fromEntries([...EVERYWHERE, ...more].map(name => [name, ref('headers', name)]))
}

const exactly = (properties: Record<string, Json>): Json => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false
})

/** The bodies that are the spec's, to the letter (section 7). All other errors are a Problem. */
export const ERROR_SCHEMAS: Record<string, Json> = {
  Unauthorized: exactly({ error: { type: 'string', const: 'Unauthorized' } }),
  Forbidden: exactly({ error: { type: 'string', const: 'Insufficient API key permissions' } }),
  AccountSuspended: exactly({
    error: { type: 'string' },
    code: { type: 'string', const: 'account_suspended' },
    reason: { type: 'string', enum: [...SUSPENSION_REASONS] }
  }),
  RateLimited: exactly({
    error: { type: 'string', const: 'Rate limit exceeded' },
    retryAfter: { type: 'integer', minimum: 1, description: 'Seconds until the window resets.' }
  }),
  QuotaExceeded: exactly({
    error: { type: 'string' },
    code: { type: 'string', const: 'quota_exceeded' },
    retryAfter: { type: 'integer', minimum: 1, description: 'Seconds until the day (UTC) is over.' }
  })
}

const ERRORS: Record<
  number,
  { name: string, schema?: string, description: string, example: Json, headers?: string[] }
> = {
  400: {
    name: 'BadRequest',
    description: 'The body is not valid JSON, or has the name `__proto__`; or the request is not valid HTTP.',
    example: { error: 'The body must be valid JSON.', code: 'malformed_json' }
  },
  401: {
    name: 'Unauthorized',
    schema: 'Unauthorized',
    description: 'The key is missing, unknown, malformed, revoked or expired.',
    example: { error: 'Unauthorized' }
  },
  403: {
    name: 'Forbidden',
    schema: 'Forbidden',
    description: 'The scope of the key lacks the action, or the domain is not linked to it.',
    example: { error: 'Insufficient API key permissions' }
  },
  404: { name: 'NotFound', description: 'This account has no such resource.', example: { error: 'Not found' } },
  409: {
    name: 'Conflict',
    description: 'Conflicts with the current state; `code` says how.',
    example: { error: 'Other templates use this one as their layout.', code: 'template_in_use' }
  },
  413: {
    name: 'PayloadTooLarge',
    description: 'The body is larger than 4 MB; where it may hold attachments or a file, than 20 MB.',
    example: { error: 'The body must be at most 20 MB.', code: 'body_too_large' }
  },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is not JSON, compressed, or in another charset.',
    example: {
      error: 'The Content-Type of the body must be application/json.',
      code: 'unsupported_media_type'
    }
  },
  422: {
    name: 'ValidationFailed',
    description: 'The request is not valid; `details` names every fault.',
    example: {
      error: 'Validation failed',
      code: 'validation_failed',
      details: [{ field: 'to', code: 'invalid_address', message: 'to must be an email address.' }]
    }
  },
  429: {
    name: 'RateLimited',
    schema: 'RateLimited',
    description: 'The window is used up.',
    example: { error: 'Rate limit exceeded', retryAfter: 17 },
    headers: ['Retry-After']
  },
  500: {
    name: 'InternalError',
    description: 'An error of the server; its log has the `request_id`.',
    example: { error: 'Internal server error', code: 'internal' }
  },
  503: {
    name: 'Unavailable',
    description: 'The log or a projection is unavailable or behind, or there are too many streams.',
    example: { error: 'The log is unavailable: try again.', code: 'log_unavailable' },
    headers: ['Retry-After']
  }
}

/** Where new mail is taken, a status may say more: one of two. */
const SEND_ERRORS: Record<number, { name: string, schemas: string[], description: string }> = {
  403: {
    name: 'SendForbidden',
    schemas: ['Forbidden', 'AccountSuspended'],
    description: 'The scope of the key lacks the action, the domain is not linked to it, or the account is suspended.'
  },
  429: {
    name: 'SendLimited',
    schemas: ['RateLimited', 'QuotaExceeded'],
    description: "The window, or the account's quota of the day, is used up."
  }
}

const ERROR_RESPONSES_OF_ALL: Record<string, Json> = Object.fromEntries(
  Object.values(ERRORS).map((
    { name, schema = 'Problem', description, example, headers = [] }
  ) => [name, {
    description,
    headers: headersOf(HELP, ...headers),
    content: { 'application/json': { schema: ref('schemas', schema), example } }
  }])
)

const SEND_ERROR_RESPONSES: Record<string, Json> = Object.fromEntries(
  Object.entries(SEND_ERRORS).map(([status, { name, schemas, description }]) => {
    const { example, headers = [] } = ERRORS[Number(status)]!
    const schema = { oneOf: schemas.map(name => ref('schemas', name)) }
    return [name, {
      description,
      headers: headersOf(HELP, ...headers),
      content: { 'application/json': { schema, example } }
    }]
  })
)

export const ERROR_RESPONSES: Record<string, Json> = { ...ERROR_RESPONSES_OF_ALL, ...SEND_ERROR_RESPONSES }

/** The response of an error status; `sends` = of a route that takes new mail. */
export function errorResponse (status: number, sends = false): Json {
  const known = (sends ? SEND_ERRORS[status] : undefined) ?? ERRORS[status]
  if (known !== undefined) return ref('responses', known.name)
  return {
    description: STATUS_CODES[status],
    headers: headersOf(HELP),
    content: { 'application/json': { schema: ref('schemas', 'Problem') } }
  }
}
