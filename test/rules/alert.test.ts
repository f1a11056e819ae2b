import t from 'tap'
import { end, dutyOf, isRaised, PATIENCE_MS, raise, tell, claim, type Condition } from '#streams/alert/decide.ts'
import { ALERT_KINDS, type AlertState } from '#streams/alert/facts.ts'
import type { ConsumerStatus } from '#src/nats/status.ts'
import { lookAround, type AlertSources } from '#src/operations/alerts/conditions.ts'
import { bodyOf, mailOf } from '#src/operations/alerts/teller.ts'
import type { RateReport } from '#src/operations/operations.ts'
import { accountEntry, webhookEntry } from '../support/entries.ts'

const failing: Condition = {
  alert: 'alr_1',
  kind: 'endpoint_failing',
  about: 'wh_1',
  what: 'Endpoint wh_1 is failing',
  why: 'Why.',
  path: '/dashboard/webhooks/wh_1'
}
const nowMs = Date.parse('2026-11-23T10:00:00.000Z')
const ours = { nowMs, id: 'ev_1', teller: 'w_1', channels: ['mail' as const, 'webhook' as const] }
const later = (ms: number, teller = 'w_1') => ({ ...ours, nowMs: nowMs + ms, id: 'ev_2', teller })
const stateOf = (decided: ReturnType<typeof raise>): AlertState => decided!.data
const raised = stateOf(raise(null, failing, ours))

t.test('an alert is raised once, and once more when it is of another kind or was over', async t => {
  t.ok(isRaised(raised))
  t.equal(raise(raised, { ...failing, why: 'Another reason.' }, later(1)), null)
  const disabled = stateOf(raise(raised, { ...failing, kind: 'endpoint_disabled' }, later(1)))
  t.match(disabled, { kind: 'endpoint_disabled', notice: 'ev_2', raisedAt: '2026-11-23T10:00:00.001Z' })
  const ended = stateOf(end(raised, later(1000)))
  t.notOk(isRaised(ended))
  t.match(raise(ended, failing, { ...later(2000), id: 'ev_3' }), { type: { name: 'alert.raised' } })
})

t.test('who was never told that it began is not told that it ended', async t => {
  t.strictSame(stateOf(end(raised, later(1))).channels, [])
  const half = stateOf(tell(raised, ['webhook']))
  t.strictSame(half.channels, ['mail'])
  t.strictSame(stateOf(end(half, later(1))).channels, ['webhook'])
  t.match(stateOf(end(stateOf(tell(half, ['mail'])), later(1))), { channels: ['mail', 'webhook'], notice: 'ev_2' })
})

t.test('one process tells at a time; another does when that one has not in its time', async t => {
  t.equal(dutyOf(raised, ours), 'tell')
  t.equal(dutyOf(raised, later(0, 'w_2')), 'nothing')
  t.equal(dutyOf(raised, later(119_999, 'w_2')), 'nothing')
  t.equal(dutyOf(raised, later(120_000, 'w_2')), 'claim')
  t.equal(dutyOf(raised, later(90_000)), 'claim', 'and none begins when its time is nearly over')
  const claimed = stateOf(claim(raised, later(120_000, 'w_2')))
  t.equal(claimed.notice, raised.notice, 'the notice is the same')
  t.equal(dutyOf(claimed, later(120_000, 'w_2')), 'tell')
  t.equal(dutyOf(claimed, later(120_000)), 'nothing')
})

t.test('a notice that cannot be given for a day is given up; one that is given needs nothing', async t => {
  t.equal(dutyOf(raised, later(24 * 3_600_000 + 1, 'w_2')), 'give up')
  t.equal(dutyOf(stateOf(tell(raised, ['mail', 'webhook'])), later(1)), 'nothing')
})

const rates = (part: Partial<RateReport>): RateReport => ({
  settled: 0,
  bounced: 0,
  bounceRate: null,
  delivered: 0,
  complained: 0,
  complaintRate: null,
  ...part
})
const consumer = (name: string, given: Partial<ConsumerStatus>): ConsumerStatus => ({
  stream: 'REQUESTS',
  name,
  pending: 0,
  ackPending: 0,
  ackPendingMax: 4000,
  redelivered: 0,
  waiting: 1,
  ...given
})
const projection = (name: string, facts: number, seconds: number, deadLetters: number) => ({
  name,
  version: 1,
  lag: { facts, seconds },
  status: { positions: {}, deadLetters, bytes: 0, createdAt: '' },
  isRebuiltElsewhere: false,
  factsMax: null,
  rebuild: null
})

t.test('each thing that an operator must know of is a condition, and nothing else is', async t => {
  const endpoints = [
    webhookEntry({ id: 'wh_1', url: 'https://a.example/secret-path', failingSince: '2026-11-23T09:00:00.000Z' }),
    webhookEntry({ id: 'wh_2', url: 'https://b.example/', disabled: 'gone' }),
    webhookEntry({ id: 'wh_3' })
  ]
  const suspension = {
    reason: 'bounces' as const,
    note: '12 of 100',
    since: '2026-11-23T09:00:00.000Z',
    automatic: true
  }
  const accounts = new Map([
    ['acc_1', accountEntry('acc_1', { ...suspension, automatic: false })],
    ['acc_2', accountEntry('acc_2', suspension)],
    ['acc_3', accountEntry('acc_3', null)]
  ])
  const week = rates({
    settled: 200,
    bounced: 12,
    bounceRate: 0.06,
    delivered: 188,
    complained: 2,
    complaintRate: 0.0106
  })
  const sources: AlertSources = {
    reputation: async () => ({
      value: [{ account: 'acc_1', domain: 'shop.example', day: rates({}), week }],
      problems: []
    }),
    projectionReports: async () => ({
      value: [projection('emails', 900, 60, 0), projection('stats', 0, 0, 3), projection('usage', 5, 3, 0)],
      problems: []
    }),
    consumers: async () => ({
      value: [
        consumer('sender', { pending: 9, waiting: 0 }),
        consumer('replays', { pending: 5000 }),
        consumer('inbound', { pending: 5 })
      ],
      problems: []
    })
  }
  const look = await lookAround({ accounts, webhooks: new Map(endpoints.map(entry => [entry.id, entry])) }, sources)
  t.strictSame(look.conditions.map(({ kind, about }) => `${kind} ${about}`), [
    'endpoint_failing wh_1',
    'endpoint_disabled wh_2',
    'account_suspended acc_2',
    'bounce_rate shop.example',
    'complaint_rate shop.example',
    'projection_lag emails',
    'dead_letters stats',
    'consumer_stalled sender',
    'consumer_lag replays'
  ])
  t.strictSame([...new Set(look.conditions.map(({ kind }) => kind))].sort(), [...ALERT_KINDS].sort(), 'every kind')
  t.equal(new Set(look.conditions.map(({ alert }) => alert)).size, look.conditions.length)
  t.notMatch(JSON.stringify(look.conditions), 'secret-path')
  t.ok(look.conditions.every(({ kind }) => look.isKnown({ kind, about: 'emails' })))
})

t.test('what a server that is away would have told is not known, and so not over', async t => {
  const problems = ['PostgreSQL does not answer.']
  const look = await lookAround({ accounts: new Map(), webhooks: new Map() }, {
    reputation: async () => ({ value: [], problems }),
    projectionReports: async () => ({
      value: [{ ...projection('emails', 0, 0, 0), lag: null, status: null }],
      problems
    }),
    consumers: async () => ({ value: [], problems: ['NATS does not answer.'] })
  })
  t.strictSame(look.conditions, [])
  const known = ALERT_KINDS.filter(kind => look.isKnown({ kind, about: 'emails' }))
  t.strictSame(known, ['endpoint_failing', 'endpoint_disabled', 'account_suspended'], 'these are in the log')
})

t.test('a figure that goes up and down must do so for a while', async t => {
  t.ok(PATIENCE_MS.projection_lag.holdsMs >= 60_000)
  t.ok(PATIENCE_MS.bounce_rate.overMs >= 60_000)
  t.strictSame(PATIENCE_MS.endpoint_disabled, { holdsMs: 0, overMs: 0 })
})

t.test('a notice says what, why, since when and where to look', async t => {
  t.strictSame(mailOf(raised, 'https://mail.example.com'), {
    subject: '[Jetpost] Endpoint wh_1 is failing',
    text: 'Endpoint wh_1 is failing.\n\nWhy.\n\nSince 2026-11-23T10:00:00.000Z.\n\n' +
      'https://mail.example.com/dashboard/webhooks/wh_1'
  })
  const ended = stateOf(end(raised, later(60_000)))
  t.match(mailOf(ended, ''), { subject: '[Jetpost] Over: Endpoint wh_1 is failing', text: /ended 2026-11-23T10:01:00/ })
  t.strictSame(JSON.parse(bodyOf(ended, 'https://mail.example.com').toString()), {
    id: 'ev_2',
    type: 'alert.ended',
    created_at: '2026-11-23T10:01:00.000Z',
    data: {
      alert_id: 'alr_1',
      kind: 'endpoint_failing',
      about: 'wh_1',
      what: 'Endpoint wh_1 is failing',
      why: 'Why.',
      url: 'https://mail.example.com/dashboard/webhooks/wh_1',
      raised_at: '2026-11-23T10:00:00.000Z',
      ended_at: '2026-11-23T10:01:00.000Z'
    }
  })
})
