import type { AlertState } from '#streams/alert/facts.ts'
import type { Condition } from '#streams/alert/decide.ts'
import type { AccountEntry, Directory, WebhookEntry } from '#streams/directory.ts'
import { alertIdOf } from '#src/actions/alert.ts'
import { consumerState } from '../consumer-state.ts'
import type { OperationsService } from '../operations.ts'
import { projectionAlarms } from '../projection-monitor.ts'
import { alarmsIn } from '../reputation.ts'

/** What is to be alerted about now. */
export interface Look {
  conditions: Condition[]
  /** Could it be seen whether this one still holds? */
  isKnown(state: Pick<AlertState, 'kind' | 'about'>): boolean
}

export type AlertSources = Pick<OperationsService, 'reputation' | 'projectionReports' | 'consumers'>

/** Looks at endpoints, rates, projections and consumers: by the same rules as the dashboard. What a server that is away
 *  would have told is not known. */
export async function lookAround (
  directory: Pick<Directory, 'accounts' | 'webhooks'>,
  sources: AlertSources
): Promise<Look> {
  const [reputation, projections, consumers] = await Promise.all([
    sources.reputation(),
    sources.projectionReports(),
    sources.consumers()
  ])
  const conditions = [
    ...[...directory.webhooks.values()].flatMap(ofEndpoint),
    ...[...directory.accounts.values()].flatMap(ofAccount),
    ...reputation.value.flatMap(report =>
      alarmsIn(report).map(alarm => condition(alarm, report.domain, '/operations/reputation'))
    ),
    ...projections.value.flatMap(report =>
      projectionAlarms(report).map(alarm =>
        condition(
          alarm,
          report.name,
          alarm.kind === 'dead_letters' ? '/operations/dead-letters' : '/operations/projections'
        )
      )
    ),
    ...consumers.value.flatMap(consumer => {
      const { state, text } = consumerState(consumer)
      if (state !== 'stalled' && state !== 'behind') return []
      const kind = state === 'stalled' ? 'consumer_stalled' : 'consumer_lag'
      const what = `Consumer ${consumer.name} is ${state}`
      return [condition({ kind, what, why: text }, consumer.name, '/operations/streams')]
    })
  ]
  const knownOf = { reputation: reputation.problems.length === 0, consumers: consumers.problems.length === 0 }
  return {
    conditions,
    isKnown ({ kind, about }) {
      if (kind.endsWith('_rate')) return knownOf.reputation
      if (kind.startsWith('consumer_')) return knownOf.consumers
      const report = projections.value.find(({ name }) => name === about)
      if (kind === 'projection_lag') return report === undefined || report.lag !== null
      return kind !== 'dead_letters' || report === undefined || report.status !== null
    }
  }
}

/** The kinds that can follow each other are about one thing: an endpoint is failing, then disabled. */
const THINGS: Partial<Record<Condition['kind'], string>> = {
  endpoint_failing: 'endpoint',
  endpoint_disabled: 'endpoint',
  consumer_stalled: 'consumer',
  consumer_lag: 'consumer'
}

function condition (
  { kind, what, why }: Pick<Condition, 'kind' | 'what' | 'why'>,
  about: string,
  page: string
): Condition {
  return {
    alert: alertIdOf(`${THINGS[kind] ?? kind} ${about}`),
    kind,
    about,
    what: what.slice(0, 500),
    why: why.slice(0, 1000),
    path: `/dashboard${page}`
  }
}

/** Who suspended an account by hand need not be told. */
function ofAccount ({ id, name, suspended }: AccountEntry): Condition[] {
  if (suspended === null || !suspended.automatic) return []
  const { reason, note } = suspended
  const what = `Account "${name}" is suspended for its ${reason}`
  const why = `${note ?? reason}. It sends nothing until you resume it: npx jetpost accounts resume ${id}`
  return [condition({ kind: 'account_suspended', what, why }, id, '/operations/reputation')]
}

/** Of the URL only the host: a path may be as good as a password. */
function ofEndpoint ({ id, url, disabled, failingSince }: WebhookEntry): Condition[] {
  const name = `Endpoint ${id} at ${new URL(url).host}`
  const page = `/webhooks/${id}`
  if (disabled !== null) {
    const why = disabled === 'gone'
      ? 'It answered 410 Gone. Jetpost sends nothing to it.'
      : 'All its deliveries failed for five days. Jetpost sends nothing to it.'
    return [condition({ kind: 'endpoint_disabled', what: `${name} is disabled`, why }, id, page)]
  }
  if (failingSince === null) return []
  const why = `No delivery has succeeded since ${failingSince}. After five days, Jetpost disables it.`
  return [condition({ kind: 'endpoint_failing', what: `${name} is failing`, why }, id, page)]
}
