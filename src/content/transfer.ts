/** A body made fit for any 7-bit line, and by which Content-Transfer-Encoding. */
export interface Encoded {
  encoding: 'quoted-printable' | 'base64'
  /** CRLF line ends only, lines of at most 76 characters. */
  bytes: Buffer
}

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const TAB = 0x09
const EQUALS = 0x3d
/** Source: RFC 2045 6.7 and 6.8. */
const LINE_MAX = 76
/** The last place is the soft break's `=`. */
const QP_LINE_MAX = LINE_MAX - 1

/** What a byte is to quoted-printable. Source: RFC 2045 6.7. */
const PLAIN = 0
const END = 1
const ESCAPED = 2
const KIND = new Uint8Array(256).fill(ESCAPED)
KIND.fill(PLAIN, SPACE, 0x7f)
KIND[TAB] = PLAIN
KIND[EQUALS] = ESCAPED
KIND[CR] = KIND[LF] = END
const HEX = Buffer.from('0123456789ABCDEF')

/** Encodes text as whichever is smaller; all line ends become CRLF. */
export function encodeText (text: string): Encoded {
  const bytes = Buffer.from(text)
  const { ends, escaped } = countKinds(bytes)
  const qpSize = bytes.length + 2 * escaped + ends
  // Line ends cost base64 more: each is a byte or two of three in four characters.
  if (qpSize <= bytes.length * 1.37 + ends * 2) {
    return { encoding: 'quoted-printable', bytes: quotedPrintable(bytes, qpSize + 2 * ends) }
  }
  return {
    encoding: 'base64',
    bytes: base64Lines(Buffer.from(text.replaceAll(/\r\n|\r|\n/g, '\r\n')).toString('base64'))
  }
}

function countKinds (bytes: Uint8Array): { ends: number, escaped: number } {
  let [ends, escaped] = [0, 0]
  for (let i = 0; i < bytes.length; i++) {
    const kind = KIND[bytes[i]!]!
    if (kind === END) ends++
    else if (kind === ESCAPED) escaped++
  }
  return { ends, escaped }
}

/** Base64 in lines of 76 characters, without the last line end. */
export function base64Lines (text: string): Buffer {
  const ends = 2 * Math.ceil(text.length / LINE_MAX)
  const out = Buffer.allocUnsafe(text.length + ends)
  // Written as far to the right as there will be line ends, then moved to its place line by line: the text is copied
  // once.
  out.write(text, ends, 'latin1')
  let at = 0
  for (let i = ends; i < out.length; i += LINE_MAX) {
    out.copyWithin(at, i, i + LINE_MAX)
    at += Math.min(LINE_MAX, out.length - i)
    out[at++] = CR
    out[at++] = LF
  }
  return out.subarray(0, Math.max(0, at - 2))
}

/** Source: RFC 2045 6.7. `sizeMax` = without soft line breaks, were white space to end each line. */
function quotedPrintable (bytes: Uint8Array, sizeMax: number): Buffer {
  // A line is broken where at most two places of it are left.
  const out = Buffer.allocUnsafe(sizeMax + 3 * Math.ceil(sizeMax / (QP_LINE_MAX - 2)) + 8)
  let at = 0
  let lineStart = 0
  for (let i = 0; i < bytes.length;) {
    // Most bytes stand for themselves, and pass here.
    const stop = Math.min(bytes.length, i + QP_LINE_MAX - (at - lineStart))
    while (i < stop && KIND[bytes[i]!] === PLAIN) out[at++] = bytes[i++]!
    if (i === bytes.length) break
    const byte = bytes[i]!
    const kind = KIND[byte]!
    if (kind === END) {
      at = lineEnd(out, keepWhite(out, at, lineStart))
      lineStart = at
      i += byte === CR && bytes[i + 1] === LF ? 2 : 1
      continue
    }
    if (at - lineStart + (kind === PLAIN ? 1 : 3) > QP_LINE_MAX) at = lineStart = softEnd(out, at)
    if (kind === ESCAPED) at = escape(out, at, bytes[i++]!)
  }
  return out.subarray(0, keepWhite(out, at, lineStart))
}

/** White space at a line's end would be trimmed on its way. */
function keepWhite (out: Buffer, at: number, lineStart: number): number {
  const last = out[at - 1]
  if (at === lineStart || (last !== SPACE && last !== TAB)) return at
  return escape(out, at - lineStart + 2 > QP_LINE_MAX ? softEnd(out, at - 1) : at - 1, last)
}

function escape (out: Buffer, at: number, byte: number): number {
  out[at] = EQUALS
  out[at + 1] = HEX[byte >> 4]!
  out[at + 2] = HEX[byte & 15]!
  return at + 3
}

function softEnd (out: Buffer, at: number): number {
  out[at] = EQUALS
  return lineEnd(out, at + 1)
}

function lineEnd (out: Buffer, at: number): number {
  out[at] = CR
  out[at + 1] = LF
  return at + 2
}
