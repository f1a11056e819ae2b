import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { projections } from '#projections/list.ts'
import { createLog } from '#src/base/log.ts'
import { ROLE } from '#src/embedded/postgres-role.ts'
import { startEmbedded, type Embedded } from '#src/embedded/start.ts'
import type { Bus } from '#src/nats/connect.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { createCheckpoints } from '#src/workers/projector/commit.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { openBus } from './bus.ts'
import type { TestApp } from './app.ts'
import { CREATES_DATABASES, makePostgres } from './superuser.ts'
import { until } from './wait.ts'

const COMPLETED_MS = 120_000

/** To make PostgreSQL write everything again. */
const POWERS = [
  CREATES_DATABASES,
  `grant pg_checkpoint to ${ROLE}`,
  `grant alter system on parameter min_wal_size, max_wal_size to ${ROLE}`,
  `grant execute on function pg_reload_conf() to ${ROLE}`,
  `grant maintain on pg_catalog.pg_statistic to ${ROLE}`
]

/** NATS and PostgreSQL of the test's own, with the folder they keep it all in. */
export async function servers (t: Test, known?: string): Promise<Embedded & { folder: string }> {
  const folder = known ?? newFolder(t)
  if (known === undefined) await makePostgres(folder, POWERS, () => {})
  const natsBin = process.env.JETPOST_NATS_BIN ?? null
  const embedded = await startEmbedded({
    dataDir: folder,
    nats: true,
    postgres: true,
    natsBin,
    log: createLog('silent'),
    say: () => {}
  })
  t.teardown(() => embedded.stop())
  return { ...embedded, folder }
}

function newFolder (t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-erasure-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** In any spelling of letters, and as base64 has it in a file that begins with it. */
export function needles (...texts: string[]): Buffer[] {
  return texts.flatMap(
    text => [
      Buffer.from(text),
      Buffer.from(text.toLowerCase()),
      Buffer.from(Buffer.from(text).toString('base64').slice(0, 20))
    ]
  )
}

/** Files below a folder whose bytes hold one of these. */
export function filesWith (folder: string, wanted: Buffer[]): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile()).map(entry =>
    join(entry.parentPath, entry.name)
  ).filter(name => {
    let bytes: Buffer
    try {
      bytes = readFileSync(name)
    } catch {
      return false
    }
    return wanted.some(needle => bytes.includes(needle))
  })
}

export async function tablesOf (pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    "select schemaname || '.' || tablename as name from pg_tables where schemaname like 'jetpost_%' order by 1"
  )
  return rows.map(({ name }) => name)
}

/** Rows of every table, as text; without what tells when they were written. */
export async function rowsOf (pool: Pool): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const table of (await tablesOf(pool)).filter(name => !/\.(metadata|checkpoints)$/.test(name))) {
    const { rows } = await pool.query<{ row: unknown }>(`select to_jsonb(x) as row from ${table} x`)
    found[table] = rows.map(({ row }) => JSON.stringify(row)).sort()
  }
  return found
}

/** Where any column of any table holds one of the words, also those that the planner keeps samples in. */
export async function tablesWith (pool: Pool, words: string[]): Promise<string[]> {
  const found: string[] = []
  for (const table of [...await tablesOf(pool), 'pg_catalog.pg_stats']) {
    const { rows } = await pool.query(`select 1 from ${table} x where lower(x::text) like any($1) limit 1`, [
      words.map(word => `%${word.toLowerCase()}%`)
    ])
    if (rows.length > 0) found.push(table)
  }
  return found
}

export async function erase (app: TestApp, address: string): Promise<any> {
  const { status, body } = await app.request('POST', '/api/erasures', { body: { address } })
  if (status !== 202) throw new Error(JSON.stringify(body))
  return body
}

export async function receipt (app: TestApp, id: string): Promise<any> {
  let last: any
  await until(async () => {
    last = (await app.request('GET', `/api/erasures/${id}`)).body
    return last.status === 'completed'
  }, COMPLETED_MS)
  return last
}

export async function gapsIn (bus: Bus, stream: string): Promise<number[]> {
  const { state } = await (await bus.nc.jetstreamManager()).streams.info(stream, { deleted_details: true })
  return state.deleted ?? []
}

/** Another database, filled from the log alone. */
export async function rowsAnew (
  t: Test,
  { natsUrl, databaseUrl, pool }: { natsUrl: string, databaseUrl: string, pool: Pool }
): Promise<void> {
  const name = `anew_${Date.now()}`
  await pool.query(`create database ${name}`)
  const url = new URL(databaseUrl)
  url.pathname = `/${name}`
  const { bus } = await openBus(t, natsUrl)
  const fresh = createPool(url.href, createLog('silent'))
  const ground = { bus, pool: fresh, log: createLog('silent') }
  const roles = createProjectors({ ...ground, projections, rebuild: openRebuilder(ground).rebuild })
  t.teardown(async () => {
    await Promise.all(roles.map(role => role.stop()))
    await fresh.end()
  })
  for (const projection of Object.values(projections)) {
    await until(async () => await createCheckpoints(bus, fresh).caughtUp(projection, 1000).catch(() => false), 30_000)
    await until(async () => await createCheckpoints(bus, pool).caughtUp(projection, 1000).catch(() => false), 30_000)
  }
  t.same(await rowsOf(fresh), await rowsOf(pool))
}
