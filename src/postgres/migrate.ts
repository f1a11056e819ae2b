import { readdir, readFile } from 'node:fs/promises'
import { Client } from 'pg'
import { backoffMs, sleep } from '#src/base/backoff.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { sha256Hex } from '#src/base/secret.ts'

interface Migration {
  number: number
  name: string
  checksum: string
  text: string
}

const FOLDER = new URL('../../projections/migrations/', import.meta.url)
/** Any number will do, as long as all Jetposts of all versions use the same. */
const LOCK = 5_382_016_001
const CONNECT_MS = 5000
/** An index over a large table takes its time, and so does another process doing just that. */
const STATEMENT_MS = 600_000

/** Brings the database up to this version's migrations, all of those missing in one transaction. Safe for many processes at once: one does it,
 *  the others wait and find it done. Throws a Complaint when the database is newer than this code or was migrated by other files. */
export async function migrate (databaseUrl: string, log?: Log): Promise<void> {
  const known = await readMigrations()
  const client = new Client({
    connectionString: databaseUrl,
    application_name: 'jetpost migrate',
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: STATEMENT_MS,
    query_timeout: STATEMENT_MS + 1000
  })
  // The query under way rejects by itself when the line breaks; unheard, the event would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('begin')
    await client.query('select pg_advisory_xact_lock($1)', [LOCK])
    const missing = await findMissing(client, known)
    for (const migration of missing) await apply(client, migration)
    await client.query('commit')
    if (missing.length > 0) log?.info({ migrations: missing.map(({ name }) => name) }, 'database migrated')
  } finally {
    await client.end().catch(() => {})
  }
}

async function readMigrations (): Promise<Migration[]> {
  const names = (await readdir(FOLDER)).filter(name => /^\d{4}_.+\.sql$/.test(name)).sort()
  return await Promise.all(names.map(async name => {
    const text = await readFile(new URL(name, FOLDER), 'utf8')
    return { number: Number(name.slice(0, 4)), name, checksum: sha256Hex(text), text }
  }))
}

async function findMissing (client: Client, known: Migration[]): Promise<Migration[]> {
  await client.query('create table if not exists migrations (number integer primary key, name text not null, checksum text not null, ' +
    'applied_at timestamptz not null default now())')
  const { rows } = await client.query<{ number: number, name: string, checksum: string }>('select number, name, checksum from migrations order by number')
  for (const done of rows) {
    const ours = known.find(({ number }) => number === done.number)
    if (ours === undefined) {
      throw new Complaint(`The database has migration ${done.name}, which this version of Jetpost does not know: it was used by a newer version; start that one.`)
    }
    if (ours.checksum !== done.checksum) {
      throw new Complaint(`Migration ${ours.name} is not the one this database was made with: a released migration never changes; restore the file.`)
    }
  }
  return known.filter(({ number }) => !rows.some(done => done.number === number))
}

async function apply (client: Client, { number, name, checksum, text }: Migration): Promise<void> {
  await client.query(text)
  await client.query('insert into migrations (number, name, checksum) values ($1, $2, $3)', [number, name, checksum])
}

export interface Migrations extends Role {
  /** Settled by the first try: resolves also when PostgreSQL is away, rejects with a Complaint when the database is not for this version. */
  firstTry: Promise<void>
}

/** Migrates as soon as PostgreSQL is there, in the background: accepting and sending do not wait for it. `trouble` says why it is not done yet. */
export function keepMigrated (databaseUrl: string, log: Log): Migrations {
  const stopping = new AbortController()
  let trouble: string | null = 'not migrated yet'

  async function attempt (): Promise<void> {
    try {
      await migrate(databaseUrl, log)
      trouble = null
    } catch (thrown) {
      const error = asError(thrown)
      if (trouble !== error.message) log.warn({ reason: error.message }, 'database not migrated')
      trouble = error.message
      if (error instanceof Complaint) throw error
    }
  }

  async function goOn (): Promise<void> {
    for (let times = 1; trouble !== null && !stopping.signal.aborted; times++) {
      await sleep(backoffMs(times, 100, 5000), stopping.signal)
      if (!stopping.signal.aborted) await attempt().catch(() => {})
    }
  }

  const firstTry = attempt()
  const running = firstTry.then(goOn, goOn)
  return {
    name: 'migrations',
    firstTry,
    trouble: () => trouble,
    async stop () {
      stopping.abort()
      await running
    }
  }
}
