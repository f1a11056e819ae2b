import { sql, type Projection } from '#projections/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { Complaint, errorCode } from '#src/base/errors.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { ageMsMax } from '#src/nats/status.ts'
import { readPositions, type Positions } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { isCreated, liveSet, qualified, rebuildingSet, type TableSet } from '#src/postgres/table-sets.ts'
import { dropSet, type Rebuilder, type RebuildProgress } from '../rebuild.ts'
import { compareSets, type TableComparison } from './compare.ts'
import { lockName, withSession, type VerifySession } from './session.ts'
import { SLACK_MS } from './gaps.ts'

export interface VerifyProjectionOptions {
  bus: Bus
  pool: Pool
  rebuilder: Pick<Rebuilder, 'rebuildSet' | 'advance'>
  /** Unix ms. */
  nowMs(): number
  signal: AbortSignal
  onProgress(progress: RebuildProgress): void
}

/** Facts that could not be written: how many, and the first of them. */
export interface DeadLetterSummary {
  count: number
  examples: Array<{ stream: string, seq: number }>
}

export interface ProjectionVerification {
  projection: string
  version: number
  /** Read for the comparison. */
  facts: number
  /** The positions at which both were compared. */
  positions: Positions
  tables: TableComparison[]
  deadLetters: DeadLetterSummary
  /** How long writes to the live tables were held up. */
  heldMs: number
  seconds: number
}

/** The live projector waits no longer than this for us. */
const HOLD_MS = 2000
const HOLDS_MAX = 10
/** A projection that is behind and does not move for so long is at a standstill. */
const STILL_MS = 30_000
const POLL_MS = 100
const DEAD_LETTERS_MAX = 20
const LOCK_NOT_AVAILABLE = '55P03'

/** The set to compare with; dropped at the end. */
function freshSet (projection: Projection): TableSet {
  return { projection, schema: `${liveSet(projection).schema}_verify` }
}

/** Compares the live tables with ones rebuilt from the log, while the service runs: both at the same positions, row by
 *  row. Throws a Complaint when there are no live tables, they are at a standstill, or another process is verifying or
 *  rebuilding them. */
export async function verifyProjection (
  projection: Projection,
  options: VerifyProjectionOptions
): Promise<ProjectionVerification> {
  const { pool, rebuilder, signal } = options
  const startMs = performance.now()
  const [live, fresh] = [liveSet(projection), freshSet(projection)]
  return await withSession(pool, async holder => {
    await lockName(holder, fresh.schema, `Another process verifies the projection ${projection.name}`)
    // The lock of a rebuild: nobody rebuilds it while it is compared.
    const rebuilding = `Another process is rebuilding the projection ${projection.name}`
    await lockName(holder, rebuildingSet(projection).schema, rebuilding, 1)
    if (!await isCreated(holder.client, live)) {
      throw new Complaint(`The projection ${projection.name} has no tables yet: start the service, it creates them.`)
    }
    try {
      await dropSet(pool, fresh)
      const { facts } = await rebuilder.rebuildSet(fresh, { signal, indexes: false, onProgress: options.onProgress })
      await untilSeen(options, live, await lastRead(options, fresh))
      return await withSession(pool, async session => {
        const { positions, heldMs } = await meet(options, [live, fresh], holder, session)
        const tables = await compareSets(session, live, fresh, await horizonOf(projection, options))
        const deadLetters = await deadLettersOf(session, live)
        const seconds = (performance.now() - startMs) / 1000
        return {
          projection: projection.name,
          version: projection.version,
          facts,
          positions,
          tables,
          deadLetters,
          heldMs,
          seconds
        }
      })
    } finally {
      // The result stands, also when this fails: the next verify, or the projector, drops what is left.
      await dropSet(pool, fresh).catch(() => false)
    }
  })
}

/** The last facts of its projection that a set has read. Its positions may be higher, at messages that are none, where
 *  the live ones never come to. */
async function lastRead ({ bus, pool }: VerifyProjectionOptions, set: TableSet): Promise<Positions> {
  const positions = await readPositions(pool, set)
  return Object.fromEntries(
    await Promise.all(
      set.projection.streams.map(async ({ stream, filter }) =>
        [stream, Math.min(positions[stream]!, await lastSequenceUnder(bus, stream, filter))] as const
      )
    )
  )
}

/** The fresh set may have read more than the live one has written. */
async function untilSeen ({ pool, signal }: VerifyProjectionOptions, live: TableSet, wanted: Positions): Promise<void> {
  let [before, sinceMs] = ['', performance.now()]
  for (;;) {
    signal.throwIfAborted()
    const positions = await readPositions(pool, live)
    if (reaches(positions, wanted)) return
    if (JSON.stringify(positions) !== before) [before, sinceMs] = [JSON.stringify(positions), performance.now()]
    if (performance.now() - sinceMs > STILL_MS) {
      throw new Complaint(
        `The projection ${live.projection.name} is behind the log and at a standstill: is the service running?`
      )
    }
    await sleep(POLL_MS, signal)
  }
}

/** Brings both sets to the same positions and opens a transaction of `session` that sees them there. The live projector
 *  is held up for as long as the fresh set needs to catch up, milliseconds; when that takes too long, once more from
 *  nearer positions. */
async function meet (
  { pool, rebuilder, signal }: VerifyProjectionOptions,
  [live, fresh]: [TableSet, TableSet],
  holder: VerifySession,
  session: VerifySession
): Promise<{ positions: Positions, heldMs: number }> {
  for (let holds = 1; holds <= HOLDS_MAX; holds++) {
    await rebuilder.advance(fresh, await readPositions(pool, live), signal)
    const startMs = performance.now()
    try {
      await holder.query(
        `begin; set local lock_timeout = ${HOLD_MS}; lock table ${
          qualified(live, 'checkpoints').text
        } in exclusive mode`
      )
      const positions = await readPositions(pool, live)
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(HOLD_MS)])
      await rebuilder.advance(fresh, positions, inTime).catch(error => {
        if (!inTime.aborted || signal.aborted) throw error
      })
      if (reaches(await readPositions(pool, fresh), positions)) {
        // A snapshot is taken by the first statement.
        await session.query('begin isolation level repeatable read')
        await session.query('select 1')
        return { positions, heldMs: Math.round(performance.now() - startMs) }
      }
    } catch (error) {
      // Another transaction holds it that is long, or hangs.
      if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error
    } finally {
      await holder.query('rollback')
    }
  }
  throw new Complaint(
    `The projection ${live.projection.name} is written faster than it can be followed. Try again when there is ` +
      'less to do.'
  )
}

function reaches (positions: Positions, wanted: Positions): boolean {
  return Object.entries(wanted).every(([stream, seq]) => positions[stream]! >= seq)
}

/** What began before then may have lost facts by age since we began; null = facts are kept for ever. */
async function horizonOf ({ aging }: Projection, { bus, nowMs }: VerifyProjectionOptions): Promise<number | null> {
  if (aging === undefined) return null
  const ageMs = await ageMsMax(bus, aging.stream)
  return Number.isFinite(ageMs) ? nowMs() - ageMs + SLACK_MS : null
}

async function deadLettersOf ({ query }: VerifySession, live: TableSet): Promise<DeadLetterSummary> {
  const [counted] = await query<{ count: number }>(
    sql`select count(*) as count from ${qualified(live, 'dead_letters')}`
  )
  const examples = await query<{ stream: string, seq: number }>(
    sql`select stream, seq from ${qualified(live, 'dead_letters')} order by stream, seq limit ${DEAD_LETTERS_MAX}`
  )
  return { count: counted!.count, examples }
}
