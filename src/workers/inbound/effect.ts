import { domainToASCII } from 'node:url'
import type { Pointer, Tokens, TokenUse } from '#src/content/token.ts'
import { isStandIn } from '#src/feedback/addresses.ts'
import { parseReply, printable } from '#src/feedback/reply.ts'
import type { BounceReport, ReportedRecipient } from '#src/feedback/report.ts'
import { domainOf } from '#streams/address.ts'
import { isGone } from '#streams/email/classes.ts'
import type { RecipientCommand } from '#streams/email/decide.ts'
import type { Engagement } from '#streams/email/engagements.ts'
import { foldAddress } from '#streams/suppression/decide.ts'

/** A recipient that a mail is about. `unsubscribes` = the mail came to the address for unsubscribing. */
export interface NamedRecipient {
  pointer: Pointer
  unsubscribes: boolean
}

/** The bound on strings of each kind that are read: a returned message has one or two. */
const TEXTS_MAX = 20
const TOKEN = '([0-9a-z]{54})(?![0-9a-z])'
const RETURN_PATH = new RegExp(`(?:^|[^0-9a-z])b\\+${TOKEN}`, 'i')
const UNSUBSCRIBE = new RegExp(`(?:/u/|(?:^|[^0-9a-z])u(?:\\+|%2B))${TOKEN}`, 'i')
const BARE = new RegExp(`(?:^|[^0-9a-z])${TOKEN}`, 'i')

/** The local part of our Message-IDs, or all of one. */
const MESSAGE_ID = /^(em_[0-9a-z]{26})\.(\d{1,2})(?:@[^@]+)?$/i

type TokenReader = Pick<Tokens, 'read'>

/** The recipients a mail is about, by our tokens alone, since anybody can write a Message-ID or an address into a
 *  report. Its envelope's recipients count before anything in it: they name the message it answers. It returns one
 *  message, so the first token found in it is the only one. */
export function namedRecipients (
  to: readonly string[],
  evidence: BounceReport['evidence'],
  tokens: TokenReader
): NamedRecipient[] {
  const named = to.flatMap(address => namedBy(address, tokens) ?? [])
  if (named.length > 0) {
    const keyOf = ({ pointer: { email, n }, unsubscribes }: NamedRecipient) => `${email}.${n}.${unsubscribes}`
    return [...new Map(named.map(one => [keyOf(one), one])).values()]
  }
  const { returnPaths, feedbackIds, envelopeIds, unsubscribeUrls } = evidence
  const pointer = firstPointer(tokens, 'return', RETURN_PATH, returnPaths) ??
    firstPointer(tokens, 'return', BARE, feedbackIds) ??
    firstPointer(tokens, 'return', BARE, envelopeIds) ??
    firstPointer(tokens, 'unsubscribe', UNSUBSCRIBE, unsubscribeUrls)
  return pointer === null ? [] : [{ pointer, unsubscribes: false }]
}

/** The recipients that Message-IDs name, each with the one that does. */
export function namedByMessageIds (
  messageIds: readonly string[]
): Array<Pick<Pointer, 'email' | 'n'> & { messageId: string }> {
  return messageIds.slice(0, TEXTS_MAX).flatMap(messageId => {
    const [, email, n] = MESSAGE_ID.exec(messageId) ?? []
    return email === undefined ? [] : [{ email: email.toLowerCase(), n: Number(n), messageId }]
  })
}

function namedBy (address: string, tokens: TokenReader): NamedRecipient | null {
  const match = /^([bu])\+([^@]*)@/i.exec(address)
  if (match === null) return null
  const unsubscribes = match[1]!.toLowerCase() === 'u'
  const pointer = tokens.read(unsubscribes ? 'unsubscribe' : 'return', match[2]!)
  return pointer === null ? null : { pointer, unsubscribes }
}

function firstPointer (tokens: TokenReader, use: TokenUse, pattern: RegExp, texts: readonly string[]): Pointer | null {
  for (const text of texts.slice(0, TEXTS_MAX)) {
    const token = pattern.exec(text)?.[1]
    const pointer = token === undefined ? null : tokens.read(use, token)
    if (pointer !== null) return pointer
  }
  return null
}

/** What a mail makes Jetpost record of a recipient; null = nothing. */
export type ReportEffect =
  | { engagement: Engagement }
  | { report: Extract<RecipientCommand, { name: 'RecordReport' | 'RecordArrival' }> }
  | null

export interface ReportContext {
  /** Id of the mail. */
  inbound: string
  report: BounceReport
  /** It came to the recipient's address for unsubscribing. */
  unsubscribes: boolean
  /** The recipient's address. */
  address: string
}

/** The effect of a mail that came back. Only a final refusal is a bounce: not a delay, not an out-of-office reply to
 *  the return path. */
export function effectOf ({ inbound, report, unsubscribes, address }: ReportContext): ReportEffect {
  switch (report.kind) {
    case 'complaint':
      return {
        engagement: {
          type: 'email.complained',
          data: { feedback: shortened(report.feedbackType ?? 'abuse', 100), report: inbound }
        }
      }
    case 'unsubscribe':
      return unsubscribed(inbound, report.feedbackType === null ? 'mail' : 'report')
    // Any letter to that address counts, whatever it says.
    case 'none':
      return unsubscribes && report.feedbackType === null ? unsubscribed(inbound, 'mail') : null
    // The subject that our link sets; a machine's answer puts words of its own before it.
    case 'auto-reply':
      return unsubscribes && /^unsubscribe$/i.test(report.subject?.trim() ?? '') ? unsubscribed(inbound, 'mail') : null
    case 'hard':
    case 'soft':
      return unsubscribes ? null : bounced(inbound, report, address)
    case 'delivered':
      return null
  }
}

function unsubscribed (inbound: string, by: 'mail' | 'report'): ReportEffect {
  return { engagement: { type: 'email.unsubscribed', data: { by, report: inbound } } }
}

function bounced (inbound: string, { recipients }: BounceReport, address: string): ReportEffect {
  const failed = gravest(recipients, address)
  if (failed === null) return null
  const diagnostic = failed.diagnostic?.replace(/^\s*[\w-]+\s*;\s*/, '') ?? null
  const said = diagnostic === null ? null : parseReply(diagnostic)
  // A 2xx in a report about a refusal is another server's.
  const reply = said !== null && said.code >= 400 ? said : null
  return {
    report: {
      name: 'RecordReport',
      report: inbound,
      host: failed.remoteMta === null ? null : shortened(failed.remoteMta, 255),
      reply,
      status: /^[245]\.\d{1,3}\.\d{1,3}$/.exec(failed.status ?? '')?.[0] ?? null,
      error: reply === null && diagnostic !== null ? printable(diagnostic) : null,
      class: isAnotherRecipient(failed, address) && isGone(failed.reason) ? 'undefined' : failed.reason
    }
  }
}

/** Our transactions have one recipient: other names in a report come from an alias, a list or a forward. What is said
 *  of the recipient's own address counts, else what may be about it, else the worst. */
function gravest (recipients: ReportedRecipient[], address: string): ReportedRecipient | null {
  const named = recipients.filter(recipient =>
    recipient.address !== null && foldAddress(recipient.address) === foldAddress(address)
  )
  const perhaps = recipients.filter(recipient => !isAnotherRecipient(recipient, address))
  const failed = (named.length > 0 ? named : perhaps.length > 0 ? perhaps : recipients).filter(isFinalRefusal)
  return failed.find(({ kind }) => kind === 'hard') ?? failed[0] ?? null
}

/** The mail was forwarded to it: that this mailbox is gone says nothing of ours, which may have others behind it.
 *  Within a domain addresses are rewritten; one without a full domain, or that is a stand-in, is not another
 *  recipient's. */
function isAnotherRecipient ({ address: named }: ReportedRecipient, address: string): boolean {
  if (named === null || isStandIn(named)) return false
  const [theirs, ours] = [domainToASCII(domainOf(named)), domainOf(address)]
  const isRelated = theirs === ours || theirs.endsWith(`.${ours}`) || ours.endsWith(`.${theirs}`)
  return theirs.includes('.') && !isRelated
}

/** Not when neither address nor reason is given: the mail may as well be about a delay. */
function isFinalRefusal ({ address, kind, action, status, code, reason }: ReportedRecipient): boolean {
  const isSpecific = address !== null || status !== null || code !== null || reason !== 'undefined'
  return isSpecific && (action === 'failed' || action === null) && (kind === 'hard' || kind === 'soft')
}

function shortened (text: string, lengthMax: number): string {
  return printable(text).slice(0, lengthMax).toWellFormed()
}
