import { Type, type Static } from '@sinclair/typebox'
import { isNameUnquoted, parseMailbox, type Mailbox } from '#streams/address.ts'
import { AnyName, type FieldFault } from '#streams/define.ts'
import { scheduleFault } from '#streams/email/decide.ts'
import { RECIPIENTS_MAX } from '#streams/email/facts.ts'
import { headerFaults } from '#streams/email/headers.ts'
import { isPlain, jsonFault, MUST_BE_PLAIN } from '#streams/json.ts'
import { foldAddress } from '#streams/suppression/decide.ts'
import type { EmailDraft } from '#src/actions/email.ts'
import { parseTime } from '#src/base/clock.ts'
import { alternativeFaults, ALTERNATIVES_MAX, readAlternative } from '#src/content/mime.ts'
import { attachmentFaults, FILES_MAX, readAttachment } from '#src/content/attachments.ts'
import { FaultList } from './errors.ts'
import { MUST_BE_ADDRESS, MUST_BE_OBJECT, MUST_BE_TIME } from './params.ts'

const BODY_BYTES_MAX = 2 * 1024 * 1024
const METADATA_BYTES_MAX = 8 * 1024
const METADATA_VALUES_MAX = 50
const REPLY_TO_MAX = 10
const TAGS_MAX = 20
// C0, DEL and C1: the same rule as for names.
const CONTROL = /\p{Cc}/u

const Tag = Type.String({ minLength: 1, maxLength: 128 })
const MetadataValue = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()], {
  must: 'be a string, a number, true, false or null'
})

const Address = Type.String({ must: MUST_BE_ADDRESS })

function addresses (description: string, min: number, max: number, noun = 'recipient') {
  const list = Type.Array(Address, { minItems: min, maxItems: max, noun })
  return Type.Union([Address, list], { must: `${MUST_BE_ADDRESS} or a list of them`, description })
}

const AttachmentRequest = Type.Object({
  filename: Type.String({ description: 'Name of the file, without a path. At most 255 characters.' }),
  content: Type.String({ description: 'The file in standard base64.' }),
  content_type: Type.Optional(
    Type.String({
      description: 'Media type, such as `image/png`. Left out, it is guessed from the extension.'
    })
  ),
  content_id: Type.Optional(
    Type.String({
      description: 'The name by which `html` shows the file: `<img src="cid:…">`.'
    })
  )
}, { additionalProperties: false })

const AlternativeRequest = Type.Object({
  content_type: Type.String({
    description:
      'A text type, such as `text/calendar; method=REQUEST`, but for plain text and HTML. It is sent as UTF-8.'
  }),
  content: Type.String({ description: 'The text. At most 256 kB.' })
}, { additionalProperties: false })

/** Spec 2.1 and 4.1, and the fields they leave open, as the contract has them under "Send fields". */
export const SendRequest = Type.Object({
  from: Type.String({
    must: MUST_BE_ADDRESS,
    description: 'The sender: an address, or a name and an address: `Ada <ada@example.com>`.'
  }),
  to: addresses(
    `The recipients: one address or a list. At most ${RECIPIENTS_MAX} with \`cc\` and \`bcc\`.`,
    1,
    RECIPIENTS_MAX
  ),
  cc: Type.Optional(addresses('Recipients of a copy.', 0, RECIPIENTS_MAX)),
  bcc: Type.Optional(addresses('Recipients of a copy whom the others do not see.', 0, RECIPIENTS_MAX)),
  reply_to: Type.Optional(addresses('Where replies go: one address or up to 10.', 0, REPLY_TO_MAX, 'address')),
  subject: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 998,
      description: "The subject line. Required, unless the template has one; replaces the template's."
    })
  ),
  html: Type.Optional(Type.String({ description: 'The HTML body. At most 2 MB.' })),
  text: Type.Optional(Type.String({ description: 'The plain-text body. At most 2 MB.' })),
  template_id: Type.Optional(Type.String({ description: 'A template, which replaces `html` and `text`.' })),
  variables: Type.Optional(
    Type.Record(AnyName, Type.Unknown(), { description: 'The values that fill the template, by name.' })
  ),
  headers: Type.Optional(
    Type.Record(AnyName, Type.String(), { description: 'Your own headers, name to value. At most 50.' })
  ),
  attachments: Type.Optional(
    Type.Array(AttachmentRequest, {
      maxItems: FILES_MAX,
      noun: 'file',
      description: `Files to attach. At most ${FILES_MAX}, 10 MB decoded in all.`
    })
  ),
  alternatives: Type.Optional(
    Type.Array(AlternativeRequest, {
      maxItems: ALTERNATIVES_MAX,
      noun: 'part',
      description: `Further forms of the body, after \`html\`, such as an invitation. At most ${ALTERNATIVES_MAX}.`
    })
  ),
  tags: Type.Optional(
    Type.Array(Tag, {
      maxItems: TAGS_MAX,
      noun: 'tag',
      description: 'Labels to filter and count by. They do not go into the mail.'
    })
  ),
  metadata: Type.Optional(
    Type.Record(AnyName, MetadataValue, {
      description: 'Your own data, which webhooks carry. At most 50 values, 8 kB of JSON. It does not go into the mail.'
    })
  ),
  scheduled_at: Type.Optional(
    Type.String({ must: MUST_BE_TIME, description: 'When to send. At once when left out.' })
  ),
  expires_in: Type.Optional(
    Type.Integer({
      minimum: 300,
      maximum: 432_000,
      description: 'Seconds in which a server must accept the mail. 72 hours when left out.'
    })
  ),
  track: Type.Optional(Type.Object({
    opens: Type.Optional(Type.Boolean({ description: 'Whether a pixel reports opens.' })),
    clicks: Type.Optional(Type.Boolean({ description: 'Whether links report clicks.' }))
  }, {
    additionalProperties: false,
    description: 'What is tracked. What is left out, the key or the domain decides.'
  })),
  unsubscribe: Type.Optional(
    Type.Boolean({
      description: 'Whether recipients can unsubscribe by List-Unsubscribe. Left out, the key or the domain decides.'
    })
  ),
  on_doubt: Type.Optional(
    Type.Union([Type.Literal('retry'), Type.Literal('hold')], {
      description: 'What to do when the connection broke before the server answered: send again, or hold for a ' +
        'person. `retry` when left out.'
    })
  )
}, {
  must: MUST_BE_OBJECT,
  additionalProperties: false,
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

/** The draft a body describes, or every fault of schema (`found`) and meaning together. */
export function readDraft (body: SendRequest, found: FieldFault[], context: DraftContext): EmailDraft | FieldFault[] {
  // A body that is no object has no fields to look at.
  if (!isObject(body)) return found
  const faults = new FaultList(found)
  const from = readFrom(body.from, faults)
  const recipients = readRecipients(body, faults)
  const replyTo = readMailboxes('reply_to', body.reply_to, REPLY_TO_MAX, faults)
  readSubject(body, faults)
  readBodies(body, faults)
  readTags(body, faults)
  readMetadata(body, faults)
  const headers = readHeaders(body.headers, body.unsubscribe, faults)
  readFiles(body, faults)
  readVariables(body, faults)
  const scheduledMs = readSchedule(body, context, faults)
  if (faults.all.length > 0) return faults.all
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
    alternatives: (body.alternatives ?? []).map(readAlternative),
    tags: body.tags ?? [],
    metadata: body.metadata ?? {},
    scheduledMs,
    expiresInS: body.expires_in ?? null,
    options: { ...body.track, unsubscribe: body.unsubscribe },
    onDoubt: body.on_doubt ?? 'retry'
  }
}

function readFrom (text: unknown, faults: FaultList): Mailbox | null {
  const mailbox = typeof text === 'string' ? parseMailbox(text) : null
  if (mailbox === null && text !== undefined) faults.must('from', 'invalid_address', mustBeMailbox(text))
  return mailbox
}

function mustBeMailbox (text: unknown): string {
  if (typeof text !== 'string' || !isNameUnquoted(text)) return MUST_BE_ADDRESS
  return `${MUST_BE_ADDRESS}; a name with " or < in it must be quoted: "Ada \\"A\\" Byron" <ada@example.com>`
}

const KINDS = ['to', 'cc', 'bcc'] as const

/** The same address twice is one recipient, where it stands first: nobody wants two copies. */
function readRecipients (body: SendRequest, faults: FaultList): EmailDraft['recipients'] {
  const recipients = new Map<string, EmailDraft['recipients'][number]>()
  for (const kind of KINDS) {
    for (const mailbox of readMailboxes(kind, body[kind], RECIPIENTS_MAX, faults)) {
      const folded = foldAddress(mailbox.address)
      if (!recipients.has(folded)) recipients.set(folded, { ...mailbox, kind })
    }
  }
  const given = KINDS.reduce((sum, kind) => sum + [body[kind] ?? []].flat().length, 0)
  if (given > RECIPIENTS_MAX) {
    faults.must('to', 'too_many', `have at most ${RECIPIENTS_MAX} recipients, together with cc and bcc`)
  }
  return [...recipients.values()]
}

function readMailboxes (name: string, given: unknown, max: number, faults: FaultList): Mailbox[] {
  const list = Array.isArray(given) ? given as unknown[] : typeof given === 'string' ? [given] : []
  return list.slice(0, max).flatMap((text, i) => {
    const mailbox = typeof text === 'string' ? parseMailbox(text) : null
    const field = Array.isArray(given) ? `${name}[${i}]` : name
    if (mailbox === null) faults.must(field, 'invalid_address', mustBeMailbox(text))
    return mailbox ?? []
  })
}

function readSubject ({ subject, template_id: template }: SendRequest, faults: FaultList): void {
  if (subject === undefined && template === undefined) {
    faults.add({ field: 'subject', code: 'required', message: 'subject is required.' })
  }
  if (typeof subject !== 'string') return
  if (CONTROL.test(subject)) {
    faults.must('subject', 'invalid_characters', 'be one line without control characters')
  } else if (!subject.isWellFormed()) faults.must('subject', 'invalid_characters', MUST_BE_PLAIN)
}

function readBodies ({ html, text, template_id: template, variables }: SendRequest, faults: FaultList): void {
  if (template === undefined) {
    if (html === undefined && text === undefined) {
      faults.add({ field: 'html', code: 'required', message: 'html, text or template_id is required.' })
    }
    if (variables !== undefined) faults.must('variables', 'not_supported', 'come with a template_id')
  } else if (html !== undefined || text !== undefined) {
    faults.must('template_id', 'not_supported', 'come without html and text')
  }
  for (const [field, value] of Object.entries({ html, text })) {
    if (typeof value !== 'string') continue
    if (Buffer.byteLength(value) > BODY_BYTES_MAX) faults.must(field, 'too_long', 'be at most 2 MB')
    else if (!isPlain(value)) faults.must(field, 'invalid_characters', MUST_BE_PLAIN)
  }
}

function readTags ({ tags }: SendRequest, faults: FaultList): void {
  if (!Array.isArray(tags)) return
  for (const [i, tag] of tags.slice(0, TAGS_MAX).entries()) {
    if (typeof tag === 'string' && !isPlain(tag)) faults.must(`tags[${i}]`, 'invalid_characters', MUST_BE_PLAIN)
  }
}

function readMetadata ({ metadata }: SendRequest, faults: FaultList): void {
  if (!isObject(metadata)) return
  const entries = Object.entries(metadata)
  if (entries.length > METADATA_VALUES_MAX) {
    return faults.must('metadata', 'too_many', `have at most ${METADATA_VALUES_MAX} values`)
  }
  for (const [name, value] of entries) {
    const field = `metadata.${name.slice(0, 100)}`
    if (name === '' || CONTROL.test(name) || !name.isWellFormed()) {
      faults.add({
        field,
        code: 'invalid_name',
        message: 'metadata must have names that are not empty and have no control characters.'
      })
    } else if (typeof value === 'string' && !isPlain(value)) faults.must(field, 'invalid_characters', MUST_BE_PLAIN)
  }
  // What is nested was refused by the schema.
  const flat = entries.every(([, value]) => typeof value !== 'object' || value === null)
  if (flat && Buffer.byteLength(JSON.stringify(metadata)) > METADATA_BYTES_MAX) {
    faults.must('metadata', 'too_long', 'be at most 8 kB as JSON')
  }
}

function readHeaders (headers: unknown, unsubscribe: unknown, faults: FaultList): EmailDraft['headers'] {
  if (!isObject(headers)) return []
  const list = Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' ? { name, value } : []))
  for (const { at, fault: { code, message } } of headerFaults(list, { unsubscribe: unsubscribe !== false })) {
    faults.add({ field: at === null ? 'headers' : `headers.${list[at]!.name.slice(0, 100)}`, code, message })
  }
  return list
}

function readFiles ({ attachments, alternatives }: SendRequest, faults: FaultList): void {
  const found = {
    attachments: Array.isArray(attachments) ? attachmentFaults(attachments) : [],
    alternatives: Array.isArray(alternatives) ? alternativeFaults(alternatives) : []
  }
  for (const [name, those] of Object.entries(found)) {
    for (const { field, code, message } of those) faults.add({ field: `${name}${field}`, code, message })
  }
}

function readVariables ({ variables }: SendRequest, faults: FaultList): void {
  const fault = jsonFault('variables', variables)
  if (fault !== null) faults.add({ field: 'variables', code: fault.code, message: fault.message })
}

function readSchedule (
  { scheduled_at: at }: SendRequest,
  { nowMs, contentRetentionMs, isRepeatable }: DraftContext,
  faults: FaultList
): number | null {
  if (typeof at !== 'string') return null
  const ms = parseTime(at)
  if (ms === null) {
    faults.must('scheduled_at', 'invalid_value', MUST_BE_TIME)
    return null
  }
  // What is said again under its key may be late: whether it is new is not known yet.
  const fault = isRepeatable ? null : scheduleFault(ms, nowMs, nowMs + contentRetentionMs)
  if (fault !== null) faults.add({ field: 'scheduled_at', code: fault.code, message: fault.message })
  return ms
}

function isObject (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
