import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The database with every view, empty, that each test clones. */
export const TEMPLATE = 'jetpost_template'

/** What `up.ts` leaves for the test files of its run: where the two servers are and how to get in. */
export type Servers = {
  /** One NATS server. Accounts `a0` … are users of the same name, all with this password. */
  nats: { host: string, port: number, password: string }
  /** The superuser's address of one PostgreSQL server. */
  adminUrl: string
}

/** What a run that was killed leaves for the next one to clear away. */
export type Leftovers = { keeperPid: number, dataFolder: string, containerId: string | null }

/** One folder a run, named after the pid of the tap that runs it: two runs at once never meet. */
const RUNS_FOLDER = fileURLToPath(new URL('../../node_modules/.cache/jetpost-test', import.meta.url))

/** The folder of the run of the tap with this pid; every test file finds it as its parent's. */
export function runFolder (tapPid: number): string {
  return join(RUNS_FOLDER, String(tapPid))
}

export function makeRunFolder (tapPid: number): string {
  const folder = runFolder(tapPid)
  mkdirSync(join(folder, 'accounts'), { recursive: true })
  return folder
}

/** Where Linux keeps files in memory. Hundreds of databases that come and go take half the CPU there, and nobody waits
 *  for a disk. */
const MEMORY_FOLDER = '/dev/shm'
/** A run writes less than 1 GB. */
const MEMORY_MIN_BYTES = 3 * 1024 ** 3

/** Makes the folder of a run's servers: in memory, or in the run's own where there is no room. */
export function makeDataFolder (folder: string): string {
  return mkdtempSync(hasMemory() ? join(MEMORY_FOLDER, 'jetpost-test-') : join(folder, 'data-'))
}

function hasMemory (): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY_FOLDER)
    return process.platform === 'linux' && bavail * bsize >= MEMORY_MIN_BYTES
  } catch {
    return false
  }
}

/** What the servers of a run say. Beside the folder, since it must still be there to be shown when they failed and the
 *  folder is gone. */
export function logPath (folder: string): string {
  return `${folder}.log`
}

/** Pids of all taps that left a folder or a log here, alive or not. */
export function tapPids (): number[] {
  mkdirSync(RUNS_FOLDER, { recursive: true })
  return [...new Set(readdirSync(RUNS_FOLDER).map(name => Number.parseInt(name, 10)))].filter(Number.isInteger)
}

/** The address of another database of the same server. */
export function databaseUrl (adminUrl: string, database: string): string {
  const url = new URL(adminUrl)
  url.pathname = `/${database}`
  return url.href
}

export function writeServers (folder: string, servers: Servers): void {
  writeWhole(join(folder, 'servers.json'), servers)
}

/** Null when no server was started for this run. */
export function readServers (folder: string): Servers | null {
  return readWhole<Servers>(join(folder, 'servers.json'))
}

export function writeLeftovers (folder: string, leftovers: Leftovers): void {
  writeWhole(join(folder, 'leftovers.json'), leftovers)
}

/** Null when the run had nothing yet that could be left over. */
export function readLeftovers (folder: string): Leftovers | null {
  return readWhole<Leftovers>(join(folder, 'leftovers.json'))
}

/** Whether a process lives. A zombie does not: in a container whose first process reaps nobody it would count for ever.
 */
export function isAlive (pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return process.platform !== 'linux'
  }
}

/** By rename, so that nobody reads half a file. */
function writeWhole (path: string, value: unknown): void {
  writeFileSync(`${path}.new`, JSON.stringify(value), { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

function readWhole<Value> (path: string): Value | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Value
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
