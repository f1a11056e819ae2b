import { backoffMs } from '#src/base/backoff.ts'
import { asError, deadline } from '#src/base/errors.ts'

/** How much may wait, and how long. */
export interface BacklogLimits {
  /** Jobs of all lanes together, and of one. */
  jobsMax: number
  laneJobsMax: number
  /** Lanes at work at the same time. */
  runningMax: number
  /** A job is tried again until it is this old. */
  ageMsMax: number
  /** The pause before a lane's next try doubles from the first to the second. */
  pauseMs: number
  pauseMsMax: number
}

/** `full` = no module for it; `late` = it could not be done in its time; `stopped` = the process ends before it is
 *  done. */
export interface Drop {
  reason: 'full' | 'late' | 'stopped'
  count: number
  /** What the last try threw; null when it was none. */
  error: Error | null
}

/** Jobs that are done as soon as they can be: those of one lane one after another, in their order. */
export interface Backlog {
  /** Resolves when the job is done, or dropped; never rejects. */
  add(lane: string, job: () => Promise<void>): Promise<void>
  waiting(): number
  /** Tries what is left without further patience, for `graceMs` at most; drops the rest. */
  stop(graceMs: number): Promise<void>
}

interface Job {
  run: () => Promise<void>
  endMs: number
  settle: () => void
}
interface Lane {
  name: string
  jobs: Job[]
  failures: number
  timer: NodeJS.Timeout | undefined
}

export function createBacklog (limits: BacklogLimits, onDrop: (drop: Drop) => void): Backlog {
  const lanes = new Map<string, Lane>()
  const ready: Lane[] = []
  let jobs = 0
  let running = 0
  let state: 'open' | 'stopping' | 'stopped' = 'open'
  let onEmpty = () => {}

  function add (name: string, run: Job['run']): Promise<void> {
    const lane = lanes.get(name) ?? { name, jobs: [], failures: 0, timer: undefined }
    if (state === 'stopped' || jobs >= limits.jobsMax || lane.jobs.length >= limits.laneJobsMax) {
      onDrop({ reason: state === 'stopped' ? 'stopped' : 'full', count: 1, error: null })
      return Promise.resolve()
    }
    return new Promise(resolve => {
      lane.jobs.push({ run, endMs: performance.now() + limits.ageMsMax, settle: resolve })
      jobs++
      if (lane.jobs.length > 1) return
      lanes.set(name, lane)
      wake(lane)
    })
  }

  function wake (lane: Lane): void {
    clearTimeout(lane.timer)
    lane.timer = undefined
    ready.push(lane)
    advance()
  }

  function advance (): void {
    while (running < limits.runningMax && ready.length > 0) void work(ready.shift()!)
  }

  async function work (lane: Lane): Promise<void> {
    running++
    const job = lane.jobs[0]!
    const error = await job.run().then(() => null, asError)
    running--
    if (state === 'stopped') return
    if (error === null) finish(lane, job)
    else if (performance.now() >= job.endMs) {
      onDrop({ reason: 'late', count: 1, error })
      finish(lane, job)
    } else pause(lane)
    advance()
  }

  function finish (lane: Lane, job: Job): void {
    job.settle()
    jobs--
    lane.jobs.shift()
    lane.failures = 0
    if (lane.jobs.length > 0) ready.push(lane)
    else lanes.delete(lane.name)
    if (jobs === 0) onEmpty()
  }

  /** Without holding a place: those behind it may have more luck. */
  function pause (lane: Lane): void {
    lane.failures++
    const ms = state === 'open' ? backoffMs(lane.failures, limits.pauseMs, limits.pauseMsMax) : limits.pauseMs
    lane.timer = setTimeout(() => wake(lane), ms)
  }

  async function stop (graceMs: number): Promise<void> {
    if (state !== 'open') return
    state = 'stopping'
    for (const lane of lanes.values()) if (lane.timer !== undefined) wake(lane)
    if (jobs > 0) {
      await deadline(
        new Promise<void>(resolve => {
          onEmpty = resolve
        }),
        graceMs,
        'the backlog is not empty'
      ).catch(() => {})
    }
    state = 'stopped'
    if (jobs > 0) abandon()
  }

  function abandon (): void {
    onDrop({ reason: 'stopped', count: jobs, error: null })
    for (const lane of lanes.values()) {
      clearTimeout(lane.timer)
      for (const job of lane.jobs) job.settle()
    }
    lanes.clear()
    ready.length = jobs = 0
  }

  return { add, waiting: () => jobs, stop }
}
