import { deleteSome, type Projection } from '#projections/define.ts'
import type { Bus } from '#src/nats/connect.ts'
import { ageMsMax } from '#src/nats/pages.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { liveSet, qualified } from '#src/postgres/table-sets.ts'
import { deletePages, PAGE } from './pages.ts'

export interface RetentionOptions {
  bus: Bus
  pool: Pool
  /** The ones whose rows age with their facts. */
  projections: readonly Projection[]
  /** Unix ms. */
  nowMs(): number
  signal: AbortSignal
}

/** Deletes rows older than the oldest facts that are kept, a page at a time; resolves to their number. The stream's own
 *  maximum age decides for both. Throws when NATS or PostgreSQL does not answer. */
export async function deleteAged (options: RetentionOptions): Promise<number> {
  let removed = 0
  for (const projection of options.projections) removed += await deleteOf(projection, options)
  return removed
}

async function deleteOf (projection: Projection, { bus, pool, nowMs, signal }: RetentionOptions): Promise<number> {
  const { aging } = projection
  if (aging === undefined) return 0
  const ageMs = await ageMsMax(bus, aging.stream)
  if (!Number.isFinite(ageMs)) return 0
  let removed = 0
  for (const [table, condition] of Object.entries(aging.rows(nowMs() - ageMs))) {
    removed += await deletePages(pool, signal, deleteSome(qualified(liveSet(projection), table), condition, PAGE))
  }
  return removed
}
