import type { Mailbox } from '#streams/address.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { EmailRequested } from '#streams/email/facts.ts'

/** The text form of a mailbox, as in a request: `a@b.c` or `Name <a@b.c>`; a name that is more than words is quoted
 *  (RFC 5322 3.2.4). */
export function mailboxText ({ address, name }: Mailbox): string {
  if (name === null) return address
  return /^[\p{L}\p{M}\p{N} !#$%&'*+/=?^_`{|}~-]+$/u.test(name)
    ? `${name} <${address}>`
    : `"${name.replaceAll(/["\\]/g, '\\$&')}" <${address}>`
}

/** What was asked, whichever fact tells it. */
export interface RequestedEmail extends Omit<EmailRequested['data'], 'content'> {
  account: string
  /** When, and where the request lies in REQUESTS. */
  at: string
  request: number
}

export function requestedIn ({ fact, seq }: Recorded<AnyFact>): RequestedEmail[] {
  switch (fact.type) {
    case 'email.requested':
      return [{ ...fact.data, account: fact.account, at: fact.time, request: seq }]
    case 'email.recorded':
      return [{ ...fact.data, account: fact.account, at: fact.data.requestedAt }]
    default:
      return []
  }
}
