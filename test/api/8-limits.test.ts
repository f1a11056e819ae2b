import t from 'tap'
import { groupsOf } from '#streams/groups.ts'
import type { Clock } from '#src/base/clock.ts'
import { readConfig } from '#src/base/config.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startTestApp, type Answer, type TestApp } from '../support/app.ts'

/** The minute stands still until a test turns it: a window never ends in the middle of a test by chance. */
let nowMs = Math.ceil(Date.now() / 60_000) * 60_000 + 10_000
const clock: Clock = { nowMs: () => nowMs }

const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { clock, natsUrl, databaseUrl })
const second = await startTestApp(t, { clock, natsUrl, databaseUrl, env: { JETPOST_ROLES: 'api' } })

/** Of more reads at once the last would wait longer for a connection to PostgreSQL, on a busy machine, than a read
 *  does. */
const AT_ONCE = 60

async function many (count: number, request: (i: number) => Promise<Answer>): Promise<Answer[]> {
  const answers: Answer[] = []
  for (const some of groupsOf(Array.from({ length: count }, (_, i) => i), AT_ONCE)) {
    answers.push(...await Promise.all(some.map(request)))
  }
  return answers
}

/** Exactness is promised while NATS answers in time. On a machine that has other things to do it may not: then this was
 *  no example, and the next key is one. */
async function whileNatsAnswers (act: (secret: string, id: string) => Promise<Answer[]>): Promise<Answer[]> {
  for (let tries = 1;; tries++) {
    const before = await inexact()
    const { secret, id } = await app.newKey({})
    const answers = await act(secret, id)
    if (await inexact() === before) return answers
    if (tries === 5) throw new Error('NATS does not answer in time')
  }
}

/** Requests that were decided without NATS so far, on both nodes. */
async function inexact (): Promise<number> {
  const pages = await Promise.all([app, second].map(node => node.request('GET', '/metrics', { key: null })))
  return pages.reduce((sum, { body }) => sum + Number(/^jetpost_limits_inexact (\d+)$/m.exec(body)![1]), 0)
}

function statuses (answers: Answer[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

for (
  const [name, limit, request] of [
    ['POST /api/emails 100', 100, (app: TestApp, key: string) => app.send({}, key)],
    ['GET /api/emails 300', 300, (app: TestApp, key: string) => app.request('GET', '/api/emails', { key, once: true })],
    [
      'POST /api/templates 60',
      60,
      (app: TestApp, key: string) => app.request('POST', '/api/templates', { key, body: {} })
    ],
    [
      'POST /api/emails/batch 60',
      60,
      (app: TestApp, key: string) => app.request('POST', '/api/emails/batch', { key, body: {} })
    ],
    ['all other endpoints 60', 60, (app: TestApp, key: string) => app.request('GET', '/api/webhooks', { key })]
  ] as const
) {
  t.test(`8 ${name} requests a minute, exact over two nodes`, async t => {
    const answers = await whileNatsAnswers(key => many(limit * 1.5, i => request(i % 2 === 0 ? app : second, key)))
    t.equal(statuses(answers)[429], limit / 2)
    const remaining = answers.filter(answer => answer.status !== 429).map(answer =>
      Number(answer.headers.get('x-ratelimit-remaining'))
    ).sort((a, b) => a - b)
    t.strictSame(remaining, Array.from({ length: limit }, (_, i) => i), 'every place in the window is given once')
    t.ok(answers.every(answer => answer.headers.get('x-ratelimit-limit') === String(limit)))
  })
}

t.test('8.1 past the limit the answer is 429 with retryAfter, and the window resets on the minute', async t => {
  const key = (await app.newKey({})).secret
  await many(100, () => app.send({}, key))
  const over = await app.send({}, key)
  t.equal(over.status, 429)
  t.strictSame(over.body, { error: 'Rate limit exceeded', retryAfter: 50 })
  t.equal(over.headers.get('retry-after'), '50')
  t.equal(over.headers.get('x-ratelimit-remaining'), '0')
  t.equal(Number(over.headers.get('x-ratelimit-reset')) % 60, 0)
  t.equal(Number(over.headers.get('x-ratelimit-reset')) * 1000 - nowMs, 50_000)
  t.equal((await app.request('GET', '/api/emails', { key })).status, 200, 'another class has a window of its own')
  nowMs += 49_900
  t.strictSame((await app.send({}, key)).body, { error: 'Rate limit exceeded', retryAfter: 1 }, 'never less than 1')
  nowMs += 200
  t.equal((await app.send({}, key)).status, 202, 'a new window')
})

t.test('8 batches take no place of single emails and of other requests, nor these of them', async t => {
  const { id, secret: key } = await app.newKey({})
  await app.limitKey(id, { 'emails:batch': 1 })
  const batch = () => app.request('POST', '/api/emails/batch', { key, body: {} })
  t.strictSame([(await batch()).status, (await batch()).status], [422, 429])
  const [single, other] = [await app.send({}, key), await app.request('GET', '/api/webhooks', { key })]
  t.equal(single.headers.get('x-ratelimit-remaining'), '99')
  t.equal(other.headers.get('x-ratelimit-remaining'), '59')
})

t.test('8 429 comes before 400, 413, 415, 403 and 422', async t => {
  const key = (await app.newKey({ scopes: ['emails:send'] })).secret
  await many(100, () => app.send({}, key))
  for (
    const [name, options] of Object.entries({
      malformed: { raw: '{' },
      'too large': { raw: ' '.repeat(20 * 1024 * 1024 + 1) },
      'other type': { raw: 'x', headers: { 'content-type': 'text/plain' } },
      invalid: { body: {} }
    })
  ) t.equal((await app.request('POST', '/api/emails', { key, ...options })).status, 429, name)
})

t.test('8 a request counts in its class however its path is spelt', async t => {
  const limitOf = async (target: string, method = 'POST') => {
    const answer = await app.speak(
      `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${key}\r\n\r\n`
    )
    return Number(/x-ratelimit-limit: (\d+)/i.exec(answer)?.[1])
  }
  const key = (await app.newKey({})).secret
  for (
    const path of [
      '/api/emails',
      '/api/%65mails',
      '/%61pi/emails',
      'http://x/api/emails',
      'HTTPS://x/api/%65mails?a=/',
      '/api/emails#x',
      '/api/emails?x'
    ]
  ) {
    t.equal(await limitOf(path), 100, `POST ${path}`)
    t.equal(await limitOf(path, 'GET'), 300, `GET ${path}`)
  }
  const templates = await app.newKey({})
  await app.limitKey(templates.id, { 'templates:create': 61 })
  for (const path of ['/api/templates', '/api/t%65mplates', 'http://x/api/templates', '/api/templates#x']) {
    const answer = await app.speak(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${templates.secret}\r\n\r\n`
    )
    t.match(answer.toLowerCase(), 'x-ratelimit-limit: 61\r\n', `POST ${path}`)
  }
  t.match(
    await app.speak(
      `PUT /api/%65mails HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${key}\r\n\r\n`
    ),
    /^HTTP\/1.1 405 [^]*allow: GET, HEAD, POST\r\n/i
  )
})

t.test('8 a key past its window is told so before a big body is read', async t => {
  const key = await app.newKey({})
  await app.limitKey(key.id, { 'emails:send': 1 })
  await app.send({}, key.secret)
  for (const length of ['Content-Length: 20000000', 'Transfer-Encoding: chunked']) {
    const head = `POST /api/emails HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ` +
      `${key.secret}\r\nContent-Type: application/json\r\n${length}\r\n\r\n`
    t.match(await app.speak(head), /^HTTP\/1.1 429 [^]*"Rate limit exceeded"/, length)
  }
})

t.test('8 a URL that cannot be decoded counts like any other', async t => {
  const key = (await app.newKey({})).secret
  const bad = await many(60, () => app.request('GET', '/api/%zz', { key }))
  t.strictSame(statuses(bad), { 400: 60 })
  t.equal((await app.request('GET', '/api/%zz', { key })).status, 429)
})

t.test('8 JETPOST_TRUST_PROXY takes addresses, ranges and the names of ranges; an error says what must be', async t => {
  const trusted = (JETPOST_TRUST_PROXY: string) => readConfig({ JETPOST_TRUST_PROXY }).trustProxy
  t.strictSame(trusted('loopback, 10.0.0.0/8,fd00::/8,192.0.2.1,::1'), [
    'loopback',
    '10.0.0.0/8',
    'fd00::/8',
    '192.0.2.1',
    '::1'
  ])
  for (const wrong of ['proxy.example', '10.0.0.0/33', '10.0.0.0/0', '10.0.0.0/', '10.0.0.0/8/8', '1', 'true']) {
    t.throws(
      () => trusted(`loopback,${wrong}`),
      new RegExp(`JETPOST_TRUST_PROXY must be a list of IP addresses.*not ${wrong}\\.`)
    )
  }
})

t.test('8 refused requests count, and 401 stays 401 past the window', async t => {
  const key = (await app.newKey({})).secret
  await many(99, () => app.request('POST', '/api/emails', { key, raw: '{' }))
  t.equal((await app.send({}, key)).headers.get('x-ratelimit-remaining'), '0')
  const unauthenticated = await many(70, () => app.request('GET', '/api/webhooks', { key: null }))
  t.strictSame(statuses(unauthenticated), { 401: 70 })
  t.equal(unauthenticated.at(-1)!.headers.get('x-ratelimit-limit'), '60')
  t.equal(unauthenticated.at(-1)!.headers.get('x-ratelimit-remaining'), '0')
})

t.test("8.3 the operator can raise a key's limit", async t => {
  const key = await app.newKey({})
  await app.limitKey(key.id, { 'emails:send': 130 })
  t.strictSame(statuses(await many(140, () => app.send({}, key.secret))), { 202: 130, 429: 10 })
})

t.test('8 all keys of an account have one window together, which the operator can set', async t => {
  const first = await app.newAccountKey({ limited: true })
  const list = async (key: string) => await app.request('GET', '/api/emails', { key, once: true })
  const { body: { account } } = await app.request('GET', '/api/me', { key: first })
  await app.limitAccount(account.id, { 'emails:list': 5 })
  const made = { name: 'Another', scopes: ['emails:read'], domains: ['*'] }
  const { body: { key: second } } = await app.request('POST', '/api/keys', { body: made, key: first })
  for (const key of [first, second, first, second, first]) t.match(await list(key), { status: 200 })
  for (const key of [second, first]) {
    const { status, headers, body } = await list(key)
    t.match({ status, body }, { status: 429, body: { error: 'Rate limit exceeded', retryAfter: Number } })
    t.equal(headers.get('x-ratelimit-limit'), '5', 'the limit that it has met')
  }
  t.equal((await app.request('GET', '/api/me', { key: second })).status, 200, 'another class is another window')
  await app.limitKey((await app.request('GET', '/api/me', { key: second })).body.id, { 'emails:list': 9 })
  t.equal((await list(second)).status, 200, 'what one key was given goes beyond it')
})

t.test('8 a key in rotation has one window, whichever of its secrets is used and wherever', async t => {
  const answers = await whileNatsAnswers(async (secret, id) => {
    await many(150, () => app.request('GET', '/api/emails', { key: secret, once: true }))
    const rotated = (await app.request('POST', `/api/keys/${id}/rotate`, { key: secret })).body.key
    return await many(
      170,
      i => (i % 2 === 0 ? app : second).request('GET', '/api/emails', { key: i % 4 < 2 ? secret : rotated, once: true })
    )
  })
  t.equal(statuses(answers)[429], 20)
  const others = answers.filter(({ status }) => status !== 429)
  // A read that is behind has had its place in the window, too.
  t.ok(others.every(({ status, body }) => status === 200 || body.code === 'projection_behind'))
})
