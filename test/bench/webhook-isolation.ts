import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, BenchContext } from './bench.ts'
import { startHelper, type Helper } from './child.ts'
import { median, ms, print, printNoise, ratio } from './report.ts'
import { foreignCores, noiseNow, usageOfOne } from './usage.ts'
import type { WebhookRoleQuestion } from './webhook-role-child.ts'
import type { WebhookOutcome, WebhookWorldQuestion } from './webhook-world-child.ts'

const ENDPOINTS_AN_ACCOUNT = 2
const DEAD_ONE_IN = 10
const SAMPLE_MS = 500
const SETTLE_MS = 60_000
const RUN_ROWS = [
  'p50Ms',
  'p99Ms',
  'worstMs',
  'logP50Ms',
  'logP99Ms',
  'expected',
  'lost',
  'doubled',
  'toOthers',
  'refused',
  'rssFirstMib',
  'rssLastMib',
  'roleCores',
  'natsCores',
  'foreignCores'
]

interface Run extends WebhookOutcome {
  rssFirstMib: number
  rssLastMib: number
  roleCores: number
  natsCores: number
  foreignCores: number
}

/** What a tenth of dead endpoints costs the living: the same events with none dead and with a tenth that refuse, hang,
 *  answer 500 or cut the line from one moment on; times from fact to callback, each endpoint at an origin of its own,
 *  the contract's gaps and timeout. */
export const webhookIsolation: Bench<'webhook-isolation'> = {
  about: 'what a tenth of dead webhook endpoints costs the living',
  rows: () => [...['fine', 'dying'].flatMap(run => RUN_ROWS.map(row => `${run}.${row}`)), 'slower.p50', 'slower.p99'],
  async run (context) {
    const fine = await run(context, false)
    const dying = await run(context, true)
    return report(context, fine, dying)
  }
}

function report (
  { sizes: { endpoints, perS, seconds }, say }: BenchContext<'webhook-isolation'>,
  fine: Run,
  dying: Run
): Record<string, unknown> {
  const both = (show: (run: Run) => string) => [show(fine), show(dying)]
  const slower = { p50: dying.p50Ms / fine.p50Ms, p99: dying.p99Ms / fine.p99Ms }
  print(
    say,
    `Webhooks, living and dead: ${endpoints} endpoints of ${endpoints / ENDPOINTS_AN_ACCOUNT} accounts, ` +
      `${perS} events a second for ${seconds} s, from fact to callback on those that live in both runs`,
    [
      ['', 'none dead', `one in ${DEAD_ONE_IN} dead`, 'ratio', 'goal'],
      ['p50 ms', ms(fine.p50Ms), ms(dying.p50Ms), ratio(slower.p50), ''],
      ['p99 ms', ms(fine.p99Ms), ms(dying.p99Ms), ratio(slower.p99), '≤ 1.5'],
      ['worst ms', ms(fine.worstMs), ms(dying.worstMs), '', ''],
      [
        'of it until the fact is durable: p50, p99 ms',
        ...both(run => `${ms(run.logP50Ms)}, ${ms(run.logP99Ms)}`),
        '',
        ''
      ],
      ['callbacks owed to the living', ...both(run => String(run.expected)), '', ''],
      ['lost, doubled', ...both(run => `${run.lost}, ${run.doubled}`), '', '0 lost'],
      ['requests that came to the others', ...both(run => String(run.toOthers)), '', ''],
      ['RSS of the role, MiB: first, last third', ...both(run => `${run.rssFirstMib}, ${run.rssLastMib}`), '', 'flat'],
      ['cores: role, nats-server', ...both(run => `${ms(run.roleCores)}, ${ms(run.natsCores)}`), '', '']
    ]
  )
  printNoise(say, fine.foreignCores, dying.foreignCores)
  return { fine, dying, slower }
}

async function run (
  { sizes: { endpoints, perS, seconds, warmMs }, openServers }: BenchContext<'webhook-isolation'>,
  dying: boolean
): Promise<Run> {
  const { natsUrl, natsPid, stop } = await openServers({ postgres: false })
  const world = startHelper('webhook-world-child.ts')
  const nowhere = openSync(devNull, 'w')
  const role = startHelper('webhook-role-child.ts', nowhere)
  closeSync(nowhere)
  try {
    const ask = <Answer>(question: WebhookWorldQuestion, timeoutMs: number) => world.ask<Answer>(question, timeoutMs)
    const accounts = Math.ceil(endpoints / ENDPOINTS_AN_ACCOUNT)
    await ask({ ask: 'open', natsUrl, accounts, endpoints, origins: 'each', concurrency: null }, 60_000)
    await role.ask({ ask: 'start', natsUrl } satisfies WebhookRoleQuestion, 20_000)
    await ask({ ask: 'drive', perS, durationMs: warmMs, counted: false }, warmMs + 20_000)
    if (dying) await ask({ ask: 'kill', oneIn: DEAD_ONE_IN }, 5000)
    const driving = ask({ ask: 'drive', perS, durationMs: seconds * 1000, counted: true }, seconds * 1000 + 30_000)
    const used = await watch(role, natsPid, driving)
    return {
      ...await ask<WebhookOutcome>({ ask: 'settle', oneIn: DEAD_ONE_IN, timeoutMs: SETTLE_MS }, SETTLE_MS + 20_000),
      ...used
    }
  } finally {
    await role.stop()
    await world.stop()
    await stop()
  }
}

async function watch (
  role: Helper,
  natsPid: number | null,
  until: Promise<unknown>
): Promise<Omit<Run, keyof WebhookOutcome>> {
  const [noise, roleMs, natsMs, beginMs] = [
    noiseNow(),
    usageOfOne(role.pid).cpuMs,
    usageOfOne(natsPid).cpuMs,
    performance.now()
  ]
  const rss: number[] = []
  let over = false
  const ended = until.finally(() => {
    over = true
  })
  while (!over) {
    rss.push(usageOfOne(role.pid).rssMib)
    await Promise.race([sleep(SAMPLE_MS), ended])
  }
  const spanMs = performance.now() - beginMs
  const third = Math.ceil(rss.length / 3)
  return {
    rssFirstMib: median(rss.slice(0, third)),
    rssLastMib: median(rss.slice(-third)),
    roleCores: (usageOfOne(role.pid).cpuMs - roleMs) / spanMs,
    natsCores: (usageOfOne(natsPid).cpuMs - natsMs) / spanMs,
    foreignCores: foreignCores(noise, noiseNow())
  }
}
