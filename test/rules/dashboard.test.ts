import t from 'tap'
import { NOTHING } from '#projections/counts.ts'
import type { DeliverySummary } from '#projections/deliveries/queries.ts'
import { figuresOf } from '#projections/stats/records.ts'
import { BOUNCES, COMPLAINTS, rateState, lagState } from '#src/operations/thresholds.ts'
import type { Concern } from '#src/servers/dashboard/pages/concerns.ts'
import { zonesOf } from '#src/servers/dashboard/pages/domain-records.ts'
import { shown } from '#src/servers/dashboard/pages/overview-concerns.ts'
import { deliveryBadge } from '#src/servers/dashboard/pages/webhook-format.ts'
import { PERIODS, stretchOf, figuresOfPeriod } from '#src/servers/dashboard/pages/overview-figures.ts'

const HOUR_MS = 3_600_000
const concern = (what: string, tone: Concern['tone']): Concern => ({ tone, what, why: '', to: '', step: '' })

t.test('of many concerns of a kind the worst are named, and the rest is as bad as the worst of it', async t => {
  const pending = Array.from({ length: 6 }, (_, i) => concern(`pending ${i}`, 'warn'))
  const some = shown([...pending, concern('failed', 'bad')], '/to', 'domain')
  t.strictSame(some.map(({ what }) => what), [
    'failed',
    'pending 0',
    'pending 1',
    'pending 2',
    'pending 3',
    '2 more domains'
  ])
  t.match(some.at(-1), { tone: 'warn', to: '/to', step: 'Show all domains' })
  const bad = Array.from({ length: 6 }, (_, i) => concern(`failed ${i}`, 'bad'))
  t.match(shown(bad, '/to', 'domain').at(-1), { tone: 'bad', what: '1 more domain' })
  t.equal(shown(pending.slice(1), '/to', 'domain').length, 5)
})

t.test('a rate counts from a hundred mails on, and complaints from the second one on', async t => {
  const bounces = [[6, 99], [5, 100], [6, 100], [3, 100], [2, 100], [0, 0]].map(([part, of]) =>
    rateState(part!, of!, BOUNCES)
  )
  t.strictSame(bounces, ['fine', 'near', 'over', 'near', 'fine', 'fine'])
  const complaints = [[1, 100], [2, 100], [2, 2000], [2, 4000], [9, 99]].map(([part, of]) =>
    rateState(part!, of!, COMPLAINTS)
  )
  t.strictSame(complaints, ['fine', 'over', 'near', 'fine', 'fine'])
  t.strictSame(
    [[0, 60], [9, 1], [9, 2], [9, 14], [1, 15]].map(([facts, seconds]) =>
      lagState({ facts: facts!, seconds: seconds! })
    ),
    ['up to date', 'up to date', 'busy', 'busy', 'behind']
  )
})

t.test('a domain may lie in its own zone, or in that of the name that was registered', async t => {
  t.strictSame(zonesOf('example.com'), ['example.com'])
  t.strictSame(zonesOf('mail.example.com'), ['example.com', 'mail.example.com'])
  t.strictSame(zonesOf('a.b.example.com'), ['example.com', 'a.b.example.com'])
  t.strictSame(zonesOf('example.co.uk'), ['example.co.uk'])
  t.strictSame(zonesOf('mail.example.co.uk'), ['example.co.uk', 'mail.example.co.uk'])
  t.strictSame(zonesOf('mail.example.de'), ['example.de', 'mail.example.de'])
})

type Bucket = Parameters<typeof figuresOfPeriod>[1][number]
const AT = [
  '2026-11-22T12:20:00.000Z',
  '2026-12-01T00:00:00.000Z',
  '2027-01-01T00:05:00.000Z',
  '2028-02-29T23:59:59.999Z'
]

/** What the API would answer, had each bucket come to a thousand, and the last one to its share of that. */
function evenly (period: typeof PERIODS[number], nowMs: number): Bucket[] {
  const { from, to } = stretchOf(period, nowMs)
  const buckets: Bucket[] = []
  for (let startMs = Date.parse(from); startMs < Date.parse(to);) {
    const start = new Date(startMs)
    const endMs = period.interval === 'month'
      ? start.setUTCMonth(start.getUTCMonth() + 1)
      : startMs + (period.interval === 'hour' ? HOUR_MS : 24 * HOUR_MS)
    const accepted = Math.round(1000 * Math.min(1, (nowMs - startMs) / (endMs - startMs)))
    buckets.push({ start: new Date(startMs).toISOString(), ...figuresOf({ ...NOTHING, accepted }) })
    startMs = endMs
  }
  return buckets
}

t.test('mail at an even pace neither rises nor falls against the period before, whatever the time', async t => {
  for (const at of AT) {
    const nowMs = Date.parse(at)
    for (const period of PERIODS) {
      const { now, before, points } = figuresOfPeriod(period, evenly(period, nowMs), nowMs)
      t.equal(now.accepted, before.accepted, `${period.name} at ${at}`)
      t.equal(points.length, period.points, `${period.name} at ${at}`)
      t.ok(now.accepted >= 1000 * period.joined * (period.points - 1), `${period.name} at ${at}`)
    }
  }
})

t.test('points of a chart stay where they are while time passes', async t => {
  const startsAt = (name: string, at: string) => {
    const period = PERIODS.find(one => one.name === name)!
    return figuresOfPeriod(period, evenly(period, Date.parse(at)), Date.parse(at)).points.map(({ startMs }) =>
      new Date(startMs).toISOString()
    )
  }
  const week = startsAt('7d', '2026-11-22T12:20:00Z')
  t.strictSame(startsAt('7d', '2026-11-22T17:59:59Z'), week)
  t.strictSame([week[0], week.at(-1)], ['2026-11-15T18:00:00.000Z', '2026-11-22T12:00:00.000Z'])
  t.strictSame(startsAt('7d', '2026-11-22T18:00:00Z').slice(0, -1), week.slice(1))
  t.strictSame(startsAt('12m', '2026-11-22T18:00:00Z').at(0), '2025-12-01T00:00:00.000Z')
})

t.test('what an untried delivery waits for is said after half a minute, and why one failed untried', async t => {
  const nowMs = Date.parse('2026-11-22T12:00:00.000Z')
  const fails = { paused: false, failingSince: '2026-11-22T11:00:00.000Z' }
  const hint = (
    webhook: Parameters<typeof deliveryBadge>[1],
    { ageS = 31, state = 'pending', reason = null }: {
      ageS?: number
      state?: DeliverySummary['state']
      reason?: DeliverySummary['reason']
    } = {}
  ) =>
    /class="hint">([^<]*)</.exec(
      deliveryBadge({ state, reason, requested_at: new Date(nowMs - ageS * 1000) }, webhook, nowMs).text
    )?.[1] ?? null
  t.equal(hint(fails), 'waiting: endpoint down')
  t.equal(hint({ ...fails, failingSince: null }), 'waiting: endpoint busy or down', 'it is too early to say which')
  t.equal(hint({ ...fails, paused: true }), 'waiting: endpoint paused')
  t.equal(hint(fails, { ageS: 29 }), null, 'it may be tried at any moment')
  t.equal(hint(fails, { state: 'retrying' }), null, 'it was tried, and shows when it is again')
  t.equal(hint(fails, { state: 'failed', reason: 'expired' }), 'the time for retries is over')
  t.equal(hint(null), null, 'an endpoint that is deleted is waited for no more')
})
