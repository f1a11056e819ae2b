import { DEFAULT_ROUTE } from '#streams/route/facts.ts'
import { hostname } from 'node:os'
import { projections } from '#projections/list.ts'
import { failedPages, waitingDeliveries } from '#src/actions/delivery-view.ts'
import { hasDomain } from '#src/actions/directory.ts'
import { keepInbound } from '#src/actions/inbound.ts'
import { urlOfRoute } from '#src/actions/route.ts'
import { deadline } from '#src/base/errors.ts'
import { newId } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import { isLocalUrl } from '#src/base/mail-links.ts'
import type { Role } from '#src/base/role.ts'
import { createResolver } from '#src/dns/guard.ts'
import { startHeartbeats } from '#src/nats/heartbeats.ts'
import { startInbound, type InboundServer } from '#src/servers/inbound-smtp/server.ts'
import { MailboxDoor } from '#src/servers/mailbox/pages.ts'
import { startCatcher, type Catcher } from '#src/servers/mailbox/server.ts'
import { startInboundWorker } from '#src/workers/inbound/inbound-worker.ts'
import { startAlerts } from '#src/operations/alerts/alerts.ts'
import { createTeller } from '#src/operations/alerts/teller.ts'
import { OperationsService } from '#src/operations/operations.ts'
import { createCheckpoints } from '#src/workers/projector/commit.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { startReactions } from '#src/workers/reactions/reactions.ts'
import { startRecorder } from '#src/workers/reactions/record.ts'
import { startDomainChecks } from '#src/workers/scheduler/domain-checks.ts'
import { startErasures } from '#src/workers/scheduler/erasures.ts'
import { startReconciler } from '#src/workers/scheduler/reconcile.ts'
import { startSuspensions } from '#src/workers/scheduler/suspensions.ts'
import { startUsage } from '#src/workers/scheduler/usage.ts'
import { startSender } from '#src/workers/sender/sender.ts'
import { startWebhooks } from '#src/workers/webhooks/webhook-workers.ts'
import type { AppContext } from './context.ts'

/** How many caught mails the mailbox holds. */
const CAUGHT_MAX = 500

/** Opens the built-in mail catcher, and its door. */
export async function openCatcher (context: AppContext): Promise<Catcher> {
  const { config, services, log, stack } = context
  const catcher = await startCatcher({
    port: config.catcherPort,
    host: '127.0.0.1',
    keepMax: CAUGHT_MAX,
    comeBack: mail => keepInbound(services.factLog, mail),
    log
  })
  stack.defer(() => catcher.stop())
  context.catcher = catcher
  if (isLocalUrl(config.publicUrl)) context.mailboxDoor = new MailboxDoor()
  return catcher
}

/** What a sender needs and what must outlive it: the mail catcher, and its heartbeats. `catcherUrl` = where another
 *  process has the catcher; null = it is here. */
async function openOutbox (context: AppContext, catcherUrl: string | null) {
  const { bus, stack } = context
  const worker = newId('w', Date.now())
  const heartbeats = startHeartbeats(bus, worker)
  stack.defer(() => heartbeats.stop())
  return { catcherUrl: catcherUrl ?? (await openCatcher(context)).url, worker, heartbeats }
}

type Outbox = Awaited<ReturnType<typeof openOutbox>>

function wireSender (context: AppContext, outbox: Outbox): Role {
  const { config, log, services, metrics, repair, timings } = context
  context.sender = startSender({
    ...outbox,
    factLog: services.factLog,
    blobs: services.blobs,
    suppressions: services.suppressions,
    hasDomain: (account, name) => hasDomain(services.directory, account, name),
    isSuspended: account => (services.directory.now.accounts.get(account)?.suspended ?? null) !== null,
    compose: services.compose,
    repair,
    smtpUrl: config.smtpUrl,
    routes: {
      all: () => services.directory.now.routes.values(),
      urlOf: route => urlOfRoute(services, route)
    },
    dns: services.dns,
    mxPort: config.mxPort,
    mxAllowPrivate: config.mxAllowPrivate,
    connections: config.smtpConnections,
    hostname: config.hostname ?? hostname(),
    timings,
    log: log.child({ role: 'sender' }),
    onAttempt: ({ result, class: why, durationMs, route }) =>
      metrics.smtpAttempt(result, why, durationMs / 1000, route ?? DEFAULT_ROUTE)
  })
  return context.sender
}

/** Within docker-compose.yml's stop_grace_period, together with what the HTTP server takes. */
const ROLE_STOP_MS = 25_000

/** Starts the workers of the roles that the settings name. `catcherUrl` as in openOutbox. */
export async function startRoles (context: AppContext, catcherUrl: string | null = null): Promise<void> {
  const { config: { roles }, log, stack } = context
  const working: Role[] = []
  const outbox = roles.has('sender') ? await openOutbox(context, catcherUrl) : null
  // All at once: the sender must not go on taking mail while others finish, and together they stay within what an
  // operator's stop allows.
  stack.defer(async () => void await Promise.all(working.map(role => stopInTime(role, log))))
  if (outbox !== null) working.push(wireSender(context, outbox))
  if (roles.has('webhooks')) working.push(wireWebhooks(context))
  if (roles.has('projector')) working.push(...wireProjector(context))
  if (roles.has('scheduler')) working.push(...wireScheduler(context))
  if (roles.has('inbound')) working.push(await wireInbound(context))
  context.roles.push(...working)
}

/** One that hangs does not keep the others from stopping. */
async function stopInTime (role: Role, log: Log): Promise<void> {
  await deadline(role.stop(), ROLE_STOP_MS, `${role.name} did not stop in time`).catch(error =>
    log.warn({ err: error }, 'role cut off')
  )
}

function wireWebhooks ({ config, log, pool, services, metrics, repair }: AppContext): Role {
  return startWebhooks({
    factLog: services.factLog,
    directory: services.directory,
    vault: services.vault,
    repair,
    mayCallPrivate: services.settings.mayCallPrivate,
    resolve: createResolver(config.dns),
    failedDeliveries: failedPages(pool),
    backlog: waitingDeliveries(pool),
    log: log.child({ role: 'webhooks' }),
    onAttempt: ({ result, durationMs }) => metrics.webhookAttempt(result, durationMs / 1000)
  })
}

/** The projections, and the reactions that follow the same facts. */
function wireProjector (context: AppContext): Role[] {
  const { log, bus, pool, services: { factLog }, servers, repair } = context
  const shared = { bus, pool, log: log.child({ role: 'projector' }) }
  context.projectors = createProjectors({
    ...shared,
    projections,
    rebuild: openRebuilder({ ...shared, ...servers }).rebuild
  })
  return [
    ...context.projectors,
    startReactions({ factLog, repair, log: log.child({ role: 'reactions' }) }),
    startRecorder({ factLog, log: log.child({ role: 'records' }) })
  ]
}

function wireScheduler (context: AppContext): Role[] {
  const { config, log, bus, pool, services, repair } = context
  const reconciler = startReconciler({
    bus,
    pool,
    blobs: services.blobs,
    repair,
    log: log.child({ role: 'scheduler' })
  })
  context.reconcileSoon = () => reconciler.afterLoss()
  return [
    reconciler,
    ...wireAlerts(context),
    startSuspensions({
      services,
      pool,
      rates: { bounces: config.suspendBounces, complaints: config.suspendComplaints },
      log: log.child({ role: 'suspensions' })
    }),
    startDomainChecks({ services, log: log.child({ role: 'domain checks' }) }),
    startUsage({ services, pool, checkpoints: createCheckpoints(bus, pool), log: log.child({ role: 'usage' }) }),
    startErasures({ services, pool, checkpoints: createCheckpoints(bus, pool), log: log.child({ role: 'erasures' }) })
  ]
}

/** None where nobody is to be told. */
function wireAlerts (context: AppContext): Role[] {
  const { config, bus, pool, servers, topology, services, metrics } = context
  if (config.alertTo.length === 0 && config.alertUrl === null) return []
  const log = context.log.child({ role: 'alerts' })
  const sources = new OperationsService({
    bus,
    pool,
    servers,
    retention: topology.retention,
    checks: [],
    roles: config.roles,
    clock: services.factLog.clock,
    log
  })
  context.stack.defer(() => sources.stop())
  context.alerts = startAlerts({
    services,
    sources,
    teller: createTeller({ services, config, log }),
    log,
    onNotice: (channel, result) => metrics.alertNotice(channel, result)
  })
  return [context.alerts]
}

/** The worker that reads mail that came back, and the listener that takes it in. */
async function wireInbound (context: AppContext): Promise<Role> {
  const { services, metrics, repair } = context
  const log = context.log.child({ role: 'inbound' })
  const worker = startInboundWorker({
    factLog: services.factLog,
    tokens: services.tokens,
    repair,
    log,
    onMail: ({ kind, outcome }) => metrics.inboundMail(kind, outcome),
    onReport: (provider, { kind, outcome }) => metrics.relayReport(provider, kind, outcome)
  })
  context.inbound = await openListener(context, log)
  return worker
}

/** null = nothing listens: mail comes to another process, or not at all. */
async function openListener ({ config, services, stack }: AppContext, log: Log): Promise<InboundServer | null> {
  const { inboundPort: port, inboundHost: host, bounceDomain, tlsCert, tlsKey } = config
  if (port === null) return null
  if (bounceDomain === null) {
    log.warn('JETPOST_INBOUND_PORT is set without JETPOST_BOUNCE_DOMAIN: no mail names a return path to this listener')
  }
  const { directory, tokens, factLog } = services
  const inbound = await startInbound({
    port,
    host,
    hostname: config.hostname ?? bounceDomain ?? hostname(),
    bounceDomain,
    tlsCert,
    tlsKey,
    directory,
    tokens,
    factLog,
    log
  })
  stack.defer(() => inbound.stop())
  return inbound
}
