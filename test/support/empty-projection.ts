import type { Projection } from '#projections/define.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { transact } from '#src/postgres/query.ts'
import { liveSet, createIndexes, createTables } from '#src/postgres/table-sets.ts'

/** Makes the set of a projection, empty, as a service does that finds an empty log. */
export async function makeEmpty (pool: Pool, projection: Projection): Promise<void> {
  const set = liveSet(projection)
  const client = await pool.connect()
  try {
    await transact(client, async () => {
      await createTables(client, set)
      await createIndexes(client, set)
    })
  } finally {
    client.release()
  }
}
