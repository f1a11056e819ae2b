import t, { type Test } from 'tap'
import { deliveries } from '#projections/deliveries/project.ts'
import { emails } from '#projections/emails/project.ts'
import { pendingAfter } from '#streams/delivery/state.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { webhookPartitionOf, subjects } from '#streams/subjects.ts'
import { scheduleDelivery } from '#src/actions/delivery.ts'
import { createFactLog } from '#src/actions/fact-log.ts'
import { scheduleSend } from '#src/actions/due-send.ts'
import { systemClock } from '#src/base/clock.ts'
import { api } from '#src/nats/api.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { repair } from '#src/nats/ensure.ts'
import { lastSequence } from '#src/nats/get.ts'
import { lastSequencesOf } from '#src/nats/lookup.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { DeliveryReconciler } from '#src/workers/scheduler/deliveries.ts'
import { startReconciler } from '#src/workers/scheduler/reconcile.ts'
import { waitFor } from '#src/postgres/checkpoint.ts'
import { apply, freshPool } from '../projections/view.ts'
import { openBus } from '../support/bus.ts'
import {
  ACCOUNT,
  deferred,
  delivered,
  deliveryAttempted,
  deliveryFailed,
  deliveryDeferred,
  deliveryRequested,
  recorded,
  requested,
  type DeliveryStep
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

const WEBHOOK = 'wh_one'
const PARTITION = webhookPartitionOf(WEBHOOK)

/** A bus with deliveries in its log, and their reconciler; the projection follows unless `follows` is false. */
async function openDeliveryYard (t: Test, { follows = true } = {}) {
  const { bus, topology } = await openBus(t)
  const pool = await freshPool(t)
  const factLog = createFactLog(bus, systemClock)
  const repaired = (plan: ConsumerPlan) => repair(bus, plan, topology)
  const stopping = new AbortController()
  t.teardown(async () => stopping.abort())
  const reconciler = new DeliveryReconciler({ bus, pool, repair: repaired, log, signal: stopping.signal })
  if (follows) {
    const projectors = createProjectors({
      bus,
      pool,
      log,
      projections: { deliveries },
      rebuild: openRebuilder({ bus, pool, log }).rebuild
    })
    t.teardown(async () => {
      await Promise.all(projectors.map(projector => projector.stop()))
    })
  }

  async function happened (facts: DeliveryStep[]): Promise<void> {
    for (let i = 0; i < facts.length; i += 400) {
      await factLog.append(facts.slice(i, i + 400).map(fact => ({ fact })))
    }
    if (follows) t.ok(await waitFor(pool, deliveries, { WEBHOOKS: await lastSequence(bus, 'WEBHOOKS') }, 10_000))
  }

  /** As the dispatcher does after the fact. */
  async function scheduled (facts: DeliveryStep[]): Promise<void> {
    for (let i = 0; i < facts.length; i += 200) {
      await Promise.all(facts.slice(i, i + 200).map(fact => scheduleDelivery({ bus }, pendingAfter(fact)!, 5000)))
    }
  }

  /** Where in SCHEDULE anything lies that would bring these back; 0 = there is nothing. */
  async function waits (ids: string[]): Promise<number[]> {
    const found = await lastSequencesOf(bus, 'SCHEDULE', ids.flatMap(all))
    return ids.map(id => Math.max(...all(id).map(subject => found.get(subject) ?? 0)))
  }

  /** Takes what waits on a consumer and acknowledges it, the first `count` messages. */
  async function worked (plan: ConsumerPlan, count: number): Promise<void> {
    await repaired(plan)
    const consumer = await bus.js.consumers.get(plan.stream, plan.durable_name)
    for (let i = 0; i < count; i++) t.ok(await (await consumer.next())!.ackAck())
  }

  return { bus, pool, reconciler, repaired, happened, scheduled, waits, worked }
}

const all = (
  id: string
) => [subjects.scheduleDelivery(WEBHOOK, id), subjects.scheduleHeld(WEBHOOK, id), subjects.dueDelivery(PARTITION, id)]
const cameDue = async (yard: { waits(ids: string[]): Promise<number[]> }, id: string, before = 0) =>
  await until(async () => (await yard.waits([id]))[0]! > before)
const deferredDelivery = (delivery: string, secondsAgo: number, more = {}) =>
  deliveryDeferred({ delivery, nextAttemptAt: past(secondsAgo), ...more })
const asked = (delivery: string, secondsAgo: number, replay: string | null = null): DeliveryStep => ({
  ...deliveryRequested({ delivery, replay }),
  time: past(secondsAgo)
})

t.test('a delivery that lost its schedule gets one, behind thousands who have theirs and keep it', async t => {
  const yard = await openDeliveryYard(t)
  const { reconciler, happened, scheduled, waits } = yard
  const later = Array.from({ length: 2050 }, (_, i) => deferredDelivery(`whd_later${i}`, -3600))
  const held = deferredDelivery('whd_held', -3600, { heldAt: past(10) })
  const lost = [
    deferredDelivery('whd_lost', -1800),
    deferredDelivery('whd_heldlost', -7200, { heldAt: past(10) }),
    deliveryAttempted({ delivery: 'whd_retry', result: 'retrying', status: 500, nextAttemptAt: past(-7200) })
  ]
  await happened([...later, held, ...lost])
  await scheduled([...later, held])
  const safe = [...later, held].map(({ data }) => data.delivery)
  const before = await waits(safe)
  t.ok(before.every(seq => seq > 0))
  t.equal(await reconciler.restoreSchedules(60), 0, 'nothing is due')
  t.equal(await reconciler.restoreSchedules(-400 * 86_400), lost.length, 'with what is due later')
  t.strictSame(await waits(safe), before)
  t.ok((await waits(lost.map(({ data }) => data.delivery))).every(seq => seq > 0))
  t.equal(await reconciler.restoreSchedules(-400 * 86_400), 0)
})

t.test('a due delivery that waits for its turn is left alone; one acknowledged without a fact is restored', async t => {
  const yard = await openDeliveryYard(t)
  const { reconciler, happened, scheduled, waits, worked } = yard
  const facts = ['whd_dropped', 'whd_waits', 'whd_lost', 'whd_recent'].map(id =>
    deferredDelivery(id, id === 'whd_recent' ? 10 : 300)
  )
  await happened([...facts, deferredDelivery('whd_over', 300), deliveryFailed({ delivery: 'whd_over' })])
  for (const fact of facts.slice(0, 2)) {
    await scheduled([fact])
    await until(async () =>
      (await lastSequencesOf(yard.bus, 'SCHEDULE', [subjects.dueDelivery(PARTITION, fact.data.delivery)])).size === 1
    )
  }
  await worked(consumerPlans.deliveriesDue, 1)
  const [droppedBefore, waitsBefore] = await waits(['whd_dropped', 'whd_waits'])
  t.equal(await reconciler.restoreSchedules(60), 2)
  await cameDue(yard, 'whd_dropped', droppedBefore)
  await cameDue(yard, 'whd_lost')
  t.strictSame(await waits(['whd_waits', 'whd_recent', 'whd_over']), [waitsBefore, 0, 0])
})

t.test('a delivery acknowledged without a fact is restored; one not acknowledged waits for its turn', async t => {
  const yard = await openDeliveryYard(t)
  const { bus, reconciler, happened, waits, worked } = yard
  await happened([
    asked('whd_forgotten', 600),
    asked('whd_done', 600),
    deliveryAttempted({ delivery: 'whd_done' }),
    asked('whd_recent', 10),
    asked('whd_inhand', 600),
    asked('whd_again', 600, 'rpl_1'),
    asked('whd_againinhand', 600, 'rpl_1')
  ])
  t.equal(await reconciler.restoreSchedules(60), 0, 'nobody has begun')
  await worked(consumerPlans.deliveries[PARTITION]!, 3)
  await worked(consumerPlans.deliveriesReplay, 1)
  t.equal(await reconciler.restoreSchedules(60), 2)
  await cameDue(yard, 'whd_forgotten')
  await cameDue(yard, 'whd_again')
  t.strictSame(await waits(['whd_done', 'whd_recent', 'whd_inhand', 'whd_againinhand']), [0, 0, 0, 0])
  t.equal(await reconciler.restoreSchedules(60), 0, 'both wait for their turn now')
  const consumer = await bus.js.consumers.get('SCHEDULE', consumerPlans.deliveriesDue.durable_name)
  const [first, second] = [await consumer.next(), await consumer.next()]
  t.same(
    [first, second].map(message => message!.json<{ owed: { replay: string | null } }>().owed.replay).sort(),
    [null, 'rpl_1'].sort()
  )
})

t.test('as long as the view is behind, nothing is asked for again', async t => {
  const { pool, reconciler, happened, waits, bus, repaired } = await openDeliveryYard(t, { follows: false })
  const lost = deferredDelivery('whd_lost', 300)
  await happened([lost])
  await apply(pool, deliveries, recorded([lost]))
  t.equal(await reconciler.restoreSchedules(60), 0, 'what came after may tell how it ended')
  const projectors = createProjectors({
    bus,
    pool,
    log,
    projections: { deliveries },
    rebuild: openRebuilder({ bus, pool, log }).rebuild
  })
  t.teardown(async () => {
    await Promise.all(projectors.map(projector => projector.stop()))
  })
  t.ok(await waitFor(pool, deliveries, { WEBHOOKS: 1 }, 10_000))
  t.equal(await reconciler.restoreSchedules(60), 1)
  t.ok((await waits(['whd_lost']))[0]! > 0)
  t.notOk(await repaired(consumerPlans.deliveriesDue), 'its consumer is there')
})

t.test('the reconciler prunes what has left the log, and refills a deleted SCHEDULE', async t => {
  const { bus, pool, happened, scheduled, waits, repaired } = await openDeliveryYard(t)
  const later = deferredDelivery('whd_later', -3600)
  await happened([
    asked('whd_old', 600),
    deliveryAttempted({ delivery: 'whd_old' }),
    later,
    deliveryAttempted({ delivery: 'whd_new' })
  ])
  await scheduled([later])
  for (const seq of [1, 2]) await api(bus, 'STREAM.MSG.DELETE.WEBHOOKS', { seq })
  await api(bus, 'STREAM.DELETE.SCHEDULE', undefined)
  const reconcile = startReconciler({
    bus,
    pool,
    blobs: await openBlobs(bus),
    repair: async plan =>
      await repaired(plan).then(missing => {
        if (missing) reconcile.afterLoss()
        return missing
      }),
    log
  })
  t.teardown(() => reconcile.stop())
  await until(async () => (await pool.query('select id from deliveries')).rowCount === 2)
  await until(async () => (await waits(['whd_later']).catch(() => [0]))[0]! > 0)
  t.same((await pool.query('select id from deliveries order by id')).rows.map(({ id }) => id), ['whd_later', 'whd_new'])
  t.same((await pool.query('select seq from delivery_attempts')).rows, [{ seq: 4 }])
})
