import fc from 'fast-check'
import t from 'tap'
import { deliveries, DELIVERY_STATES } from '#projections/deliveries/project.ts'
import {
  failedDeliveries,
  getDelivery,
  listDeliveries,
  parsePlace,
  pruneAttempts,
  pruneDeliveries,
  type DeliveryFilters,
  type FailedDelivery
} from '#projections/deliveries/queries.ts'
import { cursorText, type PageCursor } from '#projections/cursor.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import {
  ACCOUNT,
  deliveryAttempted,
  deliveryFailed,
  deliveryMoved,
  deliveryRequested,
  member,
  recorded,
  timeAt,
  type DeliveryStep
} from '../support/facts.ts'
import { LONG } from '../support/long.ts'
import { apply, cut, freshPool, randomOf, shuffled } from './view.ts'

const one = (id: string) => ({ account: ACCOUNT, id })

async function allRows (pool: Pool): Promise<string[]> {
  const { rows } = await pool.query(
    `select to_jsonb(deliveries) as row from deliveries
      union all select to_jsonb(delivery_attempts) from delivery_attempts`
  )
  return rows.map(({ row }) => JSON.stringify(row)).sort()
}

/** Ids of a list, all pages of it after one another, and how many pages that were. */
async function listed (
  pool: Pool,
  filters: DeliveryFilters,
  limit = 100,
  account = ACCOUNT
): Promise<{ ids: string[], pages: number }> {
  const ids: string[] = []
  for (let cursor: PageCursor | null = null, pages = 1;; pages++) {
    const page = await ask(pool, listDeliveries({ account, filters, limit, cursor }))
    ids.push(...page.data.map(({ id }) => id))
    if (page.next_cursor === null) return { ids, pages }
    cursor = parsePlace(page.next_cursor)
    if (cursor === null) throw new Error('a cursor that cannot be read')
  }
}

t.test('a delivery that is tried again and arrives', async t => {
  const pool = await freshPool(t)
  const request = deliveryRequested({})
  await apply(pool, deliveries, recorded([request], 1))
  t.match(await ask(pool, getDelivery(one('whd_one'))), {
    state: 'pending',
    attempts: 0,
    last: null,
    first_attempt_at: null,
    next_attempt_at: null,
    tries: []
  })
  const away = deliveryAttempted({
    result: 'retrying',
    status: null,
    error: 'no answer',
    errorKind: 'timeout',
    response: '',
    nextAttemptAt: timeAt(60)
  })
  await apply(pool, deliveries, recorded([away], 2))
  t.match(await ask(pool, getDelivery(one('whd_one'))), {
    state: 'retrying',
    attempts: 1,
    next_attempt_at: new Date(timeAt(60)),
    ended_at: null,
    last: { status: null, error: 'no answer', error_kind: 'timeout' }
  })
  const last = deliveryAttempted({ attempt: 2, durationMs: 31 })
  await apply(pool, deliveries, recorded([last], 3))
  const found = await ask(pool, getDelivery(one('whd_one')))
  t.match(found, {
    webhook: 'wh_one',
    events: [{ id: 'ev_event', type: 'email.delivered', seq: 7, email: 'em_one' }],
    batch: false,
    test: false,
    replay: null,
    state: 'delivered',
    requested_at: new Date(request.time),
    first_attempt_at: new Date(timeAt(0)),
    next_attempt_at: null,
    ended_at: new Date(last.time),
    reason: null,
    attempts: 2,
    last: { status: 200, error: null, error_kind: null, duration_ms: 31 }
  })
  t.strictSame(found!.tries, [
    {
      seq: 2,
      replay: null,
      attempt: 1,
      at: new Date(away.time),
      status: null,
      error: 'no answer',
      error_kind: 'timeout',
      duration_ms: 12,
      response: '',
      url: 'https://example.com/hooks',
      headers: { 'webhook-id': 'ev_event' }
    },
    {
      seq: 3,
      replay: null,
      attempt: 2,
      at: new Date(last.time),
      status: 200,
      error: null,
      error_kind: null,
      duration_ms: 31,
      response: 'ok',
      url: 'https://example.com/hooks',
      headers: { 'webhook-id': 'ev_event' }
    }
  ])
  t.equal(await ask(pool, getDelivery({ account: 'acc_other', id: 'whd_one' })), null, 'another account has none')
})

t.test('the row is about the greatest replay: a late fact of an older run only adds its request', async t => {
  const pool = await freshPool(t)
  await apply(
    pool,
    deliveries,
    recorded([
      deliveryRequested({}),
      deliveryAttempted({ result: 'retrying', status: 500, nextAttemptAt: timeAt(60) }),
      deliveryRequested({ replay: 'rpl_2' })
    ])
  )
  t.match(await ask(pool, getDelivery(one('whd_one'))), {
    state: 'pending',
    replay: 'rpl_2',
    attempts: 0,
    last: null,
    next_attempt_at: null,
    tries: { length: 1 }
  })
  await apply(
    pool,
    deliveries,
    recorded([
      deliveryAttempted({ attempt: 2 }),
      deliveryRequested({ replay: 'rpl_1' }),
      deliveryFailed({ replay: 'rpl_1', reason: 'expired' })
    ], 4)
  )
  t.match(await ask(pool, getDelivery(one('whd_one'))), {
    state: 'pending',
    replay: 'rpl_2',
    attempts: 0,
    last: null,
    ended_at: null,
    reason: null,
    tries: { length: 2 }
  })
  await apply(pool, deliveries, recorded([deliveryAttempted({ replay: 'rpl_2', status: 202 })], 7))
  const found = await ask(pool, getDelivery(one('whd_one')))
  t.match(found, { state: 'delivered', replay: 'rpl_2', attempts: 1, last: { status: 202 } })
  t.strictSame(found!.tries.map(({ replay, attempt }) => [replay, attempt]), [[null, 1], [null, 2], ['rpl_2', 1]])
})

const RUNS = [null, 'rpl_01', 'rpl_02']
const CONTENTS = [[member(1)], [member(2)], [member(3), member(4)], [member(5), member(6), member(7)]]

const step = fc.record({
  which: fc.nat(CONTENTS.length - 1),
  run: fc.nat(RUNS.length - 1),
  kind: fc.constantFrom('requested', 'retrying', 'delivered', 'failed', 'deferred', 'ended'),
  attempt: fc.integer({ min: 1, max: 4 }),
  startS: fc.nat(50)
}).map(({ which, run, kind, attempt, startS }): DeliveryStep => {
  const owed = { delivery: `whd_${which}`, events: CONTENTS[which]!, batch: which >= 2, replay: RUNS[run]! }
  const firstAttemptAt = timeAt(startS)
  if (kind === 'requested') return deliveryRequested(owed)
  if (kind === 'deferred') {
    return deliveryMoved({ ...owed, attempts: attempt - 1, firstAttemptAt, nextAttemptAt: timeAt(500 + startS) })
  }
  if (kind === 'ended') return deliveryFailed({ ...owed, attempts: attempt - 1, reason: 'expired' })
  if (kind === 'delivered') return deliveryAttempted({ ...owed, attempt, firstAttemptAt, durationMs: startS })
  const nextAttemptAt = kind === 'retrying' ? timeAt(900 + startS) : null
  return deliveryAttempted({
    ...owed,
    attempt,
    firstAttemptAt,
    result: kind,
    status: null,
    error: `no ${startS}`,
    errorKind: 'connect',
    nextAttemptAt
  })
})

/** What the law says in the plainest words: the facts of the greatest run, and the last of them, unless one of them
 *  says that it has arrived. */
function rowsByLaw (facts: Array<Recorded<AnyFact>>) {
  const steps = facts as Array<Recorded<DeliveryStep>>
  return [...new Set(steps.map(({ fact }) => fact.data.delivery))].sort().map(id => {
    const its = steps.filter(({ fact }) => fact.data.delivery === id)
    const replay = its.map(({ fact }) => fact.data.replay ?? '').sort().at(-1)!
    const run = its.filter(({ fact }) => (fact.data.replay ?? '') === replay)
    const requests = run.map(({ fact }) => fact).filter(fact => fact.type === 'delivery.attempted')
    const arrived = run.findLast(({ fact }) => fact.type === 'delivery.attempted' && fact.data.result === 'delivered')
    const { fact: last, seq } = arrived ?? run.at(-1)!
    const state = last.type === 'delivery.attempted'
      ? last.data.result
      : { 'delivery.requested': 'pending', 'delivery.moved': 'retrying', 'delivery.failed': 'failed' }[last.type]
    return {
      id,
      replay,
      state,
      state_seq: seq,
      requested_at: requestedAt(its[0]!.fact),
      attempts: Math.max(
        0,
        ...run.map(({ fact }) => (fact.type === 'delivery.requested'
          ? 0
          : fact.type === 'delivery.attempted'
          ? fact.data.attempt
          : fact.data.attempts)
        )
      ),
      first_attempt_at: requests.map(({ data }) => data.firstAttemptAt).sort()[0] ?? null,
      next_attempt_at: last.type === 'delivery.attempted' || last.type === 'delivery.moved'
        ? last.data.nextAttemptAt
        : null,
      error: arrived === undefined ? requests.at(-1)?.data.error ?? null : null,
      requests: its.filter(({ fact }) => fact.type === 'delivery.attempted').map(request => request.seq)
    }
  })
}

/** The first attempt is the first fact of most. */
function requestedAt (fact: DeliveryStep): string {
  return fact.type === 'delivery.attempted' && fact.data.attempt === 1 ? fact.data.firstAttemptAt : fact.time
}

t.test('whatever happens, in any order, in any batches and twice: the rows are those of the law', async t => {
  const pool = await freshPool(t)
  const clear = () => pool.query('truncate deliveries, delivery_attempts')
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), fc.integer(), async (steps, seed) => {
      const facts = recorded(steps)
      await clear()
      await apply(pool, deliveries, facts)
      const expected = await allRows(pool)
      const { rows } = await pool.query(
        `select id, replay, state, state_seq, requested_at, attempts, first_attempt_at, next_attempt_at, error,
      array(select seq::integer from delivery_attempts where delivery = deliveries.id order by seq) as requests
      from deliveries order by id`
      )
      t.strictSame(JSON.parse(JSON.stringify(rows)), rowsByLaw(facts))
      await clear()
      const random = randomOf(seed)
      const told = random() < 0.5 ? [...facts, ...facts] : shuffled([...facts, ...facts], random)
      for (const batch of cut(told, 6, random)) await apply(pool, deliveries, batch)
      t.strictSame(await allRows(pool), expected)
    }),
    { numRuns: LONG ? 300 : 30 }
  )
})

t.test('a delivered delivery stays delivered: a later failure of another process only adds its request', async t => {
  const pool = await freshPool(t)
  const requests = [
    deliveryAttempted({ status: 202 }),
    deliveryAttempted({ result: 'retrying', status: 500, error: 'away', nextAttemptAt: timeAt(60) }),
    deliveryFailed({ reason: 'endpoint_disabled', attempts: 1 })
  ]
  for (const facts of [recorded(requests), ...recorded(requests).map(each => [each])]) {
    await apply(pool, deliveries, facts)
    t.match(await ask(pool, getDelivery(one('whd_one'))), {
      state: 'delivered',
      next_attempt_at: null,
      reason: null,
      last: { status: 202, error: null },
      tries: { length: facts.length === 3 ? 2 : Number }
    })
  }
  await apply(
    pool,
    deliveries,
    recorded([
      deliveryRequested({ replay: 'rpl_1' }),
      deliveryAttempted({ replay: 'rpl_1', result: 'failed', status: 500 })
    ], 4)
  )
  t.match(
    await ask(pool, getDelivery(one('whd_one'))),
    { state: 'failed', replay: 'rpl_1', last: { status: 500 } },
    'a replay is another matter'
  )
})

t.test('what strangers answer is stored, whatever bytes it holds', async t => {
  const pool = await freshPool(t)
  await apply(
    pool,
    deliveries,
    recorded([
      deliveryAttempted({
        status: 500,
        response: 'a\0b\ud800',
        error: 'x\0',
        request: { url: 'https://example.com/', headers: { 'x\0': 'y\0' } }
      })
    ])
  )
  t.match(await ask(pool, getDelivery(one('whd_one'))), {
    last: { error: 'x\uFFFD' },
    tries: [{ response: 'a\uFFFDb\uFFFD', headers: { 'x\uFFFD': 'y\uFFFD' } }]
  })
})

t.test('a list is filtered by endpoint, event, email, state, error and time; its pages hold each once', async t => {
  const pool = await freshPool(t)
  const facts: AnyFact[] = []
  const ids = Array.from({ length: 24 }, (_, i) => `whd_${String(i).padStart(2, '0')}`)
  const batchOf = (i: number) => i % 6 === 5
  for (const [i, delivery] of ids.entries()) {
    const owed = {
      delivery,
      webhook: `wh_${i % 2}`,
      events: batchOf(i) ? [member(i), member(100)] : [member(i)],
      batch: batchOf(i)
    }
    facts.push(deliveryRequested(owed))
    if (i % 4 === 1) facts.push(deliveryAttempted(owed))
    if (i % 4 === 2) {
      facts.push(
        deliveryAttempted({
          ...owed,
          result: 'retrying',
          status: null,
          error: 'away',
          errorKind: i % 8 === 2 ? 'connect' : 'dns',
          nextAttemptAt: timeAt(999)
        })
      )
    }
    if (i % 4 === 3) facts.push(deliveryFailed(owed))
  }
  for (const batch of cut(recorded(facts), 7, randomOf(1))) await apply(pool, deliveries, batch)
  const newest = ids.toReversed()
  const where = (test: (i: number) => boolean) => newest.filter(id => test(ids.indexOf(id)))
  const time = (i: number) =>
    facts.find(fact => fact.type === 'delivery.requested' && fact.data.delivery === ids[i])!.time
  const cases: Array<[DeliveryFilters, string[]]> = [
    [{}, newest],
    [{ webhook: 'wh_1' }, where(i => i % 2 === 1)],
    ...DELIVERY_STATES.map((
      state,
      n
    ): [DeliveryFilters, string[]] => [{ state }, where(i => i % 4 === [0, 2, 1, 3][n])]),
    [{ webhook: 'wh_1', state: 'delivered' }, where(i => i % 4 === 1)],
    [{ webhook: 'wh_0', state: 'delivered' }, []],
    [{ errorKind: 'dns' }, where(i => i % 8 === 6)],
    [{ errorKind: 'connect', state: 'retrying', webhook: 'wh_0' }, where(i => i % 8 === 2)],
    [{ errorKind: 'connect', state: 'delivered' }, []],
    [{ event: 'ev_7' }, ['whd_07']],
    [{ event: 'ev_5' }, ['whd_05']],
    [{ event: 'ev_100' }, where(batchOf)],
    [{ email: 'em_8' }, ['whd_08']],
    [{ email: 'em_11' }, ['whd_11']],
    [{ email: 'em_100' }, where(batchOf)],
    [{ email: 'em_100', state: 'failed' }, where(i => batchOf(i) && i % 4 === 3)],
    [{ email: 'em_100', event: 'ev_5' }, ['whd_05']],
    [{ email: 'em_3', event: 'ev_5' }, []],
    [{ email: 'em_100', webhook: 'wh_0' }, []],
    [{ since: time(20) }, where(i => i >= 20)],
    [{ until: time(3) }, where(i => i < 3)],
    [{ since: time(4), until: time(12), webhook: 'wh_0' }, where(i => i >= 4 && i < 12 && i % 2 === 0)],
    [{ email: 'em_100', since: time(12) }, where(i => batchOf(i) && i >= 12)]
  ]
  for (const [filters, expected] of cases) {
    const name = JSON.stringify(filters)
    t.strictSame(await listed(pool, filters), { ids: expected, pages: 1 }, name)
    t.strictSame((await listed(pool, filters, 1)).ids, expected, `${name}, one by one`)
  }
  t.strictSame(await listed(pool, {}, 5), { ids: newest, pages: 5 })
  t.strictSame((await listed(pool, {}, 5, 'acc_other')).ids, [])
  t.strictSame((await listed(pool, { email: 'em_100' }, 5, 'acc_other')).ids, [])
  const [batch] =
    (await ask(pool, listDeliveries({ account: ACCOUNT, filters: { event: 'ev_5' }, limit: 1, cursor: null })))
      .data
  t.strictSame(batch!.events, [member(5), member(100)], 'the events of a batch, as they were')
})

t.test('pages stay what they are while new deliveries come and old ones are asked for again', async t => {
  const pool = await freshPool(t)
  const asked = (...ids: string[]) => ids.map(delivery => deliveryRequested({ delivery }))
  await apply(pool, deliveries, recorded(asked('whd_1', 'whd_2', 'whd_3', 'whd_4')))
  const first = await ask(pool, listDeliveries({ account: ACCOUNT, filters: {}, limit: 2, cursor: null }))
  await apply(
    pool,
    deliveries,
    recorded([
      ...asked('whd_5'),
      deliveryRequested({ delivery: 'whd_1', replay: 'rpl_1' }),
      deliveryAttempted({ delivery: 'whd_2' })
    ], 5)
  )
  const second = await ask(
    pool,
    listDeliveries({ account: ACCOUNT, filters: {}, limit: 2, cursor: parsePlace(first.next_cursor!) })
  )
  t.strictSame([...first.data, ...second.data].map(({ id }) => id), ['whd_4', 'whd_3', 'whd_2', 'whd_1'])
  t.equal(second.next_cursor, null)
})

t.test('a place is read back, and what is none of ours is not', async t => {
  const place = { at: timeAt(1), id: 'whd_one' }
  t.strictSame(parsePlace(cursorText(place)), place)
  const times = [
    '2026-02-30T00:00:00.000Z',
    '2026-99-30T00:00:00.000Z',
    '0000-01-01T00:00:00.000Z',
    '+010000-01-01T00:00:00.000Z'
  ]
  for (
    const text of [
      '',
      'x',
      cursorText({ ...place, id: "whd_'" }),
      ...times.map(at => cursorText({ ...place, at })),
      'A'.repeat(1000)
    ]
  ) {
    t.equal(parsePlace(text), null, text.slice(0, 80))
  }
})

t.test('failures of an endpoint in a stretch of time are given by pages, without those asked for again', async t => {
  const pool = await freshPool(t)
  const facts = [
    ...Array.from({ length: 7 }, (_, i) => deliveryAttempted({ delivery: `whd_${i}`, result: 'failed', status: 500 })),
    deliveryFailed({ delivery: 'whd_other', webhook: 'wh_two' }),
    deliveryAttempted({ delivery: 'whd_fine' }),
    deliveryRequested({ delivery: 'whd_3', replay: 'rpl_1' })
  ]
  await apply(pool, deliveries, recorded(facts, 101))
  const range = { account: ACCOUNT, webhook: 'wh_one', from: facts[1]!.time, to: facts[6]!.time }
  const found: FailedDelivery[] = []
  for (let after: PageCursor | null = null;;) {
    const page: FailedDelivery[] = await ask(pool, failedDeliveries(range, { limit: 3, after }))
    found.push(...page)
    if (page.length < 3) break
    after = { at: page.at(-1)!.ended_at.toISOString(), id: page.at(-1)!.id }
  }
  t.strictSame(found.map(({ id, state_seq: seq }) => [id, seq]), [['whd_1', 102], ['whd_2', 103], ['whd_4', 105], [
    'whd_5',
    106
  ]])
  t.strictSame(await ask(pool, failedDeliveries({ ...range, account: 'acc_other' }, { limit: 3, after: null })), [])
})

t.test('what has left the log leaves the view by pages, also what nobody heard of again', async t => {
  const pool = await freshPool(t)
  const facts = recorded([
    ...['whd_a', 'whd_b', 'whd_c', 'whd_waits'].map(delivery =>
      deliveryAttempted({ delivery, result: 'retrying', nextAttemptAt: timeAt(60) })
    ),
    deliveryRequested({ delivery: 'whd_pending' }),
    ...['whd_a', 'whd_b', 'whd_c'].map(delivery => deliveryAttempted({ delivery, attempt: 2 })),
    deliveryRequested({ delivery: 'whd_b', replay: 'rpl_1' })
  ])
  await apply(pool, deliveries, facts)
  t.equal(await ask(pool, pruneAttempts({ before: 8, limit: 4 })), 4)
  t.equal(await ask(pool, pruneAttempts({ before: 8, limit: 4 })), 2)
  t.equal(await ask(pool, pruneDeliveries({ before: 4, limit: 5 })), 0)
  t.equal(await ask(pool, pruneDeliveries({ before: 5, limit: 5 })), 1)
  t.strictSame((await listed(pool, {})).ids, ['whd_pending', 'whd_c', 'whd_b', 'whd_a'], 'whd_waits waits in vain')
  t.equal(await ask(pool, pruneDeliveries({ before: 9, limit: 2 })), 2)
  t.equal(await ask(pool, pruneDeliveries({ before: 9, limit: 2 })), 1)
  t.equal(await ask(pool, pruneDeliveries({ before: 9, limit: 2 })), 0)
  t.strictSame((await listed(pool, {})).ids, ['whd_b'])
  t.strictSame((await ask(pool, getDelivery(one('whd_b'))))!.tries, [])
  t.strictSame((await pool.query('select seq from delivery_attempts')).rows, [{ seq: 8 }])
})

t.test('a pruned projection holds what a rebuild from the rest of the log gives', async t => {
  const pool = await freshPool(t)
  const settled = Array.from(
    { length: 30 },
    (_, i) => [deliveryRequested({ delivery: `whd_${i}` }), deliveryAttempted({ delivery: `whd_${i}` })]
  ).flat()
  const facts = recorded(settled)
  for (const before of [1, 2, 17, 61]) {
    await pool.query('truncate deliveries, delivery_attempts')
    await apply(pool, deliveries, facts.filter(({ seq }) => seq >= before))
    const rebuilt = await allRows(pool)
    await pool.query('truncate deliveries, delivery_attempts')
    await apply(pool, deliveries, facts)
    await ask(pool, pruneAttempts({ before, limit: 1000 }))
    await ask(pool, pruneDeliveries({ before, limit: 1000 }))
    // Of the one whose first fact has left and whose last has not, the view still knows when it was asked for.
    const known = (rows: string[]) => rows.map(row => row.replace(/"first_seq":\d+|"requested_at":"[^"]*"/g, ''))
    t.strictSame(known(await allRows(pool)), known(rebuilt), `from ${before} on`)
  }
})
