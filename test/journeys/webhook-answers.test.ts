import { createServer as createTlsServer } from 'node:https'
import { createServer, type AddressInfo } from 'node:net'
import t from 'tap'
import { createPoster, type PostResult } from '#src/workers/webhooks/post.ts'
import { createAuthority } from '../support/certificates.ts'
import { startHookSink, type HookAnswer, type HookSink } from '../support/hook-sink.ts'
import type { Ending } from '../support/servers.ts'

const BODY = Buffer.from('{"id":"ev_1"}')

async function openSink (t: Ending, told: HookAnswer = {}): Promise<HookSink> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  sink.answers(() => told)
  return sink
}

async function post (t: Ending, url: string, { allowPrivate = true, timeoutMs = 3000 } = {}): Promise<PostResult> {
  const poster = createPoster({ allowPrivate, timeoutMs })
  t.teardown(() => poster.close())
  return await poster.post(new URL(url), { 'Content-Type': 'application/json' }, BODY)
}

/** A port where nobody listens. */
async function closedPort (): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}

const LINES: Array<[what: string, told: HookAnswer, errorKind: string, error: RegExp]> = [
  ['never answers', { hang: true }, 'timeout', /^no answer within 0\.4 s$/],
  ['cuts the line', { reset: true }, 'reset', /^connection reset$/],
  ['ends the line without a word', { close: true }, 'reset', /^connection closed before an answer$/],
  [
    'ends it in the middle of its headers',
    { raw: 'HTTP/1.1 200 OK\r\nContent-', close: true },
    'reset',
    /^connection closed before an answer$/
  ],
  ['speaks no HTTP', { raw: 'SSH-2.0-OpenSSH_9.2p1\r\n' }, 'protocol', /^not an HTTP response: /],
  [
    'has too much to say in its headers',
    { raw: `HTTP/1.1 200 OK\r\nX-Long: ${'a'.repeat(20_000)}` },
    'protocol',
    /^headers too large$/
  ],
  [
    'never comes to the end of its headers',
    { raw: 'HTTP/1.1 200 OK\r\n', more: 'X-One-More: 1\r\n' },
    'timeout',
    /^no answer within 0\.4 s$/
  ],
  [
    'gives a length that is none',
    { raw: 'HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nok' },
    'protocol',
    /^not an HTTP response: /
  ],
  [
    'tells to continue, unasked',
    { raw: 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n' },
    'protocol',
    /^not a response to a request: bad response$/
  ],
  [
    'wants another protocol, unasked',
    { raw: 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n' },
    'protocol',
    /^not a response to a request: bad upgrade$/
  ]
]

for (const [what, told, errorKind, error] of LINES) {
  t.test(`an endpoint that ${what}: ${errorKind}`, async t => {
    const sink = await openSink(t, told)
    const answer = await post(t, sink.url, { timeoutMs: errorKind === 'timeout' ? 400 : 5000 })
    t.match(answer, { status: null, errorKind, error, response: '' })
    t.equal(sink.requests.length, 1)
  })
}

t.test('nobody there: connect', async t => {
  t.match(await post(t, `http://127.0.0.1:${await closedPort()}`), {
    status: null,
    errorKind: 'connect',
    error: 'connection refused'
  })
})

t.test('a name that nobody has: dns', async t => {
  t.match(await post(t, 'http://nobody-has-this-name/', { timeoutMs: 15_000 }), {
    status: null,
    errorKind: 'dns',
    error: /^host name /
  })
})

t.test('a certificate that nobody vouches for, and no TLS at all: tls', async t => {
  const heard: string[] = []
  const server = createTlsServer(createAuthority().certify('localhost'), request => heard.push(request.url!))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>(resolve => server.close(() => resolve())))
  t.match(await post(t, `https://127.0.0.1:${(server.address() as AddressInfo).port}`), {
    status: null,
    errorKind: 'tls',
    error: /^[A-Z_]+: /
  })
  t.same(heard, [])
  const plain = await openSink(t)
  t.match(await post(t, `https://127.0.0.1:${plain.port}`), { status: null, errorKind: 'tls', error: String })
  t.equal(plain.requests.length, 0)
})

t.test('a target that may not be called: refused', async t => {
  const sink = await openSink(t)
  for (const url of [sink.url, `https://127.0.0.1:${sink.port}`, `https://localhost:${sink.port}`]) {
    t.match(await post(t, url, { allowPrivate: false }), {
      status: null,
      errorKind: 'refused',
      error: /^target refused: /
    }, url)
  }
  t.equal(sink.requests.length, 0)
})

t.test('a redirect is an answer like any other, wherever it points', async t => {
  const trap = await openSink(t)
  for (const status of [301, 302, 303, 307, 308]) {
    const sink = await openSink(t, { status, headers: { Location: trap.url, 'Retry-After': '7' } })
    t.match(await post(t, sink.url), { status, error: null, errorKind: null, retryAfter: '7' })
  }
  t.equal(trap.requests.length, 0)
})

t.test('of a response only the start is read', async t => {
  let sentBytes = 0
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n')
    const chunk = Buffer.alloc(65_536, 'x')
    const more = () => {
      while (!socket.destroyed && sentBytes < 1e9) {
        sentBytes += chunk.length
        if (!socket.write(chunk)) return
      }
    }
    socket.on('drain', more)
    more()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>(resolve => server.close(() => resolve())))
  t.match(await post(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`), {
    status: 200,
    errorKind: null,
    response: 'x'.repeat(4096)
  })
  t.ok(sentBytes < 1e8, `${sentBytes} bytes`)
})

t.test('a response that breaks off after its status changes nothing', async t => {
  const sink = await openSink(t, { raw: 'HTTP/1.1 202 Accepted\r\nContent-Length: 1000\r\n\r\nfirst', close: true })
  t.match(await post(t, sink.url), { status: 202, error: null, errorKind: null, response: 'first' })
})
