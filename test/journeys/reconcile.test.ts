import t, { type Test } from 'tap'
import { deliveries } from '#projections/deliveries/project.ts'
import { emails } from '#projections/emails/project.ts'
import { consumerPlans } from '#streams/topology.ts'
import { subjects } from '#streams/subjects.ts'
import { createFactLog } from '#src/actions/fact-log.ts'
import { scheduleSend } from '#src/actions/due-send.ts'
import { systemClock } from '#src/base/clock.ts'
import { api } from '#src/nats/api.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { repair } from '#src/nats/ensure.ts'
import { lastSequencesOf } from '#src/nats/lookup.ts'
import { startReconciler } from '#src/workers/scheduler/reconcile.ts'
import { apply, freshPool } from '../projections/view.ts'
import { openBus } from '../support/bus.ts'
import {
  ACCOUNT,
  deferred,
  delivered,
  deliveryAttempted,
  deliveryRequested,
  recorded,
  requested
} from '../support/facts.ts'
import { log, topology } from '../support/sender-rig.ts'
import { until } from '../support/wait.ts'

const HOUR_MS = 3_600_000
const past = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString()

/** A bus, a projection, and a reconciler that can be started. */
async function openYard (t: Test) {
  const { bus } = await openBus(t)
  const pool = await freshPool(t)
  const blobs = await openBlobs(bus)
  const reconcile = () => {
    const started = startReconciler({ bus, pool, blobs, repair: plan => repair(bus, plan, topology), log })
    t.teardown(() => started.stop())
  }
  const scheduled = (email: string, inMs: number) =>
    scheduleSend(bus, { account: ACCOUNT, email, n: 0, request: 1 }, Date.now() + inMs)
  const come = async (names: string[]) => {
    const found = await lastSequencesOf(bus, 'SCHEDULE', names.map(name => subjects.dueSend(ACCOUNT, name, 0)))
    return names.filter(name => found.has(subjects.dueSend(ACCOUNT, name, 0)))
  }
  return { bus, pool, reconcile, scheduled, come }
}

t.test('a lost schedule is restored, behind thousands that exist and stay', async t => {
  const { bus, pool, reconcile, scheduled, come } = await openYard(t)
  const known = Array.from({ length: 2100 }, (_, i) => `em_scheduled${i}`)
  const facts = recorded([
    ...known.map(email => deferred({ email, nextAttemptAt: past(900) })),
    deferred({ email: 'em_lost', nextAttemptAt: past(120) })
  ])
  for (let i = 0; i < facts.length; i += 500) await apply(pool, emails, facts.slice(i, i + 500))
  for (let i = 0; i < known.length; i += 500) {
    await Promise.all(known.slice(i, i + 500).map(email => scheduled(email, HOUR_MS)))
  }
  const names = known.map(email => subjects.scheduleSend(ACCOUNT, email, 0))
  const before = await lastSequencesOf(bus, 'SCHEDULE', names)
  t.equal(before.size, known.length)
  reconcile()
  await until(async () => (await come(['em_lost'])).length > 0)
  t.strictSame(await lastSequencesOf(bus, 'SCHEDULE', names), before)
})

t.test('a recipient that waits for a sender is left alone; one acknowledged without a fact is restored', async t => {
  const { bus, pool, reconcile, scheduled, come } = await openYard(t)
  const names = ['em_dropped', 'em_waits', 'em_lost']
  await apply(pool, emails, recorded(names.map(email => deferred({ email, nextAttemptAt: past(120) }))))
  for (const email of ['em_dropped', 'em_waits']) {
    await scheduled(email, 0)
    await until(async () => (await come([email])).length > 0)
  }
  await repair(bus, consumerPlans.senderDue, topology)
  const consumer = await bus.js.consumers.get('SCHEDULE', consumerPlans.senderDue.durable_name)
  const dropped = await consumer.next()
  t.ok(await dropped!.ackAck())
  const dues = names.map(email => subjects.dueSend(ACCOUNT, email, 0))
  const before = await lastSequencesOf(bus, 'SCHEDULE', dues)
  reconcile()
  await until(async () => {
    const after = await lastSequencesOf(bus, 'SCHEDULE', dues)
    const [droppedAgain, waitsAgain, lostAgain] = dues.map(due => after.get(due) !== before.get(due))
    t.notOk(waitsAgain)
    return droppedAgain! && lostAgain!
  })
})

t.test('a request acknowledged without a fact or schedule is restored; one that a sender holds is not', async t => {
  const { bus, pool, reconcile, scheduled, come } = await openYard(t)
  const factLog = createFactLog(bus, systemClock)
  const names = ['em_forgotten', 'em_scheduled', 'em_done', 'em_inhand']
  const requests = names.map(email => requested({ email }))
  for (const fact of requests) await factLog.append([{ fact }])
  await apply(pool, emails, [...recorded(requests), ...recorded([delivered({ email: 'em_done' })])])
  await scheduled('em_scheduled', HOUR_MS)
  await repair(bus, consumerPlans.sender, topology)
  const consumer = await bus.js.consumers.get('REQUESTS', consumerPlans.sender.durable_name)
  for (let i = 0; i < 3; i++) await (await consumer.next())!.ackAck()
  reconcile()
  await until(async () => (await come(['em_forgotten'])).length > 0)
  t.same(await come(names), ['em_forgotten'])
})

t.test('the scheduler prunes deliveries that have left the log', async t => {
  const { bus, topology } = await openBus(t)
  const pool = await freshPool(t)
  const factLog = createFactLog(bus, systemClock)
  const facts = [
    deliveryRequested({ delivery: 'whd_old' }),
    deliveryAttempted({ delivery: 'whd_old' }),
    deliveryRequested({ delivery: 'whd_new' }),
    deliveryAttempted({ delivery: 'whd_new' })
  ]
  for (const fact of facts) await factLog.append([{ fact }])
  await apply(pool, deliveries, recorded(facts))
  for (const seq of [1, 2]) await api(bus, 'STREAM.MSG.DELETE.WEBHOOKS', { seq })
  const reconcile = startReconciler({
    bus,
    pool,
    blobs: await openBlobs(bus),
    repair: plan => repair(bus, plan, topology),
    log
  })
  t.teardown(() => reconcile.stop())
  await until(async () => (await pool.query('select id from deliveries')).rowCount === 1)
  t.same((await pool.query('select id from deliveries')).rows, [{ id: 'whd_new' }])
  t.same((await pool.query('select seq from delivery_attempts')).rows, [{ seq: 4 }])
})
