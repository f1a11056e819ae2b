import t from 'tap'
import { wantsBackfill } from '#streams/replay/decide.ts'
import { batchDueMs, batchesOf, batchRules, isBatchReady } from '#streams/delivery/batch.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { webhookEntry } from '../support/entries.ts'

const NOW = Date.parse('2026-11-22T12:00:00.000Z')
const DAY_MS = 86_400_000

const webhook = (extra: Partial<WebhookEntry> = {}): WebhookEntry =>
  webhookEntry({
    batch: { maxEvents: 3, maxWaitMs: 1000 },
    startAt: '2026-11-22T00:00:00.000Z',
    createdAt: '2026-11-22T00:00:00.000Z',
    ...extra
  })

const joined = (...agesMs: number[]) => agesMs.map(ageMs => ({ joinedMs: NOW - ageMs }))

t.test('a batch is ready when it is full, or when its oldest event has waited long enough', async t => {
  const rules = batchRules(webhook())
  t.equal(isBatchReady(2, NOW - 999, rules, NOW), false)
  t.equal(isBatchReady(2, NOW - 1000, rules, NOW), true)
  t.equal(isBatchReady(3, NOW, rules, NOW), true)
  t.equal(batchDueMs(NOW, rules), NOW + 1000)
})

t.test('full batches are made in their order; the rest waits until its own oldest is due', async t => {
  const rules = batchRules(webhook())
  const members = joined(900, 800, 700, 600, 500, 400, 300)
  t.same(batchesOf(members, rules, NOW), [members.slice(0, 3), members.slice(3, 6)])
  t.same(batchesOf(members, rules, NOW + 700), [members.slice(0, 3), members.slice(3, 6), members.slice(6)])
  t.same(batchesOf(joined(999, 0), rules, NOW), [])
  t.same(batchesOf(joined(1000, 0), rules, NOW), [joined(1000, 0)], 'who came just now goes with it')
  t.same(batchesOf([], rules, NOW), [])
})

t.test('what waits for an endpoint without batches, disabled or deleted, goes out at once', async t => {
  for (const endpoint of [webhook({ batch: null }), webhook({ disabled: 'gone' }), undefined]) {
    const rules = batchRules(endpoint)
    t.same(batchesOf(joined(...Array.from({ length: 130 }, () => 0)), rules, NOW).map(batch => batch.length), [100, 30])
  }
  t.same(batchRules(webhook({ paused: true })), { maxEvents: 3, maxWaitMs: 1000 }, 'a pause holds whole batches')
})

t.test('an endpoint that starts before it was made has a backfill, for as long as its opening is kept', async t => {
  t.equal(wantsBackfill(webhook(), NOW), false)
  t.equal(wantsBackfill(webhook({ startAt: '2026-11-23T00:00:00.000Z' }), NOW), false, 'one that starts later has none')
  const early = webhook({ startAt: '2026-11-21T23:59:59.999Z' })
  t.equal(wantsBackfill(early, NOW), true)
  t.equal(wantsBackfill(early, NOW + 28 * DAY_MS), true)
  t.equal(wantsBackfill(early, NOW + 29 * DAY_MS), false)
})
