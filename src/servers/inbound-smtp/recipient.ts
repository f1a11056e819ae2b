import { domainToASCII } from 'node:url'
import { isReturnPath } from '#streams/domain/records.ts'
import type { Tokens } from '#src/content/token.ts'

/** The decision on a RCPT: accepted for one of our tokens (`token`) or for an address that every mail host has
 *  (`role`), or the reply that refuses it. */
export type RecipientDecision = 'token' | 'role' | { code: number, text: string }

const UNKNOWN: RecipientDecision = { code: 550, text: '5.1.1 No such mailbox here' }
const NO_RELAY: RecipientDecision = { code: 550, text: '5.7.1 Relaying denied' }

/** Where complaints go, and the two that RFC 5321 4.5.1 and RFC 2142 require. */
const ROLES = new Set(['fbl', 'abuse', 'postmaster'])

/** Accepts tokens that we made, and the host's own mailboxes. `isOurs` = mail to the host (an A-label in lower case)
 *  goes to us. Case makes no difference, as servers on the way may have changed it. */
export function decideRecipient (
  address: string,
  tokens: Pick<Tokens, 'read'>,
  isOurs: (host: string) => boolean
): RecipientDecision {
  const at = address.lastIndexOf('@')
  // Without a host it is this one. Source: RFC 5321 4.1.1.3.
  if (at === -1) return address.toLowerCase() === 'postmaster' ? 'role' : NO_RELAY
  const host = domainToASCII(address.slice(at + 1))
  const local = address.slice(0, at).toLowerCase()
  const use = local.startsWith('b+') ? 'return' : local.startsWith('u+') ? 'unsubscribe' : null
  const isToken = use !== null && tokens.read(use, local.slice(2)) !== null
  // Bounces for a domain arrive also when the domain has been removed since.
  if (isToken && isReturnPath(host)) return 'token'
  if (!isOurs(host)) return NO_RELAY
  if (ROLES.has(local)) return 'role'
  return isToken ? 'token' : UNKNOWN
}

/** The token that mail to an address is counted by, in whatever case it was written and at whichever host; null for the
 *  host's own mailboxes. */
export function tokenIn (address: string): string | null {
  return /^[bu]\+[^@]*/i.exec(address)?.[0].toLowerCase() ?? null
}
