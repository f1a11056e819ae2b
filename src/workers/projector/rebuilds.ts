import type { Projection } from '#projections/define.ts'
import { asError, deadline, Late } from '#src/base/errors.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { isUnavailable } from '#src/postgres/pool.ts'
import { AlreadyRebuilding } from './exclusive.ts'
import type { RebuildProgress } from './progress.ts'
import type { RebuildProjection } from './rebuild.ts'

/** The state of a rebuild, or how it ended. */
export interface Rebuild {
  state: 'running' | 'done' | 'failed' | 'stopped'
  /** As last reported; null = it has not read anything yet. */
  progress: RebuildProgress | null
  /** Why it failed. */
  reason: string | null
  /** Facts that were read, and in what time; once it is done. */
  facts: number
  seconds: number
  /** Unix ms; null = it is running. */
  endedMs: number | null
}

/** Rebuilds that were requested from this process: one at a time for a projection, in whatever process, and few in all.
 *  They go on while nobody waits for them. */
export interface Rebuilds {
  /** Begins one; null = it has begun, else a sentence that says why it cannot. */
  begin(projection: Projection): Promise<string | null>
  /** The running one, else the last one since the process started; null = there was none. */
  of(projection: Projection): Rebuild | null
  /** Stops the running one. What was done by then stays, and the next one goes on from there. False = none is running.
   */
  end(projection: Projection): boolean
  stop(): Promise<void>
}

/** Each uses all processors. */
const RUNNING_MAX = 2
/** Until it is known whether a rebuild can begin. */
const BEGIN_MS = 6000
const WHY = 'requested in the dashboard'

/** `ended` resolves once nothing of it goes on. */
interface Run {
  rebuild: Rebuild
  stopping: AbortController
  ended: Promise<void>
}

export function createRebuilds (options: { rebuild: RebuildProjection, nowMs: () => number }): Rebuilds {
  const registry = new RebuildRegistry(options)
  return {
    begin: projection => registry.begin(projection),
    of: projection => registry.of(projection),
    end: projection => registry.end(projection),
    stop: () => registry.stop()
  }
}

class RebuildRegistry {
  private readonly rebuild: RebuildProjection
  private readonly nowMs: () => number
  private readonly runs = new Map<string, Run>()
  private stopped = false

  constructor ({ rebuild, nowMs }: { rebuild: RebuildProjection, nowMs: () => number }) {
    this.rebuild = rebuild
    this.nowMs = nowMs
  }

  async begin (projection: Projection): Promise<string | null> {
    const { name } = projection
    const before = this.runs.get(name)
    const refusal = this.refusal(name, before)
    if (refusal !== null) return refusal
    const { promise: begun, resolve } = Promise.withResolvers<true>()
    const run = this.start(projection, () => resolve(true))
    try {
      const first = Promise.race([begun, run.ended])
      if (await deadline(first, BEGIN_MS, 'PostgreSQL does not answer. Try again in a moment.') === true) return null
      // It has not begun: the last rebuild stays the one before.
      if (before === undefined) this.runs.delete(name)
      else this.runs.set(name, before)
      return run.rebuild.reason ?? 'It was stopped before it began.'
    } catch (error) {
      run.stopping.abort(error)
      return asError(error).message
    }
  }

  of ({ name }: Projection): Rebuild | null {
    return this.runs.get(name)?.rebuild ?? null
  }

  end ({ name }: Projection): boolean {
    const run = this.runs.get(name)
    if (run === undefined || !isRunning(run)) return false
    run.stopping.abort(new Late('it was stopped'))
    return true
  }

  async stop (): Promise<void> {
    this.stopped = true
    for (const { stopping } of this.runs.values()) stopping.abort(new Late('the process stops'))
    await Promise.all([...this.runs.values()].map(async ({ ended }) => await ended))
  }

  private refusal (name: string, before: Run | undefined): string | null {
    if (this.stopped) return 'This process is stopping.'
    if (before !== undefined && isRunning(before)) {
      return before.stopping.signal.aborted
        ? 'The rebuild before is still stopping. Try again in a moment.'
        : `The projection ${name} is already being rebuilt.`
    }
    if ([...this.runs.values()].filter(isRunning).length < RUNNING_MAX) return null
    return `${RUNNING_MAX} projections are already being rebuilt. Wait until one is done.`
  }

  private start (projection: Projection, onBegun: () => void): Run {
    const rebuild: Rebuild = { state: 'running', progress: null, reason: null, facts: 0, seconds: 0, endedMs: null }
    const stopping = new AbortController()
    const end = (outcome: Partial<Rebuild>) => void Object.assign(rebuild, outcome, { endedMs: this.nowMs() })
    const ended = this.rebuild(projection, {
      why: WHY,
      signal: stopping.signal,
      onProgress: progress => {
        rebuild.progress = progress
      },
      // Called once no other process can be rebuilding it.
      isNeeded: async () => {
        onBegun()
        return !stopping.signal.aborted
      }
    }).then(
      result =>
        end(result === null ? { state: 'stopped' } : { state: 'done', facts: result.facts, seconds: result.seconds }),
      error => end(stopping.signal.aborted ? { state: 'stopped' } : { state: 'failed', reason: reasonOf(error) })
    )
    const run = { rebuild, stopping, ended }
    this.runs.set(projection.name, run)
    return run
  }
}

function isRunning ({ rebuild }: Run): boolean {
  return rebuild.state === 'running'
}

/** The message alone: the driver's other fields quote rows. */
function reasonOf (error: unknown): string {
  const { message } = asError(error)
  if (error instanceof AlreadyRebuilding) return message
  if (isUnanswered(error)) return `NATS does not answer: ${message}`
  return isUnavailable(error) ? `PostgreSQL does not answer: ${message}` : message
}
