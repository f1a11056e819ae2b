import Fastify, { type FastifyInstance } from 'fastify'
import { EventEmitter, once } from 'node:events'
import { connect, type AddressInfo, type Socket } from 'node:net'
import t from 'tap'
import type { Principal } from '#streams/directory.ts'
import { addressRanges } from '#src/base/config-values.ts'
import { createLog } from '#src/base/log.ts'
import { newTurns, turnsOfBigBodies } from '#src/servers/api/big-bodies.ts'
import { BodyBudget } from '#src/servers/api/body-budget.ts'
import { boundConnections } from '#src/servers/api/connections.ts'
import { startTestApp } from '../support/app.ts'
import { until } from '../support/wait.ts'

const app = await startTestApp(t)

t.test('who is refused and keeps his half open is let go', async t => {
  const { hostname, port } = new URL(app.url)
  const requests = ['GARBAGE\r\n\r\n', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n']
  for (const bytes of requests) {
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    let isGone = false
    socket.on('error', () => {
      isGone = true
    }).resume().write(bytes)
    t.teardown(() => socket.destroy())
    await once(socket, 'end')
    await until(() => {
      if (!isGone) socket.write('more')
      return isGone
    })
    t.pass(bytes.slice(0, 7))
  }
})

t.test('an address has so many connections at once, a proxy of ours any number', async t => {
  for (const [proxies, kept] of [[[], 1000], [['loopback'], 1010]] as const) {
    const server = Fastify()
    boundConnections(server, addressRanges(proxies), createLog('silent'))
    await server.listen({ host: '127.0.0.1', port: 0 })
    const { port } = server.server.address() as AddressInfo
    const closed = new Set<Socket>()
    const opened = await Promise.all(Array.from({ length: 1010 }, async () => {
      const socket = connect(port, '127.0.0.1').on('error', () => {})
      socket.on('close', () => closed.add(socket)).resume()
      await once(socket, 'connect')
      return socket
    }))
    await until(() => opened.length - closed.size === kept)
    const [one] = opened.filter(socket => !closed.has(socket))
    one!.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(one!, 'data')
    t.equal(opened.length - closed.size, kept)
    for (const socket of opened) socket.destroy()
    await server.close()
  }
})

t.test('the addresses of an IPv6 network share its bound', t => {
  const server = new EventEmitter()
  boundConnections({ server } as unknown as FastifyInstance, addressRanges([]), createLog('silent'))
  let refused = 0
  for (let i = 0; i < 1010; i++) {
    const remoteAddress = `2001:db8:7:${i.toString(16)}::1`
    server.emit('connection', Object.assign(new EventEmitter(), { remoteAddress, destroy: () => refused++ }))
  }
  t.equal(refused, 10)
  t.end()
})

const MB = 1024 * 1024

/** A body of which so many bytes are here; `cuts` counts how often its connection was ended. */
function arriving (bytesRead = 0, isWhole = false) {
  const body = { cuts: 0, isWhole: () => isWhole, bytesRead: () => bytesRead, cut: () => void body.cuts++ }
  return body
}

t.test('big bodies wait for room, and no account takes all of it', async t => {
  const body = arriving()
  const hasty = new BodyBudget({ waitMs: 1 })
  t.type(await hasty.take('acc_one', 60 * MB, body), 'function')
  t.equal(await hasty.take('acc_one', 20 * MB, body), null, 'it does not wait for ever')
  const budget = new BodyBudget()
  const [first, ...rest] = await Promise.all([20, 20, 20].map(size => budget.take('acc_one', size * MB, body)))
  const waiting = budget.take('acc_one', 20 * MB, body)
  t.type(await budget.take('acc_two', 20 * MB, body), 'function', 'another account does not wait')
  first!()
  const fourth = await waiting
  t.type(fourth, 'function', 'it goes on where another one has ended')
  for (const giveBack of [fourth, ...rest]) giveBack!()
  t.type(await budget.take('acc_one', 60 * MB, body), 'function', 'all was given back')
})

t.test('big bodies are read one by one for an account, and small ones pass them', async t => {
  const server = Fastify({ bodyLimit: 4 * MB })
  t.teardown(() => server.close())
  const read: string[] = []
  const answers = Promise.withResolvers<object>()
  server.decorateRequest('principal', null)
  server.addHook('onRequest', async request => {
    request.principal = { account: request.headers.account } as unknown as Principal
  })
  const inTurn = turnsOfBigBodies(server, newTurns())
  server.removeAllContentTypeParsers()
  server.addContentTypeParser(
    '*',
    { parseAs: 'buffer' },
    inTurn((request, body, done) => {
      read.push(request.principal!.account)
      done(null, body.length)
    })
  )
  server.post('/', async request => Number(request.body) < MB ? {} : await answers.promise)
  const post = async (account: string, bytes: number) =>
    await server.inject({
      method: 'POST',
      url: '/',
      headers: { account, 'content-type': 'x/y' },
      payload: 'x'.repeat(bytes)
    })

  const big = [post('one', 2 * MB), post('one', 2 * MB), post('two', 2 * MB)]
  await until(() => read.includes('two'))
  t.equal((await post('one', 10)).statusCode, 200, 'a small one does not wait')
  t.strictSame(read, ['one', 'two', 'one'], 'the second big one does')
  answers.resolve({})
  t.strictSame((await Promise.all(big)).map(({ statusCode }) => statusCode), [200, 200, 200])
})

t.test('who lets big bodies trickle loses the room to those who hold less', async t => {
  const budget = new BodyBudget({ waitMs: 60_000, patienceMs: 10, graceMs: 0 })
  const [trickling, quick, whole] = [arriving(1), arriving(10 * MB), arriving(20 * MB, true)]
  const hold = async (account: string, bodies: Array<ReturnType<typeof arriving>>) =>
    await Promise.all(bodies.map(async body => await budget.take(account, 20 * MB, body)))
  const [giveBack] = await hold('acc_one', [trickling, quick, whole])
  await hold('acc_two', [arriving(2), arriving(2), whole])
  const more = budget.take('acc_one', 4 * MB, arriving())
  t.type(await more, 'function', 'what is left goes to who comes first')
  await budget.take('acc_two', 4 * MB, arriving(9 * MB))
  const again = budget.take('acc_one', 20 * MB, arriving())
  const other = budget.take('acc_three', 20 * MB, arriving())
  await until(() => trickling.cuts > 0)
  t.equal(quick.cuts + whole.cuts, 0, 'not those that come fast, or are here')
  giveBack!()
  t.type(await other, 'function', 'the account that holds nothing is first')
  t.equal(await Promise.race([again, 'waits']), 'waits')
})

t.test('a body is read by who may do what it asks, up to 4 MB where it brings no files, of so many values', async t => {
  const key = await app.newKey({ scopes: ['suppressions:read'] })
  const big = `[${'{},'.repeat(300_000)}{}]`
  const lesser = await app.request('POST', '/api/emails', { raw: big, key: key.secret })
  t.match(lesser, { status: 403, body: { error: 'Insufficient API key permissions' } })
  t.match(await app.request('POST', '/api/emails', { raw: '{"from":', key: key.secret }), { status: 403 })
  t.match(await app.request('POST', '/api/emails', { raw: big }), {
    status: 400,
    body: { error: 'The body must hold at most 250000 values.' }
  })
  const text = (megabytes: number) => `{"name":"${'x'.repeat(megabytes * 1024 * 1024)}"}`
  t.match(await app.request('POST', '/api/domains', { raw: text(4) }), {
    status: 413,
    body: { error: 'The body must be at most 4 MB.' }
  })
  t.match(await app.request('POST', '/api/emails', { raw: text(19) }), { status: 422 })
  t.match(await app.request('POST', '/api/emails', { raw: text(20) }), {
    status: 413,
    body: { error: 'The body must be at most 20 MB.' }
  })
})
