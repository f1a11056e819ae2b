import t from 'tap'
import { createOrder } from '#src/workers/webhooks/order.ts'

t.test('later events of a place wait for the earlier ones that are deferred, others do not', async t => {
  const order = createOrder(100)
  order.deferred('a', 5, 1000)
  order.deferred('a', 7, 3000)
  order.deferred('b', 1, 9000)
  t.same([4, 5, 6, 8].map(seq => order.waitsUntil('a', seq, 500)), [null, null, 1000, 3000])
  t.equal(order.waitsUntil('c', 8, 500), null)
  order.deferred('a', 7, 2000)
  t.equal(order.waitsUntil('a', 8, 500), 2000, 'deferred again, the last word holds')
  order.settled('a', 7)
  t.equal(order.waitsUntil('a', 8, 500), 1000)
  order.settled('a', 5)
  order.settled('a', 5)
  t.equal(order.waitsUntil('a', 8, 500), null)
})

t.test('what has come due is forgotten with the first look', async t => {
  const order = createOrder(100)
  for (let seq = 1; seq <= 50; seq++) order.deferred('a', seq, seq * 10)
  t.equal(order.waitsUntil('a', 100, 490), 500)
  t.equal(order.waitsUntil('a', 50, 0), null, 'of those that were over then nothing is left')
  t.equal(order.waitsUntil('a', 100, 500), null)
  t.equal(order.waitsUntil('a', 100, 0), null)
})

t.test('however many batches of an endpoint are deferred, it remembers few: the last of them, not the soonest', async t => {
  const order = createOrder(50_000)
  for (let seq = 1; seq <= 200_000; seq++) order.deferred('batch', seq, 1_000_000 + seq)
  t.equal(order.waitsUntil('batch', 200_001, 0), 1_200_000)
  t.equal(order.waitsUntil('batch', 200_000, 0), 1_199_999)
  t.equal(order.waitsUntil('batch', 199_900, 0), null)
})

t.test('beyond its bound it forgets the place that nothing was deferred in for the longest', async t => {
  const order = createOrder(10)
  for (let i = 0; i < 5; i++) for (const place of ['a', 'b']) order.deferred(place, i, 1000 + i)
  order.deferred('a', 4, 2000)
  order.deferred('c', 1, 3000)
  t.same(['a', 'b', 'c'].map(place => order.waitsUntil(place, 9, 0)), [2000, null, 3000])
})

t.test('what was settled, overwritten or has come due does not count towards the bound', async t => {
  const order = createOrder(4)
  order.deferred('keeps', 1, 10_000)
  for (let round = 0; round < 10; round++) {
    for (const seq of [1, 2, 2]) order.deferred('settled', seq, 500)
    for (const seq of [1, 2]) order.settled('settled', seq)
    order.deferred('due', round, 5 + round)
    order.waitsUntil('due', 99, 5 + round)
  }
  t.equal(order.waitsUntil('keeps', 2, 0), 10_000)
})
