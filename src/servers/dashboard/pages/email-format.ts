import { ERASED } from '#streams/address.ts'
import { isErased } from '#streams/email/erase.ts'
import type { BounceClass } from '#streams/email/classes.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'

const ERASED_TEXT = '(erased)'

/** A mailbox as people read it; of whom is forgotten nothing is left. */
export function shownAddress (text: string): string {
  return isErased(text) || text.endsWith(`<${ERASED}>`) ? ERASED_TEXT : text
}

/** An email's name: its subject, of which nothing is left either when all of its recipients are forgotten. */
export function titleOf ({ subject, to, cc, bcc }: Pick<Email, 'subject' | 'to' | 'cc' | 'bcc'>): string {
  if (subject.trim() !== '') return subject
  return [...to, ...cc, ...bcc].every(text => shownAddress(text) === ERASED_TEXT) ? ERASED_TEXT : '(no subject)'
}

/** The first few, each cut when it is long. */
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

/** Why mail did not arrive, for people. */
const REASONS: Record<BounceClass, string> = {
  userunknown: 'There is no such mailbox.',
  hostunknown: 'There is no such domain.',
  hasmoved: 'The mailbox has moved or has another address now.',
  notaccept: 'The domain takes mail from nobody.',
  filtered: 'A filter of the recipient, or a closed list, refused it.',
  mailboxfull: 'The mailbox is full.',
  exceedlimit: 'It is larger than this recipient takes.',
  mesgtoobig: 'It is larger than this server takes.',
  rejected: 'The sender address was refused or could not be verified.',
  suspend: 'The mailbox is disabled or locked.',
  blocked: 'Our IP address or its name is on a block list.',
  authfailure: 'SPF, DKIM or DMARC did not pass: look at the DNS records of the domain.',
  requireptr: 'Our IP address has no name in DNS, or a wrong one.',
  policyviolation: 'A policy of theirs refused it.',
  spamdetected: 'It was taken for spam.',
  badreputation: 'Our IP address or domain has a poor reputation with them.',
  securityerror: 'A security check of theirs refused it.',
  notcompliantrfc: 'Its headers or line ends were refused as malformed.',
  norelaying: 'They do not take mail for this recipient from us.',
  contenterror: 'They could not read or convert its content.',
  virusdetected: 'A virus scanner refused it.',
  failedstarttls: 'TLS was asked for or failed.',
  expired: 'It was tried for as long as it was to be tried.',
  networkerror: 'There was no connection, or no answer from DNS.',
  systemerror: 'The server had a fault of its own.',
  toomanyconn: 'Too many connections or recipients at once, they say.',
  speeding: 'Too fast, or greylisted: they ask us to come back later.',
  mailererror: 'The program that was to deliver it failed.',
  systemfull: 'Their disk is full.',
  syntaxerror: 'They did not understand an SMTP command.',
  onhold: 'Put off without a reason.',
  undefined: 'Refused without a reason.'
}

/** Facts of other versions hold other words: those are shown as they are. */
export function reasonOf (kind: string | undefined): string | null {
  if (kind === undefined || kind === '') return null
  return Object.hasOwn(REASONS, kind) ? REASONS[kind as BounceClass] : kind
}
