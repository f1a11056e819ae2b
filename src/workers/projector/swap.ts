import type { Client, PoolClient } from 'pg'
import type { Projection } from '#projections/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError, Complaint, errorCode } from '#src/base/errors.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { transact } from '#src/postgres/query.ts'
import { liveSet, rebuildingSet, type TableSet } from '#src/postgres/table-sets.ts'

/** The former live set, until it is dropped. */
function retiredSet (projection: Projection): TableSet {
  return { projection, schema: `${liveSet(projection).schema}_old` }
}

/** Readers and the live projector wait no longer than this for us, and we no longer for them. */
const HOLD_MS = 2000
const TRIES_MAX = 30
const LOCK_NOT_AVAILABLE = '55P03'
const DROP_MS = 60_000

type AdvanceTo = (live: Positions, signal: AbortSignal) => Promise<void>

/** Swaps the rebuilt set for the live one, in one transaction. The projector of the live one waits meanwhile, and then
 *  finds the checkpoint moved. `advanceTo` brings the new set to the position of the live one, so that a reader that
 *  has waited for a position finds it in the new one too. */
export async function swap (
  client: Client,
  pool: Pool,
  projection: Projection,
  signal: AbortSignal,
  advanceTo: AdvanceTo
): Promise<void> {
  const [live, rebuilt, old] = [liveSet(projection), rebuildingSet(projection), retiredSet(projection)]
  for (let tries = 1; tries <= TRIES_MAX; tries++) {
    signal.throwIfAborted()
    try {
      await dropSet(pool, old)
      return await transact(client, async () => {
        await client.query(`set local lock_timeout = ${HOLD_MS}`)
        const positions = await lockPositions(client, live)
        await advanceTo(positions, AbortSignal.any([signal, AbortSignal.timeout(HOLD_MS)]))
        if (await exists(client, live)) await client.query(`alter schema ${live.schema} rename to ${old.schema}`)
        await client.query(`alter schema ${rebuilt.schema} rename to ${live.schema}`)
      })
    } catch (error) {
      // A long transaction is ahead of us, or advancing took longer than we may hold up others for.
      if (signal.aborted || (errorCode(error) !== LOCK_NOT_AVAILABLE && asError(error).name !== 'TimeoutError')) {
        throw error
      }
    }
    await sleep(HOLD_MS / 4, signal)
  }
  throw new Complaint(
    `The projection ${projection.name} is rebuilt and could not be swapped in: other transactions hold the live ` +
      'tables all the time. Run rebuild again when there is less to do.'
  )
}

/** Locks the live set's checkpoints until the end of the transaction and gives its positions; none when there is no
 *  live set. Readers do not wait: what the old set has seen the new one has. And must not: they would hold the
 *  connections that `advanceTo` needs. */
async function lockPositions (client: Client, { schema }: TableSet): Promise<Positions> {
  const { rows: [found] } = await client.query<{ there: boolean }>('select to_regclass($1) is not null as there', [
    `${schema}.checkpoints`
  ])
  if (!found!.there) return {}
  await client.query(`lock table ${schema}.checkpoints in exclusive mode`)
  const { rows } = await client.query<{ stream: string, position: number }>(
    `select stream, position from ${schema}.checkpoints`
  )
  return Object.fromEntries(rows.map(({ stream, position }) => [stream, position]))
}

export async function exists (client: Client, { schema }: TableSet): Promise<boolean> {
  return (await client.query('select from pg_namespace where nspname = $1', [schema])).rowCount === 1
}

/** Not to hold up the end of a rebuild: what is read for longer is dropped by `dropUnused`. */
const RETIRED_TRIES_MAX = 3

/** Drops the former live set, if there is one. Throws when it is being read for longer than 3 s. */
export async function dropRetired (pool: Pool, projection: Projection): Promise<void> {
  await dropSet(pool, retiredSet(projection), { triesMax: RETIRED_TRIES_MAX })
}

/** Drops a set, where there is one. It waits for its readers, and nobody for us: a second at a time, half a minute in
 *  all unless given. Throws the driver's error. With `unlessHeld` it leaves a set that is being rebuilt or verified,
 *  and gives false. */
export async function dropSet (
  pool: Pool,
  { schema }: Pick<TableSet, 'schema'>,
  { unlessHeld = false, triesMax = TRIES_MAX } = {}
): Promise<boolean> {
  for (let tries = 1;; tries++) {
    try {
      return await withClient(pool, async client => {
        await client.query(
          `begin; set local lock_timeout = 1000; set local statement_timeout = ${DROP_MS};
          set local synchronous_commit = off`
        )
        const free = !unlessHeld || await isFree(client, schema)
        const queryLong = async (text: string) => {
          const query = { text, query_timeout: DROP_MS + 1000 }
          await client.query(query)
        }
        if (free) await queryLong(`drop schema if exists ${schema} cascade`)
        // The files go with it: gigabytes of a large projection, on a disk that may be busy.
        await queryLong('commit')
        return free
      })
    } catch (error) {
      if (errorCode(error) !== LOCK_NOT_AVAILABLE || tries === triesMax) throw error
    }
    await sleep(100)
  }
}

/** A connection of the pool for one transaction: closed, and so rolled back, when that fails. */
async function withClient<T> (pool: Pool, use: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    const result = await use(client)
    client.release()
    return result
  } catch (error) {
    client.release(asError(error))
    throw error
  }
}

/** A version that nobody has written to for so long has no process any more; an unfinished rebuild that does not go on
 *  has lost its process. */
const UNUSED_DAYS = 7
const UNFINISHED_DAYS = 1

interface UnusedSet {
  schema: string
  days: number
}

/** Drops a projection's unused sets: the former live one, unfinished ones, other versions; never one that is being
 *  rebuilt, verified or written. Gives their names. */
export async function dropUnused (pool: Pool, projection: Projection): Promise<string[]> {
  const dropped: string[] = []
  for (const { schema, days } of await setsBeside(pool, projection)) {
    const limit = schema.endsWith('_old') ? 0 : /\d$/.test(schema) ? UNUSED_DAYS : UNFINISHED_DAYS
    if (days >= limit && await dropSet(pool, { schema }, { unlessHeld: true })) dropped.push(schema)
  }
  return dropped
}

/** All sets of a projection but the live one, and for how long nothing has been written into them. */
async function setsBeside (pool: Pool, projection: Projection): Promise<UnusedSet[]> {
  const { rows } = await pool.query<{ schema: string }>(
    'select nspname as schema from pg_namespace where nspname ~ $1 and nspname <> $2',
    [`^jetpost_${projection.name}_[0-9]+(_rebuild|_old|_verify)?$`, liveSet(projection).schema]
  )
  return await Promise.all(rows.map(async ({ schema }) => ({ schema, days: await daysSince(pool, schema) })))
}

async function daysSince (pool: Pool, schema: string): Promise<number> {
  const { rows: tables } = await pool.query<{ name: string, time: string }>(
    `select c.relname as name, a.attname as time from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = $1::regnamespace and (c.relname, a.attname) in (
      ('metadata', 'used_at'), ('checkpoints', 'updated_at'), ('progress', 'updated_at'))`,
    [schema]
  )
  if (tables.length === 0) return Infinity
  const latest = tables.map(({ name, time }) => `(select max(${time}) from ${schema}.${name})`).join(', ')
  const { rows: [row] } = await pool.query<{ days: number }>(
    `select (extract(epoch from now() - greatest(${latest})) / 86400)::float8 as days`
  )
  return row!.days
}

/** Verify holds one advisory lock on a set's name, a rebuild another. */
async function isFree (client: PoolClient, schema: string): Promise<boolean> {
  const free =
    'pg_try_advisory_xact_lock(hashtextextended($1, 0)) and pg_try_advisory_xact_lock(hashtextextended($1, 1))'
  const { rows: [row] } = await client.query<{ free: boolean }>(`select ${free} as free`, [schema])
  return row!.free
}

/** So that a version whose streams are quiet does not look unused. */
export async function markUsed (pool: Pool, { schema }: TableSet): Promise<void> {
  await pool.query(`update ${schema}.metadata set used_at = now()`)
}
