import { spawnSync } from 'node:child_process'
import t from 'tap'
import { startTestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { startSink } from '../support/smtp-sink.ts'

const mail = await startSink()
const hooks = await startHookSink()
const app = await startTestApp(t, { env: { SMTP_URL: mail.url } })
t.teardown(async () => {
  await hooks.stop()
  await mail.stop()
})

async function hook (...events: string[]): Promise<{ id: string, secret: string }> {
  return (await app.request('POST', '/api/webhooks', { body: { url: hooks.url, events } })).body
}

t.test('6.5 a mail goes from POST to the mail server, to the list and to a signed callback', async t => {
  const { id: webhook, secret } = await hook('email.delivered', 'email.bounced')
  const { body: { id } } = await app.send({
    to: 'Ada <ada@example.com>',
    subject: 'Grüße',
    tags: ['a', 'b'],
    metadata: { order: 7, vip: true },
    text: 'Hello'
  })
  const email = await app.settled(id, 'delivered')
  const [message] = await mail.dots(1)
  t.equal(message!.to, 'ada@example.com')
  const [callback] = await hooks.waitFor(requests => requests.length >= 1)
  t.equal(callback!.headers['content-type'], 'application/json')
  const digest = spawnSync('openssl', ['dgst', '-sha256', '-hmac', secret], { input: callback!.body, encoding: 'utf8' })
    .stdout.trim().split(' ').at(-1)
  t.equal(callback!.headers['x-service-signature'], `sha256=${digest}`, 'as openssl computes it')
  const event = JSON.parse(callback!.body.toString())
  const delivered = email.timeline.find((entry: { type: string }) => entry.type === 'email.delivered')
  t.match(event, {
    id: delivered.id,
    type: 'email.delivered',
    created_at: delivered.time,
    data: {
      email_id: id,
      from: 'hello@sandbox.jetpost.test',
      to: 'ada@example.com',
      subject: 'Grüße',
      smtp_response: /^250 /,
      tags: ['a', 'b'],
      metadata: { order: 7, vip: true }
    }
  })
  t.equal(event.data.message_id, message!.messageId)
  await app.request('DELETE', `/api/webhooks/${webhook}`)
})

t.test('6.1 a rejection is email.bounced, hard; a deferral email.bounced, soft; lists show their states', async t => {
  const { id: webhook } = await hook('email.bounced')
  const before = hooks.requests.length
  mail.replies('gone@example.net', { rcpt: '550 5.1.1 no such user here' })
  mail.replies('later@example.net', { rcpt: '451 4.7.1 greylisted, come back later' })
  const gone = (await app.send({ to: 'gone@example.net' })).body.id
  const later = (await app.send({ to: 'later@example.net' })).body.id
  const bounced = await app.settled(gone, 'bounced')
  const deferred = await app.settled(later, 'deferred')
  t.match(bounced.recipients, [{ status: 'bounced', last_response: { smtp_code: 550, enhanced_code: '5.1.1' } }])
  t.match(deferred.recipients, [{
    status: 'deferred',
    attempts: 1,
    next_attempt_at: /Z$/,
    last_response: { smtp_code: 451 }
  }])
  const events = (await hooks.waitFor(requests => requests.length >= before + 2)).slice(before).map(request =>
    JSON.parse(request.body.toString())
  )
  t.match(events.find(event => event.data.email_id === gone), {
    type: 'email.bounced',
    data: { smtp_response: /no such user/, bounce: { type: 'hard', final: true, enhanced_code: '5.1.1' } }
  })
  t.match(events.find(event => event.data.email_id === later), {
    type: 'email.bounced',
    data: { bounce: { type: 'soft', final: false, next_attempt_at: /Z$/ } }
  })
  await app.request('DELETE', `/api/webhooks/${webhook}`)
})

t.test('the mail of a test key goes to the catcher, never to the relay', async t => {
  const key = await app.newKey({ test: true })
  const { body: { id } } = await app.send({ to: 'real-person@example.com' }, key.secret)
  await app.settled(id, 'delivered')
  t.equal(mail.attempts('real-person@example.com'), 0)
  t.match(await app.caught('real-person@example.com'), { subject: 'Hello' })
})

t.test("health: alive, ready by part, metrics without anybody's data", async t => {
  t.strictSame((await app.request('GET', '/healthz', { key: null })).body, { status: 'ok' })
  const ready = await app.request('GET', '/readyz', { key: null })
  t.equal(ready.status, 200)
  t.ok(ready.body.parts.every((part: { ready: boolean }) => part.ready))
  const { body } = await app.request('GET', '/metrics', { key: null })
  for (
    const name of [
      'jetpost_http_request_seconds',
      'jetpost_smtp_attempts_total{result="delivered"}',
      'jetpost_webhook_attempt_seconds',
      'jetpost_appends_pending',
      'jetpost_projection_lag_seconds'
    ]
  ) t.match(body, name)
  t.notMatch(body, 'example.com')
})
