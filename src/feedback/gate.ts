import { isAutoReply } from './auto-reply.ts'
import { fieldOf, fieldsOf, type HeaderField } from './entity.ts'
import type { Form } from './forms.ts'
import { DAEMONS, SUBJECTS, SUBJECTS_WITHIN } from './signs.ts'

/** What distinguishes a server's report from a letter, besides the header. */
export interface Signs {
  /** Known openings in the text. */
  forms: Form[]
  /** multipart/report, or a status part without it. */
  report: boolean
  /** A returned message, whole or in part. */
  copy: boolean
  /** What a person was to read. */
  head: string
  /** A reason beside an address. */
  diagnosed: boolean
}

const ENOUGH = 4

/** A report contains an address or a code. */
const DETAIL = /[^\s@]@[^\s@]|\b[45]\.\d\.\d|\b[45]\d\d\b/

/** Whether a text without a readable report part comes from a mail server about mail that failed. A person may quote a
 *  bounce under a subject that speaks of one, but is no daemon, and writes from an address; who sends parcels says much
 *  the same words. */
export function isBounce (top: HeaderField[], signs: Signs): boolean {
  const daemon = isDaemon(top)
  if (isAnswer(top) || isAggregate(top) || (!daemon && fieldsOf(top, 'list-id', 'list-post').length > 0)) return false
  const title = fieldOf(top, 'subject') ?? ''
  const subject = SUBJECTS.test(title) || SUBJECTS_WITHIN.test(title.slice(0, 200))
  const named = signs.forms.some(form => form.common !== true)
  const stated = signs.report || fieldsOf(top, 'x-failed-recipients').length > 0
  if (!stated && !signs.diagnosed && signs.forms.length === 0 && !(subject && (signs.copy || isNullSender(top)))) {
    return false
  }
  if (!stated && !subject && isAutoReply(top) && !(daemon && (named || signs.diagnosed))) return false
  if (!stated && !named && !signs.copy && !DETAIL.test(signs.head)) return false
  const marked = stated || fieldsOf(top, 'x-mddsn-message', 'x-ms-exchange-message-is-ndr').length > 0
  if (!daemon && !named && !marked && !isNullSender(top) && !(subject && signs.copy)) return false
  const points = [
    [daemon, 2],
    [isNullSender(top), 2],
    [isFromSomebody(top), -2],
    [fieldsOf(top, 'list-unsubscribe').length > 0, -2],
    [subject, 2],
    [named, 2],
    [!named && signs.forms.length > 0, 1],
    [marked, 2],
    [fieldsOf(top, 'x-failed-recipients').length > 0, 2],
    [/^auto-/i.test(fieldOf(top, 'auto-submitted') ?? ''), 1],
    [signs.copy, 1],
    [signs.diagnosed, 1]
  ] as const
  return points.reduce((sum, [holds, worth]) => sum + (holds ? worth : 0), 0) >= ENOUGH
}

/** Figures about many mails (RFC 7489 7.2, RFC 8460 5.3), about none in particular. */
export function isAggregate (top: HeaderField[]): boolean {
  return fieldsOf(top, 'tls-report-domain').length > 0 ||
    /report-type="?tlsrpt/i.test(fieldOf(top, 'content-type') ?? '') ||
    /^\W{0,3}report domain: ?\S{1,255}\s{1,9}submitter:/i.test(fieldOf(top, 'subject') ?? '')
}

/** A person's answer to a report, or the report passed on: whatever it quotes has been said before. */
export function isAnswer (top: HeaderField[]): boolean {
  return !isDaemon(top) &&
    /^\W{0,3}(?:re|aw|fwd?|wg|sv|vs|tr|rv|res|antw|i|回复|转发|答复|返信)\s?[:：]/i.test(fieldOf(top, 'subject') ?? '')
}

function isDaemon (top: HeaderField[]): boolean {
  const from = (fieldOf(top, 'from') ?? '').trim()
  return from === '' || /^<?>?$/.test(from) || DAEMONS.test(from) || fieldsOf(top, 'x-mlserver').length > 0
}

const NULL_SENDER = /^<?\s*(?:mailer-daemon(?:@\S*)?)?\s*>?$/i

function isNullSender (top: HeaderField[]): boolean {
  return fieldsOf(top, 'return-path', 'x-return-path').some(value => NULL_SENDER.test(value.trim()))
}

/** A server that wants no answer has a null sender, or its postmaster; a list its own address for bounces. */
function isFromSomebody (top: HeaderField[]): boolean {
  const [path] = fieldsOf(top, 'return-path')
  return path !== undefined && !NULL_SENDER.test(path.trim()) &&
    !/daemon|post[_-]?master|system|mailer@|^<?(?:smtp|mail|courier)@|-bounces@|^<?owner-/i.test(
      path.slice(0, path.lastIndexOf('@') + 1)
    )
}
