import type { StandingReason, SuppressionAdded, SuppressionRemoved } from './facts.ts'

export type SuppressionFact = SuppressionAdded | SuppressionRemoved

/** An address of an account. */
export interface SuppressionState {
  /** As it was first given; null when it has been erased, and where nothing stands. */
  address: string | null
  /** Why it gets no mail, oldest first; empty = it may. */
  standing: StandingReason[]
}

/** What the last fact of the address's subject says; null = there is none. Nothing to fold: the last one tells all. */
export function suppressionOf (last: SuppressionFact | null): SuppressionState {
  if (last === null || last.type === 'suppression.removed') return { address: null, standing: [] }
  const { address, standing } = last.data
  return { address, standing }
}
