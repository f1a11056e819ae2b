import type { FeedbackMapping, FeedbackProvider } from '#streams/feedback-source/facts.ts'
import { readBrevo } from './brevo.ts'
import type { RelayEvent } from './event.ts'
import { readGeneric } from './generic.ts'
import { readMailgun } from './mailgun.ts'
import { readPostmark } from './postmark.ts'
import { readSendgrid } from './sendgrid.ts'
import { readSes } from './ses.ts'

const READERS: Record<Exclude<FeedbackProvider, 'generic'>, (body: unknown) => RelayEvent[]> = {
  ses: readSes,
  mailgun: readMailgun,
  postmark: readPostmark,
  sendgrid: readSendgrid,
  brevo: readBrevo
}

/** What a relay's request says, in our words: what says nothing of a recipient's mail is left out. Pure, bounded by the
 *  body, throws nothing. */
export function readRelay (
  { provider, mapping }: { provider: FeedbackProvider, mapping: FeedbackMapping | null },
  body: unknown
): RelayEvent[] {
  if (provider !== 'generic') return READERS[provider](body)
  return mapping === null ? [] : readGeneric(body, mapping)
}
