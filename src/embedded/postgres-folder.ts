import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Complaint } from '#src/base/errors.ts'
import { newSecret } from '#src/base/secret.ts'
import { isAlive, stopOrphan } from './orphan.ts'
import type { Account } from './postgres-account.ts'
import type { PostgresPackage } from './postgres-package.ts'
import { setUpRole, SUPERUSER } from './postgres-role.ts'
import { syncFolder, writePrivateFile } from './private-file.ts'
import { run } from './run-command.ts'

const INITDB_MS = 120_000
/** Above every system's largest pid, below 2³¹: no process ever has it. */
const PID_OF_NOBODY = 2_147_483_646

export interface FolderOptions {
  dataDir: string
  /** Of Jetpost's role. */
  password: string
  programs: PostgresPackage
  account: Account
  say: (line: string) => void
  signal: AbortSignal
}

/** Where the database lives in the data folder. */
export function postgresFolder (dataDir: string): string {
  return join(dataDir, 'postgres')
}

/** Makes the database folder on the first start, and checks on later ones that it is of the same major version. An
 *  interrupted first start leaves only a `postgres.new-…` folder, which the next one removes. Throws a Complaint with
 *  PostgreSQL's own words when it cannot. */
export async function openPostgresFolder (options: FolderOptions): Promise<void> {
  const { dataDir, programs } = options
  for (const name of readdirSync(dataDir)) {
    if (name.startsWith('postgres.new-')) rmSync(join(dataDir, name), { recursive: true, force: true })
  }
  const folder = postgresFolder(dataDir)
  if (existsSync(folder)) {
    checkVersion(folder, programs.major)
    await clearPostmasterPid(folder)
    return await setUpRole({ ...options, folder }, options.password)
  }
  options.say(`Creating the PostgreSQL database in ${folder} (once)`)
  await createFolder(options, folder)
}

function checkVersion (folder: string, major: string): void {
  const path = join(folder, 'PG_VERSION')
  const found = existsSync(path) ? readFileSync(path, 'utf8').trim() : null
  if (found === major) return
  if (found === null) {
    throw new Complaint(`${folder} is not a PostgreSQL database: move it away, and Jetpost makes a new one.`)
  }
  throw new Complaint(
    `${folder} was written by PostgreSQL ${found} and this Jetpost brings ${major}: ` +
      'move it away and let `jetpost rebuild` fill a new one from the log, or upgrade it with pg_upgrade.'
  )
}

async function createFolder (options: FolderOptions, folder: string): Promise<void> {
  const { dataDir, account } = options
  const made = `${folder}.new-${process.pid}`
  const passwordFile = `${made}/password`
  mkdirSync(`${made}/data`, { recursive: true, mode: 0o700 })
  // initdb wants one; it is taken away again at once.
  writePrivateFile(passwordFile, `${newSecret('')}\n`)
  for (const path of [made, `${made}/data`, passwordFile]) account.own(path)
  try {
    await initdb(options, `${made}/data`, passwordFile)
    await setUpRole({ ...options, folder: `${made}/data` }, options.password)
    renameSync(`${made}/data`, folder)
    syncFolder(dataDir)
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
}

// The C.UTF-8 of PostgreSQL itself: the same on every machine, whatever locales it has, so indexes never depend on the
// system's.
async function initdb (
  { account, programs, signal }: FolderOptions,
  folder: string,
  passwordFile: string
): Promise<void> {
  const [file, args] = account.wrap(programs.initdb, [
    '-D',
    folder,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    '--auth-host=scram-sha-256',
    '--auth-local=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--text-search-config=english'
  ])
  const { code, output } = await run(file, args, { timeoutMs: INITDB_MS, env: programs.env, signal })
  if (signal.aborted) throw new Complaint('Jetpost was stopped while it was creating the PostgreSQL database.')
  if (code !== 0) throw new Complaint(`PostgreSQL could not create its database: ${reason(output)}`)
}

function reason (output: string): string {
  const lines = output.split('\n').map(line => line.trim()).filter(line => line !== '')
  return lines.find(line => /error|fatal|not found/i.test(line)) ?? lines.at(-1) ?? 'initdb was killed.'
}

/** Makes a `postmaster.pid` that a dirty stop left behind harmless. A postgres that still runs on this folder is ours
 *  to stop: we hold the data folder's lock. Where the pid belongs to a stranger by now, PostgreSQL would refuse to
 *  start; the file is not removed then, only its pid is replaced by an impossible one, because its other lines let
 *  PostgreSQL notice children of the dead postmaster that live on. */
export async function clearPostmasterPid (folder: string): Promise<void> {
  const path = join(folder, 'postmaster.pid')
  if (!existsSync(path)) return
  const [first = '', ...rest] = readFileSync(path, 'utf8').split('\n')
  const pid = Math.abs(Number.parseInt(first, 10))
  if (!(pid > 0)) return rmSync(path) // cut short while it was written: nothing had been started yet
  const gone = await stopOrphan({ pid, mark: `-D ${folder} `, stopSignal: 'SIGINT', forceSignal: 'SIGQUIT' })
  if (!gone) {
    throw new Complaint(
      `A PostgreSQL that an earlier Jetpost left behind (process ${pid}) does not end: kill it by hand.`
    )
  }
  if (existsSync(path) && isAlive(pid)) writeFileSync(path, [PID_OF_NOBODY, ...rest].join('\n'))
}
