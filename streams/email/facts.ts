import { Type } from '@sinclair/typebox'
import { AnyName, factType, Id, Nullable, PrincipalId, Sequence, Time, type FactOf, type Upcast } from '../define.ts'
import { taken } from '../route/facts.ts'
import { REASONS } from '../suppression/facts.ts'

/** Where a recipient stands in a message's headers; bcc stands nowhere. */
export const RecipientKind = Type.Union([Type.Literal('to'), Type.Literal('cc'), Type.Literal('bcc')])

const Mailbox = Type.Object({ address: Type.String(), name: Nullable(Type.String()) })

/** What a message holds: bodies, each attachment's bytes in base64, in the order of `attachments`, and further forms of
 *  the body, such as an invitation. */
export const Content = Type.Object({
  html: Nullable(Type.String()),
  text: Nullable(Type.String()),
  files: Type.Array(Type.String()),
  alternatives: Type.Optional(Type.Array(Type.Object({ contentType: Type.String(), content: Type.String() }))),
  /** In place of the others: the body of a message that came whole, by SMTP, in base64. */
  mime: Type.Optional(Type.String())
})

/** A file that comes along; with a `contentId` it is an image in the text. */
const Attachment = Type.Object({
  filename: Type.String(),
  contentType: Type.String(),
  contentId: Nullable(Type.String()),
  sizeBytes: Type.Integer({ minimum: 0 })
})

/** Recipients of one email, with copies; emails of one request. */
export const RECIPIENTS_MAX = 50
export const EMAILS_MAX = 100

/** What is asked for, without its content. */
const asked = {
  email: Id('em'),
  /** The key that asked, or the user. */
  key: PrincipalId,
  /** Asked with a test key: goes to the mail catcher only. */
  test: Type.Boolean(),
  from: Mailbox,
  recipients: Type.Array(Type.Object({ address: Type.String(), name: Nullable(Type.String()), kind: RecipientKind }), {
    minItems: 1,
    maxItems: RECIPIENTS_MAX
  }),
  replyTo: Type.Array(Mailbox),
  subject: Type.String(),
  /** The sender's own, in their order. */
  headers: Type.Array(Type.Object({ name: Type.String(), value: Type.String() })),
  attachments: Type.Array(Attachment),
  /** What the content was made from. */
  template: Nullable(Type.Object({ id: Id('tpl'), version: Type.Integer({ minimum: 1 }) })),
  track: Type.Object({ opens: Type.Boolean(), clicks: Type.Boolean() }),
  /** May its recipients unsubscribe: then those who have get no mail like it. */
  unsubscribe: Type.Boolean(),
  tags: Type.Array(Type.String()),
  metadata: Type.Record(AnyName, Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])),
  /** Not before then; null = at once. */
  scheduledAt: Nullable(Time),
  /** No server's final verdict by then = `failed`. */
  expiresAt: Time,
  /** What follows a doubt: one more copy, or none. */
  onDoubt: Type.Union([Type.Literal('retry'), Type.Literal('hold')])
}

/** Version 1 knew no users, version 2 no message that came whole: what they say reads the same. */
function unchanged<Data> (data: Data): Data {
  return data
}

/** The command that was accepted: what is to be sent, to whom. Stream REQUESTS; the only fact that holds content. */
export const EmailRequested = factType(
  'email.requested',
  3,
  Type.Object({
    ...asked,
    /** null = it lies in the object store CONTENT under the email's id. */
    content: Nullable(Content),
    /** The header of a message that came whole, as it came but for what is not passed on: fields with CRLF line ends.
     *  Its body is `mime` of the content. */
    head: Type.Optional(Type.String())
  }),
  [unchanged, unchanged]
)

/** A request without its content: what is known of an email for as long as its facts are kept. `request` = where it
 *  lies, or lay, in REQUESTS. */
export const EmailRecorded = factType(
  'email.recorded',
  2,
  Type.Object({ ...asked, request: Sequence, requestedAt: Time }),
  [unchanged]
)

/** A request has got another place in REQUESTS. */
export const EmailMoved = factType(
  'email.moved',
  1,
  Type.Object({ email: Id('em'), from: Sequence, request: Sequence })
)

/** What every fact of one recipient says: which email, which recipient (counted from 0), and where its request lies in
 *  REQUESTS. */
const recipient = {
  email: Id('em'),
  n: Type.Integer({ minimum: 0, maximum: RECIPIENTS_MAX - 1 }),
  request: Sequence,
  to: Type.String(),
  /** The number of this fact among those of its recipient, from 1; `sequence` in webhooks. */
  sequence: Type.Integer({ minimum: 1 })
}

/** An SMTP reply: `code` the three digits, `enhanced` RFC 3463's status or null, `text` all lines as received, at most
 *  1,000 characters. */
export const Reply = Type.Object({
  code: Type.Integer({ minimum: 200, maximum: 599 }),
  enhanced: Nullable(Type.String()),
  text: Type.String({ maxLength: 1000 })
})

/** How far a transaction had come. */
export const Stage = Type.Union(
  (['connect', 'ehlo', 'mail', 'rcpt', 'data'] as const).map(stage => Type.Literal(stage))
)

/** Why a transaction went without TLS: the server offers none, refused it, or broke it, now or lately; or the operator
 *  has turned it off. */
export const Plain = Type.Union(
  (['not_offered', 'refused', 'broken', 'policy'] as const).map(why => Type.Literal(why))
)

/** One transaction with one server: `host` we spoke to, at which IP address, TLS as negotiated (null = none, and
 *  `plain` says why), `ms` from the first command to the reply, and by which route. */
const transaction = {
  attempt: Type.Integer({ minimum: 1 }),
  host: Nullable(Type.String()),
  address: Type.Optional(Type.String()),
  tls: Nullable(Type.Object({ version: Type.String(), cipher: Type.String(), verified: Type.Boolean() })),
  plain: Type.Optional(Plain),
  via: Type.Union([Type.Literal('relay'), Type.Literal('mx')]),
  ms: Type.Integer({ minimum: 0 }),
  ...taken
}

/** The very bytes of the webhook event (spec 6.2): the same on every try, replay and backfill. */
const event = { event: Type.String() }

/** The claim, appended before the final dot: from here until an outcome only this worker may finish the transaction. */
export const EmailAttempted = factType(
  'email.attempted',
  1,
  Type.Object({
    ...recipient,
    attempt: Type.Integer({ minimum: 1 }),
    worker: Type.String(),
    leaseUntil: Time,
    messageId: Type.String(),
    /** The Date header: the first claim's on every copy, so that Exchange and Cyrus drop a second one. */
    date: Time,
    /** Version of the code that made the message, and the SHA-256 of its bytes, in hex. */
    renderer: Type.String(),
    digest: Type.String(),
    /** Came by schedule: no job of REQUESTS stands behind it. */
    due: Type.Boolean(),
    route: taken.route
  })
)

/** The server took it: 2xx after the dot. */
export const EmailDelivered = factType(
  'email.delivered',
  1,
  Type.Object({ ...recipient, ...transaction, reply: Reply, ...event })
)

/** Not now: a 4xx, or no conversation at all (`reply` null, `error` says why). `first` engagements the deferral that is
 *  an event for everyone. `untried` = the host was left alone, so nothing was attempted: the code and the status that
 *  it gave another email (null = none), and `attempt` is the number of the attempt that is still to come. */
export const EmailDeferred = factType(
  'email.deferred',
  1,
  Type.Object({
    ...recipient,
    ...transaction,
    stage: Stage,
    reply: Nullable(Reply),
    error: Nullable(Type.String({ maxLength: 1000 })),
    class: Type.String(),
    nextAttemptAt: Time,
    first: Type.Boolean(),
    untried: Type.Optional(
      Type.Object({ code: Nullable(Type.Integer({ minimum: 200, maximum: 599 })), enhanced: Nullable(Type.String()) })
    ),
    ...event
  })
)

/** A no for good: a server's reply, a domain that takes no mail (`reply` null, `error` says why), or a report that came
 *  back later (`report` names it; `host` is then who said no, as the report has it). `status` = RFC 3463's, no matter
 *  who told it. */
export const EmailBounced = factType(
  'email.bounced',
  1,
  Type.Object({
    ...recipient,
    ...transaction,
    stage: Stage,
    reply: Nullable(Reply),
    status: Nullable(Type.String()),
    error: Nullable(Type.String({ maxLength: 1000 })),
    class: Type.String(),
    report: Nullable(Id('in')),
    ...event
  })
)

/** The budget ended without a server's final verdict. */
export const EmailFailed = factType(
  'email.failed',
  1,
  Type.Object({
    ...recipient,
    attempt: Type.Integer({ minimum: 0 }),
    reason: Type.Union([Type.Literal('expired'), Type.Literal('unsendable')]),
    detail: Nullable(Type.String({ maxLength: 1000 })),
    ...event
  })
)

/** The sender died (`sender`), or the line did (`line`), between the final dot and the recorded reply. `held` = no
 *  further copy goes out by itself. */
export const EmailInDoubt = factType(
  'email.in_doubt',
  1,
  Type.Object({
    ...recipient,
    attempt: Type.Integer({ minimum: 1 }),
    cause: Type.Union([Type.Literal('sender'), Type.Literal('line')]),
    held: Type.Boolean(),
    nextAttemptAt: Nullable(Time)
  })
)

/** What is counted by: the sender's bare address, and the request's tags. Facts with an event say it there. */
const counted = { from: Type.String(), tags: Type.Array(Type.String()) }
/** Version 1 did not say. */
const uncounted: Upcast = data => ({ ...data, from: '', tags: [] })

/** Not sent: why, as the suppressions stood. */
export const EmailSuppressed = factType(
  'email.suppressed',
  2,
  Type.Object({
    ...recipient,
    ...counted,
    reason: Type.Union(REASONS.map(reason => Type.Literal(reason)))
  }),
  [uncounted]
)

/** To be sent at another time; its budget ends at `expiresAt`. */
export const EmailRescheduled = factType(
  'email.rescheduled',
  1,
  Type.Object({ ...recipient, scheduledAt: Time, expiresAt: Time })
)

/** Not to be sent (any more). */
export const EmailCanceled = factType('email.canceled', 2, Type.Object({ ...recipient, ...counted }), [uncounted])

/** What had ended without a delivery is to be sent again, with a budget until `expiresAt`. */
export const EmailRetryRequested = factType('email.retry_requested', 1, Type.Object({ ...recipient, expiresAt: Time }))

/** By a program or not, as far as can be told: a proxy, a scanner, a prefetch. `first` = no person had done so before,
 *  and this is one. */
const visit = { machine: Type.Boolean(), first: Type.Boolean() }
/** Version 1 did not tell the first from the others. */
const untold: Upcast = data => ({ ...data, first: false })

/** The pixel was loaded. */
export const EmailOpened = factType('email.opened', 2, Type.Object({ ...recipient, ...visit, ...event }), [untold])

/** A link was followed. */
export const EmailClicked = factType(
  'email.clicked',
  2,
  Type.Object({ ...recipient, url: Type.String({ maxLength: 8192 }), ...visit, ...event }),
  [untold]
)

/** Called spam. `feedback` = RFC 5965's Feedback-Type; `report` = the mail that told. */
export const EmailComplained = factType(
  'email.complained',
  1,
  Type.Object({ ...recipient, feedback: Type.String({ maxLength: 100 }), report: Nullable(Id('in')), ...event })
)

/** No more mail like it, please: said by a mail program's button (`one-click`, RFC 8058), on our page, by mail, or in a
 *  feedback report. */
export const EmailUnsubscribed = factType(
  'email.unsubscribed',
  1,
  Type.Object({
    ...recipient,
    by: Type.Union((['one-click', 'page', 'mail', 'report'] as const).map(way => Type.Literal(way))),
    report: Nullable(Id('in')),
    ...event
  })
)

/** The person is forgotten: in the place of all facts of a recipient, which are deleted. `to` is nobody's address.
 *  `past` = those facts without anything personal, each with where it lay in EMAILS and when it was stored there,
 *  oldest first; read them with `pastOf`. */
export const EmailErased = factType(
  'email.erased',
  1,
  Type.Object({
    ...recipient,
    erasure: Id('era'),
    past: Type.Array(Type.Object({ seq: Sequence, storedAt: Time, fact: Type.Unknown() }))
  })
)

/** An Idempotency-Key is taken: in one atomic append with the requests it let in, so that no crash can part them.
 *  `bodyHash` = SHA-256 of the canonical body; `answer` = the answer it got, and gets again. Lives 7 days. */
export const RequestClaimed = factType(
  'request.claimed',
  1,
  Type.Object({
    hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
    bodyHash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
    emails: Type.Array(Id('em'), { minItems: 1, maxItems: EMAILS_MAX }),
    answer: Type.Object({ status: Type.Integer(), location: Nullable(Type.String()), body: Type.Unknown() })
  })
)

export const emailFacts = [
  EmailRequested,
  EmailAttempted,
  EmailDelivered,
  EmailDeferred,
  EmailBounced,
  EmailFailed,
  EmailInDoubt,
  EmailSuppressed,
  EmailRescheduled,
  EmailCanceled,
  EmailRetryRequested,
  EmailOpened,
  EmailClicked,
  EmailComplained,
  EmailUnsubscribed,
  EmailErased,
  EmailRecorded,
  EmailMoved,
  RequestClaimed
] as const

export type EmailRequested = FactOf<typeof EmailRequested>
export type EmailRecorded = FactOf<typeof EmailRecorded>
export type EmailMoved = FactOf<typeof EmailMoved>
export type EmailErased = FactOf<typeof EmailErased>
export type EmailAttempted = FactOf<typeof EmailAttempted>
export type EmailDelivered = FactOf<typeof EmailDelivered>
export type EmailDeferred = FactOf<typeof EmailDeferred>
export type EmailBounced = FactOf<typeof EmailBounced>
export type EmailFailed = FactOf<typeof EmailFailed>
export type EmailInDoubt = FactOf<typeof EmailInDoubt>
export type EmailSuppressed = FactOf<typeof EmailSuppressed>
export type EmailRescheduled = FactOf<typeof EmailRescheduled>
export type EmailCanceled = FactOf<typeof EmailCanceled>
export type EmailRetryRequested = FactOf<typeof EmailRetryRequested>
export type EmailOpened = FactOf<typeof EmailOpened>
export type EmailClicked = FactOf<typeof EmailClicked>
export type EmailComplained = FactOf<typeof EmailComplained>
export type EmailUnsubscribed = FactOf<typeof EmailUnsubscribed>
export type RequestClaimed = FactOf<typeof RequestClaimed>
/** What a recipient did with the mail; on a subject of its own, so that none of it comes between a claim and its
 *  outcome. */
export type EngagementFact = EmailOpened | EmailClicked | EmailComplained | EmailUnsubscribed
/** What became of sending to one recipient. */
export type RecipientFact =
  | EmailAttempted
  | EmailDelivered
  | EmailDeferred
  | EmailBounced
  | EmailFailed
  | EmailInDoubt
  | EmailSuppressed
  | EmailRescheduled
  | EmailCanceled
  | EmailRetryRequested
/** All that may lie on a recipient's subject. */
export type SubjectFact = RecipientFact | EmailErased
