import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { connectBus } from '#src/nats/connect.ts'
import { createLog } from '#src/base/log.ts'
import { countAfter } from '#src/nats/consumer.ts'
import type { Bench, BenchContext } from './bench.ts'
import { startHelper, type Helper } from './child.ts'
import { ms, print, ratio } from './report.ts'
import type { WebhookRoleQuestion } from './webhook-role-child.ts'
import type { WebhookOutcome, WebhookWorldQuestion } from './webhook-world-child.ts'

const RECOVERY_MS = 600_000
const OPEN_MS = 120_000
/** The neighbour has the last account, and is driven alone for a while before anything dies. */
const CALM_PART = 0.05

interface Outage {
  /** Facts of deliveries in the log for each delivery that the dead are owed, when they come back and at the end. */
  factsDown: number
  factsEnd: number
  neighbourP99Ms: number
  lost: number
  recoveryS: number
}

/** What dead endpoints cost that are owed much: facts in the log, their neighbour's latency, and how soon all has
 *  arrived once they work again. They refuse, hang, answer 500 or cut the line. */
export const webhookOutage: Bench<'webhook-outage'> = {
  about: 'what dead webhook endpoints cost that are owed thousands, and how soon they catch up',
  rows: () => ['calmP99Ms', 'factsDown', 'factsEnd', 'neighbourP99Ms', 'lost', 'recoveryS', 'slower'],
  async run (context) {
    const { sizes: { endpoints }, openServers } = context
    const calm = await withRole(openServers, endpoints, world => driveCalm(context, world))
    const outage = await withRole(openServers, endpoints, (world, natsUrl) => breakDown(context, world, natsUrl))
    return report(context, calm, outage)
  }
}

type Ask = <Answer>(question: WebhookWorldQuestion, timeoutMs: number) => Promise<Answer>

async function withRole<Result> (
  openServers: BenchContext<'webhook-outage'>['openServers'],
  dead: number,
  act: (ask: Ask, natsUrl: string) => Promise<Result>
): Promise<Result> {
  const { natsUrl, stop } = await openServers({ postgres: false })
  const world = startHelper('webhook-world-child.ts')
  const nowhere = openSync(devNull, 'w')
  const role: Helper = startHelper('webhook-role-child.ts', nowhere)
  closeSync(nowhere)
  try {
    const ask: Ask = (question, timeoutMs) => world.ask(question, timeoutMs)
    const [accounts, endpoints] = [dead + 1, dead + 1]
    await ask({ ask: 'open', natsUrl, accounts, endpoints, origins: 'each', concurrency: null }, OPEN_MS)
    await role.ask({ ask: 'start', natsUrl } satisfies WebhookRoleQuestion, 20_000)
    return await act(ask, natsUrl)
  } finally {
    await role.stop()
    await world.stop()
    await stop()
  }
}

async function driveCalm (
  { sizes: { endpoints, perS, seconds } }: BenchContext<'webhook-outage'>,
  ask: Ask
): Promise<number> {
  const durationMs = Math.max(1000, seconds * 1000 * CALM_PART)
  await ask({ ask: 'drive', perS, durationMs, counted: true, account: endpoints }, durationMs + OPEN_MS)
  return (await ask<WebhookOutcome>({ ask: 'settle', oneIn: Infinity, timeoutMs: OPEN_MS }, 2 * OPEN_MS)).p99Ms
}

async function breakDown (
  { sizes: { endpoints, deliveries, perS, seconds } }: BenchContext<'webhook-outage'>,
  ask: Ask,
  natsUrl: string
): Promise<Outage> {
  await ask({ ask: 'kill', first: endpoints }, OPEN_MS)
  await ask({ ask: 'backlog', events: deliveries * (endpoints + 1) }, OPEN_MS)
  const durationMs = seconds * 1000
  await ask({ ask: 'drive', perS, durationMs, counted: true, account: endpoints }, durationMs + OPEN_MS)
  const owed = deliveries * endpoints
  const neighbour = deliveries + Math.floor(perS * seconds)
  // The neighbour's have two facts each: owed, and delivered.
  const factsDown = (await countFacts(natsUrl) - 2 * neighbour) / owed
  await ask({ ask: 'revive' }, OPEN_MS)
  const { ms: recoveryMs } = await ask<{ ms: number }>(
    { ask: 'recover', timeoutMs: RECOVERY_MS },
    RECOVERY_MS + OPEN_MS
  )
  const { p99Ms, lost } = await ask<WebhookOutcome>({ ask: 'settle', oneIn: Infinity, timeoutMs: OPEN_MS }, 2 * OPEN_MS)
  const factsEnd = (await countFacts(natsUrl) - 2 * neighbour) / owed
  return { factsDown, factsEnd, neighbourP99Ms: p99Ms, lost, recoveryS: recoveryMs / 1000 }
}

async function countFacts (natsUrl: string): Promise<number> {
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'bench facts', log: createLog('error') })
  const count = await countAfter(bus, 'WEBHOOKS', 'webhook.*.delivery.>', 0)
  await bus.close()
  return count
}

function report (
  { sizes: { endpoints, deliveries, perS, seconds }, say }: BenchContext<'webhook-outage'>,
  calmP99Ms: number,
  outage: Outage
): Record<string, unknown> {
  const slower = outage.neighbourP99Ms / calmP99Ms
  print(
    say,
    `Webhooks, an outage: ${endpoints} dead endpoints that are owed ${deliveries} deliveries each, for ${seconds} s, ` +
      `beside one that gets ${perS} events a second`,
    [
      ['', '', 'goal'],
      ['facts for each delivery, when they come back', outage.factsDown.toFixed(2), '≤ 3'],
      ['and when all has arrived', outage.factsEnd.toFixed(2), ''],
      ["the neighbour's p99 ms: with none dead, meanwhile", `${ms(calmP99Ms)}, ${ms(outage.neighbourP99Ms)}`, ''],
      ['ratio', ratio(slower), '≤ 1.5'],
      ['s until all had arrived', outage.recoveryS.toFixed(1), '≤ 300'],
      ['lost', String(outage.lost), '0']
    ]
  )
  return { calmP99Ms, ...outage, slower }
}
