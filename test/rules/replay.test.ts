import t from 'tap'
import { emptyDirectory, evolveDirectory, type WebhookEntry } from '#streams/directory.ts'
import { decodeFact, encodeFact, type AnyFact } from '#streams/catalog.ts'
import { eventIn } from '#streams/delivery/decide.ts'
import { groupsOf } from '#streams/groups.ts'
import {
  cancelFault,
  disabledFault,
  isOf,
  owedIn,
  pageSize,
  pauseMs,
  replayFault,
  stateOf,
  endReasonOf,
  nextTurnMs,
  waitsBefore,
  type ReplayWish
} from '#streams/replay/decide.ts'
import type { Replay, ReplayEnded, ReplayRequested } from '#streams/replay/facts.ts'

const NOW = Date.parse('2026-12-01T12:00:00.000Z')
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const envelope = { id: 'ev_one', version: 1, account: 'acc_one', causation: null, correlation: 'req_1' }

function webhookWith (changes: Partial<WebhookEntry> = {}): WebhookEntry {
  const directory = emptyDirectory()
  const settings = {
    url: 'https://example.com/',
    events: ['email.delivered' as const, 'email.bounced' as const],
    paused: false,
    concurrency: null,
    batch: null,
    everyDeferral: false,
    mode: 'both' as const
  }
  const data = { webhook: 'wh_one', ...settings, sealedSecret: 's', startAt: '2026-11-30T00:00:00.000Z' }
  evolveDirectory(directory, {
    fact: { ...envelope, type: 'webhook.created', time: '2026-11-30T00:00:00.000Z', data },
    seq: 1,
    subject: 'x'
  })
  return { ...directory.webhooks.get('wh_one')!, ...changes }
}

function replayWith (changes: Partial<Replay> = {}): Replay {
  return {
    replay: 'rpl_one',
    webhook: 'wh_one',
    what: 'window',
    from: '2026-11-20T00:00:00.000Z',
    to: '2026-11-21T00:00:00.000Z',
    through: 100,
    pace: 100,
    cursor: '',
    lastPage: 0,
    made: 0,
    ...changes
  }
}

const recipient = { email: 'em_one', n: 0, request: 1, to: 'a@example.net', sequence: 1, event: '{}' }
const transaction = { attempt: 1, host: 'mx.example.net', tls: null, via: 'mx' as const, ms: 1 }
const delivered = (time: string, changes: object = {}): AnyFact => ({
  ...envelope,
  type: 'email.delivered',
  time,
  data: { ...recipient, ...transaction, reply: { code: 250, enhanced: null, text: 'ok' } },
  ...changes
})
const deferred = (time: string, first: boolean): AnyFact => ({
  ...envelope,
  type: 'email.deferred',
  time,
  data: {
    ...recipient,
    ...transaction,
    stage: 'data',
    class: 'other',
    reply: null,
    error: 'x',
    nextAttemptAt: time,
    first
  }
})
const opened = (time: string): AnyFact =>
  decodeFact(
    encodeFact({
      ...envelope,
      version: 2,
      type: 'email.opened',
      time,
      data: { ...recipient, machine: false, client: null, first: true }
    })
  )

t.test("a window has the endpoint's events of then, from its first moment and before its last", async t => {
  const has = (fact: AnyFact, webhook = webhookWith(), replay = replayWith()) =>
    isOf(replay, webhook, fact, eventIn(fact)!)
  t.ok(has(delivered('2026-11-20T00:00:00.000Z')), 'also what was before the endpoint')
  t.ok(has(delivered('2026-11-20T23:59:59.999Z')))
  t.notOk(has(delivered('2026-11-19T23:59:59.999Z')))
  t.notOk(has(delivered('2026-11-21T00:00:00.000Z')))
  t.notOk(has(delivered('2026-11-20T12:00:00.000Z', { account: 'acc_other' })))
  t.notOk(has(delivered('2026-11-20T12:00:00.000Z'), webhookWith({ events: ['email.opened'] })), 'as it listens now')
  t.ok(has(deferred('2026-11-20T12:00:00.000Z', true)))
  t.notOk(has(deferred('2026-11-20T12:00:00.000Z', false)))
  t.ok(has(deferred('2026-11-20T12:00:00.000Z', false), webhookWith({ everyDeferral: true })))
})

t.test('a backfill ends where the fan-out goes on, whatever the clocks say', async t => {
  const backfill = replayWith({ what: 'backfill' })
  const late = delivered('2026-11-21T00:00:00.007Z')
  t.ok(isOf(backfill, webhookWith(), late, eventIn(late)!))
  const early = delivered('2026-11-19T00:00:00.000Z')
  t.notOk(isOf(backfill, webhookWith(), early, eventIn(early)!))
})

t.test('what cannot be replayed is refused', async t => {
  const fault = (wish: Partial<ReplayWish> = {}, running = 0) =>
    replayFault({ what: 'window', fromMs: NOW - HOUR_MS, toMs: NOW, pace: 100, ...wish }, {
      keptMs: 30 * DAY_MS,
      nowMs: NOW,
      running
    })?.code ?? null
  t.equal(fault(), null)
  t.equal(fault({ toMs: NOW + 1 }), 'invalid_to')
  t.equal(fault({ fromMs: NOW }), 'invalid_from')
  t.equal(fault({ fromMs: NOW - 30 * DAY_MS }), null)
  t.equal(fault({ fromMs: NOW - 30 * DAY_MS - 1 }), 'invalid_from')
  for (const pace of [1, 1000]) t.equal(fault({ pace }), null)
  for (const pace of [0, 1001, 0.5, NaN]) t.equal(fault({ pace }), 'invalid_pace')
  t.equal(fault({}, 9), null)
  t.equal(fault({}, 10), 'too_many_replays')
  t.equal(disabledFault(webhookWith()), null)
  t.equal(disabledFault(webhookWith({ disabled: 'gone' }))?.code, 'webhook_disabled')
})

t.test("a page is about half a second's, and bounded; one at a time while the endpoint fails", async t => {
  const size = (pace: number, changes: Partial<WebhookEntry> = {}) => pageSize({ pace }, webhookWith(changes))
  t.strictSame([1, 2, 3, 100, 1000].map(pace => size(pace)), [1, 1, 2, 50, 500])
  t.equal(size(1000, { batch: { maxEvents: 100, maxWaitMs: 1000 } }), 10, 'a thousand events')
  t.equal(size(10, { batch: { maxEvents: 100, maxWaitMs: 1000 } }), 5)
  t.equal(size(1000, { failingSince: '2026-11-30T12:00:00.000Z' }), 1)
})

t.test('the pause after a page is what it was worth at its pace', async t => {
  const pause = (lastPage: number, pace: number, spentMs: number, changes: Partial<WebhookEntry> = {}) =>
    pauseMs(replayWith({ pace, lastPage }), webhookWith(changes), NOW - spentMs, NOW)
  t.equal(pause(50, 100, 0), 500)
  t.equal(pause(50, 100, 200), 300)
  t.equal(pause(50, 100, 900), 0)
  t.equal(pause(1, 1, 0), 1000)
  t.equal(pause(0, 1, 0), 0, 'where nothing was found it goes on at once')
  t.equal(pause(50, 100, -HOUR_MS), 500, "never longer, whatever another's clock said")
  t.equal(pause(1, 1000, 1000, { failingSince: '2026-11-30T12:00:00.000Z' }), 9000)
  t.equal(pauseMs(replayWith(), webhookWith(), NOW, NOW), 0, 'before the first')
})

t.test('groups keep the order and leave nothing out', async t => {
  t.strictSame(groupsOf([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]])
  t.strictSame(groupsOf([], 2), [])
})

t.test('why a replay cannot go on', async t => {
  t.equal(endReasonOf(webhookWith(), 'acc_one'), null)
  t.equal(endReasonOf(webhookWith({ paused: true }), 'acc_one'), null, 'a pause is no end')
  t.equal(endReasonOf(webhookWith({ disabled: 'failing' }), 'acc_one'), 'endpoint_disabled')
  t.equal(endReasonOf(webhookWith(), 'acc_other'), 'endpoint_deleted')
  t.equal(endReasonOf(undefined, 'acc_one'), 'endpoint_deleted')
})

t.test('what is owed is told by every fact of a delivery, and by no other', async t => {
  const owed = {
    delivery: 'whd_one',
    webhook: 'wh_one',
    replay: null,
    events: [{ id: 'ev_e', type: 'email.delivered' as const, seq: 7, email: 'em_one' }],
    batch: false
  }
  const time = '2026-11-20T00:00:00.000Z'
  const facts = [
    { ...envelope, type: 'delivery.requested', time, data: owed },
    {
      ...envelope,
      type: 'delivery.moved',
      time,
      data: { ...owed, attempts: 1, firstAttemptAt: time, nextAttemptAt: time }
    },
    { ...envelope, type: 'delivery.failed', time, data: { ...owed, attempts: 0, reason: 'expired' } },
    {
      ...envelope,
      type: 'delivery.attempted',
      time,
      data: {
        ...owed,
        attempt: 1,
        result: 'failed',
        status: 500,
        error: null,
        errorKind: null,
        request: { url: 'https://example.com/', headers: {} },
        response: '',
        durationMs: 1,
        firstAttemptAt: time,
        nextAttemptAt: null
      }
    }
  ] as AnyFact[]
  for (const fact of facts) t.strictSame(owedIn(decodeFact(encodeFact(fact))), owed, fact.type)
  const test = { ...owed, test: '{"id":"ev_e"}' }
  t.strictSame(owedIn({ ...envelope, type: 'delivery.requested', time, data: test }), test)
  t.equal(owedIn(opened(time)), null)
})

t.test('where a replay stands is told by its last fact', async t => {
  const requested: ReplayRequested = {
    ...envelope,
    type: 'replay.requested',
    time: '2026-11-30T00:00:00.000Z',
    data: replayWith()
  }
  const ended: ReplayEnded = {
    ...envelope,
    type: 'replay.ended',
    time: '2026-11-30T01:00:00.000Z',
    data: { ...replayWith({ made: 9 }), reason: 'done' }
  }
  t.match(stateOf(requested), { state: 'running', made: 0, account: 'acc_one', changedAt: requested.time })
  t.match(stateOf(ended), { state: 'done', made: 9, changedAt: ended.time })
  t.strictSame([stateOf(requested).waits, stateOf(requested, 'paused').waits, stateOf(ended, 'paused').waits], [
    null,
    'paused',
    null
  ])
  t.equal(cancelFault(stateOf(requested)), null)
  t.equal(cancelFault({ state: 'canceled' }), null, 'said twice')
  t.equal(cancelFault(stateOf(ended))?.code, 'replay_over')
})

t.test('the longer a replay waits for the same reason, the more seldom it is looked at', async t => {
  t.strictSame([0, 1, 2, 3, 4, 99].map(waits => nextTurnMs('paused', waits, 60_000)), [
    60_000,
    120_000,
    240_000,
    480_000,
    600_000,
    600_000
  ])
  t.strictSame([0, 1, 9].map(waits => nextTurnMs('behind', waits, 500)), [5000, 10_000, 30_000])
  t.strictSame([0, 9].map(waits => nextTurnMs('failing', waits, 9876)), [9876, 9876], 'a wait that is known')
  t.equal(waitsBefore('paused', null), 0)
  t.equal(waitsBefore('paused', { why: 'paused', waits: 2 }), 3)
  t.equal(waitsBefore('behind', { why: 'paused', waits: 2 }), 0)
})
