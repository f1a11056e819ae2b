import { Type, type Static } from '@sinclair/typebox'
import { AnyName, Nullable } from '#streams/define.ts'
import { EmailStatus, RecipientStatusSchema } from './status.ts'

const Text = Type.String()
const TimeOrNull = Nullable(Text)

const summary = {
  id: Text,
  /** The same as `id`, under the name it has in webhooks. */
  email_id: Text,
  from: Text,
  to: Type.Array(Text),
  cc: Type.Array(Text),
  bcc: Type.Array(Text),
  reply_to: Type.Array(Text),
  subject: Text,
  status: EmailStatus,
  tags: Type.Array(Text),
  metadata: Type.Record(AnyName, Type.Union([Text, Type.Number(), Type.Boolean(), Type.Null()])),
  template: Nullable(Type.Object({ id: Text, version: Type.Integer() })),
  /** When it is, or was, to be sent, as it was last asked; null = at once. */
  scheduled_at: TimeOrNull,
  test: Type.Boolean(),
  key_id: Text,
  created_at: Text
}

const SUMMARY = {
  id: 'em_01m7ysevjmwmdcr41jq5rymhkp',
  email_id: 'em_01m7ysevjmwmdcr41jq5rymhkp',
  from: 'Shop <hello@example.com>',
  to: ['Ada <ada@example.net>'],
  cc: [],
  bcc: [],
  reply_to: [],
  subject: 'Your order',
  status: 'delivered',
  tags: ['orders'],
  metadata: { order: 77 },
  template: null,
  scheduled_at: null,
  test: false,
  key_id: 'key_01m7yse7ke2esfck840wxx2ekh',
  created_at: '2026-11-21T12:00:00.000Z'
}

/** An email in a list. */
export const EmailSummary = Type.Object(summary)
export type EmailSummary = Static<typeof EmailSummary>

/** The answer of GET /api/emails. */
export const EmailPage = Type.Object({
  data: Type.Array(EmailSummary),
  has_more: Type.Boolean(),
  next_cursor: Nullable(Text)
}, {
  examples: [{ data: [SUMMARY], has_more: false, next_cursor: null }]
})
export type EmailPage = Static<typeof EmailPage>

/** The last answer of a server; without one (`smtp_code` null) `error` says why. */
export const LastResponse = Type.Object({
  smtp_code: Nullable(Type.Integer()),
  enhanced_code: Nullable(Text),
  response: Nullable(Text),
  host: Nullable(Text),
  error: Nullable(Text)
})

export const RecipientRecord = Type.Object({
  /** Place in the request, from 0. */
  n: Type.Integer(),
  address: Text,
  name: Nullable(Text),
  kind: Type.Union([Type.Literal('to'), Type.Literal('cc'), Type.Literal('bcc')]),
  status: RecipientStatusSchema,
  attempts: Type.Integer(),
  attempted_at: TimeOrNull,
  delivered_at: TimeOrNull,
  deferred_at: TimeOrNull,
  bounced_at: TimeOrNull,
  failed_at: TimeOrNull,
  in_doubt_at: TimeOrNull,
  suppressed_at: TimeOrNull,
  canceled_at: TimeOrNull,
  opened_at: TimeOrNull,
  clicked_at: TimeOrNull,
  complained_at: TimeOrNull,
  unsubscribed_at: TimeOrNull,
  next_attempt_at: TimeOrNull,
  last_response: Nullable(LastResponse)
})

/** One fact; which of the optional fields are there depends on `type`. */
export const TimelineEntry = Type.Object({
  id: Type.Optional(Text),
  type: Text,
  time: Text,
  n: Type.Optional(Type.Integer()),
  recipient: Type.Optional(Text),
  /** Number among the recipient's facts, as in webhooks. */
  sequence: Type.Optional(Type.Integer()),
  attempt: Type.Optional(Type.Integer()),
  /** The server was left alone, so nothing was attempted; the codes are those that another email got. */
  untried: Type.Optional(Type.Boolean()),
  message_id: Type.Optional(Text),
  stage: Type.Optional(Text),
  smtp_code: Type.Optional(Nullable(Type.Integer())),
  enhanced_code: Type.Optional(Nullable(Text)),
  response: Type.Optional(Nullable(Text)),
  error: Type.Optional(Nullable(Text)),
  host: Type.Optional(Nullable(Text)),
  /** The host's IP address. */
  address: Type.Optional(Text),
  via: Type.Optional(Text),
  /** Why there was no TLS: `not_offered`, `refused`, `broken`, or `policy` of the operator. */
  plain: Type.Optional(Text),
  tls: Type.Optional(Nullable(Type.Object({ version: Text, cipher: Text, verified: Type.Boolean() }))),
  /** From the first command to the reply. */
  ms: Type.Optional(Type.Integer()),
  /** The route that it went by; left out = SMTP_URL's. */
  route: Type.Optional(Text),
  /** Our address, where the route says from which to send. */
  source: Type.Optional(Text),
  class: Type.Optional(Text),
  reason: Type.Optional(Text),
  detail: Type.Optional(Nullable(Text)),
  cause: Type.Optional(Text),
  held: Type.Optional(Type.Boolean()),
  /** RFC 3463, where no reply of a server has it. */
  status: Type.Optional(Nullable(Text)),
  /** The mail that told. */
  report: Type.Optional(Nullable(Text)),
  url: Type.Optional(Text),
  machine: Type.Optional(Type.Boolean()),
  feedback: Type.Optional(Text),
  by: Type.Optional(Text),
  scheduled_at: Type.Optional(Text),
  next_attempt_at: Type.Optional(TimeOrNull)
})
export type TimelineEntry = Static<typeof TimelineEntry>

/** A file that came along, without its bytes. */
export const Attachment = Type.Object({
  filename: Text,
  content_type: Text,
  content_id: Nullable(Text),
  size_bytes: Type.Integer()
})

/** The answer of GET /api/emails/{id}. */
export const EmailRecord = Type.Object({
  ...summary,
  headers: Type.Array(Type.Object({ name: Text, value: Text })),
  attachments: Type.Array(Attachment),
  track: Type.Object({ opens: Type.Boolean(), clicks: Type.Boolean() }),
  unsubscribe: Type.Boolean(),
  recipients: Type.Array(RecipientRecord),
  timeline: Type.Array(TimelineEntry)
}, {
  examples: [{
    ...SUMMARY,
    headers: [],
    attachments: [],
    track: { opens: true, clicks: true },
    unsubscribe: true,
    recipients: [{
      n: 0,
      address: 'ada@example.net',
      name: 'Ada',
      kind: 'to',
      status: 'delivered',
      attempts: 1,
      attempted_at: '2026-11-21T12:00:00.040Z',
      delivered_at: '2026-11-21T12:00:00.310Z',
      deferred_at: null,
      bounced_at: null,
      failed_at: null,
      in_doubt_at: null,
      suppressed_at: null,
      canceled_at: null,
      opened_at: null,
      clicked_at: null,
      complained_at: null,
      unsubscribed_at: null,
      next_attempt_at: null,
      last_response: {
        smtp_code: 250,
        enhanced_code: '2.0.0',
        response: '250 2.0.0 Ok: queued',
        host: 'mx.example.net',
        error: null
      }
    }],
    timeline: [
      { type: 'email.requested', time: '2026-11-21T12:00:00.000Z' },
      {
        id: 'ev_01m7ysf2k8q3w5r7t9y1z3x5c7',
        type: 'email.delivered',
        time: '2026-11-21T12:00:00.310Z',
        n: 0,
        recipient: 'ada@example.net',
        sequence: 2,
        smtp_code: 250,
        ms: 270
      }
    ]
  }]
})
export type EmailRecord = Static<typeof EmailRecord>
