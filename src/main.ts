import { hostname } from 'node:os'
import { projections } from '#projections/list.ts'
import type { ConsumerPlan } from '#streams/topology.ts'
import { failedPages, waitingDeliveries } from '#src/actions/delivery-view.ts'
import type { Services } from '#src/actions/services.ts'
import { followDirectory, ownerOf } from '#src/actions/directory.ts'
import { firstStart } from '#src/actions/first-start.ts'
import { keepInbound } from '#src/actions/inbound.ts'
import { openServices } from '#src/actions/open-services.ts'
import { LINK_PATH, mintLink, operatorsKey } from '#src/actions/session.ts'
import { systemClock, type Clock } from '#src/base/clock.ts'
import { hasDashboard, type Config } from '#src/base/config.ts'
import { Complaint, deadline } from '#src/base/errors.ts'
import { newId } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import type { HealthCheck, Role } from '#src/base/role.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { buildHttp } from './http.ts'
import { Operations } from '#src/operations/operations.ts'
import { startCatcher, type Catcher } from '#src/servers/mailbox/server.ts'
import { createMetrics, watchGauges, type Metrics } from '#src/servers/ops/metrics.ts'
import { startInbound, type InboundServer } from '#src/servers/inbound-smtp/server.ts'
import { createResolver } from '#src/dns/guard.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { createCounters, type Counters } from '#src/nats/counters.ts'
import { ensureTopology, keepTopology, repair, type EnsureOptions } from '#src/nats/ensure.ts'
import { startHeartbeats } from '#src/nats/heartbeats.ts'
import { startInboundWorker } from '#src/workers/inbound/inbound-worker.ts'
import { openRebuilder, type Servers } from '#src/workers/projector/rebuild.ts'
import { createProjectors, type Projector } from '#src/workers/projector/projector.ts'
import { createView } from '#src/workers/projector/view.ts'
import { startRecorder } from '#src/workers/reactions/record.ts'
import { startReactions } from '#src/workers/reactions/reactions.ts'
import { startErasures } from '#src/workers/scheduler/erasures.ts'
import { startDomainChecks } from '#src/workers/scheduler/domain-checks.ts'
import { startReconciler } from '#src/workers/scheduler/reconcile.ts'
import { startUsage } from '#src/workers/scheduler/usage.ts'
import { startSender, type Sender, type SenderTimings } from '#src/workers/sender/sender.ts'
import { finishedDeliveries } from '#src/workers/webhooks/done-check.ts'
import { startWebhooks } from '#src/workers/webhooks/webhook-workers.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { secretOf } from '#src/base/secret-file.ts'

/** A running Jetpost process. */
export interface App {
  /** Where its HTTP server listens. */
  url: string
  /** Port of the inbound listener; null = there is none. */
  inboundPort: number | null
  /** The first account's key when this start made it: shown once, nowhere else to be had. */
  firstKey: string | null
  /** A link into the dashboard, below `url`, that works once within 15 minutes; null where there is none, or no key for
   *  it. */
  signInPath: string | null
  /** Whether this process has folded sequence `seq` of CONTROL. */
  hasSeen(seq: number): Promise<boolean>
  /** Takes nothing new, finishes what it holds, stops everything it started. Safe to call twice. */
  stop(): Promise<void>
}

/** Together below docker-compose.yml's stop_grace_period. */
const HTTP_STOP_MS = 6000
const TOOLS_STOP_MS = 3000
const ROLE_STOP_MS = 25_000

/** What an app stands in, beside its settings. */
export interface AppOptions {
  log: Log
  /** Tells an operator what the start is busy with. */
  say(line: string): void
  /** Gives up a start that is not finished. */
  signal?: AbortSignal
  /** Time as actions see it; tests bring their own. */
  clock?: Clock
  /** What tests shorten of the sender's patience. */
  timings?: Partial<SenderTimings>
}

/** Starts the roles asked for, in order; what was started is stopped again when a later step fails. */
export async function startApp (config: Config, options: AppOptions): Promise<App> {
  const stack = new AsyncDisposableStack()
  try {
    return await wire(config, options, stack)
  } catch (error) {
    await stack.disposeAsync()
    throw error
  }
}

async function wire (config: Config, options: AppOptions, stack: AsyncDisposableStack): Promise<App> {
  const { log, clock = systemClock } = options
  const { natsUrl, databaseUrl } = await openServers(config, options, stack)
  const secret = config.secret ?? await secretOf(config.dataDir)
  const bus = await connectBus({ url: natsUrl, creds: config.natsCreds, name: `jetpost ${hostname()}`, log })
  stack.defer(() => bus.close())
  const topology = {
    retention: { factsMs: config.factsRetentionMs, contentMs: config.contentRetentionMs },
    replicas: config.natsReplicas,
    log
  }
  await ensureTopology(bus, topology)
  const streams = keepTopology(bus, topology)
  stack.defer(() => streams.stop())
  const pool = createPool(databaseUrl, log)
  stack.defer(() => pool.end())

  const directory = followDirectory(bus, log)
  stack.defer(() => directory.stop())
  if (!await directory.catchUp(60_000)) {
    throw new Complaint(
      directory.unhealthyReason() ?? 'NATS holds more accounts, keys and domains than could be read within 60 s.'
    )
  }
  const services = await openServices({ bus, clock, directory, secret, config })
  const firstKey = await firstStart(services, config)
  // At once, whatever becomes of the rest of this start: nobody can ask for it again.
  if (firstKey !== null) options.say(`Your first API key, shown only now: ${firstKey}`)

  const servers = { natsUrl, natsCreds: config.natsCreds, databaseUrl }
  const shared = {
    config,
    log,
    bus,
    pool,
    services,
    topology,
    servers,
    stack,
    metrics: createMetrics(),
    counters: createCounters(bus)
  }
  const context: AppContext = {
    ...shared,
    timings: options.timings ?? {},
    catcher: null,
    inbound: null,
    sender: null,
    projectors: [],
    roles: [streams, directory]
  }
  await startRoles(context)
  return await openDoors(context, firstKey)
}

/** What the parts of one process share. */
interface AppContext {
  config: Config
  log: Log
  bus: Bus
  pool: Pool
  services: Services
  topology: EnsureOptions
  servers: Servers
  timings: Partial<SenderTimings>
  metrics: Metrics
  stack: AsyncDisposableStack
  counters: Counters
  catcher: Catcher | null
  inbound: InboundServer | null
  sender: Sender | null
  projectors: Projector[]
  roles: Array<Pick<Role, 'name' | 'unhealthyReason'>>
}

async function openServers (
  config: Config,
  { log, say, signal }: AppOptions,
  stack: AsyncDisposableStack
): Promise<{ natsUrl: string, databaseUrl: string }> {
  const { dataDir, natsBin, natsPort, postgresPort } = config
  if (config.natsUrl !== null && config.databaseUrl !== null) {
    return { natsUrl: config.natsUrl, databaseUrl: config.databaseUrl }
  }
  const wanted = { nats: config.natsUrl === null, postgres: config.databaseUrl === null }
  const embedded = await startEmbedded({ dataDir, ...wanted, natsBin, natsPort, postgresPort, log, say, signal })
  stack.defer(() => embedded.stop())
  return { natsUrl: config.natsUrl ?? embedded.natsUrl!, databaseUrl: config.databaseUrl ?? embedded.databaseUrl! }
}

async function startRoles (context: AppContext): Promise<void> {
  const { config, log, bus, pool, services, metrics, stack } = context
  const working: Role[] = []
  let reconcileSoon = () => {}
  const mend = async (plan: ConsumerPlan) => {
    const missing = await repair(bus, plan, context.topology)
    if (missing) reconcileSoon()
    return missing
  }
  const outbox = config.roles.has('sender') ? await openOutbox(context) : null
  // All at once: the sender must not go on taking mail while others finish, and together they stay within what an
  // operator's stop allows.
  stack.defer(async () => void await Promise.all(working.map(role => stopInTime(role, log))))
  if (outbox !== null) {
    context.sender = startSender({
      ...outbox,
      appenders: services.appenders,
      blobs: services.blobs,
      suppressions: services.suppressions,
      ownerOf: (domain, expected) => ownerOf(services.directory, domain, expected),
      compose: services.compose,
      repair: mend,
      smtpUrl: config.smtpUrl,
      dns: services.dns,
      mxPort: config.mxPort,
      mxAllowPrivate: config.mxAllowPrivate,
      connections: config.smtpConnections,
      hostname: config.hostname ?? hostname(),
      timings: context.timings,
      log: log.child({ role: 'sender' }),
      onAttempt: ({ result, class: why, durationMs }) => metrics.smtpAttempt(result, why, durationMs / 1000)
    })
    working.push(context.sender)
  }
  if (config.roles.has('webhooks')) {
    working.push(startWebhooks({
      appenders: services.appenders,
      directory: services.directory,
      vault: services.vault,
      repair: mend,
      allowPrivate: config.webhookAllowPrivate,
      resolve: createResolver(config.dns),
      isDone: finishedDeliveries(pool),
      failedDeliveries: failedPages(pool),
      backlog: waitingDeliveries(pool),
      log: log.child({ role: 'webhooks' }),
      onAttempt: ({ result, durationMs }) => metrics.webhookAttempt(result, durationMs / 1000)
    }))
  }
  if (config.roles.has('projector')) {
    const ground = { bus, pool, log: log.child({ role: 'projector' }) }
    context.projectors = createProjectors({
      ...ground,
      projections,
      build: openRebuilder({ ...ground, ...context.servers }).build
    })
    const { appenders } = services
    working.push(
      ...context.projectors,
      startReactions({ appenders, repair: mend, log: log.child({ role: 'reactions' }) }),
      startRecorder({ appenders, log: log.child({ role: 'records' }) })
    )
  }
  if (config.roles.has('scheduler')) {
    const reconciler = startReconciler({
      bus,
      pool,
      blobs: services.blobs,
      repair: mend,
      log: log.child({ role: 'scheduler' })
    })
    reconcileSoon = () => reconciler.afterLoss()
    const months = startUsage({ services, pool, view: createView(bus, pool), log: log.child({ role: 'usage' }) })
    working.push(reconciler, startDomainChecks({ services, log: log.child({ role: 'domain checks' }) }), months)
    working.push(startErasures({ services, pool, view: createView(bus, pool), log: log.child({ role: 'erasures' }) }))
  }
  if (config.roles.has('inbound')) {
    const inboundLog = log.child({ role: 'inbound' })
    working.push(
      startInboundWorker({
        appenders: services.appenders,
        tokens: services.tokens,
        repair: mend,
        log: inboundLog,
        onMail: ({ kind, outcome }) => metrics.inboundMail(kind, outcome)
      })
    )
    context.inbound = await openInbound(context, inboundLog)
  }
  context.roles.push(...working)
}

/** null = nothing listens: mail comes to another process, or not at all. */
async function openInbound ({ config, services, stack }: AppContext, log: Log): Promise<InboundServer | null> {
  const { inboundPort: port, inboundHost: host, bounceDomain, tlsCert, tlsKey } = config
  if (port === null) return null
  if (bounceDomain === null) {
    log.warn('JETPOST_INBOUND_PORT is set and JETPOST_BOUNCE_DOMAIN is not: no mail says where to come back to')
  }
  const { directory, tokens, appenders } = services
  const inbound = await startInbound({
    port,
    host,
    hostname: config.hostname ?? bounceDomain ?? hostname(),
    bounceDomain,
    tlsCert,
    tlsKey,
    directory,
    tokens,
    appenders,
    log
  })
  stack.defer(() => inbound.stop())
  return inbound
}

/** What a sender stands on, and what must outlive it: the catcher, and the sign that it lives. */
async function openOutbox (context: AppContext) {
  const { config, log, bus, stack } = context
  const catcher = await startCatcher({
    port: config.catcherPort,
    host: '127.0.0.1',
    keepMax: 500,
    comeBack: mail => keepInbound(context.services.appenders, mail),
    log
  })
  stack.defer(() => catcher.stop())
  context.catcher = catcher
  const worker = newId('w', Date.now())
  const heartbeats = startHeartbeats(bus, worker)
  stack.defer(() => heartbeats.stop())
  return { catcherUrl: catcher.url, worker, heartbeats }
}

/** One that hangs does not keep the others from stopping. */
async function stopInTime (role: Role, log: Log): Promise<void> {
  await deadline(role.stop(), ROLE_STOP_MS, `${role.name} did not stop in time`).catch(error =>
    log.warn({ err: error }, 'cut off')
  )
}

async function openDoors (context: AppContext, firstKey: string | null): Promise<App> {
  const { config, services, bus, pool, metrics, counters, log, stack } = context
  watchGauges(metrics, {
    appendsPending: () => ({
      REQUESTS: services.appenders.requests.pending(),
      EMAILS: services.appenders.emails.pending(),
      WEBHOOKS: services.appenders.webhooks.pending(),
      INBOUND: services.appenders.inbound.pending()
    }),
    smtpInFlight: () => context.sender?.inFlight() ?? 0,
    limitsInexact: () => counters.inexact(),
    projectionLag: () => Object.fromEntries(context.projectors.map(({ projection, lag }) => [projection, lag()])),
    projectionDeadLetters: () =>
      Object.fromEntries(context.projectors.map(({ projection, deadLetters }) => [projection, deadLetters()]))
  })
  const http = buildHttp({
    api: config.roles.has('api') ? { services, counters, reads: { pool, view: createView(bus, pool) } } : null,
    publicUrl: config.publicUrl,
    catcher: context.catcher,
    checks: checksOf(context),
    operations: openTools(context),
    metrics,
    trustProxy: config.trustProxy,
    log
  })
  stack.defer(() =>
    deadline(http.close(), HTTP_STOP_MS, 'HTTP requests did not end in time').catch(error => {
      log.warn({ err: error }, 'cut off')
      http.server.closeAllConnections()
    })
  )
  const url = await http.listen({ host: config.host, port: config.port }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') throw new Complaint(`Port ${config.port} is taken: set PORT to a free one.`)
    throw error.code === undefined
      ? error
      : new Complaint(`HOST ${config.host} with PORT ${config.port} cannot be listened on: ${error.code}.`)
  })
  let stopping: Promise<void> | null = null
  const key = config.roles.has('api') && hasDashboard(config) ? operatorsKey(services) : null
  const signInPath = key === null ? null : LINK_PATH + mintLink(services, key)
  return {
    url,
    inboundPort: context.inbound?.port ?? null,
    firstKey,
    signInPath,
    hasSeen: seq => services.directory.reached(seq, 0),
    stop: () => (stopping ??= stack.disposeAsync())
  }
}

/** For the operator's pages, where there are any. */
function openTools (context: AppContext): Operations | null {
  const { config, bus, pool, servers, topology, services, stack, log } = context
  if (!config.roles.has('api') || !hasDashboard(config)) return null
  const { retention } = topology
  const tools = new Operations({
    bus,
    pool,
    servers,
    retention,
    checks: checksOf(context),
    roles: config.roles,
    clock: services.appenders.clock,
    log: log.child({ role: 'operations' })
  })
  stack.defer(() =>
    deadline(tools.stop(), TOOLS_STOP_MS, 'a rebuild did not end in time').catch(error =>
      log.warn({ err: error }, 'cut off')
    )
  )
  return tools
}

function checksOf ({ bus, pool, roles }: AppContext): HealthCheck[] {
  return [
    { name: 'nats', check: () => (bus.upSinceMs() === null ? 'not connected' : null) },
    { name: 'postgres', check: async () => await pool.unhealthyReason() },
    ...roles.map(role => ({
      name: role.name,
      check: () => role.unhealthyReason(),
      ...('lag' in role ? { details: () => standingOf(role as Projector) } : {})
    }))
  ]
}

function standingOf ({ lag, deadLetters }: Projector): Record<string, unknown> {
  const { facts, seconds } = lag()
  return { lag: { facts, seconds: Math.round(seconds * 1000) / 1000 }, deadLetters: deadLetters() }
}
