import type { MessageFile } from './file-head.ts'

/** A file as a request gives it. Line breaks in `content` do no harm: many encoders make them. */
export interface GivenFile {
  filename: string
  content: string
  content_type?: string
  content_id?: string
}

/** `field` goes on from the list's name: `[0].content`, or nothing when it is about the list. */
export interface FileFault {
  field: string
  code: string
  message: string
}

export const FILES_MAX = 20
/** Decoded, all files together. */
export const FILES_BYTES_MAX = 10 * 1024 * 1024
const NAME_MAX = 255
const TYPE_MAX = 200

/** Source: RFC 2045 5.1. */
const TOKEN = "[!#$%&'*+.^_`{|}~0-9A-Za-z-]+"
const PARAMETER = `; *(${TOKEN})=(${TOKEN}|"(?:[^"\\\\\\P{ASCII}\\p{Cc}]|\\\\[ -~])*")`
const TYPE = new RegExp(`^${TOKEN}/${TOKEN}(?: *${PARAMETER})*$`, 'u')
/** Both halves of an addr-spec, and what is no address but used as an id all the same. Source: RFC 2392 2. */
const CONTENT_ID = /^[\w!#$%&'*+/=?^`{|}~.@-]{1,128}$/

/** What most files are; the rest are bytes. */
const TYPES: Record<string, string> = {
  csv: 'text/csv',
  doc: 'application/msword',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  eml: 'message/rfc822',
  gif: 'image/gif',
  gz: 'application/gzip',
  htm: 'text/html',
  html: 'text/html',
  ics: 'text/calendar',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  json: 'application/json',
  md: 'text/markdown',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  odt: 'application/vnd.oasis.opendocument.text',
  pdf: 'application/pdf',
  png: 'image/png',
  pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  svg: 'image/svg+xml',
  txt: 'text/plain',
  vcf: 'text/vcard',
  webp: 'image/webp',
  xls: 'application/vnd.ms-excel',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  xml: 'application/xml',
  zip: 'application/zip'
}

/** Every fault of the files of a request, each field's first one. What is of the wrong type is passed over: the schema
 *  has named it. */
export function attachmentFaults (list: readonly unknown[]): FileFault[] {
  if (list.length > FILES_MAX) {
    return [{ field: '', code: 'too_many', message: `attachments must have at most ${FILES_MAX} files.` }]
  }
  const faults: FileFault[] = []
  const ids = new Set<string>()
  let bytes = 0
  for (const [i, given] of list.entries()) {
    const { filename, content, content_type: type, content_id: id } = Object(given) as Record<string, unknown>
    const check = (name: string, fault: Omit<FileFault, 'field'> | null) => {
      if (fault !== null) faults.push({ field: `[${i}].${name}`, ...fault })
    }
    if (typeof filename === 'string') check('filename', nameFault(filename))
    if (typeof content === 'string') check('content', contentFault(content))
    if (typeof type === 'string') check('content_type', typeFault(type))
    if (typeof id === 'string') check('content_id', idFault(id, ids))
    if (typeof content === 'string') bytes += sizeOf(unbroken(content))
  }
  return bytes <= FILES_BYTES_MAX
    ? faults
    : [...faults, { field: '', code: 'too_long', message: 'attachments must be at most 10 MB in all, decoded.' }]
}

/** A file without faults, as it is kept and sent: canonical base64, a content type in any case. */
export function readAttachment (
  { filename, content, content_type: type, content_id: id }: GivenFile
): MessageFile & { sizeBytes: number } {
  const base64 = unbroken(content)
  return {
    filename,
    contentType: type === undefined ? typeOf(filename) : readType(type),
    contentId: id ?? null,
    content: base64,
    sizeBytes: sizeOf(base64)
  }
}

function nameFault (name: string): Omit<FileFault, 'field'> | null {
  if (name.length > NAME_MAX) return { code: 'too_long', message: `filename must have at most ${NAME_MAX} characters.` }
  const fine = name.isWellFormed() && name.trim() !== '' && !/[\p{Cc}/\\]/u.test(name) && name !== '.' && name !== '..'
  return fine
    ? null
    : { code: 'invalid_name', message: 'filename must be a file name, without a path and control characters.' }
}

function contentFault (content: string): Omit<FileFault, 'field'> | null {
  return isBase64(unbroken(content))
    ? null
    : {
      code: 'invalid_base64',
      message: 'content must be standard base64, with padding.'
    }
}

export function typeFault (type: string): Omit<FileFault, 'field'> | null {
  if (type.length <= TYPE_MAX && TYPE.test(type)) return null
  return {
    code: 'invalid_value',
    message: `content_type must be a media type like image/png, of at most ${TYPE_MAX} characters.`
  }
}

function idFault (id: string, ids: Set<string>): Omit<FileFault, 'field'> | null {
  if (!CONTENT_ID.test(id)) {
    return {
      code: 'invalid_value',
      message: "content_id must have 1 to 128 characters, each a letter, a digit or one of !#$%&'*+/=?^_`{|}~.@-."
    }
  }
  if (ids.has(id)) return { code: 'not_unique', message: 'content_id must be unique among attachments.' }
  ids.add(id)
  return null
}

function unbroken (content: string): string {
  return content.includes('\n') ? content.replaceAll(/\r?\n/g, '') : content
}

/** The one way to write these bytes: with padding, and with nothing in the bits that stand for no byte. Source: RFC
 *  4648 3.5 and 4. */
function isBase64 (text: string): boolean {
  const padding = paddingOf(text)
  const last = text.charAt(text.length - padding - 1)
  // Node passes over what is no base64, and reads its other alphabet: in a tenth of the time that a pattern takes.
  if (text.length % 4 !== 0 || text.includes('-') || text.includes('_')) return false
  if (Buffer.from(text, 'base64').length !== sizeOf(text)) return false
  return padding === 0 || (padding === 1 ? 'AEIMQUYcgkosw048' : 'AQgw').includes(last)
}

function paddingOf (text: string): number {
  return text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
}

/** Bytes that this base64 stands for. */
function sizeOf (text: string): number {
  return text.length / 4 * 3 - paddingOf(text)
}

function typeOf (filename: string): string {
  const extension = /\.(\w{1,5})$/.exec(filename)?.[1]?.toLowerCase() ?? ''
  return Object.hasOwn(TYPES, extension) ? TYPES[extension]! : 'application/octet-stream'
}

/** The type in lower case and its parameters, but for those `without`: `name` is the filename's. */
export function readType (type: string, without = /^name(\*|$)/i): string {
  const parameters = [...type.matchAll(new RegExp(PARAMETER, 'gu'))].filter(([, name]) => !without.test(name!))
  return type.split(/ *;/, 1)[0]!.toLowerCase() + parameters.map(([, name, value]) => `; ${name}=${value}`).join('')
}
