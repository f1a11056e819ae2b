import { Client } from 'pg'
import { Complaint } from '#src/base/errors.ts'
import type { Pool } from '#src/postgres/pool.ts'
import type { TableSet } from '#src/postgres/table-sets.ts'

/** Somebody else is making this set. */
export class Busy extends Complaint {}

/** What an index of very many rows may take; the server gets word of it before we give up. */
const STATEMENT_MS = 3_600_000
const SILENCE_MS = STATEMENT_MS + 1000

/** The server notices within a minute when we are gone, also in the middle of a long statement: the lock is ours no
 *  longer than we live. */
const SETTINGS =
  `set tcp_keepalives_idle = 30; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3; set client_connection_check_interval = '5s';
  set synchronous_commit = off`

/** Runs `use` with a connection of its own that holds a set's name against everybody else, and all the time it needs. A
 *  connection that breaks, and so loses the lock, ends it through its signal; so does the given one. Throws Busy when
 *  somebody else has the name. */
export async function alone<T> (
  pool: Pool,
  { schema, projection }: TableSet,
  given: AbortSignal,
  use: (client: Client, signal: AbortSignal) => Promise<T>
): Promise<T> {
  given.throwIfAborted()
  const client = new Client({
    ...pool.options,
    application_name: 'jetpost builder',
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
    const { rows: [row] } = await client.query<{ held: boolean, pid: number }>(
      'select pg_try_advisory_lock(hashtextextended($1, 1)) as held, pg_backend_pid() as pid',
      [schema]
    )
    if (!row!.held) {
      throw new Busy(`The view ${projection.name} is being made by another process: wait until it is done.`)
    }
    // Nothing of ours waits for a statement of ours.
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
