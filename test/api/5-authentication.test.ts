import t, { type Test } from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'
import { LONG_ONLY } from '../support/long.ts'

const app = await startTestApp(t)
const unauthorized = { error: 'Unauthorized' }

async function with401 (t: Test, name: string, headers: Record<string, string>): Promise<void> {
  const answer = await app.request('GET', '/api/emails', { key: null, headers })
  t.equal(answer.status, 401, name)
  t.strictSame(answer.body, unauthorized, name)
}

t.test('5 a missing Authorization header is 401', async t => {
  await with401(t, 'missing', {})
})

t.test('5 an invalid key is 401', async t => {
  await with401(t, 'unknown', { authorization: 'Bearer jp_live_nobody-holds-this-key-at-all' })
  await with401(t, 'other case', { authorization: `Bearer ${API_KEY.toUpperCase()}` })
})

t.test('5 a malformed Bearer token is 401', async t => {
  await with401(t, 'other scheme', { authorization: `Basic ${API_KEY}` })
  await with401(t, 'no scheme', { authorization: API_KEY })
  await with401(t, 'two tokens', { authorization: `Bearer ${API_KEY} ${API_KEY}` })
  await with401(t, 'empty', { authorization: 'Bearer ' })
  await with401(t, '10 kB', { authorization: `Bearer ${'x'.repeat(10_000)}` })
  await with401(t, 'comma', { authorization: `Bearer ${API_KEY}, Bearer ${API_KEY}` })
})

t.test('5 an expired key is 401, also one that expires while it is in use', async t => {
  const soon = await app.newKey({ expiresMs: Date.now() + 1500 })
  t.equal((await app.send({}, soon.secret)).status, 202)
  let status = 0
  for (const endMs = Date.now() + 10_000; status !== 401 && Date.now() < endMs;) {
    status = (await app.request('GET', '/api/webhooks', { key: soon.secret })).status
  }
  t.equal(status, 401)
  t.strictSame((await app.send({}, soon.secret)).body, unauthorized)
})

t.test('5 a revoked key stops within a second', async t => {
  const key = await app.newKey({})
  t.equal((await app.send({}, key.secret)).status, 202)
  await app.revokeKey(key.id)
  t.equal((await app.send({}, key.secret)).status, 401)
})

t.test('5 a key made elsewhere works here at once', async t => {
  const key = await app.newKey({}, { wait: false })
  t.equal((await app.send({}, key.secret)).status, 202)
})

t.test(
  '5 a flood of unknown keys, from one address or many, hinders no key that was made a moment ago',
  LONG_ONLY,
  async t => {
    const proxied = await startTestApp(t, { env: { JETPOST_TRUST_PROXY: 'loopback' } })
    const from = (address: string, key: string) =>
      proxied.request('GET', '/api/emails', { key, headers: { 'x-forwarded-for': address } })
    const flood = Promise.all(
      Array.from(
        { length: 600 },
        (_, i) => from(i < 300 ? '192.0.2.1' : `198.51.100.${i % 150}`, `jp_live_nobody-${i}`)
      )
    )
    for (let i = 0; i < 20; i++) {
      const key = await proxied.newKey({}, { wait: false })
      t.equal((await from('203.0.113.1', key.secret)).status, 200)
    }
    t.ok((await flood).every(answer => answer.status === 401))
  }
)

t.test('5 a secret that was rotated away is 401 like any other', async t => {
  const key = await app.newKey({})
  const rotate = async (secret: string, overlapS: number) => {
    const { status, body } = await app.request('POST', `/api/keys/${key.id}/rotate`, {
      key: secret,
      body: { overlap_s: overlapS }
    })
    t.equal(status, 200, JSON.stringify(body.error))
    return body.key
  }
  const second = await rotate(key.secret, 0)
  t.equal((await app.send({}, second)).status, 202)
  await with401(t, 'no overlap', { authorization: `Bearer ${key.secret}` })
  const third = await rotate(second, 1)
  t.equal((await app.send({}, third)).status, 202)
  let answer
  for (const endMs = Date.now() + 10_000; answer?.status !== 401 && Date.now() < endMs;) {
    answer = await app.request('GET', '/api/emails', { key: second })
  }
  t.strictSame(answer?.body, unauthorized, 'past its overlap')
  t.equal((await app.send({}, third)).status, 202)
})

t.test('5 401 comes before everything else: unknown paths, broken bodies, other methods', async t => {
  for (
    const [method, path] of [
      ['GET', '/api/nothing'],
      ['POST', '/api/emails'],
      ['PUT', '/api/emails'],
      ['OPTIONS', '/api/emails'],
      ['GET', '/api/'],
      ['GET', '/api']
    ] as const
  ) {
    const answer = await app.request(method, path, { key: null, ...(method === 'POST' ? { raw: '{' } : {}) })
    t.equal(answer.status, 401, `${method} ${path}`)
    t.strictSame(answer.body, unauthorized)
  }
})

t.test("5 the scheme's case does not matter", async t => {
  t.equal(
    (await app.request('GET', '/api/emails', { key: null, headers: { authorization: `bearer ${API_KEY}` } })).status,
    200
  )
})

t.test('5 two Authorization headers are malformed', async t => {
  const head = `GET /api/emails HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${API_KEY}\r\n`
  t.match(await app.speak(`${head}\r\n`), /^HTTP\/1.1 200 /)
  t.match(await app.speak(`${head}Authorization: Bearer ${API_KEY}\r\n\r\n`), /^HTTP\/1.1 401 /)
})
