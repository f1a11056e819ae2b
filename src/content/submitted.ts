import type { EmailRequested } from '#streams/email/facts.ts'
import { readType } from './attachments.ts'
import { oneLine, ownHeader } from './headers.ts'
import { trackHtml, type TrackingWish } from './links.ts'
import { decodedLeaf, fieldsOf, leafText, leavesOf, nameOf, type Leaf } from './parts.ts'
import { readMail } from './read.ts'
import { base64Lines, encodeText, type Encoded } from './transfer.ts'

type Attachment = EmailRequested['data']['attachments'][number]

/** A message that came whole: its header as text with CRLF behind each field, and the bytes of its body. */
export interface WholeMessage {
  head: string
  body: Buffer
}

/** What readers of an email are shown of a message that came whole. */
export interface MessageView {
  html: string | null
  text: string | null
  alternatives: Array<{ contentType: string, content: string }>
}

/** Files listed; the others come along all the same. */
const FILES_MAX = 100
const TEXT_MAX = 255
const TEXT_TYPES = ['text/plain', 'text/html']
const NOT_OF_TYPE = /^(charset|name)(\*|$)/i

/** Header and body apart; null = a line of the header is no field. A header that is not UTF-8 is read as what old
 *  programs write. */
export function splitMessage (raw: Buffer): WholeMessage | null {
  const at = raw.indexOf('\r\n\r\n')
  const head = textOf(at === -1 ? raw : raw.subarray(0, at + 2))
  const fields = fieldsOf(head)
  if (fields.length === 0 || fields.some(field => !/^[\x21-\x39\x3b-\x7e]+[ \t]*:/.test(field))) return null
  return { head: joined(fields), body: at === -1 ? Buffer.alloc(0) : raw.subarray(at + 4) }
}

function textOf (bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return new TextDecoder('windows-1252').decode(bytes)
  }
}

function joined (fields: string[]): string {
  return fields.map(field => `${field}\r\n`).join('')
}

/** The header without the fields of these names, which are in lower case. */
export function headWithout (head: string, isGone: (name: string) => boolean): string {
  return joined(fieldsOf(head).filter(field => !isGone(nameOf(field))))
}

/** The files that come along, as they are listed. */
export async function attachmentsOf ({ head, body }: WholeMessage): Promise<Attachment[]> {
  const files = leavesOf(head, body).filter(isFile).slice(0, FILES_MAX)
  return await Promise.all(files.map(async leaf => await attachmentOf(body, leaf)))
}

/** What is neither read as the text nor one more form of it. */
function isFile ({ isFile, type }: Leaf): boolean {
  return isFile || !type.startsWith('text/')
}

async function attachmentOf (body: Buffer, leaf: Leaf): Promise<Attachment> {
  // Names are encoded in three ways: the reader of mail knows them, and gets nothing but the header of the part.
  const named = headWithout(leaf.head, name => name === 'content-transfer-encoding' || !name.startsWith('content-'))
  const mail = await readMail(Buffer.from(`${named}\r\n`, 'latin1'))
  return {
    filename: listable(mail.attachments[0]?.filename ?? '') || nameless(leaf),
    contentType: listable(readType(leaf.contentType)),
    contentId: leaf.contentId === null ? null : listable(leaf.contentId),
    sizeBytes: decodedLeaf(body, leaf).length
  }
}

/** Whatever stands there, a list can hold it. */
function listable (text: string): string {
  return oneLine(text.slice(0, TEXT_MAX)).trim()
}

function nameless ({ type }: Leaf): string {
  return type === 'message/rfc822' ? 'message.eml' : 'unnamed'
}

/** The texts of a message. */
export function viewOf ({ head, body }: WholeMessage): MessageView {
  const shown = leavesOf(head, body).filter(leaf => !isFile(leaf))
  const together = (type: string) => {
    const parts = shown.filter(leaf => leaf.type === type)
    return parts.length === 0 ? null : parts.map(leaf => leafText(body, leaf)).join('\n')
  }
  const others = shown.filter(({ type }) => !TEXT_TYPES.includes(type))
  return {
    html: together('text/html'),
    text: together('text/plain'),
    alternatives: others.map(leaf => ({
      contentType: listable(readType(leaf.contentType, NOT_OF_TYPE)),
      content: leafText(body, leaf)
    }))
  }
}

/** What is done to the texts of a message; left out = nothing. */
export interface TextChanges {
  /** Of html. */
  tracking: TrackingWish | null
  /** Of html and plain text. */
  text: ((text: string) => string) | null
}

/** Bytes above ASCII stand for themselves in these, so that a link is found without reading them. */
const BYTEWISE = /^(iso-8859-\d+|windows-125\d)$/

/** The message with its texts changed; every byte outside of them stays, and within them every byte of html that stands
 *  in no link. What is signed or encrypted, and charsets that are not like ASCII, stay as they are. */
export function changeTexts (message: WholeMessage, changes: TextChanges): WholeMessage {
  let { head } = message
  const { body } = message
  const pieces: Buffer[] = []
  let at = 0
  for (const leaf of leavesOf(head, body)) {
    const encoded = leaf.isSealed || isFile(leaf) ? null : changedLeaf(body, leaf, changes)
    if (encoded === null) continue
    const fields = withEncoding(leaf.head, encoded.encoding)
    if (leaf.headStart === null) {
      head = withEncoding(head, encoded.encoding)
      pieces.push(body.subarray(at, leaf.start))
    } else pieces.push(body.subarray(at, leaf.headStart), Buffer.from(`${fields}\r\n`, 'latin1'))
    pieces.push(encoded.bytes)
    if (leaf.headStart === null && !endsInLine(encoded.bytes)) pieces.push(Buffer.from('\r\n'))
    at = leaf.end
  }
  return at === 0 ? message : { head, body: Buffer.concat([...pieces, body.subarray(at)]) }
}

function endsInLine (bytes: Buffer): boolean {
  return bytes.at(-2) === 0x0d && bytes.at(-1) === 0x0a
}

/** null = nothing changes. */
function changedLeaf (body: Buffer, leaf: Leaf, { tracking, text: change }: TextChanges): Encoded | null {
  const { type, charset } = leaf
  const bytes = decodedLeaf(body, leaf)
  const isUtf8 = charset === 'utf-8' || charset === 'us-ascii'
  if (!TEXT_TYPES.includes(type) || (!isUtf8 && !BYTEWISE.test(charset))) return null
  const text = bytes.toString(isUtf8 ? 'utf8' : 'latin1')
  // Not what it says it is.
  if (isUtf8 && !Buffer.from(text).equals(bytes)) return null
  const changed = change === null ? text : change(text)
  const result = tracking === null || type !== 'text/html' ? changed : trackHtml(changed, tracking)
  if (result === text) return null
  if (isUtf8) return encodeText(result)
  return { encoding: 'base64', bytes: base64Lines(Buffer.from(result, 'latin1').toString('base64')) }
}

function withEncoding (head: string, encoding: string): string {
  const name = 'content-transfer-encoding'
  return headWithout(head, field => field === name) + ownHeader('Content-Transfer-Encoding', encoding)
}

/** The message with our fields: `replaced` stand where the sender's were, else at the end; `added` at the end, but for
 *  those that the sender has written. */
export function withFields (
  head: string,
  { replaced, added }: Record<'replaced' | 'added', ReadonlyArray<{ name: string, value: string }>>
): string {
  const ours = new Map(replaced.map(({ name, value }) => [name.toLowerCase(), ownHeader(name, value)]))
  const own = fieldsOf(head)
  const names = new Set(own.map(nameOf))
  const fields = own.flatMap(field => {
    const name = nameOf(field)
    const value = ours.get(name)
    ours.delete(name)
    return value ?? (replaced.some(one => one.name.toLowerCase() === name) ? [] : `${field}\r\n`)
  })
  const more = added.filter(({ name }) => !names.has(name.toLowerCase())).map(({ name, value }) =>
    ownHeader(name, value)
  )
  return [...fields, ...ours.values(), ...more].join('')
}

/** A picture in a message. */
export interface Picture {
  contentId: string
  mimeType: string
  content: Uint8Array
}

/** The pictures of a message that its html shows by these Content-IDs. */
export function picturesIn (raw: Buffer, named: ReadonlySet<string>): Picture[] {
  const message = splitMessage(raw)
  if (message === null) return []
  return leavesOf(message.head, message.body).flatMap(leaf => {
    const { contentId, type } = leaf
    const isNamed = contentId !== null && type.startsWith('image/') && named.has(contentId)
    return isNamed ? [{ contentId, mimeType: leaf.type, content: decodedLeaf(message.body, leaf) }] : []
  })
}
