import t from 'tap'
import { EmailClicked, EmailDelivered, EmailRecorded } from '#streams/email/facts.ts'
import { NOTHING, type Counts } from '#projections/counts.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { closeMonth } from '#src/actions/usage.ts'
import { newId } from '#src/base/id.ts'
import { clicked, delivered, requested } from '../support/facts.ts'
import { startTestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount } from '../support/servers.ts'

const { natsUrl } = freshAccount()
const nowMs = Date.parse('2026-11-21T12:30:00Z')
const app = await startTestApp(t, { natsUrl, clock: { nowMs: () => nowMs } })
const { factLog } = await openSecondServices(t, natsUrl)

const get = async (query = '', options: Parameters<typeof app.request>[2] = {}) =>
  await app.request('GET', `/api/stats${query}`, options)
const body = async (query = '') => {
  const answer = await get(query)
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  return answer.body
}

// The records below name request 1, as if it were theirs: it must not be one that is counted here.
await app.request('POST', '/api/emails', {
  key: await app.newAccountKey(),
  body: { from: 'hello@sandbox.jetpost.test', to: 'delivered@sandbox.jetpost.test', subject: 'First', text: 'x' }
})

interface Mail {
  at: string
  to: string[]
  from?: string
  tags?: string[]
  delivered?: number
  clicked?: number
}

/** Mail of the past, as the log would have it: to so many, of whom the first ones got it, and clicked. */
async function mail (
  { at, to, from = 'hello@example.com', tags = [], delivered: arrived = 0, clicked: followed = 0 }: Mail
): Promise<void> {
  const ms = Date.parse(at)
  const email = newId('em', ms)
  const cause = { account: FIRST_ACCOUNT, correlation: 'test', causation: null }
  const { content: _content, ...data } = requested({
    email,
    from: { address: from, name: null },
    recipients: to.map(address => ({ address, name: null, kind: 'to' as const })),
    tags
  }).data
  const given = (n: number) => ({ email, n, to: to[n]!, event: JSON.stringify({ data: { from, tags } }) })
  await factLog.append([
    {
      fact: stamp(EmailRecorded, cause, { ...data, request: 1, requestedAt: new Date(ms).toISOString() }, ms)
    },
    ...to.slice(0, arrived).map((_to, n) => ({
      fact: stamp(EmailDelivered, cause, delivered(given(n)).data, ms)
    })),
    ...to.slice(0, followed).map((_to, n) => ({
      fact: stamp(EmailClicked, cause, clicked(given(n)).data, ms)
    }))
  ])
}

await mail({
  at: '2026-11-20T08:10:00Z',
  to: ['a@one.example', 'b@two.example'],
  tags: ['orders', 'eu'],
  delivered: 2,
  clicked: 1
})
await mail({
  at: '2026-11-21T09:20:00Z',
  to: ['c@one.example'],
  from: 'shop@shop.example',
  tags: ['orders'],
  delivered: 1
})
await mail({
  at: '2026-11-21T11:59:59Z',
  to: ['d@one.example', 'e@one.example', 'f@one.example'],
  delivered: 2,
  clicked: 1
})

const RATES = {
  delivery_rate: null,
  bounce_rate: null,
  open_rate: null,
  click_rate: null,
  complaint_rate: null,
  unsubscribe_rate: null
}
const figures = (counts: Partial<Counts>, rates = {}) => ({ ...NOTHING, ...RATES, ...counts, ...rates })
const ARRIVED = { delivery_rate: 1, bounce_rate: 0, open_rate: 0, complaint_rate: 0, unsubscribe_rate: 0 }
const accepted = (buckets: Array<{ start: string, accepted: number }>) =>
  buckets.filter(bucket => bucket.accepted > 0).map(({ start, accepted }) => [start, accepted])

t.test('thirty days up to now, oldest first, those without mail as zeros', async t => {
  const { interval, from, to, totals, buckets, groups } = await body()
  t.strictSame({ interval, from, to, groups }, {
    interval: 'day',
    from: '2026-10-23T00:00:00.000Z',
    to: '2026-11-22T00:00:00.000Z',
    groups: undefined
  })
  t.equal(buckets.length, 30)
  t.strictSame(buckets[0], { start: '2026-10-23T00:00:00.000Z', ...figures({}) })
  t.strictSame(buckets.slice(-2), [
    {
      start: '2026-11-20T00:00:00.000Z',
      ...figures({ accepted: 2, delivered: 2, clicked: 1 }, { ...ARRIVED, click_rate: 0.5 })
    },
    {
      start: '2026-11-21T00:00:00.000Z',
      ...figures({ accepted: 4, delivered: 3, clicked: 1 }, { ...ARRIVED, click_rate: 0.333333 })
    }
  ])
  t.strictSame(totals, figures({ accepted: 6, delivered: 5, clicked: 2 }, { ...ARRIVED, click_rate: 0.4 }))
})

t.test('hours and months; from and to are widened to whole ones', async t => {
  const hours = await body('?interval=hour')
  t.equal(hours.buckets.length, 24)
  t.strictSame([hours.from, hours.to], ['2026-11-20T13:00:00.000Z', '2026-11-21T13:00:00.000Z'])
  t.strictSame(accepted(hours.buckets), [['2026-11-21T09:00:00.000Z', 1], ['2026-11-21T11:00:00.000Z', 3]])
  const some = await body('?interval=hour&from=2026-11-21T09:59:00%2B01:00&to=2026-11-21T09:00:01Z')
  t.strictSame([some.from, some.to, some.buckets.length], ['2026-11-21T08:00:00.000Z', '2026-11-21T10:00:00.000Z', 2])
  const exactly = await body('?interval=hour&from=2026-11-21T09:00:00Z&to=2026-11-21T10:00:00Z')
  t.strictSame(accepted(exactly.buckets), [['2026-11-21T09:00:00.000Z', 1]])
  t.equal(exactly.buckets.length, 1, 'an end that is the beginning of a bucket is not widened')
  const months = await body('?interval=month')
  t.equal(months.buckets.length, 12)
  t.strictSame([months.from, months.buckets.at(-1).start, months.to], [
    '2025-12-01T00:00:00.000Z',
    '2026-11-01T00:00:00.000Z',
    '2026-12-01T00:00:00.000Z'
  ])
  t.equal(months.totals.accepted, 6)
})

t.test('filters, and what each name comes to', async t => {
  const table: Array<[string, number]> = [
    ['domain=example.com', 5],
    ['domain=SHOP.example', 1],
    ['domain=none.example', 0],
    ['tag=orders', 3],
    ['tag=eu', 2],
    ['tag=Orders', 0],
    ['tag=orders&domain=shop.example', 1],
    ['destination=one.example', 5],
    ['destination=two.example', 1],
    ['to=2026-11-21T00:00:00Z', 2],
    ['from=2026-11-21T00:00:00Z', 4]
  ]
  for (const [query, count] of table) t.equal((await body(`?${query}`)).totals.accepted, count, query)
  const names = async (query: string) =>
    (await body(`?${query}`)).groups.map(({ name, accepted, delivered }: any) => [name, accepted, delivered])
  t.strictSame(await names('group_by=domain'), [['example.com', 5, 4], ['shop.example', 1, 1]])
  t.strictSame(await names('group_by=tag'), [['orders', 3, 3], ['eu', 2, 2]])
  t.strictSame(await names('group_by=tag&domain=shop.example'), [['orders', 1, 1]])
  t.strictSame(await names('group_by=destination'), [['one.example', 5, 4], ['two.example', 1, 1]])
  t.strictSame((await body('?group_by=destination')).totals, (await body()).totals)
})

t.test('what makes no sense is refused, all of it at once', async t => {
  const refused = async (query: string) => {
    const answer = await get(`?${query}`)
    t.equal(answer.status, 422, query)
    return (answer.body.details ?? []).map(({ field, code }: { field: string, code: string }) => `${field} ${code}`)
      .sort()
  }
  t.strictSame(await refused('interval=week'), ['interval invalid_value'])
  t.strictSame(await refused('from=yesterday&to=2026-02-30T00:00:00Z&domain=%40'), [
    'domain invalid_domain',
    'from invalid_value',
    'to invalid_value'
  ])
  t.strictSame(await refused('from=1969-12-31T23:59:59Z'), ['from invalid_value'])
  t.strictSame(await refused('from=2026-11-21T00:00:00Z&to=2026-11-20T00:00:00Z'), ['from invalid_value'])
  t.strictSame(await refused('interval=hour&from=2026-10-01T00:00:00Z'), ['from too_many_buckets'])
  for (
    const query of [
      'destination=a.example&domain=b.example',
      'destination=a.example&tag=x',
      'destination=a.example&group_by=domain',
      'tag=x&group_by=destination',
      'domain=a.example&group_by=destination'
    ]
  ) {
    t.strictSame(await refused(query), ['destination not_combinable'], query)
  }
  t.match(
    (await get('?destination=a.example&tag=x')).body.details[0].message,
    /must not be combined with domain or tag/
  )
  t.strictSame(await refused('tag=%00'), ['tag invalid_characters'])
  t.strictSame(await refused('tags=x'), ['tags unknown_field'])
  t.equal((await body('?interval=hour&from=2026-10-21T13:00:00Z')).buckets.length, 744)
})

t.test('closed months are told from what was closed; those without are counted', async t => {
  const counts = { ...NOTHING, accepted: 1000, delivered: 900, bounced: 100 }
  const domains = [{ domain: 'example.com', counts }, {
    domain: 'shop.example',
    counts: { ...NOTHING, accepted: 10, delivered: 10 }
  }]
  await closeMonth(factLog, FIRST_ACCOUNT, { month: '2024-02', domains })
  // One that is counted as well: what was closed holds.
  await mail({ at: '2026-09-10T00:00:00Z', to: ['x@one.example'], tags: ['orders'] })
  await closeMonth(factLog, FIRST_ACCOUNT, {
    month: '2026-09',
    domains: [{ domain: 'example.com', counts: { ...NOTHING, accepted: 7 } }]
  })
  const span = 'from=2024-01-01T00:00:00Z'
  const months = await body(`?interval=month&${span}`)
  t.strictSame(accepted(months.buckets), [['2024-02-01T00:00:00.000Z', 1010], ['2026-09-01T00:00:00.000Z', 7], [
    '2026-11-01T00:00:00.000Z',
    6
  ]])
  t.match(months.buckets[1], { delivery_rate: 0.90099, bounce_rate: 0.09901 })
  t.equal(months.totals.accepted, 1023)
  t.strictSame(accepted((await body(`?interval=month&${span}&domain=shop.example`)).buckets), [[
    '2024-02-01T00:00:00.000Z',
    10
  ], ['2026-11-01T00:00:00.000Z', 1]])
  const { groups } = await body(`?interval=month&${span}&group_by=domain`)
  t.strictSame(groups.map(({ name, accepted }: any) => [name, accepted]), [['example.com', 1012], ['shop.example', 11]])
  t.strictSame(accepted((await body(`?interval=month&${span}&tag=orders`)).buckets), [['2026-09-01T00:00:00.000Z', 1], [
    '2026-11-01T00:00:00.000Z',
    3
  ]], 'tags are known by the hour only')
  t.strictSame(accepted((await body('?from=2026-09-10T00:00:00Z&to=2026-09-11T00:00:00Z')).buckets), [[
    '2026-09-10T00:00:00.000Z',
    1
  ]], 'and so are days')
})

t.test('an account sees its own, and a key needs the scope', async t => {
  const key = await app.newAccountKey()
  t.equal((await get('', { key })).body.totals.accepted, 0)
  t.equal((await get('?interval=month', { key })).body.totals.accepted, 0)
  const { secret } = await app.newKey({ scopes: ['emails:send'] })
  t.equal((await get('', { key: secret })).status, 403)
  t.equal((await get('', { key: null })).status, 401)
})

t.test('what is sent is counted', async t => {
  const before = (await body()).totals
  const { body: { id } } = await app.send({ to: ['ada@example.com', 'bob@example.com'], tags: ['counted'] })
  await app.settled(id, 'delivered')
  const counted = async () => (await body('?tag=counted')).totals
  const endMs = Date.now() + 20_000
  while ((await counted()).accepted < 2 && Date.now() < endMs) await new Promise(resolve => setTimeout(resolve, 50))
  t.match(await counted(), { accepted: 2, delivered: 2, delivery_rate: 1 })
  t.equal((await body()).totals.delivered, before.delivered + 2)
})
