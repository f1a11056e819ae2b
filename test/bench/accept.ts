import { connect, type NatsConnection } from 'nats'
import { newSecret } from '#src/base/secret.ts'
import { startTree, TREE_KEY } from '../support/tree.ts'
import type { Bench, BenchContext, BenchServers, Say } from './bench.ts'
import { startHelper } from './child.ts'
import type { LoadQuestion, Speed } from './load-child.ts'
import type { RawQuestion } from './raw-child.ts'
import { median, ms, print, printNoise, ratio, rate } from './report.ts'
import { foreignCores, noiseNow, usageOfOne } from './usage.ts'

/** Messages whose headers are read to learn how the API grouped its appends. */
const SAMPLE_MAX = 5000
const IN_FLIGHT = [1, 50, 500]

/** Accepted emails a second by the role `api` alone, beside raw appends to the same nats-server in the same run, taken
 *  in turns. */
export const accept: Bench<'accept'> = {
  about: 'emails that POST /api/emails accepts a second, beside raw appends to NATS',
  rows: () => [
    'bytes',
    ...IN_FLIGHT.map(inFlight => `emailsACommit.${inFlight}`),
    'speeds.rawOne',
    'speeds.apiOne',
    'speeds.rawBatches',
    'speeds.apiFifty',
    'speeds.rawBatchesFifty',
    'speeds.rawFifty',
    'speeds.apiFiveHundred',
    'ratios.apiToBatchesOfItsSize',
    'ratios.apiToBatchesOfFifty',
    'ratios.apiToOneAppendARequest',
    'ratios.addedAtOneMs',
    'cpuMsAnEmail.api',
    'cpuMsAnEmail.nats',
    'foreignCores'
  ],
  async run (context) {
    const servers = await context.openServers()
    try {
      return await besideRaw(context, servers)
    } finally {
      await servers.stop()
    }
  }
}

async function besideRaw (
  { sizes, say }: BenchContext<'accept'>,
  { natsUrl, natsPid, databaseUrl }: BenchServers
): Promise<Record<string, unknown>> {
  const jetpost = await startTree({
    env: { NATS_URL: natsUrl, DATABASE_URL: databaseUrl, JETPOST_SECRET: newSecret(''), JETPOST_ROLES: 'api' }
  })
  const { host, username, password } = new URL(natsUrl)
  const nc = await connect({ servers: host, user: username, pass: password })
  const [loader, rawLoader] = [startHelper('load-child.ts'), startHelper('raw-child.ts')]
  const { turnMs: durationMs } = sizes
  const answerMs = durationMs + 30_000
  try {
    const load = (inFlight: number) =>
      loader.ask<Speed>(
        { url: jetpost.url, key: TREE_KEY, inFlight, durationMs } satisfies LoadQuestion,
        answerMs
      )
    await load(50)
    const cpu = () => ({ api: usageOfOne(jetpost.pid()).cpuMs, nats: usageOfOne(natsPid).cpuMs })
    const bytes = await lastSizeBytes(nc)
    const raw = (question: Pick<RawQuestion, 'kind'> & Partial<RawQuestion>) =>
      rawLoader.ask<Speed>(
        { natsUrl, bytes, inFlight: 1, size: 1, durationMs, ...question } satisfies RawQuestion,
        answerMs
      )
    return await inTurns({ sizes, say, nc, bytes, load, raw, cpu })
  } finally {
    await Promise.all([loader.stop(), rawLoader.stop()])
    await nc.close()
    await jetpost.stop()
    await jetpost.dispose()
  }
}

interface Setup extends Pick<BenchContext<'accept'>, 'sizes' | 'say'> {
  nc: NatsConnection
  /** Of a fact with a mail of ours in it. */
  bytes: number
  load: (inFlight: number) => Promise<Speed>
  raw: (question: Pick<RawQuestion, 'kind'> & Partial<RawQuestion>) => Promise<Speed>
  /** CPU time used so far. */
  cpu: () => { api: number, nats: number }
}

async function inTurns ({ sizes, say, nc, bytes, load, raw, cpu }: Setup): Promise<Record<string, unknown>> {
  const grouped = Object.fromEntries(
    await inOrder(IN_FLIGHT, async inFlight => [inFlight, await groupSize(nc, () => load(inFlight))] as const)
  )
  const group = Math.max(2, Math.round(grouped[50]!))
  const turns = {
    rawOne: () => raw({ kind: 'plain' }),
    apiOne: () => load(1),
    rawBatches: () => raw({ kind: 'batch', size: group }),
    apiFifty: () => load(50),
    rawBatchesFifty: () => raw({ kind: 'batch', size: 50 }),
    rawFifty: () => raw({ kind: 'plain', inFlight: 50 }),
    apiFiveHundred: () => load(500)
  }
  const noise = noiseNow()
  const speeds = await inRounds(sizes.rounds, turns)
  const foreign = foreignCores(noise, noiseNow())
  const cpuMsAnEmail = await cpuOf(cpu, await lastSeq(nc), () => load(50), () => lastSeq(nc))
  const ratios = {
    apiToBatchesOfItsSize: speeds.apiFifty.perS / speeds.rawBatches.perS,
    apiToBatchesOfFifty: speeds.apiFifty.perS / speeds.rawBatchesFifty.perS,
    apiToOneAppendARequest: speeds.apiFifty.perS / speeds.rawFifty.perS,
    addedAtOneMs: speeds.apiOne.p50Ms - speeds.rawOne.p50Ms
  }
  const found = { bytes, emailsACommit: grouped, speeds, ratios, cpuMsAnEmail, foreignCores: foreign }
  report(say, sizes.rounds, group, found)
  return found
}

type TurnName =
  | 'rawOne'
  | 'apiOne'
  | 'rawBatches'
  | 'apiFifty'
  | 'rawBatchesFifty'
  | 'rawFifty'
  | 'apiFiveHundred'

interface Found {
  bytes: number
  emailsACommit: Record<number, number>
  speeds: Record<TurnName, Speed>
  ratios: Record<'apiToBatchesOfItsSize' | 'apiToBatchesOfFifty' | 'apiToOneAppendARequest' | 'addedAtOneMs', number>
  cpuMsAnEmail: { api: number, nats: number }
  foreignCores: number
}

function report (say: Say, rounds: number, group: number, found: Found): void {
  const { bytes, emailsACommit, speeds, ratios, cpuMsAnEmail } = found
  const names: Array<[TurnName, string]> = [
    ['apiOne', 'POST /api/emails, 1 in flight'],
    ['apiFifty', 'POST /api/emails, 50 in flight'],
    ['apiFiveHundred', 'POST /api/emails, 500 in flight'],
    ['rawOne', 'raw: one publish at a time'],
    ['rawFifty', 'raw: one publish a request, 50 in flight'],
    ['rawBatches', `raw: atomic batches of ${group}, one at a time`],
    ['rawBatchesFifty', 'raw: atomic batches of 50, one at a time']
  ]
  const rowOf = ([name, words]: [TurnName, string]): string[] => {
    const { perS, p50Ms, p99Ms, failed } = speeds[name]
    return [words, rate(perS), ms(p50Ms), ms(p99Ms), String(failed)]
  }
  print(
    say,
    `Accepted emails a second: role api alone, every 202 fsynced, 2 KB html (${bytes} bytes a fact); ` +
      `medians of ${rounds} rounds taken in turns`,
    [['', 'a second', 'p50 ms', 'p99 ms', 'not accepted'], ...names.map(rowOf)]
  )
  const commits = IN_FLIGHT.map(inFlight => emailsACommit[inFlight]!.toFixed(1)).join(', ')
  print(say, 'What that means', [
    ['', 'measured', 'goal'],
    [`50 in flight / raw batches of the ${group} it grouped itself`, ratio(ratios.apiToBatchesOfItsSize), '≥ 0.5'],
    ['50 in flight / raw batches of 50', ratio(ratios.apiToBatchesOfFifty), '(≥ 0.5)'],
    ['50 in flight / one append a request, 50 in flight', ratio(ratios.apiToOneAppendARequest), '≥ 3'],
    ['1 in flight: added at p50 to one raw publish', `${ms(ratios.addedAtOneMs)} ms`, '< 1 ms'],
    ['emails a commit at 1, 50, 500 in flight', commits, ''],
    ['CPU ms an email at 50 in flight: api, nats-server', `${ms(cpuMsAnEmail.api)}, ${ms(cpuMsAnEmail.nats)}`, '']
  ])
  printNoise(say, found.foreignCores)
}

async function cpuOf (
  cpu: Setup['cpu'],
  firstSeq: number,
  act: () => Promise<unknown>,
  seqNow: () => Promise<number>
): Promise<{ api: number, nats: number }> {
  const before = cpu()
  await act()
  const after = cpu()
  const emails = await seqNow() - firstSeq
  return { api: (after.api - before.api) / emails, nats: (after.nats - before.nats) / emails }
}

/** Each turn once a round, in the same order: what disturbs the machine for a while disturbs all of them. */
async function inRounds<Name extends string> (
  rounds: number,
  turns: Record<Name, () => Promise<Speed>>
): Promise<Record<Name, Speed>> {
  const names = Object.keys(turns) as Name[]
  const taken = Object.fromEntries(names.map(name => [name, []])) as unknown as Record<Name, Speed[]>
  for (let round = 0; round < rounds; round++) for (const name of names) taken[name].push(await turns[name]())
  const middle = (speeds: Speed[]): Speed => ({
    perS: median(speeds.map(speed => speed.perS)),
    p50Ms: median(speeds.map(speed => speed.p50Ms)),
    p99Ms: median(speeds.map(speed => speed.p99Ms)),
    failed: speeds.reduce((sum, speed) => sum + speed.failed, 0)
  })
  return Object.fromEntries(names.map(name => [name, middle(taken[name])])) as Record<Name, Speed>
}

async function inOrder<From, To> (list: From[], act: (item: From) => Promise<To>): Promise<To[]> {
  const results: To[] = []
  for (const item of list) results.push(await act(item))
  return results
}

/** Emails a commit while `act` runs: members of one atomic batch name it in a header that the stream keeps. */
async function groupSize (nc: NatsConnection, act: () => Promise<unknown>): Promise<number> {
  const before = await lastSeq(nc)
  await act()
  const after = await lastSeq(nc)
  const commits = new Set<string>()
  const js = nc.jetstream()
  const count = Math.min(SAMPLE_MAX, after - before)
  const consumer = await js.consumers.get('REQUESTS', { opt_start_seq: after - count + 1, headers_only: true })
  const messages = await consumer.fetch({ max_messages: count, expires: 10_000 })
  for await (const message of messages) {
    commits.add(message.headers?.get('Nats-Batch-Id') || String(message.seq))
    if (message.seq >= after) break
  }
  return count / commits.size
}

async function lastSeq (nc: NatsConnection): Promise<number> {
  return (await (await nc.jetstreamManager()).streams.info('REQUESTS')).state.last_seq
}

async function lastSizeBytes (nc: NatsConnection): Promise<number> {
  const manager = await nc.jetstreamManager()
  return (await manager.streams.getMessage('REQUESTS', { last_by_subj: 'request.>' })).data.length
}
