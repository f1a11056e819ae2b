import type { Projection } from '#projections/define.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { createLog } from '#src/base/log.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { inTransaction } from '#src/postgres/query.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { freshDatabase, type Ending } from '../support/servers.ts'

/** A pool on a database of the test's own, closed with it. */
export async function freshPool (t: Ending): Promise<Pool> {
  const url = await freshDatabase(t)
  const pool = createPool(url, createLog('silent'))
  t.teardown(() => pool.end())
  return pool
}

/** Runs a batch of facts through a projection into the tables. */
export async function apply (pool: Pool, projection: Projection, batch: Array<Recorded<AnyFact>>): Promise<void> {
  await inTransaction(pool, [liveSet(projection)], async run => {
    for (const statement of projection.project(batch)) await run(statement)
  })
}

const TABLES = {
  emails: ['emails', 'email_states', 'recipients', 'timeline'],
  deliveries: ['deliveries', 'delivery_attempts'],
  suppressions: ['suppressions'],
  audit: ['audit'],
  templates: ['templates', 'template_versions']
}

/** All rows of a projection's tables, each table sorted. */
export async function allRows (pool: Pool, name: keyof typeof TABLES): Promise<Record<string, string[]>> {
  const tables: Record<string, string[]> = {}
  for (const table of TABLES[name]) {
    const { rows } = await pool.query<{ row: unknown }>(`select to_jsonb(${table}) as row from ${table}`)
    tables[table] = rows.map(({ row }) => JSON.stringify(row)).sort()
  }
  return tables
}

/** Empties a projection's tables. */
export async function clear (pool: Pool, name: keyof typeof TABLES): Promise<void> {
  await pool.query(`truncate ${TABLES[name].join(', ')}`)
}

/** Numbers in [0, 1) that a seed decides (mulberry32). */
export function randomOf (seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

/** Cuts into pieces of random length from 1 to `max`. */
export function cut<T> (items: T[], max: number, random: () => number): T[][] {
  const pieces: T[][] = []
  for (let i = 0; i < items.length;) {
    const length = 1 + Math.floor(random() * max)
    pieces.push(items.slice(i, i + length))
    i += length
  }
  return pieces
}

export function shuffled<T> (items: T[], random: () => number): T[] {
  const mixed = [...items]
  for (let i = mixed.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[mixed[i], mixed[j]] = [mixed[j]!, mixed[i]!]
  }
  return mixed
}
