import type { Projection } from '#projections/define.ts'
import { asError, deadline, Late } from '#src/base/errors.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { isUnavailable } from '#src/postgres/pool.ts'
import { Busy } from './exclusive.ts'
import type { RebuildProjection, Filled } from './rebuild.ts'
import type { Progress } from './progress.ts'

/** How a rebuild goes, or how it ended. */
export interface Rebuild {
  state: 'running' | 'done' | 'failed' | 'stopped'
  /** As it was last told; null = it has not read anything yet. */
  progress: Progress | null
  /** Why it failed. */
  reason: string | null
  /** Facts that were read, and in what time; once it is done. */
  facts: number
  seconds: number
  /** Unix ms; null = it runs. */
  endedMs: number | null
}

/** Rebuilds that somebody asked this process for: one at a time a projection, whoever makes it, and few in all. They go
 *  on while nobody waits for them. */
export interface Rebuilds {
  /** Begins one. A sentence when it cannot be; null = it has begun, and nobody else can be at it. */
  begin(projection: Projection): Promise<string | null>
  /** The one that runs, else the last one since the process started; null = there was none. */
  of(projection: Projection): Rebuild | null
  /** What was done by then stays, and the next one goes on from there. False = none runs. */
  end(projection: Projection): boolean
  stop(): Promise<void>
}

/** Each takes what processors there are. */
const RUNNING_MAX = 2
/** Until it is known whether a rebuild can begin. */
const BEGIN_MS = 6000
const ASKED = 'it was asked for in the dashboard'

/** `ended` resolves once nothing of it goes on. */
interface Run {
  rebuild: Rebuild
  ending: AbortController
  ended: Promise<void>
  isOver: boolean
}

export function createRebuilds ({ build, nowMs }: { build: RebuildProjection, nowMs: () => number }): Rebuilds {
  const runs = new Map<string, Run>()
  let stopped = false

  async function begin (projection: Projection): Promise<string | null> {
    if (stopped) return 'This process stops.'
    const before = runs.get(projection.name)
    if (before?.isOver === false) {
      return before.ending.signal.aborted
        ? 'The one before is being ended: try again in a moment.'
        : `The view ${projection.name} is being made already.`
    }
    if ([...runs.values()].filter(({ isOver }) => !isOver).length >= RUNNING_MAX) {
      return `${RUNNING_MAX} views are being made already: wait until one is done.`
    }
    const { promise: begun, resolve } = Promise.withResolvers<true>()
    const run = start(projection, () => resolve(true))
    try {
      if (
        await deadline(
          Promise.race([begun, run.ended]),
          BEGIN_MS,
          'PostgreSQL does not answer: try again in a moment.'
        ) === true
      ) return null
      // It has not begun: what is told is how the one before went.
      if (before === undefined) runs.delete(projection.name)
      else runs.set(projection.name, before)
      return run.rebuild.reason ?? 'It was stopped before it began.'
    } catch (error) {
      run.ending.abort(error)
      return asError(error).message
    }
  }

  function start (projection: Projection, onBegun: () => void): Run {
    const rebuild: Rebuild = { state: 'running', progress: null, reason: null, facts: 0, seconds: 0, endedMs: null }
    const ending = new AbortController()
    const options = {
      why: ASKED,
      signal: ending.signal,
      onProgress: (progress: Progress) => {
        rebuild.progress = progress
      },
      // Asked once nobody else can be at it.
      isNeeded: async () => {
        onBegun()
        return !ending.signal.aborted
      }
    }
    const run: Run = { rebuild, ending, isOver: false, ended: build(projection, options).then(done, failed) }
    runs.set(projection.name, run)
    return run

    function done (made: Filled | null): void {
      end(made === null ? { state: 'stopped' } : { state: 'done', facts: made.facts, seconds: made.seconds })
    }

    function failed (error: unknown): void {
      end(ending.signal.aborted ? { state: 'stopped' } : { state: 'failed', reason: reasonOf(error) })
    }

    function end (how: Partial<Rebuild>): void {
      run.isOver = true
      Object.assign(rebuild, how, { endedMs: nowMs() })
    }
  }

  return {
    begin,
    of: ({ name }) => runs.get(name)?.rebuild ?? null,
    end ({ name }) {
      const run = runs.get(name)
      if (run === undefined || run.isOver) return false
      run.ending.abort(new Late('it was stopped'))
      return true
    },
    async stop () {
      stopped = true
      for (const { ending } of runs.values()) ending.abort(new Late('the process stops'))
      await Promise.all([...runs.values()].map(async ({ ended }) => await ended))
    }
  }
}

/** The message alone: the driver's other fields quote rows. */
function reasonOf (error: unknown): string {
  const { message } = asError(error)
  if (error instanceof Busy) return message
  if (isUnanswered(error)) return `NATS does not answer: ${message}`
  return isUnavailable(error) ? `PostgreSQL does not answer: ${message}` : message
}
