import { hostname } from 'node:os'
import { domainsInUse } from '#streams/domain/decide.ts'
import { followDirectory, type LiveDirectory } from '#src/actions/directory.ts'
import { openServices } from '#src/actions/open-services.ts'
import { lostSecrets } from '#src/actions/reseal.ts'
import type { Services } from '#src/actions/services.ts'
import { systemClock } from '#src/base/clock.ts'
import type { Config } from '#src/base/config.ts'
import { mailWarnings } from '#src/base/mail-links.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { secretsOf } from '#src/base/secret.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { createCounters, createQuotas } from '#src/nats/counters.ts'
import { ensureTopology, keepTopology, repair } from '#src/nats/ensure.ts'
import { isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import { untilAnswered } from '#src/nats/retry-on-disconnect.ts'
import { createPool } from '#src/postgres/pool.ts'
import { createMetrics } from '#src/servers/ops/metrics.ts'
import type { AppContext, AppOptions } from './context.ts'
import { startTracing } from './tracing.ts'

const DIRECTORY_MS = 60_000
const ELECTIONS_MS = 60_000

/** A step of the start that can be done twice: a cluster that elects leaders, or that starts as well, is waited for.
 *  Throws Complaint when it does not answer within a minute. */
export async function duringElections<T> (step: () => Promise<T>): Promise<T> {
  return await untilAnswered(step, ELECTIONS_MS).catch((error: unknown) => {
    if (!isUnanswered(error) && !(error instanceof LogUnavailable)) throw error
    throw new Complaint(`NATS does not answer: ${asError(error).message}`)
  })
}

/** The servers, the connections to them and the services on top: all that roles and listeners share. */
export async function openContext (
  config: Config,
  options: AppOptions,
  stack: AsyncDisposableStack
): Promise<AppContext> {
  const { log, clock = systemClock, mayCallPrivate, timings = {} } = options
  await startTracing(config, stack, log)
  const { natsUrl, databaseUrl } = options.servers ?? await openServers(config, options, stack)
  const secrets = config.secret ?? await secretsOf(config.dataDir)
  const bus = await connectBus({ url: natsUrl, creds: config.natsCreds, name: `jetpost ${hostname()}`, log })
  stack.defer(() => bus.close())
  const topology = {
    retention: { factsMs: config.factsRetentionMs, contentMs: config.contentRetentionMs },
    replicas: config.natsReplicas,
    log
  }
  await duringElections(() => ensureTopology(bus, topology))
  const streams = keepTopology(bus, topology)
  stack.defer(() => streams.stop())
  const pool = createPool(databaseUrl, log)
  stack.defer(() => pool.end())
  const directory = await openDirectory(bus, log, stack)
  const services = await duringElections(() => openServices({ bus, clock, directory, secrets, config, mayCallPrivate }))
  // The first of two processes has said it.
  if (options.servers === undefined) {
    warnOfMail(config, directory, log)
    warnOfSecrets(services, log)
  }
  const context: AppContext = {
    config: { ...config, secret: secrets },
    log,
    bus,
    pool,
    services,
    topology,
    servers: { natsUrl, natsCreds: config.natsCreds, databaseUrl },
    timings,
    metrics: createMetrics(),
    stack,
    counters: createCounters(bus),
    quotas: createQuotas(bus),
    async repair (plan) {
      const missing = await repair(bus, plan, topology)
      if (missing) context.reconcileSoon()
      return missing
    },
    reconcileSoon () {},
    workers: null,
    catcher: null,
    mailboxDoor: null,
    inbound: null,
    submission: null,
    sender: null,
    projectors: [],
    alerts: null,
    roles: [streams, directory]
  }
  return context
}

/** What harms all mail, once, at the start. */
function warnOfMail (config: Config, { now }: LiveDirectory, log: Log): void {
  if (!config.roles.has('sender')) return
  for (const { what, why } of mailWarnings(config, domainsInUse(now.domains.values()))) log.warn(`${what}. ${why}`)
}

/** Their callbacks and their mail fail, and the rest works: the operator may have to live with it. */
function warnOfSecrets (services: Services, log: Log): void {
  const lost = lostSecrets(services)
  if (lost.length === 0) return
  log.error(
    { count: lost.length, of: lost.slice(0, 10) },
    'JETPOST_SECRET does not open the secrets of these webhooks and domains: put the one that sealed them behind it'
  )
}

/** The URLs of the settings, and an embedded server for each that they leave out. */
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

async function openDirectory (bus: Bus, log: Log, stack: AsyncDisposableStack): Promise<LiveDirectory> {
  const directory = followDirectory(bus, log)
  stack.defer(() => directory.stop())
  const overtaken = directory.overtaken.then(reason => {
    throw new Complaint(`A newer Jetpost has written to this log, so this version cannot start on it: ${reason}.`)
  })
  const caughtUp = duringElections(() => directory.catchUp(DIRECTORY_MS))
  if (await Promise.race([caughtUp, overtaken])) return directory
  throw new Complaint(
    directory.unhealthyReason() ?? 'NATS holds more accounts, keys and domains than could be read within 60 s.'
  )
}
