import t from 'tap'
import { createLog } from '#src/base/log.ts'
import { failedPages, waitingDeliveries } from '#src/actions/delivery-view.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { freshPool } from './view.ts'

const query = {
  account: 'acc_first',
  webhook: 'wh_one',
  from: '2026-01-01T00:00:00.000Z',
  to: '2027-01-01T00:00:00.000Z',
  after: '',
  limit: 10,
  seenSeq: 0
}
const failed = async (pool: Pool, seenSeq = 0) => await failedPages(pool)({ ...query, seenSeq })
const waiting = async (pool: Pool) => await waitingDeliveries(pool)({ account: 'acc_first', id: 'wh_one' }, 10)

t.test('a view that is behind or away is waited for', async t => {
  const pool = await freshPool(t)
  t.strictSame(await failed(pool), [])
  t.equal(await waiting(pool), 0)
  t.equal(await failed(pool, 1), null, 'behind')
  const away = createPool('postgres://u:p@127.0.0.1:1/x', createLog('silent'))
  t.teardown(() => away.end())
  t.equal(await failed(away), null)
  t.equal(await waiting(away), null)
})

t.test('a view that cannot be asked says so: nobody waits for it in vain', async t => {
  const pool = await freshPool(t)
  await pool.query('alter table deliveries rename state to elsewhere')
  await t.rejects(failed(pool), { code: '42703' })
  await t.rejects(waiting(pool), { code: '42703' })
  await pool.query('alter table jetpost_deliveries_5.checkpoints rename position to further')
  await t.rejects(failed(pool, 1), { code: '42703' })
})
