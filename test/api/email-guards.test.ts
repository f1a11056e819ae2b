import t from 'tap'
import type { Clock } from '#src/base/clock.ts'
import { timestamp } from '#src/base/clock.ts'
import { startTestApp, FROM, type TestApp } from '../support/app.ts'
import { LONG_ONLY } from '../support/long.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Ahead of the servers' by what a test says. */
let aheadMs = 0
const clock: Clock = { nowMs: () => Date.now() + aheadMs }
const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, {
  clock,
  natsUrl,
  databaseUrl,
  env: { JETPOST_DOMAINS: 'a.example,b.example,c.example' }
})
const second = await startTestApp(t, { clock, natsUrl, databaseUrl, env: { JETPOST_ROLES: 'api' } })

const inMs = (ms: number) => timestamp(clock.nowMs() + ms)
const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', html: '<p>Hello</p>' }
const post = (body: object, headers: Record<string, string> = {}, key?: string) =>
  app.request('POST', '/api/emails', { body, headers, ...(key === undefined ? {} : { key }) })
const read = async (id: string) => (await app.request('GET', `/api/emails/${id}`)).body

/** Each way to change an email, by a key. */
const changes = (id: string, key: string, at: TestApp = app) => ({
  move: () => at.request('PATCH', `/api/emails/${id}`, { key, body: { scheduled_at: inMs(2 * HOUR_MS) } }),
  cancel: () => at.request('POST', `/api/emails/${id}/cancel`, { key }),
  retry: () => at.request('POST', `/api/emails/${id}/retry`, { key })
})

t.test('an email is moved, canceled and retried only by a key that may send from its domain', async t => {
  const { secret } = await app.newKey({ scopes: ['emails:send'], domains: ['b.example'] })
  const { body } = await post({ ...mail, from: 'x@a.example', scheduled_at: inMs(HOUR_MS) })
  for (const [name, change] of Object.entries(changes(body.id, secret))) {
    t.match(await change(), { status: 403, body: { error: 'Insufficient API key permissions' } }, name)
  }
  t.match(await read(body.id), { status: 'scheduled' })
})

t.test('a domain that was added on one node may be sent from on another at once', async t => {
  for (let i = 0; i < 20; i++) {
    t.equal((await second.request('POST', '/api/domains', { body: { name: `fresh-${i}.example` } })).status, 201)
    t.equal((await post({ ...mail, from: `x@fresh-${i}.example` })).status, 202)
  }
})

t.test('a test key has no say in live mail', async t => {
  const { secret } = await app.newKey({ test: true })
  const live = await post({ ...mail, scheduled_at: inMs(HOUR_MS) })
  for (const [name, change] of Object.entries(changes(live.body.id, secret))) {
    t.equal((await change()).status, 403, name)
  }
  const own = await post({ ...mail, scheduled_at: inMs(HOUR_MS) }, {}, secret)
  t.equal((await changes(own.body.id, secret).cancel()).status, 200)
})

t.test('mail from a domain that was given up meanwhile is not sent, no matter who owns it now', async t => {
  const { body } = await post({ ...mail, from: 'x@c.example', scheduled_at: inMs(1500) })
  const domain = (await app.request('GET', '/api/domains')).body.data.find(({ name }: { name: string }) =>
    name === 'c.example'
  )
  t.equal((await app.request('DELETE', `/api/domains/${domain.id}`)).status, 204)
  t.equal(
    (await app.request('POST', '/api/domains', { key: await app.newAccountKey(), body: { name: 'c.example' } })).status,
    201
  )
  const record = await app.settled(body.id, 'failed')
  t.match(record.timeline.at(-1), { type: 'email.failed', reason: 'unsendable', detail: /domain/ })
})

t.test('a replay needs what the request needs', async t => {
  const headers = { 'idempotency-key': 'guarded' }
  const body = { ...mail, from: 'x@a.example' }
  t.equal((await post(body, headers)).status, 202)
  const { secret } = await app.newKey({ domains: ['b.example'] })
  t.equal((await post(body, headers, secret)).status, 403)
  const batch = (key: string) =>
    app.request('POST', '/api/emails/batch', {
      key,
      headers: { 'idempotency-key': 'guarded too' },
      body: { emails: [body] }
    })
  t.equal((await batch((await app.newKey({})).secret)).status, 202)
  t.equal((await batch(secret)).status, 403)
})

t.test('what was tried with a test key is not done: the same under a live key is another request', async t => {
  const headers = { 'idempotency-key': 'rehearsed' }
  const tried = await post(mail, headers, (await app.newKey({ test: true })).secret)
  const done = await post(mail, headers)
  t.equal(done.headers.get('idempotency-replayed'), null)
  t.not(done.body.id, tried.body.id)
})

t.test('a scheduled email asked for again under its key is answered the same when its time is long over', async t => {
  const body = { ...mail, scheduled_at: inMs(HOUR_MS) }
  const first = await post(body, { 'idempotency-key': 'long ago' })
  t.match(first, { status: 202, body: { status: 'scheduled' } })
  t.equal((await changes(first.body.id, (await app.newKey({})).secret).cancel()).status, 200)
  aheadMs += 3 * HOUR_MS
  const again = await post(body, { 'idempotency-key': 'long ago' })
  t.strictSame([again.status, again.body, again.headers.get('idempotency-replayed')], [202, first.body, 'true'])
  t.match(await post(body, { 'idempotency-key': 'new' }), {
    status: 422,
    body: { details: [{ field: 'scheduled_at', code: 'in_the_past' }] }
  })
  aheadMs = 0
})

t.test(
  'many who move one email at once: each is told the truth, and its recipients stay together',
  LONG_ONLY,
  async t => {
    const { body } = await post({
      ...mail,
      to: ['a@example.com', 'b@example.com', 'c@example.com'],
      scheduled_at: inMs(HOUR_MS)
    })
    const { secret, id } = await app.newKey({})
    await app.limitKey(id, { other: 1000 })
    const times = Array.from({ length: 60 }, (_, i) => inMs(2 * HOUR_MS + i * 60_000))
    const answers = await Promise.all(
      times.map((scheduledAt, i) =>
        (i % 2 === 0 ? app : second).request('PATCH', `/api/emails/${body.id}`, {
          key: secret,
          body: { scheduled_at: scheduledAt }
        })
      )
    )
    const granted = times.filter((_time, i) => answers[i]!.status === 200)
    t.ok(granted.length > 0)
    t.ok(answers.every(({ status, body }) => status === 200 || (status === 409 && body.code === 'conflict')))
    const record = await read(body.id)
    t.equal(
      new Set(record.recipients.map((recipient: { next_attempt_at: string }) => recipient.next_attempt_at)).size,
      1
    )
    t.ok(granted.includes(record.scheduled_at), 'what holds was granted')
    t.equal(
      record.timeline.filter(({ type }: { type: string }) => type === 'email.rescheduled').length,
      3 * granted.length
    )
  }
)

t.test('nothing is moved to a time at which its content would be gone', async t => {
  const { body } = await post({ ...mail, scheduled_at: inMs(20 * DAY_MS) })
  aheadMs = 18 * DAY_MS
  const { secret } = await app.newKey({})
  const move = (ms: number) =>
    app.request('PATCH', `/api/emails/${body.id}`, { key: secret, body: { scheduled_at: inMs(ms) } })
  t.match(await move(10 * DAY_MS), { status: 422, body: { details: [{ field: 'scheduled_at', code: 'too_late' }] } })
  t.equal((await move(7 * DAY_MS)).status, 200)
  aheadMs = 0
})

t.test('no attempt is planned for after the content is gone', async t => {
  const strict = await startTestApp(t, { env: { JETPOST_CONTENT_RETENTION: '5d', JETPOST_RETENTION: '5d' } })
  const early = await strict.send({
    scheduled_at: new Date(Date.now() + 0.9 * DAY_MS).toISOString(),
    expires_in: 432_000
  })
  t.equal(early.status, 202)
  t.match(await strict.send({ scheduled_at: new Date(Date.now() + 1.1 * DAY_MS).toISOString() }), {
    status: 422,
    body: { details: [{ code: 'too_late' }] }
  })
})

t.test('retry leaves alone who still wants no mail', async t => {
  const address = 'enough@example.com'
  t.equal((await app.request('POST', '/api/suppressions', { body: { address } })).status, 201)
  const { body } = await post({ ...mail, to: address })
  await app.settled(body.id, 'suppressed')
  t.match(await app.request('POST', `/api/emails/${body.id}/retry`), {
    status: 409,
    body: { code: 'not_retryable', recipients: [{ address, status: 'suppressed' }] }
  })
})

t.test('whether a scheduled email finds somebody suppressed is told when it goes out', async t => {
  const address = 'not-now@example.com'
  t.equal((await app.request('POST', '/api/suppressions', { body: { address } })).status, 201)
  const { body } = await post({ ...mail, to: address, scheduled_at: inMs(HOUR_MS) })
  t.match(body, { status: 'scheduled' })
  t.notOk('suppressed' in body)
})
