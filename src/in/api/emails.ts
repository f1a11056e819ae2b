import { Type, type Static } from '@sinclair/typebox'
import { parseMailbox, type Mailbox } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import type { Desk } from '#src/actions/desk.ts'
import { requestEmail, type Draft } from '#src/actions/email.ts'
import { created, schemaFaults, type Api } from './context.ts'
import { forbidden, invalid, type Fault } from './errors.ts'

const BODY_BYTES_MAX = 2 * 1024 * 1024
const METADATA_BYTES_MAX = 8 * 1024
const METADATA_VALUES_MAX = 50
const RECIPIENTS_MAX = 50
const TAGS_MAX = 20

// C0, DEL and C1: the same rule as for names.
const CONTROL = /\p{Cc}/u

const Tag = Type.String({ minLength: 1, maxLength: 128, description: 'A tag has 1 to 128 characters.' })
const MetadataValue = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()], { description: 'A metadata value is a string, number, boolean or null.' })

/** Without a pattern a record's names are those without a line break, and the values of others would pass unseen. */
const AnyName = Type.String({ pattern: '^[^]*$' })

/** Spec 2.1 and 4.1, and the fields they leave open: several recipients, text, tags, metadata. */
const SendRequest = Type.Object({
  from: Type.String({ description: 'from is an address, or a name and an address: "Ada <ada@example.com>".' }),
  to: Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1, maxItems: RECIPIENTS_MAX })], { description: 'to is an address or a list of 1 to 50 addresses.' }),
  subject: Type.String({ minLength: 1, maxLength: 998, description: 'subject has 1 to 998 characters.' }),
  html: Type.Optional(Type.String({ description: 'html is a string.' })),
  text: Type.Optional(Type.String({ description: 'text is a string.' })),
  tags: Type.Optional(Type.Array(Tag, { maxItems: TAGS_MAX, description: 'tags is a list of at most 20 strings.' })),
  metadata: Type.Optional(Type.Record(AnyName, MetadataValue, { description: 'metadata is an object of at most 50 scalar values.' }))
}, { additionalProperties: false, description: 'The body is a JSON object.' })
type SendRequest = Static<typeof SendRequest>

const SendAnswer = Type.Object({ id: Type.String(), email_id: Type.String(), status: Type.Literal('queued'), created_at: Type.String() })

export function sendRoutes (app: Api, desk: Desk): void {
  app.post('/emails', {
    config: { scope: 'emails:send' },
    schema: { body: SendRequest, response: { 202: SendAnswer } },
    attachValidation: true
  }, async (request, reply) => {
    const draft = readDraft(request.body, schemaFaults(request))
    const accepted = await requestEmail(desk, request.key!, request.id, draft)
    if (accepted instanceof Refusal) throw forbidden()
    created(reply, 202, `/api/emails/${accepted.email}`)
    return { id: accepted.email, email_id: accepted.email, status: 'queued' as const, created_at: accepted.createdAt }
  })
}

/** The draft a body describes; throws 422 with every fault of schema and meaning together. */
function readDraft (body: SendRequest, faults: Fault[]): Draft {
  // A body that is no object has no fields to look at.
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalid(faults)
  const known = new Set(faults.map(fault => fault.field))
  const say = (field: string, code: string, message: string) => { if (!known.has(field)) faults.push({ field, code, message }) }
  const from = readFrom(body.from, say)
  const recipients = readRecipients(body.to, say)
  readSubject(body.subject, say)
  readBodies(body, say)
  readLabels(body, say)
  if (faults.length > 0) throw invalid(faults)
  return {
    from: from!,
    recipients: recipients.map(mailbox => ({ ...mailbox, kind: 'to' as const })),
    subject: body.subject,
    html: body.html ?? null,
    text: body.text ?? null,
    tags: body.tags ?? [],
    metadata: body.metadata ?? {}
  }
}

type Say = (field: string, code: string, message: string) => void

function readFrom (text: unknown, say: Say): Mailbox | null {
  const mailbox = typeof text === 'string' ? parseMailbox(text) : null
  if (mailbox === null && text !== undefined) say('from', 'invalid_address', 'from is not a mail address.')
  return mailbox
}

function readRecipients (to: unknown, say: Say): Mailbox[] {
  const list = Array.isArray(to) ? to as unknown[] : typeof to === 'string' ? [to] : []
  const mailboxes = new Map<string, Mailbox>()
  for (const [i, text] of list.slice(0, RECIPIENTS_MAX).entries()) {
    const field = Array.isArray(to) ? `to[${i}]` : 'to'
    const mailbox = typeof text === 'string' ? parseMailbox(text) : null
    if (mailbox === null) say(field, 'invalid_address', `${field} is not a mail address.`)
    // The same address twice is one recipient: nobody wants two copies.
    else if (!mailboxes.has(mailbox.address.toLowerCase())) mailboxes.set(mailbox.address.toLowerCase(), mailbox)
  }
  return [...mailboxes.values()]
}

function readSubject (subject: unknown, say: Say): void {
  if (typeof subject !== 'string') return
  if (CONTROL.test(subject)) say('subject', 'invalid_characters', 'subject is one line without control characters.')
  else if (!subject.isWellFormed()) say('subject', 'invalid_characters', 'subject holds half a surrogate pair.')
}

function readBodies ({ html, text }: SendRequest, say: Say): void {
  if (html === undefined && text === undefined) say('html', 'required', 'One of html and text is required.')
  for (const [field, value] of Object.entries({ html, text })) {
    if (typeof value !== 'string') continue
    if (Buffer.byteLength(value) > BODY_BYTES_MAX) say(field, 'too_long', `${field} is at most 2 MB.`)
    else if (value.includes('\0') || !value.isWellFormed()) say(field, 'invalid_characters', `${field} holds NUL or half a surrogate pair.`)
  }
}

function readLabels ({ tags, metadata }: SendRequest, say: Say): void {
  if (Array.isArray(tags)) {
    for (const [i, tag] of tags.slice(0, TAGS_MAX).entries()) if (!isPlain(tag)) say(`tags[${i}]`, 'invalid_characters', 'A tag holds no NUL and whole characters only.')
  }
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return
  const entries = Object.entries(metadata)
  if (entries.length > METADATA_VALUES_MAX) return say('metadata', 'too_many', 'metadata has at most 50 values.')
  for (const [name, value] of entries) {
    const field = `metadata.${name.slice(0, 100)}`
    if (name === '' || CONTROL.test(name) || !name.isWellFormed()) say(field, 'invalid_name', 'A metadata name is not empty and has no control characters.')
    else if (!isPlain(value)) say(field, 'invalid_characters', 'A metadata value holds no NUL and whole characters only.')
  }
  // What is nested was refused by the schema, and may be nested deeper than our stack.
  const flat = entries.every(([, value]) => typeof value !== 'object' || value === null)
  if (flat && Buffer.byteLength(JSON.stringify(metadata)) > METADATA_BYTES_MAX) say('metadata', 'too_long', 'metadata is at most 8 kB of JSON.')
}

function isPlain (value: unknown): boolean {
  return typeof value !== 'string' || (value.isWellFormed() && !value.includes('\0'))
}
