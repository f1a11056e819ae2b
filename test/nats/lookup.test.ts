import { headers, type Msg, type MsgHdrs } from 'nats'
import t, { type Test } from 'tap'
import { SuppressionAdded } from '#streams/suppression/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { timestamp } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { api } from '#src/nats/api.ts'
import { createAppender } from '#src/nats/append.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { getFact } from '#src/nats/get.ts'
import { createLookup } from '#src/nats/lookup.ts'
import { openBus } from '../support/bus.ts'
import { LONG_ONLY } from '../support/long.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { freshAccount } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const ACCOUNT = 'acc_test'
const QUESTIONS = '$JS.API.DIRECT.GET.CONTROL'

const subjectOf = (name: string): string => subjects.suppression(ACCOUNT, sha256Hex(name))

function factOf (name: string): SuppressionAdded {
  const standing = [{ reason: 'manual' as const, email: null, since: timestamp(Date.now()) }]
  return stamp(SuppressionAdded, { account: ACCOUNT, correlation: 'test', causation: null }, {
    hash: sha256Hex(name),
    address: name,
    reason: 'manual',
    standing
  }, Date.now())
}

/** Stores a fact for each name; resolves to their sequences. */
function store (bus: Bus, names: string[]): Promise<number[]> {
  return createAppender(bus).append(names.map(name => ({ fact: factOf(name) })))
}

/** Another connection to the same account. */
async function openPeer (t: Test, natsUrl: string): Promise<Bus> {
  const peer = await connectBus({ url: natsUrl, creds: null, name: 'peer', log: createLog('silent') })
  t.teardown(() => peer.close())
  return peer
}

/** Hears what the server is asked from now on: how many subjects in each request. */
async function overhear (t: Test, natsUrl: string): Promise<number[]> {
  const peer = await openPeer(t, natsUrl)
  const asked: number[] = []
  peer.nc.subscribe(QUESTIONS, {
    callback: (_error, message) => asked.push(message.json<{ multi_last: string[] }>().multi_last.length)
  })
  await peer.nc.flush()
  return asked
}

/** The message of the error it ends with, which must be one that `isUnanswered` knows. */
async function unanswered (asking: Promise<unknown>): Promise<string> {
  const error: unknown = await asking.then(() => new Error('it was answered'), thrown => thrown)
  if (!isUnanswered(error)) throw error
  return (error as Error).message
}

const { bus, natsUrl } = await openBus(t)
const lookup = createLookup(bus, 'CONTROL')
/** The addresses of what is found. */
const look = async (names: string[]) =>
  (await lookup.last(names.map(subjectOf))).map(fact => (fact as SuppressionAdded | null)?.data.address ?? null)

t.test('in a stream that is empty, and where no subject has anything, nothing is found', async t => {
  t.strictSame(await look(['a']), [null])
  t.strictSame(await look([]), [])
  await store(bus, ['elsewhere'])
  t.strictSame(await look(['a', 'b']), [null, null])
})

t.test('the last fact of each subject comes in the order asked, null for those that have none', async t => {
  await store(bus, ['one', 'two', 'one', 'three'])
  const last = factOf('two')
  await createAppender(bus).append([{ fact: last }])
  t.strictSame(await look(['three', 'none', 'one', 'two', 'one']), ['three', null, 'one', 'two', 'one'])
  t.strictSame(await lookup.last([subjectOf('two')]), [last])
})

t.test('what is deleted is not there any more, and what was before it is the last again', async t => {
  const [, first, second] = await store(bus, ['stays', 'goes', 'goes'])
  await api(bus, 'STREAM.MSG.DELETE.CONTROL', { seq: second })
  t.strictSame(await look(['stays', 'goes']), ['stays', 'goes'])
  await api(bus, 'STREAM.MSG.DELETE.CONTROL', { seq: first })
  t.strictSame(await look(['stays', 'goes']), ['stays', null])
})

t.test('callers share requests: one on its way at a time, and who comes meanwhile rides the next', async t => {
  const names = Array.from({ length: 500 }, (_, i) => `shared ${i}`)
  await store(bus, names.filter((_name, i) => i % 3 === 0))
  const asked = await overhear(t, natsUrl)
  const first = look(['shared 0'])
  // After its request has gone out, and before the answer can be read.
  await new Promise(setImmediate)
  const rest = names.map(name => look([name]))
  t.strictSame(await first, ['shared 0'])
  t.strictSame(await Promise.all(rest), names.map((name, i) => [i % 3 === 0 ? name : null]))
  await until(() => asked.length >= 2)
  t.strictSame(asked, [1, 500])
})

t.test('more subjects than a request may hold go in several, and no caller sees it', async t => {
  const names = Array.from({ length: 1300 }, (_, i) => `many ${i}`)
  for (let i = 0; i < names.length; i += 250) {
    await store(
      bus,
      names.slice(i, i + 250).filter((_name, k) => k % 2 === 0)
    )
  }
  const asked = await overhear(t, natsUrl)
  t.strictSame(await look(names), names.map((name, i) => (i % 2 === 0 ? name : null)))
  await until(() => asked.length >= 3)
  t.strictSame(asked, [512, 512, 276])
})

t.test('a request of the largest size is answered whole, and one with a wildcard never asked', async t => {
  await store(bus, Array.from({ length: 513 }, (_, i) => `full ${i}`))
  t.notOk((await look(Array.from({ length: 512 }, (_, i) => `full ${i}`))).includes(null))
  await t.rejects(lookup.last(['suppression.>']), /exact/)
  await t.rejects(lookup.last([`suppression.*.${sha256Hex('one')}`]), /exact/)
})

t.test('a fact that does not fit its schema fails those who ask for it, and nobody else', async t => {
  await bus.js.publish(subjectOf('junk'), JSON.stringify({ ...factOf('junk'), data: {} }))
  await store(bus, ['fine'])
  const [junk, fine] = await Promise.allSettled([look(['junk']), look(['fine'])])
  t.match((junk as PromiseRejectedResult).reason, { message: /does not fit/ })
  t.strictSame((fine as PromiseFulfilledResult<unknown>).value, ['fine'])
})

t.test('beyond a bound nobody waits: the error comes at once', async t => {
  const crowd = Array.from({ length: 40 }, () => look(Array.from({ length: 500 }, (_, i) => `crowd ${i}`)))
  await t.rejects(look(['one']), { message: /20000 subjects wait/ })
  await Promise.all(crowd)
  t.strictSame(await look(['one']), ['one'])
})

t.test('the leader tells the last fact of a subject and its sequence, or that there is none', async t => {
  t.equal(await getFact(bus, 'CONTROL', { last_by_subj: subjectOf('leader') }, 'leader'), null)
  await store(bus, ['leader'])
  const [seq] = await store(bus, ['leader'])
  t.match(await getFact(bus, 'CONTROL', { last_by_subj: subjectOf('leader') }, 'leader'), {
    seq,
    fact: { data: { address: 'leader' } }
  })
})

t.test('the leader tells the fact at a sequence, or that it is gone', async t => {
  const [seq] = await store(bus, ['placed'])
  t.match(await getFact(bus, 'CONTROL', { seq: seq! }, 'leader'), {
    seq,
    subject: subjectOf('placed'),
    fact: { data: { address: 'placed' } }
  })
  t.equal(await getFact(bus, 'CONTROL', { seq: seq! + 1 }, 'leader'), null)
  await api(bus, 'STREAM.MSG.DELETE.CONTROL', { seq })
  t.equal(await getFact(bus, 'CONTROL', { seq: seq! }, 'leader'), null)
  await t.rejects(getFact(bus, 'NONE', { seq: seq! }, 'leader'))
})

/** The parts of an answer as the server words them; forged, they say what no real server says on command. */
type Part = { head: MsgHdrs, body?: string }
const fact = (name: string, seq: number, before: number, pending: number): Part => {
  const head = headers()
  const values = {
    'Nats-Stream': 'CONTROL',
    'Nats-Subject': subjectOf(name),
    'Nats-Sequence': seq,
    'Nats-Num-Pending': pending,
    'Nats-Last-Sequence': before
  }
  for (const [key, value] of Object.entries(values)) head.set(key, String(value))
  return { head, body: JSON.stringify(factOf(name)) }
}
const end = (last: number, pending = 0): Part => {
  const head = headers(204, 'EOB')
  head.set('Nats-Num-Pending', String(pending))
  head.set('Nats-Last-Sequence', String(last))
  return { head }
}
const status = (code: number, description: string): Part => ({ head: headers(code, description) })

t.test('an answer that is not whole is an error, wherever the gap is', async t => {
  const { natsUrl } = freshAccount()
  const asker = await openPeer(t, natsUrl)
  const forger = await openPeer(t, natsUrl)
  const forged = createLookup(asker, 'CONTROL')
  const ask = () => forged.last(['a', 'b', 'c'].map(subjectOf))
  t.match(await unanswered(ask()), /503/, 'no stream, nobody there')

  let parts: Part[] = []
  const respond = (message: Msg) => {
    for (const { head, body } of parts) forger.nc.publish(message.reply!, body, { headers: head })
  }
  forger.nc.subscribe(QUESTIONS, { callback: (_error, message) => respond(message) })
  await forger.nc.flush()
  const [a, b, c] = [fact('a', 3, 0, 2), fact('b', 7, 3, 1), fact('c', 9, 7, 0)]
  const wrong: Array<[string, Part[]]> = [
    ['the first is lost', [b, c, end(9)]],
    ['one in the middle is lost', [a, c, end(9)]],
    ['the last is lost', [a, b, end(9)]],
    ['all are lost', [end(9)]],
    ['one comes twice', [a, a, b, c, end(9)]],
    ['they come in another order', [b, a, c, end(9)]],
    ['the server stops early', [a, b, end(7, 1)]],
    ['an end without anything', [end(0)]],
    ['an end that says nothing', [status(204, 'EOB')]],
    ['a message that cannot be read', [status(404, 'Message Not Found')]],
    ['a message that cannot be read among others', [a, status(404, 'Message Not Found')]],
    ['none, after some', [a, status(404, 'No Results')]],
    ['too many', [status(413, 'Too Many Results')]],
    ['a malformed request', [status(408, 'Bad Request')]],
    ['a broken store', [status(500, 'store is closed')]],
    ['a subject nobody asked for', [fact('d', 3, 0, 0), end(3)]],
    ['no headers at all', [{ head: headers() }]]
  ]
  for (const [what, answer] of wrong) {
    parts = answer
    t.match(await unanswered(ask()), /^CONTROL cannot be read: /, what)
  }
  parts = [a, b, c, end(9)]
  t.strictSame(
    (await ask()).map(found => (found as SuppressionAdded).data.address),
    ['a', 'b', 'c'],
    'the same parts without a gap are an answer'
  )
  parts = [status(404, 'No Results')]
  t.strictSame(await ask(), [null, null, null])
})

t.test('silence is an error after 2 s, for who waits behind it too, and the next answer is heard again', async t => {
  const { natsUrl } = freshAccount()
  const asker = await openPeer(t, natsUrl)
  const mute = await openPeer(t, natsUrl)
  const quiet = createLookup(asker, 'CONTROL')
  let parts = [fact('a', 3, 0, 0)]
  mute.nc.subscribe(QUESTIONS, {
    callback: (_error, message) => {
      for (const { head, body } of parts) mute.nc.publish(message.reply!, body, { headers: head })
    }
  })
  await mute.nc.flush()
  const waits: number[] = []
  const ask = async () => {
    const beginMs = performance.now()
    await unanswered(quiet.last([subjectOf('a')]))
    waits.push(performance.now() - beginMs)
  }
  const first = ask()
  await new Promise(setImmediate)
  await Promise.all([first, ...Array.from({ length: 20 }, ask)])
  t.ok(waits.every(ms => ms > 1900 && ms < 3500), `${Math.min(...waits)} to ${Math.max(...waits)} ms`)
  parts = [fact('a', 3, 0, 0), end(3)]
  t.match(await quiet.last([subjectOf('a')]), [{ data: { address: 'a' } }])
})

t.test(
  'a server that is killed and restarted: errors perhaps, but no suppressed address is taken for free',
  LONG_ONLY,
  async t => {
    const server = await openOwnNats(t)
    const { bus } = await openBus(t, server.natsUrl)
    const survivor = createLookup(bus, 'CONTROL')
    const names = Array.from({ length: 60 }, (_, i) => `kept ${i}`)
    await store(bus, names)
    const counts = { found: 0, unanswered: 0 }
    const over = new AbortController()
    const caller = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const found = await survivor.last(names.map(subjectOf)).catch((error: unknown) => {
          if (!isUnanswered(error)) throw error
          return null
        })
        if (found?.some(fact => fact === null)) throw new Error('a fact was not found')
        counts[found === null ? 'unanswered' : 'found']++
      }
    }
    const callers = Promise.all(Array.from({ length: 20 }, caller))
    // Heard of below; it must not end the process before.
    callers.catch(() => over.abort())
    for (let round = 0; round < 3 && !over.signal.aborted; round++) {
      const before = counts.found
      await until(() => over.signal.aborted || counts.found > before + 50)
      await server.kill()
      await server.start()
    }
    const before = counts.found
    await until(() => over.signal.aborted || counts.found > before + 50)
    over.abort()
    await callers
    t.ok(counts.unanswered > 0, `${counts.unanswered} unanswered, ${counts.found} found`)
  }
)
