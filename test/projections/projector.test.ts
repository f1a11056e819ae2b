import t from 'tap'
import { setTimeout as sleep } from 'node:timers/promises'
import { emails } from '#projections/emails/project.ts'
import { getEmail } from '#projections/emails/queries.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { systemClock } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import { createFactLog, type FactLog } from '#src/actions/fact-log.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { ensureTopology } from '#src/nats/ensure.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { createProjectors, type Projector } from '#src/workers/projector/projector.ts'
import { listDeadLetters } from '#src/workers/projector/dead-letters.ts'
import { createCheckpoints } from '#src/workers/projector/commit.ts'
import { moveCheckpoints, readPositions, waitFor } from '#src/postgres/checkpoint.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { ask, inTransaction } from '#src/postgres/query.ts'
import { answerFrom, readTurns } from '#src/postgres/reads.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { ACCOUNT, attempted, delivered, requested } from '../support/facts.ts'
import { openLine } from '../support/line.ts'
import { freshAccount, freshDatabase, type Ending } from '../support/servers.ts'
import { allRows, freshPool } from './view.ts'

const log = createLog('silent')

async function openBus (t: Ending, url = freshAccount().natsUrl): Promise<{ bus: Bus, factLog: FactLog }> {
  const bus = await connectBus({ url, creds: null, name: 'projector test', log })
  t.teardown(() => bus.close())
  await ensureTopology(bus, { retention: { factsMs: 90 * 86_400_000, contentMs: 30 * 86_400_000 }, replicas: 1, log })
  return { bus, factLog: createFactLog(bus, systemClock) }
}

function project (t: Ending, bus: Bus, pool: Pool): Projector {
  const [projector] = createProjectors({
    bus,
    pool,
    log,
    projections: { emails },
    rebuild: openRebuilder({ bus, pool, log }).rebuild
  })
  t.teardown(() => projector!.stop())
  return projector!
}

/** An email in the log, asked for and delivered; ids from `from` on. */
async function mail (factLog: FactLog, from: number, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, i) => `em_${String(from + i).padStart(4, '0')}`)
  await Promise.all(ids.map(async email => {
    await factLog.append([{ fact: now(requested({ email })) }])
    await factLog.append([{ fact: now(attempted({ email })) }, { fact: now(delivered({ email })) }])
  }))
  return ids
}

/** The builders' world begins at a fixed time; these happen now. */
function now<F extends AnyFact> (fact: F): F {
  return { ...fact, time: new Date().toISOString() }
}

async function deliveredCount (pool: Pool): Promise<number> {
  return Number((await pool.query("select count(*) as n from email_states where status = 'delivered'")).rows[0].n)
}

async function until (holds: () => boolean | Promise<boolean>, timeoutMs = 20_000): Promise<boolean> {
  for (const endMs = Date.now() + timeoutMs; Date.now() < endMs; await sleep(20)) if (await holds()) return true
  return false
}

t.test('a read that waits for its view sees what was written before it', async t => {
  const { bus, factLog } = await openBus(t)
  const pool = await freshPool(t)
  const view = createCheckpoints(bus, pool)
  t.equal(await view.caughtUp(emails), true, 'empty streams have nothing to wait for')
  await mail(factLog, 0, 1)
  t.equal(await view.caughtUp(emails, 1000), false, 'nobody projects')
  const projector = project(t, bus, pool)
  t.equal(await view.caughtUp(emails, 10_000), true)
  for (let i = 1; i < 20; i++) {
    const [id] = await mail(factLog, i, 1)
    t.equal(await view.caughtUp(emails), true)
    t.match(await ask(pool, getEmail({ account: ACCOUNT, id: id! })), { status: 'delivered', timeline: { length: 3 } })
  }
  t.equal(projector.unhealthyReason(), null)
  t.equal(projector.lag().seconds, 0)
})

t.test('a read that NATS leaves without an answer says so, and does not blame PostgreSQL', async t => {
  const { natsUrl } = freshAccount()
  const { bus } = await openBus(t, natsUrl)
  const pool = await freshPool(t)
  const { bus: mute } = await openBus(t, natsUrl)
  mute.nc.subscribe('silence')
  await mute.nc.flush()
  // On a busy machine a question leaves some time after it was decided how long it may take.
  const request: typeof bus.nc.request = (_subject, payload, options) => {
    for (const endMs = performance.now() + 50; performance.now() < endMs;);
    return bus.nc.request('silence', payload, options)
  }
  const silent = { ...bus, nc: Object.create(bus.nc, { request: { value: request } }) as typeof bus.nc }
  const reading = answerFrom(
    { pool, checkpoints: createCheckpoints(silent, pool), turns: readTurns() },
    ACCOUNT,
    emails,
    getEmail({ account: ACCOUNT, id: 'em_0' })
  )
  t.ok(isUnanswered(await reading.catch(error => error)))
})

t.test('subjects the projection does not read hold nobody up', async t => {
  const { bus, factLog } = await openBus(t)
  const pool = await freshPool(t)
  const view = createCheckpoints(bus, pool)
  project(t, bus, pool)
  await mail(factLog, 0, 1)
  t.equal(await view.caughtUp(emails, 10_000), true)
  await bus.js.publish('claim.acc_test.0123', 'not for views')
  t.equal(await view.caughtUp(emails, 10_000), true)
  await (await bus.nc.jetstreamManager()).streams.deleteMessage('REQUESTS', 2)
  t.equal(await view.caughtUp(emails, 10_000), true)
})

t.test('of two projectors only one writes a range, and nothing is lost', async t => {
  const { bus, factLog } = await openBus(t)
  const url = await freshDatabase(t)
  const pools = [createPool(url, log), createPool(url, log)]
  t.teardown(async () => {
    await Promise.all(pools.map(pool => pool.end()))
  })
  await recordMoves(pools[0]!)
  const projectors = pools.map(pool => project(t, bus, pool))
  for (let i = 0; i < 10; i++) {
    await mail(factLog, i * 20, 20)
    await sleep(30)
  }
  t.equal(await createCheckpoints(bus, pools[0]!).caughtUp(emails, 10_000), true)
  t.equal(await deliveredCount(pools[0]!), 200)
  t.strictSame(await readPositions(pools[0]!, liveSet(emails)), { REQUESTS: 200, EMAILS: 400 })
  // The one that has been writing goes away: the other takes over.
  await projectors[0]!.stop()
  await mail(factLog, 200, 5)
  t.equal(await createCheckpoints(bus, pools[0]!).caughtUp(emails, 10_000), true)
  t.equal(await deliveredCount(pools[0]!), 205)
  const { rows: gaps } = await pools[0]!.query(`select * from (
    select stream, before, lag(after, 1, 0::bigint) over (partition by stream order by n) as expected
      from moves) as moves
    where before <> expected`)
  t.strictSame(gaps, [], 'each range follows the one before')
})

/** Keeps every committed move of a checkpoint in a table `moves`. */
async function recordMoves (pool: Pool): Promise<void> {
  await pool.query(`
    create table moves (n serial, stream text, before bigint, after bigint);
    create function record_move () returns trigger language plpgsql as $$ begin
      insert into moves (stream, before, after) values
        (new.stream, case when tg_op = 'INSERT' then 0 else old.position end, new.position);
      return null;
    end $$;
    create trigger record_move after insert or update on ${
    liveSet(emails).schema
  }.checkpoints for each row execute function record_move ()`)
}

t.test('a checkpoint moves only from where it is', async t => {
  const pool = await freshPool(t)
  const { promise: held, resolve: hold } = Promise.withResolvers<void>()
  const move = (from: number, to: number, gate?: Promise<void>) =>
    inTransaction(pool, [liveSet(emails)], async run => {
      const moved = await moveCheckpoints(run, liveSet(emails), [{ stream: 'EMAILS', from, to }])
      hold()
      await gate
      return moved
    })
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const first = move(0, 5, gate)
  await held
  const second = move(0, 7)
  const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  await until(async () => (await pool.query(waiting)).rowCount === 1)
  open()
  t.strictSame(await Promise.all([first, second]), [true, false])
  t.strictSame(await Promise.all([move(5, 9), move(5, 8)]).then(moved => moved.toSorted()), [false, true])
  t.equal(await move(3, 12), false)
  t.equal(await waitFor(pool, emails, { EMAILS: 8 }, 100), true)
  t.equal(await waitFor(pool, emails, { EMAILS: 8, REQUESTS: 1 }, 50), false)
})

t.test('PostgreSQL may be away: the projection waits, says so and catches up', async t => {
  const { bus, factLog } = await openBus(t)
  const url = new URL(await freshDatabase(t))
  const line = await openLine(t, url.hostname, Number(url.port))
  url.port = String(line.port)
  url.hostname = '127.0.0.1'
  const pool = createPool(url.href, log)
  t.teardown(() => pool.end())
  const projector = project(t, bus, pool)
  await mail(factLog, 0, 10)
  t.equal(await createCheckpoints(bus, pool).caughtUp(emails, 10_000), true)
  line.cut()
  await mail(factLog, 10, 10)
  t.ok(await until(() => projector.unhealthyReason() !== null))
  t.match(projector.unhealthyReason(), /PostgreSQL does not answer/)
  t.ok(projector.lag().seconds > 0)
  line.mend()
  t.equal(await until(() => projector.unhealthyReason() === null), true)
  t.equal(await createCheckpoints(bus, pool).caughtUp(emails, 10_000), true)
  t.equal(await deliveredCount(pool), 20)
})

t.test('a commit that a crash took is made again', async t => {
  const { bus, factLog } = await openBus(t)
  const pool = await freshPool(t)
  project(t, bus, pool)
  await mail(factLog, 0, 5)
  t.equal(await createCheckpoints(bus, pool).caughtUp(emails, 10_000), true)
  const expected = await allRows(pool, 'emails')
  await pool.query('truncate emails, email_states, recipients, timeline, ' + `${liveSet(emails).schema}.checkpoints`)
  await mail(factLog, 5, 1)
  t.ok(await until(async () => await deliveredCount(pool) === 6))
  await pool.query("delete from emails where id = 'em_0005'")
  t.strictSame((await allRows(pool, 'emails')).emails, expected.emails)
})

t.test('a fact that cannot be read is dead-lettered with the reason, and its projection goes on', async t => {
  const { bus, factLog } = await openBus(t)
  const pool = await freshPool(t)
  const projector = project(t, bus, pool)
  await mail(factLog, 0, 1)
  await bus.js.publish('email.0.acc_test.em_x.0', JSON.stringify({ type: 'email.unheard_of' }))
  await mail(factLog, 1, 1)
  t.equal(await createCheckpoints(bus, pool).caughtUp(emails, 10_000), true)
  t.equal(await deliveredCount(pool), 2)
  t.strictSame(await listDeadLetters(pool, liveSet(emails)), [
    { stream: 'EMAILS', seq: 3, subject: 'email.0.acc_test.em_x.0', reason: 'unknown fact type "email.unheard_of"' }
  ])
  t.equal(projector.deadLetters(), 1)
  t.equal(projector.unhealthyReason(), null)
})

t.test('what the tables do not take is dead-lettered alone, and taken once they do', async t => {
  const { bus, factLog } = await openBus(t)
  const pool = await freshPool(t)
  await pool.query("alter table emails add constraint picky check (id <> 'em_0003')")
  const projector = project(t, bus, pool)
  await mail(factLog, 0, 8)
  t.equal(await createCheckpoints(bus, pool).caughtUp(emails, 10_000), true)
  t.equal((await pool.query('select id from emails')).rows.length, 7)
  t.match(await listDeadLetters(pool, liveSet(emails)), [{ stream: 'REQUESTS', reason: /picky/ }])
  t.equal(projector.deadLetters(), 1)
  await projector.stop()
  await pool.query('alter table emails drop constraint picky')
  const next = project(t, bus, pool)
  await mail(factLog, 8, 1)
  t.ok(await until(async () => (await pool.query('select id from emails')).rows.length === 9))
  t.ok(await until(() => next.deadLetters() === 0))
  t.strictSame(await listDeadLetters(pool, liveSet(emails)), [])
  t.strictSame((await pool.query("select status from email_states where id = 'em_0003'")).rows, [{
    status: 'delivered'
  }])
})
