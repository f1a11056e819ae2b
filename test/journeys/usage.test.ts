import t from 'tap'
import { monthAfter, monthOf, monthStartMs, type UsageClosed } from '#streams/usage/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { createLog } from '#src/base/log.ts'
import { readFacts } from '#src/nats/range.ts'
import { createCheckpoints } from '#src/workers/projector/commit.ts'
import { startUsage } from '#src/workers/scheduler/usage.ts'
import { createPool } from '#src/postgres/pool.ts'
import { startTestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const log = createLog('silent')
const DAY_MS = 86_400_000

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const services = await openSecondServices(t, natsUrl)
const pool = createPool(databaseUrl, log)
t.teardown(() => pool.end())

const month = monthOf(Date.now())
/** So many days into the month after this one. */
const later = (days: number): number => monthStartMs(monthAfter(month)) + days * DAY_MS
const closed = async (account = FIRST_ACCOUNT) =>
  (await readFacts(services.factLog.bus, 'CONTROL', subjects.usage(account, month))).map(({ fact }) =>
    fact as UsageClosed
  )
const monthly = async (query = '', key?: string) =>
  (await app.request('GET', `/api/stats?interval=month${query}`, key === undefined ? {} : { key })).body

/** The role as another process has it, at another time. */
function openMonths (nowMs: number, caughtUp = createCheckpoints(services.factLog.bus, pool).caughtUp) {
  let looks = 0
  const clock = {
    nowMs () {
      looks++
      return nowMs
    }
  }
  const role = startUsage({
    services: { factLog: { ...services.factLog, clock }, directory: services.directory },
    pool,
    log,
    everyMs: 30,
    checkpoints: { caughtUp }
  })
  return Object.assign(role, { looks: () => looks })
}

t.test('a month is closed from its fourth day on, by one of all processes, once, and outlives its days', async t => {
  const { body: { id } } = await app.send({ to: ['ada@example.com', 'bob@example.com'] })
  await app.settled(id, 'delivered')
  await until(async () => (await monthly()).totals.accepted === 2)
  const before = await monthly()
  const another = await app.newAccountKey()

  const early = openMonths(later(3) - 1)
  await until(() => early.looks() >= 3)
  await early.stop()
  t.strictSame(await closed(), [], 'it is not settled yet')

  await services.directory.catchUp(5000)
  let looks = 0
  const behind = openMonths(later(3), async () => {
    looks++
    return false
  })
  await until(() => looks >= 3)
  await behind.stop()
  t.strictSame(await closed(), [], 'nor is a view that is behind counted')

  let asked = 0
  const view = createCheckpoints(services.factLog.bus, pool)
  const roles = [
    openMonths(later(3)),
    openMonths(later(9)),
    openMonths(later(3), async (...given) => {
      asked++
      return await view.caughtUp(...given)
    })
  ]
  await until(async () => (await closed()).length > 0)
  const looked = roles.map(role => role.looks())
  await until(() => roles.every((role, i) => role.looks() > looked[i]! + 2))
  t.strictSame(roles.map(role => role.unhealthyReason()), [null, null, null])
  await Promise.all(roles.map(role => role.stop()))
  const facts = await closed()
  t.equal(facts.length, 1)
  t.match(facts[0], {
    account: FIRST_ACCOUNT,
    data: { month, domains: [{ domain: 'sandbox.jetpost.test', counts: { accepted: 2, delivered: 2, bounced: 0 } }] }
  })
  t.equal(asked, 1, 'what is done is not asked for again')
  for (const account of services.directory.now.accounts.keys()) {
    if (account !== FIRST_ACCOUNT) {
      t.strictSame(await closed(account), [], 'an account without mail has nothing to close')
    }
  }
  t.equal((await monthly('', another)).totals.accepted, 0)

  t.strictSame(await monthly(), before, 'closing changes no figure')
  // What the horizon does once the facts are gone.
  await pool.query('delete from stats_hours')
  t.strictSame(await monthly(), before, 'the days are gone, the month stays')
  t.equal((await app.request('GET', '/api/stats')).body.totals.accepted, 0)
})
