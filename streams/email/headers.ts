import { Refusal } from '../define.ts'

/** A header of the sender's own. */
export interface OwnHeader {
  name: string
  value: string
}

/** A fault of one header, or (`at` = null) of all together. */
export interface HeaderFault {
  at: number | null
  fault: Refusal
}

export const HEADERS_MAX = 50
/** A line with an encoded-word has at most 76 characters; a name that is longer leaves no room for one. Source: RFC
 *  2047 2. */
const NAME_MAX = 76
/** So that it can stand on one line even where there is no space to fold at. Source: RFC 5322 2.1.1. */
const OCTETS_MAX = 998

/** Printable ASCII but for the colon. Source: RFC 5322 2.2. */
const FTEXT = /^[\x21-\x39\x3b-\x7e]+$/
// C0, DEL and C1: CR and LF would begin another header.
const CONTROL = /\p{Cc}/u
const ASCII = /^\p{ASCII}*$/u

/** They choose templates, times, streams, addresses to send from and tracking, for the relay's account as a whole. */
const RELAY_COMMANDS =
  'x-smtpapi x-mc-* x-msys-api x-pm-* x-mailgun-* x-ses-* x-mailin-* x-sib-* x-mj-* x-mailjet-* x-mt-* ' +
  'x-smtp2go-* x-xsmailingid x-xsmessageid x-postal-* x-mailersend-* x-elasticemail-* resend-*'

/** Of PowerMTA, and of Exchange within its own organization. */
const SERVER_COMMANDS = 'x-virtual-mta x-ms-exchange-*'

const RESENT = 'resent-*'

/** What a sender may not write, and why. Lower case; `*` stands for any ending. */
const RESERVED = [
  { names: 'from to cc bcc reply-to subject', why: 'the request has a field for it' },
  { names: `sender ${RESENT}`, why: 'it would name a sender whose domain is not checked' },
  { names: 'date message-id', why: 'Jetpost writes it, to tell copies apart' },
  // Some take what is there already for a loop.
  { names: 'return-path received* delivered-to', why: 'mail servers write it' },
  { names: 'dkim-signature arc-* authentication-results', why: 'only servers that sign or check mail write it' },
  { names: 'mime-version content-*', why: 'Jetpost writes it for the parts of the message' },
  { names: 'cfbl-*', why: 'Jetpost writes it, to receive complaints' },
  { names: RELAY_COMMANDS, why: 'relays take it for a command' },
  { names: SERVER_COMMANDS, why: 'mail servers take it for a command' }
]

/** Written here for mail whose recipients can unsubscribe, left to the sender for other mail. */
const UNSUBSCRIBE = 'list-unsubscribe list-unsubscribe-post'

/** Ids, addresses and keywords: encoded-words in them would be read as they stand. Source: RFC 2047 5. */
const STRUCTURED = 'in-reply-to references list-* auto-submitted precedence feedback-id importance priority x-priority'

/** At most one of each. Source: RFC 5322 3.6, RFC 2369 2. */
const ONCE = 'in-reply-to references list-*'

/** What is wrong with one header, or null. `unsubscribe` = the message gets List-Unsubscribe headers of ours. */
export function headerFault ({ name, value }: OwnHeader, { unsubscribe }: { unsubscribe: boolean }): Refusal | null {
  return nameFault(name, unsubscribe) ?? valueFault(name, value)
}

/** Every fault of a sender's headers, each header's first one. */
export function headerFaults (headers: OwnHeader[], options: { unsubscribe: boolean }): HeaderFault[] {
  if (headers.length > HEADERS_MAX) {
    return [{ at: null, fault: new Refusal('too_many', `headers must have at most ${HEADERS_MAX} headers.`) }]
  }
  const seen = new Set<string>()
  return headers.flatMap((header, at) => {
    const name = header.name.toLowerCase()
    const repeated = seen.has(name) && isOneOf(ONCE, name)
    seen.add(name)
    const fault = headerFault(header, options) ??
      (repeated ? new Refusal('not_unique', `headers.${header.name} must be given once.`) : null)
    return fault === null ? [] : [{ at, fault }]
  })
}

/** True for the name, in lower case, of a header that no mail may have, also where it came whole: a relay or a mail
 *  server would take it for a command, or it names a sender that nobody has checked. */
export function isNeverSent (name: string): boolean {
  return isOneOf(`${RELAY_COMMANDS} ${SERVER_COMMANDS} ${RESENT}`, name)
}

function nameFault (name: string, unsubscribe: boolean): Refusal | null {
  if (!FTEXT.test(name) || name.length > NAME_MAX) {
    return new Refusal(
      'invalid_name',
      `headers must have names of 1 to ${NAME_MAX} printable ASCII characters without spaces and colons.`
    )
  }
  const why = RESERVED.find(({ names }) => isOneOf(names, name.toLowerCase()))?.why
  if (why !== undefined) return new Refusal('reserved_header', `headers.${name} must not be set: ${why}.`)
  if (!unsubscribe || !isOneOf(UNSUBSCRIBE, name.toLowerCase())) return null
  return new Refusal(
    'reserved_header',
    `headers.${name} must not be set while unsubscribe is true: Jetpost writes it.`
  )
}

function valueFault (name: string, value: string): Refusal | null {
  if (CONTROL.test(value) || !value.isWellFormed()) {
    return new Refusal(
      'invalid_characters',
      `headers.${name} must be one line without control characters and unpaired surrogates.`
    )
  }
  if (value.trim() === '') return new Refusal('too_short', `headers.${name} must not be empty.`)
  if (name.length + 2 + octets(value) > OCTETS_MAX) {
    return new Refusal('too_long', `headers.${name} must have at most ${OCTETS_MAX} bytes, name and value together.`)
  }
  if (ASCII.test(value) || !isOneOf(STRUCTURED, name.toLowerCase())) return null
  return new Refusal('invalid_characters', `headers.${name} must be ASCII.`)
}

function isOneOf (names: string, name: string): boolean {
  return names.split(' ').some(one => one.endsWith('*') ? name.startsWith(one.slice(0, -1)) : name === one)
}

function octets (text: string): number {
  return new TextEncoder().encode(text).length
}
