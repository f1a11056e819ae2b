import type { Projection } from '#projections/define.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { transact } from '#src/postgres/query.ts'
import { liveSet, makeIndexes, makeTables } from '#src/postgres/table-sets.ts'

/** Makes the set of a projection, empty, as a service does that finds an empty log. */
export async function makeEmpty (pool: Pool, projection: Projection): Promise<void> {
  const set = liveSet(projection)
  const client = await pool.connect()
  try {
    await transact(client, async () => {
      await makeTables(client, set)
      await makeIndexes(client, set)
    })
  } finally {
    client.release()
  }
}
