import { addressesIn, isStandIn } from './addresses.ts'
import { fieldOf, fieldsOf, readFields, type HeaderField } from './entity.ts'

/** A feedback report, as stated. */
export interface Feedback {
  /** As in RFC 5965 7.3 and its registry, lower case; `abuse` when the reporter did not say. */
  type: string
  kind: 'complaint' | 'unsubscribe' | 'none'
  addresses: string[]
  fields: HeaderField[]
}

/** What a reader of mail can do against the sender. The rest are about servers, or in the sender's favour. */
const KINDS: Record<string, Feedback['kind']> = {
  abuse: 'complaint',
  fraud: 'complaint',
  virus: 'complaint',
  other: 'complaint',
  miscategorized: 'complaint',
  complaint: 'complaint',
  spam: 'complaint',
  phishing: 'complaint',
  'opt-out': 'unsubscribe',
  'opt-out-list': 'unsubscribe',
  unsubscribe: 'unsubscribe'
}
const LINES_MAX = 400
const STATED = /^[ \t]*Feedback-Type[ \t]*:/im
/** Who forwards what was complained about, without a report part. */
const SERVICES = new RegExp(
  [
    'scomp@aol',
    'staff@hotmail',
    'jmrp',
    'spamcop',
    'feedback-?loop',
    '\\bfbl[@.-]',
    '@fbl\\b',
    '@arf\\.',
    'complain',
    'abuse',
    '\\bspam',
    'junkmail',
    'signal-?spam',
    'feedback@',
    '\\btos',
    'beschwerde',
    'postmaster@'
  ].join('|'),
  'i'
)
const COMPLAINT_SUBJECTS = new RegExp(
  [
    'complain',
    '(?:abuse|spam|feedback|junk|ube|uce)[ -]?(?:mail)?[ -]?(?:report|loop|notif|meldung|beschwerde)',
    '^\\W{0,4}(?:(?:re|fwd?|fw): ?)?fbl ',
    'spamcop',
    'jmrp',
    'tos notification',
    'beschwerde',
    'reported? (?:as )?(?:spam|junk|abuse)',
    'report (?:of|about) (?:spam|abuse|uce|ube)',
    'plainte',
    'signalement',
    'denuncia',
    'denúncia',
    'segnalazione',
    'жалоба',
    '投诉',
    '投訴',
    '苦情'
  ].join('|'),
  'iu'
)
const COMPLAINT_WORDS = new RegExp(
  [
    '(?:report|flag|mark|submitt)\\w{0,8} (?:[^\\s.]{1,20} ){0,4}(?:as |for )?(?:being )?' +
    '(?:spam|junk|abus|unsolicited)',
    'abuse report',
    'spam (?:report|complaint)',
    'complain(?:ed|t) (?:about|from|regarding)',
    'als (?:spam|unerwünscht)[^.]{0,30}(?:gemeldet|markiert)',
    'signalé[^.]{0,30}(?:spam|indésirable)',
    '(?:marcad|denunciad|reportad)[oa][^.]{0,30}(?:spam|no deseado|lixo)',
    'segnalat[oa][^.]{0,30}spam',
    'пожаловал',
    '(?:举报|舉報|投诉|投訴)',
    '迷惑メール'
  ].join('|'),
  'iu'
)

/** The report a part states, or null when it states none; `declared` = its type says that it does.
 *  Source: RFC 5965, 6430 (not-spam), 6591 (auth-failure), and the drafts before them. */
export function readFeedback (text: string, returned: HeaderField[], declared: boolean): Feedback | null {
  if (!declared && !STATED.test(text)) return null
  // Blank lines and greetings among the fields are forgiven.
  const lines = text.split('\n', LINES_MAX).filter(line => /^(?:[ \t]+\S|[\w-]{1,60}[ \t]*:)/.test(line))
  const { fields } = readFields(lines.join('\n').trimStart())
  const type = /^[a-z][\w-]{0,39}/i.exec(fieldsOf(fields, 'feedback-type')[0] ?? '')?.[0].toLowerCase() ?? 'abuse'
  const stated = fieldsOf(fields, 'original-rcpt-to', 'removal-recipient', 'x-original-rcpt-to', 'original-recipient')
  return { type, kind: feedbackKind(type, fields), addresses: complainants(stated, returned), fields }
}

/** A complaint without a report part: marked as such, or known by three of four: who forwards it, what the subject
 *  says, what the text says, and what is given back. */
export function readForwardedComplaint (
  top: HeaderField[],
  returned: HeaderField[],
  { head, hasCopy }: { head: string, hasCopy: boolean }
): Feedback | null {
  const marked = [...fieldsOf(returned, 'x-hmxmroriginalrecipient'), ...fieldsOf(top, 'x-hmxmroriginalrecipient')]
  const xarf = fieldsOf(top, 'x-xarf', 'x-arf').length > 0
  if (marked.length === 0 && !xarf && !isForwardedBy(top, head, hasCopy)) return null
  return { type: 'abuse', kind: 'complaint', addresses: complainants(marked, returned), fields: [] }
}

function isForwardedBy (top: HeaderField[], head: string, hasCopy: boolean): boolean {
  if (!SERVICES.test(fieldOf(top, 'from') ?? '')) return false
  const signs = [
    COMPLAINT_SUBJECTS.test(fieldOf(top, 'subject')?.slice(0, 300) ?? ''),
    COMPLAINT_WORDS.test(head.slice(0, 4000)),
    hasCopy
  ]
  return signs.filter(Boolean).length >= 2
}

/** A type of another's invention says nothing that we could act upon. */
export function feedbackKind (type: string, fields: HeaderField[]): Feedback['kind'] {
  return fieldsOf(fields, 'auth-failure').length > 0 ? 'none' : KINDS[type] ?? 'none'
}

/** Reporters like to withhold the address; the returned header may still show it. */
function complainants (stated: string[], returned: HeaderField[]): string[] {
  const traces = fieldsOf(returned, 'x-original-to', 'delivered-to', 'envelope-to', 'x-envelope-to', 'x-rcpt-to')
  const sources = [stated, fieldsOf(returned, 'x-hmxmroriginalrecipient'), traces, fieldsOf(returned, 'to')]
  for (const source of sources) {
    const found = source.flatMap(value => addressesIn(value, 20)).filter(address => !isStandIn(address))
    if (found.length > 0) return [...new Set(found)]
  }
  return []
}
