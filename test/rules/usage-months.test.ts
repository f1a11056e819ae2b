import t from 'tap'
import { monthAfter, monthOf, monthStartMs, settledMonths } from '#streams/usage/facts.ts'

const ms = (time: string) => Date.parse(time)

t.test('a month is settled from the fourth day after it on', async t => {
  const given = { horizonMs: -Infinity, bornMs: ms('2026-10-20T00:00:00Z') }
  t.strictSame(settledMonths({ ...given, nowMs: ms('2026-11-03T23:59:59.999Z') }), [])
  t.strictSame(settledMonths({ ...given, nowMs: ms('2026-11-04T00:00:00Z') }), ['2026-10'])
  t.strictSame(settledMonths({ ...given, nowMs: ms('2027-01-05T00:00:00Z') }), ['2026-10', '2026-11', '2026-12'])
})

t.test('what began before the horizon is no longer known in full', async t => {
  const given = { nowMs: ms('2027-01-05T00:00:00Z'), bornMs: ms('2020-01-01T00:00:00Z') }
  t.strictSame(settledMonths({ ...given, horizonMs: ms('2026-11-01T00:00:00Z') }), ['2026-11', '2026-12'])
  t.strictSame(settledMonths({ ...given, horizonMs: ms('2026-11-01T00:00:00.001Z') }), ['2026-12'])
  t.strictSame(settledMonths({ ...given, horizonMs: ms('2026-12-20T00:00:00Z') }), [])
})

t.test('months and their beginnings', async t => {
  t.equal(monthOf(ms('2026-12-31T23:59:59.999Z')), '2026-12')
  t.equal(monthAfter('2026-12'), '2027-01')
  t.equal(monthStartMs('2026-03'), ms('2026-03-01T00:00:00Z'))
})
