import { ERASED } from '#streams/address.ts'
import { isErased } from '#streams/email/erase.ts'
import type { BounceClass } from '#streams/email/classes.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'

const ERASED_TEXT = '(erased)'

/** An address for display; `(erased)` for an erased one. */
export function shownAddress (text: string): string {
  return isErased(text) || text.endsWith(`<${ERASED}>`) ? ERASED_TEXT : text
}

/** The subject of an email; it is erased as well once all recipients are. */
export function titleOf ({ subject, to, cc, bcc }: Pick<Email, 'subject' | 'to' | 'cc' | 'bcc'>): string {
  if (subject.trim() !== '') return subject
  return [...to, ...cc, ...bcc].every(text => shownAddress(text) === ERASED_TEXT) ? ERASED_TEXT : '(no subject)'
}

/** The first few tags as links to lists. */
export function tagsOf (tags: string[], most = 3): Html {
  const shown = tags.slice(0, most).flatMap(
    tag => [html`<a class="tag" href="/dashboard/emails?tag=${encodeURIComponent(tag)}" title="${tag}">${tag}</a> `]
  )
  return html`${shown}${tags.length > most && html`<span class="hint">+${tags.length - most}</span>`}`
}

/** `a, b and 3 more`. */
export function named (names: string[], most = 3): string {
  const shown = names.slice(0, most).map(shownAddress)
  return names.length > most ? `${shown.join(', ')} and ${names.length - most} more` : shown.join(', ')
}

/** Why an email was not delivered. */
const REASONS: Record<BounceClass, string> = {
  userunknown: 'The mailbox does not exist.',
  hostunknown: 'The domain does not exist.',
  hasmoved: 'The mailbox has moved or has a new address.',
  notaccept: 'The domain does not accept mail.',
  filtered: 'A filter of the recipient or a closed list refused it.',
  mailboxfull: 'The mailbox is full.',
  exceedlimit: 'It is larger than the recipient accepts.',
  mesgtoobig: 'It is larger than the server accepts.',
  rejected: 'The server refused the sender address or could not verify it.',
  suspend: 'The mailbox is disabled or locked.',
  blocked: 'The sending IP address or its name is on a block list.',
  authfailure: 'SPF, DKIM or DMARC did not pass. Check the DNS records of the domain.',
  requireptr: 'The sending IP address has no name in DNS, or a wrong one.',
  policyviolation: "The server's policy refused it.",
  spamdetected: 'The server classified it as spam.',
  badreputation: 'The sending IP address or domain has a poor reputation.',
  securityerror: "The server's security check refused it.",
  notcompliantrfc: 'The server refused its headers or line ends as malformed.',
  norelaying: 'The server does not accept mail for this recipient.',
  contenterror: 'The server could not read or convert its content.',
  virusdetected: 'A virus scanner refused it.',
  failedstarttls: 'TLS was required or failed.',
  expired: 'The time for retries is over.',
  networkerror: 'The connection or the DNS lookup failed.',
  systemerror: 'The server had an internal error.',
  toomanyconn: 'The server refused too many connections or recipients at once.',
  speeding: 'The server asked to slow down or to come back later (greylisting).',
  mailererror: "The server's delivery program failed.",
  systemfull: "The server's disk is full.",
  syntaxerror: 'The server did not understand an SMTP command.',
  onhold: 'The server deferred it and gave no reason.',
  undefined: 'The server refused it and gave no reason.'
}

/** Classes of other versions are shown as they are. */
export function reasonOf (kind: string | undefined): string | null {
  if (kind === undefined || kind === '') return null
  return Object.hasOwn(REASONS, kind) ? REASONS[kind as BounceClass] : kind
}
