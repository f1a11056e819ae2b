import { listOf, objectOf, textOf, type JsonObject } from '../json.ts'
import { relayEvent, secondsIn, type RelayEvent } from './event.ts'
import { kindOfType } from './types.ts'

/** A request has the events of some seconds. Source: Twilio SendGrid documentation, "Event Webhook Reference". */
export function readSendgrid (body: unknown): RelayEvent[] {
  return listOf(body).flatMap(one => eventIn(objectOf(one) ?? {}))
}

function eventIn (said: JsonObject): RelayEvent[] {
  const event = textOf(said['event'])
  const kind = kindOfType('sendgrid', event)
  if (kind === null) return []
  const words = textOf(said['reason']) || textOf(said['response'])
  return [relayEvent({
    id: textOf(said['sg_event_id']),
    kind,
    atMs: secondsIn(said['timestamp']),
    address: textOf(said['email']),
    // The second is what the sender adds: unique arguments stand among the fields.
    messageIds: [textOf(said['smtp-id']), textOf(said['jetpost'])],
    status: textOf(said['status']),
    diagnostic: words,
    reason: textOf(said['bounce_classification']) || (event === 'dropped' ? words : event)
  })]
}
