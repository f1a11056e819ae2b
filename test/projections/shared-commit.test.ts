import t from 'tap'
import { projections } from '#projections/list.ts'
import { createFactLog } from '#src/actions/fact-log.ts'
import { systemClock } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import type { Checkpoints } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { createCheckpoints, SharedCommit, type BatchWork } from '#src/workers/projector/commit.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { openBus } from '../support/bus.ts'
import { attempted, delivered, requested } from '../support/facts.ts'
import { until } from '../support/wait.ts'
import { freshPool } from './view.ts'

const log = createLog('silent')
const { emails, stats, deliveries } = projections
const [first, second, third] = [liveSet(deliveries), liveSet(emails), liveSet(stats)]

/** Work that says in which transaction it was done. */
function working (): { work: BatchWork, transactions: string[] } {
  const transactions: string[] = []
  return {
    transactions,
    async work (_execute, client) {
      transactions.push((await client.query('select pg_current_xact_id()::text as id')).rows[0].id)
    }
  }
}

const failing = (text: string): BatchWork => async (_execute, client) => void await client.query(text)

t.test('batches that come together are one transaction, in one order', async t => {
  const { commit } = new SharedCommit(await freshPool(t), [first, second, third])
  const [one, two, three] = [working(), working(), working()]
  const done: string[] = []
  const named = (name: string, { work }: { work: BatchWork }): BatchWork => async (...args) => {
    await work(...args)
    done.push(name)
  }
  await Promise.all([
    commit(third, named('third', three)),
    commit(first, named('first', one)),
    commit(second, named('second', two))
  ])
  t.equal(new Set([one, two, three].flatMap(({ transactions }) => transactions)).size, 1)
  t.strictSame(done, ['first', 'second', 'third'])
})

t.test('what comes while a transaction runs is the next one', async t => {
  const { commit } = new SharedCommit(await freshPool(t), [first, second, third])
  const [one, two, three] = [working(), working(), working()]
  const later: Promise<void>[] = []
  await commit(first, async (...args) => {
    await one.work(...args)
    later.push(commit(second, two.work), commit(third, three.work))
  })
  await Promise.all(later)
  t.strictSame(two.transactions, three.transactions)
  t.notSame(one.transactions, two.transactions)
})

t.test('a batch that fails takes no other with it', async t => {
  const pool = await freshPool(t)
  await pool.query('create table public.things (n int primary key)')
  const { commit } = new SharedCommit(pool, [first, second, third])
  const insert = (n: number): BatchWork => failing(`insert into public.things values (${n})`)
  const results = await Promise.allSettled([
    commit(first, insert(1)),
    commit(second, failing('insert into public.things values (2), (2)')),
    commit(third, insert(3))
  ])
  t.strictSame(results.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled'])
  t.strictSame((await pool.query('select n from public.things order by n')).rows, [{ n: 1 }, { n: 3 }])
  await commit(second, insert(2))
  t.equal((await pool.query('select from public.things')).rowCount, 3, 'and the next ones go on')
})

t.test('without PostgreSQL all are told at once', async t => {
  const pool = await freshPool(t)
  let asked = 0
  const silent = Object.assign(Object.create(pool) as Pool, {
    async connect () {
      asked++
      throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    }
  })
  const { commit } = new SharedCommit(silent, [first, second])
  const results = await Promise.allSettled([commit(first, working().work), commit(second, working().work)])
  t.strictSame(results.map(({ status }) => status), ['rejected', 'rejected'])
  t.equal(asked, 1)
})

t.test('who reads has the projectors write at once, all of them in one transaction', async t => {
  const { bus, natsUrl } = await openBus(t)
  const factLog = createFactLog(bus, systemClock)
  const pool = await freshPool(t)
  const projectors = createProjectors({
    bus,
    pool,
    log,
    projections: { emails, stats },
    rebuild: openRebuilder({ bus, pool, log }).rebuild,
    patientMs: 600_000
  })
  t.teardown(async () => {
    await Promise.all(projectors.map(projector => projector.stop()))
  })
  const { bus: otherBus } = await openBus(t, natsUrl)
  const [near, far] = [createCheckpoints(bus, pool), createCheckpoints(otherBus, pool)]
  // Who has waited in vain asks again: a fact that comes later than its asking waits for the next one.
  const caughtUp = ({ caughtUp }: Checkpoints) =>
    until(async () => await caughtUp(emails, 500) && await caughtUp(stats, 500))
  await until(() => caughtUp(near).then(() => true, () => false))

  const happen = async () => {
    const email = newId('em', Date.now())
    for (const fact of [requested({ email }), attempted({ email }), delivered({ email })]) {
      await factLog.append([{ fact: { ...fact, time: new Date().toISOString() } }])
    }
  }
  const areTogether = async () => {
    const { rowCount } = await pool.query(
      `select from ${second.schema}.checkpoints a join ${third.schema}.checkpoints b using (stream)
        where stream = 'EMAILS' and a.xmin = b.xmin`
    )
    return rowCount === 1
  }
  // Of two consumers one may bring a fact after the round has ended: not again and again.
  await until(async () => {
    await happen()
    await caughtUp(near)
    return await areTogether()
  })
  await happen()
  await t.resolves(caughtUp(far), 'and so has who reads in another process')
})
