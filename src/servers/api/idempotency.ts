import type { FastifyReply, FastifyRequest } from 'fastify'
import { subjects } from '#streams/subjects.ts'
import { acceptEmails, type Answer, type Idempotency, type Prepared } from '#src/actions/email.ts'
import type { RequestClaimed } from '#streams/email/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { sleep } from '#src/base/backoff.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { Conflict, isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import { getFact } from '#src/nats/get.ts'
import { conflict, forbidden, invalid, unavailable } from './errors.ts'

const HEADER = 'idempotency-key'
const KEY = /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/
/** A claim that was refused for another one's sake may not be readable at once on every replica. */
const LOOKS = 20
const LOOK_MS = 100
const CATCH_UP_MS = 1000

/** What is to be accepted, and the answer that says so. */
export interface Acceptance<Body> {
  emails: Prepared[]
  answer: Answer & { body: Body }
}

/** A sending request: its body, and how to answer it. */
export interface Ask<Body> {
  body: unknown
  /** Whether the key may send from the domains in it, as far as this node knows. */
  isAllowed: () => boolean
  prepare: () => Promise<Acceptance<Body>>
}

/** Answers a sending request, and the same answer again to whoever repeats it under its Idempotency-Key. */
export interface Acceptor {
  /** 403 when the key may not ask this, also not again. `prepare` refuses by throwing, and is not asked when the answer
   *  is known. */
  accept<Body>(request: FastifyRequest, reply: FastifyReply, ask: Ask<Body>): Promise<Body>
}

/** One for the process: the same key twice in it waits for the first. */
export function createAcceptor (services: Services): Acceptor {
  const underWay = new Map<string, Promise<unknown>>()

  async function accept<Body> (
    request: FastifyRequest,
    reply: FastifyReply,
    { body, isAllowed, prepare }: Ask<Body>
  ): Promise<Body> {
    if (!isAllowed()) await refuseUnless(isAllowed)
    const text = idempotencyKeyOf(request)
    if (text === null) return await acceptNew(request, reply, await prepare(), null)
    const { account, test } = request.key!
    // What was tried with a test key is not done: the same under a live key is another request.
    const key = { hash: sha256Hex(test ? `test ${text}` : text), bodyHash: sha256Hex(canonical(body)) }
    return await alone(`${account} ${key.hash}`, () => acceptOnce(request, reply, key, prepare))
  }

  /** A domain may have been added on another node a moment ago. */
  async function refuseUnless (isAllowed: () => boolean): Promise<void> {
    await services.directory.catchUp(CATCH_UP_MS)
    if (!isAllowed()) throw forbidden()
  }

  async function acceptNew<Body> (
    request: FastifyRequest,
    reply: FastifyReply,
    { emails, answer }: Acceptance<Body>,
    key: Idempotency | null
  ): Promise<Body> {
    const asker = { account: request.key!.account, correlation: request.id }
    await acceptEmails(services, asker, emails, key === null ? null : { key, answer })
    return give(reply, answer)
  }

  async function acceptOnce<Body> (
    request: FastifyRequest,
    reply: FastifyReply,
    key: Idempotency,
    prepare: () => Promise<Acceptance<Body>>
  ): Promise<Body> {
    const { account } = request.key!
    const earlier = await findClaim(account, key.hash)
    if (earlier?.bodyHash === key.bodyHash) return replay(reply, earlier)
    // Another body is told of last: a 403 or 422 says more.
    const acceptance = await prepare()
    if (earlier !== null) throw mismatch(earlier)
    try {
      return await acceptNew(request, reply, acceptance, key)
    } catch (error) {
      if (!(error instanceof Conflict)) throw error
      const winner = await winnerOf(account, key.hash)
      if (winner.bodyHash === key.bodyHash) return replay(reply, winner)
      throw mismatch(winner)
    }
  }

  async function alone<T> (name: string, act: () => Promise<T>): Promise<T> {
    while (underWay.has(name)) await underWay.get(name)!.catch(unlessItWasTheLog)
    const acting = act()
    underWay.set(name, acting)
    try {
      return await acting
    } finally {
      underWay.delete(name)
    }
  }

  async function findClaim (account: string, hash: string): Promise<RequestClaimed['data'] | null> {
    const last = await getFact(services.appenders.bus, 'REQUESTS', { last_by_subj: subjects.claim(account, hash) })
    return last?.fact.type === 'request.claimed' ? last.fact.data : null
  }

  async function winnerOf (account: string, hash: string): Promise<RequestClaimed['data']> {
    for (let look = 0; look < LOOKS; look++) {
      const winner = await findClaim(account, hash)
      if (winner !== null) return winner
      await sleep(LOOK_MS)
    }
    throw unavailable(
      'log_unavailable',
      'Another request with this key is being accepted: its answer is not to be read yet'
    )
  }

  return { accept }
}

/** What the first was refused for says nothing about the second. When the log does not answer, the second need not wait
 *  for that once more. */
function unlessItWasTheLog (error: unknown): void {
  if (error instanceof LogUnavailable || isUnanswered(error)) throw error
}

/** A claim keeps the very answer that was given: its body is of the same shape. */
function give<Body> (reply: FastifyReply, { status, location, body }: Answer): Body {
  if (location !== null) void reply.header('location', location)
  void reply.code(status)
  return body as Body
}

function replay<Body> (reply: FastifyReply, { answer }: RequestClaimed['data']): Body {
  void reply.header('idempotency-replayed', 'true')
  return give(reply, answer)
}

function mismatch ({ emails }: RequestClaimed['data']): Error {
  return conflict(
    'idempotency_mismatch',
    'This Idempotency-Key was used with another body',
    emails.length === 1 ? { email_id: emails[0]! } : { email_ids: emails }
  )
}

/** The key of a request, or null without one. Throws 422 for what is none: Node joins several headers into one. */
export function idempotencyKeyOf ({ raw: { rawHeaders } }: FastifyRequest): string | null {
  const given = rawHeaders.filter((_text, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === HEADER)
  if (given.length === 0) return null
  if (given.length === 1 && KEY.test(given[0]!)) return given[0]!
  throw invalid([{
    field: 'Idempotency-Key',
    code: 'invalid_value',
    message: 'Idempotency-Key is given once, as 1 to 255 printable ASCII characters.'
  }])
}

/** JSON with the keys of every object in order. */
function canonical (value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner
    const sorted = Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))
    return Object.fromEntries(sorted)
  })
}
