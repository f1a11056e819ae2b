import type { RelayReportKind } from '#streams/inbound/facts.ts'
import { objectOf, textOf, type JsonObject } from '../json.ts'
import { relayEvent, timeIn, type RelayEvent } from './event.ts'
import { kindOfType } from './types.ts'

/** Source: Postmark Developer documentation, "Webhooks": bounce, spam complaint, delivery, subscription change. */
export function readPostmark (body: unknown): RelayEvent[] {
  const said = objectOf(body)
  const record = textOf(said?.['RecordType'])
  const kind = said === null ? null : kindOf(record, said)
  if (said === null || kind === null) return []
  const at = said['BouncedAt'] ?? said['DeliveredAt'] ?? said['ChangedAt']
  const id = said['ID'] ?? textOf(said['MessageID'])
  const isDelivery = record === 'Delivery'
  return [relayEvent({
    id: `${record} ${String(id)} ${textOf(at)}`,
    kind,
    atMs: timeIn(at),
    address: textOf(said['Email'] ?? said['Recipient']),
    // Postmark gives the mail a Message-ID of its own: ours comes back in the metadata that the sender adds.
    messageIds: [textOf(objectOf(said['Metadata'])?.['jetpost'])],
    diagnostic: textOf(said['Details']) || (isDelivery ? '' : textOf(said['Description'])),
    reason: textOf(said['Type'] ?? said['SuppressionReason'])
  })]
}

function kindOf (record: string, said: JsonObject): RelayReportKind | null {
  switch (record) {
    case 'Delivery':
      return 'delivered'
    case 'SpamComplaint':
      return 'complaint'
    case 'Bounce':
      return kindOfType('postmark', textOf(said['Type']))
    // The other reasons have a webhook of their own, and what an operator suppresses there is no word of the recipient.
    case 'SubscriptionChange': {
      const byRecipient = said['SuppressSending'] === true && said['Origin'] === 'Recipient'
      return byRecipient && said['SuppressionReason'] === 'ManualSuppression' ? 'unsubscribe' : null
    }
    default:
      return null
  }
}
