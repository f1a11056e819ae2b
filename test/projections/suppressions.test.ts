import t from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import {
  SuppressionAdded,
  SuppressionRemoved,
  type StandingReason,
  type SuppressionReason
} from '#streams/suppression/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { suppressions } from '#projections/suppressions/project.ts'
import { listSuppressions, parseCursor, type SuppressionListOptions } from '#projections/suppressions/queries.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { suppressionHash } from '#src/actions/suppression-store.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { ACCOUNT, timeAt } from '../support/facts.ts'
import { allRows, apply, clear, cut, freshPool, randomOf, shuffled } from './view.ts'

const standing = (reason: SuppressionReason, seconds: number, email: string | null = null): StandingReason => ({
  reason,
  email,
  since: timeAt(seconds)
})

/** The fact after which these stand; the seconds of the newest are its time. */
function added (address: string, entries: StandingReason[], { account = ACCOUNT, erased = false } = {}) {
  const data = {
    hash: suppressionHash(address),
    address: erased ? null : address,
    reason: entries.at(-1)!.reason,
    standing: entries
  }
  return stamp(
    SuppressionAdded,
    { account, correlation: 'test', causation: null },
    data,
    Date.parse(entries.at(-1)!.since)
  )
}

function removed (address: string) {
  return stamp(SuppressionRemoved, { account: ACCOUNT, correlation: 'test', causation: null }, {
    hash: suppressionHash(address),
    address
  }, Date.parse(timeAt(99)))
}

function recorded (facts: Array<ReturnType<typeof added> | ReturnType<typeof removed>>, fromSeq = 1) {
  return facts.map((fact, i) => ({
    fact: fact as AnyFact,
    seq: fromSeq + i,
    subject: subjects.suppression(fact.account, fact.data.hash)
  }))
}

const EVERYTHING: SuppressionListOptions = {
  account: ACCOUNT,
  reason: null,
  hash: null,
  afterMs: null,
  beforeMs: null,
  limit: 25,
  cursor: null
}
const list = (pool: Pool, options: Partial<SuppressionListOptions> = {}) =>
  ask(pool, listSuppressions({ ...EVERYTHING, ...options }))
const addresses = async (pool: Pool, options: Partial<SuppressionListOptions> = {}) =>
  (await list(pool, options)).data.map(({ address }) => address)

t.test('a suppression as it is added, added to, lifted, and added again', async t => {
  const pool = await freshPool(t)
  await apply(pool, suppressions, recorded([added('Ada@example.com', [standing('bounce', 1, 'em_1')])], 1))
  t.strictSame(await list(pool), {
    data: [{
      address: 'Ada@example.com',
      reasons: [{ reason: 'bounce', email_id: 'em_1', since: timeAt(1) }],
      created_at: timeAt(1)
    }],
    has_more: false,
    next_cursor: null
  })
  await apply(
    pool,
    suppressions,
    recorded([added('Ada@example.com', [standing('bounce', 1, 'em_1'), standing('manual', 5)])], 2)
  )
  t.match((await list(pool)).data, [{
    reasons: [{ reason: 'bounce' }, { reason: 'manual', email_id: null }],
    created_at: timeAt(1)
  }])
  await apply(pool, suppressions, recorded([removed('ada@example.com')], 3))
  t.strictSame((await list(pool)).data, [])
  t.match((await pool.query('select * from suppressions')).rows, [{
    address: null,
    standing: [],
    created_at: null,
    seq: 3
  }], 'what is lifted keeps no address')
  await apply(pool, suppressions, recorded([added('ada@example.com', [standing('complaint', 9)])], 4))
  t.match((await list(pool)).data, [{
    address: 'ada@example.com',
    reasons: [{ reason: 'complaint' }],
    created_at: timeAt(9)
  }])
})

t.test('facts in any order, in any batches, and all of them twice give the same rows', async t => {
  const pool = await freshPool(t)
  const facts = recorded([
    added('a@example.com', [standing('bounce', 1)]),
    added('b@example.com', [standing('manual', 2)]),
    added('a@example.com', [standing('bounce', 1), standing('complaint', 3)]),
    removed('a@example.com'),
    added('c@example.com', [standing('unsubscribe', 4)]),
    added('b@example.com', [standing('manual', 2)], { erased: true }),
    added('a@example.com', [standing('manual', 6)]),
    added('a@example.com', [standing('manual', 6)], { account: 'acc_other' }),
    removed('c@example.com')
  ])
  for (const one of facts) await apply(pool, suppressions, [one])
  const expected = await allRows(pool, 'suppressions')
  t.strictSame(await addresses(pool), ['a@example.com', null])
  await apply(pool, suppressions, facts)
  t.strictSame(await allRows(pool, 'suppressions'), expected, 'once more, in one batch')
  for (let seed = 1; seed <= 12; seed++) {
    const random = randomOf(seed)
    await clear(pool, 'suppressions')
    for (const batch of cut(shuffled([...facts, ...facts], random), 5, random)) await apply(pool, suppressions, batch)
    t.strictSame(await allRows(pool, 'suppressions'), expected, `seed ${seed}`)
  }
})

t.test('an erased address is listed without its name, and found by who knows it', async t => {
  const pool = await freshPool(t)
  await apply(
    pool,
    suppressions,
    recorded([
      added('gone@example.com', [standing('complaint', 1)]),
      added('gone@example.com', [standing('complaint', 1)], { erased: true })
    ])
  )
  t.strictSame(await addresses(pool), [null])
  t.strictSame(await addresses(pool, { hash: suppressionHash('GONE@example.com') }), [null])
})

t.test('pages are newest first and stay as they are while others are added, and lifted', async t => {
  const pool = await freshPool(t)
  // Four of the same millisecond: the hash decides.
  await apply(
    pool,
    suppressions,
    recorded(Array.from({ length: 8 }, (_, i) => added(`n${i}@example.com`, [standing('manual', Math.max(i, 3))])))
  )
  const all = await addresses(pool)
  t.strictSame(all.slice(0, 4), ['n7@example.com', 'n6@example.com', 'n5@example.com', 'n4@example.com'])
  t.strictSame(all.slice(4).sort(), ['n0@example.com', 'n1@example.com', 'n2@example.com', 'n3@example.com'])
  const seen: Array<string | null> = []
  let cursor: string | null = null
  for (let turn = 0; turn < 3; turn++) {
    const page = await list(pool, { limit: 3, cursor: cursor === null ? null : parseCursor(cursor) })
    seen.push(...page.data.map(({ address }) => address))
    t.equal(page.has_more, turn < 2)
    t.equal(page.next_cursor === null, turn === 2)
    cursor = page.next_cursor
    await apply(
      pool,
      suppressions,
      recorded([
        added(`later${turn}@example.com`, [standing('manual', 50 + turn)]),
        // The last one of the page just read.
        ...(turn < 2 ? [removed(seen.at(-1)!)] : [])
      ], 100 + 10 * turn)
    )
  }
  t.strictSame(seen, all)
})

t.test('filters', async t => {
  const pool = await freshPool(t)
  await apply(
    pool,
    suppressions,
    recorded([
      added('one@example.com', [standing('bounce', 1)]),
      added('two@example.com', [standing('unsubscribe', 2), standing('complaint', 7)]),
      added('three@example.com', [standing('manual', 3.001)]),
      added('foreign@example.com', [standing('bounce', 2)], { account: 'acc_other' })
    ])
  )
  const at = (seconds: number) => Date.parse(timeAt(seconds))
  const table: Array<[Partial<SuppressionListOptions>, string[]]> = [
    [{}, ['three', 'two', 'one']],
    [{ reason: 'bounce' }, ['one']],
    [{ reason: 'complaint' }, ['two']],
    [{ reason: 'unsubscribe' }, ['two']],
    [{ reason: 'manual' }, ['three']],
    [{ hash: suppressionHash('TWO@example.com') }, ['two']],
    [{ hash: suppressionHash('foreign@example.com') }, []],
    [{ hash: suppressionHash('two@example.com'), reason: 'bounce' }, []],
    [{ afterMs: at(2) }, ['three', 'two']],
    [{ beforeMs: at(2) }, ['one']],
    [{ afterMs: at(3.001) }, ['three']],
    [{ beforeMs: at(3.001) }, ['two', 'one']],
    [{ afterMs: at(2), beforeMs: at(3.001) }, ['two']],
    [{ afterMs: Date.parse('0000-01-01T00:00:00Z'), beforeMs: Date.parse('9999-12-31T23:59:59Z') }, [
      'three',
      'two',
      'one'
    ]],
    [{ account: 'acc_other' }, ['foreign']]
  ]
  for (const [filters, expected] of table) {
    t.strictSame(
      await addresses(pool, filters),
      expected.map(name => `${name}@example.com`),
      JSON.stringify(filters)
    )
  }
})

t.test('each filter by reason walks its own index, however rare the reason is', async t => {
  const pool = await freshPool(t)
  for (const reason of ['bounce', 'complaint', 'unsubscribe', 'manual'] as const) {
    const { sql } = listSuppressions({ ...EVERYTHING, reason })
    const client = await pool.connect()
    await client.query('set enable_seqscan = off')
    const { rows: plan } = await client.query(`explain ${sql.text}`, [...sql.values])
    client.release(true)
    t.match(JSON.stringify(plan), new RegExp(`suppressions_${reason}`), reason)
  }
})

t.test('a cursor that is none of ours is refused', async t => {
  const cursor = (text: string) => parseCursor(Buffer.from(text).toString('base64url'))
  const hash = suppressionHash('a@example.com')
  t.strictSame(cursor(`1763719200123 ${hash}`), { createdMs: 1763719200123, hash })
  for (
    const text of [
      '',
      'x',
      hash,
      ` ${hash}`,
      `-1 ${hash}`,
      `1.5 ${hash}`,
      `1e9 ${hash}`,
      `${'9'.repeat(16)} ${hash}`,
      `1 ${hash}0`,
      `1 ${hash}' or 1`
    ]
  ) t.equal(cursor(text), null, text)
  t.equal(parseCursor('%%%'), null)
  t.strictSame(
    (await list(await freshPool(t), { cursor: cursor(`${'9'.repeat(15)} ${hash}`) })).data,
    [],
    'one of the farthest future can be asked for'
  )
})
