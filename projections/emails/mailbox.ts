import type { Mailbox } from '#streams/address.ts'

/** The text form of a mailbox, as in a request: `a@b.c` or `Name <a@b.c>`; a name that is more than words is quoted
 *  (RFC 5322 3.2.4). */
export function mailboxText ({ address, name }: Mailbox): string {
  if (name === null) return address
  return /^[\p{L}\p{M}\p{N} !#$%&'*+/=?^_`{|}~-]+$/u.test(name)
    ? `${name} <${address}>`
    : `"${name.replaceAll(/["\\]/g, '\\$&')}" <${address}>`
}
