import { audit } from '#projections/audit/project.ts'
import { emails } from '#projections/emails/project.ts'
import { erasures } from '#projections/erasures/project.ts'
import { pendingErasures } from '#projections/erasures/queries.ts'
import { stats } from '#projections/stats/project.ts'
import { suppressions } from '#projections/suppressions/project.ts'
import type { Services } from '#src/actions/services.ts'
import { Ended } from '#src/actions/erasure.ts'
import { createEraser, type Eraser } from '#src/actions/erasure-work.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { repeat, type RepeatState } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import type { Checkpoints } from '#src/postgres/checkpoint.ts'
import { isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { vacuum } from '#src/postgres/reads.ts'

export interface ErasureOptions {
  services: Services
  pool: Pool
  checkpoints: Checkpoints
  log: Log
  /** Between two runs, and how long the log must have held nothing more. */
  everyMs?: number
  quietMs?: number
}

const EVERY_MS = 2000
/** Longer than any append may take. */
const QUIET_MS = 10_000
/** Erasures in one run: others follow when some of these are done. */
const PENDING_MAX = 100
const CONCURRENCY = 4
const VIEW_MS = 60_000
const PATIENCE_MS = 3_600_000
/** A vacuum of large tables takes its time. */
const ROUND_MS_MAX = 3_600_000
/** Longer than mail under way may take. */
const PENDING_MS_MAX = 4 * 86_400_000
/** The projections that hold addresses, or what was derived from them. */
const PROJECTIONS = [emails, suppressions, stats, audit]

type ErasureStep = Awaited<ReturnType<Eraser['round']>> | 'failed'

/** Erases people: continues every erasure that was requested, from where its last worker left it, until its receipt is
 *  in the log. Several processes may work on the same one. */
export function startErasures (options: ErasureOptions): Role {
  const { log, everyMs = EVERY_MS } = options
  const worker = new ErasureWorker(options)
  return repeat({
    name: 'erasures',
    round: async signal => (await worker.runPending(signal) ? everyMs : null),
    againMs: everyMs,
    roundMsMax: ROUND_MS_MAX,
    onError (error) {
      if (!isUnavailable(error)) log.warn({ err: error }, 'erasures interrupted; retrying')
    },
    unhealthyReason: state => worker.unhealthyReason(state)
  })
}

class ErasureWorker {
  private readonly options: ErasureOptions
  private erasers = new Map<string, Eraser>()
  private oldestMs: number | null = null

  constructor (options: ErasureOptions) {
    this.options = options
  }

  unhealthyReason ({ doneMs }: RepeatState): string | null {
    if (Date.now() - doneMs >= PATIENCE_MS) return `erasures have made no progress since ${timestamp(doneMs)}`
    return this.oldestMs !== null && this.options.services.factLog.clock.nowMs() - this.oldestMs >= PENDING_MS_MAX
      ? `an erasure is not completed since ${timestamp(this.oldestMs)}`
      : null
  }

  /** One step of every pending erasure. False when one failed. */
  async runPending (signal: AbortSignal): Promise<boolean> {
    const { services, pool, quietMs = QUIET_MS } = this.options
    const pending = await ask(pool, pendingErasures(PENDING_MAX))
    this.oldestMs = pending[0]?.requestedAt.getTime() ?? null
    this.erasers = new Map(
      pending.map((
        { account, id }
      ) => [id, this.erasers.get(id) ?? createEraser({ services, account, id, quietMs })])
    )
    const waiting = [...this.erasers]
    const steps: Array<{ id: string, step: ErasureStep }> = []
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined && !signal.aborted; next = waiting.shift()) {
        steps.push({ id: next[0], step: await this.step(...next, signal) })
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, work))
    const clean = steps.filter(({ step }) => step === 'clean').map(({ id }) => id)
    if (clean.length > 0 && !signal.aborted) await this.complete(clean)
    return steps.every(({ step }) => step !== 'failed')
  }

  private async step (id: string, eraser: Eraser, signal: AbortSignal): Promise<ErasureStep> {
    try {
      return await eraser.round(signal)
    } catch (error) {
      if (error instanceof Ended) return 'done'
      this.options.log.warn({ err: asError(error), erasure: id }, 'erasure interrupted; retrying')
      return 'failed'
    }
  }

  /** Only when the projections hold nothing more of it either. */
  private async complete (ids: string[]): Promise<void> {
    const { pool, checkpoints, log } = this.options
    for (const projection of PROJECTIONS) if (!await checkpoints.caughtUp(projection, VIEW_MS)) return
    await vacuum(pool, PROJECTIONS.map(liveSet))
    for (const id of ids) {
      await this.erasers.get(id)!.complete()
      log.info({ erasure: id }, 'address erased')
    }
    await checkpoints.caughtUp(erasures)
  }
}
