import { Type, type Static } from '@sinclair/typebox'
import { parseMailbox, type Mailbox } from '#streams/address.ts'
import { AnyName } from '#streams/define.ts'
import { scheduleFault } from '#streams/email/decide.ts'
import { headerFaults } from '#streams/email/headers.ts'
import { isPlain, jsonFault } from '#streams/json.ts'
import type { Draft } from '#src/actions/email.ts'
import { parseTime } from '#src/base/clock.ts'
import { attachmentFaults, FILES_MAX, readAttachment } from '#src/content/attachments.ts'
import type { Fault } from './errors.ts'
import { timeMessage } from './params.ts'

const BODY_BYTES_MAX = 2 * 1024 * 1024
const METADATA_BYTES_MAX = 8 * 1024
const METADATA_VALUES_MAX = 50
const RECIPIENTS_MAX = 50
const REPLY_TO_MAX = 10
const TAGS_MAX = 20
// C0, DEL and C1: the same rule as for names.
const CONTROL = /\p{Cc}/u

const TIME = timeMessage('scheduled_at')

const Tag = Type.String({ minLength: 1, maxLength: 128, description: 'A tag has 1 to 128 characters.' })
const MetadataValue = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()], {
  description: 'A metadata value is a string, number, boolean or null.'
})

const addresses = (name: string, min: number, max: number) =>
  Type.Union([Type.String(), Type.Array(Type.String(), { minItems: min, maxItems: max })], {
    description: `${name} is an address or a list of ${min} to ${max} addresses.`
  })

const AttachmentRequest = Type.Object({
  filename: Type.String({ description: 'filename is a string.' }),
  content: Type.String({ description: 'content is the file in base64.' }),
  content_type: Type.Optional(Type.String({ description: 'content_type is a media type like image/png.' })),
  content_id: Type.Optional(Type.String({ description: 'content_id is the name that html refers to as cid:….' }))
}, { additionalProperties: false, description: 'An attachment is an object.' })

/** Spec 2.1 and 4.1, and the fields they leave open, as the contract has them under "Send fields". */
export const SendRequest = Type.Object({
  from: Type.String({ description: 'from is an address, or a name and an address: "Ada <ada@example.com>".' }),
  to: addresses('to', 1, RECIPIENTS_MAX),
  cc: Type.Optional(addresses('cc', 0, RECIPIENTS_MAX)),
  bcc: Type.Optional(addresses('bcc', 0, RECIPIENTS_MAX)),
  reply_to: Type.Optional(addresses('reply_to', 0, REPLY_TO_MAX)),
  subject: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 998,
      description: 'subject has 1 to 998 characters. Only a template that has one may stand in for it.'
    })
  ),
  html: Type.Optional(Type.String({ description: 'html is a string of at most 2 MB.' })),
  text: Type.Optional(Type.String({ description: 'text is a string of at most 2 MB.' })),
  template_id: Type.Optional(
    Type.String({ description: 'template_id is the id of a template, which stands in for html and text.' })
  ),
  variables: Type.Optional(
    Type.Record(AnyName, Type.Unknown(), { description: 'variables is an object of what the template is filled with.' })
  ),
  headers: Type.Optional(Type.Record(AnyName, Type.String({ description: 'A header is a string.' }), {
    description: 'headers is an object of at most 50 header fields, name to value.'
  })),
  attachments: Type.Optional(
    Type.Array(AttachmentRequest, {
      maxItems: FILES_MAX,
      description: `attachments is a list of at most ${FILES_MAX} files, 10 MB in all.`
    })
  ),
  tags: Type.Optional(Type.Array(Tag, { maxItems: TAGS_MAX, description: 'tags is a list of at most 20 strings.' })),
  metadata: Type.Optional(
    Type.Record(AnyName, MetadataValue, { description: 'metadata is an object of at most 50 scalar values.' })
  ),
  scheduled_at: Type.Optional(Type.String({ description: TIME })),
  expires_in: Type.Optional(
    Type.Integer({
      minimum: 300,
      maximum: 432_000,
      description: 'expires_in is a number of seconds from 300 to 432000.'
    })
  ),
  track: Type.Optional(Type.Object({
    opens: Type.Optional(Type.Boolean({ description: 'opens is true or false.' })),
    clicks: Type.Optional(Type.Boolean({ description: 'clicks is true or false.' }))
  }, { additionalProperties: false, description: 'track is an object with opens and clicks.' })),
  unsubscribe: Type.Optional(Type.Boolean({ description: 'unsubscribe is true or false.' })),
  on_doubt: Type.Optional(
    Type.Union([Type.Literal('retry'), Type.Literal('hold')], { description: 'on_doubt is retry or hold.' })
  )
}, {
  additionalProperties: false,
  description: 'The body is a JSON object.',
  examples: [{
    from: 'Ada <ada@sandbox.jetpost.test>',
    to: 'grace@example.com',
    subject: 'Hello',
    html: '<p>Hello</p>',
    tags: ['welcome']
  }]
})
export type SendRequest = Static<typeof SendRequest>

/** What reading needs to know beside the body. */
export interface DraftContext {
  nowMs: number
  contentRetentionMs: number
  /** It came with an Idempotency-Key. */
  isRepeatable: boolean
}

/** The draft a body describes, or every fault of schema (`faults`) and meaning together. */
export function readDraft (body: SendRequest, faults: Fault[], context: DraftContext): Draft | Fault[] {
  // A body that is no object has no fields to look at.
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return faults
  const known = new Set(faults.map(fault => fault.field))
  const all = [...faults]
  const say: Say = (field, code, message) => {
    if (known.has(field)) return
    known.add(field)
    all.push({ field, code, message })
  }
  const from = readFrom(body.from, say)
  const recipients = readRecipients(body, say)
  const replyTo = readMailboxes('reply_to', body.reply_to, REPLY_TO_MAX, say)
  readSubject(body, say)
  readBodies(body, say)
  readLabels(body, say)
  const headers = readHeaders(body.headers, body.unsubscribe, say)
  readFiles(body.attachments, say)
  readVariables(body, say)
  const scheduledMs = readSchedule(body, context, say)
  if (all.length > 0) return all
  return {
    from: from!,
    recipients,
    replyTo,
    subject: body.subject ?? null,
    html: body.html ?? null,
    text: body.text ?? null,
    template: body.template_id === undefined ? null : { id: body.template_id, variables: body.variables ?? {} },
    headers,
    files: (body.attachments ?? []).map(readAttachment),
    tags: body.tags ?? [],
    metadata: body.metadata ?? {},
    scheduledMs,
    expiresInS: body.expires_in ?? null,
    options: { ...body.track, unsubscribe: body.unsubscribe },
    onDoubt: body.on_doubt ?? 'retry'
  }
}

type Say = (field: string, code: string, message: string) => void

function readFrom (text: unknown, say: Say): Mailbox | null {
  const mailbox = typeof text === 'string' ? parseMailbox(text) : null
  if (mailbox === null && text !== undefined) say('from', 'invalid_address', 'from is not a mail address.')
  return mailbox
}

const KINDS = ['to', 'cc', 'bcc'] as const

/** The same address twice is one recipient, where it stands first: nobody wants two copies. */
function readRecipients (body: SendRequest, say: Say): Draft['recipients'] {
  const recipients = new Map<string, Draft['recipients'][number]>()
  for (const kind of KINDS) {
    for (const mailbox of readMailboxes(kind, body[kind], RECIPIENTS_MAX, say)) {
      const folded = mailbox.address.toLowerCase()
      if (!recipients.has(folded)) recipients.set(folded, { ...mailbox, kind })
    }
  }
  const given = KINDS.reduce((sum, kind) => sum + [body[kind] ?? []].flat().length, 0)
  if (given > RECIPIENTS_MAX) say('to', 'too_many', `to, cc and bcc name at most ${RECIPIENTS_MAX} addresses together.`)
  return [...recipients.values()]
}

function readMailboxes (name: string, given: unknown, max: number, say: Say): Mailbox[] {
  const list = Array.isArray(given) ? given as unknown[] : typeof given === 'string' ? [given] : []
  return list.slice(0, max).flatMap((text, i) => {
    const mailbox = typeof text === 'string' ? parseMailbox(text) : null
    const field = Array.isArray(given) ? `${name}[${i}]` : name
    if (mailbox === null) say(field, 'invalid_address', `${field} is not a mail address.`)
    return mailbox ?? []
  })
}

function readSubject ({ subject, template_id: template }: SendRequest, say: Say): void {
  if (subject === undefined && template === undefined) say('subject', 'required', 'subject is required.')
  if (typeof subject !== 'string') return
  if (CONTROL.test(subject)) say('subject', 'invalid_characters', 'subject is one line without control characters.')
  else if (!subject.isWellFormed()) say('subject', 'invalid_characters', 'subject holds half a surrogate pair.')
}

function readBodies ({ html, text, template_id: template, variables }: SendRequest, say: Say): void {
  if (template === undefined) {
    if (html === undefined && text === undefined) {
      say('html', 'required', 'One of html, text and template_id is required.')
    }
    if (variables !== undefined) say('variables', 'not_supported', 'variables come with a template_id.')
  } else if (html !== undefined || text !== undefined) {
    say('template_id', 'not_supported', 'A template stands in for html and text: give the one or the others.')
  }
  for (const [field, value] of Object.entries({ html, text })) {
    if (typeof value !== 'string') continue
    if (Buffer.byteLength(value) > BODY_BYTES_MAX) say(field, 'too_long', `${field} is at most 2 MB.`)
    else if (!isPlain(value)) say(field, 'invalid_characters', `${field} holds NUL or half a surrogate pair.`)
  }
}

function readLabels ({ tags, metadata }: SendRequest, say: Say): void {
  if (Array.isArray(tags)) {
    for (const [i, tag] of tags.slice(0, TAGS_MAX).entries()) {
      if (typeof tag === 'string' && !isPlain(tag)) {
        say(`tags[${i}]`, 'invalid_characters', 'A tag holds no NUL and whole characters only.')
      }
    }
  }
  if (!isObject(metadata)) return
  const entries = Object.entries(metadata)
  if (entries.length > METADATA_VALUES_MAX) return say('metadata', 'too_many', 'metadata has at most 50 values.')
  for (const [name, value] of entries) {
    const field = `metadata.${name.slice(0, 100)}`
    if (name === '' || CONTROL.test(name) || !name.isWellFormed()) {
      say(field, 'invalid_name', 'A metadata name is not empty and has no control characters.')
    } else if (typeof value === 'string' && !isPlain(value)) {
      say(field, 'invalid_characters', 'A metadata value holds no NUL and whole characters only.')
    }
  }
  // What is nested was refused by the schema.
  const flat = entries.every(([, value]) => typeof value !== 'object' || value === null)
  if (flat && Buffer.byteLength(JSON.stringify(metadata)) > METADATA_BYTES_MAX) {
    say('metadata', 'too_long', 'metadata is at most 8 kB of JSON.')
  }
}

function readHeaders (headers: unknown, unsubscribe: unknown, say: Say): Draft['headers'] {
  if (!isObject(headers)) return []
  const list = Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' ? { name, value } : []))
  for (const { at, fault } of headerFaults(list, { unsubscribe: unsubscribe !== false })) {
    say(at === null ? 'headers' : `headers.${list[at]!.name.slice(0, 100)}`, fault.code, fault.message)
  }
  return list
}

function readFiles (attachments: unknown, say: Say): void {
  if (!Array.isArray(attachments)) return
  for (const { field, code, message } of attachmentFaults(attachments)) say(`attachments${field}`, code, message)
}

function readVariables ({ variables }: SendRequest, say: Say): void {
  const fault = jsonFault('variables', variables)
  if (fault !== null) say('variables', fault.code, fault.message)
}

function readSchedule (
  { scheduled_at: at }: SendRequest,
  { nowMs, contentRetentionMs, isRepeatable }: DraftContext,
  say: Say
): number | null {
  if (typeof at !== 'string') return null
  const ms = parseTime(at)
  if (ms === null) {
    say('scheduled_at', 'invalid_value', TIME)
    return null
  }
  // What is said again under its key may be late: whether it is new is not known yet.
  const fault = isRepeatable ? null : scheduleFault(ms, nowMs, nowMs + contentRetentionMs)
  if (fault !== null) say('scheduled_at', fault.code, fault.message)
  return ms
}

function isObject (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
