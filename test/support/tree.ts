import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { deadline } from '#src/base/errors.ts'
import { atExit } from './at-exit.ts'
import { COMPILED } from './compiled.ts'
import { isAlive } from './handover.ts'

const BIN = fileURLToPath(new URL('../../src/bin.js', import.meta.url))
const READY_MS = 60_000
const GONE_MS = 20_000
const CLI_MS = 30_000
const REQUEST_MS = 30_000

/** The operator's key of every tree. */
export const TREE_KEY = 'jp_live_key-of-the-process-tree'

export interface TreeAnswer {
  status: number
  headers: Headers
  body: any
}

/** How a Jetpost process ended. */
export interface TreeExit {
  code: number | null
  signal: NodeJS.Signals | null
  /** From the signal to the end. */
  ms: number
}

/** A whole Jetpost as an operator runs it: `jetpost start` in a process of its own, with what it starts. Linux only: it
 *  looks into /proc. */
export interface Tree {
  /** Where it serves; the same after a restart. */
  url: string
  dataDir: string
  /** Of the Jetpost process itself. */
  pid(): number
  /** Of the embedded servers as their pid files say; null = not running. */
  natsPid(): number | null
  postgresPid(): number | null
  /** Every living process of the tree: Jetpost, its servers, their children and watchers. */
  family(): number[]
  /** SIGKILL to the whole family at once; resolves when none is left. */
  kill9(): Promise<void>
  /** SIGTERM to Jetpost; resolves when it has ended. Throws after `timeoutMs`. */
  stop(timeoutMs?: number): Promise<TreeExit>
  /** Starts it again on the same folder and port. */
  start(): Promise<void>
  /** What `jetpost <args>` printed. */
  cli(...args: string[]): Promise<string>
  request(method: string, path: string, body?: unknown): Promise<TreeAnswer>
  /** The log's lines so far, over all starts. */
  log(): string
}

export interface TreeOptions {
  env?: Record<string, string>
  /** Kept after `dispose`; made and removed when left out. */
  dataDir?: string
  /** The program; ours when left out. */
  bin?: string
}

/** Starts a tree and lifts its key's limits out of the way. `dispose` kills what is left of it and removes its folder.
 */
export async function startTree (
  { env = {}, dataDir, bin = BIN }: TreeOptions = {}
): Promise<Tree & { dispose(): Promise<void> }> {
  const folder = dataDir ?? mkdtempSync(join(tmpdir(), 'jetpost-tree-'))
  const settings: NodeJS.ProcessEnv = {
    ...cleanEnvironment(),
    ...COMPILED,
    JETPOST_DATA_DIR: folder,
    JETPOST_API_KEY: TREE_KEY,
    JETPOST_LOG_LEVEL: 'warn',
    JETPOST_WEBHOOK_ALLOW_PRIVATE: 'true',
    ...env
  }
  const logFile = join(folder, 'jetpost.log')
  let child: ChildProcess | null = null
  let exited: Promise<[number | null, NodeJS.Signals | null]> = Promise.resolve([null, null])
  let port = '0'
  const tree: Tree = {
    url: '',
    dataDir: folder,
    pid: () => child!.pid!,
    natsPid: () => livePid(join(folder, 'nats', 'nats-server.pid')),
    postgresPid: () => livePid(join(folder, 'postgres', 'postmaster.pid')),
    family: () => familyOf(folder, child?.pid),
    kill9,
    stop,
    start,
    cli: async (...args) =>
      (await promisify(execFile)(process.execPath, [bin, ...args], { env: settings, timeout: CLI_MS })).stdout,
    request: (method, path, body) =>
      request(tree.url, method, path, body).catch(error => explain(error, `${method} ${path}`)),
    log: () => readFileSync(logFile, 'utf8')
  }

  async function start (): Promise<void> {
    const log = openSync(logFile, 'a', 0o600)
    child = spawn(process.execPath, [bin, 'start'], {
      env: { ...settings, PORT: port },
      stdio: ['ignore', 'pipe', log]
    })
    closeSync(log)
    exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    tree.url = await readyUrl(child, exited, tree)
    port = new URL(tree.url).port
  }

  async function kill9 (): Promise<void> {
    const family = tree.family()
    for (const pid of family) signal(pid, 'SIGKILL')
    await untilGone(family)
    await exited
  }

  async function stop (timeoutMs = 60_000): Promise<TreeExit> {
    const beginMs = performance.now()
    signal(tree.pid(), 'SIGTERM')
    const [code, name] = await deadline(
      exited,
      timeoutMs,
      `Jetpost did not stop within ${timeoutMs} ms:\n${tree.log().slice(-2000)}`
    )
    return { code, signal: name, ms: Math.round(performance.now() - beginMs) }
  }

  /** Its last words say more than a refused connection, or than one without an answer. */
  function explain (error: unknown, what: string): never {
    const { exitCode, signalCode } = child!
    const isAlive = exitCode === null && signalCode === null
    if (isAlive && (error as Error).name !== 'TimeoutError') throw error
    const why = isAlive ? 'Jetpost does not answer' : `Jetpost has ended with ${exitCode ?? signalCode}`
    throw new Error(`${what}: ${why}:\n${tree.log().slice(-4000)}`, { cause: error })
  }

  async function dispose (): Promise<void> {
    for (const pid of tree.family()) signal(pid, 'SIGCONT')
    await kill9()
    if (dataDir === undefined) rmSync(folder, { recursive: true, force: true })
  }

  // A test that crashes or runs out of time must not leave it behind; what it started dies with it.
  atExit(() => child?.kill('SIGKILL'))
  try {
    await start()
    await liftLimits(tree)
  } catch (error) {
    await dispose()
    throw error
  }
  return Object.assign(tree, { dispose })
}

/** Without what tap tells its own children: Jetpost is no test. */
function cleanEnvironment (): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(_?TAP|NODE_OPTIONS$|NATS_URL$|DATABASE_URL$)/.test(name))
  )
}

async function readyUrl (child: ChildProcess, exited: Promise<unknown>, tree: Tree): Promise<string> {
  const ready = new Promise<string>(resolve => {
    createInterface(child.stdout!).on('line', line => {
      const url = urlIn(line)
      if (url !== null) resolve(url)
    })
  })
  const failed = exited.then(() => {
    throw new Error(`Jetpost ended instead of getting ready:\n${tree.log().slice(-4000)}`)
  })
  failed.catch(() => {})
  return await deadline(
    Promise.race([ready, failed]),
    READY_MS,
    `Jetpost was not ready within ${READY_MS} ms:\n${tree.log().slice(-4000)}`
  )
}

function urlIn (line: string): string | null {
  try {
    const { event, url } = JSON.parse(line)
    return event === 'ready' ? url : null
  } catch {
    return null
  }
}

/** The limits are somebody else's test; here they would only end the load. */
async function liftLimits (tree: Tree): Promise<void> {
  const keys = JSON.parse(await tree.cli('keys', 'list', '--json')) as Array<{ id: string, name: string }>
  const { id } = keys.find(key => key.name === 'JETPOST_API_KEY')!
  await tree.cli('keys', 'limit', id, 'emails:send=10000000', 'emails:list=10000000', 'other=10000000')
}

/** One request with the operator's key, its answer within 10 s. */
export async function request (url: string, method: string, path: string, body?: unknown): Promise<TreeAnswer> {
  const response = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${TREE_KEY}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' })
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(REQUEST_MS)
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: isJson(response) ? JSON.parse(text) : text }
}

function isJson (response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('application/json') === true
}

function livePid (path: string): number | null {
  try {
    const pid = Number.parseInt(readFileSync(path, 'utf8'), 10)
    return isAlive(pid) ? pid : null
  } catch {
    return null
  }
}

/** Sends a signal; one that is gone already needs none. */
export function signal (pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch { /* gone */ }
}

interface Process {
  pid: number
  parent: number
  command: string
}

/** Those whose command line names the folder, `root`, and all their descendants. Never ourselves. */
export function familyOf (folder: string, root: number | undefined): number[] {
  const processes = allProcesses()
  const family = new Set(
    processes.filter(({ pid, command }) => pid === root || command.includes(folder)).map(({ pid }) => pid)
  )
  for (let before = -1; before !== family.size;) {
    before = family.size
    for (const { pid, parent } of processes) if (family.has(parent)) family.add(pid)
  }
  family.delete(process.pid)
  return [...family].filter(isAlive)
}

function allProcesses (): Process[] {
  return readdirSync('/proc').filter(name => /^\d+$/.test(name)).flatMap(name => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
      return [{
        pid: Number(name),
        parent,
        command: readFileSync(`/proc/${name}/cmdline`, 'latin1').replaceAll('\0', ' ')
      }]
    } catch {
      return []
    }
  })
}

/** Waits until none of these processes lives. */
export async function untilGone (pids: number[]): Promise<void> {
  for (const endMs = Date.now() + GONE_MS; pids.some(isAlive);) {
    if (Date.now() > endMs) {
      throw new Error(`Processes ${pids.filter(isAlive).join(', ')} are still there after ${GONE_MS} ms`)
    }
    await sleep(20)
  }
}
