import { wakeIn } from '#src/actions/replay-wait.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { groupsOf } from '#streams/groups.ts'
import { replayFactIn } from '#streams/replay/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { Role } from '#src/base/role.ts'
import { createLookup } from '#src/nats/lookup.ts'
import { subjectsUnder } from '#src/nats/status.ts'
import { work, type Job } from '#src/nats/work.ts'
import { createReplayer, idsIn, type ReplayerOptions, type Turn } from './replayer.ts'
import { startReconciling } from './reconcile.ts'

export interface ReplaysOptions extends ReplayerOptions {
  /** Makes a consumer again that is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
}

/** Replays that have their turn in this process at once: those that go on, those that were put off. */
const GOING_PLACES = 16
const DUE_PLACES = 8
/** Replays under way, in a round. */
const ROUND_AT_ONCE = 500
/** What has come further within so long is still at it. */
const STILL_MS = 60_000

/** Makes the pages of replays and backfills. The last fact of each is the job: a page and the next fact are one atomic
 *  append, refused when that fact is no longer the last. So it may be killed, repeated and run by any number of
 *  processes. What has to wait for long gives its place back and has a schedule: any number may wait, and those that
 *  can go on do. */
export function startReplays (options: ReplaysOptions): Role {
  const { log, appenders: { bus, clock } } = options
  const turn = createReplayer(options)
  const stopping = new AbortController()

  function start (plan: ConsumerPlan, concurrency: number, turnOf: (job: Job) => Turn): Role {
    return work(bus, {
      plan,
      name: plan.durable_name,
      concurrency,
      repair: options.repair,
      onError: error => log.warn({ err: error, consumer: plan.durable_name }, 'replays interrupted'),
      async handle (job) {
        const napMs = await turn(turnOf(job))
        if (napMs === null) job.ack()
        else job.retryAfter(napMs)
      }
    })
  }

  /** Gives a turn to all that stand still and that no schedule will wake. */
  async function lookAtAll (): Promise<void> {
    const scheduled = new Set(
      (await subjectsUnder(bus, 'SCHEDULE', subjects.scheduleReplay('*', '*'))).map(subject => idsIn(subject).replay)
    )
    const all = await subjectsUnder(bus, 'WEBHOOKS', consumerPlans.replays.filter_subject)
    const failed: PromiseRejectedResult[] = []
    for (const group of groupsOf(all.filter(subject => !scheduled.has(idsIn(subject).replay)), ROUND_AT_ONCE)) {
      const facts = await createLookup(bus, 'WEBHOOKS').last(group)
      for (const few of groupsOf(group.filter((_subject, i) => standsStill(facts[i]!)), DUE_PLACES)) {
        if (stopping.signal.aborted) return
        const turns = await Promise.allSettled(
          few.map(subject => turn({ subject, seq: null, nth: Infinity, wake: null }))
        )
        failed.push(...turns.filter(turn => turn.status === 'rejected'))
      }
    }
    if (failed.length > 0) throw failed[0]!.reason
  }

  function standsStill (fact: AnyFact | null): boolean {
    const last = fact === null ? null : replayFactIn(fact)
    return last !== null && last.type !== 'replay.ended' && Date.parse(last.time) < clock.nowMs() - STILL_MS
  }

  const workers = [
    start(
      consumerPlans.replays,
      GOING_PLACES,
      ({ subject, seq, deliveryCount: nth }) => ({ subject, seq, nth, wake: null })
    ),
    start(consumerPlans.replaysDue, DUE_PLACES, ({ bytes, deliveryCount: nth }) => wokenTurn(bytes, nth))
  ]
  const rounds = startReconciling({ look: lookAtAll, meaning: 'replays may wait', signal: stopping.signal, log })
  return {
    name: 'webhook replays',
    unhealthyReason: () =>
      workers.map(worker => worker.unhealthyReason()).find(unhealthyReason => unhealthyReason !== null) ??
        rounds.unhealthyReason(),
    async stop () {
      stopping.abort()
      await Promise.all([rounds.ended, ...workers.map(worker => worker.stop())])
    }
  }
}

function wokenTurn (bytes: Uint8Array, nth: number): Turn {
  const wake = wakeIn(bytes)
  return { subject: subjects.replay(wake.webhook, wake.replay), seq: wake.seq, nth, wake }
}
