import t from 'tap'
import { emails } from '#projections/emails/project.ts'
import { stats } from '#projections/stats/project.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { EmailRecorded } from '#streams/email/facts.ts'
import { createFactLog, stamp } from '#src/actions/fact-log.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { api } from '#src/nats/api.ts'
import { lastSequence } from '#src/nats/get.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { verifyProjection } from '#src/workers/projector/verify/projection.ts'
import { deleteAged } from '#src/workers/scheduler/cleanup.ts'
import { waitFor } from '#src/postgres/checkpoint.ts'
import { freshPool } from '../projections/view.ts'
import { openBus } from '../support/bus.ts'
import { delivered, requested } from '../support/facts.ts'
import { log } from '../support/sender-rig.ts'

const DAY_MS = 86_400_000
const { bus } = await openBus(t)
const pool = await freshPool(t)
const builder = openRebuilder({ bus, pool, log })
const projectors = createProjectors({ bus, pool, log, projections: { emails, stats }, rebuild: builder.rebuild })
t.teardown(async () => {
  await Promise.all(projectors.map(projector => projector.stop()))
})
const { signal } = new AbortController()
const nowMs = Date.now()

/** An email of so many days ago: recorded, and delivered at once; resolves to where its facts lie. */
async function sent (daysAgo: number): Promise<{ email: string, seqs: number[] }> {
  const atMs = nowMs - daysAgo * DAY_MS
  const [email, time] = [newId('em', atMs), timestamp(atMs)]
  const { content: _content, ...asked } = requested({ email }).data
  const cause = { account: 'acc_test', correlation: 'test', causation: null }
  const record: AnyFact = { ...stamp(EmailRecorded, cause, { ...asked, request: 1, requestedAt: time }, atMs), time }
  const event = JSON.stringify({ data: { from: 'news@example.com', tags: [] } })
  const arrived: AnyFact = { ...delivered({ email, event }), id: newId('ev', atMs), time }
  const seqs = await createFactLog(bus, systemClock).append([{ fact: record }, { fact: arrived }])
  return { email, seqs }
}

const old = await Promise.all([200, 120, 91].map(sent))
const kept = await Promise.all([89, 30, 0].map(sent))
const tables = { emails: 'id', email_states: 'id', recipients: 'email', timeline: 'email', stats_recipients: 'email' }

async function rowsIn (table: string, column: string): Promise<string[]> {
  const { rows } = await pool.query<{ email: string }>(`select distinct ${column} as email from ${table} order by 1`)
  return rows.map(({ email }) => email)
}

async function verified (): Promise<unknown> {
  const reports = await Promise.all(
    [emails, stats].map(async projection =>
      await verifyProjection(projection, {
        bus,
        pool,
        rebuilder: builder,
        nowMs: Date.now,
        signal,
        onProgress: () => {}
      })
    )
  )
  return reports.flatMap(({ tables }) => tables).filter(({ missing, surplus, different }) =>
    missing + surplus + different > 0
  )
}

t.test('rows leave when their facts have, and the view is as the log says before and after', async t => {
  const seq = await lastSequence(bus, 'EMAILS')
  for (const projection of [emails, stats]) t.ok(await waitFor(pool, projection, { EMAILS: seq }, 20_000))
  t.same(await rowsIn('emails', 'id'), [...old, ...kept].map(({ email }) => email).sort())
  // As the stream's age does it: these were stored today.
  for (const seq of old.flatMap(({ seqs }) => seqs)) await api(bus, 'STREAM.MSG.DELETE.EMAILS', { seq })
  t.same(await verified(), [], 'what is too old is not compared')
  t.equal(await deleteAged({ bus, pool, projections: [emails, stats], nowMs: Date.now, signal }), 3 * 7)
  for (const [table, column] of Object.entries(tables)) {
    t.same(
      await rowsIn(table, column),
      kept.map(({ email }) => email).sort(),
      table
    )
  }
  const { rows: [counted] } = await pool.query(
    `select (select sum(delivered) from stats_hours)::int as hours,
      (select sum(delivered) from stats_destinations)::int as destinations`
  )
  t.same(counted, { hours: 3, destinations: 3 })
  t.same(await verified(), [])
  t.equal(await deleteAged({ bus, pool, projections: [emails, stats], nowMs: Date.now, signal }), 0)
})

t.test('a row that went too early is found', async t => {
  await pool.query('delete from recipients where email = $1', [kept[0]!.email])
  t.match(await verified(), [{ table: 'recipients', missing: 1 }])
})
