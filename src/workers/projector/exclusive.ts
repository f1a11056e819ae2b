import { Client } from 'pg'
import { Complaint } from '#src/base/errors.ts'
import type { Pool } from '#src/postgres/pool.ts'
import type { TableSet } from '#src/postgres/table-sets.ts'

/** Another process is rebuilding this set. */
export class AlreadyRebuilding extends Complaint {}

/** What an index of very many rows may take; the server is told the limit, and ends the statement before we give up. */
const STATEMENT_MS = 3_600_000
const SILENCE_MS = STATEMENT_MS + 1000

/** The server notices within a minute when we are gone, also in the middle of a long statement: the lock lives no
 *  longer than we do. */
const SETTINGS = `
  set tcp_keepalives_idle = 30; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3;
  set client_connection_check_interval = '5s'; set synchronous_commit = off`

/** Runs `use` with a connection of its own that holds an advisory lock on a set's name, and all the time it needs. A
 *  connection that breaks, and so loses the lock, aborts its signal; so does the given one. Throws AlreadyRebuilding
 *  when another process holds the lock. */
export async function exclusively<T> (
  pool: Pool,
  { schema, projection }: TableSet,
  given: AbortSignal,
  use: (client: Client, signal: AbortSignal) => Promise<T>
): Promise<T> {
  given.throwIfAborted()
  const client = new Client({
    ...pool.options,
    application_name: 'jetpost rebuild',
    statement_timeout: STATEMENT_MS,
    query_timeout: SILENCE_MS
  })
  const lost = new AbortController()
  const signal = AbortSignal.any([given, lost.signal])
  client.on('error', error => lost.abort(error))
  await client.connect()
  let cancel = () => {}
  try {
    await client.query(SETTINGS)
    const { rows: [row] } = await client.query<{ locked: boolean, pid: number }>(
      'select pg_try_advisory_lock(hashtextextended($1, 1)) as locked, pg_backend_pid() as pid',
      [schema]
    )
    if (!row!.locked) {
      throw new AlreadyRebuilding(
        `Another process is rebuilding the projection ${projection.name}: wait until it is done.`
      )
    }
    // On abort we do not wait for the statement that is running.
    cancel = () => void pool.query('select pg_cancel_backend($1)', [row!.pid]).catch(() => {})
    given.addEventListener('abort', cancel, { once: true })
    return await use(client, signal)
  } catch (error) {
    throw signal.aborted ? signal.reason : error
  } finally {
    given.removeEventListener('abort', cancel)
    await client.end().catch(() => {})
  }
}
