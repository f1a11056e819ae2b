import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { streamPlans } from '#streams/topology.ts'
import { createLog } from '#src/base/log.ts'
import { findNatsServer } from '#src/embedded/nats-binary.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { sendSignal } from '#src/embedded/orphan.ts'
import { startSupervised, type Command, type SupervisedProcess } from '#src/embedded/supervised-process.ts'
import { api } from '#src/nats/api.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { openLine, type Line } from './line.ts'
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
  /** The others do not hear it, nor it them, until `join`; clients reach it. */
  cutOff(): void
  join(): void
  /** Resolves when it is gone. SIGUSR2 makes it a lame duck, which takes 30 s. */
  end(signal: 'SIGKILL' | 'SIGTERM' | 'SIGUSR2'): Promise<void>
  /** Starts it again, with what it had on its disk. */
  begin(): Promise<void>
  /** How many connections of that name it has. */
  connections(name: string): Promise<number>
}

/** Three nats-servers of the test's own, as one cluster; ended with the test. */
export interface NatsCluster {
  servers: ClusterServer[]
  /** Connects to one server alone, or to any of several; closed with the test. */
  connect(...servers: ClusterServer[]): Promise<Bus>
  /** Makes streams of the topology, a copy on each server. */
  make(...streams: string[]): Promise<void>
  /** Resolves once a stream has a place on each of the three. */
  whole(): Promise<void>
  /** Who leads a stream now, by the word of a server that is not frozen; resolves once somebody does. */
  leaderOf(bus: Bus, stream: string): Promise<ClusterServer>
}

class LocalServer implements ClusterServer {
  readonly name: string
  readonly url: string
  private readonly monitor: number
  private readonly command: Command
  /** Those between it and the others. */
  private readonly lines: Line[]
  private running!: SupervisedProcess

  constructor (plan: ServerPlan, command: Command, lines: Line[]) {
    this.name = plan.name
    this.url = `nats://jetpost:secret@127.0.0.1:${plan.port}`
    this.monitor = plan.monitor
    this.command = command
    this.lines = lines
  }

  async begin (): Promise<void> {
    this.running = await startSupervised(this.command)
  }

  async end (signal: NodeJS.Signals): Promise<void> {
    process.kill(this.running.pid, signal)
    await this.running.exited
  }

  async stop (): Promise<void> {
    sendSignal(this.running.pid, 'SIGCONT')
    await this.running.stop()
  }

  freeze (): void {
    process.kill(this.running.pid, 'SIGSTOP')
  }

  thaw (): void {
    process.kill(this.running.pid, 'SIGCONT')
  }

  cutOff (): void {
    for (const line of this.lines) line.cut()
  }

  join (): void {
    for (const line of this.lines) line.mend()
  }

  async connections (name: string): Promise<number> {
    const answer = await fetch(`http://127.0.0.1:${this.monitor}/connz`).catch(() => null)
    if (answer === null) return 0
    const { connections } = await answer.json() as { connections: Array<{ name: string }> }
    return connections.filter(connection => connection.name === name).length
  }
}

/** Each hears each by a line that can be cut: `[i][j]` is what i dials of j. */
async function openLines (t: Ending, routes: number[]): Promise<Line[][]> {
  const linesOfOne = async () => await Promise.all(routes.map(async route => await openLine(t, '127.0.0.1', route)))
  return await Promise.all(routes.map(linesOfOne))
}

async function openServers (t: Ending, folder: string): Promise<LocalServer[]> {
  const file = await findNatsServer({
    natsBin: process.env.JETPOST_NATS_BIN || null,
    dataDir: folder,
    say: () => {},
    signal: AbortSignal.timeout(60_000)
  })
  const routes: number[] = []
  for (const _name of NAMES) routes.push(await choosePort(null, null, ''))
  const lines = await openLines(t, routes)
  const servers: LocalServer[] = []
  for (const [i, name] of NAMES.entries()) {
    const plan: ServerPlan = {
      name,
      port: await choosePort(null, null, ''),
      monitor: await choosePort(null, null, ''),
      own: routes[i]!,
      others: lines[i]!.filter((_line, j) => j !== i).map(line => line.port),
      storeDir: join(folder, name)
    }
    const config = join(folder, `${name}.conf`)
    writeFileSync(config, serverConfig(plan))
    const between = lines.flatMap((dialed, from) =>
      dialed.filter((_line, to) => from !== to && (from === i || to === i))
    )
    const command: Command = {
      file,
      args: ['--config', config],
      env: process.env,
      logFile: join(folder, `${name}.log`),
      stopSignal: 'SIGTERM',
      forceSignal: 'SIGKILL'
    }
    const server = new LocalServer(plan, command, between)
    await server.begin()
    t.teardown(() => server.stop())
    servers.push(server)
  }
  return servers
}

export async function openCluster (t: Ending): Promise<NatsCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-cluster-'))
  t.teardown(async () => rmSync(folder, { recursive: true, force: true }))
  const servers = await openServers(t, folder)
  const cluster = { servers, connect: connectTo(t), make, whole, leaderOf }

  async function make (...streams: string[]): Promise<void> {
    const bus = await cluster.connect(servers[0]!)
    await until(async () => await api(bus, 'INFO', undefined, 1000).then(() => true, () => false))
    const plans = streamPlans({ factsMs: 90 * DAY_MS, contentMs: 30 * DAY_MS })
    for (const plan of plans.filter(({ name }) => streams.includes(name))) {
      const config = { ...plan, num_replicas: 3, persist_mode: undefined }
      await until(async () => await api(bus, `STREAM.CREATE.${plan.name}`, config).then(() => true, () => false))
    }
  }

  async function whole (): Promise<void> {
    const bus = await cluster.connect(servers[0]!)
    const config = { name: 'WHOLE', subjects: ['whole'], num_replicas: 3, storage: 'memory' }
    const is = async (method: string, body?: object) =>
      await api(bus, `STREAM.${method}.WHOLE`, body, 1000).then(() => true, () => false)
    await until(async () => await is('CREATE', config), 90_000)
    await until(async () => await is('DELETE') || !await is('INFO'))
    await bus.close()
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
  monitor: number
  /** The port of its own routes, and where it finds those of the others. */
  own: number
  others: number[]
  storeDir: string
}

// Addresses of others are not told: a connection to one server alone stays there, and servers find each other by lines
// that can be cut, and by nothing else.
function serverConfig ({ name, port, monitor, own, others, storeDir }: ServerPlan): string {
  return `
server_name: ${name}
listen: "127.0.0.1:${port}"
http: "127.0.0.1:${monitor}"
max_payload: 8MB
max_pending: 256MB
lame_duck_duration: "30s"
lame_duck_grace_period: "1s"
jetstream { store_dir: ${JSON.stringify(storeDir)}, sync_interval: always }
authorization { user: jetpost, password: secret }
cluster {
  name: test
  listen: "127.0.0.1:${own}"
  no_advertise: true
  advertise: "127.0.0.1:9"
  ping_interval: "2s"
  ping_max: 2
  routes: [${others.map(route => `"nats://127.0.0.1:${route}"`).join(', ')}]
}
`
}
