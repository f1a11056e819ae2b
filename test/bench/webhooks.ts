import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { devNull, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '#src/base/log.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { startHelper, type Helper } from './child.ts'
import { median, ms, print, rate, ratio } from './report.ts'
import { foreignCores, noiseNow } from './usage.ts'
import type { WebhookRoleQuestion, WebhookSpeed } from './webhook-role-child.ts'
import type { WebhookWorldQuestion } from './webhook-world-child.ts'

const ROUNDS = 3
const ENDPOINTS = 4
/** Requests at once to an endpoint: as it comes, and what its owner may choose. */
const CONCURRENCY = [8, 32]
const WARM = 1500
const EVENTS = 5000
const TURN_MS = 120_000

interface Setting {
  concurrency: number
  dataDir: string
  natsUrl: string
  natsPid: number
  world: Helper
  url: string
}

/** Callbacks a second that the role `webhooks` makes of a backlog of events, from fact to recorded outcome, and what
 *  each costs, beside a bare undici pool that posts bodies of the same size to the same sink, as many at once. Each
 *  contender has a process of its own, in turns. */
export async function benchWebhooks (): Promise<Record<string, unknown>> {
  const results: Record<string, unknown> = {}
  for (const concurrency of CONCURRENCY) results[concurrency] = await compare(concurrency)
  return results
}

async function compare (concurrency: number): Promise<Record<string, unknown>> {
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
  const world = startHelper('webhook-world-child.ts')
  try {
    const natsUrl = servers.natsUrl!
    const natsPid = Number(readFileSync(join(dataDir, 'nats', 'nats-server.pid'), 'utf8'))
    const { urls } = await world.ask<{ urls: string[] }>(
      {
        ask: 'open',
        natsUrl,
        accounts: 1,
        endpoints: ENDPOINTS,
        origins: 'one',
        concurrency
      } satisfies WebhookWorldQuestion,
      30_000
    )
    return await inTurns({ concurrency, dataDir, natsUrl, natsPid, world, url: urls[0]! })
  } finally {
    await world.stop()
    await servers.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function inTurns (setting: Setting): Promise<Record<string, unknown>> {
  const noise = noiseNow()
  const role: WebhookSpeed[] = []
  const bare: WebhookSpeed[] = []
  for (let round = 0; round < ROUNDS; round++) {
    role.push(await roleTurn(setting))
    bare.push(await bareTurn(setting))
  }
  return report(setting.concurrency, { role: middle(role), bare: middle(bare) }, foreignCores(noise, noiseNow()))
}

/** Its log goes where no disk is: at the level of production. */
async function asHelper<Result> (act: (helper: Helper) => Promise<Result>): Promise<Result> {
  const nowhere = openSync(devNull, 'w')
  const helper = startHelper('webhook-role-child.ts', nowhere)
  closeSync(nowhere)
  try {
    return await act(helper)
  } finally {
    await helper.stop()
  }
}

/** The backlog is there before the role starts: it never waits for events. */
function roleTurn ({ natsUrl, natsPid, world }: Setting): Promise<WebhookSpeed> {
  return asHelper(async helper => {
    const turn = async (events: number) => {
      await world.ask({ ask: 'backlog', events } satisfies WebhookWorldQuestion, TURN_MS)
      return await helper.ask<WebhookSpeed>(
        { ask: 'work', natsUrl, natsPid, deliveries: events * ENDPOINTS } satisfies WebhookRoleQuestion,
        TURN_MS
      )
    }
    await turn(WARM)
    return await turn(EVENTS)
  })
}

function bareTurn ({ url, concurrency }: Setting): Promise<WebhookSpeed> {
  return asHelper(async helper => {
    const turn = (events: number) =>
      helper.ask<WebhookSpeed>(
        {
          ask: 'post',
          url,
          deliveries: events * ENDPOINTS,
          atOnce: concurrency * ENDPOINTS
        } satisfies WebhookRoleQuestion,
        TURN_MS
      )
    await turn(WARM)
    return await turn(EVENTS)
  })
}

function middle (speeds: WebhookSpeed[]): WebhookSpeed {
  const of = (pick: (speed: WebhookSpeed) => number) => median(speeds.map(pick))
  return {
    perS: of(speed => speed.perS),
    cpuMs: of(speed => speed.cpuMs),
    natsMs: of(speed => speed.natsMs),
    failed: speeds.reduce((sum, speed) => sum + speed.failed, 0)
  }
}

function report (
  concurrency: number,
  { role, bare }: Record<'role' | 'bare', WebhookSpeed>,
  foreign: number
): Record<string, unknown> {
  const toBare = role.perS / bare.perS
  print(
    `Webhooks: a backlog of ${EVENTS} events for ${ENDPOINTS} endpoints, ${concurrency} requests at ` +
      `once to each; medians of ${ROUNDS} rounds taken in turns`,
    [
      ['', 'a second', 'CPU ms each', 'NATS ms each', 'failed'],
      [
        'role webhooks, from fact to recorded outcome',
        rate(role.perS),
        ms(role.cpuMs),
        ms(role.natsMs),
        String(role.failed)
      ],
      ['bare undici pool, the request alone', rate(bare.perS), ms(bare.cpuMs), '-', String(bare.failed)],
      ['rate, role ÷ pool (goal ≥ 0.5)', ratio(toBare), '', '', '']
    ]
  )
  console.log(
    `\n  Unauthenticated clients kept ${ms(foreign)} cores busy meanwhile${
      foreign > 0.3 ? ': repeat this on a quiet machine' : ''
    }.`
  )
  return { role, bare, toBare, foreignCores: foreign }
}
