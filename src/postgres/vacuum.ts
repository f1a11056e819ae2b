import { asError } from '#src/base/errors.ts'
import type { Pool } from './pool.ts'
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
