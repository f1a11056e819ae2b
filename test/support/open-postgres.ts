import { join } from 'node:path'
import { Client } from 'pg'
import { createLog } from '#src/base/log.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { projections } from '#projections/list.ts'
import { createPool } from '#src/postgres/pool.ts'
import { makeEmpty } from './empty-projection.ts'
import { TEMPLATE, databaseUrl } from './handover.ts'
import type { Opening } from './opening.ts'
import { COPIES_FILES, CREATES_DATABASES, makePostgres } from './superuser.ts'

const CREATE_TIMEOUT_MS = 30_000

/** One embedded PostgreSQL for all tests, with a database that has every view, empty, for them to clone. It dies with
 *  this process. */
export async function openPostgres (
  { folder, say, signal }: Opening
): Promise<{ adminUrl: string, stop(): Promise<void> }> {
  const dataDir = join(folder, 'postgres')
  await makePostgres(dataDir, [CREATES_DATABASES, COPIES_FILES], say)
  const servers = await startEmbedded({
    dataDir,
    nats: false,
    postgres: true,
    log: createLog('warn'),
    say,
    signal
  })
  const adminUrl = servers.databaseUrl!
  try {
    await makeTemplate(adminUrl)
  } catch (error) {
    await servers.stop()
    throw error
  }
  return { adminUrl, stop: servers.stop }
}

async function makeTemplate (adminUrl: string): Promise<void> {
  const client = new Client({
    connectionString: adminUrl,
    connectionTimeoutMillis: CREATE_TIMEOUT_MS,
    query_timeout: CREATE_TIMEOUT_MS
  })
  await client.connect()
  try {
    await client.query(`create database ${TEMPLATE}`)
  } finally {
    await client.end()
  }
  const pool = createPool(databaseUrl(adminUrl, TEMPLATE), createLog('warn'))
  for (const projection of Object.values(projections)) await makeEmpty(pool, projection)
  await pool.end()
}
