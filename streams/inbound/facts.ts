import { Type } from '@sinclair/typebox'
import { factType, Id, Nullable, Time, type FactOf } from '../define.ts'

/** Of a bigger mail only so much is kept: its beginning, where a report says what it has to say before it returns the
 *  mail. */
export const INBOUND_BYTES_MAX = 512 * 1024
export const INBOUND_RECIPIENTS_MAX = 100

/** A mail came in: kept as it came before it is read, so that nothing is lost to a reader's mistake. Stream INBOUND.
 *  Whose it is nobody knows yet: it is the first account's, which is the operator's. */
export const InboundReceived = factType(
  'inbound.received',
  1,
  Type.Object({
    inbound: Id('in'),
    /** The envelope's sender; empty for a bounce. */
    from: Type.String({ maxLength: 512 }),
    to: Type.Array(Type.String({ maxLength: 512 }), { minItems: 1, maxItems: INBOUND_RECIPIENTS_MAX }),
    /** Address of the host it came from. */
    remote: Type.String({ maxLength: 64 }),
    /** The message in base64, its first INBOUND_BYTES_MAX bytes; `sizeBytes` = all there were. */
    raw: Type.String(),
    sizeBytes: Type.Integer({ minimum: 0 })
  })
)

/** What a relay may say of one recipient. `failed` = it gave up for good, `delayed` = it goes on trying. */
export const REPORT_KINDS = ['failed', 'delayed', 'delivered', 'complaint', 'unsubscribe'] as const
export type RelayReportKind = typeof REPORT_KINDS[number]

export const REPORT_TEXT_MAX = 1000
export const REPORT_POINTERS_MAX = 10
const Pointers = Type.Array(Type.String({ maxLength: 998 }), { maxItems: REPORT_POINTERS_MAX })
const Text = (maxLength: number) => Nullable(Type.String({ maxLength }))

/** A relay told us by HTTP what became of mail to one recipient: kept before it is acted upon. Whose mail it is about
 *  nobody has looked up yet: it is the first account's, which is the operator's. */
export const InboundReported = factType(
  'inbound.reported',
  1,
  Type.Object({
    /** Follows from what was said: the same said again has the same one. */
    inbound: Id('in'),
    source: Id('fs'),
    provider: Type.String({ maxLength: 32 }),
    /** The one account whose mail it may report on; null = that of all. */
    onlyAccount: Nullable(Id('acc')),
    kind: Type.Union(REPORT_KINDS.map(kind => Type.Literal(kind))),
    /** When it happened, as the relay says. */
    at: Nullable(Time),
    address: Text(512),
    /** What may name the mail: Message-IDs, and strings that hold a token of ours. */
    messageIds: Pointers,
    tokens: Pointers,
    /** As the receiving server had it (RFC 3463), and its words. */
    status: Nullable(Type.String({ pattern: '^[245]\\.\\d{1,3}\\.\\d{1,3}$' })),
    diagnostic: Text(REPORT_TEXT_MAX),
    /** That server. */
    host: Text(255),
    /** The relay's own word for the reason. */
    reason: Text(100),
    /** Of a complaint: its type (RFC 5965). */
    feedbackType: Text(100)
  })
)

export const inboundFacts = [InboundReceived, InboundReported] as const
export type InboundReceived = FactOf<typeof InboundReceived>
export type InboundReported = FactOf<typeof InboundReported>
