import t from 'tap'
import { emails } from '#projections/emails/project.ts'
import { listEmails, parseCursor, type EmailFilters } from '#projections/emails/queries.ts'
import { ask } from '#src/postgres/query.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ACCOUNT, bounced, deferred, delivered, recorded, requested } from '../support/facts.ts'
import { apply, freshPool } from './view.ts'

async function page (
  pool: Pool,
  { filters = {}, limit = 25, cursor = null, account = ACCOUNT }: {
    filters?: EmailFilters
    limit?: number
    cursor?: string | null
    account?: string
  }
) {
  return await ask(pool, listEmails({ account, filters, limit, cursor: cursor === null ? null : parseCursor(cursor) }))
}

t.test('pages are newest first and stay as they are while new emails arrive', async t => {
  const pool = await freshPool(t)
  const made = Array.from({ length: 7 }, (_, i) => requested({ email: `em_${i}` }))
  // Two of the same millisecond: the id decides.
  made[3]!.time = made[2]!.time
  await apply(pool, emails, recorded(made))
  const seen: string[] = []
  let cursor: string | null = null
  for (let turn = 0; turn < 3; turn++) {
    const { data, has_more: more, next_cursor: next } = await page(pool, { limit: 3, cursor })
    seen.push(...data.map(({ id }) => id))
    t.equal(more, turn < 2)
    t.equal(next === null, turn === 2)
    cursor = next
    await apply(pool, emails, recorded([requested({ email: `em_new${turn}` })], 100 + turn))
  }
  t.strictSame(seen, ['em_6', 'em_5', 'em_4', 'em_3', 'em_2', 'em_1', 'em_0'])
  t.equal((await page(pool, {})).data[0]?.id, 'em_new2')
})

t.test('a page of exactly all emails has no more', async t => {
  const pool = await freshPool(t)
  t.strictSame(await page(pool, {}), { data: [], has_more: false, next_cursor: null })
  await apply(pool, emails, recorded([requested({ email: 'em_0' }), requested({ email: 'em_1' })]))
  t.match(await page(pool, { limit: 2 }), { has_more: false, next_cursor: null, data: { length: 2 } })
})

t.test('a cursor that is none of ours is refused', async t => {
  const cursor = (text: string) => parseCursor(Buffer.from(text).toString('base64url'))
  t.strictSame(cursor('2026-11-21T10:00:00.000Z em_one'), { at: '2026-11-21T10:00:00.000Z', id: 'em_one' })
  for (
    const text of [
      '',
      'x',
      '2026-11-21T10:00:00.000Z',
      '2026-02-30T10:00:00.000Z em_one',
      '0000-01-01T00:00:00.000Z em_one',
      '2026-13-01T10:00:00.000Z em_one',
      "2026-11-21T10:00:00.000Z em_' or 1"
    ]
  ) {
    t.equal(cursor(text), null, text)
  }
  t.equal(parseCursor('%%%'), null)
  t.equal(parseCursor('A'.repeat(10_000)), null)
})

t.test('filters', async t => {
  const pool = await freshPool(t)
  const first = requested({
    email: 'em_1',
    subject: 'Your 100% invoice',
    from: { address: 'Billing@shop.example', name: 'Zoë' },
    recipients: [{ address: 'Ada@example.net', name: null, kind: 'to' }, {
      address: 'ben@example.net',
      name: 'Ben',
      kind: 'bcc'
    }],
    tags: ['invoice', 'eu'],
    metadata: { order: 7, paid: true, plan: '7', 'a.b': 'dot' }
  })
  const second = requested({ email: 'em_2', subject: 'Welcome', tags: ['welcome'], metadata: { order: 8 } })
  const third = requested({ email: 'em_3', subject: 'Welcome_back' })
  const foreign = requested({ email: 'em_4', tags: ['invoice'], subject: 'Your 100% invoice' }, 'acc_other')
  await apply(pool, emails, recorded([first, second, third, foreign]))
  await apply(
    pool,
    emails,
    recorded([
      delivered({ email: 'em_1', n: 0, to: 'Ada@example.net' }),
      deferred({ email: 'em_1', n: 1, to: 'ben@example.net' }),
      bounced({ email: 'em_2' })
    ])
  )

  const table: Array<[EmailFilters, string[]]> = [
    [{}, ['em_3', 'em_2', 'em_1']],
    [{ status: ['deferred'] }, ['em_1']],
    [{ status: ['queued'] }, ['em_3']],
    [{ status: ['partial'] }, []],
    [{ to: 'ada@EXAMPLE.net' }, ['em_3', 'em_2', 'em_1']],
    [{ to: 'ben@example.net' }, ['em_1']],
    [{ to: 'en@example.net' }, []],
    [{ from: 'billing@shop.example' }, ['em_1']],
    [{ domain: 'SHOP.example' }, ['em_1']],
    [{ domain: 'example' }, []],
    [{ tag: ['eu'] }, ['em_1']],
    [{ tag: ['e'] }, []],
    [{ metadata: { order: '7' } }, ['em_1']],
    [{ metadata: { plan: '7', paid: 'true' } }, ['em_1']],
    [{ metadata: { plan: '7', paid: 'false' } }, []],
    [{ metadata: { 'a.b': 'dot' } }, ['em_1']],
    [{ metadata: { order: '07' } }, []],
    [{ event: ['email.bounced'] }, ['em_2', 'em_1']],
    [{ event: ['bounced'] }, ['em_2', 'em_1']],
    [{ event: ['email.delivered'] }, ['em_1']],
    [{ event: ['email.opened'] }, []],
    [{ status: ['deferred', 'bounced'] }, ['em_2', 'em_1']],
    [{ status: ['queued', 'deferred', 'queued', 'failed'] }, ['em_3', 'em_1']],
    [{ tag: ['eu', 'welcome', 'none'] }, ['em_2', 'em_1']],
    [{ tag: ['invoice', 'eu'] }, ['em_1']],
    [{ event: ['delivered', 'bounced', 'email.bounced'] }, ['em_2', 'em_1']],
    [{ event: ['complained', 'bounced'] }, ['em_2', 'em_1']],
    [{ status: ['bounced', 'deferred'], event: ['delivered', 'opened'] }, ['em_1']],
    [{ status: ['bounced', 'queued'], tag: ['welcome', 'eu'] }, ['em_2']],
    [{ q: 'INVOICE' }, ['em_1']],
    [{ q: '0% i' }, ['em_1']],
    [{ q: '%' }, ['em_1']],
    [{ q: 'e_b' }, ['em_3']],
    [{ q: 'zoë' }, ['em_1']],
    [{ q: 'ben@exa' }, ['em_1']],
    [{ q: '\0' }, []],
    [{ created_after: second.time }, ['em_3', 'em_2']],
    [{ created_before: second.time }, ['em_1']],
    [{ created_after: second.time, created_before: third.time }, ['em_2']],
    [{
      status: ['bounced'],
      tag: ['welcome'],
      q: 'wel',
      event: ['bounced'],
      to: 'ada@example.net',
      created_after: first.time
    }, ['em_2']]
  ]
  for (const [filters, expected] of table) {
    t.strictSame((await page(pool, { filters })).data.map(({ id }) => id), expected, JSON.stringify(filters))
  }
  t.match(await page(pool, { account: 'acc_other' }), { data: [{ id: 'em_4', email_id: 'em_4' }] })
})

t.test('pages of a filter by status go on where the last ended', async t => {
  const pool = await freshPool(t)
  const requests = Array.from({ length: 5 }, (_, i) => requested({ email: `em_${i}` }))
  await apply(pool, emails, [...recorded(requests), ...recorded([0, 2, 3].map(i => bounced({ email: `em_${i}` })))])
  const first = await page(pool, { filters: { status: ['bounced'] }, limit: 2 })
  t.strictSame(first.data.map(({ id }) => id), ['em_3', 'em_2'])
  const second = await page(pool, { filters: { status: ['bounced'] }, limit: 2, cursor: first.next_cursor })
  t.strictSame(second.data.map(({ id }) => id), ['em_0'])
  t.equal(second.has_more, false)
})

t.test('pages of several statuses and events go on where the last ended, each email once', async t => {
  const pool = await freshPool(t)
  const requests = Array.from({ length: 12 }, (_, i) => requested({ email: `em_${String(i).padStart(2, '0')}` }))
  const of = (...numbers: number[]) => numbers.map(i => ({ email: `em_${String(i).padStart(2, '0')}` }))
  await apply(pool, emails, [
    ...recorded(requests),
    ...recorded([
      ...of(1, 4, 7, 10).map(one => bounced(one)),
      ...of(2, 5, 8, 11).map(one => deferred(one)),
      ...of(0).map(one => delivered(one))
    ])
  ])
  for (
    const [filters, expected] of [
      [{ status: ['bounced', 'deferred'] }, [11, 10, 8, 7, 5, 4, 2, 1]],
      [{ event: ['bounced', 'delivered'] }, [11, 10, 8, 7, 5, 4, 2, 1, 0]]
    ] as Array<[EmailFilters, number[]]>
  ) {
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const next: Awaited<ReturnType<typeof page>> = await page(pool, { filters, limit: 3, cursor })
      seen.push(...next.data.map(({ id }) => id))
      t.equal(next.has_more, next.next_cursor !== null)
      cursor = next.next_cursor
    } while (cursor !== null)
    t.strictSame(seen, of(...expected).map(({ email }) => email), JSON.stringify(filters))
  }
  const one = await page(pool, { filters: { status: ['bounced'] }, limit: 3 })
  const several = await page(pool, { filters: { status: ['bounced', 'failed'] }, limit: 3 })
  t.equal(several.next_cursor, one.next_cursor, 'a cursor is a place, whatever the filters are')
})

t.test('several values walk the indexes that one walks, and sort a page at most', async t => {
  const pool = await freshPool(t)
  await apply(pool, emails, recorded([requested({ email: 'em_1' })]))
  const planOf = async (filters: EmailFilters) => {
    const { sql: { text, values } } = listEmails({ account: ACCOUNT, filters, limit: 25, cursor: null })
    const client = await pool.connect()
    try {
      await client.query('begin; set local enable_seqscan = off; set local enable_sort = off')
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain (costs off) ${text}`, [...values])
      return rows.map(row => row['QUERY PLAN']).join('\n')
    } finally {
      await client.query('rollback')
      client.release()
    }
  }
  const statuses = await planOf({ status: ['bounced', 'failed', 'in_doubt'] })
  t.equal(statuses.match(/Index .*Scan using email_states_status/g)?.length, 3, statuses)
  t.equal(statuses.match(/Limit/g)?.length, 4, statuses)
  const events = await planOf({ event: ['bounced', 'complained'] })
  t.match(events, /email_states_bounced/)
  t.match(events, /email_states_complained/)
  const tags = await planOf({ tag: ['invoice', 'eu'] })
  t.match(tags, /emails_tags|emails_newest/)
  t.notMatch(`${statuses}${events}${tags}`, /Seq Scan/)
})
