import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import { AccountCreated } from '#streams/account/facts.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { sleep } from '#src/base/backoff.ts'
import { newId } from '#src/base/id.ts'
import { api } from '#src/nats/api.ts'
import { createAppender } from '#src/nats/append.ts'
import { follow } from '#src/nats/follow.ts'
import { lastSequence } from '#src/nats/get.ts'
import { TailReader, subjectTest } from '#src/nats/tail-reader.ts'
import { openBus } from '../support/bus.ts'
import { until } from '../support/wait.ts'

const { bus } = await openBus(t)
const appender = createAppender(bus)

function create (): Promise<number[]> {
  const account = newId('acc', Date.now())
  const fact = stamp(
    AccountCreated,
    { account, correlation: 'test', causation: null },
    { account, name: 'A' },
    Date.now()
  )
  return appender.append([{ fact }])
}

const consumers = async () =>
  (await api<{ consumers: string[] | null }>(bus, 'CONSUMER.NAMES.CONTROL', {})).consumers ?? []

async function losesItsConsumer (t: Test, shared: boolean): Promise<void> {
  const stopping = new AbortController()
  const first = await lastSequence(bus, 'CONTROL')
  const seen: number[] = []
  let begun = 0
  const options = {
    stream: 'CONTROL',
    filter: 'control.>',
    afterSeq: first,
    batchMax: 10,
    gather: () => sleep(1),
    signal: stopping.signal,
    onError: () => {},
    onFollowing: () => {
      begun++
    },
    shared
  }
  const reading = (async () => {
    for await (const batch of follow(bus, options)) seen.push(...batch.map(({ seq }) => seq))
  })()
  for (let round = 1; round <= 3; round++) {
    await until(() => begun === round)
    await Promise.all(Array.from({ length: 25 }, create))
    await until(() => seen.length === round * 50 - 25)
    for (const name of await consumers()) await api(bus, `CONSUMER.DELETE.CONTROL.${name}`, undefined)
    await Promise.all(Array.from({ length: 25 }, create))
    await until(() => seen.length === round * 50)
  }
  t.strictSame(seen, Array.from({ length: 150 }, (_, i) => first + i + 1))
  t.equal((await consumers()).length, 1)
  stopping.abort()
  await reading
  for (const name of await consumers()) await api(bus, `CONSUMER.DELETE.CONTROL.${name}`, undefined)
}

for (const shared of [false, true]) {
  t.test(
    `a follower whose consumer is lost gives each fact once, in order, and leaves no consumer behind, ${
      shared ? 'at the shared tail' : 'alone'
    }`,
    async t => await losesItsConsumer(t, shared)
  )
}

t.test('those who share the tail of a stream have one consumer, and one decoded fact', async t => {
  const stopping = new AbortController()
  const afterSeq = await lastSequence(bus, 'CONTROL')
  const read = (filter: string) => {
    const facts: AnyFact[] = []
    const options = {
      stream: 'CONTROL',
      filter,
      afterSeq,
      batchMax: 10,
      gather: () => sleep(1),
      signal: stopping.signal,
      onError: () => {},
      shared: true
    }
    const reading = (async () => {
      for await (const batch of follow(bus, options)) facts.push(...batch.map(({ fact }) => fact))
    })()
    return { facts, reading }
  }
  const all = read('control.>')
  const accounts = read('control.*.account.*')
  const none = read('control.*.key.>')
  await until(async () => (await consumers()).length === 1)
  await Promise.all(Array.from({ length: 25 }, create))
  await until(() => all.facts.length === 25 && accounts.facts.length === 25)
  t.ok(all.facts.every((fact, i) => fact === accounts.facts[i]))
  t.strictSame(none.facts, [])
  t.equal((await consumers()).length, 1)
  stopping.abort()
  await Promise.all([all, accounts, none].map(({ reading }) => reading))
})

t.test('who reads slowly holds up nobody at the tail, and misses nothing', async t => {
  const stopping = new AbortController()
  const afterSeq = await lastSequence(bus, 'CONTROL')
  const { promise: held, resolve: goOn } = Promise.withResolvers<void>()
  const read = (wait: () => Promise<void>) => {
    const seen: number[] = []
    const options = {
      stream: 'CONTROL',
      filter: 'control.>',
      afterSeq,
      batchMax: 500,
      gather: () => sleep(1),
      signal: stopping.signal,
      onError: () => {},
      shared: true
    }
    const reading = (async () => {
      for await (const batch of follow(bus, options)) {
        seen.push(...batch.map(({ seq }) => seq))
        await wait()
      }
    })()
    return { seen, reading }
  }
  const quick = read(async () => {})
  const slow = read(() => held)
  const count = 5000
  await Promise.all(Array.from({ length: count }, create))
  await until(() => quick.seen.length === count)
  t.ok(slow.seen.length < count)
  goOn()
  await until(() => slow.seen.length === count)
  await create()
  await until(() => slow.seen.length === count + 1 && quick.seen.length === count + 1)
  t.strictSame(slow.seen, quick.seen)
  t.strictSame(slow.seen, Array.from({ length: count + 1 }, (_, i) => afterSeq + i + 1))
  stopping.abort()
  await Promise.all([quick.reading, slow.reading])
})

t.test('a reader that is ahead of the tail is given nothing twice, and all that follows', async t => {
  const listener = { filter: 'control.>', afterSeq: 5, onError () {}, onFollowing () {} }
  const reader = new TailReader(listener, () => {})
  const data = new Uint8Array()
  for (const seq of [4, 5, 6, 7]) reader.offer({ seq, subject: 'control.acc_1.account.acc_1', data })
  reader.offer({ seq: 8, subject: 'suppression.acc_1.x', data })
  t.same((await reader.batch({ batchMax: 10, gather: () => sleep(1) })).map(({ seq }) => seq), [6, 7])
})

t.test('a filter of subjects matches as NATS does', t => {
  const cases: Array<[string, string[], string[]]> = [
    ['email.>', ['email.1', 'email.1.acc.em.0'], ['email', 'email.', 'emails.1']],
    ['webhook.3.delivery.*', ['webhook.3.delivery.wh_1'], [
      'webhook.3.delivery',
      'webhook.3.delivery.wh_1.outcome',
      'webhook.33.delivery.wh_1',
      'webhook.3xdelivery.wh_1'
    ]],
    ['email.*.acc_1.>', ['email.1.acc_1.em_1.0'], ['email.1.acc_2.em_1.0', 'email.1.acc_1', 'email.acc_1.x.y']],
    ['inbound.mail', ['inbound.mail'], ['inbound', 'inbound.mail.x']]
  ]
  for (const [filter, matching, others] of cases) {
    for (const subject of matching) t.ok(subjectTest(filter)(subject), `${filter} ${subject}`)
    for (const subject of others) t.notOk(subjectTest(filter)(subject), `${filter} ${subject}`)
  }
  t.end()
})

t.test('a follower ends when it is told to, wherever it is', async t => {
  for (const abortAfterMs of [0, 5, 50]) {
    const stopping = new AbortController()
    const options = {
      stream: 'CONTROL',
      filter: 'control.>',
      afterSeq: 0,
      batchMax: 10,
      gather: () => sleep(1),
      signal: stopping.signal,
      onError: () => {}
    }
    const reading = (async () => {
      for await (const _batch of follow(bus, options)) await wait(1)
    })()
    setTimeout(() => stopping.abort(), abortAfterMs)
    await reading
  }
  t.pass('all ended')
})
