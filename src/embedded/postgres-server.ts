import { join } from 'node:path'
import pg from 'pg'
import { Complaint } from '#src/base/errors.ts'
import type { Kept } from './kept.ts'
import { choosePort } from './ports.ts'
import type { Account } from './postgres-account.ts'
import { clearPostmasterPid, postgresFolder } from './postgres-folder.ts'
import type { PostgresPackage } from './postgres-package.ts'
import { ROLE } from './postgres-role.ts'
import type { Plan } from './supervise.ts'
import type { Command } from './supervised-process.ts'

const ANSWER_MS = 2_000
const CHECK_MS = 30_000

// On the command line rather than in postgresql.conf: always this version's, and what the operator adds to the file
// still counts elsewhere. Errors go to the log without their statement, detail and context: those carry people's
// addresses.
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: 100,
  shared_buffers: '128MB',
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  timezone: 'UTC',
  log_timezone: 'UTC',
  logging_collector: 'off',
  log_destination: 'stderr',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
  // A segment that is used again keeps its old bytes: what was erased would be found in it for weeks.
  wal_recycle: 'off',
  log_error_verbosity: 'terse',
  log_min_error_statement: 'panic'
}

export interface PostgresOptions {
  /** Absolute; what a running one is recognised by. */
  dataDir: string
  /** JETPOST_POSTGRES_PORT */
  port: number | null
  kept: Kept
  programs: PostgresPackage
  account: Account
}

/** PostgreSQL on 127.0.0.1, without a Unix socket, as the supervisor starts it. */
export function postgresPlan ({ dataDir, port, kept, programs, account }: PostgresOptions): Plan {
  const folder = postgresFolder(dataDir)
  const logFile = join(dataDir, 'postgres.log')
  return {
    name: 'PostgreSQL',
    logFile,
    async prepare (first) {
      await clearPostmasterPid(folder)
      if (first) {
        kept.postgres.port = await choosePort(port, kept.postgres.port, 'JETPOST_POSTGRES_PORT')
        kept.save()
      }
      const settings = Object.entries({ ...SETTINGS, port: kept.postgres.port }).flatMap((
        [name, value]
      ) => ['-c', `${name}=${value}`])
      const [file, args] = account.wrap(programs.postgres, ['-D', folder, ...settings])
      return { file, args, env: programs.env, logFile, stopSignal: 'SIGINT', forceSignal: 'SIGQUIT' } satisfies Command
    },
    answers: () => answers(kept)
  }
}

/** `postgres://user:password@host:port/jetpost` of the embedded PostgreSQL. */
export function postgresUrl (kept: Kept): string {
  return `postgres://${ROLE}:${kept.postgres.password}@127.0.0.1:${kept.postgres.port}/${ROLE}`
}

/** A superuser reads and writes files, and runs programs. Throws a Complaint when Jetpost is one. */
export async function refuseSuperuser (kept: Kept): Promise<void> {
  await withClient(kept, CHECK_MS, async client => {
    const { rowCount } = await client.query('select from pg_roles where rolname = current_user and rolsuper')
    if (rowCount !== 0) throw new Complaint(`The role ${ROLE} of the embedded PostgreSQL must not be a superuser.`)
  })
}

/** Our password opens ours only, so a stranger on the port does not count; nor does one that is still recovering. */
async function answers (kept: Kept): Promise<boolean> {
  try {
    await withClient(kept, ANSWER_MS, async client => {
      await client.query('select 1')
    })
    return true
  } catch {
    return false
  }
}

async function withClient (kept: Kept, timeoutMs: number, ask: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({
    connectionString: postgresUrl(kept),
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs
  })
  client.on('error', () => {}) // the connection may be cut at any moment; the query under way says so
  try {
    await client.connect()
    await ask(client)
  } finally {
    await client.end().catch(() => {})
  }
}
