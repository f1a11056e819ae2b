/** Mail that the built-in catcher took, as the page Mailbox shows it. */
export interface Mailbox {
  /** The newest first. */
  messages(): CaughtMail[]
  message(id: string): CaughtMail | null
}

export interface CaughtMail {
  id: string
  /** Unix ms. */
  receivedMs: number
  /** Of the envelope. */
  from: string
  to: string[]
  raw: Buffer
}
