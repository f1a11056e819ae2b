import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { repeat } from '#src/base/repeat.ts'
import { unhealthyReasonOf, type Role } from '#src/base/role.ts'
import { subjectsUnder } from '#src/nats/status.ts'
import { work, type Job } from '#src/nats/work.ts'
import { Batcher, type BatcherOptions } from './batcher.ts'

export interface BatchingOptions extends BatcherOptions {
  /** Recreates a consumer that is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
}

/** Members that wait for a flush of their endpoint, and schedules that have fired. */
const MEMBER_PLACES = 2000
const DUE_PLACES = 200
/** A schedule may be lost: endpoints that have waiting members are flushed, so many at once. What is left at the
 *  deadline is flushed in the next round. */
const RECONCILE_CONCURRENCY = 20
const RECONCILE_EVERY_MS = 300_000
const RECONCILE_AGAIN_MS = 5000
const RECONCILE_MS_MAX = 600_000
/** When an endpoint's settings change, its batch may be due earlier. */
const SETTINGS_EVERY_MS = 1000
/** Beyond, idle batchers are dropped. */
const BATCHERS_MAX = 10_000

/** Puts the events of endpoints that want batches into batches. Messages of the two consumers only trigger a flush: the
 *  waiting members, and those in batches, are read from the log each time. */
export function startBatching (options: BatchingOptions): Role {
  const { factLog, log } = options
  const batchers = new BatcherPool(options)
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
  const roles = [
    consume(consumerPlans.batchMembers, MEMBER_PLACES, (batcher, { seq }) => batcher.joined(seq)),
    consume(consumerPlans.batchesDue, DUE_PLACES, batcher => batcher.scheduleFired()),
    repeat({
      name: 'late webhook batches',
      async round (signal) {
        await batchers.flushAll(signal)
        return RECONCILE_EVERY_MS
      },
      againMs: RECONCILE_AGAIN_MS,
      roundMsMax: RECONCILE_MS_MAX,
      onError: error => log.warn({ err: error }, 'webhook batches may be late; retrying'),
      unhealthyReason: ({ error }) => (error === null ? null : `webhook batches may be late: ${error.message}`)
    }),
    repeat({
      name: 'settings of webhook batches',
      round () {
        batchers.checkSettings()
        return SETTINGS_EVERY_MS
      },
      againMs: SETTINGS_EVERY_MS,
      onError: error => log.error({ err: error }, 'settings of webhook batches not checked; retrying')
    })
  ]
  return {
    name: 'webhook batches',
    unhealthyReason: () => unhealthyReasonOf(roles),
    async stop () {
      batchers.close()
      await Promise.all(roles.map(role => role.stop()))
    }
  }
}

/** A batcher for each endpoint, made when it is needed. */
class BatcherPool {
  private readonly options: BatchingOptions
  private readonly batchers = new Map<string, Batcher>()
  private closed = false

  constructor (options: BatchingOptions) {
    this.options = options
  }

  /** `subject` ends with the endpoint's id. */
  of (subject: string): Batcher {
    const webhook = subject.slice(subject.lastIndexOf('.') + 1)
    const batcher = this.batchers.get(webhook) ?? new Batcher(this.options, webhook)
    if (this.closed) batcher.close()
    this.batchers.set(webhook, batcher)
    if (this.batchers.size > BATCHERS_MAX) {
      for (const [id, other] of this.batchers) if (other !== batcher && other.isIdle()) this.batchers.delete(id)
    }
    return batcher
  }

  async flushAll (signal: AbortSignal): Promise<void> {
    const { bus } = this.options.factLog
    const subjects = await subjectsUnder(bus, 'WEBHOOKS', consumerPlans.batchMembers.filter_subject)
    const failed: PromiseRejectedResult[] = []
    while (subjects.length > 0 && !signal.aborted) {
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
    this.closed = true
    for (const batcher of this.batchers.values()) batcher.close()
  }
}
