import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RequestClaimed } from '#streams/email/facts.ts'
import { IDEMPOTENCY_KEY, type Acceptor, type IdempotencyClaim } from '#src/actions/acceptor.ts'
import type { PreparedEmail, SendAnswer } from '#src/actions/email.ts'
import { invalid, mustFault } from './errors.ts'

const HEADER = 'idempotency-key'
/** Of our own API; another dialect may allow more. */
const KEY_CHARS_MAX = 255

/** What is to be accepted, and the answer that says so. */
export interface Acceptance<Body> {
  emails: PreparedEmail[]
  answer: SendAnswer & { body: Body }
}

/** Runs `accept` under the request's Idempotency-Key. Throws 422 for a malformed key. */
export async function underKeyOf<T> (
  acceptor: Acceptor,
  request: FastifyRequest,
  accept: (claim: IdempotencyClaim | null) => Promise<T>
): Promise<T> {
  const text = idempotencyKeyOf(request)
  const given = text === null ? null : { text, body: canonical(request.body) }
  return await acceptor.underKey(request.principal!, given, accept)
}

/** Accepts the emails, and answers. Throws what `accept` does. */
export async function acceptAndAnswer<Body> (
  acceptor: Acceptor,
  request: FastifyRequest,
  reply: FastifyReply,
  claim: IdempotencyClaim | null,
  acceptance: Acceptance<Body>
): Promise<Body> {
  const sending = { principal: request.principal!, correlation: request.id }
  const earlier = await acceptor.accept(sending, claim, acceptance)
  return earlier === null ? give(reply, acceptance.answer) : replay(reply, earlier)
}

/** The answer that the first request got. */
export function replay<Body> (reply: FastifyReply, { answer }: RequestClaimed['data']): Body {
  void reply.header('idempotency-replayed', 'true')
  return give(reply, answer)
}

/** A claim keeps the very answer that was given: its body is of the same shape. */
function give<Body> (reply: FastifyReply, { status, location, body }: SendAnswer): Body {
  if (location !== null) void reply.header('location', location)
  void reply.code(status)
  return body as Body
}

/** The key of a request, or null without one. Throws 422 for what is none: Node joins several headers into one. */
function idempotencyKeyOf ({ raw: { rawHeaders }, routeOptions: { config } }: FastifyRequest): string | null {
  const given = rawHeaders.filter((_text, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === HEADER)
  if (given.length === 0) return null
  const { keyCharsMax: max = KEY_CHARS_MAX } = config
  if (given.length === 1 && given[0]!.length <= max && IDEMPOTENCY_KEY.test(given[0]!)) return given[0]!
  const must = `be given once, with 1 to ${max} printable ASCII characters`
  throw invalid([mustFault('Idempotency-Key', 'invalid_value', must)])
}

/** JSON with the keys of every object in order. */
function canonical (value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner
    const sorted = Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))
    return Object.fromEntries(sorted)
  })
}
