import { addressesIn } from './addresses.ts'
import { type Entity, fieldOf, fieldsOf, type HeaderField, readEntity, readFields } from './entity.ts'
import type { KnownAddresses } from './plain.ts'
import { COPIES } from './signs.ts'

/** What a person was meant to read, and the headers of the returned message that came after it. */
interface Prose {
  head: string
  returned: HeaderField[]
  returnedText: string
}

/** More than any explanation, and little enough for every pattern. */
const HEAD_LENGTH_MAX = 16_000

/** A phrase without dashes, colon or full stop around it may be part of a sentence. */
const COPY_FRAME = /^[ \t]{0,20}[-=_*|#>]{2}|[:.。：)]\s*$|[-=_*|#]{2,}\s*$|follow(?:s|ing)?\s*$/i
const HEADER_LINE = /^(?:[!-9;-~]{2,60}:(?: |$|[<"a-z\d])|[ \t]+\S)/i
const TELLING_HEADER = /^(?:return-path|received|message-id|mime-version|dkim-signature|x-[\w-]+|from|date|subject):/i

/** Separates what the mail server says from what it returns: nothing in a returned message may pass for a diagnosis. */
function partProse (text: string): Prose {
  const lines = text.slice(0, 131_072).split('\n')
  const cut = lines.findIndex((_, n) => isCopyLine(lines, n) || isHeaderBlock(lines, n))
  if (cut === -1) return { head: text.slice(0, HEAD_LENGTH_MAX), returned: [], returnedText: '' }
  const rest = lines.slice(isHeaderBlock(lines, cut) ? cut : cut + 1)
  const start = rest.findIndex((_, n) => n > 40 || isHeaderBlock(rest, n) || /^[ \t>|]*[\w-]{2,40}:\s/.test(rest[n]!))
  const returnedText = withoutMargin(rest.slice(Math.max(start, 0))).join('\n')
  const head = lines.slice(0, cut).join('\n').slice(0, HEAD_LENGTH_MAX)
  return { head, returned: readFields(returnedText.trimStart()).fields, returnedText }
}

function isCopyLine (lines: string[], n: number): boolean {
  const line = lines[n]!
  if (line.length > 200 || !COPIES.test(line) || !COPY_FRAME.test(line)) return false
  if (!/^[ \t]*[-=*|#]{3}/.test(line) && !headsCopy(lines, n + 1)) return false
  // `Your message was not delivered` and its kin speak of the message; they do not head it.
  return !/(?:not|could|cannot|can't|failed|rejected by|received at|unable|wasn't|has been|size)/i.test(line) ||
    /^[ \t]*[-=*|#]{3}/.test(line)
}

/** A heading without dashes must be followed by a header, or by nothing: some servers describe the message first and
 *  the reason last. */
function headsCopy (lines: string[], from: number): boolean {
  const next = lines.slice(from, from + 12).filter(line => line.trim() !== '')
  return next.length === 0 || next.some(line => TELLING_HEADER.test(line.replace(/^[ \t>|]+/, '')))
}

/** Quoted or set in, as its first line is. */
function withoutMargin (lines: string[]): string[] {
  const margin = /^[ \t>|]{0,16}/.exec(lines.find(line => line.trim() !== '') ?? '')![0]
  return margin === ''
    ? lines
    : lines.map(line => line.startsWith(margin) ? line.slice(margin.length) : line.replace(/^[ \t]{0,8}[>|][ \t]?/, ''))
}

/** Four header lines in a row, one of them no letter writer's. The whole may be quoted or set in. */
function isHeaderBlock (lines: string[], n: number): boolean {
  const [margin] = /^[>|]{0,2}[ \t]{0,12}/.exec(lines[n]!)!
  if (!TELLING_HEADER.test(lines[n]!.slice(margin.length))) return false
  const block = lines.slice(n, n + 4).map(line => line.startsWith(margin) ? line.slice(margin.length) : line)
  if (block.length < 4 && n + block.length < lines.length) return false
  return block.length >= 3 && block.every(line => HEADER_LINE.test(line)) &&
    (/^(?:return-path|received|message-id|x-|dkim|mime)/i.test(block[0]!) || countNames(block) >= 3)
}

function countNames (block: string[]): number {
  return block.filter(line => TELLING_HEADER.test(line)).length
}

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: ' ', apos: "'" }

/** The text of a page, a line for each block. Linear, without a tree: it is read by patterns, not people. */
function htmlText (html: string): string {
  const flat = /<pre\b/i.test(html) ? html : html.split('\n').map(line => line.trim()).join(' ')
  return flat
    .replaceAll(/<(style|script|title)\b[^<>]*>[^<]*<\/\1>/gi, ' ')
    .replaceAll(/<!--[^<>]*-->/g, ' ')
    .replaceAll(/<\/?(?:br|p|div|tr|li|ul|h\d|table|pre|blockquote|hr)\b[^<>]*>/gi, '\n')
    .replaceAll(/<\/?[a-z][^<>]*>/gi, ' ')
    .replaceAll(/&(amp|lt|gt|quot|nbsp|apos);/gi, (_, name: string) => ENTITIES[name.toLowerCase()]!)
    .replaceAll(/&#(\d{1,6});/g, (_, point: string) => String.fromCodePoint(Number(point)))
    .replaceAll(/[ \t]{2,64}/g, ' ')
}

/** A message laid out as a report: who speaks, what is said to people and to machines, what is given back. */
export interface ReportView {
  top: HeaderField[]
  subject: string | null
  /** What a person was to read, up to the returned message. */
  head: string
  /** Texts that may be JSON, from their start: what becomes of mail is also told so. */
  json: string[]
  /** Machine-readable parts; `declared` when their type says so. */
  statuses: Array<{ text: string, declared: boolean }>
  feedback: Array<{ text: string, declared: boolean }>
  /** What happened to a message that had arrived (RFC 8098). */
  dispositions: string[]
  /** The header of the returned message, as far as it came back. */
  returned: HeaderField[]
  hasCopy: boolean
  isReport: boolean
}

const TEXTS_MAX = 6
const COPY_TYPES = /^(?:message\/(?:rfc822|global|partial|rfc822-headers|global-headers)|text\/rfc822(?:-headers)?)$/
const STATUS_TYPES = /^message\/(?:global-)?delivery-status$/
const DISPOSITION = 'message/disposition-notification'
const LOOKS_STATUS = /^(?:Final|Original)-Recipient[ \t]*:/im
const LOOKS_FEEDBACK = /^Feedback-Type[ \t]*:/im
const BESIDE_FEEDBACK = /^(?:User-Agent|Version|Original-Mail-From|Original-Rcpt-To|Source-IP|Arrival-Date)[ \t]*:/im

export function viewOf (raw: Uint8Array): ReportView {
  const root = unwrap(readEntity(raw))
  const leaves = leavesOf(root)
  const texts = leaves.filter(isProse).slice(0, TEXTS_MAX).map(leaf =>
    leaf.type === 'text/html' ? htmlText(leaf.text) : leaf.text
  )
  const prose = partProse(texts.join('\n\n'))
  const copies = leaves.filter(leaf => COPY_TYPES.test(leaf.type))
  const returned = copies.length > 0 ? copyFields(copies[0]!.text) : prose.returned
  return {
    top: root.headers,
    subject: fieldOf(root.headers, 'subject'),
    head: prose.head,
    json: texts.filter(text => /^\s{0,40}\{/.test(text)),
    statuses: pick(leaves, STATUS_TYPES, text => LOOKS_STATUS.test(text)),
    feedback: pick(
      leaves,
      /^message\/feedback-report$/,
      text => LOOKS_FEEDBACK.test(text) && BESIDE_FEEDBACK.test(text)
    ),
    dispositions: leaves.filter(leaf => leaf.type === DISPOSITION).map(({ text }) => text),
    returned,
    hasCopy: copies.length > 0 || prose.returned.length > 0,
    isReport: (root.type === 'multipart/report' && /^(?:delivery-status)?$/i.test(root.params['report-type'] ?? '')) ||
      leaves.some(leaf => STATUS_TYPES.test(leaf.type))
  }
}

/** Whom the addresses in a report may belong to. */
export function knownIn ({ top, returned }: ReportView): KnownAddresses {
  const failed = fieldsOf(top, 'x-failed-recipients').flatMap(value => addressesIn(value))
  const meant = fieldsOf(returned, 'to', 'cc', 'x-original-to', 'x-envelope-to', 'envelope-to', 'x-rcpt-to').flatMap(
    value => addressesIn(value)
  )
  const lists = fieldsOf(top, 'x-beenthere').flatMap(value => addressesIn(value))
  return {
    recipients: [failed, meant, lists].find(found => found.length > 0) ?? [],
    others: [
      ...fieldsOf(top, 'from', 'to', 'reply-to', 'sender', 'delivered-to', 'x-original-to'),
      ...fieldsOf(returned, 'from', 'sender', 'reply-to', 'return-path')
    ]
      .flatMap(value => addressesIn(value))
  }
}

/** A report that came as an attached message, with nothing around it. */
function unwrap (root: Entity): Entity {
  return root.type === 'message/rfc822' ? readEntity(Buffer.from(root.text)) : root
}

function leavesOf (entity: Entity): Entity[] {
  if (entity.parts.length === 0) return [entity]
  const leaves = entity.parts.flatMap(leavesOf)
  if (entity.type !== 'multipart/alternative') return leaves
  const plain = leaves.some(leaf => leaf.type === 'text/plain' && leaf.text.trim() !== '')
  return plain ? leaves.filter(leaf => leaf.type !== 'text/html') : leaves
}

/** Unlabelled parts and the preamble of a broken multipart are text too; attached files are not. */
function isProse (leaf: Entity): boolean {
  if (leaf.type !== 'text/plain' && leaf.type !== 'text/html' && !leaf.type.startsWith('multipart/')) return false
  return !LOOKS_STATUS.test(leaf.text) || leaf.type === 'text/html' ||
    !/^\s*(?:Reporting-MTA|(?:Final|Original)-Recipient)[ \t]*:/i.test(leaf.text)
}

function copyFields (text: string): HeaderField[] {
  return readFields(text.replace(/^\s+/, '').replace(/^>?From [^\n]{0,998}\n/, '')).fields
}

function pick (
  leaves: Entity[],
  type: RegExp,
  looks: (text: string) => boolean
): Array<{ text: string, declared: boolean }> {
  const declared = leaves.filter(leaf => type.test(leaf.type))
  if (declared.length > 0) return declared.map(({ text }) => ({ text, declared: true }))
  return leaves.filter(leaf =>
    !COPY_TYPES.test(leaf.type) && leaf.type !== 'text/html' && leaf.type !== DISPOSITION && looks(leaf.text)
  ).map(({ text }) => ({ text, declared: false }))
}
