import t from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'

const app = await startTestApp(t)

t.test('a key may ask what it may do, whatever it may do', async t => {
  const expiresMs = Date.now() + 3_600_000
  const key = await app.newKey({
    name: 'Shop',
    scopes: ['suppressions:read'],
    domains: ['shop.example', 'news.example'],
    expiresMs
  })
  await app.limitKey(key.id, { 'emails:send': 7 })
  const { status, headers, body } = await app.request('GET', '/api/me', { key: key.secret })
  t.equal(status, 200)
  t.match(body, {
    id: key.id,
    name: 'Shop',
    scopes: ['suppressions:read'],
    domains: ['shop.example', 'news.example'],
    expires_at: new Date(expiresMs).toISOString(),
    limits: { 'emails:send': 7, 'emails:list': 300, 'templates:create': 60, other: 60 },
    test: false,
    account: { id: 'acc_first', name: 'First account', limits: { 'emails:send': null, other: null } }
  })
  t.notOk(JSON.stringify(body).includes(key.secret), 'never its secret')
  t.equal(headers.get('x-ratelimit-limit'), '60', 'it is counted like any other')
  t.equal((await app.request('GET', `/api/keys/${key.id}`, { key: key.secret })).status, 403, 'though it reads no keys')
})

t.test('another account asks about its own key; what is no key gets 401', async t => {
  const stranger = await app.newAccountKey({ limited: true })
  const [own, theirs] = [await app.request('GET', '/api/me'), await app.request('GET', '/api/me', { key: stranger })]
  t.equal(own.body.name, 'JETPOST_API_KEY')
  t.equal(theirs.body.account.name, 'Another')
  t.not(theirs.body.account.id, own.body.account.id)
  t.strictSame(theirs.body.account.limits, {
    'emails:send': 1000,
    'emails:batch': 600,
    'emails:list': 3000,
    'templates:create': 600,
    other: 600
  }, 'of all its keys together')
  for (const key of [null, 'jp_live_nothing']) {
    const answer = await app.request('GET', '/api/me', { key })
    t.equal(answer.status, 401)
    t.strictSame(answer.body, { error: 'Unauthorized' })
  }
})

t.test('it shows what was changed a moment ago, and nothing of a key that was revoked', async t => {
  const key = await app.newKey({ name: 'Before' })
  await app.request('PATCH', `/api/keys/${key.id}`, { body: { name: 'After' }, key: API_KEY })
  t.equal((await app.request('GET', '/api/me', { key: key.secret })).body.name, 'After')
  await app.request('DELETE', `/api/keys/${key.id}`)
  t.equal((await app.request('GET', '/api/me', { key: key.secret })).status, 401)
})
