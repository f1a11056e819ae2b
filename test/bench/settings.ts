import { didYouMean } from '#src/base/suggest.ts'

export type BenchName =
  | 'accept'
  | 'dashboard'
  | 'dkim'
  | 'end-to-end'
  | 'lists'
  | 'mime'
  | 'rebuild'
  | 'sender'
  | 'submission'
  | 'webhook-isolation'
  | 'webhook-outage'
  | 'webhooks'

/** What a bench measures with, and the least with which it still runs. */
type Size = readonly [full: number, least: number]

interface Setting {
  about: string
  sizes: Partial<Record<BenchName, Size>>
}

/** Every size of every bench. `turnMs` is set by JETPOST_BENCH_TURN_MS. */
const SETTINGS = {
  emails: {
    about: 'emails in the log, or in the tables',
    sizes: { dashboard: [1_000_000, 200], lists: [1_000_000, 1000], rebuild: [1_000_000, 500] }
  },
  messages: {
    about: 'messages that a contender makes, signs or sends in a turn',
    sizes: { dkim: [200, 1], mime: [300, 1], sender: [2500, 20] }
  },
  events: { about: 'webhook events of a turn', sizes: { webhooks: [5000, 20] } },
  endpoints: {
    about: 'webhook endpoints, two an account; dead ones, one an account',
    sizes: { 'webhook-isolation': [1000, 20], 'webhook-outage': [20, 2] }
  },
  deliveries: { about: 'deliveries that each dead endpoint is owed', sizes: { 'webhook-outage': [5000, 20] } },
  perS: {
    about: 'emails or webhook events a second',
    sizes: { rebuild: [200, 20], 'webhook-isolation': [500, 40], 'webhook-outage': [20, 20] }
  },
  rounds: {
    about: 'turns of each contender; the figure is the median or the best of them',
    sizes: {
      accept: [3, 1],
      dkim: [7, 1],
      lists: [200, 3],
      mime: [5, 1],
      sender: [3, 1],
      submission: [3, 1],
      webhooks: [3, 1]
    }
  },
  pages: { about: 'pages of the dashboard that are painted', sizes: { dashboard: [100, 4] } },
  tries: { about: 'paints of each page; the figure is the median', sizes: { dashboard: [7, 1] } },
  deepPage: { about: 'number of the page far down the list', sizes: { lists: [1000, 10] } },
  warm: {
    about: 'messages, events or queries before those that count',
    sizes: { dkim: [100, 1], lists: [20, 1], sender: [500, 5], webhooks: [1500, 5] }
  },
  warmMs: {
    about: 'milliseconds of load before those that count',
    sizes: { 'end-to-end': [4000, 100], 'webhook-isolation': [5000, 100] }
  },
  turnMs: { about: 'milliseconds of a turn', sizes: { accept: [2500, 150], submission: [10_000, 300] } },
  windowMs: { about: 'milliseconds that count', sizes: { 'end-to-end': [12_000, 300] } },
  seconds: { about: 'seconds that count', sizes: { 'webhook-isolation': [60, 1], 'webhook-outage': [1800, 2] } },
  aroundMs: {
    about: 'milliseconds of mail before and after a rebuild that runs beside it',
    sizes: { rebuild: [2000, 100] }
  }
} as const satisfies Record<string, Setting>

type SettingName = keyof typeof SETTINGS

/** The sizes of one bench, by name. */
export type SizesOf<Name extends BenchName> = {
  -readonly [
    Key in SettingName as Name extends keyof (typeof SETTINGS)[Key]['sizes'] ? Key : never
  ]: number
}

const PREFIX = 'JETPOST_BENCH_'
const SCALE = `${PREFIX}SCALE`

const variableOf = (name: string): string => PREFIX + name.replaceAll(/[A-Z]/g, '_$&').toUpperCase()

const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[]

/** What is wrong with the settings of an environment, in a sentence; null = nothing. */
export function wrongSetting (env: NodeJS.ProcessEnv): string | null {
  const names = [SCALE, ...SETTING_NAMES.map(variableOf)].map(name => name.slice(PREFIX.length))
  for (const [name, value = ''] of Object.entries(env).filter(([name]) => name.startsWith(PREFIX))) {
    const rest = name.slice(PREFIX.length)
    if (!names.includes(rest)) {
      return `There is no setting ${name}.${didYouMean(rest, names, near => PREFIX + near)}`
    }
    if (!(Number(value) > 0 && Number.isFinite(Number(value)))) return `${name} must be a number above 0.`
  }
  return null
}

/** What a bench runs with: what the environment sets, and of everything else its default times JETPOST_BENCH_SCALE, but
 *  never less than it needs. */
export function sizesOf<Name extends BenchName> (bench: Name, env: NodeJS.ProcessEnv): SizesOf<Name> {
  const scale = Number(env[SCALE] ?? 1)
  const sizes = SETTING_NAMES.flatMap(name => {
    const size = (SETTINGS[name] as Setting).sizes[bench]
    if (size === undefined) return []
    const [full, least] = size
    return [[name, Number(env[variableOf(name)] ?? Math.max(least, Math.round(full * scale)))]]
  })
  return Object.fromEntries(sizes)
}

/** Name, default and meaning of each environment variable. */
export function settingRows (): string[][] {
  const rows = SETTING_NAMES.map(name => {
    const { about, sizes }: Setting = SETTINGS[name]
    const defaults = Object.entries(sizes).map(([bench, [full]]) => `${bench} ${full.toLocaleString('en')}`)
    return [variableOf(name), about, defaults.join(', ')]
  })
  return [[SCALE, 'part of its default that every size has that is not set', '1'], ...rows]
}
