import { fork, type ChildProcess } from 'node:child_process'
import { on } from 'node:events'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { backoffMs, sleep } from '#src/base/backoff.ts'
import { asError, Complaint, deadline } from '#src/base/errors.ts'
import { EXEC_ARGV } from '#src/base/exec-argv.ts'
import type { Log } from '#src/base/log.ts'
import { ROLE_GRACE_MS, SERVER_GRACE_MS, type HealthCheck } from '#src/base/role.ts'
import { cachedFor } from '#src/operations/report.ts'
import type { MetricsReport } from '#src/servers/ops/metrics.ts'
import type { Answers, Assignment, FromWorkers, PartReport, ToWorkers } from './workers-protocol.ts'

const MODULE = fileURLToPath(new URL('./workers-process.ts', import.meta.url))
/** Connecting, reading the directory, and the roles' own start. */
const START_MS = 120_000
const ASK_MS = 2000
/** Those who ask within it share an answer. */
const SHARED_MS = 100
/** More than all of its roles together may take. */
const STOP_MS = 27_000
const BACKOFF_MS_FIRST = 200
const BACKOFF_MS_MAX = 5000
const HEALTHY_AFTER_MS = 30_000
/** Parts that both processes have: of the second only whether all is well. */
const SHARED_PARTS = new Set(['nats', 'postgres', 'streams', 'directory'])

export interface WorkersOptions {
  /** Of both processes. */
  environment: NodeJS.ProcessEnv
  log: Log
  /** Takes each line of its log, JSON; left out = it goes to stderr, like that of the first. */
  onLogLine?: (line: string) => void
}

/** The process beside this one that has the roles other than `api`, started again whenever it ends. */
export class Workers {
  inboundPort: number | null = null
  private readonly options: WorkersOptions
  private readonly ending = new AbortController()
  private readonly asked = new Map<number, (value: Answers[keyof Answers]) => void>()
  private child: ChildProcess
  /** How it ended, in words. */
  private exited!: Promise<string>
  private assignment: Assignment | null = null
  private askedLast = 0
  private readonly askParts = cachedFor(SHARED_MS, async () => await this.ask('parts'))
  private known: PartReport[] = []
  private life: Promise<void> = Promise.resolve()

  /** Starts the process, which loads its code until it is given its roles. */
  constructor (options: WorkersOptions) {
    this.options = options
    this.child = this.launch()
  }

  /** Resolves when its roles run. Throws a Complaint when they cannot. */
  async start (assignment: Assignment): Promise<void> {
    this.assignment = assignment
    await this.begun()
    await this.report()
    this.life = this.keepAlive()
  }

  get pid (): number {
    return this.child.pid ?? 0
  }

  /** What /readyz asks: the process itself, and each of its roles. */
  checks (): HealthCheck[] {
    const roles = this.known.map(({ name }) => name).filter(name => !SHARED_PARTS.has(name))
    return [
      {
        name: 'workers',
        graceMs: SERVER_GRACE_MS,
        check: async () => await this.reasonOf(name => SHARED_PARTS.has(name))
      },
      ...roles.map(name => ({
        name,
        graceMs: ROLE_GRACE_MS,
        check: async () => await this.reasonOf(part => part === name),
        details: () => this.known.find(part => part.name === name)?.details ?? {}
      }))
    ]
  }

  /** Empty while it does not answer. */
  async metrics (): Promise<MetricsReport> {
    return await this.ask('metrics').catch(() => [])
  }

  /** Lets it finish what it has; SIGKILL after 27 s. */
  async stop (): Promise<void> {
    this.ending.abort()
    this.tell({ type: 'stop' })
    await deadline(this.exited, STOP_MS, 'the workers did not stop in time').catch(error => {
      this.options.log.warn({ err: error }, 'workers cut off')
      this.child.kill('SIGKILL')
    })
    await this.life
  }

  /** Ends it at once: for a start that failed. */
  kill (): void {
    this.ending.abort()
    this.child.kill('SIGKILL')
  }

  private launch (): ChildProcess {
    const { environment, onLogLine } = this.options
    const cache = getCompileCacheDir()
    const child = fork(MODULE, {
      execArgv: [...process.execArgv, ...EXEC_ARGV],
      env: { ...environment, ...(cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) }) },
      stdio: ['ignore', 'ignore', onLogLine === undefined ? 'inherit' : 'pipe', 'ipc'],
      serialization: 'advanced'
    })
    if (onLogLine !== undefined) createInterface({ input: child.stderr! }).on('line', onLogLine)
    child.on('message', (message: FromWorkers) => {
      if (message.type !== 'answer') return
      this.asked.get(message.id)?.(message.value)
      this.asked.delete(message.id)
    })
    this.exited = new Promise(resolve => {
      child.once('exit', (code, signal) => resolve(String(signal ?? `code ${code}`)))
      // It could not be started, or not be told: neither may end this process.
      child.on('error', ({ message }) => {
        if (child.pid === undefined) resolve(message)
      })
    })
    return child
  }

  /** Gives the process its roles; resolves when they run. */
  private async begun (): Promise<void> {
    const { child } = this
    const told = new AbortController()
    const ended = this.exited.then((how): never => {
      throw new Complaint(`The process of the workers ended as it started: ${how}.`)
    })
    this.tell({ type: 'start', assignment: this.assignment! })
    try {
      await deadline(
        Promise.race([this.started(child, told.signal), ended]),
        START_MS,
        'the workers did not start in time'
      )
    } finally {
      told.abort()
    }
  }

  private async started (child: ChildProcess, signal: AbortSignal): Promise<void> {
    for await (const [message] of on(child, 'message', { signal }) as AsyncIterable<[FromWorkers]>) {
      if (message.type === 'failed') {
        throw message.isComplaint ? new Complaint(message.message) : new Error(message.message)
      }
      if (message.type !== 'started') continue
      this.inboundPort = message.inboundPort
      return
    }
  }

  private async keepAlive (): Promise<void> {
    const { log } = this.options
    let attempt = 0
    while (!this.ending.signal.aborted) {
      const startMs = performance.now()
      const how = await this.exited
      if (this.ending.signal.aborted) return
      attempt = performance.now() - startMs > HEALTHY_AFTER_MS ? 1 : attempt + 1
      const restartInMs = backoffMs(attempt, BACKOFF_MS_FIRST, BACKOFF_MS_MAX)
      log.error({ how, attempt, restartInMs }, 'the workers ended')
      await sleep(restartInMs, this.ending.signal)
      if (!this.ending.signal.aborted) await this.startAgain()
    }
  }

  private async startAgain (): Promise<void> {
    this.child = this.launch()
    await this.begun().catch(error => {
      if (!this.ending.signal.aborted) {
        this.options.log.error({ err: asError(error) }, 'the workers could not be started again')
      }
      this.child.kill('SIGKILL')
    })
  }

  private async reasonOf (isMeant: (name: string) => boolean): Promise<string | null> {
    const parts = await this.report()
    if (parts.length === 0) return 'the workers are starting'
    return parts.find(({ name, reason }) => isMeant(name) && reason !== null)?.reason ?? null
  }

  /** Throws an Error that says why while it does not answer. */
  private async report (): Promise<PartReport[]> {
    const parts = await this.askParts()
    if (parts.length > 0) this.known = parts
    return parts
  }

  private async ask<What extends keyof Answers> (what: What): Promise<Answers[What]> {
    if (!this.child.connected) throw new Error('the process of the workers does not run')
    const id = ++this.askedLast
    const answer = new Promise<Answers[keyof Answers]>(resolve => this.asked.set(id, resolve))
    this.tell({ type: 'ask', id, what })
    try {
      return await deadline(answer, ASK_MS, 'the process of the workers does not answer') as Answers[What]
    } finally {
      this.asked.delete(id)
    }
  }

  private tell (message: ToWorkers): void {
    if (this.child.connected) this.child.send(message, () => {})
  }
}
