import { createHash } from 'node:crypto'
import type { Mailbox } from '#streams/address.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import { addressHeader, textHeader } from './headers.ts'
import { encodeText } from './transfer.ts'

/** Goes up whenever the same input would make other bytes: claims keep it, so that a copy can be told from its first. */
export const RENDERER = '2'

export interface Message {
  /** With its angle brackets. */
  messageId: string
  /** RFC 3339. */
  date: string
  from: Mailbox
  /** All of them; those in bcc are named nowhere. */
  recipients: EmailRequested['data']['recipients']
  subject: string
  html: string | null
  text: string | null
  /** Whether addresses beyond ASCII may stand raw in the headers (RFC 6532), since the message's own way takes them; else they are shown as
   *  empty groups. */
  utf8?: boolean
}

const END = Buffer.from('\r\n')
/** Domains are A-labels: only local parts can have it. */
const NON_ASCII = /\P{ASCII}/u

/** Whether an address needs SMTPUTF8 (RFC 6531) on its way. */
export function isBeyondAscii (address: string): boolean {
  return NON_ASCII.test(address)
}

/** The message as it goes out, CRLF line ends only: RFC 5322 headers, then one part, or text and html as alternatives.
 *  The bytes are a pure function of the input. Headers are ASCII unless `utf8` lets an address stand as it is. */
export function composeMessage (message: Message): Buffer {
  const head = envelopeHeaders(message)
  const { html, text, messageId } = message
  if (html !== null && text !== null) return alternatives(head, messageId, text, html)
  const [type, body] = html !== null ? ['html', html] : ['plain', text ?? '']
  return Buffer.concat([...part(head, type, body), END])
}

function envelopeHeaders ({ messageId, date, from, recipients, subject, utf8 = false }: Message): string {
  const shown = recipients.map(recipient => ({ ...recipient, hidden: !utf8 && isBeyondAscii(recipient.address) }))
  const to = shown.filter(({ kind }) => kind === 'to')
  const cc = shown.filter(({ kind }) => kind === 'cc')
  return addressHeader('From', [from]) +
    (to.length === 0 && cc.length === 0 ? 'To: undisclosed-recipients:;\r\n' : '') +
    (to.length === 0 ? '' : addressHeader('To', to)) +
    (cc.length === 0 ? '' : addressHeader('Cc', cc)) +
    textHeader('Subject', subject) +
    `Date: ${new Date(date).toUTCString().replace('GMT', '+0000')}\r\n` +
    `Message-ID: ${messageId}\r\n` +
    'MIME-Version: 1.0\r\n'
}

function alternatives (head: string, messageId: string, text: string, html: string): Buffer {
  // "=_" can stand in neither of the two encodings, so the boundary is in no body.
  const boundary = `=_${createHash('sha256').update(messageId).digest('hex').slice(0, 32)}`
  return Buffer.concat([
    ...part(`${head}Content-Type: multipart/alternative;\r\n boundary="${boundary}"\r\n\r\n--${boundary}\r\n`, 'plain', text),
    ...part(`\r\n--${boundary}\r\n`, 'html', html),
    Buffer.from(`\r\n--${boundary}--\r\n`)
  ])
}

function part (head: string, type: string, body: string): Buffer[] {
  const { encoding, bytes } = encodeText(body)
  return [Buffer.from(`${head}Content-Type: text/${type}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`), bytes]
}
