/** A mail in the built-in mail catcher. */
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

/** The mails in the mail catcher. */
export interface CaughtMailbox {
  /** Newest first. */
  messages(): CaughtMail[]
  message(id: string): CaughtMail | null
}
