import t from 'tap'
import { countAfter, readBulk, type BulkOptions } from '#src/nats/bulk.ts'
import type { Bus } from '#src/nats/connect.ts'
import { loadMail } from '../bench/rebuild-facts.ts'
import { openBus } from '../support/bus.ts'
import { LONG_ONLY } from '../support/long.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { until } from '../support/wait.ts'

const STREAM = 'EMAILS'

async function readAll (
  bus: Bus,
  options: Partial<BulkOptions>,
  onMessages = async (_count: number): Promise<void> => {}
): Promise<number[]> {
  const seqs: number[] = []
  const signal = AbortSignal.timeout(60_000)
  for await (
    const messages of readBulk(bus, {
      stream: STREAM,
      filter: 'email.>',
      afterSeq: 0,
      upToSeq: Infinity,
      signal,
      onError: () => {},
      ...options
    })
  ) {
    seqs.push(...messages.map(({ seq }) => seq))
    await onMessages(seqs.length)
  }
  signal.throwIfAborted()
  return seqs
}

const upTo = (last: number): number[] => Array.from({ length: last }, (_, i) => i + 1)

t.test('each message comes once and in order, up to the end that was asked for', async t => {
  const { bus } = await openBus(t)
  t.strictSame(await readAll(bus, { upToSeq: 10 }), [], 'an empty stream has nothing')
  const last = await loadMail(bus, 1000)
  t.ok(last > 3000)
  t.strictSame(await readAll(bus, {}), upTo(last), 'without an end it ends with what there is')
  t.strictSame(await readAll(bus, { upToSeq: 2222 }), upTo(2222))
  t.strictSame(await readAll(bus, { afterSeq: last - 10, upToSeq: last }), upTo(last).slice(-10))
  t.strictSame(await readAll(bus, { afterSeq: last, upToSeq: last }), [])
  const partitions = await Promise.all(
    Array.from(
      { length: 16 },
      async (_, partition) => await readAll(bus, { filter: `email.${partition}.>`, upToSeq: last })
    )
  )
  t.strictSame(partitions.flat().toSorted((a, b) => a - b), upTo(last))
  t.strictSame(partitions.map(seqs => seqs.toSorted((a, b) => a - b)), partitions, 'under a filter too')
  t.equal(await countAfter(bus, STREAM, 'email.1.>', partitions[1]![9]!), partitions[1]!.length - 10)
  for await (
    const [first] of readBulk(bus, {
      stream: STREAM,
      filter: 'email.>',
      afterSeq: 0,
      upToSeq: 1,
      signal: new AbortController().signal,
      onError: () => {}
    })
  ) {
    t.match(first, { stream: STREAM, seq: 1, subject: /^email\.\d+\.acc_first\.em_/ })
    t.match(JSON.parse(Buffer.from(first!.data).toString()), { type: 'email.attempted' })
    t.ok(Math.abs(first!.storedMs - Date.now()) < 60_000, 'with the time it was stored at')
  }
})

t.test('messages as large as there can be come too', async t => {
  const { bus } = await openBus(t)
  const largest = bus.nc.info!.max_payload
  for (let i = 0; i < 3; i++) await bus.js.publish(`email.0.acc_test.em_${i}.0`, new Uint8Array(largest - 100))
  t.strictSame(await readAll(bus, { upToSeq: 3 }), [1, 2, 3])
})

t.test('a reader that is slow holds up the server, not the other way round', async t => {
  const { bus } = await openBus(t)
  await loadMail(bus, 2000)
  const before = bus.nc.stats().inMsgs
  let held = 0
  await readAll(bus, {}, async count => {
    await bus.nc.flush()
    held = Math.max(held, bus.nc.stats().inMsgs - before - count)
  })
  t.ok(held <= 2600, `${held} were on their way at most`)
})

t.test('it goes on after the last message it gave when NATS dies and comes back', LONG_ONLY, async t => {
  const nats = await openOwnNats(t)
  const { bus } = await openBus(t, nats.natsUrl)
  const last = await loadMail(bus, 2000)
  let killed = false
  const troubles: string[] = []
  const seqs = await readAll(bus, { onError: error => troubles.push(error.message) }, async count => {
    if (killed || count < 2000) return
    killed = true
    await nats.kill()
    await nats.start()
    await until(() => bus.upSinceMs() !== null)
  })
  t.strictSame(seqs, upTo(last))
  t.ok(troubles.length > 0, troubles.join(', '))
})

t.test('it ends when it is told to', async t => {
  const { bus } = await openBus(t)
  const last = await loadMail(bus, 1000)
  const stopping = new AbortController()
  let count = 0
  for await (
    const messages of readBulk(bus, {
      stream: STREAM,
      filter: 'email.>',
      afterSeq: 0,
      upToSeq: last,
      signal: stopping.signal,
      onError: () => {}
    })
  ) {
    count += messages.length
    stopping.abort()
  }
  t.ok(count < last, `${count} had come`)
})
