import type { Address, Email, Mailbox as ReadMailbox } from 'postal-mime'
import { parseAddress, type Mailbox } from '#streams/address.ts'
import { RECIPIENTS_MAX } from '#streams/email/facts.ts'
import { headerFault, HEADERS_MAX, isNeverSent, type OwnHeader } from '#streams/email/headers.ts'
import { foldAddress } from '#streams/suppression/decide.ts'
import type { EmailDraft } from '#src/actions/email.ts'
import { oneLine } from '#src/content/headers.ts'
import { fieldsOf, nameOf } from '#src/content/parts.ts'
import { readHead } from '#src/content/read.ts'
import { attachmentsOf, headWithout, splitMessage, viewOf, type WholeMessage } from '#src/content/submitted.ts'
import { isCommand, readCommands, type Commands } from './commands.ts'
import { mailboxesIn } from './mailboxes.ts'
import { badMessage } from './replies.ts'

/** The addresses of RCPT commands, normalised. */
export interface Submission {
  raw: Buffer
  recipients: string[]
}

/** What a message asks for: an email for each 50 of its recipients. */
export interface ReadSubmission {
  drafts: EmailDraft[]
  from: Mailbox
  /** Of a Sender field; null = there is none. */
  sender: string | null
  idempotencyKey: string | null
  /** As the client wrote it; null = it wrote none. */
  messageId: string | null
  /** What is the same when the same mail is made again; reading the texts of a big one takes time. */
  essence(): string
}

/** What reads addresses takes a tenth of a second for this much that is made to be slow. */
const HEAD_BYTES_MAX = 64 * 1024
const SUBJECT_MAX = 998
const REPLY_TO_MAX = 10
/** Not passed on, beside commands and where complaints go: hidden recipients, what servers write at the end of a mail's
 *  way, and signatures of a header that changes here. */
const NOT_PASSED_ON = new Set(['bcc', 'return-path', 'dkim-signature'])
const FROM_MUST = 'The message must have one From field with one address'
const SENDER_MUST = 'The message must have at most one Sender field, with one address'

/** Reads a message and its commands. Throws a SmtpRefusal that says what must be. */
export async function readSubmission ({ raw, recipients }: Submission): Promise<ReadSubmission> {
  const whole = splitMessage(raw)
  if (whole === null) throw badMessage('The message must begin with header fields, each a name, a colon and a value')
  if (whole.head.length > HEAD_BYTES_MAX) throw badMessage('The header must have at most 64 kB')
  const mail = await readHead(Buffer.from(`${whole.head}\r\n`))
  const from = readFrom(whole.head, mail)
  const commands = readCommands(fieldsOf(whole.head).map(readField))
  const passed: WholeMessage = { ...whole, head: headWithout(whole.head, isTakenOut) }
  const drafts = await draftsOf(passed, mail, from, recipients, commands)
  const { subject, whole: content, template, scheduledMs } = drafts[0]!
  return {
    drafts,
    from,
    sender: readSender(whole.head, mail),
    idempotencyKey: commands.idempotencyKey,
    messageId: mail.messageId ?? null,
    essence () {
      const files = content?.attachments.map(file => [file.filename, file.contentType, file.sizeBytes])
      const to = [...recipients].sort()
      return JSON.stringify([from.address, to, subject, viewOf(passed), files, template, scheduledMs])
    }
  }
}

function isTakenOut (name: string): boolean {
  return NOT_PASSED_ON.has(name) || name.startsWith('cfbl-') || isCommand(name) || isNeverSent(name)
}

/** With its name in the case that the client wrote. */
function readField (field: string): OwnHeader {
  const at = field.indexOf(':')
  return { name: field.slice(0, at).trimEnd(), value: field.slice(at + 1).replaceAll('\r\n', '').trim() }
}

async function draftsOf (
  whole: WholeMessage,
  mail: Email,
  from: Mailbox,
  addresses: string[],
  { tags, metadata, scheduledMs, options, template }: Commands
): Promise<EmailDraft[]> {
  const content = template === null
    ? {
      subject: oneLine(mail.subject ?? '').slice(0, SUBJECT_MAX),
      whole: { head: whole.head, body: whole.body.toString('base64'), attachments: await attachmentsOf(whole) }
    }
    : { subject: mail.subject === undefined ? null : oneLine(mail.subject).slice(0, SUBJECT_MAX) }
  const recipients = recipientsOf(addresses, mail)
  const draft = {
    from,
    replyTo: mailboxesOf(mail.replyTo).slice(0, REPLY_TO_MAX),
    html: null,
    text: null,
    files: [],
    alternatives: [],
    template,
    ...content,
    headers: ownHeaders(whole.head),
    tags,
    metadata,
    scheduledMs,
    expiresInS: null,
    options,
    onDoubt: 'retry' as const
  }
  return Array.from({ length: Math.ceil(recipients.length / RECIPIENTS_MAX) }, (_, i) => ({
    ...draft,
    recipients: recipients.slice(i * RECIPIENTS_MAX, (i + 1) * RECIPIENTS_MAX)
  }))
}

/** Those that a request could have named itself, for those who look at it. */
function ownHeaders (head: string): OwnHeader[] {
  return fieldsOf(head).map(readField)
    .filter(header => headerFault(header, { unsubscribe: false }) === null).slice(0, HEADERS_MAX)
}

function readFrom (head: string, mail: Email): Mailbox {
  const fields = fieldsNamed(head, 'from')
  const from = fields.length === 1 ? onlyMailbox(fields[0]!, mail.from) : null
  if (from === null) throw badMessage(FROM_MUST)
  return from
}

/** The address; null = there is no Sender field. */
function readSender (head: string, mail: Email): string | null {
  const fields = fieldsNamed(head, 'sender')
  if (fields.length === 0) return null
  const sender = fields.length === 1 ? onlyMailbox(fields[0]!, mail.sender) : null
  if (sender === null) throw badMessage(SENDER_MUST)
  return sender.address
}

function fieldsNamed (head: string, name: string): string[] {
  return fieldsOf(head).filter(field => nameOf(field) === name)
}

/** Null where a field has none or more than one: the reader of mail gives the first alone. */
function onlyMailbox (field: string, read: Address | undefined): Mailbox | null {
  const [mailbox, ...others] = mailboxesOf(read === undefined ? [] : [read])
  const value = field.slice(field.indexOf(':') + 1)
  return mailbox === undefined || others.length > 0 || mailboxesIn(value) > 1 ? null : mailbox
}

/** The envelope decides who gets the mail; a field of the header, where each is shown. */
function recipientsOf (addresses: string[], mail: Email): EmailDraft['recipients'] {
  const named = new Map<string, { name: string | null, kind: 'to' | 'cc' }>()
  for (const kind of ['cc', 'to'] as const) {
    for (const { address, name } of mailboxesOf(mail[kind])) named.set(foldAddress(address), { name, kind })
  }
  return addresses.map(address => ({
    address,
    ...named.get(foldAddress(address)) ?? { name: null, kind: 'bcc' as const }
  }))
}

function mailboxesOf (list: Address[] | undefined): Mailbox[] {
  return (list ?? []).flatMap(entry => (entry.group === undefined ? [entry] : entry.group)).flatMap(mailboxOf)
}

function mailboxOf ({ address, name }: ReadMailbox): Mailbox[] {
  const parsed = parseAddress(address)
  return parsed === null ? [] : [{ address: parsed, name: oneLine(name).trim() || null }]
}
