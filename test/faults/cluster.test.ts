import { headers } from 'nats'
import { setImmediate } from 'node:timers/promises'
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { loadRequest } from '#src/actions/stored-request.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import { api } from '#src/nats/api.ts'
import { createAppender, type Append } from '#src/nats/append.ts'
import { CONTENT_STREAM } from '#src/nats/blob-transfer.ts'
import { deleteSecurely, openBlobs } from '#src/nats/blobs.ts'
import { certainly, factAt, isBeyond } from '#src/nats/certain.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { lastSequence } from '#src/nats/get.ts'
import { encodeFact } from '#streams/catalog.ts'
import { subjects } from '#streams/subjects.ts'
import { requested } from '../support/facts.ts'
import { openCluster, type ClusterServer } from '../support/nats-cluster.ts'
import { until } from '../support/wait.ts'

const cluster = await openCluster(t)
const { servers } = cluster
await cluster.make('REQUESTS', 'EMAILS', CONTENT_STREAM)
const anywhere = await cluster.connect(servers[0]!)

/** An email's request, ready to be appended. */
function request (): { email: string, part: Append } {
  const email = newId('em', Date.now())
  return { email, part: { fact: { ...requested({ email }), id: newId('ev', Date.now()) } } }
}

/** Stores so many requests by way of one server; resolves to where they lie. */
async function store (bus: Bus, count: number): Promise<Array<{ email: string, seq: number }>> {
  const appender = createAppender(bus)
  return await Promise.all(Array.from({ length: count }, async () => {
    const { email, part } = request()
    return { email, seq: (await appender.append([part], 20_000))[0]! }
  }))
}

interface ReplicaInfo {
  name: string
  current: boolean
  offline?: boolean
  /** Since it was heard, in ns; 0 where this leader never has. */
  active: number
}

/** How the leader of REQUESTS sees another server. */
async function replica (bus: Bus, name: string): Promise<ReplicaInfo> {
  const { cluster } = await api<{ cluster: { replicas: ReplicaInfo[] } }>(bus, 'STREAM.INFO.REQUESTS', undefined)
  return cluster.replicas.find(replica => replica.name === name)!
}

t.test('a replica that was away makes no acknowledged request look gone', async t => {
  const leader = await cluster.leaderOf(anywhere, 'REQUESTS')
  const follower = servers.find(server => server !== leader)!
  const third = servers.find(server => server !== leader && server !== follower)!
  const buses = [await cluster.connect(leader), await cluster.connect(third)]
  const near = buses[0]!
  await store(near, 1)
  follower.freeze()
  const stored = await store(near, 650)
  await until(async () => {
    const { active, offline = false } = await replica(near, follower.name)
    return offline || active > 6e9
  })
  follower.thaw()
  const said = { found: 0, gone: 0, unclear: 0 }
  const look = async (bus: Bus) => {
    for (const { seq, email } of stored.slice(-300)) {
      const found = await loadRequest(bus, seq, email).catch(error => {
        if (isUnanswered(error)) return undefined
        throw error
      })
      said[found === undefined ? 'unclear' : found === null ? 'gone' : 'found']++
    }
  }
  do await Promise.all(buses.map(look))
  while (!(await replica(near, follower.name)).current)
  t.equal(said.gone, 0, JSON.stringify(said))
  t.ok(said.found > 0, JSON.stringify(said))
})

/** Asks until somebody answers: a thaw may be followed by an election. */
async function answered<T> (ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!isUnanswered(error)) throw error
    }
  }
}

/** A connection to any of the three, and the server it came to. */
async function somewhere (t: Test, name: string): Promise<{ bus: Bus, at: ClusterServer }> {
  const url = servers.map(server => server.url).join()
  const bus = await connectBus({ url, creds: null, name, log: createLog('silent') })
  t.teardown(() => bus.close())
  return { bus, at: servers.find(server => server.name === bus.nc.info!.server_name)! }
}

t.test('a server that hangs is left with what is still to be written to it; one connection is there after', async t => {
  const { bus, at } = await somewhere(t, 'leaves')
  const appender = createAppender(bus)
  await appender.append([request().part], 20_000)
  let heard = 0
  bus.hear('heard', () => heard++)
  at.freeze()
  for (let i = 0; i < 5; i++) bus.nc.publish('bulk', new Uint8Array(4_000_000))
  const { email, part } = request()
  const [seq] = await appender.append([part], 20_000)
  t.not(bus.nc.info!.server_name, at.name)
  const another = servers.find(({ name }) => name !== at.name && name !== bus.nc.info!.server_name)!
  const beyond = await cluster.connect(another)
  await until(async () => {
    beyond.nc.publish('heard')
    return heard > 0
  })
  at.thaw()
  await until(async () => await at.connections('leaves') === 0)
  const counts = await Promise.all(servers.map(server => server.connections('leaves')))
  t.equal(counts.reduce((sum, count) => sum + count), 1)
  t.match(await answered(() => loadRequest(bus, seq!, email)), { fact: { data: { email } } })
})

t.test('a server that is cut off from the others is left: it answers, and acknowledges nothing', async t => {
  const { bus, at } = await somewhere(t, 'cut off')
  const appender = createAppender(bus)
  await appender.append([request().part], 20_000)
  // So that it is no newcomer, which stays a while.
  await until(() => Date.now() - bus.upSinceMs()! > 10_000)
  at.cutOff()
  t.teardown(() => at.join())
  const [seq] = await appender.append([request().part], 40_000)
  t.ok(seq! > 0)
  t.not(bus.nc.info!.server_name, at.name)
  at.join()
})

t.test('what is put in the object store while a server hangs is there', async t => {
  const { bus, at } = await somewhere(t, 'puts')
  const blobs = await openBlobs(bus)
  const bytes = randomBytes(300_000)
  await answered(() => blobs.put('before', bytes))
  at.freeze()
  const put = await blobs.put('while', bytes).then(() => true, error => isUnanswered(error))
  at.thaw()
  t.equal(put, true)
  await until(async () => await blobs.put('after', bytes).then(() => true, () => false))
  t.strictSame(Buffer.from((await answered(() => blobs.get('after', true)))!), bytes)
})

t.test('what was deleted is gone, also where nothing lies behind it', async t => {
  const places = (await store(anywhere, 3)).sort((a, b) => a.seq - b.seq)
  const [kept, ...others] = places
  for (const { seq, email } of others) {
    await answered(() => deleteSecurely(anywhere, 'REQUESTS', [seq]))
    // A replica that acknowledged nothing of it may still show it for a moment.
    await until(async () => await answered(() => factAt(anywhere, 'REQUESTS', seq)) === null)
    await until(async () => await answered(() => loadRequest(anywhere, seq, email)) === null)
  }
  t.match(await answered(() => factAt(anywhere, 'REQUESTS', kept!.seq)), { seq: kept!.seq })
})

t.test('that a log ends before a place is believed when it is said again much later', async t => {
  const end = await answered(() => lastSequence(anywhere, 'REQUESTS'))
  t.equal(await answered(() => isBeyond(anywhere, 'REQUESTS', end)), false)
  const words = [null, 'there']
  const later = async () => words.shift()!
  t.equal(await certainly(anywhere, 'REQUESTS', later, { apartMs: 1 }), 'there')
  t.equal(await certainly(anywhere, 'REQUESTS', async () => null, { apartMs: 1 }), null)
  t.ok(isUnanswered(await factAt(anywhere, 'REQUESTS', end + 1).catch(error => error)), 'else it cannot be told')
})

t.test('an append whose first try is still in process is stored once, and answered', async t => {
  const { bus, followers, email, part, before, isInProcess } = await holdInProcess()
  const stored = createAppender(bus).append([part], 30_000).catch(error => error)
  // By the same line: what is answered now was asked after the append.
  await setImmediate()
  await until(isInProcess)
  for (const follower of followers) follower.thaw()
  t.strictSame(await stored, [before + 1])
  t.match(await answered(() => loadRequest(bus, before + 1, email)), { fact: { data: { email } } })
})

/** Freezes all but the leader, which has a message then that it cannot commit. Should another lead by now, nobody will:
 *  it is tried again. */
async function holdInProcess (tries = 5) {
  const leader = await cluster.leaderOf(anywhere, 'REQUESTS')
  const followers = servers.filter(server => server !== leader)
  const bus = await cluster.connect(leader)
  const { email, part } = request()
  const before = (await store(bus, 1))[0]!.seq
  const isInProcess = async () => await publishOnce(bus, email, part) === 10158
  for (const follower of followers) follower.freeze()
  const isHeld = await until(isInProcess, 5000).then(() => true, () => false)
  if (isHeld) return { bus, followers, email, part, before, isInProcess }
  for (const follower of followers) follower.thaw()
  if (tries === 1) throw new Error('no leader held a message')
  return await holdInProcess(tries - 1)
}

/** Publishes a request's very message; resolves to the err_code of the answer, null without one. */
async function publishOnce (bus: Bus, email: string, { fact }: Append): Promise<number | null> {
  const head = headers()
  head.set('Nats-Msg-Id', fact.id)
  const subject = subjects.request(fact.account, email)
  const answer = await bus.nc.request(subject, encodeFact(fact), { headers: head, timeout: 500 }).catch(() => null)
  return answer?.json<{ error?: { err_code: number } }>().error?.err_code ?? null
}
