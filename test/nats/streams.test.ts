import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { consumerPlans, streamPlans } from '#streams/topology.ts'
import { api } from '#src/nats/api.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { createCounters } from '#src/nats/counters.ts'
import { ensureTopology, repair } from '#src/nats/ensure.ts'
import { startHeartbeats } from '#src/nats/heartbeats.ts'
import { schedule } from '#src/nats/schedule.ts'
import { work } from '#src/nats/work.ts'
import { openBus } from '../support/bus.ts'

const { bus, topology } = await openBus(t)

t.test('every stream of the topology is there, and a second start changes nothing', async t => {
  await ensureTopology(bus, topology)
  const { streams } = await api<{ streams: string[] }>(bus, 'STREAM.NAMES', {})
  t.strictSame(streams.sort(), streamPlans(topology.retention).map(plan => plan.name).sort())
})

t.test('what may move is moved, any other drift is refused in a sentence', async t => {
  const { config } = await api<{ config: object }>(bus, 'STREAM.INFO.WEBHOOKS', undefined)
  await ensureTopology(bus, { ...topology, retention: { ...topology.retention, factsMs: 40 * 86_400_000 } })
  t.equal((await api<{ config: { max_age: number } }>(bus, 'STREAM.INFO.EMAILS', undefined)).config.max_age, 40 * 86_400_000 * 1e6)
  await api(bus, 'STREAM.DELETE.WEBHOOKS', undefined)
  await api(bus, 'STREAM.CREATE.WEBHOOKS', { ...config, allow_atomic: false })
  await t.rejects(ensureTopology(bus, topology), /WEBHOOKS differs .* in allow_atomic/)
  await api(bus, 'STREAM.DELETE.WEBHOOKS', undefined)
  await ensureTopology(bus, topology)
})

t.test('a window counts every request once, over several nodes', async t => {
  const nodes = [createCounters(bus), createCounters(bus), createCounters(bus)]
  const window = Math.floor(Date.now() / 60_000)
  const counted = await Promise.all(Array.from({ length: 300 }, (_, i) => nodes[i % 3]!.count('key_a', 'emails:send', window, 1000)))
  t.strictSame(counted.map(({ position }) => position).sort((a, b) => a - b), Array.from({ length: 300 }, (_, i) => i + 1))
  t.ok(counted.every(({ exact }) => exact))
  const next = await nodes[0]!.count('key_a', 'emails:send', window + 1, 1000)
  t.equal(next.position, 1, 'the next window starts anew')
})

t.test('a schedule comes due, is replaced by a later one on its subject, and survives the loss of its stream', async t => {
  const due: string[] = []
  const worker = work(bus, {
    plan: consumerPlans.senderDue,
    name: 'due',
    concurrency: 4,
    handle: async job => {
      due.push(Buffer.from(job.bytes).toString())
      job.ack()
    },
    repair: plan => repair(bus, plan, topology),
    onTrouble: () => {}
  })
  const plan = (payload: string, atMs: number) => schedule(bus, { subject: 'schedule.send.1.acc_1.em_1.0', target: 'due.send.1.acc_1.em_1.0', atMs, payload })
  await plan('never', Date.now() + 60_000)
  await plan('first', Date.now() + 200)
  await until(() => due.length === 1)
  await api(bus, 'STREAM.DELETE.SCHEDULE', undefined)
  await until(() => worker.trouble() === null)
  await until(() => plan('second', Date.now()).then(() => true, () => false))
  await until(() => due.length === 2)
  t.strictSame(due, ['"first"', '"second"'])
  await worker.stop()
})

t.test('the object store keeps what a fact cannot hold', async t => {
  const blobs = await openBlobs(bus)
  const bytes = Buffer.alloc(3_000_000, 'x')
  await blobs.put('em_big', bytes)
  t.ok(bytes.equals(await blobs.get('em_big') ?? Buffer.alloc(0)))
  t.equal(await blobs.get('em_none'), null)
  t.strictSame((await blobs.list()).map(({ name }) => name), ['em_big'])
  await blobs.remove('em_big')
  t.equal(await blobs.get('em_big'), null)
})

t.test('a worker that beats is alive; who never did is dead only after NATS has stood for 15 s', async t => {
  const heartbeats = startHeartbeats(bus, 'w_1')
  await until(() => heartbeats.lastBeatMs() > 0)
  t.equal(await heartbeats.isDead('w_1'), false)
  t.equal(await heartbeats.isDead('w_never'), false, 'too early to tell')
  const old = { ...bus, upSinceMs: () => Date.now() - 20_000 }
  const judge = startHeartbeats(old, 'w_2')
  t.equal(await judge.isDead('w_never'), true)
  t.equal(await judge.isDead('w_1'), false)
  heartbeats.stop()
  judge.stop()
})

async function until (state: () => boolean | Promise<boolean>): Promise<void> {
  for (const endMs = Date.now() + 10_000; Date.now() < endMs; await wait(20)) if (await state()) return
  throw new Error('the state was not reached in 10 s')
}
