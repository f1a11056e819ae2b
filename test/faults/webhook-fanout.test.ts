import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { LiveDirectory } from '#src/actions/directory.ts'
import { changeWebhook, type CreatedWebhook } from '#src/actions/webhook.ts'
import { BodyCache } from '#src/workers/webhooks/body-cache.ts'
import { startFanout } from '#src/workers/webhooks/fanout.ts'
import { startBatching } from '#src/workers/webhooks/batching.ts'
import { createLog } from '#src/base/log.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Role } from '#src/base/role.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { getDirectBatch } from '#src/nats/direct.ts'
import { subjects } from '#streams/subjects.ts'
import { LEASE_MS, openHookRig, type Happened, type HookRig } from '../support/hook-rig.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { LONG_ONLY } from '../support/long.ts'
import { until } from '../support/wait.ts'

const CHILD = fileURLToPath(new URL('../support/hook-child.ts', import.meta.url))

const requestsIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.requested')
const requested = (facts: AnyFact[]) => requestsIn(facts).map(({ data }) => `${data.events[0]!.id} ${data.webhook}`)

/** Each event a delivery brings to its endpoint. */
const pairsIn = (facts: AnyFact[]) =>
  requestsIn(facts).flatMap(({ data }) => data.events.map(({ id }) => `${id} ${data.webhook}`))

/** Each event that an endpoint has taken, as often as it has. */
const answered = (facts: AnyFact[]) =>
  facts.flatMap(fact =>
    fact.type === 'delivery.attempted' && fact.data.result === 'delivered' ? [fact.data.delivery] : []
  )

function startGatherer ({ directory }: HookRig, factLog: FactLog): Role {
  return startBatching({ factLog, directory, repair: async () => false, log: createLog('silent') })
}

/** A fan-out alone, as one more process would run it. */
function startOne (factLog: FactLog, directory: LiveDirectory): Role {
  return startFanout({ factLog, directory, bodies: new BodyCache(1_000_000), log: createLog('silent') })
}

t.test(
  'two fan-outs on one log with random restarts make exactly one delivery of each event for each endpoint',
  LONG_ONLY,
  async t => {
    const rig = await openHookRig(t)
    const hooks: CreatedWebhook[] = []
    for (let i = 0; i < 12; i++) hooks.push(await rig.listen(`http://127.0.0.1:9/${i}`))
    const running = new Set<Role>()
    t.teardown(() => Promise.all([...running].map(role => role.stop())))
    const stopping = new AbortController()
    const keepOne = async () => {
      const factLog = await rig.another()
      while (!stopping.signal.aborted) {
        const role = startOne(factLog, rig.directory)
        running.add(role)
        await sleep(20 + Math.random() * 400, stopping.signal)
        running.delete(role)
        await role.stop()
      }
    }
    const keepers = [keepOne(), keepOne()]
    const events: Happened[] = []
    for (let i = 0; i < 40; i++) {
      events.push(...await Promise.all(Array.from({ length: 15 }, () => rig.happen('delivered'))))
      await sleep(Math.random() * 100)
    }
    const pairs = new Set(events.flatMap(event => hooks.map(({ webhook }) => `${event.id} ${webhook.id}`)))
    await rig.facts(facts => new Set(requested(facts)).size === pairs.size, 60_000)
    stopping.abort()
    await Promise.all(keepers)
    // One that starts from the log's cursors now finds nothing left to do; one more event shows that it looked.
    running.add(startOne(rig.factLog, rig.directory))
    const last = await rig.happen('delivered')
    const found = requested(
      await rig.facts(facts => requested(facts).filter(pair => pair.startsWith(last.id)).length === hooks.length)
    )
    for (const { webhook } of hooks) pairs.add(`${last.id} ${webhook.id}`)
    t.equal(found.length, pairs.size, 'none twice')
    t.same(new Set(found), pairs, 'none missing, none invented')
  }
)

t.test(
  'with two processes restarted at random, every event is in exactly one delivery to each endpoint',
  LONG_ONLY,
  async t => {
    const rig = await openHookRig(t)
    const batches = [null, { maxEvents: 7, maxWaitMs: 100 }, { maxEvents: 100, maxWaitMs: 60_000 }, {
      maxEvents: 1,
      maxWaitMs: 500
    }]
    const hooks: CreatedWebhook[] = []
    for (let i = 0; i < 12; i++) {
      hooks.push(
        await rig.listen(`http://127.0.0.1:9/${i}`, undefined, { batch: batches[i % 4]! })
      )
    }
    const stopping = new AbortController()
    const keepOne = async () => {
      const factLog = await rig.another()
      while (!stopping.signal.aborted) {
        const parts = [startOne(factLog, rig.directory), startGatherer(rig, factLog)]
        await sleep(50 + Math.random() * 600, stopping.signal)
        await Promise.all(parts.map(part => part.stop()))
      }
    }
    const keepers = [keepOne(), keepOne()]
    const events: Happened[] = []
    for (let i = 0; i < 40; i++) {
      events.push(...await Promise.all(Array.from({ length: 15 }, () => rig.happen('delivered'))))
      await sleep(Math.random() * 100)
    }
    // Two keep less than a full batch back for a minute: without their setting it goes out at once.
    const fanned = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'batch.joined').length === events.length * 9
    await rig.facts(fanned, 60_000)
    for (const { webhook } of hooks) await changeWebhook(rig.services, rig.asker, webhook.id, { batch: null })
    const pairs = new Set(events.flatMap(event => hooks.map(({ webhook }) => `${event.id} ${webhook.id}`)))
    await rig.facts(facts => new Set(pairsIn(facts)).size === pairs.size, 60_000)
    stopping.abort()
    await Promise.all(keepers)
    const parts = [startOne(rig.factLog, rig.directory), startGatherer(rig, rig.factLog)]
    t.teardown(() => Promise.all(parts.map(part => part.stop())))
    const last = await rig.happen('delivered')
    const facts = await rig.facts(facts =>
      pairsIn(facts).filter(pair => pair.startsWith(last.id)).length === hooks.length
    )
    for (const { webhook } of hooks) pairs.add(`${last.id} ${webhook.id}`)
    const found = pairsIn(facts)
    t.equal(found.length, pairs.size, 'none twice')
    t.same(new Set(found), pairs, 'none missing, none invented')
    const ofSeven = requestsIn(facts).filter(({ data }) => data.webhook === hooks[1]!.webhook.id && data.batch)
    t.ok(ofSeven.some(({ data }) => data.events.length === 7), 'some are full')
    for (const { webhook } of hooks) {
      const places = requestsIn(facts).filter(({ data }) => data.webhook === webhook.id).flatMap(({ data }) =>
        data.events.map(({ seq }) => seq)
      )
      t.same(places, places.toSorted((a, b) => a - b), 'in their order')
    }
  }
)

t.test('two whole processes deliver every event to its endpoint, none twice', async t => {
  const rig = await openHookRig(t)
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  await rig.listen(sink.url)
  rig.start()
  rig.start({ factLog: await rig.another() })
  const events = await Promise.all(Array.from({ length: 400 }, () => rig.happen('delivered')))
  const ids = () => new Set(sink.requests.map(request => request.headers['webhook-id']))
  await sink.waitFor(() => ids().size === events.length, 20_000)
  t.equal(sink.requests.length, events.length)
})

t.test('a fact with more endpoints than an append holds is fanned out whole, and the next one after it', async t => {
  const rig = await openHookRig(t)
  await Promise.all(Array.from({ length: 300 }, (_, i) => rig.listen(`http://127.0.0.1:9/${i}`)))
  const role = startOne(rig.factLog, rig.directory)
  t.teardown(() => role.stop())
  const events = await Promise.all(Array.from({ length: 30 }, () => rig.happen('delivered')))
  const facts = requested(await rig.facts(facts => requested(facts).length >= 300 * events.length, 30_000))
  t.equal(facts.length, 300 * events.length)
  t.equal(new Set(facts).size, facts.length)
  t.equal(role.unhealthyReason(), null)
})

t.test('a second process takes half of the partitions, and nothing is sent twice', async t => {
  const rig = await openHookRig(t)
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  for (let i = 0; i < 6; i++) await rig.listen(sink.url)
  rig.start()
  const write = () => Promise.all(Array.from({ length: 50 }, () => rig.happen('delivered')))
  const events = await write()
  const other = rig.start({ factLog: await rig.another() })
  const owners = new Set<string>()
  const read = async () => {
    const { messages } = await getDirectBatch(rig.factLog.bus, 'HEARTBEATS', {
      multi_last: Array.from({ length: 8 }, (_, partition) => subjects.lease('webhooks', String(partition)))
    })
    owners.clear()
    const holders = messages.map(({ data }) => Buffer.from(data).toString())
    for (const holder of holders) owners.add(holder)
    return holders
  }
  await until(async () => (await read()).every(holder => holder !== '') && owners.size === 2)
  events.push(...await write())
  await other.stop()
  events.push(...await write())
  const facts = await rig.facts(facts => answered(facts).length >= 6 * events.length)
  t.equal(new Set(answered(facts)).size, 6 * events.length)
  t.equal(answered(facts).length, 6 * events.length, 'what an endpoint has taken is not sent again')
  // A stop cuts requests after a while, and they are made again.
  t.comment(`${sink.requests.length} requests`)
})

t.test('kill -9 of the process in the middle, thrice: every event arrives', async t => {
  const rig = await openHookRig(t)
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  sink.answers((_request, index) => index % 10 === 0 ? { status: 500 } : { delayMs: 10 })
  await rig.listen(sink.url)
  const events: Happened[] = []
  for (let i = 0; i < 3; i++) {
    const child = fork(CHILD, [rig.natsUrl], { stdio: 'inherit' })
    t.teardown(() => {
      child.kill('SIGKILL')
    })
    await once(child, 'message')
    const before = sink.requests.length
    events.push(...await Promise.all(Array.from({ length: 100 }, () => rig.happen('delivered'))))
    await sink.waitFor(requests => requests.length >= before + 30)
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  rig.start({ leaseMs: LEASE_MS })
  const delivered = () =>
    new Set(sink.requests.filter((_request, index) => index % 10 !== 0).map(request => request.headers['webhook-id']))
  await sink.waitFor(() => delivered().size === events.length, 30_000)
  const bodies = new Set(sink.requests.map(request => request.body.toString()))
  t.same(bodies, new Set(events.map(event => event.body)), 'the same bytes on every try')
  t.comment(`${sink.requests.length} requests for ${events.length} events`)
})
