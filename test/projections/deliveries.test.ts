import t from 'tap'
import { deliveries } from '#projections/deliveries/project.ts'
import { deliveryStates, overdueDeliveryFacts } from '#projections/deliveries/queries.ts'
import { ask } from '#src/postgres/run.ts'
import { deliveryAttempted, deliveryFailed, deliveryParked, deliveryRequested, recorded, timeAt } from '../support/facts.ts'
import { allRows, apply, clear, cut, freshPool, randomOf, shuffled } from './view.ts'

t.test('a delivery that is tried again and arrives', async t => {
  const pool = await freshPool(t)
  const request = deliveryRequested({})
  await apply(pool, deliveries, recorded([request], 1))
  t.match((await ask(pool, deliveryStates(['whd_one', 'whd_none']))).get('whd_one'), { state: 'pending', attempts: 0, nextAttemptAt: null })
  await apply(pool, deliveries, recorded([deliveryAttempted({ result: 'retrying', status: 500, nextAttemptAt: timeAt(60) })], 2))
  t.match((await ask(pool, deliveryStates(['whd_one']))).get('whd_one'), { state: 'retrying', attempts: 1, nextAttemptAt: new Date(timeAt(60)) })
  const last = deliveryAttempted({ attempt: 2, durationMs: 31 })
  await apply(pool, deliveries, recorded([last], 3))
  const { rows: [row] } = await pool.query('select * from deliveries')
  t.match(row, {
    id: 'whd_one', account: request.account, webhook: 'wh_one', event: 'ev_event', event_type: 'email.delivered', event_seq: 7, email: 'em_one',
    state: 'delivered', state_seq: 3, attempts: 2, next_attempt_at: null, http_status: 200, duration_ms: 31
  })
  t.equal(row.created_at.toISOString(), request.time)
  t.equal(row.ended_at.toISOString(), last.time)
})

t.test('facts in any order, in any batches, and all of them twice give the same rows', async t => {
  const pool = await freshPool(t)
  const facts = recorded([
    deliveryRequested({ delivery: 'whd_a' }),
    deliveryRequested({ delivery: 'whd_b' }),
    deliveryAttempted({ delivery: 'whd_a', result: 'retrying', status: null, error: 'no answer', nextAttemptAt: timeAt(60) }),
    deliveryParked({ delivery: 'whd_b', attempts: 0 }),
    deliveryRequested({ delivery: 'whd_c' }),
    deliveryParked({ delivery: 'whd_a', attempts: 1, nextAttemptAt: timeAt(90) }),
    deliveryAttempted({ delivery: 'whd_a', attempt: 2, firstAttemptAt: timeAt(0) }),
    deliveryAttempted({ delivery: 'whd_c', result: 'failed', status: 410 }),
    deliveryFailed({ delivery: 'whd_b', attempts: 0 })
  ])
  for (const one of facts) await apply(pool, deliveries, [one])
  const expected = await allRows(pool, 'deliveries')
  t.strictSame((await pool.query('select id, state from deliveries order by id')).rows.map(({ state }) => state), ['delivered', 'failed', 'failed'])
  for (let seed = 1; seed <= 12; seed++) {
    const random = randomOf(seed)
    await clear(pool, 'deliveries')
    for (const batch of cut(shuffled([...facts, ...facts], random), 5, random)) await apply(pool, deliveries, batch)
    t.strictSame(await allRows(pool, 'deliveries'), expected, `seed ${seed}`)
  }
})

t.test('deliveries are overdue when their time has passed and nothing was heard', async t => {
  const pool = await freshPool(t)
  const past = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString()
  await apply(pool, deliveries, recorded([
    deliveryAttempted({ delivery: 'whd_a', result: 'retrying', nextAttemptAt: past(120) }),
    deliveryAttempted({ delivery: 'whd_b', result: 'retrying', nextAttemptAt: past(10) }),
    deliveryParked({ delivery: 'whd_c', nextAttemptAt: past(240) }),
    deliveryAttempted({ delivery: 'whd_d', result: 'retrying', nextAttemptAt: past(300) }),
    deliveryFailed({ delivery: 'whd_d' }),
    deliveryAttempted({ delivery: 'whd_e', result: 'retrying', nextAttemptAt: past(-100) })
  ]))
  t.strictSame(await ask(pool, overdueDeliveryFacts(10, 60)), [3, 1])
  t.strictSame(await ask(pool, overdueDeliveryFacts(10, -200)), [3, 1, 2, 6], 'with those due soon')
  t.strictSame(await ask(pool, overdueDeliveryFacts(1, 60)), [3])
})
