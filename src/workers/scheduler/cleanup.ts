import { deleteSome, type Projection } from '#projections/define.ts'
import { pruneAttempts, pruneDeliveries } from '#projections/deliveries/queries.ts'
import { emails } from '#projections/emails/project.ts'
import { knownEmails } from '#projections/emails/queries.ts'
import { stats } from '#projections/stats/project.ts'
import type { Log } from '#src/base/log.ts'
import { api } from '#src/nats/api.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { ageMsMax } from '#src/nats/status.ts'
import { waitFor } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet, qualified } from '#src/postgres/table-sets.ts'
import { deletePages, PAGE, each } from './pages.ts'

interface RetentionOptions {
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

export interface CleanupOptions {
  bus: Bus
  pool: Pool
  blobs: Blobs
  log: Log
}

const EVERY_MS = 3_600_000
const BLOB_AGE_MS = 3_600_000
const VIEW_MS = 5000
const ANSWER_MS = 2000

/** Deletes what is no longer needed, once an hour. */
export class Cleanup {
  private readonly options: CleanupOptions
  private dueMs = 0

  constructor (options: CleanupOptions) {
    this.options = options
  }

  /** Does nothing until it is due. Throws nothing: a blob store that is slow to list must not delay reconciliation. */
  async runIfDue (signal: AbortSignal): Promise<void> {
    if (Date.now() < this.dueMs) return
    this.dueMs = Date.now() + EVERY_MS
    const { bus, pool, blobs } = this.options
    await this.run('content without an email', () => this.removeOrphans(signal))
    await this.run('parts of incomplete content', () => blobs.removeStray(Date.now() - BLOB_AGE_MS))
    await this.run('deliveries that have left the log', () => this.pruneDeliveries(signal))
    await this.run(
      'rows whose facts have left the log',
      () => deleteAged({ bus, pool, projections: [emails, stats], nowMs: Date.now, signal })
    )
  }

  private async run (what: string, remove: () => Promise<number>): Promise<void> {
    const { log } = this.options
    try {
      const removed = await remove()
      if (removed > 0) log.info({ what, removed }, 'cleaned up')
    } catch (error) {
      log.warn({ what, err: error }, 'cleanup failed; retrying in an hour')
    }
  }

  /** Rows whose facts have left the log, by sequence and not by the clock: so the projection holds what a rebuild would
   *  give. */
  private async pruneDeliveries (signal: AbortSignal): Promise<number> {
    const { bus, pool } = this.options
    const { state } = await api<{ state: { first_seq: number } }>(bus, 'STREAM.INFO.WEBHOOKS', undefined, ANSWER_MS)
    const page = { before: state.first_seq, limit: PAGE }
    return await deletePages(pool, signal, pruneAttempts(page)) + await deletePages(pool, signal, pruneDeliveries(page))
  }

  /** Content is written before its email is accepted; when the email was never accepted, the content is an orphan. A
   *  projection that is behind cannot tell. */
  private async removeOrphans (signal: AbortSignal): Promise<number> {
    const { bus, pool, blobs } = this.options
    const oldestMs = Date.now() - BLOB_AGE_MS
    const old = (await blobs.list()).filter(({ writtenMs }) => writtenMs < oldestMs).map(({ name }) => name)
    if (old.length === 0) return 0
    const requests = await lastSequenceUnder(bus, 'REQUESTS', 'request.>')
    if (!await waitFor(pool, emails, { REQUESTS: requests }, VIEW_MS)) return 0
    const known = await ask(pool, knownEmails(old))
    const orphans = old.filter(name => !known.has(name))
    await each(orphans, signal, name => blobs.remove(name))
    return orphans.length
  }
}
