import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, headers, type Msg, type NatsConnection } from 'nats'
import t, { type Test } from 'tap'
import { createLog } from '#src/base/log.ts'
import { startSupervised, type Command } from '#src/embedded/supervised-process.ts'
import { findNatsServer } from '#src/embedded/nats-binary.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { api } from '#src/nats/api.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { getDirectBatch } from '#src/nats/direct.ts'
import { copyStream, restoreStream, type StreamAbout } from '#src/nats/snapshot.ts'
import { LONG } from '../support/long.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { until } from '../support/wait.ts'

const MESSAGES = LONG ? 100_000 : 10_000
const BATCH = 1000
const SOON = { silenceMs: 500, endMs: 500 }

async function openOwnBus (t: Test, natsUrl: string): Promise<Bus> {
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'test', log: createLog('silent') })
  t.teardown(() => bus.close())
  return bus
}

/** One atomic batch. */
async function publish (
  bus: Bus,
  batch: string,
  messages: Array<{ subject: string, body: string, extra?: Record<string, string> }>
): Promise<void> {
  for (const [i, { subject, body, extra = {} }] of messages.entries()) {
    const head = headers()
    const last = i === messages.length - 1
    const all = {
      ...extra,
      'Nats-Batch-Id': batch,
      'Nats-Batch-Sequence': String(i + 1),
      ...(last ? { 'Nats-Batch-Commit': '1' } : {})
    }
    for (const [name, value] of Object.entries(all)) head.set(name, value)
    if (!last) bus.nc.publish(subject, body, { headers: head })
    else if ('error' in (await bus.nc.request(subject, body, { headers: head, timeout: 10_000 })).json<object>()) {
      throw new Error('the batch was refused')
    }
  }
}

async function make (bus: Bus, name: string, rest: object = {}): Promise<void> {
  const config = {
    name,
    subjects: [`${name}.>`],
    storage: 'file',
    discard: 'new',
    allow_direct: true,
    allow_atomic: true,
    allow_msg_ttl: true,
    deny_purge: true,
    ...rest
  }
  await api(bus, `STREAM.CREATE.${name}`, config)
}

/** Every message as it lies there: sequence, time, subject, headers and body. */
async function readAll (bus: Bus, name: string): Promise<string[]> {
  const found: string[] = []
  for (let seq = 1;;) {
    const { messages, pending } = await getDirectBatch(bus, name, { seq, batch: 5000, max_bytes: 4_000_000 }, 10_000)
    found.push(...messages.map(textOf))
    if (pending === 0) return found
    seq = Number(messages.at(-1)!.headers!.get('Nats-Sequence')) + 1
  }
}

function textOf ({ headers, data }: Msg): string {
  const own = headers!.keys().filter(key => !['Nats-Num-Pending', 'Nats-Last-Sequence'].includes(key))
  return JSON.stringify([own.map(key => [key, headers!.values(key)]), Buffer.from(data).toString('base64')])
}

async function copy (bus: Bus, name: string): Promise<{ about: StreamAbout, archive: Buffer }> {
  const pieces: Uint8Array[] = []
  const about = await copyStream(bus, name, async bytes => {
    pieces.push(Uint8Array.from(bytes))
  })
  return { about, archive: Buffer.concat(pieces) }
}

async function* inPieces (archive: Buffer, bytes = 100_000): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < archive.length; i += bytes) yield archive.subarray(i, i + bytes)
}

t.test('messages with headers, gaps and TTLs come back as they were, while others are appended', async t => {
  const source = await openQuickNats(t)
  const bus = await openOwnBus(t, source.natsUrl)
  await make(bus, 'MANY')
  for (let b = 0; b < MESSAGES; b += BATCH) {
    const extra: Record<string, string> = b === 0 ? { 'Nats-TTL': '1h' } : {}
    await publish(
      bus,
      `b${b}`,
      Array.from(
        { length: BATCH },
        (_, i) => ({
          subject: `MANY.${(b + i) % 977}`,
          body: `${b + i} ${'ü'.repeat(i % 50)}`,
          extra: { ...extra, 'X-Place': `${b + i}` }
        })
      )
    )
  }
  const gone = [1, 2, 777, MESSAGES / 2, MESSAGES]
  for (const seq of gone) await api(bus, 'STREAM.MSG.DELETE.MANY', { seq })
  await make(bus, 'NONE')
  await make(bus, 'LARGE')
  await publish(
    bus,
    'large',
    Array.from(
      { length: 3 },
      (_, i) => ({ subject: `LARGE.${i}`, body: Buffer.alloc(3_000_000, `${i} and what is next to it; `).toString() })
    )
  )
  const before = { MANY: await readAll(bus, 'MANY'), LARGE: await readAll(bus, 'LARGE') }
  const copying = copy(bus, 'MANY')
  await publish(bus, 'later', [{ subject: 'MANY.later', body: 'appended while it is copied, or after' }])
  const copies = { MANY: await copying, NONE: await copy(bus, 'NONE'), LARGE: await copy(bus, 'LARGE') }
  const target = await openQuickNats(t)
  const there = await openOwnBus(t, target.natsUrl)
  for (const { about, archive } of Object.values(copies)) {
    const state = await restoreStream(there, about, inPieces(archive))
    t.match(state, { last_seq: about.state.last_seq, messages: about.state.messages }, about.config.name)
  }
  const after = (await readAll(there, 'MANY')).filter(text => !text.includes('MANY.later'))
  t.equal(after.length, MESSAGES - gone.length)
  t.equal(after.join('\n') === before.MANY.join('\n'), true, 'byte for byte')
  t.strictSame(await readAll(there, 'LARGE'), before.LARGE)
  const { config, state } = await api<StreamAbout>(there, 'STREAM.INFO.MANY', undefined)
  t.match(config, { subjects: ['MANY.>'], discard: 'new', deny_purge: true, allow_atomic: true, allow_msg_ttl: true })
  t.ok(state.last_seq >= MESSAGES, 'a deleted last message keeps its number')
  const { seq } = (await there.nc.request('MANY.next', 'next', { timeout: 5000 })).json<{ seq: number }>()
  t.equal(seq, state.last_seq + 1, 'it goes on counting where it was')
})

t.test("what has outlived its own time, or the stream's, is not there again, and its number stays taken", async t => {
  const { natsUrl } = await openOwnNats(t)
  const bus = await openOwnBus(t, natsUrl)
  await make(bus, 'SHORT')
  await publish(bus, 'short', [{ subject: 'SHORT.kept', body: 'kept' }, {
    subject: 'SHORT.gone',
    body: 'gone',
    extra: { 'Nats-TTL': '1s' }
  }])
  const { about, archive } = await copy(bus, 'SHORT')
  t.equal(about.state.messages, 2)
  const messages = async () => (await api<StreamAbout>(bus, 'STREAM.INFO.SHORT', undefined)).state.messages
  await until(async () => await messages() === 1)
  await api(bus, 'STREAM.DELETE.SHORT', undefined)
  t.match(await restoreStream(bus, about, inPieces(archive)), { messages: 1, last_seq: 2 })
  await api(bus, 'STREAM.DELETE.SHORT', undefined)
  const aged = { ...about, config: { ...about.config, max_age: 1_000_000_000, duplicate_window: 1_000_000_000 } }
  t.match(await restoreStream(bus, aged, inPieces(archive)), { last_seq: 2 })
  await until(async () => await messages() === 0)
})

t.test('an archive that is cut, changed, or no archive is refused, and so is a stream that is there', async t => {
  const { natsUrl } = await openOwnNats(t)
  const bus = await openOwnBus(t, natsUrl)
  await make(bus, 'ONE')
  for (let b = 0; b < 2; b++) {
    await publish(
      bus,
      `one${b}`,
      Array.from({ length: BATCH }, (_, i) => ({ subject: `ONE.${i}`, body: `${i} ${Math.sin(i + b)}` }))
    )
  }
  const { about, archive } = await copy(bus, 'ONE')
  await t.rejects(restoreStream(bus, about, inPieces(archive)), { code: 10130, message: /already in use/ })
  const remove = () => api(bus, 'STREAM.DELETE.ONE', undefined).catch(() => {})
  const changed = Buffer.from(archive)
  changed[changed.length >> 1]! ^= 0xff
  for (
    const [name, bytes] of Object.entries({
      cut: archive.subarray(0, -5),
      half: archive.subarray(0, archive.length >> 1),
      changed,
      text: Buffer.from('not an archive'),
      nothing: Buffer.alloc(0)
    })
  ) {
    await remove()
    await t.rejects(
      restoreStream(bus, about, inPieces(bytes, 1000)),
      { name: 'Error', message: /JetStream refused/ },
      name
    )
  }
  await remove()
  await t.rejects(copy(bus, 'ONE'), { code: 10059 }, 'nor is one copied that is not there')
  await t.rejects(
    restoreStream(
      bus,
      about,
      (async function* () {
        yield archive.subarray(0, 1000)
        throw new Error('the disk is broken')
      })()
    ),
    { message: 'the disk is broken' }
  )
  await remove()
  t.match(await restoreStream(bus, about, inPieces(archive)), { messages: 2000 }, 'none of them left anything behind')
})

t.test('a server that falls silent, gives up or loses a piece ends a copy and a restore', async t => {
  const { bus, server } = await openPuppet(t)
  const about = { config: { name: 'X' }, state: { messages: 1, bytes: 1, first_seq: 1, last_seq: 1 } }
  const full = Buffer.alloc(1024, 'x')
  let perform: (inbox: string) => void = () => {}
  server.subscribe('$JS.API.STREAM.SNAPSHOT.X', {
    callback: (_error, message) => {
      message.respond(JSON.stringify(about))
      perform(message.json<{ deliver_subject: string }>().deliver_subject)
    }
  })
  const piece = (inbox: string, number: number) =>
    server.publish(inbox, full, { reply: `ack.X.${full.length}.${number}` })
  const copied = async () => {
    let bytes = 0
    await copyStream(bus, 'X', async more => {
      bytes += more.length
    }, SOON)
    return bytes
  }
  await server.flush()
  await t.rejects(copied(), { name: 'Late', message: 'NATS fell silent' }, 'after the answer')
  perform = inbox => piece(inbox, 1)
  await t.rejects(copied(), { name: 'Late', message: 'NATS fell silent' }, 'after a piece')
  perform = inbox => [1, 3].forEach(number => piece(inbox, number))
  await t.rejects(copied(), { message: 'piece 2 is missing' })
  perform = inbox => server.publish(inbox, '', { headers: headers(408, 'No Flow Response') })
  await t.rejects(copied(), { message: 'NATS gave up: No Flow Response (408)' })
  perform = inbox => {
    piece(inbox, 1)
    server.publish(inbox, 'rest')
    server.publish(inbox, '', { headers: headers(204, 'Whole') })
  }
  t.equal(await copied(), full.length + 4)
  server.subscribe('$JS.API.STREAM.RESTORE.X', {
    callback: (_error, message) => {
      message.respond('{"deliver_subject":"pieces"}')
    }
  })
  const pieces: number[] = []
  let answers = 2
  server.subscribe('pieces', {
    callback: (_error, message) => {
      pieces.push(message.data.length)
      if (answers-- > 0) message.respond()
    }
  })
  await server.flush()
  await t.rejects(restoreStream(bus, about, inPieces(Buffer.alloc(300_000)), SOON), {
    name: 'Late',
    message: 'NATS fell silent'
  })
  t.equal(pieces.at(-1), 0, 'the server is told that no more comes')
})

t.test('a line that breaks ends a copy, even when it is there again at once', async t => {
  const { bus, server, restart } = await openPuppet(t)
  const asked = new Promise<void>(resolve => {
    server.subscribe('$JS.API.STREAM.SNAPSHOT.X', {
      callback: (_error, message) => {
        message.respond('{"config":{"name":"X"},"state":{}}')
        resolve()
      }
    })
  })
  await server.flush()
  const copying = copyStream(bus, 'X', async () => {})
  copying.catch(() => {})
  await asked
  await restart()
  await t.rejects(copying, { name: 'Late', message: 'the connection to NATS broke' })
})

/** A NATS without JetStream, and a connection to it that plays JetStream. */
async function openPuppet (t: Test): Promise<{ bus: Bus, server: NatsConnection, restart: () => Promise<void> }> {
  const { natsUrl, restart } = await openNats(t, () => '')
  const bus = await openOwnBus(t, natsUrl)
  const server = await connect({ servers: natsUrl, waitOnFirstConnect: true })
  t.teardown(() => server.close())
  return { bus, server, restart }
}

/** A nats-server that fsyncs nothing: what it stores in this test need not outlive it. */
function openQuickNats (t: Test): Promise<{ natsUrl: string }> {
  return openNats(t, folder => `max_payload: 8MB\njetstream { store_dir: "${folder}" }\n`)
}

async function openNats (
  t: Test,
  configOf: (folder: string) => string
): Promise<{ natsUrl: string, restart: () => Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-snapshot-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const port = await choosePort(null, null, '')
  const file = await findNatsServer({
    natsBin: process.env.JETPOST_NATS_BIN || null,
    dataDir: folder,
    say: () => {},
    signal: AbortSignal.timeout(60_000)
  })
  const config = join(folder, 'nats-server.conf')
  writeFileSync(config, `listen: "127.0.0.1:${port}"\n${configOf(folder)}`)
  const command: Command = {
    file,
    args: ['--config', config],
    env: process.env,
    logFile: join(folder, 'log'),
    stopSignal: 'SIGTERM',
    forceSignal: 'SIGKILL'
  }
  let running = await startSupervised(command)
  t.teardown(() => running.stop())
  const restart = async () => {
    await running.stop()
    running = await startSupervised(command)
  }
  return { natsUrl: `nats://127.0.0.1:${port}`, restart }
}
