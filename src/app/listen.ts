import { consumerPlans } from '#streams/topology.ts'
import { hasDashboard, type Config } from '#src/base/config.ts'
import { Complaint, deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { ROLE_GRACE_MS, SERVER_GRACE_MS, type HealthCheck } from '#src/base/role.ts'
import { listenFault } from '#src/embedded/ports.ts'
import { createResolver } from '#src/dns/guard.ts'
import { buildHttp } from '#src/http.ts'
import type { Bus } from '#src/nats/connect.ts'
import { consumerStatus } from '#src/nats/status.ts'
import { OperationsService } from '#src/operations/operations.ts'
import { cachedFor } from '#src/operations/report.ts'
import { oidcSettingsOf } from '#src/servers/dashboard/oidc.ts'
import { watchGauges } from '#src/servers/ops/metrics.ts'
import type { Projector } from '#src/workers/projector/projector.ts'
import { createCheckpoints } from '#src/workers/projector/commit.ts'
import { readTurns } from '#src/postgres/reads.ts'
import type { AppContext } from './context.ts'

/** As long as accepting waits for the log; together with what the roles take, within docker-compose.yml's
 *  stop_grace_period. */
const HTTP_STOP_MS = 14_000
const OPERATIONS_STOP_MS = 3000
/** Anybody may ask for the metrics, at any rate. */
const BACKLOG_SHARED_MS = 1000

/** Starts the HTTP server; resolves to its URL. */
export async function listen (context: AppContext): Promise<string> {
  const { config, services, bus, pool, counters, quotas, metrics, workers, log, stack } = context
  watchApp(context)
  const http = buildHttp({
    api: config.roles.has('api')
      ? {
        services,
        counters,
        quotas,
        reads: { pool, checkpoints: createCheckpoints(bus, pool), turns: readTurns() },
        resolve: createResolver(config.dns)
      }
      : null,
    publicUrl: config.publicUrl,
    fetchText: context.fetchText,
    oidc: oidcSettingsOf(config),
    catcher: context.catcher,
    mailboxDoor: context.mailboxDoor,
    checks: checksOf(context),
    operations: openDashboardOperations(context),
    metrics,
    otherMetrics: workers === null ? undefined : async () => await workers.metrics(),
    trustProxy: config.trustProxy,
    log
  })
  // Both doors at once: one after the other they would take longer than an operator's stop allows.
  stack.defer(async () => void await Promise.all([closeHttp(http, log), context.submission?.stop()]))
  return await http.listen({ host: config.host, port: config.port }).catch(error => {
    throw listenError(config, error)
  })
}

async function closeHttp (http: ReturnType<typeof buildHttp>, log: Log): Promise<void> {
  await deadline(http.close(), HTTP_STOP_MS, 'HTTP requests did not end in time').catch(error => {
    log.warn({ err: error }, 'HTTP server cut off')
    http.server.closeAllConnections()
  })
}

/** Refuses a port that is taken before anything else is begun: a first start that fails later has shown its key, and a
 *  terminal has scrolled. */
export async function refuseTakenPort (config: Config): Promise<void> {
  if (config.port === 0) return
  const fault = await listenFault(config.port, config.host)
  if (fault !== null) throw listenError(config, fault)
}

function listenError ({ host, port }: Config, error: NodeJS.ErrnoException): Error {
  if (error.code === 'EADDRINUSE') return new Complaint(`Port ${port} is taken: set PORT to a free one.`)
  if (error.code === undefined) return error
  return new Complaint(`HOST ${host} with PORT ${port} cannot be listened on: ${error.code}.`)
}

/** Gauges of what is running by now. */
export function watchApp (context: AppContext): void {
  const { config, bus, metrics, services: { factLog }, sender, submission, counters, projectors, alerts } = context
  const backlog = cachedFor(BACKLOG_SHARED_MS, async () => await consumerBacklog(bus))
  watchGauges(metrics, {
    appendsPending: () => ({
      REQUESTS: factLog.pending('REQUESTS'),
      EMAILS: factLog.pending('EMAILS'),
      WEBHOOKS: factLog.pending('WEBHOOKS'),
      INBOUND: factLog.pending('INBOUND')
    }),
    smtpInFlight: () => sender?.inFlight() ?? 0,
    submissionConnections: () => submission?.connections() ?? 0,
    limitsInexact: () => counters.inexact(),
    projectionLag: () => Object.fromEntries(projectors.map(({ projection, lag }) => [projection, lag()])),
    alertsOpen: () => alerts?.open() ?? {},
    // One role tells it, or every process would count the same messages.
    consumerBacklog: async () => (config.roles.has('scheduler') ? await backlog() : {}),
    projectionDeadLetters: () =>
      Object.fromEntries(projectors.map(({ projection, deadLetters }) => [projection, deadLetters()]))
  })
}

async function consumerBacklog (bus: Bus): Promise<Record<string, number>> {
  const asked = Object.values(consumerPlans).map(async plan => await consumerStatus(bus, plan))
  const known = (await Promise.allSettled(asked)).flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
  return Object.fromEntries(known.map(({ name, pending, ackPending }) => [name, pending + ackPending]))
}

/** For the operator's pages; null where there are none. */
function openDashboardOperations (context: AppContext): OperationsService | null {
  const { config, bus, pool, servers, topology, services, stack, log } = context
  if (!config.roles.has('api') || !hasDashboard(config)) return null
  const operations = new OperationsService({
    bus,
    pool,
    servers,
    retention: topology.retention,
    checks: checksOf(context),
    roles: config.roles,
    clock: services.factLog.clock,
    log: log.child({ role: 'operations' })
  })
  stack.defer(() =>
    deadline(operations.stop(), OPERATIONS_STOP_MS, 'a rebuild did not end in time').catch(error =>
      log.warn({ err: error }, 'rebuild cut off')
    )
  )
  return operations
}

/** What /readyz asks. */
export function checksOf ({ bus, pool, roles, workers }: AppContext): HealthCheck[] {
  return [
    { name: 'nats', graceMs: SERVER_GRACE_MS, check: () => (bus.upSinceMs() === null ? 'not connected' : null) },
    { name: 'postgres', graceMs: SERVER_GRACE_MS, check: async () => await pool.unhealthyReason() },
    ...roles.map(role => ({
      name: role.name,
      graceMs: ROLE_GRACE_MS,
      check: () => role.unhealthyReason(),
      ...('lag' in role ? { details: () => lagOf(role as Projector) } : {})
    })),
    ...(workers?.checks() ?? [])
  ]
}

function lagOf ({ lag, deadLetters, rebuilding }: Projector): Record<string, unknown> {
  const { facts, seconds } = lag()
  const progress = rebuilding()
  return {
    lag: { facts, seconds: Math.round(seconds * 1000) / 1000 },
    deadLetters: deadLetters(),
    ...(progress === null ? {} : { rebuilding: progress })
  }
}
