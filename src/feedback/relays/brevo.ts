import { listOf, objectOf, textOf, type JsonObject } from '../json.ts'
import { relayEvent, secondsIn, timeIn, type RelayEvent } from './event.ts'
import { kindOfType } from './types.ts'

/** One event, or a list of them where batches are on. Source: Brevo API documentation, "Transactional webhooks". */
export function readBrevo (body: unknown): RelayEvent[] {
  return (Array.isArray(body) ? listOf(body) : [body]).flatMap(one => eventIn(objectOf(one) ?? {}))
}

function eventIn (said: JsonObject): RelayEvent[] {
  const event = textOf(said['event'])
  const kind = kindOfType('brevo', event)
  if (kind === null) return []
  const messageId = textOf(said['message-id'])
  const atMs = secondsIn(said['ts_event']) ?? secondsIn(said['ts']) ?? timeIn(said['date'])
  return [relayEvent({
    // Its `id` is the webhook's.
    id: `${event} ${messageId} ${String(atMs)}`,
    kind,
    atMs,
    address: textOf(said['email']),
    // The second is what the sender adds.
    messageIds: [messageId, textOf(said['X-Mailin-custom'])],
    diagnostic: textOf(said['reason']),
    reason: event
  })]
}
