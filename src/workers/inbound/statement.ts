import { messageIdOf } from '#streams/email/decide.ts'
import type { InboundReported } from '#streams/inbound/facts.ts'
import { foldAddress } from '#streams/suppression/decide.ts'
import { recipientRefNamed, recipientRefOf, type RecipientRef } from '#src/actions/recipient.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import type { Tokens } from '#src/content/token.ts'
import { parseReply } from '#src/feedback/reply.ts'
import type { BounceReport } from '#src/feedback/report.ts'
import { effectOf, namedByMessageIds, namedRecipients, type ReportEffect } from './effect.ts'
import { recordEffect, type RecordResult } from './record.ts'

interface StatementContext {
  factLog: FactLog
  tokens: Pick<Tokens, 'read'>
}

type Result = RecordResult & { ref: RecipientRef | null }

/** Records what a relay says of one recipient; null = not now. Throws like `recordEffect`. */
export async function recordStatement (
  { factLog, tokens }: StatementContext,
  said: InboundReported['data'],
  report: BounceReport
): Promise<Result | null> {
  const ref = await recipientOf({ factLog, tokens }, report)
  if (ref === null || !mayBeAbout(ref, said)) return { outcome: 'unmatched', ref: null }
  const recorded = await recordEffect(factLog, ref, effectIn(ref, said, report))
  return recorded === null ? null : { ...recorded, ref }
}

/** By a token of ours where the relay returns one; else by our Message-ID, since a relay is known to us. */
async function recipientOf (
  { factLog, tokens }: StatementContext,
  { evidence }: BounceReport
): Promise<RecipientRef | null> {
  const [named] = namedRecipients([], evidence, tokens)
  if (named !== undefined) return await recipientRefOf(factLog, named.pointer, true)
  for (const { messageId, ...pointer } of namedByMessageIds(evidence.messageIds)) {
    const ref = await recipientRefNamed(factLog, pointer, true)
    if (ref !== null && isOurs(ref, messageId)) return ref
  }
  return null
}

/** The domain, too, where the relay tells it. */
function isOurs ({ request, n }: RecipientRef, messageId: string): boolean {
  const whole = messageIdOf(request.fact.data, n).slice(1, -1).toLowerCase()
  return messageId.includes('@') ? messageId.toLowerCase() === whole : whole.startsWith(`${messageId.toLowerCase()}@`)
}

/** Not about another account's mail than it may be. A failure of another address is judged like one in a mail: it may
 *  lie behind a forward. */
function mayBeAbout ({ request, n }: RecipientRef, { onlyAccount, kind, address }: InboundReported['data']): boolean {
  const { account, data: { recipients } } = request.fact
  if (onlyAccount !== null && account !== onlyAccount) return false
  return kind === 'failed' || address === null || foldAddress(address) === foldAddress(recipients[n]!.address)
}

function effectIn (
  { request, n }: RecipientRef,
  { inbound, kind, host, status, diagnostic }: InboundReported['data'],
  report: BounceReport
): ReportEffect {
  const { address } = request.fact.data.recipients[n]!
  if (kind === 'delivered') {
    const said = diagnostic === null ? null : parseReply(diagnostic)
    const enhanced = status?.startsWith('2') === true ? status : null
    const reply = said !== null && said.code < 300
      ? said
      : { code: 250, enhanced, text: diagnostic ?? 'The relay says that it has delivered the mail.' }
    return { report: { name: 'RecordArrival', host, reply } }
  }
  // A relay that names no address means the one recipient that the mail has.
  const recipients = report.recipients.map(one => ({ ...one, address: one.address ?? address }))
  return effectOf({ inbound, report: { ...report, recipients }, unsubscribes: false, address })
}
