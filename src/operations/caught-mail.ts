/** A mail that the built-in catcher took. */
export interface CaughtMail {
  /** `msg_…` */
  id: string
  /** Unix ms. */
  receivedMs: number
  /** The addresses of the envelope, not of the headers. */
  from: string
  to: string[]
  /** The message as it came. */
  raw: Buffer
}

/** The mails that the catcher holds. */
export interface CaughtMailbox {
  /** Newest first. */
  messages(): CaughtMail[]
  message(id: string): CaughtMail | null
}
