import type { ConsumerPlan } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { Bus } from '#src/nats/connect.ts'
import { isMissing, type Pool } from '#src/postgres/pool.ts'
import { Cleanup } from './cleanup.ts'
import { EmailReconciler } from './emails.ts'

export interface ReconcilerOptions {
  bus: Bus
  pool: Pool
  blobs: Blobs
  /** Recreates a consumer, and its stream, that is missing on the server. */
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
}

export interface Reconciler extends Role {
  /** The schedules are lost: restores those of all that waits, now and twice more when the projections and the senders
   *  have caught up. */
  afterLoss(): void
}

const EVERY_MS = 300_000
const RETRY_MS = 30_000
/** After a loss, a round goes over all that waits. */
const ROUND_MS_MAX = 3_600_000
/** After a loss it runs three times, with these pauses in between: projections are seconds behind the facts that came
 *  just before the loss, and senders still hold older mail that has only a place in their queue. */
const AFTER_LOSS_MS = [15_000, 60_000]
const RUNS_AFTER_LOSS = 1 + AFTER_LOSS_MS.length
/** PostgreSQL may be away for so long before this counts as unhealthy. */
const PATIENCE_MS = 600_000
const GRACE_S = 60
/** Retries wait for hours, scheduled mail for as long as its content is kept. */
const AHEAD_S = 400 * 86_400

/** Schedules are derived, and can be lost: this restores them. What should have happened by now according to the
 *  projections gets its schedule again, due at once. The receiver checks the facts before it acts, so one schedule too
 *  many does no harm. A schedule that exists is not replaced: it may be later than the projections know. Runs at start
 *  and every 5 min; after a loss also for what is not due yet. */
export function startReconciler (options: ReconcilerOptions): Reconciler {
  const { log } = options
  const cleanup = new Cleanup(options)
  let runsAfterLoss = 0

  async function round (signal: AbortSignal): Promise<number> {
    const afterLoss = runsAfterLoss > 0
    runsAfterLoss = Math.max(0, runsAfterLoss - 1)
    try {
      await reconcile(new EmailReconciler({ ...options, signal }), afterLoss ? -AHEAD_S : GRACE_S, log)
      // Cut off by its deadline, it has not seen all that waits.
      signal.throwIfAborted()
    } catch (error) {
      if (afterLoss) runsAfterLoss = RUNS_AFTER_LOSS
      throw error
    }
    await cleanup.runIfDue(signal)
    return runsAfterLoss > 0 ? AFTER_LOSS_MS.at(-runsAfterLoss) ?? 0 : EVERY_MS
  }

  const rounds = repeat({
    name: 'scheduler',
    round,
    againMs: RETRY_MS,
    roundMsMax: ROUND_MS_MAX,
    onError (error) {
      if (isMissing(error)) log.info('reconciler waits until its projection is built')
      else log.warn({ err: error }, 'reconciler interrupted; retrying')
    },
    unhealthyReason ({ doneMs, error }) {
      if (Date.now() - doneMs < EVERY_MS + PATIENCE_MS) return null
      return `no reconciliation has succeeded since ${timestamp(doneMs)}: ${error?.message}`
    }
  })
  return Object.assign(rounds, {
    afterLoss () {
      runsAfterLoss = RUNS_AFTER_LOSS
      rounds.wake()
    }
  })
}

async function reconcile (emails: EmailReconciler, graceS: number, log: Log): Promise<void> {
  const { overdue, unheard } = await emails.restoreSchedules(graceS)
  if (overdue + unheard === 0) return
  log.info({ overdue, unheard, afterLoss: graceS < 0 }, 'lost schedules restored')
}
