import type { EmailRequested } from '#streams/email/facts.ts'
import { composeMessage, isBeyondAscii } from './mime.ts'

export type Content = NonNullable<EmailRequested['data']['content']>

/** What tells one copy from another, and a second copy from its first. */
export interface Copy {
  /** With its angle brackets. */
  messageId: string
  /** RFC 3339. */
  date: string
}

/** The message that goes to recipient `n`, as its bytes; `utf8` = it needs SMTPUTF8 on its way. A pure function of its input. */
export function composeFor (request: EmailRequested['data'], n: number, content: Content, copy: Copy): { message: Buffer, utf8: boolean } {
  const { from, recipients, replyTo, subject, headers, attachments } = request
  // Only its own envelope decides: no recipient fails because another's address is beyond ASCII.
  const utf8 = isBeyondAscii(from.address) || isBeyondAscii(recipients[n]!.address)
  const files = attachments.map((attachment, i) => ({ ...attachment, content: content.files[i]! }))
  const message = composeMessage({ ...copy, html: content.html, text: content.text, from, recipients, replyTo, subject, headers, attachments: files, utf8 })
  return { message, utf8 }
}
