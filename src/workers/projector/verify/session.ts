import type { PoolClient, QueryResult } from 'pg'
import { sql, type Sql } from '#projections/define.ts'
import { Complaint } from '#src/base/errors.ts'
import type { Pool } from '#src/postgres/pool.ts'

/** A text with the values of its parameters, or without any. */
type Question = Pick<Sql, 'text' | 'values'> | string

/** One connection for questions that take their time. */
export interface VerifySession {
  ask<Row extends Record<string, any>>(question: Question): Promise<Row[]>
  /** The rows of a question, some at a time: however many there are, only so many are held. */
  pages<Row extends Record<string, any>>(question: Question): AsyncGenerator<Row[]>
  client: PoolClient
}

/** A question may take so long, and the server gets word of it before we give up. */
const STATEMENT_MS = 3_600_000
const PAGE = 2000

/** A connection of the pool as a session until `use` ends: with more memory for sorting than the service's own
 *  questions have, and all the time they need. Whatever it has locked or begun ends with it. */
export async function atServices<T> (pool: Pool, use: (session: VerifySession) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query(
      `set statement_timeout = ${STATEMENT_MS}; set work_mem = '64MB'; set synchronous_commit = off; set max_parallel_workers_per_gather = 0; set jit = off`
    )
    return await use({ client, ask: question => rowsOf(client, question), pages: question => pages(client, question) })
  } finally {
    // The server lets go of the lock of a connection that was closed when it gets to it: the next one may be earlier.
    await client.query('select pg_advisory_unlock_all()').catch(() => {})
    client.release(true)
  }
}

async function rowsOf<Row> (client: PoolClient, question: Question): Promise<Row[]> {
  const { text, values } = typeof question === 'string' ? { text: question, values: [] } : question
  // Left out, it would be the pool's.
  const query = { text, values: [...values], query_timeout: STATEMENT_MS + 1000 }
  const { rows } = await client.query(query) as QueryResult<any>
  return rows as Row[]
}

async function* pages<Row> (client: PoolClient, question: Question): AsyncGenerator<Row[]> {
  const { text, values } = typeof question === 'string' ? { text: question, values: [] } : question
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

/** Holds a name for itself until the session is left. `way` = what for: 0 to compare with it, 1 to make it. Throws a
 *  Complaint when somebody else does. */
export async function holdAlone ({ ask }: VerifySession, name: string, trouble: string, way: 0 | 1 = 0): Promise<void> {
  const [row] = await ask<{ held: boolean }>(
    sql`select pg_try_advisory_lock(hashtextextended(${name}, ${way})) as held`
  )
  if (!row!.held) throw new Complaint(`${trouble}: wait until that is done.`)
}
