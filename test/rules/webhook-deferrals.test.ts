import t from 'tap'
import { Deferrals } from '#src/workers/webhooks/deferrals.ts'

t.test('later events with the same key wait for deferred earlier ones, others do not', async t => {
  const deferrals = new Deferrals(100)
  deferrals.deferred('a', 5, 1000)
  deferrals.deferred('a', 7, 3000)
  deferrals.deferred('b', 1, 9000)
  t.same([4, 5, 6, 8].map(seq => deferrals.waitsUntil('a', seq, 500)), [null, null, 1000, 3000])
  t.equal(deferrals.waitsUntil('c', 8, 500), null)
  deferrals.deferred('a', 7, 2000)
  t.equal(deferrals.waitsUntil('a', 8, 500), 2000, 'deferred again, the last time holds')
  deferrals.settled('a', 7)
  t.equal(deferrals.waitsUntil('a', 8, 500), 1000)
  deferrals.settled('a', 5)
  deferrals.settled('a', 5)
  t.equal(deferrals.waitsUntil('a', 8, 500), null)
})

t.test('what has come due is forgotten with the first query', async t => {
  const deferrals = new Deferrals(100)
  for (let seq = 1; seq <= 50; seq++) deferrals.deferred('a', seq, seq * 10)
  t.equal(deferrals.waitsUntil('a', 100, 490), 500)
  t.equal(deferrals.waitsUntil('a', 50, 0), null, 'of those that were over then nothing is left')
  t.equal(deferrals.waitsUntil('a', 100, 500), null)
  t.equal(deferrals.waitsUntil('a', 100, 0), null)
})

t.test('of very many deferred batches of an endpoint it remembers few: the last ones, not the soonest', async t => {
  const deferrals = new Deferrals(50_000)
  for (let seq = 1; seq <= 200_000; seq++) deferrals.deferred('batch', seq, 1_000_000 + seq)
  t.equal(deferrals.waitsUntil('batch', 200_001, 0), 1_200_000)
  t.equal(deferrals.waitsUntil('batch', 200_000, 0), 1_199_999)
  t.equal(deferrals.waitsUntil('batch', 199_900, 0), null)
})

t.test('beyond its bound it forgets the key that has had no deferral for the longest time', async t => {
  const deferrals = new Deferrals(10)
  for (let i = 0; i < 5; i++) for (const key of ['a', 'b']) deferrals.deferred(key, i, 1000 + i)
  deferrals.deferred('a', 4, 2000)
  deferrals.deferred('c', 1, 3000)
  t.same(['a', 'b', 'c'].map(key => deferrals.waitsUntil(key, 9, 0)), [2000, null, 3000])
})

t.test('what was settled, overwritten or has come due does not count towards the bound', async t => {
  const deferrals = new Deferrals(4)
  deferrals.deferred('keeps', 1, 10_000)
  for (let round = 0; round < 10; round++) {
    for (const seq of [1, 2, 2]) deferrals.deferred('settled', seq, 500)
    for (const seq of [1, 2]) deferrals.settled('settled', seq)
    deferrals.deferred('due', round, 5 + round)
    deferrals.waitsUntil('due', 99, 5 + round)
  }
  t.equal(deferrals.waitsUntil('keeps', 2, 0), 10_000)
})
