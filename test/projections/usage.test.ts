import t from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { subjects } from '#streams/subjects.ts'
import { UsageClosed } from '#streams/usage/facts.ts'
import { NOTHING } from '#projections/counts.ts'
import { usage } from '#projections/usage/project.ts'
import { closedDomains, closedMonths, type UsageQueryOptions } from '#projections/usage/queries.ts'
import { stamp } from '#src/actions/fact-log.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { ACCOUNT } from '../support/facts.ts'
import { openChance } from '../support/random.ts'
import { apply, cut, freshPool, shuffled } from './view.ts'

/** A closed month in which the domains had so much accepted. */
function closed (month: string, domains: Record<string, number>, account = ACCOUNT): UsageClosed {
  const data = {
    month,
    domains: Object.entries(domains).map(([domain, accepted]) => ({
      domain,
      counts: { ...NOTHING, accepted, delivered: accepted - 1 }
    }))
  }
  return stamp(
    UsageClosed,
    { account, correlation: 'usage', causation: null },
    data,
    Date.parse('2026-12-04T00:00:00Z')
  ) as UsageClosed
}

const inLog = (facts: UsageClosed[]): Array<Recorded<AnyFact>> =>
  facts.map((fact, i) => ({ fact, seq: i + 1, subject: subjects.usage(fact.account, fact.data.month) }))

const FACTS = inLog([
  closed('2026-09', { 'example.com': 10 }),
  closed('2026-10', { 'example.com': 20, 'shop.example': 5 }),
  closed('2026-11', { '': 2, 'shop.example': 7 }),
  closed('2026-10', { 'example.com': 99 }, 'acc_other')
])

const rowsOf = async (pool: Pool) => (await pool.query('select * from usage order by account, month, domain')).rows
const asked = (given: Partial<UsageQueryOptions> = {}): UsageQueryOptions => ({
  account: ACCOUNT,
  firstMonth: '2026-01',
  lastMonth: '2026-12',
  domain: null,
  ...given
})
const months = async (pool: Pool, given?: Partial<UsageQueryOptions>) =>
  (await ask(pool, closedMonths(asked(given)))).map(({ month, counts }) => [month, counts.accepted, counts.delivered])

t.test('closed months, together and by domain', async t => {
  const pool = await freshPool(t)
  await apply(pool, usage, FACTS)
  t.strictSame(await months(pool), [['2026-09', 10, 9], ['2026-10', 25, 23], ['2026-11', 9, 7]])
  t.strictSame(
    await months(pool, { firstMonth: '2026-10', lastMonth: '2026-10' }),
    [['2026-10', 25, 23]],
    'both ends are included'
  )
  t.strictSame(await months(pool, { domain: 'example.com' }), [['2026-09', 10, 9], ['2026-10', 20, 19], [
    '2026-11',
    0,
    0
  ]], 'a month without mail of the domain is closed all the same')
  t.strictSame((await ask(pool, closedDomains(asked()))).map(({ name, counts }) => [name, counts.accepted]), [['', 2], [
    'example.com',
    30
  ], ['shop.example', 12]])
  t.strictSame(
    (await ask(pool, closedDomains(asked({ domain: 'shop.example', firstMonth: '2026-11' })))).map((
      { name, counts }
    ) => [name, counts.accepted]),
    [['shop.example', 7]]
  )
  t.strictSame(await months(pool, { account: 'acc_none' }), [])
})

t.test('facts in any order, in any batches, and all of them twice give the same rows', async t => {
  const pool = await freshPool(t)
  const chance = openChance(t)
  for (const one of FACTS) await apply(pool, usage, [one])
  const expected = await rowsOf(pool)
  t.equal(expected.length, 6)
  for (let turn = 0; turn < 8; turn++) {
    await pool.query('truncate usage')
    for (const batch of cut(shuffled([...FACTS, ...FACTS], chance.next), 4, chance.next)) {
      await apply(pool, usage, batch)
    }
    t.strictSame(await rowsOf(pool), expected, `turn ${turn}`)
  }
})
