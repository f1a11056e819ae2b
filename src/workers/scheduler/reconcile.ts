import type { ConsumerPlan } from '#streams/topology.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { Bus } from '#src/nats/connect.ts'
import { isMissing, type Pool } from '#src/postgres/pool.ts'
import { Cleanup } from './cleanup.ts'
import { DeliveryReconciler } from './deliveries.ts'
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
/** After a loss it runs three times, with these pauses in between: projections are seconds behind the facts that came
 *  just before the loss, and senders still hold older mail that has only a place in their queue. */
const AFTER_LOSS_MS = [15_000, 60_000]
const RUNS_AFTER_LOSS = 1 + AFTER_LOSS_MS.length
/** PostgreSQL may be away for so long before this counts as unhealthy. */
const PATIENCE_MS = 600_000
const GRACE_S = 60
/** Retries wait for hours, scheduled mail for as long as its content is kept. */
const AHEAD_S = 400 * 86_400

/** Schedules are derived, and can be lost: this restores them. */
export function startReconciler (options: ReconcilerOptions): Reconciler {
  return new ReconcilerRole(options)
}

/** What should have happened by now according to the projections gets its schedule again, due at once. The receiver
 *  checks the facts before it acts, so one schedule too many does no harm. A schedule that exists is not replaced: it
 *  may be later than the projections know. Runs at start and every 5 min; after a loss also for what is not due yet. */
class ReconcilerRole implements Reconciler {
  readonly name = 'scheduler'
  private readonly log: Log
  private readonly emails: EmailReconciler
  private readonly deliveries: DeliveryReconciler
  private readonly cleanup: Cleanup
  private readonly stopping = new AbortController()
  private readonly running: Promise<void>
  private wake = new AbortController()
  private runsAfterLoss = 0
  private lastDoneMs = Date.now()
  private lastError: Error | null = null

  constructor (options: ReconcilerOptions) {
    const { signal } = this.stopping
    this.log = options.log
    this.emails = new EmailReconciler({ ...options, signal })
    this.deliveries = new DeliveryReconciler({ ...options, signal })
    this.cleanup = new Cleanup({ ...options, deliveries: this.deliveries, signal })
    this.running = this.run()
  }

  afterLoss (): void {
    this.runsAfterLoss = RUNS_AFTER_LOSS
    this.wake.abort()
  }

  unhealthyReason (): string | null {
    if (Date.now() - this.lastDoneMs < EVERY_MS + PATIENCE_MS) return null
    return `no reconciliation has succeeded since ${timestamp(this.lastDoneMs)}: ${this.lastError?.message}`
  }

  async stop (): Promise<void> {
    this.stopping.abort()
    await this.running
  }

  private async run (): Promise<void> {
    const { signal } = this.stopping
    while (!signal.aborted) {
      const pauseMs = await this.runOnce()
      this.wake = new AbortController()
      await sleep(pauseMs, AbortSignal.any([this.wake.signal, signal]))
    }
  }

  /** Resolves to the pause until the next run, in ms. */
  private async runOnce (): Promise<number> {
    const afterLoss = this.runsAfterLoss > 0
    this.runsAfterLoss = Math.max(0, this.runsAfterLoss - 1)
    try {
      await this.reconcile(afterLoss ? -AHEAD_S : GRACE_S)
      this.lastDoneMs = Date.now()
      await this.cleanup.runIfDue()
      if (this.runsAfterLoss === RUNS_AFTER_LOSS) return 0
      return this.runsAfterLoss > 0 ? AFTER_LOSS_MS.at(-this.runsAfterLoss)! : EVERY_MS
    } catch (error) {
      if (afterLoss) this.runsAfterLoss = RUNS_AFTER_LOSS
      this.lastError = asError(error)
      if (isMissing(error)) this.log.info('reconciler waits until its projection is built')
      else this.log.warn({ err: this.lastError }, 'reconciler interrupted; retrying')
      return RETRY_MS
    }
  }

  private async reconcile (graceS: number): Promise<void> {
    const { overdue, unheard } = await this.emails.restoreSchedules(graceS)
    const deliveries = await this.deliveries.restoreSchedules(graceS)
    if (overdue + unheard + deliveries === 0) return
    this.log.info({ overdue, unheard, deliveries, afterLoss: graceS < 0 }, 'lost schedules restored')
  }
}
