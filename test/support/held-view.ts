import { Client } from 'pg'
import type { Projection } from '#projections/define.ts'
import { liveSet } from '#src/postgres/sets.ts'

/** Nobody learns how far a view has come, until it is let go: whoever waits for it is told that it cannot be read. */
export async function holdView (databaseUrl: string, projection: Projection): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query(`begin; lock table ${liveSet(projection).schema}.checkpoints in access exclusive mode`)
  return async () => await client.end()
}
