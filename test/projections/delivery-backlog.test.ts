import t from 'tap'
import { replayBacklog } from '#projections/deliveries/backlog.ts'
import { deliveries } from '#projections/deliveries/project.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { ask } from '#src/postgres/query.ts'
import { ACCOUNT, deliveryAttempted, deliveryMoved, deliveryRequested, recorded } from '../support/facts.ts'
import { apply, freshPool } from './view.ts'

const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
const HOURS_MS = 10 * 3_600_000

t.test("a replay's backlog is the replayed deliveries never tried, or due soon", async t => {
  const pool = await freshPool(t)
  const facts: AnyFact[] = [
    deliveryMoved({ delivery: 'whd_live', nextAttemptAt: inMs(1000) }),
    deliveryRequested({ delivery: 'whd_untried', replay: 'rpl_1' }),
    deliveryMoved({ delivery: 'whd_soon', replay: 'rpl_1', attempts: 2, nextAttemptAt: inMs(1000) }),
    deliveryMoved({ delivery: 'whd_overdue', replay: 'rpl_1', attempts: 2, nextAttemptAt: inMs(-HOURS_MS) }),
    deliveryAttempted({
      delivery: 'whd_refused',
      replay: 'rpl_1',
      result: 'retrying',
      status: 500,
      nextAttemptAt: inMs(HOURS_MS)
    }),
    deliveryAttempted({ delivery: 'whd_done', replay: 'rpl_1' }),
    deliveryRequested({ delivery: 'whd_elsewhere', webhook: 'wh_two', replay: 'rpl_1' })
  ]
  await apply(pool, deliveries, recorded(facts, 1))
  const count = async (webhook: string, max = 500, account = ACCOUNT) =>
    await ask(pool, replayBacklog({ account, webhook, soonS: 60, max }))
  t.equal(await count('wh_one'), 3)
  t.equal(await count('wh_two'), 1)
  t.equal(await count('wh_one', 500, 'acc_other'), 0)
  t.equal(await count('wh_one', 1), 2, 'each kind is counted no further than asked')
})

t.test('ten thousand that were refused are not looked at one by one', async t => {
  const pool = await freshPool(t)
  const refused = Array.from(
    { length: 10_000 },
    (_, i) =>
      deliveryAttempted({
        delivery: `whd_${i}`,
        replay: 'rpl_1',
        result: 'retrying',
        status: 500,
        nextAttemptAt: inMs(HOURS_MS)
      })
  )
  for (let i = 0; i < refused.length; i += 1000) {
    await apply(pool, deliveries, recorded(refused.slice(i, i + 1000), i + 1))
  }
  await pool.query('analyze deliveries')
  const { sql } = replayBacklog({ account: ACCOUNT, webhook: 'wh_one', soonS: 60, max: 500 })
  const { rows } = await pool.query<{ 'QUERY PLAN': string }>({ text: `explain ${sql.text}`, values: [...sql.values] })
  const plan = rows.map(row => row['QUERY PLAN']).join('\n')
  t.equal(plan.match(/using deliveries_replayed on deliveries/g)?.length, 2, plan)
})
