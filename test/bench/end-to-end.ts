import { setTimeout as sleep } from 'node:timers/promises'
import { startTree, TREE_KEY, type Tree } from '../support/tree.ts'
import { startHelper, type Helper } from './child.ts'
import { ms, print, rate } from './report.ts'
import { foreignCores, noiseNow, usageOf, usageOfOne, type Noise, type Usage } from './usage.ts'
import type { Counts, Outcome, Where, WorldQuestion } from './world-child.ts'

const IN_FLIGHT = 32
const OUTSTANDING_MAX = 1000
const WARM_MS = 4000
const WINDOW_MS = 12_000

type Parts = Record<'jetpost' | 'nats' | 'postgres', Usage>

/** Emails a second from accept to SMTP sink to webhook sink, sustained; all roles in one process, embedded servers,
 *  settings as they come. */
export async function benchEndToEnd (): Promise<Record<string, unknown>> {
  const world = startHelper('world-child.ts')
  const ask = <Answer>(question: WorldQuestion, timeoutMs = 20_000) => world.ask<Answer>(question, timeoutMs)
  try {
    const { smtpUrl, hookUrl } = await ask<Where>({ ask: 'where' })
    const jetpost = await startTree({ env: { SMTP_URL: `${smtpUrl}?tls=off`, JETPOST_LOG_LEVEL: 'info' } })
    try {
      await jetpost.request('POST', '/api/webhooks', { url: hookUrl, events: ['email.delivered', 'email.bounced'] })
      return await sustain(jetpost, world)
    } finally {
      await jetpost.stop().catch(() => {})
      await jetpost.dispose()
    }
  } finally {
    await world.stop()
  }
}

async function sustain (jetpost: Tree, world: Helper): Promise<Record<string, unknown>> {
  const ask = <Answer>(question: WorldQuestion, timeoutMs = 20_000) => world.ask<Answer>(question, timeoutMs)
  const begin = {
    url: jetpost.url,
    key: TREE_KEY,
    inFlight: IN_FLIGHT,
    outstandingMax: OUTSTANDING_MAX,
    durationMsMax: WARM_MS + 2 * WINDOW_MS
  }
  await ask<Counts>({ ask: 'begin', ...begin })
  await sleep(WARM_MS)
  const before = { counts: await ask<Counts>({ ask: 'counts' }), parts: usageNow(jetpost), noise: noiseNow() }
  await sleep(WINDOW_MS)
  const after = { counts: await ask<Counts>({ ask: 'counts' }), parts: usageNow(jetpost), noise: noiseNow() }
  const outcome = await ask<Outcome>({ ask: 'halt' }, 60_000)
  return report(before, after, outcome)
}

function usageNow (jetpost: Tree): Parts {
  return {
    jetpost: usageOfOne(jetpost.pid()),
    nats: usageOf(jetpost.natsPid()!),
    postgres: usageOf(jetpost.postgresPid()!)
  }
}

interface Moment {
  counts: Counts
  parts: Parts
  noise: Noise
}

function report (before: Moment, after: Moment, outcome: Outcome): Record<string, unknown> {
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
  print(
    `End to end: accepted, sent by SMTP and called back, at most ${OUTSTANDING_MAX} emails under way, ` +
      `${IN_FLIGHT} callers, ${spanS.toFixed(0)} s after a warm-up; one process, all roles`,
    [
      ['', 'a second', 'p50 ms', 'p99 ms', ''],
      [
        'accepted (202 read)',
        rate(perS.accepted),
        ms(outcome.acceptMs.p50),
        ms(outcome.acceptMs.p99),
        `${after.counts.failed} not accepted`
      ],
      [
        'in the SMTP sink',
        rate(perS.mailed),
        ms(outcome.smtpMs.p50),
        ms(outcome.smtpMs.p99),
        `${outcome.lost} missing, ${outcome.doubled} doubled`
      ],
      [
        'in the webhook sink',
        rate(perS.hooked),
        ms(outcome.hookMs.p50),
        ms(outcome.hookMs.p99),
        `${outcome.unhooked} missing`
      ]
    ]
  )
  print('What it takes (sinks and load not counted)', [
    ['', 'CPU ms an email', 'cores busy', 'RSS MiB', 'PSS MiB'],
    ...Object.entries(parts).map((
      [name, part]
    ) => [name, ms(part.cpuMsAnEmail), ms(part.cores), String(part.rssMib), String(part.pssMib)])
  ])
  const foreign = foreignCores(before.noise, after.noise)
  console.log(
    `\n  Unauthenticated clients kept ${ms(foreign)} cores busy meanwhile${
      foreign > 0.3 ? ': repeat this on a quiet machine' : ''
    }.`
  )
  return { perS, outcome, parts, foreignCores: foreign, failed: after.counts.failed }
}
