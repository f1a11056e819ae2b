import { accept } from './accept.ts'
import type { Bench, BenchContext, OpenServers, Say } from './bench.ts'
import { dashboard } from './dashboard.ts'
import { dkim } from './dkim.ts'
import { endToEnd } from './end-to-end.ts'
import { lists } from './lists.ts'
import { mime } from './mime.ts'
import { rebuild } from './rebuild.ts'
import { sender } from './sender.ts'
import { settingRows, sizesOf, type BenchName } from './settings.ts'
import { submission } from './submission.ts'
import { webhookIsolation } from './webhook-isolation.ts'
import { webhookOutage } from './webhook-outage.ts'
import { webhooks } from './webhooks.ts'

export const benches: { [Name in BenchName]: Bench<Name> } = {
  accept,
  dashboard,
  dkim,
  'end-to-end': endToEnd,
  lists,
  mime,
  rebuild,
  sender,
  submission,
  'webhook-isolation': webhookIsolation,
  'webhook-outage': webhookOutage,
  webhooks
}

export const isBench = (name: string): name is BenchName => Object.hasOwn(benches, name)

interface Surroundings {
  /** With the settings of the benches in it. */
  env: NodeJS.ProcessEnv
  openServers: OpenServers
  say: Say
}

/** Runs one bench by name; resolves to the record of its figures. */
export async function runBench<Name extends BenchName> (
  name: Name,
  { env, openServers, say }: Surroundings
): Promise<Record<string, unknown>> {
  const context: BenchContext<Name> = { sizes: sizesOf(name, env), openServers, say }
  return await benches[name].run(context)
}

/** What `npm run bench -- --help` says. `others` = what is no bench: how it is called, and what it does. */
export function helpText (others: string[][]): string {
  const listed = Object.entries(benches).map(([name, { about }]) => [name, about])
  return [
    'Usage: npm run bench [name…] [-- --record]',
    '',
    'Measures what is named, or everything, on servers of its own; a bench takes a minute or so. --record appends the',
    'figures to test/bench/results.jsonl, to be committed.',
    '',
    'Benches:',
    ...columns(listed),
    '',
    'Others:',
    ...columns(others),
    '',
    'Settings, by environment variables, and their defaults:',
    ...settingRows().flatMap(([name, about, defaults]) => [`  ${name}`, `      ${about}`, `      ${defaults}`])
  ].join('\n')
}

function columns (rows: string[][]): string[] {
  const width = Math.max(...rows.map(([name]) => name!.length))
  return rows.map(([name, about]) => `  ${name!.padEnd(width)}  ${about}`)
}
