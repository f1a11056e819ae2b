import type { ClientBase, PoolClient, QueryConfig } from 'pg'
import type { Query, Sql } from '#projections/define.ts'
import { asError } from '#src/base/errors.ts'
import type { Pool } from './pool.ts'
import { searchPath, type TableSet } from './table-sets.ts'
import { sha256Hex } from '#src/base/secret.ts'

/** Reads from a projection. Throws the driver's error; see `isUnavailable`. */
export async function ask<Answer> (pool: Pool, { sql, read }: Query<Answer>): Promise<Answer> {
  const { rows } = await pool.query<Record<string, unknown>>({ text: sql.text, values: [...sql.values] })
  return read(rows)
}

/** Runs one statement of a transaction; resolves to the number of rows it changed. */
export type Execute = (statement: Sql) => Promise<number>

const STATEMENT_MS = 30_000

/** Runs `work` in one transaction among the tables of `sets`: what it resolves to is committed, and when it throws
 *  nothing is. Without waiting for the disk: projections can be rebuilt from the log, a power cut takes a commit
 *  together with its checkpoint, and the fsyncs are left to the log. Without sequential scans: batches find their rows
 *  by key, and statistics that lag behind a growing table say otherwise (measured: 13 % of the server's time). A
 *  statement may take 30 s here. */
export async function inTransaction<T> (
  pool: Pool,
  sets: TableSet[],
  work: (execute: Execute, client: PoolClient) => Promise<T>
): Promise<T> {
  const client = await pool.connect()
  const path = searchPath(sets)
  try {
    await client.query(
      `begin; set local synchronous_commit = off; set local statement_timeout = ${STATEMENT_MS};
      set local enable_seqscan = off; set local search_path = ${path}`
    )
    const result = await work(executeIn(client, path), client)
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

function executeIn (client: PoolClient, path: string): Execute {
  return async ({ text, values }) => {
    const query: QueryConfig & { query_timeout: number } = {
      name: nameOf(path, text),
      text,
      values: [...values],
      query_timeout: STATEMENT_MS + 1000
    }
    const { rowCount } = await client.query(query)
    return rowCount ?? 0
  }
}

/** The projections' statements are few, and the same again and again; a connection keeps each for ever. */
const NAMES_MAX = 500
const names = new Map<string, string>()

/** PostgreSQL parses and plans a statement with a name once a connection. The path belongs to it: found by another one,
 *  its tables are others, and it is planned again. */
function nameOf (path: string, text: string): string | undefined {
  const key = `${path}\n${text}`
  const known = names.get(key)
  if (known !== undefined || names.size >= NAMES_MAX) return known
  const name = sha256Hex(key).slice(0, 32)
  names.set(key, name)
  return name
}
