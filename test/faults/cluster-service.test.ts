import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Shot } from '#src/cli/bench/load.ts'
import { API_KEY, startTestApp, type TestApp } from '../support/app.ts'
import { fixedRate } from '../support/load.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { openCluster, type ClusterServer, type NatsCluster } from '../support/nats-cluster.ts'
import { until } from '../support/wait.ts'
import { openWorld, reckon, smallMail, subscribe, type World } from '../support/reckoning.ts'

t.setTimeout(LONG ? 1_500_000 : 300_000)
const FAULT_MS = 20_000
/** How long an accept is tried; on a slow machine an election may take longer. */
const ACCEPT_MS = 12_000
/** A connection that has only just been made stays for a while. */
const STAY_MS = 10_000
const AFTER_MS = 3000
const RECOVERY_MS = 90_000
const LOOK_MS = 250

interface House {
  app: TestApp
  cluster: NatsCluster
  world: World
}

async function openHouse (t: Test): Promise<House> {
  const cluster = await openCluster(t)
  // On a slow machine the servers take longer to find each other than a start waits.
  await cluster.whole()
  const world = await openWorld(t)
  const app = await startTestApp(t, {
    natsUrl: cluster.servers.map(server => server.url).join(),
    env: { JETPOST_NATS_REPLICAS: '3', SMTP_URL: world.smtpUrl }
  })
  await subscribe({ request: (method, path, body) => app.request(method, path, { body }) }, world)
  return { app, cluster, world }
}

/** The server that the app is connected to. */
async function serverOf ({ cluster }: House): Promise<ClusterServer> {
  for (const server of cluster.servers) if (await server.connections(`jetpost ${hostname()}`) > 0) return server
  throw new Error('the app is not connected')
}

/** Resolves once an email was accepted that was sent after the call. */
type Accepted = () => Promise<void>

/** Sends all the while, and resolves to what was answered. */
async function sendAll ({ app }: House, fault: (accepted: Accepted) => Promise<void>): Promise<Shot[]> {
  let lastSentMs = 0
  const accepted = async () => {
    const nowMs = performance.now()
    await until(() => lastSentMs > nowMs, 60_000)
  }
  const over = new AbortController()
  const shots = fixedRate({
    url: app.url,
    key: API_KEY,
    perS: 20,
    inFlight: 400,
    durationMs: 120_000,
    body: smallMail,
    signal: over.signal,
    onShot: ({ status, ms }) => {
      if (status === 202) lastSentMs = Math.max(lastSentMs, performance.now() - ms)
    }
  })
  await accepted()
  await fault(accepted)
  over.abort()
  return await shots
}

/** The same; nobody may be called unready meanwhile. */
async function sendThrough (t: Test, house: House, fault: (accepted: Accepted) => Promise<void>): Promise<Shot[]> {
  const unready: unknown[] = []
  let isOver = false
  const looking = (async () => {
    for (; !isOver; await sleep(LOOK_MS)) {
      const { status, body } = await house.app.request('GET', '/readyz', { key: null })
      if (status !== 200) unready.push(body)
    }
  })()
  const shots = await sendAll(house, fault)
  isOver = true
  await looking
  t.strictSame(unready, [], 'ready all the while')
  return shots
}

async function check (t: Test, { app, world }: House, shots: Shot[], mayRefuse = false): Promise<void> {
  const refused = shots.filter(({ status }) => status !== 202)
  const isHonest = ({ status, retryAfterS }: Shot) => status === 503 && retryAfterS !== null
  if (mayRefuse) t.ok(refused.every(isHonest))
  else if (LONG) t.strictSame(refused, [], `of ${shots.length} all are accepted`)
  else t.ok(refused.every(shot => isHonest(shot) && shot.ms >= ACCEPT_MS), 'none is refused before its time is over')
  const jetpost = { request: (method: string, path: string, body?: unknown) => app.request(method, path, { body }) }
  const { doubled, doubted } = await reckon(t, jetpost, world, shots, RECOVERY_MS)
  const slowest = Math.max(...shots.map(({ ms }) => ms))
  t.comment(`${shots.length} sent, ${refused.length} refused, ${doubled} doubled, ${doubted} doubted, ${slowest} ms`)
}

/** What is done to the cluster; `last` resolves when the fault has lasted long enough. */
type Make = (house: House, at: ClusterServer, last: () => Promise<void>) => Promise<void>
/** A fault's name, and how it is made and mended. */
type Fault = [name: string, make: Make]

async function leaderOf ({ cluster }: House, stream: string): Promise<ClusterServer> {
  return await cluster.leaderOf(await cluster.connect(...cluster.servers), stream)
}

async function frozen (server: ClusterServer, last = () => sleep(FAULT_MS)): Promise<void> {
  server.freeze()
  await last()
  server.thaw()
}

const cutOff: Make = async (_house, server, last) => {
  server.cutOff()
  await last()
  server.join()
}

async function killed (...servers: ClusterServer[]): Promise<void> {
  await Promise.all(servers.map(server => server.end('SIGKILL')))
  await sleep(FAULT_MS)
  for (const server of servers) await server.begin()
}

const FAULTS: Fault[] = [
  ['the server one is on hangs', async (_house, at, last) => await frozen(at, last)],
  ['the server one is on is cut off from the others', cutOff]
]

const MORE_FAULTS: Fault[] = [
  ['the leader of REQUESTS hangs', async house => await frozen(await leaderOf(house, 'REQUESTS'))],
  ['a follower hangs', async house => {
    const leader = await leaderOf(house, 'REQUESTS')
    await frozen(house.cluster.servers.find(server => server !== leader)!)
  }],
  ['the leader of REQUESTS is killed', async house => await killed(await leaderOf(house, 'REQUESTS'))],
  ['the leader of EMAILS is killed', async house => await killed(await leaderOf(house, 'EMAILS'))],
  ['the server one is on is killed', async (_house, at) => await killed(at)],
  ['one server after the other is started again', async ({ cluster }) => {
    for (const server of cluster.servers) {
      await server.end('SIGTERM')
      await server.begin()
      await sleep(FAULT_MS / 2)
    }
  }],
  ['the server one is on is a lame duck', async (_house, at) => {
    await at.end('SIGUSR2')
    await at.begin()
  }]
]

for (const [name, make] of LONG ? [...FAULTS, ...MORE_FAULTS] : FAULTS) {
  t.test(`${name}: nothing is refused, and nothing is lost`, async t => {
    const house = await openHouse(t)
    if (LONG || make === cutOff) await sleep(STAY_MS)
    const at = await serverOf(house)
    const shots = await sendThrough(t, house, async accepted => {
      await make(house, at, LONG ? () => sleep(FAULT_MS) : accepted)
      if (LONG) await sleep(AFTER_MS)
      await accepted()
    })
    await check(t, house, shots)
  })
}

t.test('two of three are killed: what is accepted is not lost, and what is refused says so', LONG_ONLY, async t => {
  const house = await openHouse(t)
  const [, ...others] = house.cluster.servers
  const shots = await sendAll(house, async () => {
    await killed(...others)
    await sleep(AFTER_MS)
  })
  await check(t, house, shots, true)
})
