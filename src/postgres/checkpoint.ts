import { sql, type Projection, type Query } from '#projections/define.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Pool } from './pool.ts'
import { ask, type Run } from './query.ts'
import { liveSet, qualified, type TableSet } from './table-sets.ts'

/** Stream → the last sequence seen of it. */
export type Positions = Record<string, number>

/** How a checkpoint moves: from where we believe it is, to the last fact of a batch. */
export interface Move {
  stream: string
  from: number
  to: number
}

/** How a reader waits until what was written before it asked can be seen. */
export interface View {
  /** True once the projection has seen every fact that was in its streams when this was called; false when that takes
   *  longer than `timeoutMs` (2,000 unless told). Throws when NATS does not answer within that time, or PostgreSQL not
   *  at all, and what `isUnavailable` knows while there is no such view yet. */
  caughtUp(projection: Projection, timeoutMs?: number): Promise<boolean>
}

const POLL_MS = 10

/** How far a set has come, 0 for a stream it has not begun. Throws UNDEFINED_TABLE when it is not made. */
export async function readPositions (pool: Pool, set: TableSet): Promise<Positions> {
  const zero = Object.fromEntries(set.projection.streams.map(({ stream }) => [stream, 0]))
  return { ...zero, ...await ask(pool, positionsOf(set)) }
}

function positionsOf (set: TableSet): Query<Positions> {
  return {
    sql: sql`select stream, position from ${qualified(set, 'checkpoints')}`,
    read: rows => Object.fromEntries(rows.map(row => [row.stream, row.position]))
  }
}

/** Moves the checkpoints inside a transaction; false when one is not where it should be: another projector is at work,
 *  roll back. Called before the rows are written, so that rivals queue here, on one lock, and the loser has done
 *  nothing yet. */
export async function moveCheckpoints (run: Run, set: TableSet, moves: Move[]): Promise<boolean> {
  for (const { stream, from, to } of moves.toSorted((a, b) => (a.stream < b.stream ? -1 : 1))) {
    const moved = await run(
      from === 0
        ? sql`insert into ${
          qualified(set, 'checkpoints')
        } (stream, position) values (${stream}, ${to}) on conflict do nothing`
        : sql`update ${
          qualified(set, 'checkpoints')
        } set position = ${to}, updated_at = now() where stream = ${stream} and position = ${from}`
    )
    if (moved === 0) return false
  }
  return true
}

/** Resolves to true once the live view has seen all of `targets`, to false when `timeoutMs` ends before. Throws the
 *  driver's error. */
export async function waitFor (
  pool: Pool,
  projection: Projection,
  targets: Positions,
  timeoutMs: number
): Promise<boolean> {
  for (const endMs = Date.now() + timeoutMs;; await sleep(POLL_MS)) {
    const positions = await readPositions(pool, liveSet(projection))
    if (Object.entries(targets).every(([stream, target]) => positions[stream]! >= target)) return true
    if (Date.now() + POLL_MS > endMs) return false
  }
}
