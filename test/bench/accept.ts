import { connect, type NatsConnection } from 'nats'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '#src/base/log.ts'
import { newSecret } from '#src/base/secret.ts'
import { startEmbedded, type Embedded } from '#src/embedded/start.ts'
import { startTree, TREE_KEY } from '../support/tree.ts'
import { startHelper } from './child.ts'
import type { LoadQuestion, Speed } from './load-child.ts'
import type { RawQuestion } from './raw-child.ts'
import { median, ms, print, ratio, rate } from './report.ts'
import { foreignCores, noiseNow, usageOfOne } from './usage.ts'

const ROUNDS = 3
const TURN_MS = 2500
/** Messages whose headers are read to learn how the API grouped its appends. */
const SAMPLE_MAX = 5000
const IN_FLIGHT = [1, 50, 500]

type Turn = () => Promise<Speed>

/** Accepted emails a second by the role `api` alone, beside raw appends to the same nats-server in the same run, taken
 *  in turns. */
export async function benchAccept (): Promise<Record<string, unknown>> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-bench-'))
  const servers = await startEmbedded({
    dataDir,
    nats: true,
    postgres: true,
    natsBin: process.env.JETPOST_NATS_BIN || null,
    natsPort: null,
    postgresPort: null,
    log: createLog('error'),
    say: () => {}
  })
  try {
    return await besideRaw(servers, dataDir)
  } finally {
    await servers.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function besideRaw ({ natsUrl, databaseUrl }: Embedded, dataDir: string): Promise<Record<string, unknown>> {
  const jetpost = await startTree({
    env: { NATS_URL: natsUrl!, DATABASE_URL: databaseUrl!, JETPOST_SECRET: newSecret(''), JETPOST_ROLES: 'api' }
  })
  const natsPid = Number(readFileSync(join(dataDir, 'nats', 'nats-server.pid'), 'utf8'))
  const { host, username, password } = new URL(natsUrl!)
  const nc = await connect({ servers: host, user: username, pass: password })
  try {
    const load = (inFlight: number, durationMs = TURN_MS) =>
      inOwnProcess<LoadQuestion>('load-child.ts', { url: jetpost.url, key: TREE_KEY, inFlight, durationMs })
    await load(50)
    const cpu = () => ({ api: usageOfOne(jetpost.pid()).cpuMs, nats: usageOfOne(natsPid).cpuMs })
    const bytes = await lastSizeBytes(nc)
    const raw = (question: Pick<RawQuestion, 'kind'> & Partial<RawQuestion>) =>
      inOwnProcess<RawQuestion>('raw-child.ts', {
        natsUrl: natsUrl!,
        bytes,
        inFlight: 1,
        size: 1,
        durationMs: TURN_MS,
        ...question
      })
    return await inTurns({ nc, bytes, load, raw, cpu })
  } finally {
    await nc.close()
    await jetpost.stop()
    await jetpost.dispose()
  }
}

interface Bench {
  nc: NatsConnection
  /** Of a fact with a mail of ours in it. */
  bytes: number
  load: (inFlight: number) => Promise<Speed>
  raw: (question: Pick<RawQuestion, 'kind'> & Partial<RawQuestion>) => Promise<Speed>
  /** CPU time used so far. */
  cpu: () => { api: number, nats: number }
}

async function inTurns ({ nc, bytes, load, raw, cpu }: Bench): Promise<Record<string, unknown>> {
  const grouped = Object.fromEntries(
    await inOrder(IN_FLIGHT, async inFlight => [inFlight, await groupSize(nc, () => load(inFlight))] as const)
  )
  const group = Math.max(2, Math.round(grouped[50]!))
  const turns: Record<string, Turn> = {
    rawOne: () => raw({ kind: 'plain' }),
    apiOne: () => load(1),
    rawBatches: () => raw({ kind: 'batch', size: group }),
    apiFifty: () => load(50),
    rawBatchesFifty: () => raw({ kind: 'batch', size: 50 }),
    rawFifty: () => raw({ kind: 'plain', inFlight: 50 }),
    apiFiveHundred: () => load(500)
  }
  const noise = noiseNow()
  const speeds = await rounds(turns)
  const foreign = foreignCores(noise, noiseNow())
  const cpuMsAnEmail = await cpuOf(cpu, await lastSeq(nc), () => load(50), () => lastSeq(nc))
  const names: Array<[string, string]> = [
    ['apiOne', 'POST /api/emails, 1 in flight'],
    ['apiFifty', 'POST /api/emails, 50 in flight'],
    ['apiFiveHundred', 'POST /api/emails, 500 in flight'],
    ['rawOne', 'raw: one publish at a time'],
    ['rawFifty', 'raw: one publish a request, 50 in flight'],
    ['rawBatches', `raw: atomic batches of ${group}, one at a time`],
    ['rawBatchesFifty', 'raw: atomic batches of 50, one at a time']
  ]
  print(
    `Accepted emails a second: role api alone, every 202 fsynced, 2 KB html (${bytes} bytes a fact); ` +
      `medians of ${ROUNDS} rounds taken in turns`,
    [
      ['', 'a second', 'p50 ms', 'p99 ms', 'not accepted'],
      ...names.map((
        [name, words]
      ) => [
        words,
        rate(speeds[name]!.perS),
        ms(speeds[name]!.p50Ms),
        ms(speeds[name]!.p99Ms),
        String(speeds[name]!.failed)
      ])
    ]
  )
  const { rawOne, apiOne, rawBatches, apiFifty, rawBatchesFifty, rawFifty } = speeds as Record<
    keyof typeof turns,
    Speed
  >
  const ratios = {
    apiToBatchesOfItsSize: apiFifty!.perS / rawBatches!.perS,
    apiToBatchesOfFifty: apiFifty!.perS / rawBatchesFifty!.perS,
    apiToOneAppendARequest: apiFifty!.perS / rawFifty!.perS,
    addedAtOneMs: apiOne!.p50Ms - rawOne!.p50Ms
  }
  print('What that means', [
    ['', 'measured', 'goal'],
    [`50 in flight / raw batches of the ${group} it grouped itself`, ratio(ratios.apiToBatchesOfItsSize), '≥ 0.5'],
    ['50 in flight / raw batches of 50', ratio(ratios.apiToBatchesOfFifty), '(≥ 0.5)'],
    ['50 in flight / one append a request, 50 in flight', ratio(ratios.apiToOneAppendARequest), '≥ 3'],
    ['1 in flight: added at p50 to one raw publish', `${ms(ratios.addedAtOneMs)} ms`, '< 1 ms'],
    [
      'emails a commit at 1, 50, 500 in flight',
      IN_FLIGHT.map(inFlight => grouped[inFlight]!.toFixed(1)).join(', '),
      ''
    ],
    ['CPU ms an email at 50 in flight: api, nats-server', `${ms(cpuMsAnEmail.api)}, ${ms(cpuMsAnEmail.nats)}`, '']
  ])
  console.log(
    `\n  Unauthenticated clients kept ${ms(foreign)} cores busy meanwhile${
      foreign > 0.3 ? ': repeat this on a quiet machine' : ''
    }.`
  )
  return { bytes, emailsACommit: grouped, speeds, ratios, cpuMsAnEmail, foreignCores: foreign }
}

async function cpuOf (
  cpu: Bench['cpu'],
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
async function rounds (turns: Record<string, Turn>): Promise<Record<string, Speed>> {
  const taken: Record<string, Speed[]> = {}
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, turn] of Object.entries(turns)) (taken[name] ??= []).push(await turn())
  }
  return Object.fromEntries(
    Object.entries(taken).map(([name, speeds]) => [name, {
      perS: median(speeds.map(speed => speed.perS)),
      p50Ms: median(speeds.map(speed => speed.p50Ms)),
      p99Ms: median(speeds.map(speed => speed.p99Ms)),
      failed: speeds.reduce((sum, speed) => sum + speed.failed, 0)
    }])
  )
}

async function inOrder<From, To> (list: From[], act: (item: From) => Promise<To>): Promise<To[]> {
  const results: To[] = []
  for (const item of list) results.push(await act(item))
  return results
}

async function inOwnProcess<Question extends { durationMs: number }> (
  script: string,
  question: Question
): Promise<Speed> {
  const helper = startHelper(script)
  try {
    return await helper.ask<Speed>(question, question.durationMs + 30_000)
  } finally {
    await helper.stop()
  }
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
