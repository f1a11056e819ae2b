import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import type { Projection, Sql } from '#projections/define.ts'
import { deliveries, DELIVERY_STATES, deliveryTable } from '#projections/deliveries/project.ts'
import { emails, emailTable, timelineTable } from '#projections/emails/project.ts'
import { recipientTable, type RecipientRowChange } from '#projections/emails/recipient.ts'
import { erasures, erasureTable } from '#projections/erasures/project.ts'
import { suppressions, suppressionTable } from '#projections/suppressions/project.ts'
import { templates, templateTable } from '#projections/templates/project.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { inTransaction } from '#src/postgres/query.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { ERASED } from '#streams/address.ts'
import { timeAt } from '../support/facts.ts'
import { LONG } from '../support/long.ts'
import { cut, freshPool, randomOf } from './view.ts'

/** Few values of each, so that changes meet in rows and in ranks. */
const text = fc.constantFrom('a', 'b', 'c')
const time = fc.integer({ min: 0, max: 5 }).map(timeAt)
const seq = fc.integer({ min: 1, max: 9 })
const flag = fc.boolean()
const known = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: null })
const told = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined })
const mailboxes = fc.array(text, { maxLength: 2 })
const object = fc.record({ key: text })

/** Values of every column, of any kind: what is wrong for a column PostgreSQL refuses. */
type Model = Record<string, fc.Arbitrary<unknown>>

const seen = {
  email: fc.constantFrom('em_1', 'em_2'),
  n: fc.nat(1),
  account: fc.constant('acc_test'),
  request_seq: seq,
  status: fc.constantFrom('queued', 'sending', 'delivered', 'bounced')
}

const marks = { opened_at: told(time), clicked_at: told(time), complained_at: told(time), unsubscribed_at: told(time) }

/** What a request, or its record, says of a recipient; what an outcome says, what a mark. */
const asked: Model = {
  ...seen,
  name: fc.constantFrom('Ada', 'A. Lovelace'),
  kind: fc.constantFrom('to', 'cc'),
  address: fc.constant('ada@example.net'),
  erased: flag,
  status_seq: fc.constant(0),
  attempts: fc.constant(0),
  reply_seq: fc.constant(0),
  scheduled_seq: fc.constant(0),
  scheduled_at: known(time),
  next_attempt_at: known(time),
  wake_at: known(time)
}
const outcome: Model = {
  ...asked,
  name: fc.constant(undefined),
  kind: fc.constant(undefined),
  status_seq: seq,
  attempts: fc.nat(3),
  reply_seq: fc.nat(9),
  scheduled_seq: fc.integer({ min: -1, max: 9 }),
  attempted_at: told(time),
  delivered_at: told(time),
  deferred_at: told(time),
  bounced_at: told(time),
  failed_at: told(time),
  in_doubt_at: told(time),
  suppressed_at: told(time),
  canceled_at: told(time),
  smtp_code: known(fc.constantFrom(250, 451, 550)),
  enhanced_code: known(text),
  response: known(text),
  host: known(text),
  error: known(text)
}
const mark: Model = { ...outcome, ...marks, status_seq: fc.constant(-1), opened_at: time }

/** What says that the person is forgotten says nothing personal. */
function impersonal (change: RecipientRowChange): RecipientRowChange {
  return change.erased ? { ...change, address: ERASED, name: null, response: null, host: null, error: null } : change
}

const recipient = fc.oneof(fc.record(asked), fc.record(outcome), fc.record(mark))
  .map(change => impersonal(change as unknown as RecipientRowChange))

const email = fc.record({
  id: fc.constantFrom('em_1', 'em_2'),
  account: text,
  key: text,
  test: flag,
  from_address: text,
  from_name: known(text),
  from_domain: text,
  to_list: mailboxes,
  cc_list: mailboxes,
  bcc_list: mailboxes,
  reply_to_list: mailboxes,
  subject: text,
  headers: fc.array(object, { maxLength: 1 }),
  attachments: fc.array(object, { maxLength: 1 }),
  template: known(text),
  template_version: known(seq),
  track_opens: flag,
  track_clicks: flag,
  unsubscribe: flag,
  tags: mailboxes,
  metadata: object,
  created_at: time,
  request_seq: seq,
  search: text,
  erased: fc.nat(2)
})

const entry = fc.record({
  email: fc.constantFrom('em_1', 'em_2'),
  seq: fc.nat(1),
  n: fc.nat(1),
  id: text,
  type: text,
  time,
  data: object,
  erased: flag
})

const delivery = fc.record({
  id: fc.constantFrom('whd_1', 'whd_2'),
  account: text,
  webhook: text,
  event: told(text),
  event_type: told(text),
  event_seq: told(seq),
  email: told(text),
  events: told(mailboxes),
  event_types: told(mailboxes),
  event_seqs: told(fc.array(seq, { maxLength: 2 })),
  emails: told(mailboxes),
  first_seq: seq,
  requested_at: time,
  replay: fc.constantFrom('', 'rpl_1', 'rpl_2'),
  batch: flag,
  test: flag,
  state: fc.constantFrom(...DELIVERY_STATES),
  state_seq: seq,
  state_at: time,
  next_attempt_at: told(time),
  ended_at: told(time),
  reason: told(text),
  attempts: fc.nat(3),
  first_attempt_at: told(time),
  attempt_seq: fc.nat(9),
  http_status: told(fc.constantFrom(200, 500)),
  error: told(text),
  error_kind: told(text),
  duration_ms: told(seq)
})

const template = fc.record({ id: text, account: text, version: known(seq), layout: known(text), seq })

const erasure = fc.record({ id: text, account: text, hash: text, requested_at: time, completed_at: known(time) })
  .chain(change =>
    fc.record({ counts: change.completed_at === null ? fc.constant(null) : object })
      .map(counts => ({ ...change, ...counts }))
  )

const suppression = fc.record({
  account: text,
  hash: text,
  seq,
  address: known(text),
  standing: fc.array(object, { maxLength: 2 }),
  created_at: known(time)
})

type Upsert = (changes: never[]) => Sql[]

/** Every table with laws: its projection, how it is written, and changes as they may come. */
const TABLES: Record<string, [Projection, Upsert, fc.Arbitrary<object>]> = {
  recipients: [emails, recipientTable.upsert, recipient],
  emails: [emails, emailTable.upsert, email],
  timeline: [emails, timelineTable.upsert, entry],
  deliveries: [deliveries, deliveryTable.upsert, delivery],
  templates: [templates, templateTable.upsert, template],
  erasures: [erasures, erasureTable.upsert, erasure],
  suppressions: [suppressions, suppressionTable.upsert, suppression]
}

/** The rows of a table that was empty, after these statements. */
async function rowsAfter (pool: Pool, projection: Projection, table: string, statements: Sql[]): Promise<string[]> {
  return await inTransaction(pool, [liveSet(projection)], async (execute, client) => {
    await client.query(`delete from ${table}`)
    for (const statement of statements) await execute(statement)
    const { rows } = await client.query<{ row: unknown }>(`select to_jsonb(${table}) as row from ${table}`)
    return rows.map(({ row }) => JSON.stringify(row)).sort()
  })
}

t.test('changes folded, one by one, or in any batches: the rows are the same', async t => {
  const pool = await freshPool(t)
  for (const [name, [projection, write, change]] of Object.entries(TABLES)) {
    const upsert = (changes: object[]) => write(changes as never[])
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 2, maxLength: 12 }), fc.integer(), async (changes, seed) => {
        const expected = await rowsAfter(pool, projection, name, changes.flatMap(each => upsert([each])))
        assert.deepEqual(await rowsAfter(pool, projection, name, upsert(changes)), expected, 'folded')
        const batches = cut(changes, 5, randomOf(seed))
        assert.deepEqual(await rowsAfter(pool, projection, name, batches.flatMap(upsert)), expected, 'in batches')
      }),
      { numRuns: LONG ? 500 : 50 }
    )
    t.pass(name)
  }
})

t.test('the statement of a table is always the same, whatever it writes; for nothing there is none', async t => {
  for (const [name, [, write, change]] of Object.entries(TABLES)) {
    const batches = fc.sample(fc.array(change, { minLength: 1, maxLength: 9 }), 5) as never[][]
    t.equal(new Set(batches.flatMap(write).map(statement => statement.text)).size, 1, name)
    t.strictSame(write([]), [])
  }
})
