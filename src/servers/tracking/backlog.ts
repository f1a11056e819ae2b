import { backoffMs } from '#src/base/backoff.ts'
import { asError, deadline } from '#src/base/errors.ts'

/** How many jobs may wait, and how long. */
export interface BacklogLimits {
  /** Jobs of all keys together, and of one. */
  jobsMax: number
  jobsPerKeyMax: number
  /** Jobs that run at the same time. */
  concurrency: number
  /** A job is retried until it is this old. */
  ageMsMax: number
  /** The pause before a key's next attempt doubles from the first to the second. */
  pauseMs: number
  pauseMsMax: number
}

export const DROP_REASONS = ['full', 'late', 'stopped'] as const

/** `full` = there was no room; `late` = it did not succeed in its time; `stopped` = the process ended first. */
export interface BacklogDrop {
  reason: typeof DROP_REASONS[number]
  count: number
  /** What the last attempt threw; null when there was none. */
  error: Error | null
}

interface BacklogJob {
  run: () => Promise<void>
  endMs: number
  settle: () => void
}

/** The jobs of one key; the first one is at work, or waits for its next attempt. */
interface KeyedJobs {
  key: string
  jobs: BacklogJob[]
  failures: number
  timer: NodeJS.Timeout | undefined
}

/** Jobs that are retried until they succeed: those of one key one after another, in their order. */
export class Backlog {
  private readonly limits: BacklogLimits
  private readonly onDrop: (drop: BacklogDrop) => void
  private readonly keys = new Map<string, KeyedJobs>()
  private readonly ready: KeyedJobs[] = []
  private jobs = 0
  private running = 0
  private state: 'open' | 'stopping' | 'stopped' = 'open'
  private onEmpty = () => {}

  constructor (limits: BacklogLimits, onDrop: (drop: BacklogDrop) => void) {
    this.limits = limits
    this.onDrop = onDrop
  }

  /** Resolves when the job is done or dropped; never rejects. */
  add (key: string, run: () => Promise<void>): Promise<void> {
    const { jobsMax, jobsPerKeyMax, ageMsMax } = this.limits
    const keyed = this.keys.get(key) ?? { key, jobs: [], failures: 0, timer: undefined }
    if (this.state === 'stopped' || this.jobs >= jobsMax || keyed.jobs.length >= jobsPerKeyMax) {
      this.onDrop({ reason: this.state === 'stopped' ? 'stopped' : 'full', count: 1, error: null })
      return Promise.resolve()
    }
    return new Promise(settle => {
      keyed.jobs.push({ run, endMs: performance.now() + ageMsMax, settle })
      this.jobs++
      if (keyed.jobs.length > 1) return
      this.keys.set(key, keyed)
      this.wake(keyed)
    })
  }

  waiting (): number {
    return this.jobs
  }

  /** Attempts what is left without long pauses, for `graceMs` at most; drops the rest. */
  async stop (graceMs: number): Promise<void> {
    if (this.state !== 'open') return
    this.state = 'stopping'
    for (const keyed of this.keys.values()) if (keyed.timer !== undefined) this.wake(keyed)
    if (this.jobs > 0) {
      const empty = new Promise<void>(resolve => {
        this.onEmpty = resolve
      })
      await deadline(empty, graceMs, 'the backlog is not empty').catch(() => {})
    }
    this.state = 'stopped'
    if (this.jobs > 0) this.dropAll()
  }

  private wake (keyed: KeyedJobs): void {
    clearTimeout(keyed.timer)
    keyed.timer = undefined
    this.ready.push(keyed)
    this.startReady()
  }

  private startReady (): void {
    while (this.running < this.limits.concurrency && this.ready.length > 0) void this.work(this.ready.shift()!)
  }

  private async work (keyed: KeyedJobs): Promise<void> {
    this.running++
    const job = keyed.jobs[0]!
    const error = await job.run().then(() => null, asError)
    this.running--
    if (this.state === 'stopped') return
    if (error === null) this.finish(keyed, job)
    else if (performance.now() >= job.endMs) {
      this.onDrop({ reason: 'late', count: 1, error })
      this.finish(keyed, job)
    } else this.pause(keyed)
    this.startReady()
  }

  private finish (keyed: KeyedJobs, job: BacklogJob): void {
    job.settle()
    this.jobs--
    keyed.jobs.shift()
    keyed.failures = 0
    if (keyed.jobs.length > 0) this.ready.push(keyed)
    else this.keys.delete(keyed.key)
    if (this.jobs === 0) this.onEmpty()
  }

  /** Without holding a place: the jobs of other keys may succeed. */
  private pause (keyed: KeyedJobs): void {
    const { pauseMs, pauseMsMax } = this.limits
    keyed.failures++
    const ms = this.state === 'open' ? backoffMs(keyed.failures, pauseMs, pauseMsMax) : pauseMs
    keyed.timer = setTimeout(() => this.wake(keyed), ms)
  }

  private dropAll (): void {
    this.onDrop({ reason: 'stopped', count: this.jobs, error: null })
    for (const keyed of this.keys.values()) {
      clearTimeout(keyed.timer)
      for (const job of keyed.jobs) job.settle()
    }
    this.keys.clear()
    this.ready.length = this.jobs = 0
  }
}
