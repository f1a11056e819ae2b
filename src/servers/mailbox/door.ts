import { randomBytes } from 'node:crypto'
import { sha256Hex } from '#src/base/secret.ts'

/** 128 bits, so that the link fits a line of a terminal. */
const TOKEN_BYTES = 16

/** Lets browsers of this machine into the mailbox: by a link that works once, and from then on by a cookie, until this
 *  process ends. Also what a proxy on this machine passes on comes from this machine, so an address opens nothing. */
export class MailboxDoor {
  /** Another one for each process: browsers send cookies of a host to all its ports. */
  readonly cookieName = `jetpost_mailbox_${randomBytes(4).toString('hex')}`
  private readonly ticket = randomBytes(32).toString('base64url')
  /** SHA-256 of the tokens that nobody has used. */
  private readonly unused = new Set<string>()

  /** For a link that works once. */
  mintToken (): string {
    const token = randomBytes(TOKEN_BYTES).toString('base64url')
    this.unused.add(sha256Hex(token))
    return token
  }

  /** What the browser keeps; null = the token was never made, or is used up. */
  enter (token: string): string | null {
    return this.unused.delete(sha256Hex(token)) ? this.ticket : null
  }

  isOpenTo (ticket: string | undefined): boolean {
    return ticket !== undefined && sha256Hex(ticket) === sha256Hex(this.ticket)
  }
}
