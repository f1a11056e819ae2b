import type { Projection, Query } from '#projections/define.ts'
import { asError, deadline } from '#src/base/errors.ts'
import { KeyedSemaphore, type SemaphoreOptions } from '#src/base/keyed-semaphore.ts'
import type { Checkpoints } from './checkpoint.ts'
import { isUnavailable, type Pool } from './pool.ts'
import { ask } from './query.ts'
import type { TableSet } from './table-sets.ts'

const MS_MAX = 1_800_000

/** Takes dead rows out of every table and index of the sets, and what they held out of the planner's statistics, which
 *  keep samples of values. Half an hour a table at most; readers and writers go on. Throws the driver's error. */
export async function vacuum (pool: Pool, sets: readonly TableSet[]): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query(`set statement_timeout = ${MS_MAX}`)
    const { rows } = await client.query<{ name: string }>(
      "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = any($1) order by 1",
      [sets.map(({ schema }) => schema)]
    )
    for (const { name } of rows) {
      const query = { text: `vacuum (analyze, index_cleanup on) ${name}`, query_timeout: MS_MAX + 1000 }
      await client.query(query)
    }
  } finally {
    // Its settings are not everybody's.
    client.release(asError('done'))
  }
}

/** What reads need: the rows, and a way to wait until they show what the log holds. */
export interface Reads {
  pool: Pool
  checkpoints: Checkpoints
  turns: ReadTurns
}

/** Who reads when: accounts by their ids. */
export type ReadTurns = Pick<KeyedSemaphore, 'acquire' | 'release'>

/** Below the connections of the pool, so that the projector and the dashboard find one. A search for one letter in a
 *  million emails takes seconds: no account has so many under way that the others find no connection. */
const TURNS = { max: 8, maxPerKey: 3, waitMs: 2000, waitingMax: 2000, waitingMaxPerKey: 200 }

export function readTurns (options: Partial<SemaphoreOptions> = {}): ReadTurns {
  return new KeyedSemaphore({ ...TURNS, ...options })
}

/** The answer to an account's question, in its turn. Throws ProjectionUnavailable when that does not come in time, and
 *  the driver's error. */
export async function askInTurn<T> (
  { pool, turns }: Pick<Reads, 'pool' | 'turns'>,
  account: string,
  query: Query<T>
): Promise<T> {
  if (!await turns.acquire(account)) {
    throw new ProjectionUnavailable('busy', 'Too many reads of the account are under way')
  }
  try {
    return await ask(pool, query)
  } finally {
    turns.release(account)
  }
}

/** A projection cannot answer now: it is behind the log, or PostgreSQL does not answer, or the account asks too much at
 *  once. */
export class ProjectionUnavailable extends Error {
  readonly code: 'projection_behind' | 'projection_unavailable' | 'busy'

  constructor (code: ProjectionUnavailable['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** How long a read waits until its projection shows what was written before; the end of it is left for the query. */
const TIMEOUT_MS = 2000
const ANSWER_MS = 200
const SILENT = 'PostgreSQL does not answer'

/** The answer to an account's question once the projection shows everything the log held when the request came; never a
 *  stale one. Throws ProjectionUnavailable. */
export async function answerFrom<T> (
  reads: Reads,
  account: string,
  projection: Projection,
  query: Query<T>
): Promise<T> {
  try {
    // Rather fail than wait for as long as a statement may take, three times what a reader is promised. The silence is
    // PostgreSQL's: NATS's has ended the query before.
    const caughtUp = await deadline(
      reads.checkpoints.caughtUp(projection, TIMEOUT_MS - ANSWER_MS),
      TIMEOUT_MS,
      SILENT
    )
    if (!caughtUp) throw new ProjectionUnavailable('projection_behind', 'The projection is behind the log')
    return await askInTurn(reads, account, query)
  } catch (error) {
    if (isUnavailable(error) || asError(error).message === SILENT) {
      throw new ProjectionUnavailable('projection_unavailable', 'The projection is unavailable')
    }
    throw error
  }
}
