import type { ConsumerStatus, StreamStatus } from '#src/nats/status.ts'
import type { OperationsService } from '#src/operations/operations.ts'
import { projectionAlarms, type ProjectionReport } from '#src/operations/projection-monitor.ts'
import { sentence } from '../parts.ts'
import { worstFirst, type Concern } from './concerns.ts'
import { tabName, type OperationsTab } from './operations-parts.ts'
import { alarmsIn } from '#src/operations/reputation.ts'
import { consumerState } from '#src/operations/consumer-state.ts'

/** Everything of the installation that needs attention, the worst first: for operators alone. */
export async function concernsIn (operations: OperationsService, checks = operations.checks()): Promise<Concern[]> {
  const [parts, streams, consumers, projections, reputation] = await Promise.all([
    checks,
    operations.streams(),
    operations.consumers(),
    operations.projectionReports(),
    operations.reputation()
  ])
  return worstFirst([
    ...parts.flatMap(({ name, reason }) =>
      reason === null ? [] : [concern('bad', '', `Health check ${name} fails`, sentence(reason))]
    ),
    ...unavailableConcern(new Set([streams, consumers, projections, reputation].flatMap(({ problems }) => problems))),
    ...streams.value.flatMap(ofStream),
    ...consumers.value.flatMap(ofConsumer),
    ...projections.value.flatMap(ofProjection),
    ...reputation.value.flatMap(alarmsIn).map(({ what, why }) => concern('bad', '/reputation', what, why))
  ])
}

function concern (tone: Concern['tone'], at: OperationsTab, what: string, why: string): Concern {
  return {
    tone,
    what,
    why,
    to: `/dashboard/operations${at}`,
    step: at === '' ? 'Open operations' : `Open ${tabName(at).toLowerCase()}`
  }
}

function unavailableConcern (problems: Set<string>): Concern[] {
  if (problems.size === 0) return []
  return [
    concern(
      'bad',
      '',
      'A server does not answer',
      `${[...problems].join(' ')} Accepted emails are safe in the log. Lists may be out of date.`
    )
  ]
}

function ofStream ({ name, replicasBehind }: StreamStatus): Concern[] {
  if (replicasBehind.length === 0) return []
  const why = `Replicas on ${replicasBehind.join(', ')}.`
  return [concern('warn', '/streams', `Stream ${name} has replicas that are behind or offline`, why)]
}

function ofConsumer (consumer: ConsumerStatus): Concern[] {
  const { state, text } = consumerState(consumer)
  if (state === 'idle' || state === 'working') return []
  return [concern(state === 'stalled' ? 'bad' : 'warn', '/streams', `Consumer ${consumer.name} is ${state}`, text)]
}

function ofProjection (report: ProjectionReport): Concern[] {
  return projectionAlarms(report).map(({ kind, what, why }) =>
    kind === 'dead_letters' ? concern('bad', '/dead-letters', what, why) : concern('warn', '/projections', what, why)
  )
}
