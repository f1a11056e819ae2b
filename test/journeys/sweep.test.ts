import t, { type Test } from 'tap'
import { emails } from '#projections/emails/project.ts'
import { consumerPlans } from '#streams/topology.ts'
import { subjects } from '#streams/subjects.ts'
import { openLedger } from '#src/actions/ledger.ts'
import { scheduleSend } from '#src/actions/recipient.ts'
import { systemClock } from '#src/base/clock.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { repair } from '#src/nats/ensure.ts'
import { lastSequencesOf } from '#src/nats/lookup.ts'
import { startSweep } from '#src/out/scheduler/sweep.ts'
import { apply, freshPool } from '../projections/view.ts'
import { openBus } from '../support/bus.ts'
import { ACCOUNT, deferred, delivered, recorded, requested } from '../support/facts.ts'
import { log, topology } from '../support/sender-rig.ts'
import { until } from '../support/wait.ts'

const HOUR_MS = 3_600_000
const past = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString()

/** A bus and a view, and hands to sweep once. */
async function openYard (t: Test) {
  const { bus } = await openBus(t)
  const pool = await freshPool(t)
  const blobs = await openBlobs(bus)
  const sweep = () => {
    const started = startSweep({ bus, pool, blobs, repair: plan => repair(bus, plan, topology), log })
    t.teardown(() => started.stop())
  }
  const scheduled = (email: string, inMs: number) => scheduleSend(bus, { account: ACCOUNT, email, n: 0, request: 1 }, Date.now() + inMs)
  const come = async (names: string[]) => {
    const found = await lastSequencesOf(bus, 'SCHEDULE', names.map(name => subjects.dueSend(ACCOUNT, name, 0)))
    return names.filter(name => found.has(subjects.dueSend(ACCOUNT, name, 0)))
  }
  return { bus, pool, sweep, scheduled, come }
}

t.test('who lost his schedule gets one, behind thousands who have theirs and keep it', async t => {
  const { bus, pool, sweep, scheduled, come } = await openYard(t)
  const booked = Array.from({ length: 4100 }, (_, i) => `em_booked${i}`)
  const facts = recorded([...booked.map(email => deferred({ email, nextAttemptAt: past(900) })), deferred({ email: 'em_lost', nextAttemptAt: past(120) })])
  for (let i = 0; i < facts.length; i += 500) await apply(pool, emails, facts.slice(i, i + 500))
  for (let i = 0; i < booked.length; i += 500) await Promise.all(booked.slice(i, i + 500).map(email => scheduled(email, HOUR_MS)))
  const names = booked.map(email => subjects.scheduleSend(ACCOUNT, email, 0))
  const before = await lastSequencesOf(bus, 'SCHEDULE', names)
  t.equal(before.size, booked.length)
  sweep()
  await until(async () => (await come(['em_lost'])).length > 0)
  t.strictSame(await lastSequencesOf(bus, 'SCHEDULE', names), before)
})

t.test('what has come due and waits for a sender is not sent for again; what a sender has put down without a word is', async t => {
  const { bus, pool, sweep, scheduled, come } = await openYard(t)
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
  sweep()
  await until(async () => {
    const after = await lastSequencesOf(bus, 'SCHEDULE', dues)
    const [droppedAgain, waitsAgain, lostAgain] = dues.map(due => after.get(due) !== before.get(due))
    t.notOk(waitsAgain)
    return droppedAgain! && lostAgain!
  })
})

t.test('of whose request is settled without a fact or a schedule is seen to; whose request is in hand is left to its sender', async t => {
  const { bus, pool, sweep, scheduled, come } = await openYard(t)
  const ledger = openLedger(bus, systemClock)
  const names = ['em_forgotten', 'em_booked', 'em_done', 'em_inhand']
  const requests = names.map(email => requested({ email }))
  for (const fact of requests) await ledger.requests.append([{ subject: subjects.request(ACCOUNT, fact.data.email), fact }])
  await apply(pool, emails, [...recorded(requests), ...recorded([delivered({ email: 'em_done' })])])
  await scheduled('em_booked', HOUR_MS)
  await repair(bus, consumerPlans.sender, topology)
  const consumer = await bus.js.consumers.get('REQUESTS', consumerPlans.sender.durable_name)
  for (let i = 0; i < 3; i++) await (await consumer.next())!.ackAck()
  sweep()
  await until(async () => (await come(['em_forgotten'])).length > 0)
  t.same(await come(names), ['em_forgotten'])
})
