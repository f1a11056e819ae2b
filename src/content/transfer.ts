/** A body made fit for any 7-bit line, and by which Content-Transfer-Encoding. */
export interface Encoded {
  encoding: 'quoted-printable' | 'base64'
  /** CRLF line ends only, lines of at most 76 characters. */
  bytes: Buffer
}

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const EQUALS = 0x3d
/** Source: RFC 2045 6.7 and 6.8. */
const LINE_MAX = 76
/** The last place is the soft break's `=`. */
const QP_LINE_MAX = LINE_MAX - 1

/** 1 = stands for itself in quoted-printable. Source: RFC 2045 6.7. */
const PLAIN = new Uint8Array(256)
for (let byte = 0x21; byte < 0x7f; byte++) PLAIN[byte] = byte === EQUALS ? 0 : 1
PLAIN[SPACE] = 1
PLAIN[0x09] = 1
const HEX = Buffer.from('0123456789ABCDEF')

/** Encodes text as whichever is smaller; all line ends become CRLF. */
export function encodeText (text: string): Encoded {
  const bytes = Buffer.from(text.replaceAll(/\r\n|\r|\n/g, '\r\n'))
  let escaped = 0
  for (let i = 0; i < bytes.length; i++) escaped += 1 - PLAIN[bytes[i]!]!
  // Line ends count as escaped here and are not, which errs on the side of base64 by a hair.
  const qpSize = bytes.length + 2 * escaped
  if (qpSize <= bytes.length * 1.37 + lineEnds(text) * 4) return { encoding: 'quoted-printable', bytes: quotedPrintable(bytes) }
  return { encoding: 'base64', bytes: base64Lines(bytes.toString('base64')) }
}

function lineEnds (text: string): number {
  let count = 0
  for (let i = text.indexOf('\n'); i !== -1; i = text.indexOf('\n', i + 1)) count++
  return count
}

/** Base64 in lines of 76 characters, without the last line end. */
export function base64Lines (text: string): Buffer {
  const ends = 2 * Math.ceil(text.length / LINE_MAX)
  const out = Buffer.allocUnsafe(text.length + ends)
  // Written as far to the right as there will be line ends, then moved to its place line by line: the text is copied once.
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

/** Source: RFC 2045 6.7. `bytes` has CRLF line ends only. */
function quotedPrintable (bytes: Buffer): Buffer {
  // The worst case: every byte escaped, and a soft break after each 25 of them.
  const out = Buffer.allocUnsafe(bytes.length * 3 + Math.ceil(bytes.length / 24) * 3 + 8)
  let at = 0
  let column = 0
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!
    if (byte === CR) {
      out[at++] = CR
      out[at++] = LF
      i++
      column = 0
      continue
    }
    // White space at a line's end would be trimmed on its way.
    const plain = PLAIN[byte] === 1 && (byte > SPACE || (i + 1 < bytes.length && bytes[i + 1] !== CR))
    const width = plain ? 1 : 3
    if (column + width > QP_LINE_MAX) {
      out[at++] = EQUALS
      out[at++] = CR
      out[at++] = LF
      column = 0
    }
    column += width
    if (plain) {
      out[at++] = byte
      continue
    }
    out[at++] = EQUALS
    out[at++] = HEX[byte >> 4]!
    out[at++] = HEX[byte & 15]!
  }
  return out.subarray(0, at)
}
