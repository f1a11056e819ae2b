import { addressesIn } from './addresses.ts'
import { fieldOf, fieldsOf, readEntity, readFields, type Entity, type HeaderField } from './entity.ts'
import { htmlText, partProse } from './prose.ts'
import type { KnownAddresses } from './plain.ts'

/** A message laid out as a report: who speaks, what is said to people and to machines, what is given back. */
export interface ReportView {
  top: HeaderField[]
  subject: string | null
  /** What a person was to read, up to the returned message. */
  head: string
  /** Machine-readable parts; `declared` when their type says so. */
  statuses: Array<{ text: string, declared: boolean }>
  feedback: Array<{ text: string, declared: boolean }>
  /** What happened to a message that had arrived (RFC 8098). */
  dispositions: string[]
  /** The header of the returned message, as far as it came back. */
  returned: HeaderField[]
  hasCopy: boolean
  isReport: boolean
}

const TEXTS_MAX = 6
const COPIES = /^(?:message\/(?:rfc822|global|partial|rfc822-headers|global-headers)|text\/rfc822(?:-headers)?)$/
const STATUS_TYPES = /^message\/(?:global-)?delivery-status$/
const DISPOSITION = 'message/disposition-notification'
const LOOKS_STATUS = /^(?:Final|Original)-Recipient[ \t]*:/im
const LOOKS_FEEDBACK = /^Feedback-Type[ \t]*:/im
const BESIDE_FEEDBACK = /^(?:User-Agent|Version|Original-Mail-From|Original-Rcpt-To|Source-IP|Arrival-Date)[ \t]*:/im

export function viewOf (raw: Uint8Array): ReportView {
  const root = unwrap(readEntity(raw))
  const leaves = leavesOf(root)
  const texts = leaves.filter(isProse).slice(0, TEXTS_MAX).map(leaf =>
    leaf.type === 'text/html' ? htmlText(leaf.text) : leaf.text
  )
  const prose = partProse(texts.join('\n\n'))
  const copies = leaves.filter(leaf => COPIES.test(leaf.type))
  const returned = copies.length > 0 ? copyFields(copies[0]!.text) : prose.returned
  return {
    top: root.headers,
    subject: fieldOf(root.headers, 'subject'),
    head: prose.head,
    statuses: pick(leaves, STATUS_TYPES, text => LOOKS_STATUS.test(text)),
    feedback: pick(
      leaves,
      /^message\/feedback-report$/,
      text => LOOKS_FEEDBACK.test(text) && BESIDE_FEEDBACK.test(text)
    ),
    dispositions: leaves.filter(leaf => leaf.type === DISPOSITION).map(({ text }) => text),
    returned,
    hasCopy: copies.length > 0 || prose.returned.length > 0,
    isReport: (root.type === 'multipart/report' && /^(?:delivery-status)?$/i.test(root.params['report-type'] ?? '')) ||
      leaves.some(leaf => STATUS_TYPES.test(leaf.type))
  }
}

/** Whom the addresses in a report may belong to. */
export function knownIn ({ top, returned }: ReportView): KnownAddresses {
  const failed = fieldsOf(top, 'x-failed-recipients').flatMap(value => addressesIn(value))
  const meant = fieldsOf(returned, 'to', 'cc', 'x-original-to', 'x-envelope-to', 'envelope-to', 'x-rcpt-to').flatMap(
    value => addressesIn(value)
  )
  return {
    recipients: failed.length > 0 ? failed : meant,
    others: [
      ...fieldsOf(top, 'from', 'to', 'reply-to', 'sender', 'delivered-to', 'x-original-to'),
      ...fieldsOf(returned, 'from', 'sender', 'reply-to', 'return-path')
    ]
      .flatMap(value => addressesIn(value))
  }
}

/** A report that came as an attached message, with nothing around it. */
function unwrap (root: Entity): Entity {
  return root.type === 'message/rfc822' ? readEntity(Buffer.from(root.text)) : root
}

function leavesOf (entity: Entity): Entity[] {
  if (entity.parts.length === 0) return [entity]
  const leaves = entity.parts.flatMap(leavesOf)
  if (entity.type !== 'multipart/alternative') return leaves
  const plain = leaves.some(leaf => leaf.type === 'text/plain' && leaf.text.trim() !== '')
  return plain ? leaves.filter(leaf => leaf.type !== 'text/html') : leaves
}

/** Unlabelled parts and the preamble of a broken multipart are text too; attached files are not. */
function isProse (leaf: Entity): boolean {
  if (leaf.type !== 'text/plain' && leaf.type !== 'text/html' && !leaf.type.startsWith('multipart/')) return false
  return !LOOKS_STATUS.test(leaf.text) || leaf.type === 'text/html' ||
    !/^\s*(?:Reporting-MTA|(?:Final|Original)-Recipient)[ \t]*:/i.test(leaf.text)
}

function copyFields (text: string): HeaderField[] {
  return readFields(text.replace(/^\s+/, '').replace(/^>?From [^\n]{0,998}\n/, '')).fields
}

function pick (
  leaves: Entity[],
  type: RegExp,
  looks: (text: string) => boolean
): Array<{ text: string, declared: boolean }> {
  const declared = leaves.filter(leaf => type.test(leaf.type))
  if (declared.length > 0) return declared.map(({ text }) => ({ text, declared: true }))
  return leaves.filter(leaf =>
    !COPIES.test(leaf.type) && leaf.type !== 'text/html' && leaf.type !== DISPOSITION && looks(leaf.text)
  ).map(({ text }) => ({ text, declared: false }))
}
