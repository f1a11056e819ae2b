import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { subjectsUnder } from '#src/nats/status.ts'
import { work, type Job } from '#src/nats/work.ts'
import { createGatherer, type Gatherer } from './gatherer.ts'
import { startReconciling } from './reconcile.ts'

export interface GatherOptions {
  appenders: Appenders
  directory: LiveDirectory
  /** Makes a consumer again that is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
  log: Log
}

/** Members that wait for a look at their endpoint's, and schedules that have fired. */
const MEMBER_PLACES = 2000
const DUE_PLACES = 200
/** Endpoints with members, in a round. */
const ROUND_AT_ONCE = 20
/** Endpoints change; what waits for them is then due at another time. */
const HEED_MS = 1000
/** Beyond, gatherers with nothing to wait for are forgotten. */
const GATHERERS_MAX = 10_000

/** Puts the events of endpoints that want batches into batches. Messages of the two consumers only wake it: what waits,
 *  and what is done, is read from the log each time. */
export function startGather (options: GatherOptions): Role {
  const { appenders, log } = options
  const stopping = new AbortController()
  const gatherers = new Map<string, Gatherer>()

  function gathererOf (subject: string): Gatherer {
    const webhook = subject.slice(subject.lastIndexOf('.') + 1)
    const gatherer = gatherers.get(webhook) ?? createGatherer(options, webhook)
    if (stopping.signal.aborted) gatherer.close()
    gatherers.set(webhook, gatherer)
    if (gatherers.size > GATHERERS_MAX) {
      for (const [id, other] of gatherers) if (other !== gatherer && other.idle()) gatherers.delete(id)
    }
    return gatherer
  }

  function start (
    plan: ConsumerPlan,
    concurrency: number,
    settled: (gatherer: Gatherer, job: Job) => Promise<void>
  ): Role {
    return work(appenders.bus, {
      plan,
      name: plan.durable_name,
      concurrency,
      repair: options.repair,
      onError: error => log.warn({ err: error, consumer: plan.durable_name }, 'webhook batches interrupted'),
      async handle (job) {
        await settled(gathererOf(job.subject), job)
        job.ack()
      }
    })
  }

  async function lookAtAll (): Promise<void> {
    const members = await subjectsUnder(appenders.bus, 'WEBHOOKS', consumerPlans.batchMembers.filter_subject)
    const failed: PromiseRejectedResult[] = []
    while (members.length > 0 && !stopping.signal.aborted) {
      const looks = await Promise.allSettled(
        members.splice(0, ROUND_AT_ONCE).map(subject => gathererOf(subject).look())
      )
      failed.push(...looks.filter(look => look.status === 'rejected'))
    }
    if (failed.length > 0) throw failed[0]!.reason
  }

  const workers = [
    start(consumerPlans.batchMembers, MEMBER_PLACES, (gatherer, { seq }) => gatherer.joined(seq)),
    start(consumerPlans.batchesDue, DUE_PLACES, gatherer => gatherer.fired())
  ]
  const rounds = startReconciling({
    look: lookAtAll,
    meaning: 'webhook batches may wait',
    signal: stopping.signal,
    log
  })
  const heed = setInterval(() => {
    for (const gatherer of gatherers.values()) gatherer.heed()
  }, HEED_MS)
  return {
    name: 'webhook batches',
    unhealthyReason: () =>
      workers.map(worker => worker.unhealthyReason()).find(unhealthyReason => unhealthyReason !== null) ??
        rounds.unhealthyReason(),
    async stop () {
      stopping.abort()
      clearInterval(heed)
      for (const gatherer of gatherers.values()) gatherer.close()
      await Promise.all([rounds.ended, ...workers.map(worker => worker.stop())])
    }
  }
}
