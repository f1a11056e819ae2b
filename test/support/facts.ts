import type { AnyFact } from '#streams/catalog.ts'
import type { Fact, FactType, FactOf, Recorded } from '#streams/define.ts'
import {
  DeliveryAttempted,
  DeliveryFailed,
  DeliveryMoved,
  DeliveryRequested,
  type Member
} from '#streams/delivery/facts.ts'
import {
  EmailAttempted,
  EmailBounced,
  EmailCanceled,
  EmailClicked,
  EmailComplained,
  EmailDeferred,
  EmailDelivered,
  EmailFailed,
  EmailInDoubt,
  EmailOpened,
  EmailRequested,
  EmailRescheduled,
  EmailRetryRequested,
  EmailSuppressed,
  EmailUnsubscribed
} from '#streams/email/facts.ts'
import { placeOf } from '#streams/place.ts'
import type { Static, TSchema } from '@sinclair/typebox'

type Data<T> = T extends FactType<string, infer Schema> ? Static<Schema> : never
type Outcome<T> = Partial<Data<T>> & { email: string }

const START_MS = Date.parse('2026-11-21T10:00:00.000Z')
export const ACCOUNT = 'acc_test'

/** A request that asks for nothing special. */
export const PLAIN = {
  replyTo: [],
  headers: [],
  attachments: [],
  template: null,
  track: { opens: true, clicks: true },
  unsubscribe: true,
  scheduledAt: null
}

let made = 0

/** A fact like those of a running service, a second after the one made before; what a test cares about it hands in. */
function fact<Name extends string, Schema extends TSchema> (
  type: FactType<Name, Schema>,
  data: Static<Schema>,
  account = ACCOUNT
): FactOf<FactType<Name, Schema>> {
  const stamped: Fact<Name, Static<Schema>> = {
    id: `ev_${String(++made).padStart(26, '0')}`,
    type: type.name,
    version: type.version,
    time: timeAt(made),
    account,
    causation: null,
    correlation: 'test',
    data
  }
  return stamped as FactOf<FactType<Name, Schema>>
}

/** RFC 3339, `seconds` after the first moment of the tests' world. */
export function timeAt (seconds: number): string {
  return new Date(START_MS + seconds * 1000).toISOString()
}

const transaction = {
  host: 'mx.example.net',
  tls: { version: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384', verified: true },
  via: 'mx' as const,
  ms: 120
}

/** Recipient 0 of an email, in its first attempt. */
function first (given: { email: string }) {
  return { n: 0, request: 1, to: 'ada@example.net', sequence: 1, attempt: 1, ...given }
}

export function requested (given: Outcome<typeof EmailRequested>, account = ACCOUNT): EmailRequested {
  return fact(EmailRequested, {
    key: 'key_test',
    test: false,
    from: { address: 'news@example.com', name: null },
    recipients: [{ address: 'ada@example.net', name: null, kind: 'to' }],
    subject: 'Hello',
    ...PLAIN,
    content: { html: '<p>Hello</p>', text: null, files: [] },
    tags: [],
    metadata: {},
    expiresAt: timeAt(259_200),
    onDoubt: 'retry',
    ...given
  }, account)
}

export function attempted (given: Outcome<typeof EmailAttempted>): EmailAttempted {
  return fact(EmailAttempted, {
    worker: 'w_test',
    leaseUntil: timeAt(made + 900),
    messageId: '<1@example.com>',
    date: timeAt(0),
    renderer: '1',
    digest: '00',
    due: false,
    ...first(given)
  })
}

export function delivered (given: Outcome<typeof EmailDelivered>): EmailDelivered {
  return fact(EmailDelivered, {
    ...transaction,
    reply: { code: 250, enhanced: '2.0.0', text: '250 2.0.0 ok' },
    event: '{}',
    ...first(given)
  })
}

export function deferred (given: Outcome<typeof EmailDeferred>): EmailDeferred {
  return fact(EmailDeferred, {
    ...transaction,
    stage: 'rcpt',
    reply: { code: 451, enhanced: '4.7.1', text: '451 4.7.1 later' },
    error: null,
    class: 'greylisted',
    nextAttemptAt: timeAt(made + 300),
    first: true,
    event: '{}',
    ...first(given)
  })
}

export function bounced (given: Outcome<typeof EmailBounced>): EmailBounced {
  return fact(EmailBounced, {
    ...transaction,
    stage: 'rcpt',
    reply: { code: 550, enhanced: '5.1.1', text: '550 5.1.1 no such user' },
    status: '5.1.1',
    error: null,
    class: 'userunknown',
    report: null,
    event: '{}',
    ...first(given)
  })
}

export function failed (given: Outcome<typeof EmailFailed>): EmailFailed {
  return fact(EmailFailed, { reason: 'expired', detail: null, event: '{}', ...first(given) })
}

export function inDoubt (given: Outcome<typeof EmailInDoubt>): EmailInDoubt {
  return fact(EmailInDoubt, { cause: 'sender', held: false, nextAttemptAt: timeAt(made + 60), ...first(given) })
}

export function rescheduled (given: Outcome<typeof EmailRescheduled>): EmailRescheduled {
  return fact(EmailRescheduled, {
    ...toldOf(given),
    scheduledAt: timeAt(made + 3600),
    expiresAt: timeAt(made + 7200),
    ...given
  })
}

export function canceled (given: Outcome<typeof EmailCanceled>): EmailCanceled {
  return fact(EmailCanceled, { ...toldOf(given), ...COUNTED, ...given })
}

export function suppressed (given: Outcome<typeof EmailSuppressed>): EmailSuppressed {
  return fact(EmailSuppressed, { ...toldOf(given), ...COUNTED, reason: 'bounce', ...given })
}

export function retryRequested (given: Outcome<typeof EmailRetryRequested>): EmailRetryRequested {
  return fact(EmailRetryRequested, { ...toldOf(given), expiresAt: timeAt(made + 259_200), ...given })
}

/** What facts without an event are counted by. */
const COUNTED = { from: 'news@example.com', tags: [] }

/** Recipient 0 of an email, in no attempt. */
function toldOf ({ email }: { email: string }) {
  const { attempt: _attempt, ...recipient } = first({ email })
  return recipient
}

/** An event of mail, by a number. */
export const member = (n: number): Member => ({ id: `ev_${n}`, type: 'email.delivered', seq: n, email: `em_${n}` })

/** One event owed to one endpoint. */
const owed = {
  delivery: 'whd_one',
  webhook: 'wh_one',
  replay: null,
  events: [{ id: 'ev_event', type: 'email.delivered' as const, seq: 7, email: 'em_one' }],
  batch: false
}

export function deliveryRequested (given: Partial<Data<typeof DeliveryRequested>>): DeliveryRequested {
  return fact(DeliveryRequested, { ...owed, ...given })
}

export function deliveryAttempted (given: Partial<Data<typeof DeliveryAttempted>>): DeliveryAttempted {
  return fact(DeliveryAttempted, {
    ...owed,
    attempt: 1,
    result: 'delivered',
    status: 200,
    error: null,
    errorKind: null,
    request: { url: 'https://example.com/hooks', headers: { 'webhook-id': 'ev_event' } },
    response: 'ok',
    durationMs: 12,
    firstAttemptAt: timeAt(0),
    nextAttemptAt: null,
    ...given
  })
}

export function deliveryMoved (given: Partial<Data<typeof DeliveryMoved>>): DeliveryMoved {
  return fact(DeliveryMoved, {
    ...owed,
    attempts: 1,
    firstAttemptAt: timeAt(0),
    nextAttemptAt: timeAt(60),
    ...given
  })
}

export function deliveryFailed (given: Partial<Data<typeof DeliveryFailed>>): DeliveryFailed {
  return fact(DeliveryFailed, { ...owed, attempts: 1, reason: 'endpoint_deleted', ...given })
}

/** What a recipient did with the mail. */
function marked (given: { email: string }) {
  return { n: 0, request: 1, to: 'ada@example.net', sequence: 3, event: '{}', ...given }
}

export const opened = (given: Outcome<typeof EmailOpened>): EmailOpened =>
  fact(EmailOpened, { machine: false, first: true, ...marked(given) })
export const clicked = (given: Outcome<typeof EmailClicked>): EmailClicked =>
  fact(EmailClicked, { url: 'https://shop.example/', machine: false, first: true, ...marked(given) })
export const complained = (given: Outcome<typeof EmailComplained>): EmailComplained =>
  fact(EmailComplained, { feedback: 'abuse', report: 'in_1', ...marked(given) })
export const unsubscribed = (given: Outcome<typeof EmailUnsubscribed>): EmailUnsubscribed =>
  fact(EmailUnsubscribed, { by: 'one-click', report: null, ...marked(given) })

/** Facts as they lie in a stream, from sequence `fromSeq` on. */
export function recorded (facts: AnyFact[], fromSeq = 1): Array<Recorded<AnyFact>> {
  return facts.map((one, i) => ({ fact: one, seq: fromSeq + i, subject: placeOf(one).subject }))
}

export type DeliveryStep = DeliveryRequested | DeliveryAttempted | DeliveryMoved | DeliveryFailed

/** For an erasure that finds the address in no text of the sender's. */
export const asIs = (text: string): string => text
