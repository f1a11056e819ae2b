import t from 'tap'
import { countAfter } from '#src/nats/consumer.ts'
import type { Bus } from '#src/nats/connect.ts'
import { STREAM_NOT_FOUND } from '#src/nats/errors.ts'
import { getMessage } from '#src/nats/get.ts'
import { readMessages, readRange, type RangeOptions } from '#src/nats/range.ts'
import { loadMail } from '../bench/rebuild-facts.ts'
import { openBus } from '../support/bus.ts'
import { LONG_ONLY } from '../support/long.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { until } from '../support/wait.ts'

const STREAM = 'EMAILS'

async function readAll (
  bus: Bus,
  options: Partial<RangeOptions>,
  onMessages = async (_count: number): Promise<void> => {}
): Promise<number[]> {
  const seqs: number[] = []
  const signal = AbortSignal.timeout(60_000)
  for await (
    const messages of readRange(bus, {
      stream: STREAM,
      filters: ['email.>'],
      afterSeq: 0,
      endSeq: Infinity,
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
  t.strictSame(await readAll(bus, { endSeq: 10 }), [], 'an empty stream has nothing')
  const last = await loadMail(bus, 1000)
  t.ok(last > 3000)
  t.strictSame(await readAll(bus, {}), upTo(last), 'without an end it ends with what there is')
  t.strictSame(await readAll(bus, { endSeq: 2222 }), upTo(2222))
  t.strictSame(await readAll(bus, { afterSeq: last - 10, endSeq: last }), upTo(last).slice(-10))
  t.strictSame(await readAll(bus, { afterSeq: last, endSeq: last }), [])
  const partitions = await Promise.all(
    Array.from(
      { length: 16 },
      async (_, partition) => await readAll(bus, { filters: [`email.${partition}.>`], endSeq: last })
    )
  )
  t.strictSame(partitions.flat().toSorted((a, b) => a - b), upTo(last))
  t.strictSame(partitions.map(seqs => seqs.toSorted((a, b) => a - b)), partitions, 'under a filter too')
  t.equal(await countAfter(bus, STREAM, 'email.1.>', partitions[1]![9]!), partitions[1]!.length - 10)
  for await (
    const [first] of readRange(bus, {
      stream: STREAM,
      filters: ['email.>'],
      afterSeq: 0,
      endSeq: 1,
      signal: new AbortController().signal,
      onError: () => {}
    })
  ) {
    t.match(first, { stream: STREAM, seq: 1, subject: /^email\.\d+\.acc_first\.em_/ })
    t.match(JSON.parse(Buffer.from(first!.data).toString()), { type: 'email.attempted' })
    t.ok(Math.abs(first!.storedMs - Date.now()) < 60_000, 'with the time it was stored at')
  }
})

t.test('several filters at once, and headers without bodies', async t => {
  const { bus } = await openBus(t)
  const last = await loadMail(bus, 300)
  const filters = ['email.1.>', 'email.2.>', 'email.3.>']
  const expected = (await Promise.all(filters.map(async filter => await readAll(bus, { filters: [filter] })))).flat()
  t.strictSame(await readAll(bus, { filters }), expected.toSorted((a, b) => a - b))
  let count = 0
  for await (const messages of readRange(bus, { stream: STREAM, afterSeq: 0, headersOnly: true })) {
    count += messages.length
    t.ok(messages.every(({ data }) => data.length === 0))
    t.ok(
      messages.every(message => Number(message.header('Nats-Msg-Size')) > 0),
      'and the server says how long they are'
    )
  }
  t.equal(count, last, 'without an end it ends where the stream does')
})

t.test('one message is the same message, no matter who is asked and however it is read', async t => {
  const { bus } = await openBus(t)
  const last = 5
  for (let i = 1; i <= last; i++) {
    await bus.js.publish(`email.${i}.acc_first.em_${i}.0`, `{"n":${i}}`, { msgID: `ev_${i}` })
  }
  const position = { filter: 'email.*.acc_first.>', afterSeq: last - 1 }
  const { messages: [paged], pending } = await readMessages(bus, STREAM, position, { max: 10 })
  t.equal(pending, 0)
  t.equal((await readMessages(bus, STREAM, { ...position, afterSeq: last - 3 }, { max: 1 })).pending, 2)
  t.strictSame(await readMessages(bus, STREAM, { ...position, afterSeq: last }, { max: 1 }), {
    messages: [],
    pending: 0
  })
  const found = [
    paged,
    await getMessage(bus, STREAM, { seq: last }),
    await getMessage(bus, STREAM, { seq: last }, 'leader')
  ]
  for await (const messages of readRange(bus, { stream: STREAM, afterSeq: last - 1 })) found.push(...messages)
  const plain = found.map(message => ({
    ...message,
    data: Buffer.from(message!.data).toString(),
    header: ['Nats-Msg-Id', 'No-Such'].map(name => message!.header(name))
  }))
  t.equal(plain.length, 4)
  t.match(plain[0], { stream: STREAM, seq: last, data: '{"n":5}', header: ['ev_5', ''] })
  for (const other of plain.slice(1)) t.match(other, plain[0]!)
})

t.test('a stream that cannot be read is an error after eight interruptions, or told for ever', async t => {
  const { bus } = await openBus(t)
  const range = { stream: 'NONE', afterSeq: 0, endSeq: 1 }
  await t.rejects(readRange(bus, range).next(), { code: STREAM_NOT_FOUND })
  const stopping = new AbortController()
  const errors: Error[] = []
  const onError = (error: Error) => {
    if (errors.push(error) > 9) stopping.abort()
  }
  t.strictSame(await readAll(bus, { ...range, signal: stopping.signal, onError }).catch(() => []), [])
  t.equal(errors.length, 10)
})

t.test('messages as large as there can be come too', async t => {
  const { bus } = await openBus(t)
  const largest = bus.nc.info!.max_payload
  for (let i = 0; i < 3; i++) await bus.js.publish(`email.0.acc_test.em_${i}.0`, new Uint8Array(largest - 100))
  t.strictSame(await readAll(bus, { endSeq: 3 }), [1, 2, 3])
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
    const messages of readRange(bus, {
      stream: STREAM,
      filters: ['email.>'],
      afterSeq: 0,
      endSeq: last,
      signal: stopping.signal,
      onError: () => {}
    })
  ) {
    count += messages.length
    stopping.abort()
  }
  t.ok(count < last, `${count} had come`)
})
