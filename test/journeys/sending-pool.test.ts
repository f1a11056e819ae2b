import t from 'tap'
import { deadline } from '#src/base/errors.ts'
import { HostFailure, Suspended } from '#src/workers/sender/errors.ts'
import { SessionPool } from '#src/workers/sender/session-pool.ts'
import { parseTarget } from '#src/workers/sender/target.ts'
import { SMTP_QUICK } from '../support/sender-rig.ts'
import { startSink } from '../support/smtp-sink.ts'

const pooled = (connections: number) => new SessionPool({ connections, hostname: 'sender.test', timeouts: SMTP_QUICK })

t.test('a target that fails sends its waiters away, and those of another get its places', async t => {
  const [bad, good] = [await startSink(), await startSink()]
  const pool = pooled(2)
  t.teardown(async () => {
    pool.stop()
    await bad.stop()
    await good.stop()
  })
  bad.greet({ reply: '421 4.3.2 not now', afterMs: 300 })
  const [badTarget, goodTarget] = [parseTarget(bad.url), parseTarget(good.url)]
  // Two take the places, four wait behind them, and one for the healthy server last.
  const turnedAway = Array.from(
    { length: 6 },
    () => pool.use(badTarget, async () => 'sent').catch((error: unknown) => error)
  )
  const served = pool.use(goodTarget, async () => 'sent')
  const results = await deadline(Promise.all(turnedAway), 3000, 'waiters of the bad target hang')
  t.ok(results.every(result => result instanceof Suspended))
  t.equal(await deadline(served, 3000, 'the waiter of the good target hangs'), 'sent')
})

t.test('a session that is blamed while others wait for its target sends them away too', async t => {
  const sink = await startSink()
  const pool = pooled(1)
  t.teardown(async () => {
    pool.stop()
    await sink.stop()
  })
  const target = parseTarget(sink.url)
  const waiting: Array<Promise<unknown>> = []
  await pool.use(target, async () => {
    waiting.push(...[1, 2, 3].map(() => pool.use(target, async () => 'sent').catch((error: unknown) => error)))
    pool.hostFailed(target, new HostFailure('closing', 'rcpt', null))
    const results = await deadline(Promise.all(waiting), 1000, 'they wait for the session')
    t.ok(results.every(result => result instanceof Suspended))
  })
})

t.test('a transaction that goes through ends the trouble: the next one is new', async t => {
  const sink = await startSink()
  const pool = pooled(2)
  t.teardown(async () => {
    pool.stop()
    await sink.stop()
  })
  const target = parseTarget(sink.url)
  const failure = new HostFailure('closing', 'rcpt', null)
  await pool.use(target, async session => {
    session.messages++
  })
  pool.hostFailed(target, failure)
  const nowMs = Date.now
  t.intercept(Date, 'now', { value: () => nowMs() + 5100 })
  await pool.use(target, async session => {
    session.messages++
  })
  pool.hostFailed(target, failure)
  await pool.use(target, async () => {
    const error = await pool.use(target, async () => null).catch((thrown: unknown) => thrown)
    t.type(error, Suspended)
    t.ok((error as Suspended).downForMs < 5000, 'down since now, not since the first time')
    t.ok((error as Suspended).retryInMs <= 5000, 'and not for longer than at first')
  })
})
