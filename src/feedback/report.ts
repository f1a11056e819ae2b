import type { BounceClass } from '#streams/email/classes.ts'
import { addressesIn, addressOf, sameAddress } from './addresses.ts'
import { readFeedback, readForwardedComplaint, type Feedback } from './arf.ts'
import { isAutoReply, isAggregate, isAnswer, isBounce } from './gate.ts'
import { classifyFailure, isTelling, withoutBoilerplate, type FailureClues } from './classify-failure.ts'
import { verdictOnAddress } from './classify.ts'
import { readDeliveryStatus, type Action, type DeliveryStatus, type StatusBlock } from './dsn.ts'
import { fieldOf, fieldsOf, readFields, type HeaderField } from './entity.ts'
import { DELAYS, SUCCESS, SUCCESS_SUBJECTS, UNSUBSCRIBE, type Form } from './signs.ts'
import { readNotification } from './notification.ts'
import { formsOf, readPlain, saidOf } from './plain.ts'
import { printable } from './reply.ts'
import { knownIn, viewOf, type ReportView } from './view.ts'

/** What became of a message after it had arrived. */
interface Disposition {
  address: string | null
  /** A filter refused it; otherwise it was shown, or deleted unread. */
  refused: boolean
  fields: HeaderField[]
}

const REFUSED = /\breject|\brefus|denied|abgelehnt|verweigert|rechaz|rejeit|rifiutat|geweigerd|odrzuc|отклон|拒/iu

/** Reads message/disposition-notification, or null when it says nothing; `beside` = the text for people. Sieve refuses
 *  in this form. Source: RFC 8098 3.2, RFC 5429 2.2. */
function readDisposition (text: string, beside: string): Disposition | null {
  const { fields } = readFields(text.trimStart())
  const disposition = fieldOf(fields, 'disposition')?.toLowerCase() ?? null
  if (disposition === null) return null
  const address = addressOf(fieldOf(fields, 'final-recipient') ?? fieldOf(fields, 'original-recipient') ?? '')
  const unseen = /;\s*(?:deleted|denied|failed|dispatched)/.test(disposition)
  return { address, refused: unseen && disposition.startsWith('automatic-action') && REFUSED.test(beside), fields }
}

/** What points to a mail of ours, as strings: whether they are ours, and genuine, is for others to say. */
interface Evidence {
  /** With their brackets off. */
  messageIds: string[]
  returnPaths: string[]
  envelopeIds: string[]
  unsubscribeUrls: string[]
  feedbackIds: string[]
  /** Whom the report itself was sent to, by its trace fields. */
  deliveredTo: string[]
}

/** Where envelope senders are noted down. */
const SENDERS = [
  'return-path',
  'original-mail-from',
  'x-original-mail-from',
  'x-postfix-sender',
  'envelope-from',
  'x-envelope-from',
  'x-env-sender',
  'x-sender'
]
const EACH_MAX = 10
const LENGTH_MAX = 998

/** `top` = the report's own header, `status` = the fields of its machine-readable parts, `returned` = the header it
 *  gives back. Source: RFC 3464 2.2.1, RFC 5965 3.2, RFC 9477. */
function readEvidence (top: HeaderField[], status: HeaderField[], returned: HeaderField[]): Evidence {
  const stated = [...status, ...returned]
  return {
    messageIds: few([
      ...fieldsOf(returned, 'message-id', 'x-original-message-id', 'x-ms-exchange-parent-message-id').flatMap(idsIn),
      ...fieldsOf(status, 'x-original-message-id', 'original-message-id', 'message-id').flatMap(idsIn),
      ...fieldsOf(top, 'in-reply-to', 'references', 'x-original-message-id', 'x-ms-exchange-parent-message-id').flatMap(
        idsIn
      )
    ]),
    returnPaths: few(fieldsOf(stated, ...SENDERS).flatMap(value => addressesIn(value, 3))),
    envelopeIds: few(fieldsOf(stated, 'original-envelope-id', 'x-original-envelope-id').map(value => unxtext(value))),
    unsubscribeUrls: few(
      fieldsOf(returned, 'list-unsubscribe').flatMap(value =>
        [...value.matchAll(/<([^<>\s]{1,998})>/g)].map(match => match[1]!)
      )
    ),
    feedbackIds: few(fieldsOf(stated, 'feedback-id', 'x-feedback-id', 'cfbl-feedback-id')),
    deliveredTo: few(
      fieldsOf(top, 'x-original-to', 'delivered-to', 'envelope-to', 'x-envelope-to', 'x-rcpt-to', 'to').flatMap(value =>
        addressesIn(value, 5)
      )
    )
  }
}

function idsIn (value: string): string[] {
  const bracketed = [...value.matchAll(/<([^<>\s]{3,998})>/g)].map(match => match[1]!)
  return bracketed.length > 0 ? bracketed : value.split(/\s+/, 5).filter(word => word.includes('@'))
}

/** Source: RFC 3461 4: `+XX` is an octet. */
function unxtext (value: string): string {
  return value.trim().replaceAll(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

function few (values: string[]): string[] {
  return [...new Set(values.map(value => value.trim()).filter(isClean))].slice(0, EACH_MAX)
}

function isClean (value: string): boolean {
  return value !== '' && value.length <= LENGTH_MAX && value.isWellFormed() && !/\p{Cc}/u.test(value)
}

/** What came back, gravest first. `soft` with the action `delayed` is no verdict yet. */
export type ReportKind = 'hard' | 'complaint' | 'unsubscribe' | 'soft' | 'auto-reply' | 'delivered' | 'none'

export interface ReportedRecipient {
  /** As the report has it, domain in lower case; null when it keeps it to itself. */
  address: string | null
  kind: ReportKind
  action: Action | null
  /** `x.y.z`, the most telling one. */
  status: string | null
  /** A class of `streams/email/classes.ts`; for feedback its type, for answering machines `auto-reply`. */
  reason: BounceClass | (string & {})
  /** SMTP reply code. */
  code: number | null
  /** At most 1,000 characters. */
  diagnostic: string | null
  remoteMta: string | null
}

export interface BounceReport {
  kind: ReportKind
  recipients: ReportedRecipient[]
  /** As the reporter states it, lower case; null when this is no feedback. */
  feedbackType: string | null
  evidence: Evidence
  /** For mail to an unsubscribe address: it counts, unless a machine wrote it. */
  subject: string | null
  from: string | null
  autoSubmitted: boolean
}

type ReportFinding = Pick<BounceReport, 'kind' | 'recipients' | 'feedbackType'> & { fields: HeaderField[] }

const GRAVITY: ReportKind[] = ['hard', 'complaint', 'unsubscribe', 'soft', 'auto-reply', 'delivered', 'none']
const NOTHING: ReportFinding = { kind: 'none', recipients: [], feedbackType: null, fields: [] }

/** What a message to one of our return addresses says. Reads the first 512 kB; bounded, linear, and throws nothing
 *  whatever it is given. Who sent it, and whether what it points to is ours, is not judged here. */
export async function readReport (raw: Uint8Array): Promise<BounceReport> {
  return interpret(raw)
}

function interpret (raw: Uint8Array): BounceReport {
  const view = viewOf(raw)
  const { fields, ...finding } = findingOf(view)
  return {
    ...finding,
    evidence: readEvidence(view.top, fields, view.returned),
    subject: view.subject === null ? null : printable(view.subject),
    from: addressesIn(fieldOf(view.top, 'from') ?? '', 1)[0] ?? null,
    autoSubmitted: isAutoReply(view.top)
  }
}

function findingOf (view: ReportView): ReportFinding {
  if (isAggregate(view.top)) return NOTHING
  return feedbackFinding(view) ?? notificationFinding(view) ?? statusFinding(view) ?? dispositionFinding(view) ??
    complaintFinding(view) ??
    plainFinding(view) ?? letterFinding(view) ?? NOTHING
}

function feedbackFinding (view: ReportView): ReportFinding | null {
  const part = view.feedback.find(({ declared }) => declared || !isAnswer(view.top))
  const feedback = part === undefined ? null : readFeedback(part.text, view.returned, part.declared)
  return feedback === null ? null : fromFeedback(feedback)
}

/** What a service says in JSON, and nothing else in the mail does. */
function notificationFinding (view: ReportView): ReportFinding | null {
  if (isAnswer(view.top)) return null
  const read = view.json.map(readNotification).find(one => one !== null)
  if (read === undefined) return null
  if ('feedback' in read) return fromFeedback(read.feedback)
  const { blocks, fields } = read.status
  const recipients = blocks.map(block => fromBlock({ ...view, head: '' }, block, block.address, []))
  return { kind: gravest(recipients), recipients, feedbackType: null, fields }
}

function complaintFinding (view: ReportView): ReportFinding | null {
  const feedback = readForwardedComplaint(view.top, view.returned, view)
  return feedback === null ? null : fromFeedback(feedback)
}

function fromFeedback ({ type, kind, addresses, fields }: Feedback): ReportFinding {
  const recipients = (addresses.length === 0 ? [null] : addresses).map(address => machine(address, kind, type))
  return { kind, recipients, feedbackType: type, fields }
}

/** What a status part says. One that is not declared as such is believed only in a mail that is a bounce by its other
 *  signs. */
function statusFinding (view: ReportView): ReportFinding | null {
  if (isAnswer(view.top) && !view.isReport) return null
  const forms = formsOf(view.head)
  const believed = view.statuses.filter(({ declared }) =>
    declared || isBounce(view.top, { forms, report: true, copy: view.hasCopy, head: view.head, diagnosed: true })
  )
  const read = believed.map(({ text, declared }) => readDeliveryStatus(declared ? text : fromFirstField(text)))
  const status: DeliveryStatus = {
    blocks: distinct(read.flatMap(({ blocks }) => blocks)),
    fields: read.flatMap(({ fields }) => fields)
  }
  if (status.blocks.length === 0) return null
  const plain = readPlain(view.head, forms, knownIn(view))
  const addresses = status.blocks.map((block, n) =>
    block.address ?? plain[status.blocks.length === 1 ? 0 : n]?.address ?? null
  )
  const recipients = status.blocks.map((block, n) =>
    fromBlock(view, block, addresses[n]!, addresses.filter(address => address !== null))
  )
  return { kind: gravest(recipients), recipients, feedbackType: null, fields: status.fields }
}

function fromBlock (
  view: ReportView,
  block: StatusBlock,
  address: string | null,
  addresses: string[]
): ReportedRecipient {
  const action = block.action ?? actionOf(view, block.status)
  const { status, diagnostic } = block
  const remoteMta = block.remoteMta === null ? null : printable(block.remoteMta)
  if (action !== 'failed' && action !== 'delayed') {
    return {
      address,
      kind: 'delivered',
      action,
      status,
      reason: 'delivered',
      code: null,
      diagnostic: diagnostic === null ? null : printable(diagnostic),
      remoteMta
    }
  }
  const { texts, context } = saidOf(view.head, address, addresses)
  const clues = { texts: [diagnostic ?? '', ...texts], context, status, code: null, category: block.category }
  return failure(address, action, clues, remoteMta)
}

function failure (
  address: string | null,
  action: 'failed' | 'delayed',
  clues: Omit<FailureClues, 'to'>,
  remoteMta: string | null
): ReportedRecipient {
  const { reason, status, code, diagnostic } = classifyFailure({ ...clues, to: address })
  if (action === 'delayed') {
    return {
      address,
      kind: 'soft',
      action,
      status,
      reason: reason === 'undefined' ? 'expired' : reason,
      code,
      diagnostic,
      remoteMta
    }
  }
  return {
    address,
    kind: verdictOnAddress(reason, { code, status }),
    action,
    status,
    reason,
    code,
    diagnostic,
    remoteMta
  }
}

/** A receipt, or a filter's refusal in the form of one. */
function dispositionFinding (view: ReportView): ReportFinding | null {
  const read = view.dispositions.map(text => readDisposition(text, `${view.subject ?? ''}\n${view.head}`)).find(one =>
    one !== null
  )
  if (read === undefined) return null
  const { address, refused, fields } = read
  const clues = {
    ...saidOf(view.head, address, []),
    status: null,
    code: null,
    category: 'refused by a personal filter'
  }
  const recipient = refused
    ? failure(address, 'failed', clues, null)
    : machine(address, 'auto-reply')
  return { kind: recipient.kind, recipients: [recipient], feedbackType: null, fields }
}

/** What a server wrote for people, without a readable status part. */
function plainFinding (view: ReportView): ReportFinding | null {
  if (isAnswer(view.top)) return null
  const forms = formsOf(view.head)
  const recipients = recipientsIn(view, forms)
  const diagnosed = recipients.some(({ address, reason }) => address !== null && isTelling(reason))
  if (!isBounce(view.top, { forms, report: view.isReport, copy: view.hasCopy, head: view.head, diagnosed })) return null
  const read = isSuccess(view) ? recipients.map(({ address }) => machine(address, 'delivered')) : recipients
  return { kind: gravest(read), recipients: read, feedbackType: null, fields: [] }
}

/** Both must say so: failures often have a general subject. */
function isSuccess (view: ReportView): boolean {
  return SUCCESS_SUBJECTS.test(view.subject ?? '') && SUCCESS.test(view.head)
}

function recipientsIn (view: ReportView, forms: Form[]): ReportedRecipient[] {
  const action = actionOf(view, null) === 'delayed' ? 'delayed' : 'failed'
  const found = readPlain(view.head, forms, knownIn(view))
  const subject = withoutBoilerplate(view.subject ?? '')
  return found.map(({ address, texts, context }) => {
    // With one recipient alone everything is said of that one, and before any number.
    const whole = texts.at(-1) ?? ''
    const clues = [...(found.length === 1 ? texts : texts.slice(0, -1)), `${whole}\n${subject}`]
    return failure(address, action, { texts: clues, context, status: null, code: null, category: null }, null)
  })
}

/** Mail that is no report: an automatic answer, or a request for no more mail. */
function letterFinding (view: ReportView): ReportFinding | null {
  const from = addressesIn(fieldOf(view.top, 'from') ?? '', 1)[0] ?? null
  const kind = isAutoReply(view.top) ? 'auto-reply' : UNSUBSCRIBE.test(view.subject ?? '') ? 'unsubscribe' : null
  if (kind === null) return null
  return { kind, recipients: [machine(from, kind)], feedbackType: null, fields: [] }
}

function machine (address: string | null, kind: ReportKind, reason: string = kind): ReportedRecipient {
  return { address, kind, action: null, status: null, reason, code: null, diagnostic: null, remoteMta: null }
}

function actionOf (view: ReportView, status: string | null): Action {
  if (status?.startsWith('2') === true) return 'delivered'
  const final = /permanent|given up|giving up|will not (?:be )?(?:retr|continu)|no further|could not be delivered for/i
    .test(view.head)
  return !final && (DELAYS.test(view.head) || /\bdelay|^\W{0,3}warning\b|verzög|retard/i.test(view.subject ?? ''))
    ? 'delayed'
    : 'failed'
}

/** The text from where its fields begin: people are greeted first. */
function fromFirstField (text: string): string {
  return text.slice(Math.max(text.search(/^(?:Reporting-MTA|(?:Final|Original)-Recipient)[ \t]*:/im), 0))
}

/** Each address once, its failure before anything else that is said of it. */
function distinct (blocks: StatusBlock[]): StatusBlock[] {
  const sorted = [...blocks].sort((a, b) => Number(b.action === 'failed') - Number(a.action === 'failed'))
  return sorted.filter(({ address }, n) =>
    address === null || sorted.findIndex(other => other.address !== null && sameAddress(other.address, address)) === n
  )
}

function gravest (recipients: ReportedRecipient[]): ReportKind {
  return GRAVITY.find(kind => recipients.some(recipient => recipient.kind === kind)) ?? 'none'
}
