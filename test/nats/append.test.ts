import t from 'tap'
import { AccountCreated } from '#streams/account/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { stamp } from '#src/actions/appenders.ts'
import { newId } from '#src/base/id.ts'
import { createAppender, type Append } from '#src/nats/append.ts'
import { Conflict, LogUnavailable } from '#src/nats/errors.ts'
import { readFacts } from '#src/nats/range.ts'
import { openBus } from '../support/bus.ts'
import { requested } from '../support/facts.ts'

const { bus } = await openBus(t)

function creation (account = newId('acc', Date.now()), expectedSeq?: number): Append {
  return {
    subject: subjects.account(account),
    fact: stamp(AccountCreated, { account, correlation: 'test', causation: null }, { account, name: 'A' }, Date.now()),
    expectedSeq
  }
}

t.test('a hundred callers share commits, and each learns its own sequence', async t => {
  const control = createAppender(bus, 'CONTROL')
  const parts = Array.from({ length: 100 }, () => creation())
  const seqs = await Promise.all(parts.map(part => control.append([part])))
  for (const [i, part] of parts.entries()) {
    const [stored] = await readFacts(bus, 'CONTROL', part.subject)
    t.equal(stored!.seq, seqs[i]![0])
    t.strictSame(stored!.fact, part.fact)
  }
  t.equal(control.pending(), 0)
})

t.test('one bad member of a commit fails alone', async t => {
  const control = createAppender(bus, 'CONTROL')
  const taken = creation(undefined, 0)
  await control.append([taken])
  const results = await Promise.allSettled([
    ...Array.from({ length: 40 }, () => control.append([creation(undefined, 0)])),
    control.append([creation(taken.fact.account, 0)])
  ])
  t.equal(results.filter(result => result.status === 'fulfilled').length, 40)
  t.ok((results.at(-1) as PromiseRejectedResult).reason instanceof Conflict)
})

t.test('a few big parts leave room for small ones', async t => {
  const requests = createAppender(bus, 'REQUESTS')
  const ask = (size: number): Append => {
    const fact = requested({
      email: newId('em', Date.now()),
      content: { html: null, text: 'x'.repeat(size), files: [] }
    })
    return { subject: subjects.request(fact.account, fact.data.email), fact: { ...fact, id: newId('ev', Date.now()) } }
  }
  const big = Array.from({ length: 9 }, () => requests.append(Array.from({ length: 9 }, () => ask(900_000)), 30_000))
  const small = Array.from({ length: 50 }, () => requests.append([ask(100)], 30_000))
  const refused = (await Promise.allSettled(big)).filter(result => result.status === 'rejected')
  t.ok(refused.length > 0 && refused.length < 9)
  t.ok(refused.every(({ reason }) => reason instanceof LogUnavailable && !reason.doubt))
  t.equal((await Promise.all(small)).length, 50)
})

t.test('a part is stored wholly or not at all', async t => {
  const control = createAppender(bus, 'CONTROL')
  const taken = creation(undefined, 0)
  await control.append([taken])
  const mate = creation(undefined, 0)
  await t.rejects(control.append([mate, creation(taken.fact.account, 0)]), Conflict)
  t.strictSame(await readFacts(bus, 'CONTROL', mate.subject), [])
  const [first, second] = await control.append([creation(undefined, 0), creation(undefined, 0)])
  t.equal(second, first! + 1)
})

t.test('the same fact appended again is recognised as stored, with and without an expectation', async t => {
  const control = createAppender(bus, 'CONTROL')
  for (const expectedSeq of [undefined, 0]) {
    const part = creation(undefined, expectedSeq)
    const first = await control.append([part])
    t.strictSame(await control.append([part]), first)
    const pair = [creation(undefined, expectedSeq), creation(undefined, expectedSeq)]
    const stored = await control.append(pair)
    t.strictSame(await control.append(pair), stored)
    t.equal((await readFacts(bus, 'CONTROL', part.subject)).length, 1)
  }
})

t.test('four rivals for one place: one wins, three hear of it', async t => {
  for (let round = 0; round < 20; round++) {
    const account = newId('acc', Date.now())
    const rivals = Array.from({ length: 4 }, () => createAppender(bus, 'CONTROL').append([creation(account, 0)]))
    const results = await Promise.allSettled(rivals)
    t.equal(results.filter(result => result.status === 'fulfilled').length, 1)
  }
})

t.test('a fact that does not fit its schema fails its caller alone', async t => {
  const control = createAppender(bus, 'CONTROL')
  const wrong = creation()
  wrong.fact = { ...wrong.fact, data: {} }
  const [bad, good] = await Promise.allSettled([control.append([wrong]), control.append([creation()])])
  t.match((bad as PromiseRejectedResult).reason.message, /does not fit/)
  t.equal(good.status, 'fulfilled')
})

t.test('no stream, no answer: LogUnavailable when the time is over, and the appender works on', async t => {
  const nowhere = createAppender(bus, 'CONTROL')
  const part = creation()
  await t.rejects(nowhere.append([{ ...part, subject: 'nowhere.at.all' }], 300), LogUnavailable)
  await nowhere.append([creation()])
})
