import { decodeWords } from 'postal-mime'

/** Labels that the WHATWG list does not know, as mail writes them. */
const ALIASES: Record<string, string> = {
  'shift-jis': 'shift_jis',
  cp932: 'shift_jis',
  ms932: 'shift_jis',
  'x-mac-japanese': 'shift_jis',
  'iso-2022-jp-1': 'iso-2022-jp',
  'iso-2022-jp-2': 'iso-2022-jp',
  'iso-2022-jp-ms': 'iso-2022-jp',
  cp50220: 'iso-2022-jp',
  cp50221: 'iso-2022-jp',
  'cn-gb': 'gb18030',
  cp936: 'gb18030',
  'windows-936': 'gb18030',
  'hz-gb-2312': 'gb18030',
  cp950: 'big5',
  'cn-big5': 'big5',
  cp949: 'euc-kr',
  uhc: 'euc-kr',
  ks_c_5601: 'euc-kr',
  eucjp: 'euc-jp',
  'x-eucjp': 'euc-jp',
  latin1: 'windows-1252',
  utf8mb4: 'utf-8',
  'iso-8859-15': 'iso-8859-15',
  'koi8r': 'koi8-r',
  'x-koi8-r': 'koi8-r',
  win1251: 'windows-1251'
}
const SAMPLE_LENGTH = 8192
const ESCAPES_JP = ['\x1b$@', '\x1b$B']
const NON_ASCII = /[^\p{ASCII}]/gu

/** Characters that identify an unlabelled encoding. Chinese is recognized by the words of bounces. */
const GUESSES: Array<[string, RegExp]> = [
  ['shift_jis', /[\u3041-\u3093\u30a1-\u30f6]/g],
  ['euc-jp', /[\u3041-\u3093\u30a1-\u30f6]/g],
  ['gb18030', /[的收件人信退邮不在地址系统您被回原因发送失败无法箱主题时间]/g],
  ['big5', /[的收件人信退郵不在地址系統您被回原因發送失敗無法箱主題時間]/g],
  ['euc-kr', /[가-힣]/g],
  // Accents stand alone among plain letters, Cyrillic words do not.
  ['windows-1251', /[а-яё]{3,40}/g],
  ['koi8-r', /[а-яё]{3,40}/g]
]

/** Text out of octets held one to a character. A label that is absent, unknown or plainly wrong is replaced by a guess.
 *  Linear, throws nothing. */
function decodeText (octets: string, label: string | null): string {
  if (ESCAPES_JP.some(escape => octets.includes(escape))) return decode(octets, 'iso-2022-jp') ?? octets
  if (octets.search(NON_ASCII) === -1) return octets
  const name = label?.trim().toLowerCase() ?? ''
  const known = ALIASES[name] ?? name
  // Many senders label everything as ASCII or Latin-1.
  if (known !== '' && !/^(us-)?ascii$|^iso-8859-1$|^unknown|^x-unknown|^default/.test(known)) {
    const text = decode(octets, known)
    if (text !== null) return text
  }
  return guess(octets)
}

function guess (octets: string): string {
  const utf8 = decode(octets, 'utf-8', true)
  if (utf8 !== null) return utf8
  const sample = octets.slice(0, SAMPLE_LENGTH)
  const votes = GUESSES.map(([name, telling]) => ({ name, share: share(decode(sample, name) ?? '', telling) })).sort((
    a,
    b
  ) => b.share - a.share)
  const best = votes[0]!.share > 0.3 ? votes[0]!.name : 'windows-1252'
  return decode(octets, best) ?? octets
}

/** The share of such characters in what is not ASCII. */
function share (text: string, telling: RegExp): number {
  const foreign = text.match(NON_ASCII)?.length ?? 0
  return foreign === 0 ? 0 : (text.match(telling) ?? []).join('').length / foreign
}

function decode (octets: string, name: string, fatal = false): string | null {
  try {
    return new TextDecoder(name, { fatal }).decode(Buffer.from(octets, 'latin1'))
  } catch {
    return null
  }
}

/** One part of a message. Leaves have `text`, decoded; multiparts have `parts`. */
export interface Entity {
  /** Lower case, without parameters. */
  type: string
  params: Record<string, string>
  headers: HeaderField[]
  /** Decoded; at most TEXT_LENGTH_MAX characters. */
  text: string
  parts: Entity[]
}

/** `name` in lower case, `value` unfolded. */
export interface HeaderField {
  name: string
  value: string
}

/** A report carries its headers and a few lines: more octets than these are the returned message's, and are not read.
 */
export const RAW_OCTETS_MAX = 524_288
const PARTS_MAX = 60
const DEPTH_MAX = 6
const FIELDS_MAX = 400
const VALUE_LENGTH_MAX = 4000
const TEXT_LENGTH_MAX = 131_072

/** What is left of the parts a message may have. */
interface Budget {
  parts: number
}

/** A message as a tree. Our own splitter rather than postal-mime's: that one takes 2.7 s for 100,000 tiny parts, melts
 *  the parts into one text, and loses reports whose boundary is wrong. Linear, bounded, throws nothing. Source: RFC
 *  5322, 2045, 2046; what breaks them is read as it was meant. */
export function readEntity (raw: Uint8Array): Entity {
  const octets = Buffer.from(raw.buffer, raw.byteOffset, Math.min(raw.byteLength, RAW_OCTETS_MAX)).toString('latin1')
  // Mailbox files add a line before the headers, and some senders an empty one.
  const text = octets.replaceAll('\r\n', '\n').replaceAll('\r', '\n').replace(/^\n{1,9}/, '').replace(
    /^>?From [^\n]{0,998}\n/,
    ''
  )
  return readPart(text, 'text/plain', 0, { parts: PARTS_MAX })
}

/** The fields at the head of a text, and where the rest begins. A line that is no field ends them. */
export function readFields (text: string): { fields: HeaderField[], end: number } {
  const fields: HeaderField[] = []
  let at = 0
  while (at < text.length && fields.length < FIELDS_MAX) {
    const stop = lineEnd(text, at)
    const line = text.slice(at, Math.min(stop, at + VALUE_LENGTH_MAX))
    if (line.trim() === '') return { fields, end: Math.min(stop + 1, text.length) }
    const last = fields.at(-1)
    if (/^[ \t]/.test(line) && last !== undefined) {
      if (last.value.length < VALUE_LENGTH_MAX) last.value += ` ${line.trim()}`
    } else {
      const field = readField(line)
      if (field === null) return { fields, end: at }
      fields.push(field)
    }
    at = stop + 1
  }
  return { fields, end: Math.min(at, text.length) }
}

function readField (line: string): HeaderField | null {
  const match = /^([!-9;-~]{1,80})[ \t]*:(.*)$/.exec(line)
  return match === null ? null : { name: match[1]!.toLowerCase(), value: match[2]!.trim() }
}

/** The first field of that name, its encoded words read, or null. */
export function fieldOf (fields: HeaderField[], name: string): string | null {
  const value = fields.find(field => field.name === name)?.value
  return value === undefined ? null : readWords(value)
}

/** All fields of these names, as they came. */
export function fieldsOf (fields: HeaderField[], ...names: string[]): string[] {
  return fields.filter(field => names.includes(field.name)).map(field => field.value)
}

/** Encoded words (RFC 2047) and bare 8-bit text. */
function readWords (value: string): string {
  if (!value.includes('=?')) return decodeText(value, null)
  try {
    return decodeWords(value)
  } catch {
    return value
  }
}

function readPart (text: string, fallback: string, depth: number, budget: Budget): Entity {
  const { fields, end } = readFields(text)
  const { type, params } = readType(fieldsOf(fields, 'content-type')[0] ?? fallback)
  const body = text.slice(end)
  // Some lose the header of the whole, and with it all that says that there are parts.
  const split = type.startsWith('multipart/') || (depth === 0 && fieldsOf(fields, 'content-type').length === 0)
  const parts = split && depth < DEPTH_MAX ? partsOf(body, params['boundary']?.trim() ?? '', budget) : []
  const children = parts.map(part =>
    readPart(part, type === 'multipart/digest' ? 'message/rfc822' : 'text/plain', depth + 1, budget)
  )
  const encoding = fieldsOf(fields, 'content-transfer-encoding')[0] ?? ''
  const leaf = children.length === 0
  return {
    type,
    params,
    headers: fields,
    text: leaf ? decodeText(decodeBody(body.slice(0, TEXT_LENGTH_MAX), encoding), params['charset'] ?? null) : '',
    parts: children
  }
}

function readType (value: string): { type: string, params: Record<string, string> } {
  const params: Record<string, string> = {}
  for (const [, name, quoted, token] of value.matchAll(/;[ \t]*([\w*-]{1,40})[ \t]*=[ \t]*(?:"([^"]*)"|([^\s;"]+))/g)) {
    params[name!.toLowerCase()] ??= quoted ?? token!
  }
  const type = /^[\w.+-]+\/[\w.+-]+/.exec(value.trim())?.[0].toLowerCase()
  return { type: type ?? 'text/plain', params }
}

function partsOf (body: string, announced: string, budget: Budget): string[] {
  if (announced !== '' && `\n${body}`.includes(`\n--${announced}`)) return splitParts(body, announced, budget)
  const boundary = boundaryIn(body)
  if (boundary === null) return []
  // Text before an unannounced delimiter may be an explanation.
  const before = body.slice(0, `\n${body}`.indexOf(`\n--${boundary}`)).trim()
  return [...(before === '' ? [] : [`\n${before}\n`]), ...splitParts(body, boundary, budget)]
}

/** The texts between the delimiters; none when there is no such delimiter. */
function splitParts (body: string, boundary: string, budget: Budget): string[] {
  const parts: string[] = []
  const padded = `\n${body}`
  const mark = `\n--${boundary}`
  let start = -1
  for (let at = padded.indexOf(mark); at !== -1 && budget.parts > 0; at = padded.indexOf(mark, at + mark.length)) {
    const stop = lineEnd(padded, at + 1)
    const rest = padded.slice(at + mark.length, Math.min(stop, at + mark.length + 80)).trim()
    // A longer boundary may begin with this one.
    if (rest !== '' && rest !== '--') continue
    if (start !== -1) {
      parts.push(padded.slice(start, at + 1))
      budget.parts--
    }
    start = rest === '--' ? -1 : Math.min(stop + 1, padded.length)
    if (rest === '--') break
  }
  if (start !== -1 && budget.parts-- > 0) parts.push(padded.slice(start))
  return parts
}

/** A delimiter that was never announced still has a Content- field under it. One that the body itself announces is the
 *  returned message's. */
function boundaryIn (body: string): string | null {
  const text = body.slice(0, TEXT_LENGTH_MAX)
  const boundary = /^--([!-~]{4,70})\nContent-/m.exec(text)?.[1] ?? null
  return boundary === null || text.includes(`boundary="${boundary}`) || text.includes(`boundary=${boundary}`)
    ? null
    : boundary
}

function decodeBody (body: string, encoding: string): string {
  if (/base64/i.test(encoding)) return Buffer.from(body, 'base64').toString('latin1')
  if (!/quoted-printable/i.test(encoding)) return body
  return body.replaceAll(/=\n/g, '').replaceAll(
    /=([0-9a-f]{2})/gi,
    (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))
  )
}

function lineEnd (text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end === -1 ? text.length : end
}
