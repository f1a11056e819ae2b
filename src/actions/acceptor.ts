import type { Principal } from '#streams/directory.ts'
import type { RequestClaimed } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { sleep } from '#src/base/backoff.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { Conflict, isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import { getFact } from '#src/nats/get.ts'
import { untilAnswered } from '#src/nats/retry-on-disconnect.ts'
import { AcceptanceUnknown, acceptEmails, type IdempotencyKey, type PreparedEmail, type SendAnswer } from './email.ts'
import type { DailyQuota } from './quota.ts'
import type { Services } from './services.ts'

/** What an Idempotency-Key may be, besides its length. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/
/** The claim that won a race may not be readable at once on every replica. */
const READS_MAX = 20
const READ_GAP_MS = 100

/** An Idempotency-Key that came with a request, and the request that claimed it before; null = none has. */
export interface IdempotencyClaim {
  key: IdempotencyKey
  earlier: RequestClaimed['data'] | null
}

/** A key was claimed with another body. */
export class IdempotencyMismatch extends Error {
  override name = 'IdempotencyMismatch'
  /** What was accepted under it. */
  readonly emails: string[]
  constructor ({ emails }: RequestClaimed['data']) {
    super('Idempotency-Key must come with the body that it was first used with.')
    this.emails = emails
  }
}

/** Another request won the key, and what it was told cannot be read yet. */
export class IdempotencyBusy extends Error {
  override name = 'IdempotencyBusy'
  constructor () {
    super('Another request with this Idempotency-Key is being accepted: try again.')
  }
}

/** Who sends, in which request. */
export interface SendingRequest {
  principal: Pick<Principal, 'account' | 'test'>
  correlation: string
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

  /** Runs `accept` with the claim of a request's Idempotency-Key, null without one; `body` = what is the same when the
   *  request is said again. Requests with the same key run one after the other in this process. */
  async underKey<T> (
    { account, test }: SendingRequest['principal'],
    given: { text: string, body: string } | null,
    accept: (claim: IdempotencyClaim | null) => Promise<T>
  ): Promise<T> {
    if (given === null) return await accept(null)
    // What was tried with a test key is not done: the same under a live key is another request.
    const key = { hash: sha256Hex(test ? `test ${given.text}` : given.text), bodyHash: sha256Hex(given.body) }
    return await this.alone(
      `${account} ${key.hash}`,
      async () => await accept({ key, earlier: await this.find(account, key.hash) })
    )
  }

  /** Appends the emails, with the claim where there is one. Resolves to the request that was quicker with the same
   *  claim, null when this one is accepted. Throws IdempotencyMismatch when the key was claimed with another body,
   *  QuotaExceeded, IdempotencyBusy, AcceptanceUnknown and LogUnavailable. */
  async accept (
    { principal, correlation }: SendingRequest,
    claim: IdempotencyClaim | null,
    { emails, answer }: { emails: PreparedEmail[], answer: SendAnswer }
  ): Promise<RequestClaimed['data'] | null> {
    const { account } = principal
    // Not before the emails are prepared: another refusal says more.
    if (claim !== null && claim.earlier !== null) throw new IdempotencyMismatch(claim.earlier)
    const giveBack = await this.quota.take(principal, emails)
    try {
      const kept = claim === null ? null : { key: claim.key, answer }
      await acceptEmails(this.services, { account, correlation }, emails, kept)
      return null
    } catch (error) {
      if (!(error instanceof AcceptanceUnknown)) giveBack()
      if (claim === null || !(error instanceof Conflict)) throw error
      const earlier = await this.findWinner(account, claim.key.hash)
      if (!isRepeat({ ...claim, earlier })) throw new IdempotencyMismatch(earlier)
      return earlier
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
    throw new IdempotencyBusy()
  }
}

/** The first one's refusal says nothing about the second. When the log does not answer, the second need not wait for
 *  that once more. */
function unlessLogUnavailable (error: unknown): void {
  if (error instanceof LogUnavailable || isUnanswered(error)) throw error
}

/** True when the same request was accepted before: `earlier` has its answer. */
export function isRepeat (
  claim: IdempotencyClaim | null
): claim is IdempotencyClaim & { earlier: RequestClaimed['data'] } {
  return claim !== null && claim.earlier !== null && claim.earlier.bodyHash === claim.key.bodyHash
}
