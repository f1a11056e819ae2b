/** Why mail did not arrive, in one word. What each means for the address and for us follows from the word alone. */
export const CLASSES = [
  // The address is gone.
  'userunknown', // there is no such mailbox
  'hostunknown', // there is no such domain
  'hasmoved', // the mailbox has moved, or has another address now
  'notaccept', // the host or the domain takes mail from nobody

  // The recipient's side.
  'filtered', // the recipient's own filter, or a list that is closed to strangers
  'mailboxfull', // over quota
  'exceedlimit', // larger than this recipient takes
  'mesgtoobig', // larger than this server takes
  'rejected', // our envelope sender or From is not liked or cannot be verified
  'suspend', // the mailbox is disabled, inactive, locked

  // We, or what we have sent.
  'blocked', // our IP address, its name or our HELO is on somebody's list
  'authfailure', // SPF, DKIM, DMARC, ARC
  'requireptr', // our IP address has no name, or the wrong one
  'policyviolation', // some policy, unnamed
  'spamdetected', // the content, or who sent it, looks like spam
  'badreputation', // our IP address or domain has a poor name
  'securityerror', // log in first, a threat in the content
  'notcompliantrfc', // headers or line ends that RFC 5322 forbids
  'norelaying', // not their recipient, and they do not pass mail on for us
  'contenterror', // MIME, encoding or conversion
  'virusdetected',
  'failedstarttls', // TLS was asked for, or failed

  // The way there.
  'expired', // tried for as long as it was to be tried
  'networkerror', // no connection, no name service, a loop
  'systemerror', // their server's fault
  'toomanyconn', // too many connections, or recipients, at once
  'speeding', // too fast; greylisting too: come back later
  'mailererror', // the program that was to deliver failed
  'systemfull', // their disk
  'syntaxerror', // an SMTP command they did not understand

  // We do not know.
  'onhold', // put off, no reason given
  'undefined' // refused, no reason given
] as const

export type BounceClass = typeof CLASSES[number]

const GONE: ReadonlySet<string> = new Set<BounceClass>(['userunknown', 'hostunknown', 'hasmoved', 'notaccept'])

const OPERATORS: ReadonlySet<string> = new Set<BounceClass>([
  'blocked',
  'authfailure',
  'requireptr',
  'policyviolation',
  'spamdetected',
  'badreputation',
  'securityerror',
  'notcompliantrfc',
  'norelaying',
  'contenterror',
  'virusdetected',
  'failedstarttls'
])

/** The address is gone for good, if the server that says so means it for good. Takes any string: facts of older
 *  versions hold other words. */
export function isGone (why: string): boolean {
  return GONE.has(why)
}

/** About our standing or our set-up: the operator can mend it, the recipient cannot. */
export function isOperators (why: string): boolean {
  return OPERATORS.has(why)
}
