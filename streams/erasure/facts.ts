import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Sequence, Time, type FactOf } from '../define.ts'

const erasure = {
  erasure: Id('era'),
  /** HMAC-SHA-256 of the account and the folded address under a key of JETPOST_SECRET, hex; of the first ones the plain
   *  SHA-256 of the address. */
  hash: Type.String({ pattern: '^[0-9a-f]{64}$' })
}

const Count = Type.Integer({ minimum: 0 })

/** What was done. */
export const ErasureCounts = Type.Object({
  /** Emails it was a recipient of, and how many of their recipients it was. */
  emails: Count,
  recipients: Count,
  /** Of those, not sent any more. */
  canceled: Count,
  suppressions: Count,
  /** Mails that came back. */
  inbound: Count,
  /** Messages deleted from the log. */
  messages: Count
})
export type ErasureCounts = Static<typeof ErasureCounts>

/** Sequences a stream, and streams a fact. */
export const DELETES_MAX = 1000
export const STREAMS_MAX = 10
const Deletes = Type.Array(
  Type.Object({ stream: Type.String(), seqs: Type.Array(Sequence, { minItems: 1, maxItems: DELETES_MAX }) }),
  { minItems: 1, maxItems: STREAMS_MAX }
)
export type Deletes = Static<typeof Deletes>

/** An address is to be forgotten. `address` is sealed: the work needs it, and this fact is itself deleted once the work
 *  is done. */
export const ErasureRequested = factType('erasure.requested', 1, Type.Object({ ...erasure, address: Type.String() }))

/** What is about to be deleted from the log: announced before it is done, so that every gap has its reason. `counts`
 *  = what this step adds to the others'; `requestedAt` outlives the fact that said so first. */
export const ErasureAdvanced = factType(
  'erasure.advanced',
  1,
  Type.Object({ ...erasure, requestedAt: Time, counts: ErasureCounts, deletes: Deletes })
)

/** The receipt. */
export const ErasureCompleted = factType(
  'erasure.completed',
  1,
  Type.Object({ ...erasure, requestedAt: Time, counts: ErasureCounts })
)

export const erasureFacts = [ErasureRequested, ErasureAdvanced, ErasureCompleted] as const

export type ErasureRequested = FactOf<typeof ErasureRequested>
export type ErasureAdvanced = FactOf<typeof ErasureAdvanced>
export type ErasureCompleted = FactOf<typeof ErasureCompleted>
export type ErasureFact = ErasureRequested | ErasureAdvanced | ErasureCompleted
