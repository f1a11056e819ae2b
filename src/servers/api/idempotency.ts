import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RequestClaimed } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import {
  AcceptanceUnknown,
  acceptEmails,
  type IdempotencyKey,
  type PreparedEmail,
  type SendAnswer
} from '#src/actions/email.ts'
import type { Services } from '#src/actions/services.ts'
import { sleep } from '#src/base/backoff.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { Conflict, isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import { getFact } from '#src/nats/get.ts'
import { untilAnswered } from '#src/nats/retry-on-disconnect.ts'
import { conflict, idsOf, invalid, mustFault, unavailable } from './errors.ts'
import type { DailyQuota } from './quota.ts'

const HEADER = 'idempotency-key'
const KEY = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/
/** Of our own API; another dialect may allow more. */
const KEY_CHARS_MAX = 255
/** The claim that won a race may not be readable at once on every replica. */
const READS_MAX = 20
const READ_GAP_MS = 100

/** An Idempotency-Key that came with a request, and the request that claimed it before; null = none has. */
export interface IdempotencyClaim {
  key: IdempotencyKey
  earlier: RequestClaimed['data'] | null
}

/** What is to be accepted, and the answer that says so. */
export interface Acceptance<Body> {
  emails: PreparedEmail[]
  answer: SendAnswer & { body: Body }
}

/** Accepts sending requests, each Idempotency-Key once; one for the process. A request with a key runs inside
 *  `underKey`: it finds the claim, answers from it, or prepares its emails and appends them with a claim of its own. */
export class Acceptor {
  private readonly services: Pick<Services, 'factLog'>
  private readonly quota: DailyQuota
  /** Requests with an Idempotency-Key, by account and key. */
  private readonly running = new Map<string, Promise<unknown>>()

  constructor (services: Pick<Services, 'factLog'>, quota: DailyQuota) {
    this.services = services
    this.quota = quota
  }

  /** Runs `accept` with the claim of the request's Idempotency-Key, null without one. Requests with the same key run
   *  one after the other in this process. Throws 422 for a malformed key. */
  async underKey<T> (request: FastifyRequest, accept: (claim: IdempotencyClaim | null) => Promise<T>): Promise<T> {
    const text = idempotencyKeyOf(request)
    if (text === null) return await accept(null)
    const { account, test } = request.principal!
    // What was tried with a test key is not done: the same under a live key is another request.
    const key = { hash: sha256Hex(test ? `test ${text}` : text), bodyHash: sha256Hex(canonical(request.body)) }
    return await this.alone(
      `${account} ${key.hash}`,
      async () => await accept({ key, earlier: await this.find(account, key.hash) })
    )
  }

  /** Appends the emails, with the claim where there is one, and answers. Throws 409 when the key was claimed with
   *  another body, 429 past the account's quota, and LogUnavailable. */
  async accept<Body> (
    request: FastifyRequest,
    reply: FastifyReply,
    claim: IdempotencyClaim | null,
    { emails, answer }: Acceptance<Body>
  ): Promise<Body> {
    // Not before the emails are prepared: a 403 or 422 says more.
    if (claim !== null && claim.earlier !== null) throw mismatch(claim.earlier)
    const giveBack = await this.quota.take(request.principal!, emails)
    try {
      const kept = claim === null ? null : { key: claim.key, answer }
      await acceptEmails(this.services, { account: request.principal!.account, correlation: request.id }, emails, kept)
      return give(reply, answer)
    } catch (error) {
      if (!(error instanceof AcceptanceUnknown)) giveBack()
      if (claim === null || !(error instanceof Conflict)) throw error
      const earlier = await this.findWinner(request.principal!.account, claim.key.hash)
      if (!isRepeat({ ...claim, earlier })) throw mismatch(earlier)
      return replay(reply, earlier)
    }
  }

  private async alone<T> (name: string, act: () => Promise<T>): Promise<T> {
    while (this.running.has(name)) await this.running.get(name)!.catch(unlessLogUnavailable)
    const acting = act()
    this.running.set(name, acting)
    try {
      return await acting
    } finally {
      this.running.delete(name)
    }
  }

  private async find (account: string, hash: string): Promise<RequestClaimed['data'] | null> {
    const { bus } = this.services.factLog
    const subject = subjects.claim(account, hash)
    const last = await untilAnswered(() => getFact(bus, 'REQUESTS', { last_by_subj: subject }))
    return last?.fact.type === 'request.claimed' ? last.fact.data : null
  }

  private async findWinner (account: string, hash: string): Promise<RequestClaimed['data']> {
    for (let reads = 0; reads < READS_MAX; reads++) {
      const winner = await this.find(account, hash)
      if (winner !== null) return winner
      await sleep(READ_GAP_MS)
    }
    throw unavailable('idempotency_busy', 'Another request with this Idempotency-Key is being accepted: try again.')
  }
}

/** The first one's refusal says nothing about the second. When the log does not answer, the second need not wait for
 *  that once more. */
function unlessLogUnavailable (error: unknown): void {
  if (error instanceof LogUnavailable || isUnanswered(error)) throw error
}

/** True when the same request was accepted before: `replay` has its answer. */
export function isRepeat (
  claim: IdempotencyClaim | null
): claim is IdempotencyClaim & { earlier: RequestClaimed['data'] } {
  return claim !== null && claim.earlier !== null && claim.earlier.bodyHash === claim.key.bodyHash
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

function mismatch ({ emails }: RequestClaimed['data']): Error {
  return conflict(
    'idempotency_mismatch',
    'Idempotency-Key must come with the body that it was first used with.',
    idsOf(emails)
  )
}

/** The key of a request, or null without one. Throws 422 for what is none: Node joins several headers into one. */
function idempotencyKeyOf ({ raw: { rawHeaders }, routeOptions: { config } }: FastifyRequest): string | null {
  const given = rawHeaders.filter((_text, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === HEADER)
  if (given.length === 0) return null
  const { keyCharsMax: max = KEY_CHARS_MAX } = config
  if (given.length === 1 && given[0]!.length <= max && KEY.test(given[0]!)) return given[0]!
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
