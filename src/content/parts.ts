/** A part of a message that holds no other parts, by its place in the message's body. */
export interface Leaf {
  /** Its header fields, in latin1; the message's own where it is the only part. */
  head: string
  /** Where these begin in the body; null = they are the message's own. */
  headStart: number | null
  /** Where its content is, without the line end that belongs to what follows. */
  start: number
  end: number
  /** In lower case: `text/html`. */
  type: string
  /** With its parameters, as it is written. */
  contentType: string
  /** In lower case: `utf-8`. */
  charset: string
  /** In lower case: `base64`. */
  encoding: string
  /** Without its angle brackets. */
  contentId: string | null
  /** A file rather than what is read, as its header says. */
  isFile: boolean
  /** Within what is signed or encrypted: changed, it would be worth nothing. */
  isSealed: boolean
}

/** Deeper, or more, nobody means them to be read. */
const DEPTH_MAX = 20
const PARTS_MAX = 500
const HEAD_BYTES_MAX = 16 * 1024
const END_OF_HEAD = Buffer.from('\r\n\r\n')

interface Span {
  head: string
  fields: Fields
  headStart: number | null
  start: number
  end: number
  depth: number
  isSealed: boolean
  /** What a part without a Content-Type is. Source: RFC 2046 5.1.5. */
  fallback: string
}

/** The parts of a message, in their order; of one that is made to be too much work the first ones. The work grows with
 *  the body and, up to a bound, with its depth. Source: RFC 2045, RFC 2046 5.1. */
export function leavesOf (head: string, body: Buffer): Leaf[] {
  const leaves: Leaf[] = []
  const isSealed = false
  const whole = { head, fields: readFields(head), headStart: null, start: 0, end: body.length }
  const waiting: Span[] = [{ ...whole, depth: 0, isSealed, fallback: PLAIN }]
  let seen = 0
  for (let span = waiting.pop(); span !== undefined && seen < PARTS_MAX; span = waiting.pop()) {
    seen++
    const inner = spansIn(span, body)
    if (inner === null) leaves.push(leafOf(span))
    else waiting.push(...inner.reverse())
  }
  return leaves
}

const PLAIN = 'text/plain'

/** The parts in a multipart; null = it is none. */
function spansIn (span: Span, body: Buffer): Span[] | null {
  const type = span.fields.get('content-type') ?? span.fallback
  const boundary = /^\s*multipart\//i.test(type) ? parameterOf(type, 'boundary') : null
  if (boundary === null || boundary === '' || span.depth >= DEPTH_MAX) return null
  const marks = marksOf(body, Buffer.from(`--${boundary}`, 'latin1'), span)
  const isSealed = span.isSealed || /^\s*multipart\/(signed|encrypted)\b/i.test(type)
  const fallback = /^\s*multipart\/digest\b/i.test(type) ? 'message/rfc822' : PLAIN
  return marks.slice(0, -1).flatMap(({ end: from, isLast }, i) => {
    if (isLast) return []
    const part = partAt(body, from, marks[i + 1]!.start)
    return [{ ...part, depth: span.depth + 1, isSealed: isSealed || part.isUnread, fallback }]
  })
}

interface Mark {
  /** Of the line end before it, which is the boundary's. */
  start: number
  /** Of the line after it. */
  end: number
  isLast: boolean
}

/** The boundaries in a multipart, and its end. */
function marksOf (body: Buffer, line: Buffer, { start, end }: Span): Mark[] {
  const marks: Mark[] = []
  // No further than the part: there may be many, and much behind them.
  const searched = body.subarray(0, end)
  for (let at = searched.indexOf(line, start); at !== -1; at = searched.indexOf(line, at + 1)) {
    const isAtStart = at === start || (body[at - 1] === 0x0a && body[at - 2] === 0x0d)
    const lineEnd = isAtStart ? endOfMark(body, at + line.length, end) : null
    if (lineEnd === null) continue
    const isLast = body[at + line.length] === 0x2d && body[at + line.length + 1] === 0x2d
    marks.push({ start: Math.max(start, at === start ? at : at - 2), end: lineEnd, isLast })
    if (isLast || marks.length > PARTS_MAX) break
  }
  marks.push({ start: end, end, isLast: true })
  return marks
}

/** Where the line ends, if nothing but `--` and blanks follows; else the boundary is a longer one. */
function endOfMark (body: Buffer, from: number, end: number): number | null {
  let at = from
  if (body[at] === 0x2d && body[at + 1] === 0x2d) at += 2
  while (at < end && (body[at] === 0x20 || body[at] === 0x09)) at++
  if (at >= end) return end
  return body[at] === 0x0d && body[at + 1] === 0x0a ? at + 2 : null
}

function partAt (
  body: Buffer,
  from: number,
  to: number
): Pick<Span, 'head' | 'fields' | 'headStart' | 'start' | 'end'> & { isUnread: boolean } {
  const headStart = from
  const end = Math.max(from, to)
  const none = { head: '', fields: readFields(''), headStart, end }
  if (body[from] === 0x0d && body[from + 1] === 0x0a) {
    return { ...none, start: Math.min(end, from + 2), isUnread: false }
  }
  const found = body.subarray(from, Math.min(end, from + HEAD_BYTES_MAX)).indexOf(END_OF_HEAD)
  // Longer than anybody writes it: what it says is not looked at, and nothing of it changes.
  if (found === -1 && end - from > HEAD_BYTES_MAX) return { ...none, start: from, isUnread: true }
  const headEnd = found === -1 ? end : from + found
  const head = body.toString('latin1', from, headEnd)
  return { head, fields: readFields(head), headStart, start: Math.min(end, headEnd + 4), end, isUnread: false }
}

function leafOf ({ head, fields, headStart, start, end, isSealed, fallback }: Span): Leaf {
  const type = fields.get('content-type') ?? fallback
  const disposition = fields.get('content-disposition') ?? ''
  const isNamed = /[;\s](file)?name\*?(\d+\*?)?\s*=/i.test(`${type} ;${disposition}`)
  return {
    head,
    headStart,
    start,
    end,
    contentType: type,
    type: /^\s*([^\s;]+)/.exec(type)?.[1]?.toLowerCase() ?? PLAIN,
    charset: (parameterOf(type, 'charset') ?? 'us-ascii').toLowerCase(),
    contentId: fields.get('content-id')?.replaceAll(/^<|>$/g, '') ?? null,
    encoding: (fields.get('content-transfer-encoding') ?? '7bit').trim().toLowerCase(),
    isFile: /^\s*attachment\b/i.test(disposition) || isNamed,
    isSealed
  }
}

/** Unfolded values by name, in lower case; of several the first. */
type Fields = ReadonlyMap<string, string>

function readFields (head: string): Fields {
  const fields = new Map<string, string>()
  for (const field of fieldsOf(head)) {
    const name = nameOf(field)
    if (!fields.has(name)) fields.set(name, field.slice(field.indexOf(':') + 1).replaceAll('\r\n', '').trim())
  }
  return fields
}

/** Header fields, each with the lines it is folded to, without the line end behind it. */
export function fieldsOf (head: string): string[] {
  return head.split(/\r\n(?![ \t])/).filter(field => field !== '')
}

/** In lower case. */
export function nameOf (field: string): string {
  return field.slice(0, Math.max(0, field.indexOf(':'))).trimEnd().toLowerCase()
}

/** Source: RFC 2045 5.1. */
function parameterOf (value: string, name: string): string | null {
  const found = new RegExp(`;\\s*${name}\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;]+))`, 'i').exec(value)
  return found === null ? null : (found[1]?.replaceAll(/\\(.)/g, '$1') ?? found[2]!)
}

/** The bytes that a part stands for. */
export function decodedLeaf (body: Buffer, { start, end, encoding }: Leaf): Buffer {
  const raw = body.subarray(start, end)
  if (encoding === 'base64') return Buffer.from(raw.toString('latin1'), 'base64')
  return encoding === 'quoted-printable' ? decodedQuotes(raw) : raw
}

const HEX_VALUE = new Int8Array(256).fill(-1)
for (const [i, char] of [...'0123456789ABCDEF'].entries()) {
  HEX_VALUE[char.charCodeAt(0)] = i
  HEX_VALUE[char.toLowerCase().charCodeAt(0)] = i
}

/** Source: RFC 2045 6.7. */
function decodedQuotes (raw: Buffer): Buffer {
  const out = Buffer.allocUnsafe(raw.length)
  let size = 0
  for (let i = 0; i < raw.length; i++) {
    const byte = raw[i]!
    if (byte !== 0x3d) {
      out[size++] = byte
      continue
    }
    const high = HEX_VALUE[raw[i + 1] ?? 0]!
    const low = HEX_VALUE[raw[i + 2] ?? 0]!
    if (high !== -1 && low !== -1) {
      out[size++] = high * 16 + low
      i += 2
      continue
    }
    const soft = endOfSoftBreak(raw, i + 1)
    if (soft === null) out[size++] = byte
    else i = soft - 1
  }
  return out.subarray(0, size)
}

/** Where the next line begins, if nothing but blanks stands before it. */
function endOfSoftBreak (raw: Buffer, from: number): number | null {
  let at = from
  while (raw[at] === 0x20 || raw[at] === 0x09) at++
  if (at >= raw.length) return at
  return raw[at] === 0x0d && raw[at + 1] === 0x0a ? at + 2 : null
}

/** The text of a part; what its charset does not know is replaced. */
export function leafText (body: Buffer, leaf: Leaf): string {
  return decoderOf(leaf.charset).decode(decodedLeaf(body, leaf))
}

function decoderOf (charset: string): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(charset)
  } catch {
    return new TextDecoder('windows-1252')
  }
}
