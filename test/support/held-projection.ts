import { Client, type PoolClient } from 'pg'
import type { Projection } from '#projections/define.ts'
import { errorCode } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { createPool } from '#src/postgres/pool.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import type { Ending } from './servers.ts'
import { until } from './wait.ts'

/** With a projector that holds one of the tables and waits for another. */
const DEADLOCK = '40P01'

/** Nobody learns how far a view has come, until it is let go: who waits for it is told that it cannot be read. */
export async function holdView (databaseUrl: string, projection: Projection): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query(`begin; lock table ${liveSet(projection).schema}.checkpoints in access exclusive mode`)
  return async () => await client.end()
}

/** Who reads these tables of live views waits, until the transaction of the connection ends. */
export async function lockTables (t: Ending, databaseUrl: string, tables: string): Promise<PoolClient> {
  const pool = createPool(databaseUrl, createLog('silent'))
  const client = await pool.connect()
  t.teardown(async () => {
    client.release()
    await pool.end()
  })
  await until(() =>
    client.query(`begin; lock table ${tables} in access exclusive mode`).then(() => true, async error => {
      if (errorCode(error) !== DEADLOCK) throw error
      await client.query('rollback')
      return false
    })
  )
  return client
}
