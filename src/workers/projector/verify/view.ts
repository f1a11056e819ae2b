import { sql, type Projection } from '#projections/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { Complaint, errorCode } from '#src/base/errors.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { ageMsMax } from '#src/nats/status.ts'
import { readPositions, type Positions } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { isMade, liveSet, qualified, rebuildingSet, type TableSet } from '#src/postgres/table-sets.ts'
import { dropSet, type Rebuilder, type Progress } from '../rebuild.ts'
import { compareSets, type TableReport } from './compare.ts'
import { atServices, holdAlone, type VerifySession } from './session.ts'
import { SLACK_MS } from './gaps.ts'

export interface ViewOptions {
  bus: Bus
  pool: Pool
  builder: Pick<Rebuilder, 'fill' | 'advance'>
  /** Unix ms. */
  nowMs(): number
  signal: AbortSignal
  onProgress(progress: Progress): void
}

/** What could not be written into the view: how many facts, and where the first of them lie. */
export interface DeadLetterReport {
  count: number
  examples: Array<{ stream: string, seq: number }>
}

export interface ViewReport {
  projection: string
  version: number
  /** Read to make the other one. */
  facts: number
  /** Where in the log both stood. */
  positions: Positions
  tables: TableReport[]
  deadLetters: DeadLetterReport
  /** How long the live view was held up. */
  heldMs: number
  seconds: number
}

/** The live view waits no longer than this for us. */
const HOLD_MS = 2000
const HOLDS_MAX = 10
/** A view that does not move for so long while it is behind is at a standstill. */
const STILL_MS = 30_000
const LOOK_MS = 100
const DEAD_LETTERS_MAX = 20
const LOCK_NOT_AVAILABLE = '55P03'

/** What is made to compare with; thrown away at the end. */
function freshSet (projection: Projection): TableSet {
  return { projection, schema: `${liveSet(projection).schema}_verify` }
}

/** The live view against one that is made anew from the log, while the service runs: both at the same place of the log,
 *  row by row. Throws a Complaint when there is no view, it is at a standstill, or somebody else is at it. */
export async function verifyView (projection: Projection, options: ViewOptions): Promise<ViewReport> {
  const { pool, builder, signal } = options
  const startMs = performance.now()
  const [live, fresh] = [liveSet(projection), freshSet(projection)]
  return await atServices(pool, async holder => {
    await holdAlone(holder, fresh.schema, `Somebody verifies ${projection.name} already`)
    // As its makers do: nobody makes it anew while it is compared.
    await holdAlone(holder, rebuildingSet(projection).schema, `The view ${projection.name} is being made anew`, 1)
    if (!await isMade(holder.client, live)) {
      throw new Complaint(`There is no view ${projection.name} yet: it is made when the service runs.`)
    }
    try {
      await dropSet(pool, fresh)
      const { facts } = await builder.fill(fresh, { signal, indexes: false, onProgress: options.onProgress })
      await untilSeen(options, live, await lastRead(options, fresh))
      return await atServices(pool, async session => {
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
      // What was found stands, also when this fails: the next verify, or the projector's tidying, drops what is left.
      await dropSet(pool, fresh).catch(() => false)
    }
  })
}

/** The last facts of its projection that a set has read: it may stand behind them, at what is none of them, where the
 *  live one never comes to. */
async function lastRead ({ bus, pool }: ViewOptions, set: TableSet): Promise<Positions> {
  const positions = await readPositions(pool, set)
  return Object.fromEntries(
    await Promise.all(
      set.projection.streams.map(async ({ stream, filter }) =>
        [stream, Math.min(positions[stream]!, await lastSequenceUnder(bus, stream, filter))] as const
      )
    )
  )
}

/** The fresh set may have heard of more than the live one has written. */
async function untilSeen ({ pool, signal }: ViewOptions, live: TableSet, wanted: Positions): Promise<void> {
  let [before, sinceMs] = ['', performance.now()]
  for (;;) {
    signal.throwIfAborted()
    const positions = await readPositions(pool, live)
    if (reaches(positions, wanted)) return
    if (JSON.stringify(positions) !== before) [before, sinceMs] = [JSON.stringify(positions), performance.now()]
    if (performance.now() - sinceMs > STILL_MS) {
      throw new Complaint(
        `The view ${live.projection.name} is behind the log and at a standstill: does the service run?`
      )
    }
    await sleep(LOOK_MS, signal)
  }
}

/** Brings both sets to the same place and opens a transaction of `session` that sees them there. Whoever writes the
 *  live one is held up for as long as the fresh one needs for what came meanwhile, milliseconds; when that takes too
 *  long, once more from a nearer place. */
async function meet (
  { pool, builder, signal }: ViewOptions,
  [live, fresh]: [TableSet, TableSet],
  holder: VerifySession,
  session: VerifySession
): Promise<{ positions: Positions, heldMs: number }> {
  for (let holds = 1; holds <= HOLDS_MAX; holds++) {
    await builder.advance(fresh, await readPositions(pool, live), signal)
    const startMs = performance.now()
    try {
      await holder.ask(
        `begin; set local lock_timeout = ${HOLD_MS}; lock table ${
          qualified(live, 'checkpoints').text
        } in exclusive mode`
      )
      const positions = await readPositions(pool, live)
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(HOLD_MS)])
      await builder.advance(fresh, positions, inTime).catch(error => {
        if (!inTime.aborted || signal.aborted) throw error
      })
      if (reaches(await readPositions(pool, fresh), positions)) {
        // A snapshot is taken by the first statement.
        await session.ask('begin isolation level repeatable read')
        await session.ask('select 1')
        return { positions, heldMs: Math.round(performance.now() - startMs) }
      }
    } catch (error) {
      // Somebody else holds it: a transaction that is long, or one that hangs.
      if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error
    } finally {
      await holder.ask('rollback')
    }
  }
  throw new Complaint(
    `The view ${live.projection.name} is written faster than another can follow it: try again when there is less to do.`
  )
}

function reaches (positions: Positions, wanted: Positions): boolean {
  return Object.entries(wanted).every(([stream, seq]) => positions[stream]! >= seq)
}

/** What began before then has lost facts by age, perhaps since we began; null = nothing ever does. */
async function horizonOf ({ aging }: Projection, { bus, nowMs }: ViewOptions): Promise<number | null> {
  if (aging === undefined) return null
  const ageMs = await ageMsMax(bus, aging.stream)
  return Number.isFinite(ageMs) ? nowMs() - ageMs + SLACK_MS : null
}

async function deadLettersOf ({ ask }: VerifySession, live: TableSet): Promise<DeadLetterReport> {
  const [counted] = await ask<{ count: number }>(sql`select count(*) as count from ${qualified(live, 'dead_letters')}`)
  const examples = await ask<{ stream: string, seq: number }>(
    sql`select stream, seq from ${qualified(live, 'dead_letters')} order by stream, seq limit ${DEAD_LETTERS_MAX}`
  )
  return { count: counted!.count, examples }
}
