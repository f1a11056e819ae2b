import { endOfText } from '#streams/json.ts'

/** A list or an object that is open: the member's name that it stands under, as far as it matters here. */
type Name = 'attachments' | 'content' | 'data' | null

const QUOTE = 0x22
const [COMMA, LIST, LIST_END, OBJECT, OBJECT_END] = [0x2c, 0x5b, 0x5d, 0x7b, 0x7d]
const [ZERO, NINE] = [0x30, 0x39]
const BLANKS = [0x20, 0x0a, 0x0d, 0x09]
const NAMES = new Map<string, Name>(['attachments', 'content', 'data'].map(name => [`"${name}"`, name as Name]))
const NAME_BYTES_MAX = '"attachments"'.length

/** JSON in which the files of `attachments` that are lists of bytes are base64: the values of a list take up to fifty
 *  bytes each when they are parsed, and some clients know no other way to write a file. All else stays as it is, what
 *  is no such list too. */
export function withoutByteLists (json: Buffer): Buffer {
  const parts: Buffer[] = []
  const open: Name[] = []
  let from = 0
  let name: Name = null
  for (let i = 0; i < json.length; i++) {
    const byte = json[i]!
    if (byte === QUOTE) {
      const end = endOfText(json, i + 1)
      name = end - i < NAME_BYTES_MAX ? NAMES.get(json.toString('latin1', i, end + 1)) ?? null : null
      i = end
    } else if (byte === LIST && isFile(open, name)) {
      const list = readBytes(json, i)
      if (list === null) open.push(name)
      else {
        parts.push(json.subarray(from, i), Buffer.from(`"${list.bytes.toString('base64')}"`))
        from = list.end
        i = list.end - 1
      }
      name = null
    } else if (byte === LIST || byte === OBJECT) {
      open.push(name)
      name = null
    } else if (byte === LIST_END || byte === OBJECT_END) open.pop()
    else if (byte === COMMA) name = null
  }
  return parts.length === 0 ? json : Buffer.concat([...parts, json.subarray(from)])
}

/** `attachments[].content`, or `attachments[].content.data` as JSON.stringify writes a Buffer; of one email or of a
 *  list of them, not what a template's variables call so. */
function isFile (open: readonly Name[], name: Name): boolean {
  const place = [...open.slice(-4), name].join(' ')
  const ofEmail = name === 'content' ? open.length - 2 : open.length - 3
  return (ofEmail === 1 || ofEmail === 2) && /(^| )attachments  (content|content data)$/.test(place)
}

/** The bytes of a list that begins at `start`, and where it ends; null when it is another list. */
function readBytes (json: Buffer, start: number): { bytes: Buffer, end: number } | null {
  const closing = endOfBytes(json, start + 1)
  if (closing === null) return null
  // Each takes two places at least: a digit and what follows it.
  const bytes = Buffer.allocUnsafe((closing - start) >> 1)
  let length = 0
  let digits = 0
  let value = 0
  let needsComma = false
  for (let i = start + 1; i <= closing; i++) {
    const byte = json[i]!
    if (byte >= ZERO && byte <= NINE) {
      if (needsComma || digits === 3) return null
      value = value * 10 + byte - ZERO
      digits++
      continue
    }
    if (digits > 0) {
      if (value > 255) return null
      bytes[length++] = value
      value = digits = 0
      needsComma = true
    }
    if (byte !== COMMA) continue
    if (!needsComma) return null
    needsComma = false
  }
  return needsComma || length === 0 ? { bytes: bytes.subarray(0, length), end: closing + 1 } : null
}

/** Where a list ends that has nothing but digits, commas and blanks; null when it has something else. It looks no
 *  further than that: a body may begin a million lists. */
function endOfBytes (json: Buffer, from: number): number | null {
  let at = from
  while (at < json.length && isOfBytes(json[at]!)) at++
  return json[at] === LIST_END ? at : null
}

function isOfBytes (byte: number): boolean {
  return (byte >= ZERO && byte <= NINE) || byte === COMMA || BLANKS.includes(byte)
}
