import type { PoolClient, QueryResult } from 'pg'
import { sql, type Sql } from '#projections/define.ts'
import { Complaint } from '#src/base/errors.ts'
import type { Pool } from '#src/postgres/pool.ts'

/** SQL with the values of its parameters, or without any. */
type Statement = Pick<Sql, 'text' | 'values'> | string

/** One connection for queries that take long. */
export interface VerifySession {
  query<Row extends Record<string, any>>(statement: Statement): Promise<Row[]>
  /** The rows in pages: however many there are, only one page is held. */
  pages<Row extends Record<string, any>>(statement: Statement): AsyncGenerator<Row[]>
  client: PoolClient
}

/** A statement may take so long; the server ends it before we give up. */
const STATEMENT_MS = 3_600_000
const PAGE = 2000

/** A connection of the pool as a session until `use` ends: with more memory for sorting than the service's own
 *  statements have, and all the time it needs. Its locks and transactions end with it. */
export async function withSession<T> (pool: Pool, use: (session: VerifySession) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query(
      `set statement_timeout = ${STATEMENT_MS}; set work_mem = '64MB'; set synchronous_commit = off;
      set max_parallel_workers_per_gather = 0; set jit = off`
    )
    return await use({
      client,
      query: statement => rowsOf(client, statement),
      pages: statement => pages(client, statement)
    })
  } finally {
    // The server lets go of the lock of a connection that was closed when it gets to it: the next one may be earlier.
    await client.query('select pg_advisory_unlock_all()').catch(() => {})
    client.release(true)
  }
}

async function rowsOf<Row> (client: PoolClient, statement: Statement): Promise<Row[]> {
  const { text, values } = typeof statement === 'string' ? { text: statement, values: [] } : statement
  // Left out, it would be the pool's.
  const query = { text, values: [...values], query_timeout: STATEMENT_MS + 1000 }
  const { rows } = await client.query(query) as QueryResult<any>
  return rows as Row[]
}

async function* pages<Row> (client: PoolClient, statement: Statement): AsyncGenerator<Row[]> {
  const { text, values } = typeof statement === 'string' ? { text: statement, values: [] } : statement
  await rowsOf(client, { text: `declare found no scroll cursor with hold for ${text}`, values })
  try {
    for (;;) {
      const rows = await rowsOf<Row>(client, `fetch ${PAGE} from found`)
      if (rows.length === 0) return
      yield rows
    }
  } finally {
    await rowsOf(client, 'close found')
  }
}

/** Holds an advisory lock on a name until the session ends; `kind` 0 = to verify, 1 = to rebuild. Throws a Complaint
 *  with `busyMessage` when another session holds it. */
export async function lockName (
  { query }: VerifySession,
  name: string,
  busyMessage: string,
  kind: 0 | 1 = 0
): Promise<void> {
  const [row] = await query<{ locked: boolean }>(
    sql`select pg_try_advisory_lock(hashtextextended(${name}, ${kind})) as locked`
  )
  if (!row!.locked) throw new Complaint(`${busyMessage}: wait until it is done.`)
}
