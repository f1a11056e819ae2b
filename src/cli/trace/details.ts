import type { TimelineEntry } from '#projections/emails/records.ts'
import { durationText, oneLine } from '../text.ts'

/** What a fact says beyond its type, in few words. */
export function detailsOf (entry: TimelineEntry): string[] {
  const {
    attempt,
    response,
    error,
    class: kind,
    reason,
    detail,
    cause,
    held,
    url,
    machine,
    feedback,
    by,
    scheduled_at,
    next_attempt_at: next
  } = entry
  return [
    attempt === undefined ? null : `attempt ${attempt}`,
    replyText(entry) ?? response ?? error ?? null,
    kind ?? reason ?? feedback ?? by ?? null,
    detail ?? null,
    url ?? null,
    machine === true ? 'by a machine' : null,
    cause === undefined ? null : `the ${cause} was lost${held === true ? ', held' : ''}`,
    ...transaction(entry),
    scheduled_at === undefined ? null : `for ${scheduled_at}`,
    next == null ? null : `next attempt ${next}`
  ].filter(text => text !== null && text !== '').map(text => oneLine(text!))
}

/** A server's reply begins with its code, as a rule; after an erasure only the code is left. */
function replyText ({ smtp_code: code, enhanced_code: enhanced, response }: TimelineEntry): string | null {
  if (code == null || response?.startsWith(String(code)) === true) return null
  return [code, enhanced, response].filter(part => part != null && part !== '').join(' ')
}

/** With whom, over what and how long. Nothing where no server was asked; a bounce message does not know. */
function transaction ({ type, report, response, host, stage, tls, ms }: TimelineEntry): Array<string | null> {
  if (type === 'email.bounced' && report != null) {
    return [host == null ? 'by a report' : `by a report of ${host}`]
  }
  if (response == null && host == null) return []
  // Before EHLO there is no TLS to speak of.
  const isUnknown = tls === undefined || (tls === null && stage === 'connect')
  return [
    host == null ? null : `${host}${stage === undefined ? '' : ` at ${stage}`}`,
    isUnknown ? null : tls === null ? 'no TLS' : `${tls.version}${tls.verified ? '' : ', not verified'}`,
    ms === undefined ? null : durationText(ms)
  ]
}
