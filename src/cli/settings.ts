import { resolve } from 'node:path'
import type { Ring } from '#src/base/config-values.ts'
import { readConfig, withoutSecrets, type Config } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { keyIdOf, secretsOf } from '#src/base/secret.ts'
import { readRunning, type RunningService } from '#src/embedded/running.ts'

/** What a command works with: the settings of the running service, and above them those of its own environment. */
export interface CommandSettings {
  config: Config
  /** What `config` was read from. */
  env: Record<string, string | undefined>
  /** The service on the data folder; null = none runs there, or the environment names another. */
  service: RunningService | null
  /** Settings with secrets that the service has and this environment has not. */
  missing: string[]
}

/** Throws a Complaint when settings cannot be used, or when one of `needed` is known to the service alone. */
export async function readSettings (...needed: string[]): Promise<CommandSettings> {
  const own = Object.fromEntries(Object.entries(process.env).filter(([, value]) => value !== ''))
  const { dataDir } = readConfig(own)
  const found = await readRunning(dataDir)
  const service = found !== null && isMeant(found, own) ? found : null
  // One is told by the other where it is not set: what the service has of them means nothing beside one from here.
  const { JETPOST_DATA_DIR: _folder, PORT: port, JETPOST_PUBLIC_URL: url, ...others } = service?.settings ?? {}
  const address = namesUrl(own) ? {} : { ...(port && { PORT: port }), ...(url && { JETPOST_PUBLIC_URL: url }) }
  const env: CommandSettings['env'] = { ...others, ...address, ...own }
  const missing = service?.withheld.filter(name => own[name] === undefined) ?? []
  for (const name of env.NATS_URL === undefined ? needed : [...needed, 'JETPOST_SECRET']) {
    refuseMissing({ missing, service }, name)
  }
  return { config: readConfig(env), env, service, missing }
}

/** With a NATS_URL of another installation the service on the data folder is not the one that is meant. */
function isMeant ({ settings, withheld }: RunningService, own: NodeJS.ProcessEnv): boolean {
  return own.NATS_URL === undefined || withheld.includes('NATS_URL') || settings.NATS_URL === own.NATS_URL
}

function namesUrl (env: NodeJS.ProcessEnv): boolean {
  return env.JETPOST_PUBLIC_URL !== undefined || env.PORT !== undefined
}

/** Commands may run in another folder. */
const PATHS = ['NATS_CREDS', 'JETPOST_TLS_CERT', 'JETPOST_TLS_KEY', 'JETPOST_NATS_BIN']

/** The settings that the service writes down. */
export function settingsToLeave (): Pick<RunningService, 'settings' | 'withheld'> {
  const { plain, withheld } = withoutSecrets(process.env)
  const absolute = PATHS.flatMap(name => (plain[name] === undefined ? [] : [[name, resolve(plain[name])]]))
  return { settings: { ...plain, ...Object.fromEntries(absolute) }, withheld }
}

/** Where programs of this machine reach the API: what the environment says, else where the running service listens.
 *  Throws a Complaint when nothing runs here and nothing is said. */
export function apiUrlOf ({ config, service }: CommandSettings): string {
  if (namesUrl(process.env) || (service === null && config.natsUrl !== null)) return config.publicUrl
  if (service === null) throw new Complaint(`${nothingRuns(config)}, or set JETPOST_PUBLIC_URL to its URL.`)
  return service.url
}

/** Without a full stop: what else helps differs. */
export function nothingRuns ({ dataDir }: Pick<Config, 'dataDir'>): string {
  return `No Jetpost runs on the data folder ${dataDir}: start it there, set JETPOST_DATA_DIR to its folder`
}

/** The installation's secrets, of those the service has, in its order: what is sealed or signed here with another
 *  would be worthless there. Throws a Complaint where the service has its first one in its own environment alone. */
export async function commandSecrets (settings: CommandSettings): Promise<Ring> {
  const { config: { secret, dataDir }, service } = settings
  if (secret === null) refuseMissing(settings, 'JETPOST_SECRET')
  const ring = secret ?? await secretsOf(dataDir)
  if (service?.keyIds === undefined) return ring
  const [newest, ...older] = service.keyIds.map(id => ring.find(one => keyIdOf(one) === id))
  if (newest === undefined) {
    throw new Complaint(
      `The running service (process ${service.pid}) seals with a secret that is not ${
        secret === null ? 'in its data folder' : 'in this JETPOST_SECRET: set the same one here'
      }.`
    )
  }
  return [newest, ...older.filter(one => one !== undefined)]
}

function refuseMissing ({ missing, service }: Pick<CommandSettings, 'missing' | 'service'>, name: string): void {
  if (!missing.includes(name)) return
  throw new Complaint(`The running service (process ${service!.pid}) has a ${name} of its own: set the same one here.`)
}
