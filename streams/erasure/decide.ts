import { DELETES_MAX, type Deletes, type ErasureCounts } from './facts.ts'
import { NOTHING_ERASED, plusErased, unannounced, type ErasureState } from './state.ts'

/** Messages of one thing that are about to be deleted together, and what counts once with them. */
export interface ToDelete {
  stream: string
  seqs: readonly number[]
  counts: Partial<ErasureCounts>
}

export interface Advance {
  counts: ErasureCounts
  deletes: Deletes
}

/** What is to be announced before these are deleted, a thousand messages of a stream to a fact; nothing of what has
 *  been announced already. */
export function advancesOf (erasure: Pick<ErasureState, 'announced'>, toDelete: readonly ToDelete[]): Advance[] {
  const advances: Advance[] = []
  for (const { stream, seqs, counts } of toDelete) {
    const fresh = unannounced(erasure, stream, seqs)
    // What was begun before has been counted then.
    let more: Partial<ErasureCounts> = fresh.length === seqs.length ? counts : {}
    while (fresh.length > 0) {
      const { advance, deletes } = roomFor(advances, stream)
      const taken = fresh.splice(0, DELETES_MAX - deletes.seqs.length)
      deletes.seqs.push(...taken)
      advance.counts = plusErased(advance.counts, { ...more, messages: taken.length })
      more = {}
    }
  }
  return advances
}

/** The first in which the stream has room. */
function roomFor (advances: Advance[], stream: string): { advance: Advance, deletes: Deletes[number] } {
  for (const advance of advances) {
    const deletes = advance.deletes.find(one => one.stream === stream)
    if (deletes !== undefined && deletes.seqs.length < DELETES_MAX) return { advance, deletes }
    if (deletes === undefined) return { advance, deletes: begin(advance, stream) }
  }
  const advance: Advance = { counts: NOTHING_ERASED, deletes: [] }
  advances.push(advance)
  return { advance, deletes: begin(advance, stream) }
}

function begin (advance: Advance, stream: string): Deletes[number] {
  const deletes = { stream, seqs: [] as number[] }
  advance.deletes.push(deletes)
  return deletes
}
