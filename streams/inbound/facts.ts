import { Type } from '@sinclair/typebox'
import { factType, Id, type FactOf } from '../define.ts'

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

export const inboundFacts = [InboundReceived] as const
export type InboundReceived = FactOf<typeof InboundReceived>
