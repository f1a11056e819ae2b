import { domainToASCII } from 'node:url'
import { domainOf } from '#streams/address.ts'
import { isGone } from '#streams/email/classes.ts'
import type { RecipientCommand } from '#streams/email/decide.ts'
import type { Engagement } from '#streams/email/engagements.ts'
import { foldAddress } from '#streams/suppression/decide.ts'
import { isStandIn } from '#src/feedback/addresses.ts'
import { parseReply, printable } from '#src/feedback/reply.ts'
import type { Report, ReportedRecipient } from '#src/feedback/report.ts'

/** What is to be recorded of a recipient; null = nothing. */
export type Follows =
  | { engagement: Engagement }
  | { report: Extract<RecipientCommand, { name: 'RecordReport' }> }
  | null

export interface Case {
  /** Id of the mail. */
  inbound: string
  report: Report
  /** It came to the recipient's address for unsubscribing. */
  asked: boolean
  /** The recipient's address. */
  address: string
}

/** What a mail that came back leads to. Only a final no is a bounce: not a delay, not an out-of-office reply to the
 *  return path. */
export function whatFollows ({ inbound, report, asked, address }: Case): Follows {
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
    // Whatever a person, or the program that wrote in their name, says to that address.
    case 'none':
      return asked && report.feedbackType === null ? unsubscribed(inbound, 'mail') : null
    // The subject our link asks for; a machine that answers puts words of its own before it.
    case 'auto-reply':
      return asked && /^unsubscribe$/i.test(report.subject?.trim() ?? '') ? unsubscribed(inbound, 'mail') : null
    case 'hard':
    case 'soft':
      return asked ? null : bounced(inbound, report, address)
    case 'delivered':
      return null
  }
}

function unsubscribed (inbound: string, by: 'mail' | 'report'): Follows {
  return { engagement: { type: 'email.unsubscribed', data: { by, report: inbound } } }
}

function bounced (inbound: string, { recipients }: Report, address: string): Follows {
  const failed = gravest(recipients, address)
  if (failed === null) return null
  const diagnostic = failed.diagnostic?.replace(/^\s*[\w-]+\s*;\s*/, '') ?? null
  const said = diagnostic === null ? null : parseReply(diagnostic)
  // A yes in a report about a no is somebody else's.
  const reply = said !== null && said.code >= 400 ? said : null
  return {
    report: {
      name: 'RecordReport',
      report: inbound,
      host: failed.remoteMta === null ? null : shortened(failed.remoteMta, 255),
      reply,
      status: /^[245]\.\d{1,3}\.\d{1,3}$/.exec(failed.status ?? '')?.[0] ?? null,
      error: reply === null && diagnostic !== null ? printable(diagnostic) : null,
      class: isAnothers(failed, address) && isGone(failed.reason) ? 'undefined' : failed.reason
    }
  }
}

/** Our transactions have one recipient: who else is named in a report comes of an alias, a list or a forward. What is
 *  said of the recipient's own address counts, else what may be about it, else the worst. */
function gravest (recipients: ReportedRecipient[], address: string): ReportedRecipient | null {
  const named = recipients.filter(recipient =>
    recipient.address !== null && foldAddress(recipient.address) === foldAddress(address)
  )
  const perhaps = recipients.filter(recipient => !isAnothers(recipient, address))
  const failed = (named.length > 0 ? named : perhaps.length > 0 ? perhaps : recipients).filter(isFinalNo)
  return failed.find(({ kind }) => kind === 'hard') ?? failed[0] ?? null
}

/** Somebody the mail was passed on to: that their mailbox is gone says nothing of ours, behind which others may be.
 *  Within a domain addresses are rewritten, and one without a full domain, or that stands for nobody, is not another's.
 */
function isAnothers ({ address: named }: ReportedRecipient, address: string): boolean {
  if (named === null || isStandIn(named)) return false
  const [theirs, ours] = [domainToASCII(domainOf(named)), domainOf(address)]
  const isRelated = theirs === ours || theirs.endsWith(`.${ours}`) || ours.endsWith(`.${theirs}`)
  return theirs.includes('.') && !isRelated
}

/** One that says neither who nor why has said no only by its looks: the mail may as well be about a delay. */
function isFinalNo ({ address, kind, action, status, code, reason }: ReportedRecipient): boolean {
  const tells = address !== null || status !== null || code !== null || reason !== 'undefined'
  return tells && (action === 'failed' || action === null) && (kind === 'hard' || kind === 'soft')
}

function shortened (text: string, lengthMax: number): string {
  return printable(text).slice(0, lengthMax).toWellFormed()
}
