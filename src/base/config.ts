import { mistypedNames } from './config-values.ts'
import { Complaint } from './errors.ts'
import type { Config, Environment, Setting } from './config-types.ts'
import { settings } from './settings.ts'

export type { Config } from './config-types.ts'

/** Reads the environment; throws one Complaint that names every fault. */
export function readConfig (environment: Environment): Config {
  // A compose file passes on unset variables as ''.
  const env = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const faults: string[] = []
  const config: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries(settings) as Array<[string, Setting<unknown>]>) {
    const value = env[setting.env]
    try {
      if (value !== undefined) config[name] = setting.parse(value)
      else {config[name] = typeof setting.fallback === 'function'
          ? (setting.fallback as (env: Environment) => unknown)(env)
          : setting.fallback}
    } catch (error) {
      faults.push(`${setting.env} ${(error as Error).message}`)
    }
  }
  if (config.natsUrl != null && config.secret === null) {
    faults.push('JETPOST_SECRET must be set when NATS_URL is (make one with: openssl rand -hex 32)')
  }
  faults.push(...pairFaults(config))
  faults.push(...mistypedNames(Object.keys(env), Object.values(settings).map(({ env }) => env)))
  if (faults.length > 0) throw new Complaint(`These settings cannot be used: ${faults.join('; ')}.`)
  return config as unknown as Config
}

/** Settings that mean nothing without each other. */
function pairFaults (
  { alertTo = [], alertFrom, alertUrl = null, alertSecret, oidcIssuer = null, oidcClientId }: Partial<Config>
): string[] {
  return [
    ...(oidcIssuer !== null && oidcClientId === null
      ? ['JETPOST_OIDC_CLIENT_ID must be set when JETPOST_OIDC_ISSUER is']
      : []),
    ...(alertTo.length > 0 && alertFrom === null ? ['JETPOST_ALERT_FROM must be set when JETPOST_ALERT_TO is'] : []),
    ...(alertUrl !== null && alertSecret === null ? ['JETPOST_ALERT_SECRET must be set when JETPOST_ALERT_URL is'] : [])
  ]
}

/** What of an environment may be written down for others of this user: the settings in it that hold no secret, and the
 *  names of those that are left out. */
export function withoutSecrets (env: Environment): { plain: Record<string, string>, withheld: string[] } {
  const set = Object.values(settings).flatMap(({ env: name, secret }) => {
    const value = env[name] ?? ''
    return value === '' ? [] : [{ name, value, isSecret: holdsSecret(value, secret) }]
  })
  return {
    plain: Object.fromEntries(set.filter(({ isSecret }) => !isSecret).map(({ name, value }) => [name, value])),
    withheld: set.filter(({ isSecret }) => isSecret).map(({ name }) => name)
  }
}

function holdsSecret (value: string, secret: Setting<unknown>['secret']): boolean {
  return secret === 'whole' || (secret === 'login' && /@|password/i.test(value))
}

/** Every setting as `jetpost doctor` shows it: secrets as set or unset. */
export function describeConfig (env: Environment): Array<{ name: string, value: string, means: string }> {
  const config = readConfig(env)
  return Object.entries(settings).map(([name, setting]) => {
    const value: unknown = config[name as keyof Config]
    const shown = setting.secret !== undefined ? (value === null ? 'unset' : 'set') : show(value)
    return { name: setting.env, value: shown, means: setting.means }
  })
}

/** Its links, forms and cookies begin at the root of the host: behind a proxy that strips a path, keys and tokens would
 *  be posted to something else at /dashboard. */
export function hasDashboard ({ publicUrl }: Pick<Config, 'publicUrl'>): boolean {
  return new URL(publicUrl).pathname === '/'
}

function show (value: unknown): string {
  if (value instanceof Set || Array.isArray(value)) return [...value].join(',')
  return value === null ? 'unset' : String(value)
}
