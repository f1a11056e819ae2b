import { domainToASCII } from 'node:url'
import { isReturnPath } from '#streams/domain/records.ts'
import type { Tokens } from '#src/content/token.ts'

/** What is said to a RCPT: yes, to whoever holds one of our tokens (`token`) or writes to an address that every mail
 *  host has (`role`), or an SMTP no. */
export type Answer = 'token' | 'role' | { code: number, text: string }

const NOBODY: Answer = { code: 550, text: '5.1.1 No such mailbox here' }
const NO_RELAY: Answer = { code: 550, text: '5.7.1 Relaying denied' }

/** Where complaints come to, and the two that RFC 5321 4.5.1 and RFC 2142 ask for. */
const ROLES = new Set(['fbl', 'abuse', 'postmaster'])

/** Who may be written to: the holder of a token that we made, and the host's own mailboxes. `isOurs` = mail to the host
 *  (an A-label in lower case) comes to us. In any case of letters, as servers on the way may have changed it. */
export function answerFor (address: string, tokens: Pick<Tokens, 'read'>, isOurs: (host: string) => boolean): Answer {
  const at = address.lastIndexOf('@')
  // Without a host it is this host's. Source: RFC 5321 4.1.1.3.
  if (at === -1) return address.toLowerCase() === 'postmaster' ? 'role' : NO_RELAY
  const host = domainToASCII(address.slice(at + 1))
  const local = address.slice(0, at).toLowerCase()
  const use = local.startsWith('b+') ? 'return' : local.startsWith('u+') ? 'unsubscribe' : null
  const isToken = use !== null && tokens.read(use, local.slice(2)) !== null
  // What was sent for a domain comes back also when the domain has been given up since.
  if (isToken && isReturnPath(host)) return 'token'
  if (!isOurs(host)) return NO_RELAY
  if (ROLES.has(local)) return 'role'
  return isToken ? 'token' : NOBODY
}

/** The token that mail to an address is counted by, in whatever case it was written and at whichever host; null for the
 *  host's own mailboxes. */
export function tokenIn (address: string): string | null {
  return /^[bu]\+[^@]*/i.exec(address)?.[0].toLowerCase() ?? null
}
