import { fieldsOf } from '../entity.ts'
import { listOf, objectOf, textOf, type JsonObject } from '../json.ts'
import { notificationIn } from '../notification.ts'
import { relayEvent, timeIn, type RelayEvent } from './event.ts'

/** The object that tells of each type of event, and what it may say beside what every notification does. */
const PARTS: Record<string, string> = {
  Bounce: 'bounce',
  Complaint: 'complaint',
  Delivery: 'delivery',
  DeliveryDelay: 'deliveryDelay',
  Reject: 'reject',
  'Rendering Failure': 'failure'
}
const KINDS = { failed: 'failed', delayed: 'delayed', delivered: 'delivered' } as const

/** The `Message` of an Amazon SNS notification, as Amazon SES writes it for identities and for configuration sets.
 *  Source: Amazon SES Developer Guide, "Amazon SNS notification contents", "Examples of event data that Amazon SES
 *  publishes to Amazon SNS". */
export function readSes (message: unknown): RelayEvent[] {
  const notice = objectOf(message)
  const type = textOf(notice?.['eventType'] ?? notice?.['notificationType'])
  const mail = objectOf(notice?.['mail'])
  const part = objectOf(notice?.[PARTS[type] ?? ''])
  if (notice === null || mail === null || part === null) return []
  const shared = {
    id: [textOf(mail['messageId']), type, textOf(part['feedbackId']), textOf(part['timestamp'])].join(' '),
    atMs: timeIn(part['timestamp']) ?? timeIn(mail['timestamp']),
    ...pointersIn(mail)
  }
  if (type === 'Reject' || type === 'Rendering Failure') return refusedBySes(type, mail, part).map(withShared)
  return saidIn(notice, part).map(withShared)

  function withShared (said: Partial<RelayEvent> & Pick<RelayEvent, 'kind'>): RelayEvent {
    return relayEvent({ ...shared, ...said })
  }
}

/** Amazon gives the mail a Message-ID of its own; the one we gave it is among its headers, where those are told. */
function pointersIn (mail: JsonObject): Pick<RelayEvent, 'messageIds' | 'tokens'> {
  const headers = listOf(mail['headers']).slice(0, 200).map(header => ({
    name: textOf(objectOf(header)?.['name']).toLowerCase(),
    value: textOf(objectOf(header)?.['value'])
  }))
  const common = textOf(objectOf(mail['commonHeaders'])?.['messageId'])
  return {
    messageIds: [...fieldsOf(headers, 'message-id'), common],
    tokens: [textOf(mail['source']), ...fieldsOf(headers, 'cfbl-feedback-id')]
  }
}

type Said = Partial<RelayEvent> & Pick<RelayEvent, 'kind'>

function saidIn (notice: JsonObject, part: JsonObject): Said[] {
  const read = notificationIn(notice)
  if (read === null) return []
  if ('feedback' in read) {
    const { type, kind, addresses } = read.feedback
    if (kind !== 'complaint' && kind !== 'unsubscribe') return []
    return (addresses.length === 0 ? [null] : addresses).map(address => ({ kind, address, feedbackType: type }))
  }
  const reason = [textOf(part['bounceType']), textOf(part['bounceSubType'] ?? part['delayType'])]
  return read.status.blocks.flatMap(({ action, address, status, diagnostic, remoteMta }) => {
    const kind = KINDS[action as keyof typeof KINDS]
    if (kind === undefined) return []
    const words = diagnostic ?? (textOf(part['smtpResponse']) || null)
    return [{ kind, address, status, diagnostic: words, host: remoteMta, reason: reason.filter(Boolean).join(' ') }]
  })
}

/** Amazon took the mail and did not send it. */
function refusedBySes (type: string, mail: JsonObject, part: JsonObject): Said[] {
  const diagnostic = textOf(part['reason'] ?? part['errorMessage'])
  return listOf(mail['destination']).slice(0, 50).map(address => ({
    kind: 'failed',
    address: textOf(address),
    diagnostic,
    reason: type
  }))
}
