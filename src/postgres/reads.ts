import type { Projection, Query } from '#projections/define.ts'
import { asError, deadline } from '#src/base/errors.ts'
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
}

/** A projection cannot answer now: it is behind the log, or PostgreSQL does not answer. */
export class ProjectionUnavailable extends Error {
  readonly code: 'projection_behind' | 'projection_unavailable'

  constructor (code: ProjectionUnavailable['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** How long a read waits until its projection shows what was written before; the end of it is left for the query. */
const TIMEOUT_MS = 2000
const ANSWER_MS = 200
const SILENT = 'PostgreSQL does not answer'

/** The answer once the projection shows everything the log held when the request came; never a stale one. Throws
 *  ProjectionUnavailable. */
export async function answerFrom<T> (
  { pool, checkpoints }: Reads,
  projection: Projection,
  query: Query<T>
): Promise<T> {
  try {
    // Rather fail than wait for as long as a statement may take, three times what a reader is promised. The silence is
    // PostgreSQL's: NATS's has ended the query before.
    const caughtUp = await deadline(
      checkpoints.caughtUp(projection, TIMEOUT_MS - ANSWER_MS),
      TIMEOUT_MS,
      SILENT
    )
    if (!caughtUp) throw new ProjectionUnavailable('projection_behind', 'The projection is behind the log')
    return await ask(pool, query)
  } catch (error) {
    if (isUnavailable(error) || asError(error).message === SILENT) {
      throw new ProjectionUnavailable('projection_unavailable', 'The projection is unavailable')
    }
    throw error
  }
}
