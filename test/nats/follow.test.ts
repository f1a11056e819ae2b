import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { AccountCreated } from '#streams/account/facts.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { newId } from '#src/base/id.ts'
import { api } from '#src/nats/api.ts'
import { createAppender } from '#src/nats/append.ts'
import { follow } from '#src/nats/follow.ts'
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

t.test('a follower whose consumer is lost gives each fact once, in order, and leaves no consumer behind', async t => {
  const stopping = new AbortController()
  const seen: number[] = []
  let begun = 0
  const options = {
    stream: 'CONTROL',
    filter: 'control.>',
    afterSeq: 0,
    batchMax: 10,
    gatherMs: 1,
    signal: stopping.signal,
    onError: () => {},
    onFollowing: () => {
      begun++
    }
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
  t.strictSame(seen, Array.from({ length: 150 }, (_, i) => i + 1))
  t.equal((await consumers()).length, 1)
  stopping.abort()
  await reading
})

t.test('a follower ends when it is told to, wherever it is', async t => {
  for (const abortAfterMs of [0, 5, 50]) {
    const stopping = new AbortController()
    const options = {
      stream: 'CONTROL',
      filter: 'control.>',
      afterSeq: 0,
      batchMax: 10,
      gatherMs: 1,
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
