import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { devNull, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLog } from '#src/base/log.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { startHelper, type Helper } from './child.ts'
import { median, ms, print, ratio } from './report.ts'
import { foreignCores, noiseNow, usageOfOne } from './usage.ts'
import type { WebhookRoleQuestion } from './webhook-role-child.ts'
import type { WebhookOutcome, WebhookWorldQuestion } from './webhook-world-child.ts'

/** 500 accounts with two endpoints each: 1,000 callbacks a second. */
const ENDPOINTS = 1000
const ACCOUNTS = 500
const PER_S = Number(process.env.JETPOST_BENCH_PER_S || 500)
const DEAD_ONE_IN = 10
const SECONDS = Number(process.env.JETPOST_BENCH_SECONDS || 60)
const WARM_MS = 5000
const SAMPLE_MS = 500
const SETTLE_MS = 60_000

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
export async function benchWebhookIsolation (): Promise<Record<string, unknown>> {
  const fine = await run(false)
  const dying = await run(true)
  const both = (show: (run: Run) => string) => [show(fine), show(dying)]
  const slower = { p50: dying.p50Ms / fine.p50Ms, p99: dying.p99Ms / fine.p99Ms }
  print(
    `Webhooks, living and dead: ${ENDPOINTS} endpoints of ${ACCOUNTS} accounts, ${PER_S} events a ` +
      `second for ${SECONDS} s, from fact to callback on those that live in both runs`,
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
  console.log(
    `\n  Unauthenticated clients kept ${ms(fine.foreignCores)} and ${ms(dying.foreignCores)} cores busy meanwhile${
      Math.max(fine.foreignCores, dying.foreignCores) > 0.3 ? ': repeat this on a quiet machine' : ''
    }.`
  )
  return { fine, dying, slower }
}

async function run (dying: boolean): Promise<Run> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-bench-'))
  const servers = await startEmbedded({
    dataDir,
    nats: true,
    postgres: false,
    natsBin: process.env.JETPOST_NATS_BIN || null,
    natsPort: null,
    postgresPort: null,
    log: createLog('error'),
    say: () => {}
  })
  const natsPid = Number(readFileSync(join(dataDir, 'nats', 'nats-server.pid'), 'utf8'))
  const world = startHelper('webhook-world-child.ts')
  const nowhere = openSync(devNull, 'w')
  const role = startHelper('webhook-role-child.ts', nowhere)
  closeSync(nowhere)
  try {
    const ask = <Answer>(question: WebhookWorldQuestion, timeoutMs: number) => world.ask<Answer>(question, timeoutMs)
    await ask({
      ask: 'open',
      natsUrl: servers.natsUrl!,
      accounts: ACCOUNTS,
      endpoints: ENDPOINTS,
      origins: 'each',
      concurrency: null
    }, 60_000)
    await role.ask({ ask: 'start', natsUrl: servers.natsUrl! } satisfies WebhookRoleQuestion, 20_000)
    await ask({ ask: 'drive', perS: PER_S, durationMs: WARM_MS, counted: false }, WARM_MS + 20_000)
    if (dying) await ask({ ask: 'kill', oneIn: DEAD_ONE_IN }, 5000)
    const driving = ask(
      { ask: 'drive', perS: PER_S, durationMs: SECONDS * 1000, counted: true },
      SECONDS * 1000 + 30_000
    )
    const used = await watch(role, natsPid, driving)
    return {
      ...await ask<WebhookOutcome>({ ask: 'settle', oneIn: DEAD_ONE_IN, timeoutMs: SETTLE_MS }, SETTLE_MS + 20_000),
      ...used
    }
  } finally {
    await role.stop()
    await world.stop()
    await servers.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function watch (
  role: Helper,
  natsPid: number,
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
