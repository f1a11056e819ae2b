import { hostname } from 'node:os'
import { projections } from '#projections/list.ts'
import type { ConsumerPlan } from '#streams/topology.ts'
import { failedPages, waitingDeliveries } from '#src/actions/delivery-view.ts'
import type { Desk } from '#src/actions/desk.ts'
import { followDirectory, ownerOf } from '#src/actions/directory.ts'
import { firstStart } from '#src/actions/first-start.ts'
import { keepInbound } from '#src/actions/inbound.ts'
import { openDesk } from '#src/actions/open-desk.ts'
import { LINK_PATH, mintLink, operatorsKey } from '#src/actions/session.ts'
import { systemClock, type Clock } from '#src/base/clock.ts'
import { hasDashboard, type Config } from '#src/base/config.ts'
import { Complaint, deadline } from '#src/base/errors.ts'
import { newId } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { buildHttp } from './http.ts'
import { openOperations, type OpenOperations } from './operations.ts'
import { startCatcher, type Catcher } from '#src/in/catcher/server.ts'
import type { Part } from '#src/in/ops/health.ts'
import { createMetrics, watchGauges, type Metrics } from '#src/in/ops/metrics.ts'
import { startInbound, type Inbound } from '#src/in/smtp/server.ts'
import { createResolver } from '#src/dns/guard.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { createCounters, type Counters } from '#src/nats/counters.ts'
import { ensureTopology, keepTopology, repair, type EnsureOptions } from '#src/nats/ensure.ts'
import { startHeartbeats } from '#src/nats/heartbeats.ts'
import { startInboundWorker } from '#src/out/inbound/run.ts'
import { openBuilder, type Servers } from '#src/out/projector/build.ts'
import { createProjectors, type Projector } from '#src/out/projector/run.ts'
import { createView } from '#src/out/projector/view.ts'
import { startRecorder } from '#src/out/reactions/record.ts'
import { startReactions } from '#src/out/reactions/run.ts'
import { startErasures } from '#src/out/scheduler/erasures.ts'
import { startDomainChecks } from '#src/out/scheduler/domain-checks.ts'
import { startSweep } from '#src/out/scheduler/sweep.ts'
import { startUsage } from '#src/out/scheduler/usage.ts'
import { startSender, type Sender, type SenderTimings } from '#src/out/smtp/run.ts'
import { finishedDeliveries } from '#src/out/webhooks/finished.ts'
import { startWebhooks } from '#src/out/webhooks/run.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { secretOf } from '#src/base/secret-file.ts'

/** A running Jetpost process. */
export interface House {
  /** Where its HTTP server listens. */
  url: string
  /** Port of the inbound listener; null = there is none. */
  inboundPort: number | null
  /** The first account's key when this start made it: shown once, nowhere else to be had. */
  firstKey: string | null
  /** A link into the dashboard, below `url`, that works once within 15 minutes; null where there is none, or no key for it. */
  signInPath: string | null
  /** Whether this process has folded sequence `seq` of CONTROL. */
  hasSeen (seq: number): Promise<boolean>
  /** Takes nothing new, finishes what it holds, stops everything it started. Safe to call twice. */
  stop (): Promise<void>
}

/** Together below docker-compose.yml's stop_grace_period. */
const HTTP_STOP_MS = 6000
const TOOLS_STOP_MS = 3000
const ROLE_STOP_MS = 25_000

/** What a house stands in, beside its settings. */
export interface Surroundings {
  log: Log
  /** Tells an operator what the start is busy with. */
  say (line: string): void
  /** Gives up a start that is not finished. */
  signal?: AbortSignal
  /** Time as actions see it; tests bring their own. */
  clock?: Clock
  /** What tests shorten of the sender's patience. */
  timings?: Partial<SenderTimings>
}

/** Starts the roles asked for, in order; what was started is stopped again when a later step fails. */
export async function openHouse (config: Config, surroundings: Surroundings): Promise<House> {
  const stack = new AsyncDisposableStack()
  try {
    return await furnish(config, surroundings, stack)
  } catch (error) {
    await stack.disposeAsync()
    throw error
  }
}

async function furnish (config: Config, surroundings: Surroundings, stack: AsyncDisposableStack): Promise<House> {
  const { log, clock = systemClock } = surroundings
  const { natsUrl, databaseUrl } = await openServers(config, surroundings, stack)
  const secret = config.secret ?? await secretOf(config.dataDir)
  const bus = await connectBus({ url: natsUrl, creds: config.natsCreds, name: `jetpost ${hostname()}`, log })
  stack.defer(() => bus.close())
  const topology = { retention: { factsMs: config.factsRetentionMs, contentMs: config.contentRetentionMs }, replicas: config.natsReplicas, log }
  await ensureTopology(bus, topology)
  const streams = keepTopology(bus, topology)
  stack.defer(() => streams.stop())
  const pool = createPool(databaseUrl, log)
  stack.defer(() => pool.end())

  const directory = followDirectory(bus, log)
  stack.defer(() => directory.stop())
  if (!await directory.catchUp(60_000)) throw new Complaint(directory.trouble() ?? 'NATS holds more accounts, keys and domains than could be read within 60 s.')
  const desk = await openDesk({ bus, clock, directory, secret, config })
  const firstKey = await firstStart(desk, config)
  // At once, whatever becomes of the rest of this start: nobody can ask for it again.
  if (firstKey !== null) surroundings.say(`Your first API key, shown only now: ${firstKey}`)

  const servers = { natsUrl, natsCreds: config.natsCreds, databaseUrl }
  const shared = { config, log, bus, pool, desk, topology, servers, stack, metrics: createMetrics(), counters: createCounters(bus) }
  const rooms: Rooms = { ...shared, timings: surroundings.timings ?? {}, catcher: null, inbound: null, sender: null, projectors: [], roles: [streams, directory] }
  await startRoles(rooms)
  return await openDoors(rooms, firstKey)
}

/** What the parts of one process share. */
interface Rooms {
  config: Config
  log: Log
  bus: Bus
  pool: Pool
  desk: Desk
  topology: EnsureOptions
  servers: Servers
  timings: Partial<SenderTimings>
  metrics: Metrics
  stack: AsyncDisposableStack
  counters: Counters
  catcher: Catcher | null
  inbound: Inbound | null
  sender: Sender | null
  projectors: Projector[]
  roles: Array<Pick<Role, 'name' | 'trouble'>>
}

async function openServers (config: Config, { log, say, signal }: Surroundings, stack: AsyncDisposableStack): Promise<{ natsUrl: string, databaseUrl: string }> {
  const { dataDir, natsBin, natsPort, postgresPort } = config
  if (config.natsUrl !== null && config.databaseUrl !== null) return { natsUrl: config.natsUrl, databaseUrl: config.databaseUrl }
  const wanted = { nats: config.natsUrl === null, postgres: config.databaseUrl === null }
  const embedded = await startEmbedded({ dataDir, ...wanted, natsBin, natsPort, postgresPort, log, say, signal })
  stack.defer(() => embedded.stop())
  return { natsUrl: config.natsUrl ?? embedded.natsUrl!, databaseUrl: config.databaseUrl ?? embedded.databaseUrl! }
}

async function startRoles (rooms: Rooms): Promise<void> {
  const { config, log, bus, pool, desk, metrics, stack } = rooms
  const working: Role[] = []
  let sweepSoon = () => {}
  const mend = async (plan: ConsumerPlan) => {
    const missing = await repair(bus, plan, rooms.topology)
    if (missing) sweepSoon()
    return missing
  }
  const outbox = config.roles.has('sender') ? await openOutbox(rooms) : null
  // All at once: the sender must not go on taking mail while others finish, and together they stay within what an operator's stop allows.
  stack.defer(async () => void await Promise.all(working.map(role => stopInTime(role, log))))
  if (outbox !== null) {
    rooms.sender = startSender({
      ...outbox,
      ledger: desk.ledger,
      blobs: desk.blobs,
      suppressions: desk.suppressions,
      ownerOf: (domain, expected) => ownerOf(desk.directory, domain, expected),
      compose: desk.compose,
      repair: mend,
      smtpUrl: config.smtpUrl,
      dns: desk.dns,
      mxPort: config.mxPort,
      mxAllowPrivate: config.mxAllowPrivate,
      connections: config.smtpConnections,
      hostname: config.hostname ?? hostname(),
      timings: rooms.timings,
      log: log.child({ role: 'sender' }),
      onAttempt: ({ result, class: why, durationMs }) => metrics.smtpAttempt(result, why, durationMs / 1000)
    })
    working.push(rooms.sender)
  }
  if (config.roles.has('webhooks')) {
    working.push(startWebhooks({
      ledger: desk.ledger,
      directory: desk.directory,
      vault: desk.vault,
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
    rooms.projectors = createProjectors({ ...ground, projections, build: openBuilder({ ...ground, ...rooms.servers }).build })
    const { ledger } = desk
    working.push(
      ...rooms.projectors,
      startReactions({ ledger, repair: mend, log: log.child({ role: 'reactions' }) }),
      startRecorder({ ledger, log: log.child({ role: 'records' }) })
    )
  }
  if (config.roles.has('scheduler')) {
    const sweep = startSweep({ bus, pool, blobs: desk.blobs, repair: mend, log: log.child({ role: 'scheduler' }) })
    sweepSoon = () => sweep.soon()
    const months = startUsage({ desk, pool, view: createView(bus, pool), log: log.child({ role: 'usage' }) })
    working.push(sweep, startDomainChecks({ desk, log: log.child({ role: 'domain checks' }) }), months)
    working.push(startErasures({ desk, pool, view: createView(bus, pool), log: log.child({ role: 'erasures' }) }))
  }
  if (config.roles.has('inbound')) {
    const inboundLog = log.child({ role: 'inbound' })
    working.push(startInboundWorker({ ledger: desk.ledger, tokens: desk.tokens, repair: mend, log: inboundLog, onMail: ({ kind, outcome }) => metrics.inboundMail(kind, outcome) }))
    rooms.inbound = await openInbound(rooms, inboundLog)
  }
  rooms.roles.push(...working)
}

/** null = nothing listens: mail comes to another process, or not at all. */
async function openInbound ({ config, desk, stack }: Rooms, log: Log): Promise<Inbound | null> {
  const { inboundPort: port, inboundHost: host, bounceDomain, tlsCert, tlsKey } = config
  if (port === null) return null
  if (bounceDomain === null) log.warn('JETPOST_INBOUND_PORT is set and JETPOST_BOUNCE_DOMAIN is not: no mail says where to come back to')
  const { directory, tokens, ledger } = desk
  const inbound = await startInbound({ port, host, hostname: config.hostname ?? bounceDomain ?? hostname(), bounceDomain, tlsCert, tlsKey, directory, tokens, ledger, log })
  stack.defer(() => inbound.stop())
  return inbound
}

/** What a sender stands on, and what must outlive it: the catcher, and the sign that it lives. */
async function openOutbox (rooms: Rooms) {
  const { config, log, bus, stack } = rooms
  const catcher = await startCatcher({
    port: config.catcherPort,
    host: '127.0.0.1',
    keepMax: 500,
    comeBack: mail => keepInbound(rooms.desk.ledger, mail),
    log
  })
  stack.defer(() => catcher.stop())
  rooms.catcher = catcher
  const worker = newId('w', Date.now())
  const heartbeats = startHeartbeats(bus, worker)
  stack.defer(() => heartbeats.stop())
  return { catcherUrl: catcher.url, worker, heartbeats }
}

/** One that hangs does not keep the others from stopping. */
async function stopInTime (role: Role, log: Log): Promise<void> {
  await deadline(role.stop(), ROLE_STOP_MS, `${role.name} did not stop in time`).catch(error => log.warn({ err: error }, 'cut off'))
}

async function openDoors (rooms: Rooms, firstKey: string | null): Promise<House> {
  const { config, desk, bus, pool, metrics, counters, log, stack } = rooms
  watchGauges(metrics, {
    appendsPending: () => ({
      REQUESTS: desk.ledger.requests.pending(),
      EMAILS: desk.ledger.emails.pending(),
      WEBHOOKS: desk.ledger.webhooks.pending(),
      INBOUND: desk.ledger.inbound.pending()
    }),
    smtpInFlight: () => rooms.sender?.inFlight() ?? 0,
    limitsInexact: () => counters.inexact(),
    projectionLag: () => Object.fromEntries(rooms.projectors.map(({ projection, lag }) => [projection, lag()])),
    projectionParked: () => Object.fromEntries(rooms.projectors.map(({ projection, parked }) => [projection, parked()]))
  })
  const app = buildHttp({
    api: config.roles.has('api') ? { desk, counters, reads: { pool, view: createView(bus, pool) } } : null,
    publicUrl: config.publicUrl,
    catcher: rooms.catcher,
    parts: parts(rooms),
    operations: openTools(rooms),
    metrics,
    trustProxy: config.trustProxy,
    log
  })
  stack.defer(() => deadline(app.close(), HTTP_STOP_MS, 'HTTP requests did not end in time').catch(error => {
    log.warn({ err: error }, 'cut off')
    app.server.closeAllConnections()
  }))
  const url = await app.listen({ host: config.host, port: config.port }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') throw new Complaint(`Port ${config.port} is taken: set PORT to a free one.`)
    throw error.code === undefined ? error : new Complaint(`HOST ${config.host} with PORT ${config.port} cannot be listened on: ${error.code}.`)
  })
  let stopping: Promise<void> | null = null
  const key = config.roles.has('api') && hasDashboard(config) ? operatorsKey(desk) : null
  const signInPath = key === null ? null : LINK_PATH + mintLink(desk, key)
  return { url, inboundPort: rooms.inbound?.port ?? null, firstKey, signInPath, hasSeen: seq => desk.directory.reached(seq, 0), stop: () => (stopping ??= stack.disposeAsync()) }
}

/** For the operator's pages, where there are any. */
function openTools (rooms: Rooms): OpenOperations | null {
  const { config, bus, pool, servers, topology, desk, stack, log } = rooms
  if (!config.roles.has('api') || !hasDashboard(config)) return null
  const { retention } = topology
  const tools = openOperations({ bus, pool, servers, retention, parts: parts(rooms), roles: config.roles, clock: desk.ledger.clock, log: log.child({ role: 'operations' }) })
  stack.defer(() => deadline(tools.stop(), TOOLS_STOP_MS, 'a rebuild did not end in time').catch(error => log.warn({ err: error }, 'cut off')))
  return tools
}

function parts ({ bus, pool, roles }: Rooms): Part[] {
  return [
    { name: 'nats', check: () => (bus.upSinceMs() === null ? 'not connected' : null) },
    { name: 'postgres', check: async () => await pool.trouble() },
    ...roles.map(role => ({ name: role.name, check: () => role.trouble(), ...('lag' in role ? { tell: () => standingOf(role as Projector) } : {}) }))
  ]
}

function standingOf ({ lag, parked }: Projector): Record<string, unknown> {
  const { facts, seconds } = lag()
  return { lag: { facts, seconds: Math.round(seconds * 1000) / 1000 }, parked: parked() }
}
