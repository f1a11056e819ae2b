import { STATUS_CODES } from 'node:http'
import { GAPS_S } from '#streams/delivery/decide.ts'

export type Json = Record<string, unknown>

/** `5 s`, `2 min`, `10 h`. */
function timeOf (s: number): string {
  return s < 60 ? `${s} s` : s < 3600 ? `${s / 60} min` : `${s / 3600} h`
}

const WEBHOOKS = `Endpoints that are told what happens to mail.

An event that is not answered with 2xx within 15 s is tried again: after ${
  GAPS_S.map(timeOf).join(', ')
}, later where \`Retry-After\` says so, and no more
once 24 hours are over. The gaps hold while few of an endpoint's deliveries fail. An endpoint that fails again and again is probed, one request at a time; what else
waits for it comes back after about as long as it has already waited, at most 30 min later, and its 24 hours stay what they are.`

/** What each tag is about; a route's tag stands here. */
export const TAGS: Record<string, string> = {
  Emails: 'Send mail, look at what became of it, change your mind before it goes.',
  Events: 'What happened to mail, in order: to read, or to follow as it happens.',
  Templates: 'Mustache templates with versions that never change.',
  Domains: 'The domains mail is sent from, and the DNS records they need.',
  Keys: 'API keys: what they may do, from which domains, until when.',
  Webhooks: WEBHOOKS,
  Suppressions: 'Addresses that get no more mail.',
  Erasures: 'People who are to be forgotten, and the receipts.',
  Stats: 'How much mail there was, and what became of it.'
}

export const INTRODUCTION = `Send mail over HTTP; hear by signed webhooks what becomes of it.

**Keys.** Every request carries \`Authorization: Bearer <key>\`. An operation names the scope it asks for; the scope \`full\` opens all.
A key sees its own account only: what belongs to another is a 404.

**Limits.** Requests are counted for each key in fixed windows of one minute. Every response says where you stand: \`X-RateLimit-Limit\`,
\`X-RateLimit-Remaining\`, \`X-RateLimit-Reset\`. The operator may have set higher limits for a key than the ones given here.

**Errors** are JSON objects with a string \`error\`; many have a \`code\` for programs. A 422 names all faults at once in \`details\`.
Unknown fields are faults, and so are unknown parameters of a list. Another method on a path is a 405 whose \`Allow\` names the ones there are.
What is no HTTP gets 400, 408 or 431, in the same form.

**Webhooks.** What your endpoint gets is described under \`webhooks\`, one for each type of event, and one for several in a batch. Keys may be added to their
bodies: take no offence at those. The same events can be read and followed at \`/api/events\`, oldest first.

**Lists** come newest first, a page at a time: pass \`next_cursor\` as \`cursor\` for the next one. **Times** are RFC 3339 in UTC.
**Reads** show every write that was answered with 2xx before, or answer 503.`

const header = (description: string, schema: Json, required = true): Json => ({ description, required, schema })

export const HEADERS: Record<string, Json> = {
  'X-RateLimit-Limit': header('Requests allowed in the window.', { type: 'integer', minimum: 1 }),
  'X-RateLimit-Remaining': header('Requests left in the window.', { type: 'integer', minimum: 0 }),
  'X-RateLimit-Reset': header('When the window resets, in Unix seconds.', { type: 'integer', minimum: 0 }),
  'X-Request-Id': header('Names the request in the log: the one it came with, when it looks like one, or a new one.', {
    type: 'string',
    pattern: '^[A-Za-z0-9._-]{8,100}$'
  }),
  'Retry-After': header('Seconds to wait before the next try.', { type: 'integer', minimum: 1 }),
  Location: header('Path of what was made.', { type: 'string', format: 'uri-reference' }),
  'Idempotency-Replayed': header('`true` when this is the first answer to the same request again.', {
    type: 'string',
    const: 'true'
  }, false)
}
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
  RateLimited: exactly({
    error: { type: 'string', const: 'Rate limit exceeded' },
    retryAfter: { type: 'integer', minimum: 1, description: 'Seconds until the window resets.' }
  })
}

const ERRORS: Record<
  number,
  { name: string, schema?: string, description: string, example: Json, headers?: string[] }
> = {
  400: {
    name: 'BadRequest',
    description: 'The body is not valid JSON, or has the name `__proto__`; or the request is no proper HTTP.',
    example: { error: 'The body is not valid JSON', code: 'malformed_json' }
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
  404: { name: 'NotFound', description: 'This account has none of that name.', example: { error: 'Not found' } },
  409: {
    name: 'Conflict',
    description: 'The state of things does not allow it; `code` says which.',
    example: { error: 'The name is taken', code: 'conflict' }
  },
  413: {
    name: 'PayloadTooLarge',
    description: 'The body is larger than 20 MB.',
    example: { error: 'The request body is larger than 20 MB', code: 'body_too_large' }
  },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is not JSON, compressed, or in another charset.',
    example: { error: 'The body must be application/json, in UTF-8 and as it is', code: 'unsupported_media_type' }
  },
  422: {
    name: 'ValidationFailed',
    description: 'The request is readable and cannot be done as it is; `details` names every fault.',
    example: {
      error: 'Validation failed',
      code: 'validation_failed',
      details: [{ field: 'to', code: 'invalid_address', message: 'to is not a mail address.' }]
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
    description: 'Our fault; the log knows more.',
    example: { error: 'Internal server error', code: 'internal' }
  },
  503: {
    name: 'Unavailable',
    description: 'The log or a view of it does not answer in time, or there are too many streams.',
    example: { error: 'The log cannot take this now', code: 'log_unavailable' },
    headers: ['Retry-After']
  }
}

export const ERROR_RESPONSES: Record<string, Json> = Object.fromEntries(
  Object.values(ERRORS).map((
    { name, schema = 'Problem', description, example, headers = [] }
  ) => [name, {
    description,
    headers: headersOf(...headers),
    content: { 'application/json': { schema: ref('schemas', schema), example } }
  }])
)

/** The response of an error status. */
export function errorResponse (status: number): Json {
  const known = ERRORS[status]
  if (known !== undefined) return ref('responses', known.name)
  return {
    description: STATUS_CODES[status],
    headers: headersOf(),
    content: { 'application/json': { schema: ref('schemas', 'Problem') } }
  }
}
