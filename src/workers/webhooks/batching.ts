import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { Role } from '#src/base/role.ts'
import { subjectsUnder } from '#src/nats/status.ts'
import { work, type Job } from '#src/nats/work.ts'
import { Batcher, type BatcherOptions } from './batcher.ts'
import { startReconcileLoop } from './reconcile.ts'

export interface BatchingOptions extends BatcherOptions {
  /** Recreates a consumer that is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
}

/** Members that wait for a flush of their endpoint, and schedules that have fired. */
const MEMBER_PLACES = 2000
const DUE_PLACES = 200
/** Endpoints that a reconciliation flushes at once. */
const RECONCILE_CONCURRENCY = 20
/** When an endpoint's settings change, its batch may be due earlier. */
const SETTINGS_EVERY_MS = 1000
/** Beyond, idle batchers are dropped. */
const BATCHERS_MAX = 10_000

/** Puts the events of endpoints that want batches into batches. Messages of the two consumers only trigger a flush: the
 *  waiting members, and those in batches, are read from the log each time. */
export function startBatching (options: BatchingOptions): Role {
  const { factLog, log } = options
  const stopping = new AbortController()
  const { signal } = stopping
  const batchers = new BatcherPool(options, signal)
  const consume = (plan: ConsumerPlan, concurrency: number, handle: (batcher: Batcher, job: Job) => Promise<void>) =>
    work(factLog.bus, {
      plan,
      name: plan.durable_name,
      concurrency,
      repair: options.repair,
      onError: error => log.warn({ err: error, consumer: plan.durable_name }, 'webhook batches interrupted; retrying'),
      async handle (job) {
        await handle(batchers.of(job.subject), job)
        job.ack()
      }
    })
  const workers = [
    consume(consumerPlans.batchMembers, MEMBER_PLACES, (batcher, { seq }) => batcher.joined(seq)),
    consume(consumerPlans.batchesDue, DUE_PLACES, batcher => batcher.scheduleFired())
  ]
  const loop = startReconcileLoop({
    reconcile: () => batchers.flushAll(),
    failure: 'webhook batches may be late',
    signal,
    log
  })
  const settings = setInterval(() => batchers.checkSettings(), SETTINGS_EVERY_MS)
  return {
    name: 'webhook batches',
    unhealthyReason: () =>
      workers.map(worker => worker.unhealthyReason()).find(reason => reason !== null) ?? loop.unhealthyReason(),
    async stop () {
      stopping.abort()
      clearInterval(settings)
      batchers.close()
      await Promise.all([loop.ended, ...workers.map(worker => worker.stop())])
    }
  }
}

/** A batcher for each endpoint, made when it is needed. */
class BatcherPool {
  private readonly options: BatchingOptions
  private readonly signal: AbortSignal
  private readonly batchers = new Map<string, Batcher>()

  constructor (options: BatchingOptions, signal: AbortSignal) {
    this.options = options
    this.signal = signal
  }

  /** `subject` ends with the endpoint's id. */
  of (subject: string): Batcher {
    const webhook = subject.slice(subject.lastIndexOf('.') + 1)
    const batcher = this.batchers.get(webhook) ?? new Batcher(this.options, webhook)
    if (this.signal.aborted) batcher.close()
    this.batchers.set(webhook, batcher)
    if (this.batchers.size > BATCHERS_MAX) {
      for (const [id, other] of this.batchers) if (other !== batcher && other.isIdle()) this.batchers.delete(id)
    }
    return batcher
  }

  async flushAll (): Promise<void> {
    const { bus } = this.options.factLog
    const subjects = await subjectsUnder(bus, 'WEBHOOKS', consumerPlans.batchMembers.filter_subject)
    const failed: PromiseRejectedResult[] = []
    while (subjects.length > 0 && !this.signal.aborted) {
      const group = subjects.splice(0, RECONCILE_CONCURRENCY)
      const flushed = await Promise.allSettled(group.map(subject => this.of(subject).flush()))
      failed.push(...flushed.filter(result => result.status === 'rejected'))
    }
    if (failed.length > 0) throw failed[0]!.reason
  }

  checkSettings (): void {
    for (const batcher of this.batchers.values()) batcher.checkSettings()
  }

  close (): void {
    for (const batcher of this.batchers.values()) batcher.close()
  }
}
