import { parseAddress } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import type { DomainEntry, KeyEntry } from '#streams/directory.ts'
import type { SendDefaults } from '#streams/email/defaults.ts'
import type { RequestClaimed } from '#streams/email/facts.ts'
import { isLive, mayDo } from '#streams/key/decide.ts'
import { foldAddress } from '#streams/suppression/decide.ts'
import { Acceptor, isRepeat, type IdempotencyClaim } from '#src/actions/acceptor.ts'
import { prepareEmail, type EmailDraft, type PreparedEmail, type SendContext } from '#src/actions/email.ts'
import { createKeyFinder, type KeyFinder } from '#src/actions/key-finder.ts'
import { createLimiter, type Limiter } from '#src/actions/limiter.ts'
import { DailyQuota } from '#src/actions/quota.ts'
import { sendingDomains } from '#src/actions/sending-domain.ts'
import type { Services } from '#src/actions/services.ts'
import { newId } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { startSpan, traceparentOf } from '#src/base/tracing.ts'
import { newRenderBudget } from '#src/content/mustache.ts'
import type { Counters, Quotas } from '#src/nats/counters.ts'
import { readSubmission, type ReadSubmission } from './draft.ts'
import {
  BARE_LINE_END,
  errorReply,
  KEY_ENDED,
  LACKS_SCOPE,
  NOT_A_KEY,
  NOT_A_RECIPIENT,
  notAllowed,
  NOT_AN_ADDRESS,
  rateLimited,
  refusalReply,
  SmtpRefusal
} from './replies.ts'

export interface SubmitterOptions {
  services: Services
  counters: Counters
  quotas: Quotas
  /** A mail with the Message-ID, body and recipients of one that was accepted is that one. */
  once: boolean
  log: Log
}

/** One mail as it arrived. */
export interface ArrivedMail {
  raw: Buffer
  /** The addresses of its RCPT commands. */
  recipients: string[]
}

const CR = 0x0d
const LF = 0x0a

/** Servers do not agree where a line ends, or a mail: what one of them takes for the end of a message hides a second
 *  one from the other. */
function hasBareLineEnd (raw: Buffer): boolean {
  for (let at = raw.indexOf(LF); at !== -1; at = raw.indexOf(LF, at + 1)) if (raw[at - 1] !== CR) return true
  for (let at = raw.indexOf(CR); at !== -1; at = raw.indexOf(CR, at + 1)) if (raw[at + 1] !== LF) return true
  return false
}

/** What the listener asks on the way from AUTH to the final dot: the same keys, limits, domains and facts as the
 *  API's. */
export class Submitter {
  private readonly options: SubmitterOptions
  private readonly findKey: KeyFinder
  private readonly limiter: Limiter
  private readonly acceptor: Acceptor

  constructor (options: SubmitterOptions) {
    const { services, counters, quotas } = options
    const { directory, factLog: { clock } } = services
    this.options = options
    this.findKey = createKeyFinder(directory, clock)
    this.limiter = createLimiter(counters, directory, clock)
    this.acceptor = new Acceptor(services, new DailyQuota(quotas, directory, clock))
  }

  /** The id of the key whose secret this is. Throws a SmtpRefusal. */
  async logIn (password: string, address: string): Promise<string> {
    const key = await this.findKey(password, address)
    if (key === null) throw NOT_A_KEY
    if (!mayDo(key, 'emails:send')) throw LACKS_SCOPE
    this.options.services.keyUses.note(key, this.nowMs())
    return key.id
  }

  /** At MAIL: the key may send, its window has room, and the sender is on a domain of the key's. Throws a
   *  SmtpRefusal. */
  async begin (keyId: string, sender: string): Promise<void> {
    const key = this.keyOf(keyId)
    const { services } = this.options
    services.keyUses.note(key, this.nowMs())
    const suspended = services.directory.now.accounts.get(key.account)?.suspended ?? null
    if (suspended !== null) {
      throw notAllowed(
        `The account is suspended (${suspended.reason}): it sends nothing until the operator resumes it`
      )
    }
    const { retryAfterS } = await this.limiter.count(key, 'emails:send')
    if (retryAfterS !== null) throw rateLimited(retryAfterS)
    // Bounces come to us in any case: without a sender it is the From field that tells.
    if (sender === '') return
    const address = parseAddress(sender)
    if (address === null) throw new SmtpRefusal(501, NOT_AN_ADDRESS)
    await this.domainOf(key, address)
  }

  /** At RCPT: the address, normalised. Throws a SmtpRefusal. */
  recipient (text: string): string {
    const address = parseAddress(text)
    if (address === null) throw new SmtpRefusal(501, NOT_A_RECIPIENT)
    return address
  }

  /** Whose mail it is; of a key that has ended, and whose mail will be refused, the key. */
  accountOf (keyId: string): string {
    return this.options.services.directory.now.keys.get(keyId)?.account ?? keyId
  }

  /** At the final dot: resolves to the answer, once the log has the mail. Throws a SmtpRefusal. */
  async accept (keyId: string, { raw, recipients }: ArrivedMail): Promise<string> {
    const correlation = newId('req', this.nowMs())
    try {
      if (hasBareLineEnd(raw)) throw BARE_LINE_END
      const key = this.keyOf(keyId)
      const unique = [...new Map(recipients.map(address => [foldAddress(address), address])).values()]
      const read = await readSubmission({ raw, recipients: unique })
      const domain = await this.domainOf(key, read.from.address)
      if (read.sender !== null) await this.domainOf(key, read.sender)
      const claim = this.claimOf(read, raw, unique)
      return await this.acceptor.underKey(
        key,
        claim,
        async claim =>
          isRepeat(claim) ? answerOf(claim.earlier) : await this.append(key, correlation, claim, read, domain)
      )
    } catch (error) {
      throw errorReply(error, this.options.log, correlation)
    }
  }

  private async append (
    key: KeyEntry,
    correlation: string,
    claim: IdempotencyClaim | null,
    { drafts }: ReadSubmission,
    domain: DomainEntry | 'sandbox'
  ): Promise<string> {
    const attributes = { 'jetpost.request': correlation }
    const span = startSpan({ name: 'SMTP submission', kind: 'server', parent: undefined, attributes })
    const context = { principal: key, correlation, trace: traceparentOf(span), budget: newRenderBudget() }
    try {
      return await this.appendAll(context, key, claim, drafts, domain)
    } finally {
      span.end()
    }
  }

  private async appendAll (
    context: SendContext,
    key: KeyEntry,
    claim: IdempotencyClaim | null,
    drafts: EmailDraft[],
    domain: DomainEntry | 'sandbox'
  ): Promise<string> {
    const emails: PreparedEmail[] = []
    for (const draft of drafts) {
      const prepared = await prepareEmail(this.options.services, context, withDefaults(draft, key.defaults), domain)
      if (prepared instanceof Refusal) throw refusalReply(prepared)
      emails.push(prepared)
    }
    const answer = { status: 250, location: null, body: textOf(emails) }
    const asker = { principal: key, correlation: context.correlation }
    const earlier = await this.acceptor.accept(asker, claim, { emails, answer })
    return earlier === null ? answer.body : answerOf(earlier)
  }

  private claimOf (
    { idempotencyKey: text, messageId, essence }: ReadSubmission,
    raw: Buffer,
    recipients: string[]
  ): { text: string, body: string } | null {
    if (text !== null) return { text, body: essence() }
    if (!this.options.once || messageId === null) return null
    const body = sha256Hex(raw.subarray(raw.indexOf('\r\n\r\n') + 1).toString('latin1'))
    return { text: JSON.stringify(['smtp', messageId, body, [...recipients].sort()]), body }
  }

  private keyOf (id: string): KeyEntry {
    const key = this.options.services.directory.now.keys.get(id)
    if (key === undefined || !isLive(key, this.nowMs())) throw KEY_ENDED
    if (!mayDo(key, 'emails:send')) throw LACKS_SCOPE
    return key
  }

  private async domainOf (key: KeyEntry, address: string): Promise<DomainEntry | 'sandbox'> {
    const [domain] = await sendingDomains(this.options.services, key, [address])
    if (domain instanceof Refusal) throw refusalReply(domain)
    return domain!
  }

  private nowMs (): number {
    return this.options.services.factLog.clock.nowMs()
  }
}

/** Mail that says nothing is not tracked at this door, unless its key says so: apps send login links by it. */
function withDefaults (draft: EmailDraft, { opens, clicks, unsubscribe }: SendDefaults): EmailDraft {
  const options = {
    opens: opens ?? false,
    clicks: clicks ?? false,
    unsubscribe: unsubscribe ?? false,
    ...draft.options
  }
  return { ...draft, options }
}

function textOf (emails: PreparedEmail[]): string {
  const status = emails.every(({ status }) => status === emails[0]!.status) ? emails[0]!.status : 'queued'
  return `2.0.0 ${status} as ${emails.map(({ email }) => email).join(' ')}`
}

/** What the first one was told: by this door, or by the API under the same Idempotency-Key. */
function answerOf ({ emails }: RequestClaimed['data']): string {
  return `2.0.0 queued as ${emails.join(' ')}, accepted before`
}
