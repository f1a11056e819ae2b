import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { streamPlans } from '#streams/topology.ts'
import { createLog } from '#src/base/log.ts'
import { findNatsServer } from '#src/embedded/nats-binary.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { startSupervised } from '#src/embedded/supervised-process.ts'
import { api } from '#src/nats/api.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import type { Ending } from './servers.ts'
import { until } from './wait.ts'

const DAY_MS = 86_400_000
const NAMES = ['n1', 'n2', 'n3'] as const

/** One server of three. */
export interface ClusterServer {
  name: string
  /** Of this one alone. */
  url: string
  /** Its lines stay, and nothing is answered until `thaw`. */
  freeze(): void
  thaw(): void
}

/** Three nats-servers of the test's own, as one cluster; ended with the test. */
export interface NatsCluster {
  servers: ClusterServer[]
  /** Connects to one server alone, or to any of several; closed with the test. */
  connect(...servers: ClusterServer[]): Promise<Bus>
  /** Makes streams of the topology, a copy on each server. */
  make(...streams: string[]): Promise<void>
  /** Who leads a stream now, by the word of a server that is not frozen; resolves once somebody does. */
  leaderOf(bus: Bus, stream: string): Promise<ClusterServer>
}

export async function openCluster (t: Ending): Promise<NatsCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-cluster-'))
  t.teardown(async () => rmSync(folder, { recursive: true, force: true }))
  const file = await findNatsServer({
    natsBin: process.env.JETPOST_NATS_BIN || null,
    dataDir: folder,
    say: () => {},
    signal: AbortSignal.timeout(60_000)
  })
  const routes: number[] = []
  for (const _name of NAMES) routes.push(await choosePort(null, null, ''))
  const servers: ClusterServer[] = []
  for (const [i, name] of NAMES.entries()) {
    const port = await choosePort(null, null, '')
    const config = join(folder, `${name}.conf`)
    writeFileSync(config, serverConfig({ name, port, routes, own: routes[i]!, storeDir: join(folder, name) }))
    const server = await startSupervised({
      file,
      args: ['--config', config],
      env: process.env,
      logFile: join(folder, `${name}.log`),
      stopSignal: 'SIGTERM',
      forceSignal: 'SIGKILL'
    })
    const thaw = () => void process.kill(server.pid, 'SIGCONT')
    t.teardown(async () => {
      thaw()
      await server.stop()
    })
    const freeze = () => void process.kill(server.pid, 'SIGSTOP')
    servers.push({ name, url: `nats://jetpost:secret@127.0.0.1:${port}`, freeze, thaw })
  }
  const cluster = { servers, connect: connectTo(t), make, leaderOf }

  async function make (...streams: string[]): Promise<void> {
    const bus = await cluster.connect(servers[0]!)
    await until(async () => await api(bus, 'INFO', undefined, 1000).then(() => true, () => false))
    const plans = streamPlans({ factsMs: 90 * DAY_MS, contentMs: 30 * DAY_MS })
    for (const plan of plans.filter(({ name }) => streams.includes(name))) {
      const config = { ...plan, num_replicas: 3, persist_mode: undefined }
      await until(async () => await api(bus, `STREAM.CREATE.${plan.name}`, config).then(() => true, () => false))
    }
  }

  async function leaderOf (bus: Bus, stream: string): Promise<ClusterServer> {
    let leader: ClusterServer | undefined
    await until(async () => {
      const info = await api<{ cluster: { leader?: string } }>(bus, `STREAM.INFO.${stream}`, undefined, 1000)
        .catch(() => null)
      leader = servers.find(({ name }) => name === info?.cluster.leader)
      return leader !== undefined
    })
    return leader!
  }

  return cluster
}

function connectTo (t: Ending) {
  return async (...servers: ClusterServer[]): Promise<Bus> => {
    const url = servers.map(server => server.url).join()
    const bus = await connectBus({ url, creds: null, name: 'test', log: createLog('silent') })
    t.teardown(() => bus.close())
    return bus
  }
}

interface ServerPlan {
  name: string
  port: number
  /** Ports of the routes of all three. */
  routes: number[]
  own: number
  storeDir: string
}

// Addresses of others are not told, so that a connection to one server alone stays there.
function serverConfig ({ name, port, routes, own, storeDir }: ServerPlan): string {
  return `
server_name: ${name}
listen: "127.0.0.1:${port}"
max_payload: 8MB
max_pending: 256MB
jetstream { store_dir: ${JSON.stringify(storeDir)}, sync_interval: always }
authorization { user: jetpost, password: secret }
cluster {
  name: test
  listen: "127.0.0.1:${own}"
  no_advertise: true
  ping_interval: "2s"
  ping_max: 2
  routes: [${routes.filter(route => route !== own).map(route => `"nats://127.0.0.1:${route}"`).join(', ')}]
}
`
}
