import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { changeWebhook } from '#src/actions/webhook.ts'
import { sleep } from '#src/base/backoff.ts'
import { follow } from '#src/nats/follow.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { hurry, openHookRig, type HookRig } from '../support/hook-rig.ts'
import {
  faultsInEnds,
  faultsSeen,
  illegal,
  kindsOf,
  overtaking,
  play,
  tell,
  unfinished,
  type Endpoint,
  type Told
} from '../support/hook-model.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { openOwnNats, type OwnNats } from '../support/own-nats.ts'
import { openChance, type Chance } from '../support/random.ts'
import { until } from '../support/wait.ts'

t.setTimeout(LONG ? 900_000 : 240_000)

const CHILD = fileURLToPath(new URL('../support/hook-child.ts', import.meta.url))
/** Short, or the schedule would not come to its end here. */
const GAPS_S = [0.05, 0.15, 0.4]
const TRIES = GAPS_S.length + 1
const ACK_WAIT_MS = 2000
const OPTIONS = { gapsS: GAPS_S, timeoutMs: 2000, ackWaitMs: ACK_WAIT_MS }
/** Events before anything is killed, while, and after. `rare` ones go to the endpoints that make each of them long as
 *  well. */
const PLAN = LONG
  ? { calm: 300, rare: 2, stormMs: 150_000, stormRare: 20, after: 100, paceMs: 200 }
  : { calm: 60, rare: 0, stormMs: 6000, stormRare: 2, after: 20, paceMs: 60 }
const SETTLED_MS = LONG ? 300_000 : 90_000

hurry(ACK_WAIT_MS)

interface Model {
  rig: HookRig
  nats: OwnNats
  chance: Chance
  endpoints: Endpoint[]
  told: Told
  /** Requests that were led astray. */
  trapped(): number
}

async function openModel (t: Test): Promise<Model> {
  const chance = openChance(t)
  const nats = await openOwnNats(t)
  const rig = await openHookRig(t, nats.natsUrl)
  const sinks: Array<{ stop(): Promise<void> }> = []
  t.teardown(async () => void await Promise.all(sinks.map(sink => sink.stop())))
  const open = async () => {
    const sink = await startHookSink()
    sinks.push(sink)
    return sink
  }
  const trap = await open()
  const endpoints: Endpoint[] = []
  for (const kind of kindsOf(chance, trap.url)) {
    const sink = await open()
    const events = kind.rare === true ? ['email.bounced'] as const : ['email.delivered', 'email.bounced'] as const
    const endpoint = { kind, sink, events, said: new Map(), ...await rig.listen(sink.url, events, kind.settings) }
    play(endpoint)
    endpoints.push(endpoint)
  }
  const told: Told = { events: [], deliveries: new Map() }
  readLog(t, rig, told)
  return { rig, nats, chance, endpoints, told, trapped: () => trap.requests.length }
}

/** Keeps what the log says at hand. */
function readLog (t: Test, rig: HookRig, told: Told): void {
  const done = new AbortController()
  const read = async (stream: string, filter: string) => {
    const options = {
      stream,
      filter,
      afterSeq: 0,
      batchMax: 500,
      gather: () => sleep(5),
      signal: done.signal,
      onError: () => {}
    }
    for await (const batch of follow(rig.factLog.bus, options)) for (const recorded of batch) tell(told, recorded)
  }
  const reading = [read('EMAILS', 'email.>'), read('WEBHOOKS', 'webhook.>')]
  t.teardown(async () => {
    done.abort()
    await Promise.all(reading)
  })
}

/** A process with the role, that can be killed and comes back. */
function openProcess (t: Test, natsUrl: string) {
  let child: ChildProcess | null = null
  const kill = async () => {
    if (child === null) return
    const dying = child
    child = null
    if (dying.exitCode !== null || dying.signalCode !== null) return
    dying.kill('SIGKILL')
    await once(dying, 'exit')
  }
  t.teardown(kill)
  return {
    kill,
    async start () {
      child = fork(CHILD, [natsUrl, JSON.stringify(OPTIONS)], { stdio: 'inherit' })
      await once(child, 'message')
    }
  }
}

/** Events of emails that have several, from a few hands at once. The log tells what came of it: while the server is
 *  away it may be anything. */
async function write ({ rig, chance }: Model, count: number, signal?: AbortSignal): Promise<void> {
  const hand = async () => {
    let email: string | undefined
    for (let i = 0; i < count / 4 && signal?.aborted !== true; i++) {
      const happened = await rig.happen('delivered', email === undefined || chance.next() < 0.3 ? {} : { email }).catch(
        () => null
      )
      email = happened?.email ?? email
      await sleep(chance.int(0, PLAN.paceMs), signal)
    }
  }
  await Promise.all([hand(), hand(), hand(), hand()])
}

async function writeRare ({ rig, chance }: Model, count: number, spreadMs: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await rig.happen('bounced').catch(() => null)
    await sleep(chance.int(0, Math.floor(spreadMs / count)))
  }
}

/** Resolves once all that the log owes has come to its end; rejects with what has not. */
async function settled ({ rig, told, endpoints }: Model): Promise<void> {
  const { bus } = rig.factLog
  const events = await lastSequenceUnder(bus, 'EMAILS', 'email.>')
  await until(() => (told.events.at(-1)?.seq ?? 0) >= events)
  for (const endMs = Date.now() + SETTLED_MS; Date.now() < endMs; await sleep(250)) {
    if (unfinished(told, endpoints).length === 0) return
  }
  const open = unfinished(told, endpoints)
  if (open.length > 0) throw new Error(`${open.length} are not at their end:\n${open.slice(0, 20).join('\n')}`)
}

async function pause ({ rig, endpoints }: Model, paused: boolean): Promise<void> {
  for (const { kind, webhook } of endpoints) {
    if (kind.name.startsWith('paused')) await changeWebhook(rig.services, rig.asker, webhook.id, { paused })
  }
}

/** Kills and pauses by chance for a while. */
async function storm (
  model: Model,
  processes: Array<ReturnType<typeof openProcess>>,
  signal: AbortSignal
): Promise<Record<string, number>> {
  const { nats, chance } = model
  const counts = { process: 0, nats: 0, pause: 0 }
  const again = new Map<number, Promise<void>>()
  while (!signal.aborted) {
    const fault = chance.of(['process', 'process', 'nats', 'pause'] as const)
    counts[fault]++
    if (fault === 'pause') void pause(model, chance.next() < 0.5).catch(() => {})
    if (fault === 'nats') {
      await nats.kill()
      await sleep(chance.int(0, 700))
      await nats.start()
    }
    if (fault === 'process') {
      const i = chance.int(0, processes.length - 1)
      await again.get(i)
      await processes[i]!.kill()
      again.set(i, processes[i]!.start())
    }
    await sleep(chance.int(100, 1200), signal)
  }
  await Promise.all(again.values())
  return counts
}

function allFaults ({ told, endpoints }: Model): string[] {
  return endpoints.flatMap(endpoint => [...faultsSeen(told, endpoint), ...faultsInEnds(told, endpoint, TRIES)])
}

function illegalOnes ({ told }: Model, once: boolean): string[] {
  return [...told.deliveries.values()].map(history => illegal(history, TRIES, once)).filter(fault => fault !== null)
}

/** Each (event, endpoint) is requested once, whichever process fans out. */
function askedTwice ({ told }: Model): string[] {
  const pairs = [...told.deliveries.values()].flatMap(({ webhook, steps }) =>
    steps.filter(({ type }) => type === 'delivery.requested').flatMap(({ data }) =>
      data.events.map(({ id }) => `${id} ${webhook}`)
    )
  )
  return pairs.filter((pair, i) => pairs.indexOf(pair) !== i)
}

t.test(
  'each event reaches each endpoint or fails on schedule, with the same bytes, whatever is killed',
  LONG_ONLY,
  async t => {
    const model = await openModel(t)
    const { rig, nats, endpoints, told } = model
    const processes = [openProcess(t, nats.natsUrl), openProcess(t, nats.natsUrl)]

    await t.test('one process, nobody killed: also in order, and nothing twice', async t => {
      await processes[0]!.start()
      await Promise.all([write(model, PLAN.calm), writeRare(model, PLAN.rare, 1000)])
      await settled(model)
      t.same(allFaults(model), [])
      t.same(askedTwice(model), [])
      t.same(illegalOnes(model, true), [])
      const ordered = endpoints.map(endpoint => overtaking(told, endpoint))
      t.same(ordered.flatMap(({ faults }) => faults), [])
      const emails = ordered.reduce((sum, { emails }) => sum + emails, 0)
      t.ok(emails > 50, `the order of ${emails} emails of several events was looked at`)
      const goneAtOnce = endpoints.find(({ kind }) => kind.name === 'gone at once')!
      const steps = [...told.deliveries.values()].flatMap(({ webhook, steps }) =>
        webhook === goneAtOnce.webhook.id ? steps : []
      )
      t.equal(
        steps.filter(step => step.type === 'delivery.attempted' && step.data.status === 410).length,
        1,
        'after 410 there is no other request'
      )
    })

    await t.test('two processes, killed with the server at random', async t => {
      await processes[1]!.start()
      const calming = new AbortController()
      const over = sleep(PLAN.stormMs).then(() => calming.abort())
      const [counts] = await Promise.all([
        storm(model, processes, calming.signal),
        write(model, 1e6, calming.signal),
        writeRare(model, PLAN.stormRare, PLAN.stormMs),
        over
      ])
      t.comment(`killed and paused: ${JSON.stringify(counts)}`)
      // Processes that begin now know which endpoints are gone.
      await Promise.all(processes.map(process => process.kill()))
      await rig.directory.catchUp(10_000)
      const gone = endpoints.filter(({ webhook }) => rig.directory.now.webhooks.get(webhook.id)!.disabled !== null)
      const before = gone.map(({ sink }) => sink.requests.length)
      await Promise.all(processes.map(process => process.start()))
      await pause(model, false)
      await write(model, PLAN.after)
      await settled(model)
      t.comment(
        `${told.events.length} events, ${told.deliveries.size} deliveries, ${
          endpoints.reduce((sum, { sink }) => sum + sink.requests.length, 0)
        } requests`
      )
      t.same(allFaults(model), [])
      t.same(askedTwice(model), [])
      t.same(illegalOnes(model, false), [])
      t.ok(gone.length > 0)
      t.same(
        gone.map(({ sink }) => sink.requests.length),
        before,
        'nothing more goes to who is gone'
      )
      t.equal(model.trapped(), 0, 'no redirect was followed')
    })
  }
)
