import type { TimelineEntry } from '#projections/emails/records.ts'
import { oneLine } from '../text.ts'

/** What a fact says beyond its type, in words as short as they can be. */
export function about (entry: TimelineEntry): string[] {
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
    saidIn(entry) ?? response ?? error ?? null,
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

/** A server's words begin with its code, as a rule; after an erasure there are none, and the code alone is left. */
function saidIn ({ smtp_code: code, enhanced_code: enhanced, response }: TimelineEntry): string | null {
  if (code == null || response?.startsWith(String(code)) === true) return null
  return [code, enhanced, response].filter(part => part != null && part !== '').join(' ')
}

/** How the words came to us. Where no server was asked there is nothing to tell, and a bounce mail does not know. */
function transaction ({ type, report, response, host, stage, tls, ms }: TimelineEntry): Array<string | null> {
  if (type === 'email.bounced' && report != null) {
    return [host == null ? 'told by a report' : `told by a report of ${host}`]
  }
  if (response == null && host == null) return []
  // No TLS is no news before it could be spoken of.
  const untold = tls === undefined || (tls === null && stage === 'connect')
  return [
    host == null ? null : `${host}${stage === undefined ? '' : ` at ${stage}`}`,
    untold ? null : tls === null ? 'no TLS' : `${tls.version}${tls.verified ? '' : ', not verified'}`,
    ms === undefined ? null : `${ms} ms`
  ]
}
