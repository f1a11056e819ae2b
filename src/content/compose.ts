import { isErased } from '#streams/email/erase.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import type { OwnHeader } from '#streams/email/headers.ts'
import { signMessage, type DkimSigner } from './dkim.ts'
import { trackHtml, type TrackingWish } from './links.ts'
import { composeMessage, isBeyondAscii, mailDate } from './mime.ts'
import { fieldsOf, nameOf } from './parts.ts'
import { changeTexts, withFields } from './submitted.ts'
import { textFromHtml } from './text.ts'
import { CLICK_URL_MAX, type Pointer, type Tokens } from './token.ts'

export type Content = NonNullable<EmailRequested['data']['content']>

/** What differs between copies, and is the same in a second copy. */
export interface MessageCopy {
  /** With its angle brackets. */
  messageId: string
  /** RFC 3339. */
  date: string
}

/** What a message gets of the app it leaves. */
export interface Outfit {
  tokens: Tokens
  /** Origin of tracking and unsubscribe links; null = there are none. */
  trackingUrl: string | null
  /** Host of the return path; null = bounces go to the From address. */
  returnPathHost: string | null
  signers: readonly DkimSigner[]
}

/** A recipient's message as it goes out, and its envelope: `from` = the sender, `envelopeId` = what a bounce names it
 *  by (RFC 3461's ENVID), `utf8` = it needs SMTPUTF8 on its way, `eightBit` = where it has bytes above ASCII; none when
 *  left out. */
export interface Composed {
  from: string
  envelopeId: string
  message: Buffer
  utf8: boolean
  eightBit?: 'head' | 'body'
}

/** Stands for the recipient's own unsubscribe page wherever a body has it; empty in mail without such a page. */
const UNSUBSCRIBE_URL = '%unsubscribe_url%'

/** The message for one recipient of the request at `pointer`, signed. A pure function of its input. */
export async function composeFor (
  request: EmailRequested['data'],
  pointer: Pointer,
  content: Content,
  copy: MessageCopy,
  outfit: Outfit
): Promise<Composed> {
  const { from, recipients } = request
  // Only its own envelope decides: no recipient fails because another's address is beyond ASCII.
  const utf8 = isBeyondAscii(from.address) || isBeyondAscii(recipients[pointer.n]!.address)
  const envelopeId = outfit.tokens.mint('return', pointer)
  const ours = ourHeaders(request, pointer, outfit, envelopeId)
  const { message, eightBit } = request.head === undefined
    ? { message: madeOf(request, pointer, content, copy, outfit, ours, utf8) }
    : wholeOf({ ...request, head: request.head }, pointer, content, copy, outfit, ours)
  const timeS = Math.floor(Date.parse(copy.date) / 1000)
  const sender = outfit.returnPathHost === null ? from.address : `b+${envelopeId}@${outfit.returnPathHost}`
  return { from: sender, envelopeId, message: await signMessage(message, outfit.signers, timeS), utf8, eightBit }
}

/** The message that a request's fields make. */
function madeOf (
  request: EmailRequested['data'],
  pointer: Pointer,
  content: Content,
  copy: MessageCopy,
  outfit: Outfit,
  ours: OwnHeader[],
  utf8: boolean
): Buffer {
  const { from, recipients, replyTo, subject, headers, attachments } = request
  const files = attachments.map((attachment, i) => ({ ...attachment, content: content.files[i]! }))
  return composeMessage({
    ...copy,
    ...bodies(request, pointer, content, outfit),
    from,
    // Other recipients do not see that there was one.
    recipients: recipients.filter(({ address }) => !isErased(address)),
    replyTo,
    subject,
    headers: [...ours, ...headers],
    attachments: files,
    alternatives: content.alternatives,
    utf8
  })
}

/** What a header of ours never yields to the sender's. */
const OURS_ALONE = /^message-id$/i
const WAYS_OUT = /^list-unsubscribe/i

/** The message that came whole, by SMTP: with our fields, and nothing else that is not asked for. */
function wholeOf (
  request: EmailRequested['data'] & { head: string },
  pointer: Pointer,
  content: Content,
  copy: MessageCopy,
  outfit: Outfit,
  ours: OwnHeader[]
): { message: Buffer, eightBit?: 'head' | 'body' } {
  const whole = { head: request.head, body: Buffer.from(content.mime ?? '', 'base64') }
  const tracking = trackingOf(request, pointer, outfit)
  const text = request.unsubscribe ? (body: string) => withUnsubscribeUrl(body, request, pointer, outfit) : null
  const { head, body } = tracking === null && text === null ? whole : changeTexts(whole, { tracking, text })
  // Half of a way out would be none: the sender's own stands alone.
  const hasOwn = fieldsOf(head).some(field => WAYS_OUT.test(nameOf(field)))
  const all = [{ name: 'Message-ID', value: copy.messageId }, { name: 'Date', value: mailDate(copy.date) }, ...ours]
    .filter(({ name }) => !hasOwn || !WAYS_OUT.test(name))
  const fields = withFields(head, {
    replaced: all.filter(({ name }) => OURS_ALONE.test(name)),
    added: all.filter(({ name }) => !OURS_ALONE.test(name))
  })
  const message = Buffer.concat([Buffer.from(`${fields}\r\n`), body])
  if (isBeyondAscii(fields)) return { message, eightBit: 'head' }
  return hasHighByte(body) ? { message, eightBit: 'body' } : { message }
}

/** Each byte of up to 25 MB, for each recipient. */
function hasHighByte (bytes: Buffer): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i]! > 0x7f) return true
  return false
}

function bodies (
  request: EmailRequested['data'],
  pointer: Pointer,
  content: Content,
  outfit: Outfit
): { html: string | null, text: string | null } {
  const { html } = content
  // Made from the sender's html: plain text has no tracking links. What was made of one html serves all its recipients,
  // so what differs comes last.
  const text = content.text ?? (html === null ? null : textFromHtml(html) || null)
  const personal = (body: string | null) => body === null ? null : withUnsubscribeUrl(body, request, pointer, outfit)
  return { html: personal(html === null ? null : tracked(html, request, pointer, outfit)), text: personal(text) }
}

function withUnsubscribeUrl (body: string, request: EmailRequested['data'], pointer: Pointer, outfit: Outfit): string {
  if (!body.includes(UNSUBSCRIBE_URL)) return body
  return body.replaceAll(UNSUBSCRIBE_URL, (request.unsubscribe ? unsubscribeUrl(pointer, outfit) : null) ?? '')
}

function tracked (html: string, request: EmailRequested['data'], pointer: Pointer, outfit: Outfit): string {
  const wish = trackingOf(request, pointer, outfit)
  return wish === null ? html : trackHtml(html, wish)
}

/** null = nothing is tracked. */
function trackingOf (
  { track: { opens, clicks } }: EmailRequested['data'],
  pointer: Pointer,
  { tokens, trackingUrl }: Outfit
): TrackingWish | null {
  if (trackingUrl === null || (!opens && !clicks)) return null
  const token = tokens.clicks(pointer)
  // What leads to our page has yet to get its place in it.
  const isOurs = (url: string) => url.includes(UNSUBSCRIBE_URL)
  const click = (url: string) => (url.length > CLICK_URL_MAX || isOurs(url) ? url : `${trackingUrl}/c/${token(url)}`)
  return {
    click: clicks ? click : null,
    pixel: opens ? `${trackingUrl}/o/${tokens.mint('open', pointer)}.gif` : null
  }
}

function unsubscribeUrl (pointer: Pointer, { tokens, trackingUrl }: Outfit): string | null {
  return trackingUrl === null ? null : `${trackingUrl}/u/${tokens.mint('unsubscribe', pointer)}`
}

/** List-Unsubscribe (RFC 2369, 8058), Feedback-ID (Gmail's: the last of its fields stays the same for ever), and where
 *  complaints go (RFC 9477). */
function ourHeaders (
  { key, headers, unsubscribe }: EmailRequested['data'],
  pointer: Pointer,
  outfit: Outfit,
  returnToken: string
): OwnHeader[] {
  const { tokens, returnPathHost: host } = outfit
  const page = unsubscribe ? unsubscribeUrl(pointer, outfit) : null
  const mailto = `mailto:u+${tokens.mint('unsubscribe', pointer)}@${host}?subject=unsubscribe`
  const ways = [page, unsubscribe && host !== null ? mailto : null].filter(way => way !== null)
  const ours = [
    ...(ways.length === 0 ? [] : [{ name: 'List-Unsubscribe', value: ways.map(way => `<${way}>`).join(', ') }]),
    ...(page === null ? [] : [{ name: 'List-Unsubscribe-Post', value: 'List-Unsubscribe=One-Click' }]),
    { name: 'Feedback-ID', value: `${key}:jetpost` },
    ...(host === null ? [] : [{ name: 'CFBL-Address', value: `fbl@${host}; report=arf` }]),
    // A report that returns our headers can prove which mail it is about.
    { name: 'CFBL-Feedback-ID', value: returnToken }
  ]
  const own = new Set(headers.map(({ name }) => name.toLowerCase()))
  return ours.filter(({ name }) => !own.has(name.toLowerCase()))
}
