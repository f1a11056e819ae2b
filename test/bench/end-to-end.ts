import { setTimeout as sleep } from 'node:timers/promises'
import { newSecret } from '#src/base/secret.ts'
import { startTree, TREE_KEY, type Tree } from '../support/tree.ts'
import type { Bench, BenchContext, BenchServers, Say } from './bench.ts'
import { startHelper, type Helper } from './child.ts'
import { ms, print, printNoise, rate } from './report.ts'
import { foreignCores, noiseNow, usageOf, type Noise, type Usage } from './usage.ts'
import type { Counts, Outcome, Where, WorldQuestion } from './world-child.ts'

const IN_FLIGHT = 32
const OUTSTANDING_MAX = 1000
/** Until the first webhook of a window, however short the window. */
const FIRST_HOOK_MS = 60_000
const POLL_MS = 50

type Parts = Record<'jetpost' | 'nats' | 'postgres', Usage>

/** Emails a second from accept to SMTP sink to webhook sink, sustained; all roles on one machine, settings as they
 *  come. */
export const endToEnd: Bench<'end-to-end'> = {
  about: 'emails a second from POST to webhook, and what they cost',
  rows: () => [
    'perS.accepted',
    'perS.mailed',
    'perS.hooked',
    'outcome.lost',
    'outcome.doubled',
    'outcome.unhooked',
    'outcome.acceptMs',
    'outcome.smtpMs',
    'outcome.hookMs',
    'parts.jetpost',
    'parts.nats',
    'parts.postgres',
    'foreignCores',
    'failed'
  ],
  async run (context) {
    const servers = await context.openServers()
    const world = startHelper('world-child.ts')
    try {
      const { smtpUrl, hookUrl } = await world.ask<Where>({ ask: 'where' } satisfies WorldQuestion, 20_000)
      const jetpost = await startTree({
        env: {
          NATS_URL: servers.natsUrl,
          DATABASE_URL: servers.databaseUrl,
          JETPOST_SECRET: newSecret(''),
          SMTP_URL: `${smtpUrl}?tls=off`,
          JETPOST_WEBHOOK_ALLOW_PRIVATE: 'true',
          JETPOST_LOG_LEVEL: 'info'
        }
      })
      try {
        await jetpost.request('POST', '/api/webhooks', { url: hookUrl, events: ['email.delivered', 'email.bounced'] })
        return await sustain(context, servers, jetpost, world)
      } finally {
        await jetpost.stop().catch(() => {})
        await jetpost.dispose()
      }
    } finally {
      await world.stop()
      await servers.stop()
    }
  }
}

async function sustain (
  { sizes: { warmMs, windowMs }, say }: BenchContext<'end-to-end'>,
  servers: BenchServers,
  jetpost: Tree,
  world: Helper
): Promise<Record<string, unknown>> {
  const ask = <Answer>(question: WorldQuestion, timeoutMs = 20_000) => world.ask<Answer>(question, timeoutMs)
  const momentNow = async (): Promise<Moment> => ({
    counts: await ask<Counts>({ ask: 'counts' }),
    parts: usageNow(jetpost, servers),
    noise: noiseNow()
  })
  const begin = {
    url: jetpost.url,
    key: TREE_KEY,
    inFlight: IN_FLIGHT,
    outstandingMax: OUTSTANDING_MAX,
    durationMsMax: warmMs + windowMs + FIRST_HOOK_MS
  }
  await ask<Counts>({ ask: 'begin', ...begin })
  await sleep(warmMs)
  const before = await momentNow()
  await sleep(windowMs)
  const hooksNow = async () => (await ask<Counts>({ ask: 'counts' })).hooks
  for (const endMs = Date.now() + FIRST_HOOK_MS; await hooksNow() === before.counts.hooks; await sleep(POLL_MS)) {
    if (Date.now() > endMs) throw new Error('no webhook came')
  }
  const after = await momentNow()
  const outcome = await ask<Outcome>({ ask: 'halt' }, 60_000)
  return report(say, before, after, outcome)
}

function usageNow (jetpost: Tree, { natsPid, postgresPid }: BenchServers): Parts {
  return { jetpost: usageOf(jetpost.pid()), nats: usageOf(natsPid), postgres: usageOf(postgresPid) }
}

interface Moment {
  counts: Counts
  parts: Parts
  noise: Noise
}

function report (say: Say, before: Moment, after: Moment, outcome: Outcome): Record<string, unknown> {
  const spanS = (after.counts.nowMs - before.counts.nowMs) / 1000
  const done = after.counts.hooks - before.counts.hooks
  const perS = {
    accepted: (after.counts.accepted - before.counts.accepted) / spanS,
    mailed: (after.counts.mails - before.counts.mails) / spanS,
    hooked: done / spanS
  }
  const parts = Object.fromEntries((['jetpost', 'nats', 'postgres'] as const).map(name => [name, {
    cpuMsAnEmail: (after.parts[name].cpuMs - before.parts[name].cpuMs) / done,
    cores: (after.parts[name].cpuMs - before.parts[name].cpuMs) / spanS / 1000,
    rssMib: after.parts[name].rssMib,
    pssMib: after.parts[name].pssMib
  }]))
  const { acceptMs, smtpMs, hookMs, lost, doubled, unhooked } = outcome
  print(
    say,
    `End to end: accepted, sent by SMTP and called back, at most ${OUTSTANDING_MAX} emails under way, ` +
      `${IN_FLIGHT} callers, ${spanS.toFixed(0)} s after a warm-up; one process, all roles`,
    [
      ['', 'a second', 'p50 ms', 'p99 ms', ''],
      [
        'accepted (202 read)',
        rate(perS.accepted),
        ms(acceptMs.p50),
        ms(acceptMs.p99),
        `${after.counts.failed} not accepted`
      ],
      ['in the SMTP sink', rate(perS.mailed), ms(smtpMs.p50), ms(smtpMs.p99), `${lost} missing, ${doubled} doubled`],
      ['in the webhook sink', rate(perS.hooked), ms(hookMs.p50), ms(hookMs.p99), `${unhooked} missing`]
    ]
  )
  print(say, 'What it takes (sinks and load not counted)', [
    ['', 'CPU ms an email', 'cores busy', 'RSS MiB', 'PSS MiB'],
    ...Object.entries(parts).map(([name, { cpuMsAnEmail, cores, rssMib, pssMib }]) => [
      name,
      ms(cpuMsAnEmail),
      ms(cores),
      String(rssMib),
      String(pssMib)
    ])
  ])
  const foreign = foreignCores(before.noise, after.noise)
  printNoise(say, foreign)
  return { perS, outcome, parts, foreignCores: foreign, failed: after.counts.failed }
}
