import t from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import {
  eventIn,
  GAPS_S,
  isFor,
  isGone,
  isSuccess,
  pausedMs,
  RETRY_MS_MAX,
  retryAfterMs,
  retryAtMs,
  giveUpReason,
  pendingAfter,
  type Pending
} from '#streams/delivery/decide.ts'
import type { BounceChoice, WebhookMode } from '#streams/webhook/facts.ts'
import { webhookEntry } from '../support/entries.ts'

const FIRST_MS = Date.parse('2026-01-01T00:00:00.000Z')
const HOUR_MS = 3_600_000
const none = () => 0
const almostOne = () => 0.999_999

/** The gaps a receiver sees that always fails at once, in seconds. */
function gapsSeen (random: () => number, retryAfterMs: number | null = null): { gapsS: number[], endS: number } {
  const gapsS: number[] = []
  let nowMs = FIRST_MS
  for (let attempts = 1;; attempts++) {
    const nextMs = retryAtMs({ attempts, firstMs: FIRST_MS, nowMs, retryAfterMs, random })
    if (nextMs === null) return { gapsS, endS: (nowMs - FIRST_MS) / 1000 }
    gapsS.push((nextMs - nowMs) / 1000)
    nowMs = nextMs
  }
}

t.test('6.4 the gaps are 5 s, 30 s, 2 m, 10 m, 30 m, 1 h, 2 h, 4 h, 6 h, 10 h: 23 h 42 m 35 s in all', async t => {
  const { gapsS, endS } = gapsSeen(none)
  t.same(gapsS, [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 21_600, 36_000])
  t.equal(endS, 23 * 3600 + 42 * 60 + 35)
})

t.test('jitter takes up to a tenth, and adds nothing', async t => {
  const { gapsS } = gapsSeen(almostOne)
  for (const [i, gapS] of gapsS.entries()) t.ok(gapS >= 0.9 * GAPS_S[i]! && gapS < 0.901 * GAPS_S[i]!, `${gapS}`)
})

t.test('Retry-After lengthens a gap, never shortens it', async t => {
  const at = (retryAfterMs: number) =>
    retryAtMs({ attempts: 2, firstMs: FIRST_MS, nowMs: FIRST_MS, retryAfterMs, random: none })
  t.equal(at(10_000), FIRST_MS + 30_000)
  t.equal(at(45_000), FIRST_MS + 45_000)
})

t.test('Retry-After is seconds or one of the three HTTP dates; nonsense counts as silence', async t => {
  const nowMs = Date.parse('2026-01-01T00:00:00.400Z')
  const of = (text: string | null) => retryAfterMs(text, nowMs)
  t.same(['0', '120', '0007', '86400000'].map(of), [0, 120_000, 7000, 86_400_000_000])
  t.ok(of('9'.repeat(400))! >= 24 * HOUR_MS, 'however many')
  for (
    const date of ['Thu, 01 Jan 2026 00:01:00 GMT', 'Thursday, 01-Jan-26 00:01:00 GMT', 'Thu Jan  1 00:01:00 2026']
  ) t.equal(of(date), 59_600, date)
  t.equal(of('Thu, 01 Jan 2020 00:00:00 GMT'), 0, 'over')
  for (
    const text of [
      null,
      '',
      '-1',
      '-120',
      '1.5',
      '1e3',
      '0x10',
      '5 s',
      'soon',
      '2026-01-01T00:01:00Z',
      'Thursday',
      'Thu, 99 Jan 2026 00:00:00 GMT',
      'NaN',
      'Infinity'
    ]
  ) t.equal(of(text), null, String(text))
})

t.test('6.4 no Retry-After and no slow receiver makes it longer than 24 hours', async t => {
  for (const retryAfterMs of [null, 1000, HOUR_MS, 5 * HOUR_MS, 23 * HOUR_MS, 1e12]) {
    const { gapsS, endS } = gapsSeen(none, retryAfterMs)
    t.ok(endS <= 24 * 3600, `${retryAfterMs}: ${endS} s`)
    t.ok(gapsS.length <= 10)
  }
  t.equal(gapsSeen(none, 1e12).endS, 24 * 3600, 'a last try at the very end')
  t.equal(
    retryAtMs({ attempts: 3, firstMs: FIRST_MS, nowMs: FIRST_MS + RETRY_MS_MAX, retryAfterMs: null, random: none }),
    null
  )
})

t.test('2xx is success, 410 is the end, all else failure', async t => {
  t.same([200, 201, 204, 299].map(isSuccess), [true, true, true, true])
  t.same([null, 100, 199, 300, 301, 304, 400, 410, 429, 500, 503].filter(status => isSuccess(status)), [])
  t.same([null, 404, 410, 411].filter(status => isGone(status)), [410])
})

const webhook = webhookEntry()
const pending: Pending = {
  owed: {
    delivery: 'whd_1',
    webhook: 'wh_1',
    replay: null,
    events: [{ id: 'ev_1', type: 'email.delivered', seq: 7, email: 'em_1' }],
    batch: false
  },
  account: 'acc_1',
  correlation: 'req_1',
  causation: 'ev_2',
  attempts: 0,
  firstAttemptAt: null,
  dueAt: '2026-01-01T00:00:00.000Z'
}

t.test('a delivery ends with its endpoint, or when a retry would come after 24 hours', async t => {
  t.equal(giveUpReason(pending, webhook, FIRST_MS), null)
  t.equal(giveUpReason(pending, undefined, FIRST_MS), 'endpoint_deleted')
  t.equal(giveUpReason(pending, { ...webhook, account: 'acc_2' }, FIRST_MS), 'endpoint_deleted')
  t.equal(giveUpReason(pending, { ...webhook, disabled: 'gone' }, FIRST_MS), 'endpoint_disabled')
  const retry = { ...pending, attempts: 3, firstAttemptAt: '2026-01-01T00:00:00.000Z' }
  t.equal(giveUpReason(retry, webhook, FIRST_MS + RETRY_MS_MAX + 1000), null, 'a schedule that fired late')
  t.equal(giveUpReason(retry, webhook, FIRST_MS + RETRY_MS_MAX + 61_000), 'expired')
  t.equal(
    giveUpReason({ ...retry, attempts: 0 }, webhook, FIRST_MS + RETRY_MS_MAX + 61_000),
    null,
    'never tried: it was we who were late'
  )
})

t.test('a pause stops the 24 hours of a delivery, for 24 hours at most', async t => {
  const at = (hours: number) => FIRST_MS + hours * HOUR_MS
  const retry = { ...pending, attempts: 3, firstAttemptAt: '2026-01-01T00:00:00.000Z' }
  const resumed = { ...webhook, pauses: [{ fromMs: at(-3), toMs: at(-1) }, { fromMs: at(2), toMs: at(5) }] }
  t.equal(pausedMs(resumed, at(0), at(6)), 3 * HOUR_MS, 'a pause before it does not count')
  t.equal(pausedMs(resumed, at(4), at(6)), HOUR_MS)
  t.equal(giveUpReason(retry, resumed, at(26.9)), null)
  t.equal(giveUpReason(retry, resumed, at(27.1)), 'expired')
  const paused = { ...webhook, paused: true, pauses: [{ fromMs: at(2), toMs: null }] }
  t.equal(giveUpReason(retry, paused, at(47.9)), null)
  t.equal(giveUpReason(retry, paused, at(48.1)), 'expired', 'after 24 hours of pause they do')
  t.equal(giveUpReason(pending, paused, at(47.9)), null)
  t.equal(giveUpReason(pending, paused, at(48.1)), 'expired', 'also what was never tried')
  t.equal(giveUpReason(pending, { ...paused, paused: false }, at(48.1)), null, 'but not once the pause is over')
})

const fact = (type: string, data: Record<string, unknown> = {}) =>
  ({
    id: 'ev_1',
    type,
    version: 1,
    time: '2026-01-01T00:00:00.000Z',
    account: 'acc_1',
    causation: null,
    correlation: 'req_1',
    data: { email: 'em_1', event: '{}', ...data }
  }) as unknown as AnyFact

t.test('6.1 the events: delivered, bounced (also the first deferral and the final failure), and no others', async t => {
  t.equal(eventIn(fact('email.delivered'))?.type, 'email.delivered')
  t.equal(eventIn(fact('email.bounced'))?.type, 'email.bounced')
  t.equal(eventIn(fact('email.failed'))?.type, 'email.bounced')
  t.equal(eventIn(fact('email.deferred', { first: true }))?.type, 'email.bounced')
  t.equal(eventIn(fact('email.deferred', { first: true }))?.isLaterDeferral, false)
  t.equal(eventIn(fact('email.deferred', { first: false }))?.isLaterDeferral, true, 'for those who ask for it')
  t.equal(eventIn(fact('email.attempted', { event: undefined })), null)
  t.equal(eventIn(fact('email.in_doubt', { event: undefined })), null)
})

t.test('an event is for the endpoints of its account that listen to its type, from their start on', async t => {
  const delivered = fact('email.delivered')
  const event = { type: 'email.delivered', isLaterDeferral: false, body: '{"data":{}}' } as const
  t.equal(isFor(webhook, delivered, event), true)
  t.equal(isFor({ ...webhook, account: 'acc_2' }, delivered, event), false)
  t.equal(isFor(webhook, delivered, { ...event, type: 'email.bounced' }), false)
  t.equal(isFor(webhook, delivered, { ...event, isLaterDeferral: true }), false)
  t.equal(isFor({ ...webhook, everyDeferral: true }, delivered, { ...event, isLaterDeferral: true }), true)
  t.equal(isFor({ ...webhook, disabled: 'gone' }, delivered, event), false)
  t.equal(isFor({ ...webhook, startAt: '2026-01-01T00:00:00.001Z' }, delivered, event), false)
  const tried = { ...event, body: '{"data":{"metadata":{"test":true},"test":true}}' }
  const heard = (mode: WebhookMode) => [event, tried].map(one => isFor({ ...webhook, mode }, delivered, one))
  t.same([heard('both'), heard('live'), heard('test')], [[true, true], [true, false], [false, true]])
  const tagged = { ...event, body: '{"data":{"metadata":{"test":true}}}' }
  t.equal(isFor({ ...webhook, mode: 'live' }, delivered, tagged), true, 'a field of its sender is no mark')
})

t.test('of its bounces an endpoint gets all, those that end a mail, or the deferrals', async t => {
  const event = { type: 'email.bounced', isLaterDeferral: false, body: '{"data":{}}' } as const
  const told = (bounces: BounceChoice) =>
    (['email.deferred', 'email.bounced', 'email.failed'] as const).map(type =>
      isFor({ ...webhook, events: ['email.bounced'], bounces }, fact(type), event)
    )
  t.same([told('all'), told('final'), told('deferred')], [[true, true, true], [false, true, true], [
    true,
    false,
    false
  ]])
  const opened = { ...event, type: 'email.opened' } as const
  t.equal(isFor({ ...webhook, events: ['email.opened'], bounces: 'deferred' }, fact('email.opened'), opened), true)
})

t.test('outcomes alone tell what is pending', async t => {
  const { owed } = pending
  const requested = pendingAfter(fact('delivery.requested', owed))
  t.match(requested, { owed, attempts: 0, firstAttemptAt: null, account: 'acc_1', causation: 'ev_1' })
  const firstAttemptAt = '2026-01-01T00:00:00.000Z'
  const nextAttemptAt = '2026-01-01T00:00:05.000Z'
  t.match(pendingAfter(fact('delivery.moved', { ...owed, attempts: 2, firstAttemptAt, nextAttemptAt })), {
    owed,
    attempts: 2,
    firstAttemptAt,
    dueAt: nextAttemptAt
  })
  t.equal(
    pendingAfter(fact('delivery.requested', { ...owed, test: '{}' }))?.owed.test,
    '{}',
    'the bytes of a test event ride along'
  )
  t.match(pendingAfter(fact('delivery.attempted', { ...owed, attempt: 3, firstAttemptAt, nextAttemptAt })), {
    owed,
    attempts: 3,
    firstAttemptAt,
    dueAt: nextAttemptAt
  })
  t.equal(pendingAfter(fact('delivery.attempted', { ...owed, attempt: 3, firstAttemptAt, nextAttemptAt: null })), null)
  t.equal(pendingAfter(fact('delivery.failed', owed)), null)
  t.equal(pendingAfter(fact('email.delivered')), undefined)
})
