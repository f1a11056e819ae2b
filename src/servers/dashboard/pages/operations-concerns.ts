import { lagState } from '../thresholds.ts'
import type { ConsumerStatus, StreamStatus } from '#src/nats/status.ts'
import type { OperationsService } from '#src/operations/operations.ts'
import type { ProjectionReport } from '#src/operations/projection-monitor.ts'
import { counted, duration } from '../parts.ts'
import { worstFirst, type Concern } from './concerns.ts'
import { tabName, type OperationsTab } from './operations-parts.ts'
import { alarmsIn } from './operations-reputation.ts'
import { consumerState } from './operations-streams.ts'

/** All of the installation that somebody should look at, the worst first: for its operators alone. */
export async function concernsIn (operations: OperationsService, asked = operations.checks()): Promise<Concern[]> {
  const [parts, streams, consumers, projections, reputation] = await Promise.all([
    asked,
    operations.streams(),
    operations.consumers(),
    operations.projectionReports(),
    operations.reputation()
  ])
  return worstFirst([
    ...parts.flatMap((
      { name, reason }
    ) => (reason === null ? [] : [concern('bad', '', `The part ${name} is not ready`, reason)])),
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
      'Something does not answer',
      `${[...problems].join(' ')} What was accepted is safe in the log; lists may not be up to date.`
    )
  ]
}

function ofStream ({ name, replicasBehind }: StreamStatus): Concern[] {
  return replicasBehind.length === 0
    ? []
    : [
      concern(
        'warn',
        '/streams',
        `The stream ${name} has copies that are behind or away`,
        `They are on ${replicasBehind.join(', ')}.`
      )
    ]
}

function ofConsumer (consumer: ConsumerStatus): Concern[] {
  const { state, means } = consumerState(consumer)
  if (state === 'idle' || state === 'working') return []
  const isStill = state === 'nobody'
  return [
    concern(
      isStill ? 'bad' : 'warn',
      '/streams',
      `The consumer ${consumer.name} is ${isStill ? 'at a standstill' : 'behind'}`,
      means
    )
  ]
}

function ofProjection ({ name, lag, status }: ProjectionReport): Concern[] {
  const deadLetters = status?.deadLetters ?? 0
  return [
    ...(lag !== null && lagState(lag) === 'behind' ?
      [concern(
        'warn',
        '/projections',
        `The view ${name} is behind the log`,
        `By ${counted(lag.facts, 'fact')}, and by ${
          duration(lag.seconds * 1000)
        }. Sending goes on; lists show less than has happened.`
      )] :
      []),
    ...(deadLetters > 0 ?
      [concern(
        'bad',
        '/dead-letters',
        `${counted(deadLetters, 'fact')} could not be written into the view ${name}`,
        'What could not be written is dead-lettered: it is in the log, and lists do without it.'
      )] :
      [])
  ]
}
