import { objectOf, textOf } from '../json.ts'
import { relayEvent, secondsIn, type RelayEvent } from './event.ts'
import { kindOfType } from './types.ts'

/** Source: Mailgun documentation, "Webhooks", "Events: event structure". */
export function readMailgun (body: unknown): RelayEvent[] {
  const data = objectOf(objectOf(body)?.['event-data'])
  if (data === null) return []
  const event = textOf(data['event'])
  const isTemporary = event === 'failed' && textOf(data['severity']) === 'temporary'
  const kind = isTemporary ? 'delayed' : kindOfType('mailgun', event)
  if (kind === null) return []
  const status = objectOf(data['delivery-status']) ?? {}
  const message = objectOf(data['message']) ?? {}
  const code = typeof status['code'] === 'number' && status['code'] >= 400 ? `${status['code']} ` : ''
  const words = textOf(status['message']) || textOf(status['description']) ||
    textOf(objectOf(data['reject'])?.['reason'])
  return [relayEvent({
    id: textOf(data['id']),
    kind,
    atMs: secondsIn(data['timestamp']),
    address: textOf(data['recipient']),
    messageIds: [textOf(objectOf(message['headers'])?.['message-id'])],
    tokens: [textOf(objectOf(data['envelope'])?.['sender'])],
    status: textOf(status['enhanced-code']),
    // Mailgun parts the code from the words.
    diagnostic: words === '' || /^[245]\d\d\b/.test(words) ? words : code + words,
    host: textOf(status['mx-host']),
    reason: textOf(data['reason']) || event
  })]
}
