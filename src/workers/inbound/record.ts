import { Refusal } from '#streams/define.ts'
import { recordEngagement, recordReport, type RecipientRef } from '#src/actions/recipient.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import type { ReportEffect } from './effect.ts'

/** What became of a mail or of a relay's report, for one recipient it is about: a fact; `nothing_new` = recorded
 * before, or the recipient's state forbids it; `nothing` = its kind has no effect; `no_token` = a mail names no
 * recipient of ours, `unmatched` = a report does not; `unknown` = the recipient is gone from the log. */
export type InboundOutcome =
  | 'bounced'
  | 'complained'
  | 'unsubscribed'
  | 'delivered'
  | 'nothing_new'
  | 'nothing'
  | 'no_token'
  | 'unmatched'
  | 'unknown'
  | 'unreadable'

export interface RecordResult {
  outcome: InboundOutcome
  class?: string | null
}

/** null = not now: the outcome of a transaction comes first. Throws LogUnavailable, or Conflict when conflicts do not
 *  end. */
export async function recordEffect (
  factLog: FactLog,
  ref: RecipientRef,
  effect: ReportEffect
): Promise<RecordResult | null> {
  if (effect === null) return { outcome: 'nothing' }
  if ('engagement' in effect) {
    const isNew = await recordEngagement(factLog, ref, effect.engagement)
    const outcome = effect.engagement.type === 'email.complained' ? 'complained' : 'unsubscribed'
    return { outcome: isNew ? outcome : 'nothing_new' }
  }
  const { report } = effect
  const recorded = await recordReport(factLog, ref, report)
  if (recorded instanceof Refusal) return null
  if (!recorded.stored) return { outcome: 'nothing_new' }
  return report.name === 'RecordArrival' ? { outcome: 'delivered' } : { outcome: 'bounced', class: report.class }
}
