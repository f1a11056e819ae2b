import { createHash } from 'node:crypto'
import type { Mailbox } from '#streams/address.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import type { OwnHeader } from '#streams/email/headers.ts'
import { isPlain, MUST_BE_PLAIN } from '#streams/json.ts'
import { readType, typeFault, type FileFault } from './attachments.ts'
import { fileHead, type MessageFile } from './file-head.ts'
import { addressHeader, oneLine, ownHeader, textHeader } from './headers.ts'
import { base64Lines, encodeText } from './transfer.ts'

/** One more form of the same message, such as an invitation (`text/calendar; method=REQUEST`). */
export interface Alternative {
  /** Without `charset`, which is UTF-8. */
  contentType: string
  content: string
}

export const ALTERNATIVES_MAX = 3
/** Each. */
const ALTERNATIVE_BYTES_MAX = 256 * 1024

/** Every fault of the further forms of a message, each field's first one. What is of the wrong type is passed over: the
 *  schema has named it. */
export function alternativeFaults (list: readonly unknown[]): FileFault[] {
  return list.slice(0, ALTERNATIVES_MAX).flatMap((given, i) => {
    const { content_type: type, content } = Object(given) as Record<string, unknown>
    const faults = {
      content_type: typeof type === 'string' ? textTypeFault(type) : null,
      content: typeof content === 'string' ? textFault(content) : null
    }
    return Object.entries(faults).flatMap(([name, fault]) =>
      fault === null ? [] : [{ field: `[${i}].${name}`, ...fault }]
    )
  })
}

export function readAlternative (given: { content_type: string, content: string }): Alternative {
  return { contentType: readType(given.content_type, /^(charset|name)(\*|$)/i), content: given.content }
}

/** Plain text and html have fields of their own; in `multipart/alternative` a reader shows one form only. */
function textTypeFault (type: string): Omit<FileFault, 'field'> | null {
  const fault = typeFault(type)
  if (fault !== null) return fault
  if (/^text\/(?!(plain|html)\s*(;|$))/i.test(type)) return null
  return {
    code: 'invalid_value',
    message: 'content_type must be a text type like text/calendar, other than text/plain and text/html.'
  }
}

function textFault (content: string): Omit<FileFault, 'field'> | null {
  if (Buffer.byteLength(content) > ALTERNATIVE_BYTES_MAX) {
    return { code: 'too_long', message: 'content must be at most 256 kB.' }
  }
  return isPlain(content) ? null : { code: 'invalid_characters', message: `content must ${MUST_BE_PLAIN}.` }
}

/** Goes up whenever the same input would make other bytes: claims store it, so that a copy can be compared with the
 *  first. */
export const RENDERER = '4'

export interface MimeMessage {
  /** With its angle brackets. */
  messageId: string
  /** RFC 3339. */
  date: string
  from: Mailbox
  /** All of them; those in bcc are named nowhere. */
  recipients: EmailRequested['data']['recipients']
  replyTo: Mailbox[]
  subject: string
  /** The sender's own, in their order, after ours. */
  headers: OwnHeader[]
  html: string | null
  text: string | null
  attachments: MessageFile[]
  /** Further forms of the body, the last of which a mail program shows that knows it. */
  alternatives?: readonly Alternative[]
  /** Whether addresses beyond ASCII may stand raw in the headers (RFC 6532), since the message's own way takes them;
   *  else they are shown as empty groups. */
  utf8?: boolean
}

/** A part: its Content- headers, an empty line and its body, without the last line end. */
type Part = Buffer[]

const END = Buffer.from('\r\n')
/** Domains are A-labels: only local parts can have it. */
const NON_ASCII = /\P{ASCII}/u

/** Whether an address needs SMTPUTF8 (RFC 6531) on its way. */
export function isBeyondAscii (address: string): boolean {
  return NON_ASCII.test(address)
}

/** The message as it goes out, CRLF line ends only: RFC 5322 headers, then mixed(alternative(text, related(html,
 *  images…), alternatives…), files…), where what would hold one part is that part. What has a `contentId` goes beside
 *  the html, and as a file when there is none. The bytes are a pure function of the input. Headers are ASCII unless
 *  `utf8` lets an address stand as it is. */
export function composeMessage (message: MimeMessage): Buffer {
  const { html, text, attachments, alternatives = [], messageId } = message
  // A text beside the html would be shown as one more body.
  const isImage = ({ contentId, contentType }: MessageFile) =>
    html !== null && contentId !== null && !/^text\//i.test(contentType)
  const images = attachments.filter(isImage).map(file => filePart(file, 'inline'))
  const files = attachments.filter(file => !isImage(file)).map(file => filePart(file, 'attachment'))
  const related = html === null ? [] : [together('related', messageId, [textPart('text/html', html), ...images])]
  const plain = text === null && html !== null ? [] : [textPart('text/plain', text ?? '')]
  const others = alternatives.map(({ contentType, content }) => textPart(oneLine(contentType), content))
  const forms = together('alternative', messageId, [...plain, ...related, ...others])
  const body = together('mixed', messageId, [forms, ...files])
  return Buffer.concat([Buffer.from(envelopeHeaders(message)), ...body, END])
}

function envelopeHeaders (
  { messageId, date, from, recipients, replyTo, subject, headers, utf8 = false }: MimeMessage
): string {
  const shown = recipients.map(recipient => ({ ...recipient, hidden: !utf8 && isBeyondAscii(recipient.address) }))
  const to = shown.filter(({ kind }) => kind === 'to')
  const cc = shown.filter(({ kind }) => kind === 'cc')
  // One that may not be shown cannot be answered to: without it answers go to `from`, with it nowhere.
  const answers = replyTo.filter(({ address }) => utf8 || !isBeyondAscii(address))
  return addressHeader('From', [from]) +
    (to.length === 0 && cc.length === 0 ? 'To: undisclosed-recipients:;\r\n' : '') +
    (to.length === 0 ? '' : addressHeader('To', to)) +
    (cc.length === 0 ? '' : addressHeader('Cc', cc)) +
    (answers.length === 0 ? '' : addressHeader('Reply-To', answers)) +
    textHeader('Subject', subject) +
    `Date: ${mailDate(date)}\r\n` +
    `Message-ID: ${messageId}\r\n` +
    'MIME-Version: 1.0\r\n' +
    headers.map(({ name, value }) => ownHeader(name, value)).join('')
}

/** `date` in RFC 3339. Source: RFC 5322 3.3. */
export function mailDate (date: string): string {
  return new Date(date).toUTCString().replace('GMT', '+0000')
}

function textPart (type: string, text: string): Part {
  const { encoding, bytes } = encodeText(text)
  return [
    Buffer.from(`Content-Type: ${type}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`),
    bytes
  ]
}

function filePart (file: MessageFile, disposition: 'inline' | 'attachment'): Part {
  return [Buffer.from(`${fileHead(file, disposition)}\r\n`), base64Lines(file.content)]
}

/** Several parts as one of this multipart type; one stays what it is. */
function together (type: 'mixed' | 'alternative' | 'related', messageId: string, parts: Part[]): Part {
  if (parts.length === 1) return parts[0]!
  // "=_" can stand in neither of the two encodings, so the boundary is in no body; that of another type begins
  // otherwise.
  const boundary = `=_${type}_${createHash('sha256').update(messageId).digest('hex').slice(0, 32)}`
  const root = type === 'related' ? '\r\n type="text/html";' : ''
  return [
    Buffer.from(`Content-Type: multipart/${type};${root}\r\n boundary="${boundary}"\r\n`),
    ...parts.flatMap(part => [Buffer.from(`\r\n--${boundary}\r\n`), ...part]),
    Buffer.from(`\r\n--${boundary}--`)
  ]
}
