import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import type { Bench, BenchContext, BenchServers } from './bench.ts'
import { startHelper, type Helper } from './child.ts'
import { median, ms, print, printNoise, rate, ratio } from './report.ts'
import { foreignCores, noiseNow } from './usage.ts'
import type { WebhookRoleQuestion, WebhookSpeed } from './webhook-role-child.ts'
import type { WebhookWorldQuestion } from './webhook-world-child.ts'

const ENDPOINTS = 4
/** Requests at once to an endpoint: as it comes, and what its owner may choose. */
const CONCURRENCY = [8, 32]
const TURN_MS = 120_000

interface Setup extends BenchContext<'webhooks'> {
  servers: BenchServers
  concurrency: number
  world: Helper
  url: string
}

/** Callbacks a second that the role `webhooks` makes of a backlog of events, from fact to recorded outcome, and what
 *  each costs, beside a bare undici pool that posts bodies of the same size to the same sink, as many at once. Each
 *  contender has a process of its own, in turns. */
export const webhooks: Bench<'webhooks'> = {
  about: 'callbacks a second of a backlog, beside a bare undici pool',
  rows: () =>
    CONCURRENCY.flatMap(concurrency =>
      ['role', 'bare', 'toBare', 'foreignCores'].map(name => `${concurrency}.${name}`)
    ),
  async run (context) {
    const results: Record<string, unknown> = {}
    for (const concurrency of CONCURRENCY) results[concurrency] = await compare(context, concurrency)
    return results
  }
}

async function compare (context: BenchContext<'webhooks'>, concurrency: number): Promise<Record<string, unknown>> {
  const servers = await context.openServers({ postgres: false })
  const world = startHelper('webhook-world-child.ts')
  try {
    const { urls } = await world.ask<{ urls: string[] }>(
      {
        ask: 'open',
        natsUrl: servers.natsUrl,
        accounts: 1,
        endpoints: ENDPOINTS,
        origins: 'one',
        concurrency
      } satisfies WebhookWorldQuestion,
      30_000
    )
    return await inTurns({ ...context, servers, concurrency, world, url: urls[0]! })
  } finally {
    await world.stop()
    await servers.stop()
  }
}

async function inTurns (setup: Setup): Promise<Record<string, unknown>> {
  const noise = noiseNow()
  const role: WebhookSpeed[] = []
  const bare: WebhookSpeed[] = []
  for (let round = 0; round < setup.sizes.rounds; round++) {
    role.push(await roleTurn(setup))
    bare.push(await bareTurn(setup))
  }
  return report(setup, { role: middle(role), bare: middle(bare) }, foreignCores(noise, noiseNow()))
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
function roleTurn ({ sizes, servers: { natsUrl, natsPid }, world }: Setup): Promise<WebhookSpeed> {
  return asHelper(async helper => {
    const turn = async (events: number) => {
      await world.ask({ ask: 'backlog', events } satisfies WebhookWorldQuestion, TURN_MS)
      return await helper.ask<WebhookSpeed>(
        { ask: 'work', natsUrl, natsPid, deliveries: events * ENDPOINTS } satisfies WebhookRoleQuestion,
        TURN_MS
      )
    }
    await turn(sizes.warm)
    return await turn(sizes.events)
  })
}

function bareTurn ({ sizes, url, concurrency }: Setup): Promise<WebhookSpeed> {
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
    await turn(sizes.warm)
    return await turn(sizes.events)
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
  { sizes: { events, rounds }, say, concurrency }: Setup,
  { role, bare }: Record<'role' | 'bare', WebhookSpeed>,
  foreign: number
): Record<string, unknown> {
  const toBare = role.perS / bare.perS
  print(
    say,
    `Webhooks: a backlog of ${events} events for ${ENDPOINTS} endpoints, ${concurrency} requests at once to each; ` +
      `medians of ${rounds} rounds taken in turns`,
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
  printNoise(say, foreign)
  return { role, bare, toBare, foreignCores: foreign }
}
