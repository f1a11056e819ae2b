import t from 'tap'
import { subjects } from '#streams/subjects.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { startTestApp, FROM, type Answer } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const second = await startTestApp(t, { natsUrl, databaseUrl, env: { JETPOST_ROLES: 'api' } })
const { factLog } = await openSecondServices(t, natsUrl)

const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', html: '<p>Hello</p>', metadata: { a: 1, b: 2 } }
const post = (
  headers: Record<string, string>,
  body: unknown = mail,
  at = app,
  path = '/api/emails',
  key?: string
): Promise<Answer> => at.request('POST', path, { body, headers, ...(key === undefined ? {} : { key }) })
const count = async (tag: string) => (await app.request('GET', `/api/emails?tag=${tag}&limit=100`)).body.data.length

t.test('the same key and body get the first answer again, on any node', async t => {
  const headers = { 'idempotency-key': 'order-77' }
  const first = await post(headers, { ...mail, tags: ['same'] })
  t.equal(first.status, 202)
  t.equal(first.headers.get('idempotency-replayed'), null)
  const reordered = {
    tags: ['same'],
    metadata: { b: 2, a: 1 },
    html: mail.html,
    subject: mail.subject,
    to: mail.to,
    from: mail.from
  }
  for (const at of [app, second]) {
    const again = await post(headers, reordered, at)
    t.equal(again.status, 202)
    t.strictSame(again.body, first.body)
    t.equal(again.headers.get('location'), first.headers.get('location'))
    t.equal(again.headers.get('idempotency-replayed'), 'true')
  }
  t.equal(await count('same'), 1)
})

t.test('the same key with another body is a conflict that names the first email', async t => {
  const headers = { 'idempotency-key': 'order-78' }
  const first = await post(headers)
  const other = await post(headers, { ...mail, subject: 'Something else' }, second)
  t.equal(other.status, 409)
  t.match(other.body, { error: String, code: 'idempotency_mismatch', email_id: first.body.id })
})

t.test('a refused request does not claim its key', async t => {
  const headers = { 'idempotency-key': 'order-79' }
  t.equal((await post(headers, { ...mail, to: 'nobody' })).status, 422)
  t.equal((await post(headers, { ...mail, from: 'a@not-linked.example' })).status, 403)
  t.equal((await post(headers, { ...mail, subjct: 'x' })).status, 422)
  t.equal((await post(headers)).status, 202)
})

t.test('a mismatch is told after 403 and 422', async t => {
  const headers = { 'idempotency-key': 'order-80' }
  t.equal((await post(headers)).status, 202)
  t.equal((await post(headers, { ...mail, from: 'a@not-linked.example' })).status, 403)
  t.equal((await post(headers, { ...mail, to: [] })).status, 422)
})

t.test('a key belongs to its account', async t => {
  const headers = { 'idempotency-key': 'order-81' }
  const first = await post(headers)
  const other = await post(headers, mail, app, '/api/emails', await app.newAccountKey())
  t.equal(other.status, 202)
  t.not(other.body.id, first.body.id)
})

t.test('one namespace for an email and a batch', async t => {
  const headers = { 'idempotency-key': 'order-82' }
  const batch = { emails: [mail, mail] }
  const first = await post(headers, batch, app, '/api/emails/batch')
  t.equal(first.status, 202)
  const again = await post(headers, batch, second, '/api/emails/batch')
  t.strictSame(again.body, first.body)
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  t.match(await post(headers), {
    status: 409,
    body: { code: 'idempotency_mismatch', email_ids: first.body.data.map(({ id }: { id: string }) => id) }
  })
})

t.test('a key is 1 to 255 printable ASCII characters, given once, and only where it means something', async t => {
  for (const key of ['', 'x'.repeat(256), 'tab\there']) {
    const refused = await post({ 'idempotency-key': key })
    t.match(
      refused,
      { status: 422, body: { details: [{ field: 'Idempotency-Key', code: 'invalid_value' }] } },
      JSON.stringify(key.slice(0, 20))
    )
  }
  t.equal((await post({ 'idempotency-key': '~'.repeat(255) })).status, 202)
  t.equal((await post({ 'idempotency-key': 'a, b' })).status, 202, 'a comma is a printable character')
  const body = JSON.stringify(mail)
  const head = `POST /api/emails HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer ` +
    `jp_live_test-key-of-the-app\r\ncontent-type: application/json\r\n`
  t.match(
    await app.speak(`${head}idempotency-key: a\r\nidempotency-key: b\r\ncontent-length: ${body.length}\r\n\r\n${body}`),
    /^HTTP\/1.1 422 /
  )
  const hook = { url: 'https://hooks.example/x', events: ['email.delivered'] }
  for (
    const [method, path, sent] of [['GET', '/api/emails'], ['POST', '/api/webhooks', hook], [
      'DELETE',
      '/api/webhooks/wh_1'
    ]] as const
  ) {
    const refused = await app.request(method, path, { headers: { 'idempotency-key': 'a' }, body: sent })
    t.match(
      refused,
      { status: 422, body: { details: [{ field: 'Idempotency-Key', code: 'not_supported' }] } },
      `${method} ${path}`
    )
  }
})

t.test('raced 200 times over two nodes: one email, 200 equal answers', async t => {
  const headers = { 'idempotency-key': 'race-1' }
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, i) => post(headers, { ...mail, tags: ['race'] }, i % 2 === 0 ? app : second))
  )
  t.strictSame(new Set(answers.map(({ status }) => status)), new Set([202]))
  t.equal(new Set(answers.map(({ body }) => JSON.stringify(body))).size, 1)
  t.equal(answers.filter(answer => answer.headers.get('idempotency-replayed') === null).length, 1)
  t.equal(await count('race'), 1)
})

/** Where the log takes nothing in time a client asks again with its key. */
async function postUntilTaken (...request: Parameters<typeof post>): ReturnType<typeof post> {
  for (;;) {
    const answer = await post(...request)
    if (answer.status !== 503) return answer
  }
}

t.test('a crowd of requests with equal and different keys: one email a key', async t => {
  const keys = Array.from({ length: 40 }, (_, i) => `crowd-${i}`)
  const asked = keys.flatMap(key => [key, key, key, key, key]).map((key, i) => ({
    key,
    at: i % 3 === 0 ? second : app,
    order: (i * 7919) % 200
  }))
  asked.sort((a, b) => a.order - b.order)
  const answers = await Promise.all(
    asked.map(async ({ key, at }) => ({
      key,
      answer: await postUntilTaken({ 'idempotency-key': key }, { ...mail, tags: ['crowd'], subject: key }, at)
    }))
  )
  const ids = new Map(
    keys.map(key => [key, new Set(answers.filter(one => one.key === key).map(({ answer }) => answer.body.id))])
  )
  t.ok([...ids.values()].every(set => set.size === 1), 'all of a key have one id')
  t.equal(new Set([...ids.values()].flatMap(set => [...set])).size, keys.length, 'no two keys share one')
  t.equal(await count('crowd'), keys.length)
})

t.test('raced with two bodies over two nodes: one is accepted, the others are told', async t => {
  const headers = { 'idempotency-key': 'race-2' }
  const answers = await Promise.all(
    Array.from(
      { length: 40 },
      (_, i) => post(headers, { ...mail, tags: ['duel'], subject: `body ${i % 2}` }, i % 4 < 2 ? app : second)
    )
  )
  const accepted = answers.filter(({ status }) => status === 202)
  t.equal(accepted.length, 20, 'everybody with the body that won')
  t.ok(
    answers.filter(({ status }) => status !== 202).every(({ status, body }) =>
      status === 409 && body.email_id === accepted[0]!.body.id
    )
  )
  t.equal(await count('duel'), 1)
})

t.test('the claim lies beside its request, of one append, and is kept for seven days', async t => {
  const { body } = await post({ 'idempotency-key': 'kept' })
  const { account } = [...(await openSecondServices(t, natsUrl)).directory.now.keys.values()].find(key =>
    key.name === 'JETPOST_API_KEY'
  )!
  const subject = subjects.claim(account, sha256Hex('kept'))
  const message = await factLog.bus.nc.request(
    '$JS.API.DIRECT.GET.REQUESTS',
    JSON.stringify({ last_by_subj: subject }),
    { timeout: 2000 }
  )
  t.equal(message.headers!.get('Nats-TTL'), '604800s')
  t.equal(message.headers!.get('Nats-Expected-Last-Subject-Sequence'), '0')
  const seq = Number(message.headers!.get('Nats-Sequence')) - 1
  const request = await factLog.bus.nc.request('$JS.API.DIRECT.GET.REQUESTS', JSON.stringify({ seq }), {
    timeout: 2000
  })
  t.equal(request.json<{ data: { email: string } }>().data.email, body.id)
  t.notMatch(message.string(), /kept/, 'the key itself is nowhere')
})
