import { Type, type TProperties, type TSchema } from '@sinclair/typebox'
import { AnyName, Nullable } from '#streams/define.ts'
import { BATCH_EVENTS_MAX, EVENT_TYPES, type EventType } from '#streams/webhook/facts.ts'
import { ref, type Json } from './openapi-parts.ts'
import type { Models } from './openapi-schemas.ts'

const Text = (description: string) => Type.String({ description })
const OneOf = (description: string, ...words: string[]) =>
  Type.Union(words.map(word => Type.Literal(word)), { description })

const shared = {
  email_id: Text('Identifier of the email.'),
  from: Text("The sender's bare address."),
  to: Text('The bare address of the one recipient that this is about.'),
  subject: Type.String(),
  tags: Type.Array(Type.String()),
  metadata: Type.Record(AnyName, Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])),
  message_id: Text('The Message-ID of the mail that this recipient got.'),
  sequence: Type.Integer({
    minimum: 1,
    description:
      'The number of what happened among all that happened to this recipient: events may arrive in another order.'
  }),
  template_id: Nullable(Text('What the content was made from.')),
  test: Type.Optional(
    Type.Literal(true, { description: 'Of mail sent with a test key, or a made-up event that was asked for.' })
  )
}

const machine = Type.Boolean({ description: 'By a program, as far as can be told: a proxy, a scanner, a prefetch.' })

const bounce = Type.Object({
  type: OneOf(
    '`hard` = a final no; `soft` = not now, or, with `final`, never within the time there was.',
    'hard',
    'soft'
  ),
  class: Text(
    'Why, in a word, such as `userunknown`, `mailboxfull` or `spamdetected`; `expired` when the time was over.'
  ),
  code: Nullable(
    Type.Integer({
      minimum: 200,
      maximum: 599,
      description: "The three digits of the server's reply; null when there was none. Of mail that was not tried: of " +
        'the reply to another.'
    })
  ),
  enhanced_code: Nullable(Text('Status as RFC 3463 has it.')),
  final: Type.Boolean({ description: 'Nothing more is tried.' }),
  next_attempt_at: Nullable(Type.String()),
  reason: Nullable(Text('In our words, where no server said any.'))
})

/** What an event adds to the data that all have. Source: contract, "Webhooks". */
const EXTRAS: Record<EventType, TProperties> = {
  'email.delivered': {
    smtp_response: Text('The words of the server that took it.'),
    via: OneOf("Through the operator's relay, or straight to the recipient's server.", 'relay', 'mx')
  },
  'email.bounced': {
    smtp_response: Type.Optional(
      Text("A server's words, its reply or what a bounce mail quotes, wherever there are any.")
    ),
    bounce
  },
  'email.opened': { machine },
  'email.clicked': { click: Type.Object({ url: Text('Where the link leads.') }), machine },
  'email.complained': { complaint: Type.Object({ type: Text('As RFC 5965 names it: `abuse`, `fraud`, …') }) },
  'email.unsubscribed': {}
}

const MEANINGS: Record<EventType, string> = {
  'email.delivered': "The recipient's mail server accepted the email",
  'email.bounced': 'The email was rejected (hard), or put off or given up (soft)',
  'email.opened': 'The tracking pixel was loaded',
  'email.clicked': 'A tracked link was followed',
  'email.complained': 'The recipient marked the email as spam',
  'email.unsubscribed': 'The recipient wants no more mail like it'
}

const DATA = {
  email_id: 'em_01m7ysevjmwmdcr41jq5rymhkp',
  from: 'hello@example.com',
  to: 'ada@example.net',
  subject: 'Your order',
  tags: ['orders'],
  metadata: { order: 77 },
  message_id: '<em_01m7ysevjmwmdcr41jq5rymhkp.0@example.com>',
  sequence: 2,
  template_id: null
}
const GONE = {
  type: 'hard',
  class: 'userunknown',
  code: 550,
  enhanced_code: '5.1.1',
  final: true,
  next_attempt_at: null,
  reason: null
}
const UNREACHED = {
  type: 'soft',
  class: 'networkerror',
  code: null,
  enhanced_code: null,
  final: false,
  next_attempt_at: '2026-11-21T12:05:10.000Z',
  reason: 'connect ECONNREFUSED 192.0.2.1:25'
}

const EXAMPLES: Record<EventType, object[]> = {
  'email.delivered': [{ smtp_response: '250 2.0.0 Ok: queued', via: 'mx' }],
  'email.bounced': [{ smtp_response: '550 5.1.1 no such user', bounce: GONE }, { bounce: UNREACHED }],
  'email.opened': [{ machine: false }],
  'email.clicked': [{ click: { url: 'https://shop.example/orders/77' }, machine: false }],
  'email.complained': [{ complaint: { type: 'abuse' } }],
  'email.unsubscribed': [{}]
}

/** The body of each event, as a receiver gets it. Open: keys may be added. Source: spec 6.2; contract, "Webhooks". */
const EVENT_BODIES = Object.fromEntries(EVENT_TYPES.map(type => [type, bodyOf(type)])) as Record<
  EventType,
  ReturnType<typeof bodyOf>
>

function bodyOf (type: EventType) {
  return Type.Object({
    id: Text('The same on every try of every delivery: what has been seen need not be done again.'),
    type: Type.Literal(type),
    created_at: Type.String(),
    data: Type.Object({ ...shared, ...EXTRAS[type] })
  }, {
    description: `${MEANINGS[type]}.`,
    examples: EXAMPLES[type].map(extra => ({
      id: 'ev_01m7ysf2k8q3w5r7t9y1z3x5c7',
      type,
      created_at: '2026-11-21T12:00:00.310Z',
      data: { ...DATA, ...extra }
    }))
  })
}

/** Any of them, told apart by `type`. */
export const AnyEvent = Type.Union(EVENT_TYPES.map(type => EVENT_BODIES[type]), {
  description: 'Something that happened to an email, told apart by `type`.'
})

const EventBatch = Type.Object({
  object: Type.Literal('batch'),
  id: Text('Of the delivery: the same on every try, with the same events in it.'),
  events: Type.Array(AnyEvent, {
    minItems: 1,
    maxItems: BATCH_EVENTS_MAX,
    description: 'Oldest first, each as it would come alone, to the byte.'
  })
}, {
  description: 'Several events in one request, for an endpoint with `batch`.',
  examples: [{
    object: 'batch',
    id: 'whd_5tq2h8c0n4r7k1m3v6e9a2j8gb',
    events: [EVENT_BODIES['email.delivered'].examples[0], {
      ...EVENT_BODIES['email.opened'].examples[0],
      id: 'ev_01m7ysg3n9r4x6s8v0b2d4f6h8'
    }]
  }]
})

/** `email.delivered` → `EmailDelivered`. */
function nameOf (type: EventType): string {
  return type.split('.').map(word => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}

/** The bodies under the names they have in the document. */
export const eventModels: Array<[string, unknown]> = [
  ...EVENT_TYPES.map(type => [`${nameOf(type)}Event`, EVENT_BODIES[type]] as [string, unknown]),
  ['WebhookEvent', AnyEvent],
  ['WebhookBatch', EventBatch]
]

const header = (name: string, description: string, pattern: string): Json => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string', pattern }
})

/** What proves that a callback is ours, by the name of its parameter in the document. Source: spec 6.3;
 *  standardwebhooks.com. */
export const SIGNATURE_HEADERS: Record<string, Json> = {
  ServiceSignature: header(
    'X-Service-Signature',
    "`sha256=` and the HMAC-SHA256 of the raw body in lower-case hex, keyed with the endpoint's " +
      'signing secret as it was shown. While a rotation overlaps it keeps the old secret.',
    '^sha256=[0-9a-f]{64}$'
  ),
  WebhookId: header('webhook-id', "The event's `id`, or the batch's.", '^\\S+$'),
  WebhookTimestamp: header('webhook-timestamp', 'When this try was signed, in Unix seconds.', '^\\d+$'),
  WebhookSignature: header(
    'webhook-signature',
    '`v1,` and the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<raw body>` in base64, keyed with what' +
      ' the base64 after ' +
      '`whsec_` stands for. While a rotation overlaps there are two, the new first, with a space between.',
    '^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)*$'
  )
}

const RESPONSES = {
  '2XX': {
    description: 'Taken. Anything else, a redirect too, or nothing within 15 s, is tried again for up to 24 hours; ' +
      'when, the tag Webhooks says.'
  },
  410: { description: 'No more of this: the endpoint is disabled.' }
}

/** The document's `webhooks`: what Jetpost sends to endpoints. Source:
 *  https://spec.openapis.org/oas/v3.1.0#openapi-object */
export function webhooksOf (models: Models): Json {
  const single = EVENT_TYPES.map(
    type => [type, { post: requestOf(`on${nameOf(type)}`, MEANINGS[type], EVENT_BODIES[type], models) }]
  )
  return {
    ...Object.fromEntries(single),
    batch: { post: requestOf('onBatch', 'Several things happened', EventBatch, models) }
  }
}

function requestOf (operationId: string, summary: string, body: TSchema, models: Models): Json {
  const examples = Object.fromEntries((body.examples as unknown[]).map((value, i) => [`example ${i + 1}`, { value }]))
  return {
    operationId,
    summary,
    tags: ['Webhooks'],
    security: [],
    parameters: Object.keys(SIGNATURE_HEADERS).map(name => ref('parameters', name)),
    requestBody: { required: true, content: { 'application/json': { schema: models.refer(body), examples } } },
    responses: RESPONSES
  }
}
