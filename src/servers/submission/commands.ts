import type { OwnHeader } from '#streams/email/headers.ts'
import { isPlain } from '#streams/json.ts'
import { IDEMPOTENCY_KEY } from '#src/actions/acceptor.ts'
import type { EmailDraft } from '#src/actions/email.ts'
import { parseTime } from '#src/base/clock.ts'
import { badMessage } from './replies.ts'

/** What header fields ask for. */
export interface Commands extends Pick<EmailDraft, 'tags' | 'metadata' | 'scheduledMs' | 'options' | 'template'> {
  idempotencyKey: string | null
}

type MetadataValue = EmailDraft['metadata'][string]

const TAGS_MAX = 20
const TAG_CHARS_MAX = 128
const METADATA_VALUES_MAX = 50
const METADATA_BYTES_MAX = 8 * 1024
const KEY_CHARS_MAX = 255
const KEY_CHARS_MAX_OF_RESEND = 256
const CONTROL = /\p{Cc}/u

/** What one field does. */
type Take = (collected: Collected, header: OwnHeader) => void

interface Collected {
  tags: string[]
  metadata: Map<string, MetadataValue>
  scheduledMs: number | null
  options: EmailDraft['options']
  template: string | null
  variables: Record<string, unknown>
  idempotencyKey: string | null
}

const takeTag: Take = ({ tags }, { value }) => void tags.push(value)

/** By the whole name, in lower case. */
const FIELDS: Record<string, Take> = {
  'x-jetpost-tag': takeTag,
  'x-pm-tag': takeTag,
  'x-tag': takeTag,
  'x-mailgun-tag': takeTag,
  'x-jetpost-scheduled-at': (collected, { name, value }) => {
    collected.scheduledMs = parseTime(value)
    if (collected.scheduledMs === null) throw badMessage(`${name} must be a time such as 2026-11-21T12:00:00Z`)
  },
  'x-jetpost-track': ({ options }, { name, value }) => Object.assign(options, readTrack(name, value)),
  'x-jetpost-unsubscribe': ({ options }, { name, value }) => {
    options.unsubscribe = readBoolean(name, value)
  },
  'x-jetpost-template': (collected, { value }) => {
    collected.template = value
  },
  'x-jetpost-variables': (collected, { name, value }) => {
    collected.variables = readObject(name, value)
  },
  'x-ses-message-tags': ({ metadata }, { name, value }) => readPairs(name, value, metadata),
  'x-mailgun-variables': ({ metadata }, { name, value }) => addAll(metadata, readObject(name, value)),
  'x-smtpapi': ({ tags, metadata }, { name, value }) => readSmtpApi(name, value, tags, metadata),
  'idempotency-key': takeIdempotencyKey,
  'resend-idempotency-key': takeIdempotencyKey
}
/** What follows is the name of a value, in lower case: libraries write the names of fields in a case of their own. */
const METADATA = /^x-(?:jetpost|pm)-metadata-|^x-metadata-/

/** True for the name, in lower case, of a field that is for us, also of one of ours that we do not know. */
export function isCommand (name: string): boolean {
  return Object.hasOwn(FIELDS, name) || name.startsWith('x-jetpost-') || METADATA.test(name)
}

/** Throws a SmtpRefusal for the first that cannot be followed. */
export function readCommands (headers: OwnHeader[]): Commands {
  const collected: Collected = {
    tags: [],
    metadata: new Map(),
    scheduledMs: null,
    // A login link must not lead through us, and a password reset has nothing to unsubscribe from.
    options: {},
    template: null,
    variables: {},
    idempotencyKey: null
  }
  for (const header of headers) {
    const { name, value } = header
    const lower = name.toLowerCase()
    if (Object.hasOwn(FIELDS, lower)) FIELDS[lower]!(collected, header)
    else if (METADATA.test(lower)) collected.metadata.set(lower.replace(METADATA, ''), value)
    else if (lower.startsWith('x-jetpost-')) throw badMessage(`${name} is no header that Jetpost knows`)
  }
  const { tags, metadata, scheduledMs, options, template, variables, idempotencyKey } = collected
  checkTags(tags)
  checkMetadata(metadata)
  return {
    tags,
    metadata: Object.fromEntries(metadata),
    scheduledMs,
    options,
    template: template === null ? null : { id: template, variables },
    idempotencyKey
  }
}

function takeIdempotencyKey (collected: Collected, { name, value }: OwnHeader): void {
  const max = name.toLowerCase().startsWith('resend-') ? KEY_CHARS_MAX_OF_RESEND : KEY_CHARS_MAX
  if (collected.idempotencyKey !== null || value.length > max || !IDEMPOTENCY_KEY.test(value)) {
    throw badMessage(`${name} must be given once, with 1 to ${max} printable ASCII characters`)
  }
  collected.idempotencyKey = value
}

function readTrack (name: string, value: string): { opens: boolean, clicks: boolean } {
  const words = value.toLowerCase().split(',').map(word => word.trim())
  if (words.length === 1 && words[0] === 'none') return { opens: false, clicks: false }
  if (!words.every(word => word === 'opens' || word === 'clicks')) {
    throw badMessage(`${name} must be opens, clicks, opens,clicks or none`)
  }
  return { opens: words.includes('opens'), clicks: words.includes('clicks') }
}

function readBoolean (name: string, value: string): boolean {
  if (/^(true|yes|on|1)$/i.test(value)) return true
  if (/^(false|no|off|0)$/i.test(value)) return false
  throw badMessage(`${name} must be true or false`)
}

function readObject (name: string, value: string): Record<string, unknown> {
  try {
    const parsed = JSON.parse(value) as unknown
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) {
      return parsed as Record<string, unknown>
    }
  } catch {}
  throw badMessage(`${name} must be a JSON object`)
}

/** What has no place in metadata as it is stands there as JSON. */
function addAll (metadata: Map<string, MetadataValue>, values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) {
    const isPlainValue = value === null || ['string', 'boolean'].includes(typeof value) || Number.isFinite(value)
    metadata.set(name, isPlainValue ? value as MetadataValue : JSON.stringify(value))
  }
}

/** `name=value, name=value`. */
function readPairs (name: string, value: string, metadata: Map<string, MetadataValue>): void {
  for (const pair of value.split(/[,;]/).map(text => text.trim()).filter(text => text !== '')) {
    const at = pair.indexOf('=')
    if (at < 1) throw badMessage(`${name} must be a list such as campaign=spring, audience=all`)
    metadata.set(pair.slice(0, at).trim(), pair.slice(at + 1).trim())
  }
}

function readSmtpApi (name: string, value: string, tags: string[], metadata: Map<string, MetadataValue>): void {
  const { category = [], unique_args: args = {} } = readObject(name, value)
  const categories = [category].flat()
  const isObject = typeof args === 'object' && args !== null && !Array.isArray(args)
  if (!isObject || !categories.every(one => typeof one === 'string')) {
    throw badMessage(`${name} must have texts as category, and an object as unique_args`)
  }
  tags.push(...categories as string[])
  addAll(metadata, args as Record<string, unknown>)
}

function checkTags (tags: string[]): void {
  if (tags.length > TAGS_MAX) throw badMessage(`There must be at most ${TAGS_MAX} tags`)
  if (!tags.every(tag => tag !== '' && tag.length <= TAG_CHARS_MAX && isPlain(tag))) {
    throw badMessage(`A tag must have 1 to ${TAG_CHARS_MAX} characters`)
  }
}

function checkMetadata (metadata: Map<string, MetadataValue>): void {
  if (metadata.size > METADATA_VALUES_MAX) throw badMessage(`Metadata must have at most ${METADATA_VALUES_MAX} values`)
  for (const [name, value] of metadata) {
    if (name === '' || CONTROL.test(name) || !name.isWellFormed()) {
      throw badMessage('Metadata must have names that are not empty')
    }
    if (typeof value === 'string' && !isPlain(value)) throw badMessage(`Metadata ${name} must be plain text`)
  }
  if (Buffer.byteLength(JSON.stringify(Object.fromEntries(metadata))) > METADATA_BYTES_MAX) {
    throw badMessage('Metadata must be at most 8 kB as JSON')
  }
}
