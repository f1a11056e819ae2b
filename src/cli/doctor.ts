import { projections } from '#projections/list.ts'
import { streamPlans } from '#streams/topology.ts'
import { describeConfig, type Config } from '#src/base/config.ts'
import { createLog } from '#src/base/log.ts'
import { literalFault } from '#src/dns/guard.ts'
import { readServers, type ServerUrls } from '#src/embedded/kept.ts'
import type { RunningService } from '#src/embedded/running.ts'
import { api } from '#src/nats/api.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { Oidc, oidcSettingsOf } from '#src/servers/dashboard/oidc.ts'
import { countDeadLetters } from '#src/workers/projector/dead-letters.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { isCreated, liveSet } from '#src/postgres/table-sets.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { readArgs, takeNothing, type CliCommand } from './command.ts'
import { examineMail, withheld, type Check } from './doctor-mail.ts'
import { examineProduction, type ProductionStep } from './doctor-production.ts'
import { readSettings, type CommandSettings } from './settings.ts'
import { paint } from './style.ts'
import { print } from './table.ts'

export const doctor: CliCommand = {
  usage: 'jetpost doctor [--all] [--json]\njetpost doctor --production [--json]',
  details: `  --all         every setting and every check, not only what is set and what is wrong
  --production  each step of docs/production.md, and what must be done for it
  --json        all of it, and the embedded servers' credentials for their owner
  Exit code 1 when a check fails, or a step is not done.`,
  async run (args) {
    const { values: { all, json, production }, positionals } = readArgs(args, {
      all: { type: 'boolean', default: false },
      production: { type: 'boolean', default: false }
    })
    takeNothing(positionals, doctor)
    const known = await readSettings()
    if (production) return showSteps(await examineProduction(known), json)
    const servers = readServers(known.config.dataDir)
    const checks = await examine(known, servers)
    if (checks.some(check => check.ok === false)) process.exitCode = 1
    const settings = settingsOf(known)
    if (json) {
      return void process.stdout.write(
        `${
          JSON.stringify({ version: packageJson.version, service: foundOf(known), settings, checks, servers }, null, 2)
        }\n`
      )
    }
    showService(known)
    showSettings(all ? settings : settings.filter(({ from }) => from !== 'default'), all)
    showChecks(checks, all)
  }
}

interface ShownSetting {
  name: string
  value: string
  means: string
  from: 'environment' | 'service' | 'default'
}

/** Every setting, and where its value comes from: a secret that only the service has is set, too. */
function settingsOf ({ env, missing }: CommandSettings): ShownSetting[] {
  return describeConfig(env).map(setting => {
    if ((process.env[setting.name] ?? '') !== '') return { ...setting, from: 'environment' }
    if (missing.includes(setting.name)) return { ...setting, value: 'set', from: 'service' }
    return { ...setting, from: env[setting.name] === undefined ? 'default' : 'service' }
  })
}

function foundOf ({ service }: CommandSettings): Pick<RunningService, 'pid' | 'url' | 'startedAt'> | null {
  return service === null ? null : { pid: service.pid, url: service.url, startedAt: service.startedAt }
}

function showService ({ service }: CommandSettings): void {
  if (service === null) return
  const { pid, url, startedAt } = service
  console.log(
    `The service runs: ${url}, process ${pid}, since ${startedAt}. Its settings hold where none is set here.\n`
  )
}

function showSettings (settings: ShownSetting[], all: boolean): void {
  if (settings.length === 0) return console.log('No setting is set in the environment: all have their defaults.')
  print(settings.map(({ name, value, from, means }) => ({ setting: name, value, from, means })), false)
  if (!all) console.log(paint('dim', 'All others have their defaults: --all shows them.'))
}

function showSteps (steps: ProductionStep[], json: boolean): void {
  if (steps.some(({ ok }) => !ok)) process.exitCode = 1
  if (json) return print(steps.map(step => ({ ...step })), true)
  print(
    steps.map(({ name, ok, says }, i) => ({ step: `${i + 1}. ${name}`, result: ok ? 'ok' : 'FAILED', says })),
    false
  )
}

/** Those that are well in one line, unless all are wanted. */
function showChecks (checks: Check[], all: boolean): void {
  const shown = all ? checks : checks.filter(({ ok }) => ok !== true)
  console.log('')
  if (shown.length > 0) {
    print(
      shown.map(({ name, ok, says }) => ({ check: name, result: ok === null ? '?' : ok ? 'ok' : 'FAILED', says })),
      false
    )
  }
  const well = checks.filter(check => !shown.includes(check)).map(({ name }) => name)
  if (well.length > 0) console.log(`${paint('green', 'ok')}: ${well.join(', ')}`)
}

async function examine ({ config, missing }: CommandSettings, servers: ServerUrls | null): Promise<Check[]> {
  const natsUrl = config.natsUrl ?? servers?.nats ?? null
  const databaseUrl = config.databaseUrl ?? servers?.postgres ?? null
  const major = Number(process.versions.node.split('.')[0])
  const found = await Promise.all([
    natsUrl === null ? [unasked('nats', missing.includes('NATS_URL'))] : examineNats(config, natsUrl),
    databaseUrl === null ? [unasked('postgres', missing.includes('DATABASE_URL'))] : examinePostgres(databaseUrl),
    examineMail(config, missing),
    examineIssuer(config)
  ])
  const node = { name: 'node', ok: major >= 24, says: `Node ${process.versions.node}` }
  return [node, ...found.flat(), examineTargets(config)]
}

/** Where webhooks may go: anywhere is for trying out, and not for a Jetpost that others reach. */
export function examineTargets (
  { webhookAllowPrivate, publicUrl }: Pick<Config, 'webhookAllowPrivate' | 'publicUrl'>
): Check {
  const name = 'webhooks'
  if (!webhookAllowPrivate) return { name, ok: true, says: 'to public addresses, by https' }
  if (literalFault(new URL(publicUrl).hostname) !== null) return { name, ok: true, says: 'to private addresses, too' }
  const why = "the first account's keys can read what services of this machine and its network answer"
  return { name, ok: null, says: `unset JETPOST_WEBHOOK_ALLOW_PRIVATE, as ${publicUrl} is public: ${why}` }
}

/** Whether the issuer of people's sign-in answers, and is the one that it is called. */
export async function examineIssuer (config: Config): Promise<Check[]> {
  const settings = oidcSettingsOf(config)
  if (settings === undefined) return []
  const fault = await new Oidc(settings, config.publicUrl).fault()
  const says = fault === null ? `${settings.issuer} answers` : `${settings.issuer}: nobody can sign in there: ${fault}`
  return [{ name: 'sign-in', ok: fault === null, says }]
}

function unasked (name: 'nats' | 'postgres', isMissing: boolean): Check {
  const url = name === 'nats' ? 'NATS_URL' : 'DATABASE_URL'
  if (isMissing) return { name, ok: null, says: withheld(url) }
  return { name, ok: null, says: 'embedded: no Jetpost runs on the data folder' }
}

async function examineNats (config: Config, url: string): Promise<Check[]> {
  const bus = await connectBus({ url, creds: config.natsCreds, name: 'jetpost doctor', log: createLog('silent') }, 3000)
    .catch((error: Error) => error)
  if (bus instanceof Error) return [{ name: 'nats', ok: false, says: bus.message }]
  try {
    const { version, max_payload } = bus.nc.info!
    return [
      { name: 'nats', ok: atLeast(version, '2.15'), says: `nats-server ${version}, max_payload ${max_payload} bytes` },
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
    return [{ name: 'postgres', ok: true, says: `PostgreSQL ${found!.version}` }, await examineProjections(pool)]
  } catch (error) {
    return [{ name: 'postgres', ok: false, says: (error as Error).message }]
  } finally {
    await pool.end()
  }
}

async function examineProjections (pool: Pool): Promise<Check> {
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
  const failing = found.filter(({ deadLetters }) => (deadLetters ?? 0) > 0).map(
    ({ name, deadLetters }) => `${name} (${deadLetters})`
  )
  const says = [
    ...(missing.length === 0
      ? []
      : [`built by the next start, or by jetpost migrate before it: ${missing.join(', ')}`]),
    ...(failing.length === 0 ? [] : [`with dead-lettered facts: ${failing.join(', ')}`])
  ]
  return {
    name: 'projections',
    ok: failing.length > 0 ? false : missing.length > 0 ? null : true,
    says: says.join('; ') || 'all there'
  }
}

function atLeast (version: string, least: string): boolean {
  return version.localeCompare(least, 'en', { numeric: true }) >= 0
}
