import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Shot } from '#src/cli/bench/load.ts'
import { API_KEY, startTestApp, type TestApp } from '../support/app.ts'
import { fixedRate } from '../support/load.ts'
import { LONG } from '../support/long.ts'
import { openCluster, type ClusterServer, type NatsCluster } from '../support/nats-cluster.ts'
import { openWorld, reckon, smallMail, subscribe, type World } from '../support/reckoning.ts'

t.setTimeout(300_000)
const FAULT_MS = LONG ? 20_000 : 12_000
const RECOVERY_MS = 90_000
const LOOK_MS = 250

interface House {
  app: TestApp
  cluster: NatsCluster
  world: World
}

async function openHouse (t: Test): Promise<House> {
  const cluster = await openCluster(t)
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

/** Sends all the while, and resolves to what was answered; nothing may be refused, and nobody be called unready. */
async function sendThrough (t: Test, { app }: House, fault: () => Promise<void>): Promise<Shot[]> {
  const over = new AbortController()
  const shots = fixedRate({
    url: app.url,
    key: API_KEY,
    perS: 20,
    inFlight: 400,
    durationMs: 120_000,
    body: smallMail,
    signal: over.signal,
    onShot: () => {}
  })
  const unready: unknown[] = []
  const looking = (async () => {
    for (; !over.signal.aborted; await sleep(LOOK_MS)) {
      const { status, body } = await app.request('GET', '/readyz', { key: null })
      if (status !== 200) unready.push(body)
    }
  })()
  await sleep(1000)
  await fault()
  over.abort()
  await looking
  t.strictSame(unready, [], 'ready all the while')
  return await shots
}

async function check (t: Test, { app, world }: House, shots: Shot[]): Promise<void> {
  t.strictSame(shots.filter(({ status }) => status !== 202), [], `of ${shots.length} all are accepted`)
  const jetpost = { request: (method: string, path: string, body?: unknown) => app.request(method, path, { body }) }
  const { doubled, doubted } = await reckon(t, jetpost, world, shots, RECOVERY_MS)
  t.comment(`doubled ${doubled}, doubted ${doubted}, slowest ${Math.max(...shots.map(({ ms }) => ms))} ms`)
}

t.test('the server one is on hangs: nothing is refused, and nothing is lost', async t => {
  const house = await openHouse(t)
  const at = await serverOf(house)
  const shots = await sendThrough(t, house, async () => {
    at.freeze()
    await sleep(FAULT_MS)
    at.thaw()
    await sleep(3000)
  })
  await check(t, house, shots)
})

t.test('the server one is on is cut off from the others: nothing is refused, and nothing is lost', async t => {
  const house = await openHouse(t)
  // A connection that has only just been made stays for a while.
  await sleep(10_000)
  const at = await serverOf(house)
  const shots = await sendThrough(t, house, async () => {
    at.cutOff()
    await sleep(FAULT_MS)
    at.join()
    await sleep(3000)
  })
  await check(t, house, shots)
})
