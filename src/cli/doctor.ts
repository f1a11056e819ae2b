import { projections } from '#projections/list.ts'
import { streamPlans } from '#streams/topology.ts'
import { describeConfig, readConfig, type Config } from '#src/base/config.ts'
import { createLog } from '#src/base/log.ts'
import { readServers, type ServerUrls } from '#src/embedded/kept.ts'
import { api } from '#src/nats/api.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { countDeadLetters } from '#src/workers/projector/dead-letters.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { isCreated, liveSet } from '#src/postgres/table-sets.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { print, readArgs, takeNothing, type Command } from './command.ts'
import { examineMail, type Check } from './doctor-mail.ts'

export const doctor: Command = {
  usage: 'jetpost doctor [--json]',
  means:
    "settings as understood, and whether what they point to answers; --json adds the embedded servers' credentials for their owner",
  async run (args) {
    const { values: { json }, positionals } = readArgs(args, {})
    takeNothing(positionals, doctor.usage)
    const config = readConfig(process.env)
    const servers = readServers(config.dataDir)
    const checks = await examine(config, servers)
    if (checks.some(check => check.ok === false)) process.exitCode = 1
    const settings = describeConfig(process.env)
    if (json) {
      return void process.stdout.write(
        `${JSON.stringify({ version: packageJson.version, settings, checks, servers }, null, 2)}\n`
      )
    }
    print(settings.map(({ name, value, means }) => ({ setting: name, value, means })), false)
    process.stdout.write('\n')
    print(
      checks.map(({ name, ok, says }) => ({ check: name, result: ok === null ? '?' : ok ? 'ok' : 'FAILED', says })),
      false
    )
  }
}

async function examine (config: Config, servers: ServerUrls | null): Promise<Check[]> {
  const natsUrl = config.natsUrl ?? servers?.nats ?? null
  const databaseUrl = config.databaseUrl ?? servers?.postgres ?? null
  const major = Number(process.versions.node.split('.')[0])
  const found = await Promise.all([
    natsUrl === null ? [notRunning('nats')] : examineNats(config, natsUrl),
    databaseUrl === null ? [notRunning('postgres')] : examinePostgres(databaseUrl),
    examineMail(config)
  ])
  return [{ name: 'node', ok: major >= 24, says: `Node ${process.versions.node}` }, ...found.flat()]
}

function notRunning (name: string): Check {
  return { name, ok: null, says: 'embedded, and no Jetpost runs in the data folder' }
}

async function examineNats (config: Config, url: string): Promise<Check[]> {
  const bus = await connectBus({ url, creds: config.natsCreds, name: 'jetpost doctor', log: createLog('silent') }, 3000)
    .catch((error: Error) => error)
  if (bus instanceof Error) return [{ name: 'nats', ok: false, says: bus.message }]
  try {
    const { version, max_payload } = bus.nc.info!
    return [
      { name: 'nats', ok: atLeast(version, '2.14'), says: `nats-server ${version}, max_payload ${max_payload} bytes` },
      await examineStreams(bus, config),
      // The embedded server's is ours; another's is not shown to clients.
      config.natsUrl === null
        ? { name: 'sync_interval', ok: true, says: 'always' }
        : {
          name: 'sync_interval',
          ok: null,
          says: "unknown to clients: the server's jetstream block needs sync_interval: always"
        }
    ]
  } finally {
    await bus.close()
  }
}

async function examineStreams (bus: Bus, config: Config): Promise<Check> {
  try {
    const { streams } = await api<{ streams: string[] | null }>(bus, 'STREAM.NAMES', {})
    const planned = streamPlans({ factsMs: config.factsRetentionMs, contentMs: config.contentRetentionMs }).map(plan =>
      plan.name
    )
    const missing = planned.filter(name => !(streams ?? []).includes(name))
    const says = missing.length === 0 ? 'all there' : `missing until the next start: ${missing.join(', ')}`
    return { name: 'streams', ok: missing.length === 0, says }
  } catch (error) {
    return { name: 'streams', ok: false, says: (error as Error).message }
  }
}

async function examinePostgres (url: string): Promise<Check[]> {
  const pool = createPool(url, createLog('silent'))
  try {
    const { rows: [found] } = await pool.query<{ version: string }>(
      "select current_setting('server_version') as version"
    )
    return [{ name: 'postgres', ok: true, says: `PostgreSQL ${found!.version}` }, await examineViews(pool)]
  } catch (error) {
    return [{ name: 'postgres', ok: false, says: (error as Error).message }]
  } finally {
    await pool.end()
  }
}

async function examineViews (pool: Pool): Promise<Check> {
  const found = await Promise.all(
    Object.values(projections).map(async projection => {
      const set = liveSet(projection)
      return {
        name: projection.name,
        deadLetters: await isCreated(pool, set) ? await countDeadLetters(pool, set) : null
      }
    })
  )
  const missing = found.filter(({ deadLetters }) => deadLetters === null).map(({ name }) => name)
  const deadLetters = found.filter(view => (view.deadLetters ?? 0) > 0).map(view =>
    `${view.name} (${view.deadLetters})`
  )
  const says = [
    ...(missing.length === 0
      ? []
      : [`made from the log at the next start, or by jetpost migrate before: ${missing.join(', ')}`]),
    ...(deadLetters.length === 0 ? [] : [`with facts that could not be written: ${deadLetters.join(', ')}`])
  ]
  return {
    name: 'views',
    ok: deadLetters.length > 0 ? false : missing.length > 0 ? null : true,
    says: says.join('; ') || 'all there'
  }
}

function atLeast (version: string, least: string): boolean {
  return version.localeCompare(least, 'en', { numeric: true }) >= 0
}
