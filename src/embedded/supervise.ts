import { closeSync, copyFileSync, openSync, readSync, rmSync, statSync, truncateSync } from 'node:fs'
import { backoffMs, sleep } from '#src/base/backoff.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { type Command, type Exit, startSupervised, type SupervisedProcess } from './supervised-process.ts'

const SIZE_BYTES_MAX = 10 * 1024 * 1024
const TAIL_BYTES = 4096

/** How long the file is; 0 when there is none. */
function sizeBytes (path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/** Keeps a server's log below about 20 MB: past 10 MB it is copied to `<path>.1` and emptied. The server may go on
 *  writing meanwhile, because it appends; what it writes during the copy is lost. Never throws: on a full disk the copy
 *  is given up, the emptying is not. */
function boundLog (path: string): void {
  try {
    if (sizeBytes(path) <= SIZE_BYTES_MAX) return
    rmSync(`${path}.1`, { force: true })
    copyFileSync(path, `${path}.1`)
  } catch {
    rmSync(`${path}.1`, { force: true })
  }
  try {
    truncateSync(path, 0)
  } catch {
    // A log that cannot be emptied is no reason to stop the service; the next look tries again.
  }
}

/** The line that says most about an end: the last one with FATAL, PANIC or ERROR in it, else the last. Only what came
 *  after `fromBytes`. */
function lastWords (path: string, fromBytes: number): string {
  const lines = tail(path, fromBytes).split('\n').map(line => line.trim()).filter(line => line !== '')
  const worst = lines.findLast(line => /\b(FATAL|PANIC|ERROR|FTL|error)\b/.test(line))
  return worst ?? lines.at(-1) ?? 'it said nothing'
}

function tail (path: string, fromBytes: number): string {
  const end = sizeBytes(path)
  const start = Math.max(Math.min(fromBytes, end), end - TAIL_BYTES)
  if (start >= end) return ''
  const bytes = Buffer.alloc(end - start)
  const file = openSync(path, 'r')
  try {
    return bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, start))
  } finally {
    closeSync(file)
  }
}

const BACKOFF_MS_FIRST = 200
const BACKOFF_MS_MAX = 5_000
const HEALTHY_AFTER_MS = 30_000
const FIRST_TRIES_MAX = 5
/** Recovery after a crash may read a lot; a server that is alive and silent for longer is not coming. */
const ANSWER_MS_MAX = 600_000
const LOOK_EVERY_MS = 25
const SAY_EVERY_MS = 5_000
const LOG_BOUND_EVERY_MS = 60_000

/** One server, as supervision sees it. */
export interface Plan {
  name: string
  logFile: string
  /** Before each try: clears what a dirty end left behind and says what to run. `first` = nobody knows the port yet, it
   *  may change. */
  prepare(first: boolean): Promise<Command>
  /** Does our server (not just anything on that port) answer? Bounded, never rejects. */
  answers(): Promise<boolean>
}

export interface Supervised {
  /** Ends the server and its supervision; the second call waits for the first. */
  stop(): Promise<void>
}

export interface Circumstances {
  log: Log
  say: (line: string) => void
  signal: AbortSignal
}

/** Starts a server, waits until it answers, and from then on starts it again whenever it dies: after 0.2 s, doubling to
 *  5 s, from the beginning again after 30 s of health. Throws a Complaint with the server's last words when the first
 *  start fails five times, and when `signal` is aborted before it answers; nothing is left running then. */
export async function supervise (plan: Plan, circumstances: Circumstances): Promise<Supervised> {
  const first = await startFirst(plan, circumstances)
  const ending = new AbortController()
  const bounding = setInterval(() => boundLog(plan.logFile), LOG_BOUND_EVERY_MS).unref()
  const life = keepAlive(plan, first, circumstances.log, ending.signal)
  return {
    async stop () {
      clearInterval(bounding)
      ending.abort()
      await life
    }
  }
}

async function startFirst (plan: Plan, circumstances: Circumstances): Promise<SupervisedProcess> {
  const { signal, log } = circumstances
  for (let attempt = 1;; attempt++) {
    boundLog(plan.logFile)
    const logStartBytes = sizeBytes(plan.logFile)
    const server = await startSupervised(await plan.prepare(true))
    const exit = await untilAnswers(plan, server, circumstances)
    if (exit === null) return server
    if (signal.aborted) throw new Complaint(`${plan.name} was stopped while it was starting.`)
    const words = lastWords(plan.logFile, logStartBytes)
    log.warn({ server: plan.name, ...exit, attempt, words }, 'embedded server ended while it was starting')
    if (attempt >= FIRST_TRIES_MAX) {
      throw new Complaint(`${plan.name} does not start: ${words} (more in ${plan.logFile}).`)
    }
    await sleep(backoffMs(attempt, BACKOFF_MS_FIRST, BACKOFF_MS_MAX), signal)
  }
}

/** Null once it answers; how it ended when it did before, was told to stop, or stayed silent for ten minutes. */
async function untilAnswers (
  plan: Plan,
  server: SupervisedProcess,
  { say, signal }: Circumstances
): Promise<Exit | null> {
  let exit: Exit | null = null
  void server.exited.then(end => {
    exit = end
  })
  const startMs = performance.now()
  let saidMs = startMs
  while (exit === null && !signal.aborted && performance.now() - startMs < ANSWER_MS_MAX) {
    if (await plan.answers()) return null
    await sleep(LOOK_EVERY_MS)
    if (performance.now() - saidMs < SAY_EVERY_MS) continue
    saidMs = performance.now()
    say(
      `Still waiting for ${plan.name} (${
        Math.round((saidMs - startMs) / 1000)
      } s; it may be recovering, see ${plan.logFile})`
    )
  }
  await server.stop()
  return await server.exited
}

async function keepAlive (plan: Plan, first: SupervisedProcess, log: Log, ending: AbortSignal): Promise<void> {
  const ended = new Promise<null>(resolve => ending.addEventListener('abort', () => resolve(null), { once: true }))
  let server: SupervisedProcess | null = first
  let attempt = 0
  while (!ending.aborted) {
    const startMs = performance.now()
    const exit = server === null ? { code: null, signal: null } : await Promise.race([server.exited, ended])
    if (exit === null) break
    attempt = performance.now() - startMs > HEALTHY_AFTER_MS ? 1 : attempt + 1
    const nextMs = backoffMs(attempt, BACKOFF_MS_FIRST, BACKOFF_MS_MAX)
    if (server !== null) {
      log.warn({ server: plan.name, ...exit, attempt, restartInMs: nextMs }, 'embedded server died, starting it again')
    }
    await sleep(nextMs, ending)
    server = ending.aborted ? null : await startAgain(plan, log, ending)
  }
  await server?.stop()
}

/** Null when it could not even be launched; that is logged, and the next round tries again. */
async function startAgain (plan: Plan, log: Log, ending: AbortSignal): Promise<SupervisedProcess | null> {
  try {
    const server = await startSupervised(await plan.prepare(false))
    void untilAnswers(plan, server, { log, say: line => log.warn({ server: plan.name }, line), signal: ending })
      .then(exit => {
        if (exit === null) log.info({ server: plan.name, pid: server.pid }, 'embedded server answers again')
      })
    return server
  } catch (error) {
    log.error({ server: plan.name, err: asError(error) }, 'embedded server could not be started again')
    return null
  }
}
