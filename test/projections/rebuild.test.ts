import t from 'tap'
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import type { Projection } from '#projections/define.ts'
import { emails } from '#projections/emails/project.ts'
import { projections } from '#projections/list.ts'
import { getEmail, listEmails } from '#projections/emails/queries.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { createFactLog, type FactLog } from '#src/actions/fact-log.ts'
import { systemClock } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence } from '#src/nats/get.ts'
import { commitAlone, createCheckpoints } from '#src/workers/projector/commit.ts'
import { dropSet, openRebuilder, type Rebuilder, type RebuildProgress } from '#src/workers/projector/rebuild.ts'
import { listDeadLetters } from '#src/workers/projector/dead-letters.ts'
import { createProjectors, type Projector } from '#src/workers/projector/projector.ts'
import { swap, dropUnused } from '#src/workers/projector/swap.ts'
import { createWriter, Overtaken } from '#src/workers/projector/write.ts'
import { readPositions } from '#src/postgres/checkpoint.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet, rebuildingSet, type TableSet } from '#src/postgres/table-sets.ts'
import { loadMail } from '../bench/rebuild-facts.ts'
import { openBus } from '../support/bus.ts'
import { jetpostHere } from '../support/command.ts'
import { COMPILED } from '../support/compiled.ts'
import { ACCOUNT, attempted, delivered, requested } from '../support/facts.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { SECRET } from '../support/secret.ts'
import { freshDatabase, servers, type Ending } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const log = createLog('silent')
const TABLES = ['emails', 'email_states', 'recipients', 'timeline']

interface Ground {
  bus: Bus
  factLog: FactLog
  pool: Pool
  builder: Rebuilder
  natsUrl: string
  databaseUrl: string
}

async function openGround (t: Ending): Promise<Ground> {
  const { bus, natsUrl } = await openBus(t)
  const databaseUrl = await freshDatabase(t)
  const pool = createPool(databaseUrl, log)
  t.teardown(() => pool.end())
  return {
    bus,
    factLog: createFactLog(bus, systemClock),
    pool,
    builder: openRebuilder({ bus, pool, log }),
    natsUrl,
    databaseUrl
  }
}

function follow (
  t: Ending,
  { bus, pool, builder }: Pick<Ground, 'bus' | 'pool' | 'builder'>,
  projection: Projection = emails
): Projector {
  const [projector] = createProjectors({
    bus,
    pool,
    log,
    projections: { [projection.name]: projection },
    rebuild: builder.rebuild
  })
  t.teardown(() => projector!.stop())
  return projector!
}

const unhurried = { signal: new AbortController().signal, onProgress: () => {} }
const rebuild = (builder: Rebuilder, projection: Projection = emails) =>
  builder.rebuild(projection, { ...unhurried, why: 'a test' })

/** All rows of a set, each table sorted. */
async function rowsOf (pool: Pool, { schema }: TableSet): Promise<Record<string, string[]>> {
  const tables = await Promise.all(TABLES.map(async table => {
    const { rows } = await pool.query<{ row: unknown }>(`select to_jsonb(r) as row from ${schema}.${table} r`)
    return [table, rows.map(({ row }) => JSON.stringify(row)).sort()]
  }))
  return Object.fromEntries(tables)
}

/** An email in the log, asked for and delivered. */
async function mail (factLog: FactLog, email: string): Promise<void> {
  const [request] = await factLog.append([{ fact: requested({ email }) }])
  await factLog.append([{ fact: attempted({ email, request }) }, { fact: delivered({ email, request }) }])
}

const seen = async ({ bus, pool }: Pick<Ground, 'bus' | 'pool'>): Promise<boolean> =>
  await createCheckpoints(bus, pool).caughtUp(emails, 10_000)

t.test('a view that is made again comes out equal, while mail comes and is read at once', async t => {
  const ground = await openGround(t)
  const { bus, factLog, pool, builder } = ground
  await loadMail(bus, 600)
  follow(t, ground)
  t.ok(await seen(ground))
  const view = createCheckpoints(bus, pool)
  let goesOn = true
  const failed: string[] = []
  let reads = 0
  const writeAndRead = async (reader: number) => {
    for (let i = 0; goesOn; i++) {
      const id = `em_w${reader}x${String(i).padStart(5, '0')}`
      await mail(factLog, id)
      if (!await view.caughtUp(emails, 5000)) failed.push(`${id}: the view did not come`)
      const found = await ask(pool, getEmail({ account: ACCOUNT, id }))
      if (found?.status !== 'delivered') failed.push(`${id}: ${found?.status}`)
      reads++
    }
  }
  const list = async () => {
    for (let before = 0; goesOn; reads++) {
      const { data } = await ask(pool, listEmails({ account: FIRST_ACCOUNT, filters: {}, limit: 100, cursor: null }))
      if (data.length < before) failed.push(`${data.length} rows after ${before}`)
      before = data.length
    }
  }
  const load = Promise.all(
    [writeAndRead(0), writeAndRead(1), list()].map(work => work.catch(error => failed.push(String(error))))
  )
  for (let i = 0; i < 4; i++) {
    const made = await rebuild(builder)
    t.ok(made!.facts > 2000, `${made!.facts} facts were read`)
    await sleep(100)
  }
  goesOn = false
  await load
  t.strictSame(failed, [])
  t.ok(reads > 20, `${reads} reads`)
  t.ok(await seen(ground))
  const check = { projection: emails, schema: 'jetpost_emails_1_verify' }
  await builder.rebuildSet(check, unhurried)
  await builder.advance(check, await readPositions(pool, liveSet(emails)), unhurried.signal)
  t.strictSame(await readPositions(pool, check), await readPositions(pool, liveSet(emails)))
  t.strictSame(await rowsOf(pool, check), await rowsOf(pool, liveSet(emails)))
  const { rows: indexes } = await pool.query(
    `select schemaname, count(*)::int as n from pg_indexes
    where schemaname like 'jetpost_emails_1%' group by 1 order by 1`
  )
  t.match(
    indexes,
    [{ schemaname: 'jetpost_emails_1', n: indexes[1].n }, { schemaname: 'jetpost_emails_1_verify' }],
    'with all indexes, and nothing of the ones before'
  )
})

t.test('what is told again by records is read once: rows are as from the requests', async t => {
  const { bus, pool, builder } = await openGround(t)
  const facts = await loadMail(bus, 300)
  const [fromRecords, fromAll] = ['jetpost_emails_1_records', 'jetpost_emails_1_all'].map(schema => ({
    projection: emails,
    schema
  })) as [TableSet, TableSet]
  const { facts: read } = await builder.rebuildSet(fromRecords, unhurried)
  // From the partition on whose last record is the oldest: which that is, the ids decide.
  t.ok(read < facts + 200, `${read} read of ${facts} facts and 300 requests`)
  const plain = { ...emails, streams: emails.streams.map(({ stream, filter }) => ({ stream, filter })) }
  t.equal((await builder.rebuildSet({ ...fromAll, projection: plain }, unhurried)).facts, facts + 300)
  t.strictSame(await rowsOf(pool, fromRecords), await rowsOf(pool, fromAll))
})

t.test('a builder that is killed at any moment is gone on from by the next', LONG_ONLY, async t => {
  const { bus, pool, builder, natsUrl, databaseUrl } = await openGround(t)
  const facts = await loadMail(bus, 6000)
  await rebuild(builder)
  const expected = await rowsOf(pool, liveSet(emails))
  const env = {
    PATH: process.env.PATH,
    ...COMPILED,
    NATS_URL: natsUrl,
    DATABASE_URL: databaseUrl,
    JETPOST_SECRET: SECRET
  }
  const start = () => {
    const child = spawn(process.execPath, ['src/bin.js', 'rebuild', 'emails', '--json'], {
      env,
      stdio: ['ignore', 'pipe', 'inherit']
    })
    let out = ''
    child.stdout.setEncoding('utf8').on('data', text => {
      out += text
    })
    return { child, ended: new Promise<string>(resolve => child.on('close', () => resolve(out))) }
  }
  const progress = async () =>
    await pool.query<{ position: number }>(
      'select position from jetpost_emails_1_rebuild.progress order by part, stream'
    )
      .then(({ rows }) => rows.map(({ position }) => position), () => null)
  let before: number[] = []
  for (let kills = 0; kills < (LONG ? 3 : 2); kills++) {
    const { child, ended } = start()
    await until(async () =>
      child.exitCode !== null || ((await progress())?.some((position, i) => position > (before[i] ?? 0)) ?? false)
    )
    await sleep(Math.random() * 100)
    child.kill('SIGKILL')
    await ended
    const now = await progress() ?? []
    t.ok(now.every((position, i) => position >= (before[i] ?? 0)), `nothing is done twice: ${now}`)
    before = now
  }
  t.strictSame(await rowsOf(pool, liveSet(emails)), expected, 'the live one is as it was')
  await until(async () =>
    (await pool.query(
      "select from pg_stat_activity where application_name = 'jetpost rebuild' and datname = current_database()"
    )).rowCount === 0
  )
  const [made] = (await start().ended).split('\n').map(line => JSON.parse(line || '{}'))
  t.match(made, { projection: 'emails', version: 1, made: true, facts: Number, seconds: Number })
  t.ok(made.facts < facts, `${made.facts} of ${facts} were left to read`)
  t.strictSame(await rowsOf(pool, liveSet(emails)), expected)
  t.strictSame(await setsOf(pool), ['jetpost_emails_1'])
})

async function setsOf (pool: Pool): Promise<string[]> {
  return (await pool.query<{ nspname: string }>(
    "select nspname from pg_namespace where nspname like 'jetpost_emails_%' order by 1"
  )).rows.map(({ nspname }) => nspname)
}

t.test('the shell says what it made, and what was there already', async t => {
  const { bus, pool, natsUrl, databaseUrl } = await openGround(t)
  await loadMail(bus, 20)
  const env = {
    NATS_URL: natsUrl,
    DATABASE_URL: databaseUrl,
    JETPOST_SECRET: SECRET
  }
  t.match(await jetpostHere(['rebuild', 'emails'], env), {
    code: 0,
    out: /^emails 1: built from [6-9]\d facts in [\d.]+ s, [\d,]+ a second\n$/
  })
  t.equal((await pool.query('select from emails')).rowCount, 20)
  t.match(await jetpostHere(['rebuild', 'everything'], env), {
    code: 2,
    err: /There is no projection "everything"\. The projections are emails, /
  })
  t.match(await jetpostHere(['rebuild'], env), { code: 2, err: /usage: jetpost rebuild/ })
  await dropSet(pool, liveSet(emails))
  const lines = (await jetpostHere(['migrate'], env)).out.trim().split('\n')
  t.match(lines[0], /^emails 1: built from /)
  t.strictSame(
    lines.slice(1),
    Object.values(projections).filter(({ name }) => name !== 'emails').map(({ name, version }) =>
      `${name} ${version}: already built`
    )
  )
  t.equal((await pool.query('select from emails')).rowCount, 20)
  t.match(JSON.parse((await jetpostHere(['migrate', '--json'], env)).out.split('\n')[0]!), {
    projection: 'emails',
    version: 1,
    made: false
  })
})

t.test('of two at once the second hears of the first', async t => {
  const { bus, pool, builder } = await openGround(t)
  await loadMail(bus, 200)
  const results = await Promise.allSettled([rebuild(builder), rebuild(builder)])
  t.strictSame(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  t.match(results.find(({ status }) => status === 'rejected'), {
    reason: { message: 'Another process is rebuilding the projection emails: wait until it is done.' }
  })
  t.equal((await pool.query('select from emails')).rowCount, 200)
})

t.test('who loses the connection that holds the lock does not go on', async t => {
  const { bus, pool, builder } = await openGround(t)
  await loadMail(bus, 200)
  const cut = ({ stage }: RebuildProgress) => {
    if (stage === 'indexes') {
      void pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'jetpost rebuild' and datname = current_database()`
      )
    }
  }
  await t.rejects(builder.rebuild(emails, { ...unhurried, why: 'a test', onProgress: cut }))
  t.equal((await pool.query('select from emails')).rowCount, 0, 'the live one is as it was')
  await rebuild(builder)
  t.equal((await pool.query('select from emails')).rowCount, 200)
})

t.test('a batch that waits while the views change places is not written into the new one', async t => {
  const { factLog, pool, builder } = await openGround(t)
  for (const id of ['em_1', 'em_2']) await mail(factLog, id)
  await rebuild(builder)
  await mail(factLog, 'em_3')
  const [live, making] = [liveSet(emails), rebuildingSet(emails)]
  await builder.rebuildSet(making, unhurried)
  const stale = await readPositions(pool, live)
  const positions = { ...stale }
  const writer = createWriter({
    commit: commitAlone(pool),
    set: live,
    onDeadLetter: () => t.fail('nothing is at fault')
  })
  const fact = {
    fact: attempted({ email: 'em_late' }),
    stream: 'EMAILS',
    seq: 5,
    subject: 'email.0.acc_test.em_late.0',
    reason: ''
  }
  const client = new Client({ ...pool.options })
  await client.connect()
  let write: Promise<unknown> | null = null
  try {
    await swap(client, pool, emails, unhurried.signal, async held => {
      t.strictSame(held, stale)
      write = writer.write([fact], positions).then(
        () => t.fail('it was written'),
        error => t.ok(error instanceof Overtaken, 'it finds the checkpoint moved')
      )
      t.strictSame(await readPositions(pool, live), held, 'who reads is not held up')
      await until(async () =>
        (await pool.query(
          `select from pg_locks join pg_database d on d.oid = database
          where not granted and datname = current_database()`
        )).rowCount === 1
      )
    })
    await write
    t.strictSame(await readPositions(pool, live), { REQUESTS: 3, EMAILS: 6 })
  } finally {
    await client.end()
  }
  t.equal((await pool.query('select from emails')).rowCount, 3)
  t.equal((await pool.query("select from recipients where email = 'em_late'")).rowCount, 0)
})

t.test('PostgreSQL that comes back empty is filled by itself', async t => {
  const ground = await openGround(t)
  const { bus, factLog, pool, databaseUrl } = ground
  await loadMail(bus, 300)
  const projector = follow(t, ground)
  t.ok(await seen(ground))
  const expected = await rowsOf(pool, liveSet(emails))
  const name = new URL(databaseUrl).pathname.slice(1)
  const admin = new Client({ connectionString: servers().adminUrl })
  await admin.connect()
  await admin.query(`drop database ${name} with (force)`)
  await mail(factLog, 'em_late')
  await admin.query(`create database ${name}`)
  await admin.end()
  await until(async () => await seen(ground).catch(() => false))
  const rows = await rowsOf(pool, liveSet(emails))
  t.strictSame(rows.timeline!.filter(row => !row.includes('em_late')), expected.timeline)
  t.equal(rows.emails!.length, 301)
  await until(() => projector.unhealthyReason() === null)
})

t.test('a view of another log is made again, and says why', async t => {
  const ground = await openGround(t)
  await loadMail(ground.bus, 50)
  await rebuild(ground.builder)
  const { bus } = await openBus(t)
  await mail(createFactLog(bus, systemClock), 'em_other')
  const builder = openRebuilder({ bus, pool: ground.pool, log })
  let why = ''
  const projector = follow(t, {
    bus,
    pool: ground.pool,
    builder: {
      ...builder,
      rebuild: (projection, options) => {
        why = options.why
        return builder.rebuild(projection, options)
      }
    }
  })
  await until(() => projector.unhealthyReason() === null)
  t.match(why, /^it has seen more of (REQUESTS|EMAILS) than there is: the log is another one$/)
  t.strictSame((await ground.pool.query('select id from emails')).rows, [{ id: 'em_other' }])
})

t.test('another version stands beside the one that is served, and changed texts take its place', async t => {
  const ground = await openGround(t)
  const { bus, factLog, pool } = ground
  await loadMail(bus, 100)
  const old = follow(t, ground)
  t.ok(await seen(ground))
  const next = { ...emails, version: 99 }
  const newer = follow(t, ground, next)
  await until(() => newer.unhealthyReason() === null)
  await mail(factLog, 'em_both')
  t.ok(await seen(ground))
  await until(async () =>
    (await pool.query("select from jetpost_emails_99.email_states where status = 'delivered' and id = 'em_both'"))
      .rowCount === 1
  )
  t.equal(old.unhealthyReason(), null)
  t.strictSame(await rowsOf(pool, liveSet(next)), await rowsOf(pool, liveSet(emails)))
  await newer.stop()
  await pool.query(
    `update jetpost_emails_99.metadata set fingerprint = 'of other SQL';
    alter table jetpost_emails_99.emails drop column search cascade`
  )
  const again = follow(t, ground, next)
  await until(() => again.unhealthyReason() === null)
  t.strictSame(await rowsOf(pool, liveSet(next)), await rowsOf(pool, liveSet(emails)))
})

t.test('a fact that cannot be read or stored is dead-lettered in the new view too', async t => {
  const { bus, factLog, pool, builder } = await openGround(t)
  await mail(factLog, 'em_1')
  await bus.js.publish('email.0.acc_test.em_x.0', JSON.stringify({ type: 'email.unheard_of' }))
  await mail(factLog, 'em_2')
  await rebuild(builder)
  t.match(await listDeadLetters(pool, liveSet(emails)), [{
    stream: 'EMAILS',
    seq: 3,
    reason: 'unknown fact type "email.unheard_of"'
  }])
  t.equal((await pool.query('select from emails')).rowCount, 2)
  t.equal((await readPositions(pool, liveSet(emails))).EMAILS, await lastSequence(bus, 'EMAILS'))
})

t.test('what is left over is dropped, and nothing that is in use', async t => {
  const { pool, bus, builder } = await openGround(t)
  const left = [
    'jetpost_emails_0',
    'jetpost_emails_2',
    'jetpost_emails_1_old',
    'jetpost_emails_1_verify',
    'jetpost_emails_3_rebuild',
    'jetpost_emails_4_rebuild'
  ]
  for (const schema of left) {
    await pool.query(
      `create schema ${schema}; create table ${schema}.metadata (used_at timestamptz);
      insert into ${schema}.metadata select now() - interval '8 days'`
    )
  }
  await pool.query(
    `update jetpost_emails_2.metadata set used_at = now() - interval '1 day';
    update jetpost_emails_4_rebuild.metadata set used_at = now()`
  )
  const holder = await pool.connect()
  await holder.query("select pg_advisory_lock(hashtextextended('jetpost_emails_1_verify', 0))")
  const dropped = await dropUnused(pool, emails)
  holder.release(true)
  t.strictSame(dropped.toSorted(), ['jetpost_emails_0', 'jetpost_emails_1_old', 'jetpost_emails_3_rebuild'])
  t.strictSame(await setsOf(pool), [
    'jetpost_emails_1',
    'jetpost_emails_1_verify',
    'jetpost_emails_2',
    'jetpost_emails_4_rebuild'
  ])
  const projector = follow(t, { bus, pool, builder })
  await bus.js.publish('email.0.acc_test.em_x.0', 'anything')
  await until(async () =>
    projector.unhealthyReason() === null &&
    (await pool.query('select from jetpost_emails_1.metadata where used_at > created_at')).rowCount === 1
  )
})
