import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Nullable, Time, type FactOf } from '../define.ts'

export const REASONS = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const
export type SuppressionReason = typeof REASONS[number]
const Reason = Type.Union(REASONS.map(reason => Type.Literal(reason)))

/** Why an address gets no mail: since when, and which email told. An `unsubscribe` alone holds back only mail sent with
 *  `unsubscribe: true`. */
export const StandingReason = Type.Object({ reason: Reason, email: Nullable(Id('em')), since: Time })
export type StandingReason = Static<typeof StandingReason>

const address = {
  /** SHA-256 of the folded address, hex; also in the subject. */
  hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  /** As it was given; null when it has been erased. */
  address: Nullable(Type.String())
}

/** An address is suppressed for one more reason. `standing` = all that hold from now on, oldest first, one a reason:
 *  the last fact tells the whole state. */
export const SuppressionAdded = factType(
  'suppression.added',
  1,
  Type.Object({
    ...address,
    reason: Reason,
    standing: Type.Array(StandingReason, { minItems: 1, maxItems: REASONS.length })
  })
)

/** Mail may go there again. */
export const SuppressionRemoved = factType('suppression.removed', 1, Type.Object(address))

export const suppressionFacts = [SuppressionAdded, SuppressionRemoved] as const

export type SuppressionAdded = FactOf<typeof SuppressionAdded>
export type SuppressionRemoved = FactOf<typeof SuppressionRemoved>
