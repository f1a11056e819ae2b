import { wakeIn } from '#src/actions/replay-schedule.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { groupsOf } from '#streams/groups.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { replayFactIn } from '#streams/replay/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { repeat } from '#src/base/repeat.ts'
import { unhealthyReasonOf, type Role } from '#src/base/role.ts'
import { subjectsUnder } from '#src/nats/status.ts'
import { createLookup } from '#src/nats/lookup.ts'
import { work, type Job } from '#src/nats/work.ts'
import { idsIn, ReplayRunner, type ReplayRunnerOptions, type ReplayTurn } from './replay-runner.ts'

export interface ReplaysOptions extends ReplayRunnerOptions {
  /** Recreates a consumer that is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
}

/** Replays that have their turn in this process at once: those under way, those whose schedule has fired. */
const RUNNING_PLACES = 16
const DUE_PLACES = 8
/** Last facts read at once by a reconciliation. */
const FACTS_MAX = 500
/** A schedule may be lost. */
const RECONCILE_EVERY_MS = 300_000
const RECONCILE_AGAIN_MS = 5000
/** What is left then is looked at in the next round. */
const RECONCILE_MS_MAX = 600_000
/** A replay whose last fact is younger than this is not stalled. */
const STALLED_MS = 60_000

/** Makes the pages of replays and backfills. A replay's last fact is its job: a page and the next fact are one atomic
 *  append, refused when that fact is no longer the last. So the role may be killed, repeated and run by any number of
 *  processes. A replay that must wait for long gives its place back and has a schedule: any number may wait, and the
 *  others go on. */
export function startReplays (options: ReplaysOptions): Role {
  const { log, factLog: { bus } } = options
  const runner = new ReplayRunner(options)
  const consume = (plan: ConsumerPlan, concurrency: number, turnOf: (job: Job) => ReplayTurn) =>
    work(bus, {
      plan,
      name: plan.durable_name,
      concurrency,
      repair: options.repair,
      onError: error => log.warn({ err: error, consumer: plan.durable_name }, 'replays interrupted; retrying'),
      async handle (job) {
        const delayMs = await runner.run(turnOf(job))
        if (delayMs === null) job.ack()
        else job.retryAfter(delayMs)
      }
    })
  const roles = [
    consume(consumerPlans.replays, RUNNING_PLACES, ({ subject, seq, deliveryCount }) => ({
      subject,
      seq,
      deliveryCount,
      wake: null
    })),
    consume(consumerPlans.replaysDue, DUE_PLACES, dueTurn),
    repeat({
      name: 'stalled replays',
      async round (signal) {
        await runStalled(options, runner, signal)
        return RECONCILE_EVERY_MS
      },
      againMs: RECONCILE_AGAIN_MS,
      roundMsMax: RECONCILE_MS_MAX,
      onError: error => log.warn({ err: error }, 'replays may be late; retrying'),
      unhealthyReason: ({ error }) => (error === null ? null : `replays may be late: ${error.message}`)
    })
  ]
  return {
    name: 'webhook replays',
    unhealthyReason: () => unhealthyReasonOf(roles),
    stop: async () => void await Promise.all(roles.map(role => role.stop()))
  }
}

function dueTurn ({ bytes, deliveryCount }: Job): ReplayTurn {
  const wake = wakeIn(bytes)
  return { subject: subjects.replay(wake.webhook, wake.replay), seq: wake.seq, deliveryCount, wake }
}

/** Gives a turn to the replays that have stalled without a schedule. */
async function runStalled ({ factLog }: ReplaysOptions, runner: ReplayRunner, signal: AbortSignal): Promise<void> {
  const { bus, clock } = factLog
  const schedules = await subjectsUnder(bus, 'SCHEDULE', subjects.scheduleReplay('*', '*'))
  const scheduled = new Set(schedules.map(subject => idsIn(subject).replay))
  const all = await subjectsUnder(bus, 'WEBHOOKS', consumerPlans.replays.filter_subject)
  const failed: PromiseRejectedResult[] = []
  for (const group of groupsOf(all.filter(subject => !scheduled.has(idsIn(subject).replay)), FACTS_MAX)) {
    const facts = await createLookup(bus, 'WEBHOOKS').last(group)
    const stalled = group.filter((_subject, i) => isStalled(facts[i]!, clock.nowMs()))
    for (const few of groupsOf(stalled, DUE_PLACES)) {
      if (signal.aborted) return
      const turns = few.map(subject => runner.run({ subject, seq: null, deliveryCount: Infinity, wake: null }))
      failed.push(...(await Promise.allSettled(turns)).filter(turn => turn.status === 'rejected'))
    }
  }
  if (failed.length > 0) throw failed[0]!.reason
}

function isStalled (fact: AnyFact | null, nowMs: number): boolean {
  const last = fact === null ? null : replayFactIn(fact)
  return last !== null && last.type !== 'replay.ended' && Date.parse(last.time) < nowMs - STALLED_MS
}
