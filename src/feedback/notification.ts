import { addressOf } from './addresses.ts'
import { type Feedback, feedbackKind } from './arf.ts'
import { type DeliveryStatus, readAction, type StatusBlock } from './dsn.ts'
import type { HeaderField } from './entity.ts'
import { objectOf, textOf, type JsonObject } from './json.ts'

/** What a notification is about: failed, delayed or delivered mail, or a complaint. */
export type Notification = { status: DeliveryStatus } | { feedback: Feedback }

const RECIPIENTS_MAX = 50
const HEADERS_MAX = 200
/** Why mail bounced, in words that servers use, where Amazon quotes no server. */
const SUBTYPES = new Map([
  ['NoEmail', 'user unknown'],
  ['Suppressed', 'address is on the suppression list'],
  ['OnAccountSuppressionList', 'address is on the suppression list'],
  ['MailboxFull', 'mailbox full'],
  ['MessageTooLarge', 'message too large'],
  ['ContentRejected', 'message content rejected'],
  ['AttachmentRejected', 'attachment not allowed']
])
/** The objects that tell of each type of notification, and what became of the mail. */
const TYPES = new Map<string, { part: string, action: StatusBlock['action'] }>([
  ['Bounce', { part: 'bounce', action: 'failed' }],
  ['Complaint', { part: 'complaint', action: null }],
  ['Delivery', { part: 'delivery', action: 'delivered' }],
  ['DeliveryDelay', { part: 'deliveryDelay', action: 'delayed' }]
])

/** Reads what Amazon SES says in JSON, alone or wrapped by Amazon SNS, or null when a text holds no such thing.
 *  Bounded, throws nothing. Source: Amazon SES Developer Guide, "Amazon SNS notification contents". */
export function readNotification (text: string): Notification | null {
  const outer = objectIn(text)
  return notificationIn(typeof outer?.['Message'] === 'string' ? objectIn(outer['Message']) : outer)
}

/** The same of the JSON that Amazon SES itself wrote. */
export function notificationIn (notice: JsonObject | null): Notification | null {
  const type = TYPES.get(textOf(notice?.['notificationType'] ?? notice?.['eventType']))
  const said = type === undefined ? null : objectOf(notice?.[type.part])
  const mail = objectOf(notice?.['mail'])
  if (type === undefined || said === null || mail === null) return null
  const fields = fieldsIn(mail)
  if (type.part !== 'complaint') return { status: { blocks: blocksIn(said, type.action), fields } }
  const feedbackType = textOf(said['complaintFeedbackType']).toLowerCase()
  const stated = /^[a-z][a-z-]{0,39}$/.test(feedbackType) ? feedbackType : 'abuse'
  const addresses = recipientsIn(said).flatMap(({ address }) => address ?? [])
  return { feedback: { type: stated, kind: feedbackKind(stated, fields), addresses, fields } }
}

function blocksIn (said: JsonObject, action: StatusBlock['action']): StatusBlock[] {
  const category = SUBTYPES.get(textOf(said['bounceSubType'])) ?? null
  const remoteMta = textOf(said['remoteMtaIp']).slice(0, 255)
  return recipientsIn(said).map(({ address, stated }) => ({
    address,
    action: readAction(textOf(stated['action'])) ?? action,
    status: /^[245]\.\d{1,3}\.\d{1,3}$/.exec(textOf(stated['status']))?.[0] ?? null,
    diagnostic: textOf(stated['diagnosticCode']).replace(/^[\w.-]{1,30}\s*;\s*/, '') || null,
    remoteMta: remoteMta === '' ? null : remoteMta,
    category
  }))
}

/** Whom it is about: objects with an address, or addresses alone. */
function recipientsIn (said: JsonObject): Array<{ address: string | null, stated: JsonObject }> {
  const lists = ['bouncedRecipients', 'complainedRecipients', 'delayedRecipients', 'recipients'].map(name => said[name])
  const list = lists.find(one => Array.isArray(one)) as unknown[] | undefined
  return (list ?? []).slice(0, RECIPIENTS_MAX).map(one => {
    const stated = objectOf(one) ?? { emailAddress: one }
    return { address: addressOf(textOf(stated['emailAddress'])), stated }
  })
}

/** The header of the mail, as far as it is told, and its envelope sender. */
function fieldsIn (mail: JsonObject): HeaderField[] {
  const headers = Array.isArray(mail['headers']) ? mail['headers'].slice(0, HEADERS_MAX) : []
  const told = headers.map(header => ({
    name: textOf(objectOf(header)?.['name']).toLowerCase(),
    value: textOf(objectOf(header)?.['value'])
  }))
  return [{ name: 'return-path', value: textOf(mail['source']) }, ...told]
}

/** The object that a text holds, whatever is written around it. */
function objectIn (text: string): JsonObject | null {
  const json = text.slice(Math.max(text.indexOf('{'), 0), text.lastIndexOf('}') + 1)
  if (!json.includes('notificationType') && !json.includes('eventType')) return null
  return parsed(json) ?? parsed(unwrapped(json))
}

function parsed (json: string): JsonObject | null {
  try {
    return objectOf(JSON.parse(json))
  } catch {
    return null
  }
}

/** The lines of a text as one. Mail servers break those that are too long for SMTP; sendmail shows where with a `!`. */
function unwrapped (text: string): string {
  return text.replaceAll('\r', '').replaceAll('!\n ', '').replaceAll(' \n', ' ').replaceAll('\n', ' ')
}
