import { emails } from '#projections/emails/project.ts'
import { erasures } from '#projections/erasures/project.ts'
import { pendingErasures } from '#projections/erasures/queries.ts'
import { stats } from '#projections/stats/project.ts'
import { suppressions } from '#projections/suppressions/project.ts'
import type { Services } from '#src/actions/services.ts'
import { Ended } from '#src/actions/erasure.ts'
import { createEraser, type Eraser } from '#src/actions/erasure-work.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Checkpoints } from '#src/postgres/checkpoint.ts'
import { isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { vacuum } from '#src/postgres/vacuum.ts'

export interface ErasureOptions {
  services: Services
  pool: Pool
  checkpoints: Checkpoints
  log: Log
  /** Between two rounds, and how long the log must have had nothing more. */
  everyMs?: number
  quietMs?: number
}

const EVERY_MS = 2000
/** Longer than any append may take. */
const QUIET_MS = 10_000
/** Looked at in one round: more have their turn when some of these are done. */
const PENDING_MAX = 100
const AT_ONCE = 4
const VIEW_MS = 60_000
const PATIENCE_MS = 3_600_000
/** Beyond the longest that mail under way may take, something is wrong. */
const PENDING_MS_MAX = 4 * 86_400_000
/** The views that hold addresses, or what was made of them. */
const VIEWS = [emails, suppressions, stats]

type Turn = Awaited<ReturnType<Eraser['round']>> | 'failed'

/** Forgets people: takes up every erasure that was asked for, from wherever its last worker left it, until its receipt
 *  is in the log. Several processes may be at the same one. */
export function startErasures (
  { services, pool, checkpoints, log, everyMs = EVERY_MS, quietMs = QUIET_MS }: ErasureOptions
): Role {
  const stopping = new AbortController()
  const { signal } = stopping
  let hands = new Map<string, Eraser>()
  let failingSinceMs: number | null = null
  let oldestMs: number | null = null

  async function run (): Promise<void> {
    while (!signal.aborted) {
      const fine = await lookAround().catch(error => {
        if (!isUnavailable(error)) log.warn({ err: asError(error) }, 'erasures interrupted')
        return false
      })
      failingSinceMs = fine ? null : failingSinceMs ?? services.appenders.clock.nowMs()
      await sleep(everyMs, signal)
    }
  }

  async function lookAround (): Promise<boolean> {
    const pending = await ask(pool, pendingErasures(PENDING_MAX))
    oldestMs = pending[0]?.requestedAt.getTime() ?? null
    hands = new Map(
      pending.map(({ account, id }) => [id, hands.get(id) ?? createEraser({ services, account, id, quietMs, signal })])
    )
    const waiting = [...hands]
    const came: Array<{ id: string, to: Turn }> = []
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined && !signal.aborted; next = waiting.shift()) {
        came.push({ id: next[0], to: await turn(...next) })
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    const clean = came.filter(({ to }) => to === 'clean').map(({ id }) => id)
    if (clean.length > 0 && !signal.aborted) await complete(clean)
    return came.every(({ to }) => to !== 'failed')
  }

  async function turn (id: string, eraser: Eraser): Promise<Turn> {
    try {
      return await eraser.round()
    } catch (error) {
      if (error instanceof Ended) return 'done'
      log.warn({ err: asError(error), erasure: id }, 'erasure interrupted')
      return 'failed'
    }
  }

  /** Only when what is no longer in the log is no longer in the views either. */
  async function complete (ids: string[]): Promise<void> {
    for (const projection of VIEWS) if (!await checkpoints.caughtUp(projection, VIEW_MS)) return
    await vacuum(pool, VIEWS.map(liveSet))
    for (const id of ids) {
      await hands.get(id)!.complete()
      log.info({ erasure: id }, 'address erased')
    }
    await checkpoints.caughtUp(erasures)
  }

  function unhealthyReason (): string | null {
    const nowMs = services.appenders.clock.nowMs()
    if (failingSinceMs !== null && nowMs - failingSinceMs >= PATIENCE_MS) {
      return `erasures have made no progress since ${timestamp(failingSinceMs)}`
    }
    return oldestMs !== null && nowMs - oldestMs >= PENDING_MS_MAX
      ? `an erasure has not come to its end since ${timestamp(oldestMs)}`
      : null
  }

  const running = run()
  return {
    name: 'erasures',
    unhealthyReason,
    async stop () {
      stopping.abort()
      await running
    }
  }
}
