import type { Msg } from 'nats'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { consumerPlans, streamPlans } from '#streams/topology.ts'
import { api } from '#src/nats/api.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { createCaps, createCounters, createQuotas } from '#src/nats/counters.ts'
import { ensureTopology, repair } from '#src/nats/ensure.ts'
import { startHeartbeats } from '#src/nats/heartbeats.ts'
import { schedule } from '#src/nats/schedule.ts'
import { work } from '#src/nats/work.ts'
import { openBus } from '../support/bus.ts'
import { until } from '../support/wait.ts'

const { bus, topology } = await openBus(t)

t.test('every stream of the topology is there, and a second start changes nothing', async t => {
  await ensureTopology(bus, topology)
  const { streams } = await api<{ streams: string[] }>(bus, 'STREAM.NAMES', {})
  t.strictSame(streams.sort(), streamPlans(topology.retention).map(plan => plan.name).sort())
})

t.test('a cluster whose servers have not found each other yet is waited for', async t => {
  await api(bus, 'STREAM.DELETE.WEBHOOKS', undefined)
  const NO_PLACE = { error: { err_code: 10005, description: 'no suitable peers for placement' } }
  let refusals = 2
  const request: typeof bus.nc.request = async (subject, payload, options) => {
    if (!subject.startsWith('$JS.API.STREAM.CREATE.') || refusals-- <= 0) {
      return await bus.nc.request(subject, payload, options)
    }
    return { json: () => NO_PLACE } as unknown as Msg
  }
  const nc = Object.create(bus.nc, { request: { value: request } }) as typeof bus.nc
  await ensureTopology({ ...bus, nc }, topology)
  t.ok(refusals < 0)
  await api(bus, 'STREAM.INFO.WEBHOOKS', undefined)
})

t.test('what may move is moved, any other drift is refused in a sentence', async t => {
  const { config } = await api<{ config: object }>(bus, 'STREAM.INFO.WEBHOOKS', undefined)
  await ensureTopology(bus, { ...topology, retention: { ...topology.retention, factsMs: 40 * 86_400_000 } })
  t.equal(
    (await api<{ config: { max_age: number } }>(bus, 'STREAM.INFO.EMAILS', undefined)).config.max_age,
    40 * 86_400_000 * 1e6
  )
  await api(bus, 'STREAM.DELETE.WEBHOOKS', undefined)
  await api(bus, 'STREAM.CREATE.WEBHOOKS', { ...config, allow_atomic: false })
  await t.rejects(ensureTopology(bus, topology), /WEBHOOKS differs .* in allow_atomic/)
  await api(bus, 'STREAM.DELETE.WEBHOOKS', undefined)
  await ensureTopology(bus, topology)
})

t.test('a window counts every request once, over several nodes', async t => {
  const nodes = [createCounters(bus), createCounters(bus), createCounters(bus)]
  const window = Math.floor(Date.now() / 60_000)
  const counted = await Promise.all(
    Array.from({ length: 300 }, (_, i) => nodes[i % 3]!.count('key_a', 'emails:send', window, 1000))
  )
  t.strictSame(
    counted.map(({ position }) => position).sort((a, b) => a - b),
    Array.from({ length: 300 }, (_, i) => i + 1)
  )
  t.ok(counted.every(({ exact }) => exact))
  const next = await nodes[0]!.count('key_a', 'emails:send', window + 1, 1000)
  t.equal(next.position, 1, 'the next window starts again')
})

t.test('a process that was busy while the answer came takes it all the same', async t => {
  const counters = createCounters(bus)
  const window = Math.floor(Date.now() / 60_000)
  const counting = counters.count('key_busy', 'other', window, 1000)
  await new Promise(setImmediate)
  // Longer than it waits for an answer.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
  t.strictSame(await counting, { position: 1, exact: true })
  t.equal(counters.inexact(), 0)
})

t.test('what a cap counts after its answer was given up is given back', async t => {
  const answers = Promise.withResolvers<void>()
  let isLate = false
  const request: typeof bus.nc.request = async (subject, payload, options) => {
    const answer = await bus.nc.request(subject, payload, options)
    if (isLate) await answers.promise
    return answer
  }
  const nc = Object.create(bus.nc, { request: { value: request } }) as typeof bus.nc
  const [caps, quotas] = [createCaps({ ...bus, nc }), createQuotas(bus)]
  const day = Math.floor(Date.now() / 86_400_000)
  t.equal(await caps.take('rt_late', day, 10), 'taken')
  isLate = true
  const taking = [1, 2, 3].map(() => caps.take('rt_late', day, 10))
  caps.giveBack('rt_late', day)
  t.strictSame(await Promise.all(taking), ['unknown', 'unknown', 'unknown'])
  t.equal(await quotas.taken('rt_late', day), 3, 'three more are counted, and the first is given back')
  answers.resolve()
  await until(async () => await quotas.taken('rt_late', day) === 0)
})

t.test('a job that is sent round again for part of a millisecond stays away for as long', async t => {
  const seen: Array<{ sequence: number, atMs: number }> = []
  const worker = work(bus, {
    plan: consumerPlans.senderDue,
    name: 'again',
    concurrency: 4,
    handle: async job => {
      seen.push({ sequence: job.seq, atMs: performance.now() })
      if (seen.length < 2) job.retryAfter(1000 / 3)
      else job.ack()
    },
    repair: plan => repair(bus, plan, topology),
    onError: () => {}
  })
  t.teardown(() => worker.stop())
  await bus.js.publish('due.send.1.acc_1.em_again.0', '{}')
  await until(() => seen.length === 2)
  const [first, second] = seen
  t.equal(second!.sequence, first!.sequence)
  // The server counts from when it heard of it, a moment later.
  t.ok(second!.atMs - first!.atMs > 300, `${second!.atMs - first!.atMs} ms`)
})

t.test('a schedule comes due, is replaced by a later one, and survives the loss of its stream', async t => {
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
    onError: () => {}
  })
  const plan = (payload: string, atMs: number) =>
    schedule(bus, { subject: 'schedule.send.1.acc_1.em_1.0', target: 'due.send.1.acc_1.em_1.0', atMs, payload })
  await plan('never', Date.now() + 60_000)
  await plan('first', Date.now() + 200)
  await until(() => due.length === 1)
  await api(bus, 'STREAM.DELETE.SCHEDULE', undefined)
  await until(() => worker.unhealthyReason() === null)
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

t.test('what was cut off while the object store took it is found and removed', async t => {
  const blobs = await openBlobs(bus)
  const bytes = Buffer.alloc(300_000, 'y')
  await blobs.put('em_whole', bytes)
  // A store writes the description last.
  for (const piece of ['one', 'two']) await bus.js.publish('$O.CONTENT.C.cutoff', piece)
  t.equal(await blobs.removeStray(Date.now() - 60_000), 0, 'which may still go on')
  t.equal(await blobs.removeStray(Date.now() + 60_000), 2)
  t.equal(await blobs.removeStray(Date.now() + 60_000), 0)
  t.ok(bytes.equals((await blobs.get('em_whole'))!))
})

/** A hundredth of the real times, or it would take minutes. */
const DEAD_MS = 1500
const BREAK_MS = DEAD_MS / 2

t.test('a worker that beats is alive; who never did is dead only after we have been heard for long enough', async t => {
  const heartbeats = startHeartbeats(bus, 'w_1', DEAD_MS)
  const judge = startHeartbeats(bus, 'w_2', DEAD_MS)
  t.teardown(() => {
    heartbeats.stop()
    judge.stop()
  })
  t.equal(judge.heardForMs(), 0)
  await until(() => judge.heardForMs() > 0)
  t.equal(await judge.isDead('w_never'), false, 'too early to tell')
  await until(() => judge.heardForMs() > DEAD_MS)
  await until(() => judge.isDead('w_never'))
  t.equal(await judge.isDead('w_1'), false)
  t.equal(await judge.isDead('w_2'), false)
  heartbeats.stop()
  t.equal(await judge.isDead('w_1'), false, 'silent for a moment')
  await until(() => judge.isDead('w_1'))
})

t.test('a stream of heartbeats made again has forgotten the living: nobody is dead by it for a while', async t => {
  const judge = startHeartbeats(bus, 'w_3', DEAD_MS)
  t.teardown(() => judge.stop())
  await until(() => judge.heardForMs() > DEAD_MS)
  await until(() => judge.isDead('w_never'))
  await api(bus, 'STREAM.DELETE.HEARTBEATS', undefined)
  await ensureTopology(bus, topology)
  const { created } = await api<{ created: string }>(bus, 'STREAM.INFO.HEARTBEATS', undefined)
  const isYoung = () => Date.now() - Date.parse(created) < DEAD_MS
  while (isYoung()) {
    const isDead = await judge.isDead('w_never')
    // An answer that took too long may be true.
    t.notOk(isDead && isYoung())
    await wait(100)
  }
  t.ok(judge.heardForMs() > DEAD_MS, 'although we were heard all the time')
  await until(() => judge.isDead('w_never'))
})

t.test('a clock that is an hour ahead of the server kills nobody', async t => {
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  Date.now = () => now() + 3_600_000
  const living = startHeartbeats(bus, 'w_4', DEAD_MS)
  const judge = startHeartbeats(bus, 'w_5', DEAD_MS)
  t.teardown(() => {
    living.stop()
    judge.stop()
  })
  await until(() => judge.heardForMs() > DEAD_MS + 100)
  t.equal(await judge.isDead('w_4'), false)
  await until(() => judge.isDead('w_never'))
})

t.test('a pause ends the time for which we have been heard, and the next beat begins a new one', async t => {
  const heartbeats = startHeartbeats(bus, 'w_6', DEAD_MS)
  t.teardown(() => heartbeats.stop())
  await until(() => heartbeats.heardForMs() > BREAK_MS)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BREAK_MS + 100)
  t.equal(heartbeats.heardForMs(), 0, 'not heard')
  await until(() => heartbeats.heardForMs() > 0)
  t.ok(heartbeats.heardForMs() < BREAK_MS, 'heard again, but only just')
})
