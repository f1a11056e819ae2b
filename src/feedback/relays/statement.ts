import type { InboundReported } from '#streams/inbound/facts.ts'
import { classifyFailure } from '../classify-failure.ts'
import { verdictOnAddress } from '../classify.ts'
import type { BounceReport, ReportedRecipient } from '../report.ts'
import { classBy } from './types.ts'

/** What a relay's report means, in the words that returned mail is read into: the same rule follows for both. */
export function readStatement (said: InboundReported['data']): BounceReport {
  const recipient = recipientIn(said)
  return {
    kind: recipient.kind,
    recipients: [recipient],
    feedbackType: said.kind === 'unsubscribe' ? said.feedbackType ?? 'opt-out' : said.feedbackType,
    evidence: {
      messageIds: said.messageIds,
      returnPaths: said.tokens,
      feedbackIds: said.tokens,
      envelopeIds: [],
      unsubscribeUrls: [],
      deliveredTo: []
    },
    subject: null,
    from: null,
    autoSubmitted: false
  }
}

function recipientIn (said: InboundReported['data']): ReportedRecipient {
  const { kind, address, status, diagnostic, host: remoteMta, provider, reason: type } = said
  const shared = { address, status, code: null, diagnostic: diagnostic ?? type, remoteMta }
  if (kind === 'delivered') return { ...shared, kind, action: 'delivered', reason: 'delivered' }
  if (kind === 'complaint' || kind === 'unsubscribe') return { ...shared, kind, action: null, reason: kind }
  const action = kind
  const clues = { texts: [diagnostic ?? '', ''], context: diagnostic ?? '', code: null, category: null }
  const verdict = classifyFailure({ ...clues, to: address, status })
  const reason = classBy(provider, type ?? '', verdict.reason)
  const gravity = action === 'delayed' ? 'soft' : verdictOnAddress(reason, verdict)
  return { ...shared, ...verdict, diagnostic: diagnostic ?? type, reason, action, kind: gravity }
}
