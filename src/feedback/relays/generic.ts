import type { FeedbackMapping } from '#streams/feedback-source/facts.ts'
import { relayEvent, secondsIn, timeIn, type RelayEvent } from './event.ts'

/** What a mapping finds in a report; `events` of a list are looked through one by one. */
export function readGeneric (body: unknown, mapping: FeedbackMapping): RelayEvent[] {
  const found = valueAt(body, mapping.reports)
  return (Array.isArray(found) ? found : [found]).flatMap(report => eventIn(report, mapping))
}

function eventIn (
  report: unknown,
  { messageId, recipient, kind: where, reason, time, kinds }: FeedbackMapping
): RelayEvent[] {
  const text = (pointer: string | null) => (pointer === null ? '' : wordOf(valueAt(report, pointer)))
  const word = text(where)
  const kind = Object.hasOwn(kinds, word) ? kinds[word]! : null
  const at = time === null ? undefined : valueAt(report, time)
  if (kind === null) return []
  // A Message-ID may carry a token of ours as well, where the service tells the return path instead.
  const named = text(messageId)
  return [relayEvent({
    kind,
    atMs: secondsIn(at) ?? timeIn(at),
    address: text(recipient),
    messageIds: [named],
    tokens: [named],
    diagnostic: text(reason)
  })]
}

function wordOf (value: unknown): string {
  return typeof value === 'string'
    ? value
    : typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : ''
}

/** undefined = there is nothing. Source: RFC 6901. */
function valueAt (document: unknown, pointer: string): unknown {
  const steps = pointer.split('/').slice(1).map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  return steps.reduce<unknown>((value, step) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    return (value as Record<string, unknown>)[step]
  }, document)
}
