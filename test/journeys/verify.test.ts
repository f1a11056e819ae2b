import t, { type Test } from 'tap'
import { projections } from '#projections/list.ts'
import { subjects } from '#streams/subjects.ts'
import { UsageClosed } from '#streams/usage/facts.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { stamp } from '#src/actions/fact-log.ts'
import type { VerifyReport } from '#src/cli/verify.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { jetpostHere } from '../support/command.ts'
import { openLived } from '../support/lived.ts'
import { SECRET } from '../support/secret.ts'
import { until } from '../support/wait.ts'

const { natsUrl, databaseUrl, app, bus, pool, log } = await openLived(t, ['two@example.com', 'a@example.com'])
for (const month of ['2020-01', '2020-02']) {
  const counts = {
    accepted: 1,
    suppressed: 0,
    canceled: 0,
    delivered: 1,
    deferred: 0,
    bounced: 0,
    failed: 0,
    opened: 0,
    clicked: 0,
    complained: 0,
    unsubscribed: 0
  }
  const fact = stamp(UsageClosed, { account: FIRST_ACCOUNT, correlation: 'test', causation: null }, {
    month,
    domains: [{ domain: 'example.com', counts }, { domain: 'example.net', counts }]
  }, Date.now())
  await bus.js.publish(subjects.usage(FIRST_ACCOUNT, month), JSON.stringify(fact), { msgID: fact.id })
}

/** As the program does it: the exit code, and what is printed. */
async function run (...args: string[]): Promise<{ code: number, out: string, err: string }> {
  const ended = await jetpostHere(['verify', ...args], {
    NATS_URL: natsUrl,
    DATABASE_URL: databaseUrl,
    JETPOST_SECRET: SECRET
  })
  const code = Number(process.exitCode ?? 0)
  process.exitCode = 0
  return { ...ended, code: ended.code === 0 ? code : ended.code }
}

async function report (...args: string[]): Promise<VerifyReport & { code: number }> {
  const { code, out } = await run(...args, '--json')
  return { ...JSON.parse(out) as VerifyReport, code }
}

const wrongIn = ({ projections }: VerifyReport) =>
  projections.flatMap(({ tables }) => tables).filter(({ missing, surplus, different }) =>
    missing + surplus + different > 0
  )

/** How each table is broken: what tells a row of its own from all others, and a column of another that gets another
 *  value. */
const BREAKS: Record<string, { key: Record<string, unknown>, column: string, value: unknown }> = {
  audit: { key: { id: 'aud_zz' }, column: 'name', value: 'Private name' },
  emails: { key: { id: 'em_zz' }, column: 'subject', value: 'Private words' },
  email_states: { key: { id: 'em_zz' }, column: 'status', value: 'failed' },
  recipients: { key: { n: 40 }, column: 'address', value: 'private@example.com' },
  timeline: { key: { seq: 999_999 }, column: 'data', value: { private: 1 } },
  deliveries: { key: { id: 'whd_zz' }, column: 'attempts', value: 77 },
  delivery_attempts: { key: { seq: 999_999 }, column: 'response', value: 'private' },
  suppressions: { key: { hash: 'zz' }, column: 'standing', value: [{ reason: 'private' }] },
  templates: { key: { id: 'tpl_zz' }, column: 'version', value: 77 },
  template_versions: { key: { version: 77 }, column: 'html', value: 'private' },
  stats_hours: { key: { tag: 'zz' }, column: 'accepted', value: 777_777 },
  stats_destinations: { key: { destination: 'zz' }, column: 'delivered', value: 777_777 },
  stats_recipients: { key: { n: 40 }, column: 'told', value: 'private.example' },
  usage: { key: { domain: 'zz' }, column: 'bounced', value: 777_777 },
  erasures: { key: { id: 'era_zz' }, column: 'counts', value: { private: 1 } },
  erasure_steps: { key: { seq: 999_999 }, column: 'counts', value: { private: 1 } }
}

/** Changes a row, takes another away where there is one, and adds one; says what it did. */
async function wreck (schema: string, table: string): Promise<{ missing: number, surplus: number, different: number }> {
  const { key, column, value } = BREAKS[table]!
  const name = `${schema}.${table}`
  const { rows: [changed] } = await pool.query<{ row: unknown }>(
    `update ${name} old set ${column} = (jsonb_populate_record(old, $1)).${column}
    where ctid = (select ctid from ${name} limit 1) returning to_jsonb(old) as row`,
    [{ [column]: value }]
  )
  const { rowCount: missing } = await pool.query(
    `delete from ${name} where ctid = (select ctid from ${name} old where to_jsonb(old) <> $1 limit 1)`,
    [changed!.row]
  )
  await pool.query(`insert into ${name} select (jsonb_populate_record(old, $1)).* from ${name} old limit 1`, [key])
  return { missing: missing!, surplus: 1, different: 1 }
}

t.test('all is as it should be, while mail keeps coming', async t => {
  const ending = new AbortController()
  const more = (async () => {
    for (let i = 0; !ending.signal.aborted; i++) await app.send({ tags: [`t${i % 3}`] })
  })()
  const all = await report()
  ending.abort()
  await more
  t.match(all, { ok: true, code: 0, repaired: [] }, 'also while people are forgotten')
  t.same(wrongIn(all), [])
  t.same(all.projections.map(({ projection }) => projection), Object.keys(projections))
  t.same(all.log?.found, [])
})

t.test('and once they are', async t => {
  const open = `select from erasures where completed_at is null
    union all select from recipients where status in ('queued', 'sending')`
  await until(async () => (await pool.query(open)).rowCount === 0)
  const all = await report()
  t.match(all, { ok: true, code: 0 })
  t.ok(
    all.log!.streams.every(({ stream, gone: { erased } }) =>
      erased > 0 === ['REQUESTS', 'EMAILS', 'CONTROL'].includes(stream)
    ),
    'what is gone from the log is said by the erasures'
  )
  t.same(
    all.projections.flatMap(({ tables }) => tables).filter(({ compared }) => compared > 0).map(({ table }) => table)
      .sort(),
    Object.keys(BREAKS).sort(),
    'there are rows in every table'
  )
})

for (const projection of Object.values(projections)) {
  t.test(`${projection.name}: rows changed, deleted and added are found in each table, and repaired`, async t => {
    const { schema } = liveSet(projection)
    const { rows } = await pool.query<{ table: string }>(
      `select relname as table from pg_class where relnamespace = $1::regnamespace and relkind = 'r'
      and not relname in ('metadata', 'checkpoints', 'dead_letters')`,
      [schema]
    )
    const done = new Map<string, Awaited<ReturnType<typeof wreck>>>()
    for (const { table } of rows) done.set(table, await wreck(schema, table))
    const found = await report(projection.name)
    t.match(found, { ok: false, code: 1, log: null, repaired: [] })
    t.same(
      new Map(wrongIn(found).map(({ table, missing, surplus, different }) => [table, { missing, surplus, different }])),
      done
    )
    for (const { table, examples } of wrongIn(found)) {
      t.match(examples.find(({ what }) => what === 'surplus')?.key, BREAKS[table]!.key, table)
      t.same(examples.find(({ what }) => what === 'different')?.columns, [BREAKS[table]!.column], table)
    }
    const told = await run(projection.name)
    t.match(told, { code: 1, out: `${projection.name}: DIFFERS from the log` })
    t.notMatch(told.out, /private/i, 'no values')
    t.match(await report(projection.name, '--repair'), { ok: true, code: 0, repaired: [projection.name] })
  })
}

t.test('dead letters are reported, and a rebuilt projection has them too', async t => {
  const { seq } = await bus.js.publish('template.acc_first.tpl_x', 'no fact')
  await until(async () =>
    (await pool.query(`select from ${liveSet(projections.templates).schema}.dead_letters`)).rowCount === 1
  )
  const { projections: [view], ...rest } = await report('templates', '--repair')
  t.match(rest, { ok: false, code: 1, repaired: ['templates'] })
  t.match(view, { deadLetters: { count: 1, examples: [{ stream: 'CONTROL', seq }] } })
  t.match(await run('log'), { code: 1, out: new RegExp(`1 cannot be read\\n    CONTROL ${seq}: it is not JSON`) })
})

t.test('two cannot verify the same projection, and what a dead one has left is no obstacle', async t => {
  await pool.query('create schema jetpost_usage_1_verify; create table jetpost_usage_1_verify.metadata (x text)')
  const both = await Promise.allSettled([look(t), look(t)])
  t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  t.match(both.find(({ status }) => status === 'rejected'), { reason: /wait until it is done/ })
  t.match(await run('usage'), { code: 0 })
  const { rows } = await pool.query("select nspname from pg_namespace where nspname ~ '_verify$'")
  t.same(rows, [], 'nothing is left')
})

async function look (_t: Test): Promise<unknown> {
  const { openRebuilder } = await import('#src/workers/projector/rebuild.ts')
  const { verifyProjection } = await import('#src/workers/projector/verify/projection.ts')
  return await verifyProjection(projections.usage, {
    bus,
    pool,
    rebuilder: openRebuilder({ bus, pool, log }),
    nowMs: Date.now,
    signal: new AbortController().signal,
    onProgress: () => {}
  })
}

t.test('what is not understood ends with 2', async t => {
  for (const args of [['nothing'], ['emails', 'stats'], ['--colour'], ['constructor']]) {
    t.match(await run(...args), { code: 2 }, args.join(' '))
  }
})
