import { setTimeout as sleep } from 'node:timers/promises'
import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { ClusterServer } from './nats-cluster.ts'
import type { OwnPostgres } from './own-postgres.ts'
import type { Chance } from './random.ts'
import type { World } from './reckoning.ts'
import { signal, type Tree } from './tree.ts'

/** What faults are done to. */
export interface ChaosHouse {
  nodes: Tree[]
  servers: ClusterServer[]
  bus: Bus
  postgres: OwnPostgres
  world: World
}

/** One fault: done to which (of those that there are), for how long, and how long until the next; `over` = the next
 *  waits for its end. */
export interface Step {
  fault: keyof typeof FAULTS
  target: number
  forMs: number
  thenMs: number
  over: boolean
}

type Fault = (house: ChaosHouse, step: Step) => Promise<void>

const nodeOf = ({ nodes }: ChaosHouse, { target }: Step) => nodes[target % nodes.length]!
const serverOf = ({ servers }: ChaosHouse, { target }: Step) => servers[target % servers.length]!

const STREAMS = ['REQUESTS', 'EMAILS', 'WEBHOOKS', 'CONTROL']
/** Longer than a sender's heartbeat may be missing: it is taken for dead. */
const LONG_FREEZE_MS = 18_000

const FAULTS = {
  async 'a node is killed' (house, step) {
    const node = nodeOf(house, step)
    await node.kill9()
    await sleep(step.forMs)
    await node.start()
  },
  async 'a node is stopped and started' (house, step) {
    const node = nodeOf(house, step)
    await node.stop()
    await sleep(step.forMs / 4)
    await node.start()
  },
  async 'a node hangs' (house, step) {
    await hang(nodeOf(house, step), step.forMs)
  },
  async 'a node hangs for long' (house, step) {
    await hang(nodeOf(house, step), LONG_FREEZE_MS)
  },
  async 'a NATS server is killed' (house, step) {
    const server = serverOf(house, step)
    await server.end('SIGKILL')
    await sleep(step.forMs)
    await server.begin()
  },
  async 'a NATS server is stopped and started' (house, step) {
    const server = serverOf(house, step)
    await server.end('SIGTERM')
    await server.begin()
  },
  async 'a NATS server hangs' (house, step) {
    const server = serverOf(house, step)
    server.freeze()
    await sleep(2 * step.forMs)
    server.thaw()
  },
  async 'a NATS server is cut off' (house, step) {
    const server = serverOf(house, step)
    server.cutOff()
    await sleep(2 * step.forMs)
    server.join()
  },
  async 'a stream gets another leader' ({ bus }, { target }) {
    await api(bus, `STREAM.LEADER.STEPDOWN.${STREAMS[target % STREAMS.length]}`, undefined).catch(() => {})
  },
  async 'PostgreSQL is away' ({ postgres }, { forMs }) {
    await postgres.stop()
    await sleep(forMs)
    await postgres.start()
  },
  async 'the relay resets each connection' ({ world }, { forMs }) {
    world.mail.greet('reset')
    await sleep(forMs)
    world.mail.greet(null)
  },
  async 'the relay says nothing' ({ world }, { forMs }) {
    world.mail.greet('hang')
    await sleep(forMs)
    world.mail.greet(null)
  },
  async 'the receiver of webhooks answers 503, or nothing' ({ world: { hooks } }, { forMs, target }) {
    hooks.answers(() => (target === 0 ? { reset: true } : { status: 503 }))
    await sleep(forMs)
    hooks.answers(() => ({}))
  },
  async 'the receiver of webhooks lies: it takes, and cuts the line' ({ world: { hooks } }, { forMs }) {
    hooks.answers(() => ({ close: true }))
    await sleep(forMs / 2)
    hooks.answers(() => ({}))
  }
} satisfies Record<string, Fault>

async function hang (node: Tree, forMs: number): Promise<void> {
  signal(node.pid(), 'SIGSTOP')
  await sleep(forMs)
  signal(node.pid(), 'SIGCONT')
}

export function drawScript (chance: Chance, steps: number): Step[] {
  const names = Object.keys(FAULTS) as Array<keyof typeof FAULTS>
  return Array.from({ length: steps }, () => ({
    fault: chance.of(names),
    target: chance.int(0, 5),
    forMs: chance.int(300, 4000),
    thenMs: chance.int(200, 2500),
    over: chance.next() < 0.6
  }))
}

export function describeStep ({ fault, target, forMs, thenMs, over }: Step): string {
  return `${fault} (${target}, ${forMs} ms${over ? '' : ', not waited for'}), then ${thenMs} ms`
}

/** Resolves once all faults are over. What is done to one thing is done one after the other. */
export async function perform (house: ChaosHouse, script: Step[]): Promise<void> {
  const queues = new Map<string, Promise<void>>()
  for (const step of script) {
    const name = thingOf(house, step)
    const done = (queues.get(name) ?? Promise.resolve()).then(() => (FAULTS[step.fault] as Fault)(house, step))
    // Waited for at the end in any case.
    done.catch(() => {})
    queues.set(name, done)
    if (step.over) await done
    await sleep(step.thenMs)
  }
  await Promise.all(queues.values())
}

function thingOf (house: ChaosHouse, step: Step): string {
  const [, , thing] = step.fault.split(' ')
  if (step.fault.startsWith('a node')) return `node ${step.target % house.nodes.length}`
  if (step.fault.startsWith('a NATS server')) return `server ${step.target % house.servers.length}`
  return thing ?? step.fault
}
