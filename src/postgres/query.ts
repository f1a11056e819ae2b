import type { ClientBase, PoolClient, QueryConfig } from 'pg'
import type { Query, Sql } from '#projections/define.ts'
import { asError } from '#src/base/errors.ts'
import type { Pool } from './pool.ts'
import { searchPath, type TableSet } from './table-sets.ts'

/** Reads from a projection. Throws the driver's error; see `isUnavailable`. */
export async function ask<Answer> (pool: Pool, { sql, read }: Query<Answer>): Promise<Answer> {
  const { rows } = await pool.query<Record<string, unknown>>({ text: sql.text, values: [...sql.values] })
  return read(rows)
}

/** Runs one statement of a transaction; resolves to the number of rows it changed. */
export type Execute = (statement: Sql) => Promise<number>

const STATEMENT_MS = 30_000

/** Runs `work` in one transaction among the tables of a set: what it resolves to is committed, and when it throws
 *  nothing is. Without waiting for the disk: projections can be rebuilt from the log, a power cut takes a commit
 *  together with its checkpoint, and the fsyncs are left to the log. Without sequential scans: batches find their rows
 *  by key, and statistics that lag behind a growing table say otherwise (measured: 13 % of the server's time). A
 *  statement may take 30 s here. */
export async function inTransaction<T> (
  pool: Pool,
  set: TableSet,
  work: (execute: Execute, client: PoolClient) => Promise<T>
): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query(
      `begin; set local synchronous_commit = off; set local statement_timeout = ${STATEMENT_MS};
      set local enable_seqscan = off; set local search_path = ${searchPath([set])}`
    )
    const result = await work(executeIn(client), client)
    await client.query('commit')
    client.release()
    return result
  } catch (error) {
    // Closing the connection rolls back, whatever state it is in.
    client.release(asError(error))
    throw error
  }
}

/** The same with a connection that the caller has, and none of these settings: rolled back when `work` throws. */
export async function transact<T> (client: Pick<ClientBase, 'query'>, work: () => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

function executeIn (client: PoolClient): Execute {
  return async ({ text, values }) => {
    const query: QueryConfig & { query_timeout: number } = {
      text,
      values: [...values],
      query_timeout: STATEMENT_MS + 1000
    }
    const { rowCount } = await client.query(query)
    return rowCount ?? 0
  }
}
