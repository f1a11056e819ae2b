import type { FieldFault } from '#streams/define.ts'
import { parseTime, timestamp } from '#src/base/clock.ts'
import { mustFault } from '../errors.ts'
import { readTags } from './tags.ts'

type Fields = Record<string, unknown>

/** A file that is to be fetched, and which one of the email's it is. */
export interface RemoteFile {
  at: number
  url: string
  filename: string
  contentType?: string
  contentId?: string
}

/** An email of a Resend client as a request of ours. */
export interface TranslatedEmail {
  /** For the schema of our own request to judge. Without the files that are to be fetched. */
  request: unknown
  remote: RemoteFile[]
  /** Which of the files given the others are. */
  here: number[]
  /** What is wrong with fields that have another shape here; files are counted without those that are to be fetched. */
  faults: FieldFault[]
}

/** Some clients send the others empty where there is none. */
const NAMED = ['from', 'to'] as const
const MAYBE_EMPTY = ['subject', 'cc', 'bcc', 'reply_to', 'html', 'text'] as const

/** Passes over what is null and what Resend has and Jetpost has not. */
export function translateEmail (given: unknown, nowMs: number): TranslatedEmail {
  if (!isFields(given)) return { request: given, remote: [], here: [], faults: [] }
  const faults: FieldFault[] = []
  const request: Fields = {}
  const set = (name: string, value: unknown) => {
    if (value != null) request[name] = value
  }
  for (const name of NAMED) set(name, given[name])
  for (const name of MAYBE_EMPTY) set(name, given[name] === '' ? null : given[name])
  const headers = headersOf(given.headers)
  set('headers', headers)
  // Jetpost's own would stand in their place.
  if (isFields(headers) && Object.keys(headers).some(isUnsubscribe)) request.unsubscribe = false
  const { tags, fault } = readTags(given.tags)
  set('metadata', tags)
  if (fault !== null) faults.push(fault)
  if (given.template != null) Object.assign(request, templateOf(given.template, faults))
  if (given.scheduled_at != null && given.scheduled_at !== '') {
    set('scheduled_at', timeOf(given.scheduled_at, nowMs))
  }
  const files = filesOf(given.attachments, faults)
  set('attachments', files.files)
  return { request, remote: files.remote, here: files.here, faults }
}

const isUnsubscribe = (name: string) => /^list-unsubscribe/i.test(name)

/** PHP writes an object without members as a list. */
function headersOf (given: unknown): unknown {
  if (Array.isArray(given) && given.length === 0) return null
  if (!isFields(given)) return given
  const kept = Object.entries(given).filter(([, value]) => value != null)
  return Object.fromEntries(kept.map(([name, value]) => [name, isScalar(value) ? String(value) : value]))
}

function templateOf (given: unknown, faults: FieldFault[]): Fields {
  if (!isFields(given)) {
    faults.push(mustFault('template', 'invalid_value', 'be an object with an id'))
    return {}
  }
  if (given.id == null) faults.push({ field: 'template.id', code: 'required', message: 'template.id is required.' })
  const { id = null, variables = null } = given
  const isEmpty = Array.isArray(variables) && variables.length === 0
  return {
    ...(id === null ? {} : { template_id: id }),
    ...(id === null || variables === null || isEmpty ? {} : { variables })
  }
}

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
const IN = /^in (?:(\d{1,6})|an?) ?(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)$/i

/** Resend also reads words: those of the form "in 5 minutes" are read here. A time without an offset is UTC. What is no
 *  time stays for the schema to refuse. */
export function timeOf (given: unknown, nowMs: number): unknown {
  if (typeof given !== 'string') return given
  const text = given.trim()
  const [, count = '1', unit] = IN.exec(text) ?? []
  if (unit !== undefined) return timestamp(nowMs + Number(count) * UNITS[unit[0]!.toLowerCase()]!)
  const spaced = text.replace(/^(\d{4}-\d\d-\d\d) /, '$1T').replace(/([+-]\d\d)$/, '$1:00')
  const ms = parseTime(spaced) ?? parseTime(`${spaced}Z`)
  return ms === null ? given : timestamp(ms)
}

type Files = Pick<TranslatedEmail, 'remote' | 'here'> & { files: unknown }

function filesOf (given: unknown, faults: FieldFault[]): Files {
  if (!Array.isArray(given)) return { files: given, remote: [], here: [] }
  const files: unknown[] = []
  const here: number[] = []
  const remote: RemoteFile[] = []
  for (const [at, file] of given.entries()) {
    const { content = null, path = null } = isFields(file) ? file : {}
    const named = isFields(file) ? namesOf(file) : {}
    if (content === null && typeof path === 'string') {
      remote.push(remoteOf(at, path, named))
      continue
    }
    here.push(at)
    files.push(isFields(file) ? { filename: 'attachment', ...named, content: bytesOf(content ?? '') } : file)
    if (!isFields(file) || content !== null) continue
    const field = `attachments[${files.length - 1}].content`
    faults.push({ field, code: 'required', message: 'content or path is required.' })
  }
  return { files: files.length === 0 && remote.length > 0 ? null : files, remote, here }
}

/** What is said of a file beside its bytes. */
function namesOf (file: Fields): { filename?: string, content_type?: string, content_id?: string } {
  const type = file.content_type ?? file.contentType
  const id = file.content_id ?? file.inline_content_id ?? file.contentId
  const { filename } = file
  return {
    ...(filename == null || filename === false || filename === '' ? {} : { filename: filename as string }),
    ...(type == null || type === '' ? {} : { content_type: type as string }),
    // Some write it as the header has it.
    ...(id == null || id === ''
      ? {}
      : { content_id: typeof id === 'string' ? id.replace(/^<(.*)>$/, '$1') : id as string })
  }
}

/** Base64, a list of bytes, or a Buffer as JSON.stringify writes it; what is none of them stays for the schema. */
function bytesOf (content: unknown): unknown {
  const bytes = isFields(content) && content.type === 'Buffer' ? content.data : content
  if (typeof bytes === 'string') return bytes
  const areBytes = Array.isArray(bytes) && bytes.every(byte => Number.isInteger(byte) && byte >= 0 && byte <= 255)
  return areBytes ? Buffer.from(bytes as number[]).toString('base64') : content
}

function remoteOf (
  at: number,
  url: string,
  { filename, content_type: contentType, content_id: contentId }: ReturnType<typeof namesOf>
): RemoteFile {
  return { at, url, filename: filename ?? lastOf(url), contentType, contentId }
}

/** The last part of a URL's path is what a browser would save it as. */
function lastOf (url: string): string {
  const name = URL.parse(url)?.pathname.split('/').at(-1) ?? ''
  try {
    return decodeURIComponent(name) || 'attachment'
  } catch {
    return name
  }
}

function isScalar (value: unknown): boolean {
  return typeof value === 'number' || typeof value === 'boolean'
}

export function isFields (value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
