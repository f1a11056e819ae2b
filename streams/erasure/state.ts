import type { Actor } from '../define.ts'
import type { Deletes, ErasureCounts, ErasureFact } from './facts.ts'

/** One erasure, folded from the facts of its subject. */
export interface ErasureState {
  id: string
  account: string
  /** Of the address, hex. */
  hash: string
  /** Id of the ask that led to it. */
  correlation: string
  /** Who asked; undefined in old facts. */
  actor?: Actor
  /** Sealed; null once it is deleted itself. */
  address: string | null
  requestedAt: string
  completedAt: string | null
  counts: ErasureCounts
  /** What has been announced, by stream: deleted, or about to be. */
  announced: ReadonlyMap<string, ReadonlySet<number>>
}

export const NOTHING_ERASED: ErasureCounts = {
  emails: 0,
  recipients: 0,
  canceled: 0,
  suppressions: 0,
  inbound: 0,
  messages: 0
}

export function plusErased (a: ErasureCounts, b: Partial<ErasureCounts>): ErasureCounts {
  const sum = (name: keyof ErasureCounts) => a[name] + (b[name] ?? 0)
  return {
    emails: sum('emails'),
    recipients: sum('recipients'),
    canceled: sum('canceled'),
    suppressions: sum('suppressions'),
    inbound: sum('inbound'),
    messages: sum('messages')
  }
}

/** What an erasure becomes with one more fact; its first may be gone already. */
export function evolveErasure (before: ErasureState | null, fact: ErasureFact): ErasureState {
  const { account, correlation, actor, data: { erasure: id, hash } } = fact
  const state = before ??
    {
      id,
      account,
      hash,
      correlation,
      ...(actor === undefined ? {} : { actor }),
      address: null,
      requestedAt: fact.time,
      completedAt: null,
      counts: NOTHING_ERASED,
      announced: new Map()
    }
  switch (fact.type) {
    case 'erasure.requested':
      return { ...state, address: fact.data.address }
    case 'erasure.advanced': {
      const { requestedAt, counts, deletes } = fact.data
      return {
        ...state,
        requestedAt,
        counts: plusErased(state.counts, counts),
        announced: withDeletes(state.announced, deletes)
      }
    }
    case 'erasure.completed':
      return { ...state, requestedAt: fact.data.requestedAt, completedAt: fact.time, counts: fact.data.counts }
  }
}

function withDeletes (announced: ErasureState['announced'], deletes: Deletes): ErasureState['announced'] {
  return deletes.reduce(
    (all, { stream, seqs }) => new Map(all).set(stream, new Set([...all.get(stream) ?? [], ...seqs])),
    announced
  )
}

/** Those that have not been announced yet. */
export function unannounced (
  { announced }: Pick<ErasureState, 'announced'>,
  stream: string,
  seqs: readonly number[]
): number[] {
  const known = announced.get(stream)
  return known === undefined ? [...seqs] : seqs.filter(seq => !known.has(seq))
}
