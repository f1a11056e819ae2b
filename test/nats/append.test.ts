import t from 'tap'
import { AccountCreated } from '#streams/account/facts.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { InboundReceived } from '#streams/inbound/facts.ts'
import { placeOf } from '#streams/place.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { newId } from '#src/base/id.ts'
import { api } from '#src/nats/api.ts'
import { createAppender, type Append } from '#src/nats/append.ts'
import { Conflict, LogUnavailable } from '#src/nats/errors.ts'
import { readFacts } from '#src/nats/range.ts'
import { openBus } from '../support/bus.ts'
import { requested } from '../support/facts.ts'

const { bus } = await openBus(t)
const subjectOf = ({ fact }: Append) => placeOf(fact as AnyFact).subject

function creation (account = newId('acc', Date.now()), expectedSeq?: number): Append {
  return {
    fact: stamp(AccountCreated, { account, correlation: 'test', causation: null }, { account, name: 'A' }, Date.now()),
    expectedSeq
  }
}

t.test('a hundred callers share commits, and each learns its own sequence', async t => {
  const appender = createAppender(bus)
  const parts = Array.from({ length: 100 }, () => creation())
  const seqs = await Promise.all(parts.map(part => appender.append([part])))
  for (const [i, part] of parts.entries()) {
    const [stored] = await readFacts(bus, 'CONTROL', subjectOf(part))
    t.equal(stored!.seq, seqs[i]![0])
    t.strictSame(stored!.fact, part.fact)
  }
  t.equal(appender.pending('CONTROL'), 0)
})

t.test('one bad member of a commit fails alone', async t => {
  const appender = createAppender(bus)
  const taken = creation(undefined, 0)
  await appender.append([taken])
  const results = await Promise.allSettled([
    ...Array.from({ length: 40 }, () => appender.append([creation(undefined, 0)])),
    appender.append([creation(taken.fact.account, 0)])
  ])
  t.equal(results.filter(result => result.status === 'fulfilled').length, 40)
  t.ok((results.at(-1) as PromiseRejectedResult).reason instanceof Conflict)
})

t.test('a few big parts leave room for small ones', async t => {
  const appender = createAppender(bus)
  const ask = (size: number): Append => {
    const fact = requested({
      email: newId('em', Date.now()),
      content: { html: null, text: 'x'.repeat(size), files: [] }
    })
    return { fact: { ...fact, id: newId('ev', Date.now()) } }
  }
  const big = Array.from({ length: 9 }, () => appender.append(Array.from({ length: 9 }, () => ask(900_000)), 30_000))
  const small = Array.from({ length: 50 }, () => appender.append([ask(100)], 30_000))
  const refused = (await Promise.allSettled(big)).filter(result => result.status === 'rejected')
  t.ok(refused.length > 0 && refused.length < 9)
  t.ok(refused.every(({ reason }) => reason instanceof LogUnavailable && !reason.doubt))
  t.equal((await Promise.all(small)).length, 50)
})

t.test('a part is stored wholly or not at all', async t => {
  const appender = createAppender(bus)
  const taken = creation(undefined, 0)
  await appender.append([taken])
  const mate = creation(undefined, 0)
  await t.rejects(appender.append([mate, creation(taken.fact.account, 0)]), Conflict)
  t.strictSame(await readFacts(bus, 'CONTROL', subjectOf(mate)), [])
  const [first, second] = await appender.append([creation(undefined, 0), creation(undefined, 0)])
  t.equal(second, first! + 1)
})

t.test('the same fact appended again is recognised as stored, with and without an expectation', async t => {
  const appender = createAppender(bus)
  for (const expectedSeq of [undefined, 0]) {
    const part = creation(undefined, expectedSeq)
    const first = await appender.append([part])
    t.strictSame(await appender.append([part]), first)
    const pair = [creation(undefined, expectedSeq), creation(undefined, expectedSeq)]
    const stored = await appender.append(pair)
    t.strictSame(await appender.append(pair), stored)
    t.equal((await readFacts(bus, 'CONTROL', subjectOf(part))).length, 1)
  }
})

t.test('four rivals for one place: one wins, three hear of it', async t => {
  for (let round = 0; round < 20; round++) {
    const account = newId('acc', Date.now())
    const rivals = Array.from({ length: 4 }, () => createAppender(bus).append([creation(account, 0)]))
    const results = await Promise.allSettled(rivals)
    t.equal(results.filter(result => result.status === 'fulfilled').length, 1)
  }
})

t.test('a fact that does not fit its schema fails its caller alone', async t => {
  const appender = createAppender(bus)
  const wrong = creation()
  wrong.fact = { ...wrong.fact, data: {} }
  const [bad, good] = await Promise.allSettled([appender.append([wrong]), appender.append([creation()])])
  t.match((bad as PromiseRejectedResult).reason.message, /does not fit/)
  t.equal(good.status, 'fulfilled')
})

t.test('no stream, no answer: LogUnavailable when the time is over, and the appender works on', async t => {
  const appender = createAppender(bus)
  const cause = { account: 'acc_test', correlation: 'test', causation: null }
  const mail = { inbound: 'in_1', from: '', to: ['a@example.net'], remote: '192.0.2.1', raw: 'eA==', sizeBytes: 1 }
  const part = { fact: stamp(InboundReceived, cause, mail, Date.now()) }
  const { config } = await api<{ config: Record<string, unknown> }>(bus, 'STREAM.INFO.INBOUND', undefined)
  await api(bus, 'STREAM.DELETE.INBOUND', undefined)
  await t.rejects(appender.append([part], 300), LogUnavailable)
  await api(bus, 'STREAM.CREATE.INBOUND', config)
  t.same(await appender.append([part]), [1])
})

t.test('facts of two streams are no append', async t => {
  const appender = createAppender(bus)
  const mixed = [creation(), { fact: requested({ email: newId('em', Date.now()) }) }]
  await t.rejects(appender.append(mixed), { message: /must lie in one stream, not in CONTROL and REQUESTS$/ })
  await t.rejects(appender.append([]), { message: /must lie in one stream, not in none$/ })
  t.strictSame(await readFacts(bus, 'CONTROL', subjectOf(mixed[0]!)), [])
})
