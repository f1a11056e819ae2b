import { Webhook } from 'standardwebhooks'
import t, { type Test } from 'tap'
import { Resend, type WebhookEventPayload } from 'resend'
import { shapeFault, type ResendShape } from '../fixtures/resend-shapes.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { startHookSink, type HookRequest } from '../support/hook-sink.ts'
import { until } from '../support/wait.ts'

const app = await startTestApp(t)
const sink = await startHookSink()
t.teardown(() => sink.stop())
const resend = new Resend(API_KEY, { baseUrl: `${app.url}/resend` })
const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', html: '<p>Hello</p>' }

const ask = async (method: string, path: string, body?: unknown) => (await app.request(method, path, { body })).body
const at = (path: string) => sink.requests.filter(request => request.path === path)
const eventOf = ({ body }: HookRequest) => JSON.parse(body.toString())
const eventsAt = (path: string, id: string) => at(path).map(eventOf).filter(({ data }) => data.email_id === id)

async function listen (path: string, events: string[]): Promise<{ id: string, secret: string }> {
  const { data, error } = await resend.webhooks.create({ endpoint: sink.url + path, events: events as never })
  if (error !== null) throw new Error(error.message)
  return { id: data.id, secret: data.signing_secret }
}

const ALL = ['email.delivered', 'email.bounced', 'email.delivery_delayed', 'email.complained', 'email.sent'] as const
const all = await listen('/all', [...ALL])
const bounced = await listen('/bounced', ['email.bounced'])
const delayed = await listen('/delayed', ['email.delivery_delayed'])
await ask('POST', '/api/webhooks', { url: `${sink.url}/own`, events: ['email.delivered', 'email.bounced'] })

/** What a receiver of Resend's does first. */
function verified (t: Test, { headers, body }: HookRequest, secret: string): WebhookEventPayload {
  const payload = body.toString()
  const names = (prefix: string) => ({
    id: headers[`${prefix}-id`]!,
    timestamp: headers[`${prefix}-timestamp`]!,
    signature: headers[`${prefix}-signature`]!
  })
  t.strictSame(names('svix'), names('webhook'))
  const given = { payload, headers: names('svix'), webhookSecret: secret }
  t.throws(() => resend.webhooks.verify({ ...given, payload: `${payload} ` }))
  t.strictSame(new Webhook(secret).verify(payload, headers), JSON.parse(payload))
  return resend.webhooks.verify(given)
}

t.test('an endpoint made by a client of Resend gets events in the words of Resend', async t => {
  const tags = [{ name: 'order', value: '7' }]
  const { data } = await resend.emails.send({ ...mail, from: `Shop <${FROM}>`, tags })
  await sink.waitFor(() => eventsAt('/all', data!.id).length > 0)
  const email = await app.settled(data!.id, 'delivered')
  const [request] = at('/all').filter(request => eventOf(request).data.email_id === data!.id)
  const event = verified(t, request!, all.secret)
  t.strictSame(event, {
    type: 'email.delivered',
    created_at: email.recipients[0].delivered_at,
    data: {
      email_id: data!.id,
      created_at: email.created_at,
      from: FROM,
      to: ['ada@example.com'],
      subject: 'Hello',
      message_id: `<${data!.id}.0@${FROM.split('@')[1]}>`,
      tags: { order: '7' }
    }
  })
})

t.test('a rejection is bounced, a deferral is delayed, and each goes where it is asked for', async t => {
  const send = async (to: string) => (await resend.emails.send({ ...mail, to })).data!.id
  const [hard, soft] = [await send('bounced@sandbox.jetpost.test'), await send('softbounced@sandbox.jetpost.test')]
  const later = await send('bounced+later@sandbox.jetpost.test')
  const isTold = (path: string, id: string) => eventsAt(path, id).length > 0
  await sink.waitFor(() => isTold('/all', hard) && isTold('/all', soft) && isTold('/bounced', later))
  t.match(eventsAt('/all', hard), [{
    type: 'email.bounced',
    data: { bounce: { type: 'Permanent', subType: String, message: /hard bounce message: 5\d\d/ } }
  }])
  t.match(eventsAt('/all', soft), [{ type: 'email.delivery_delayed', data: { bounce: undefined } }])
  await sink.waitFor(() => isTold('/delayed', soft) && isTold('/bounced', hard))
  t.strictSame(at('/bounced').map(eventOf).map(({ type }) => type), ['email.bounced', 'email.bounced'])
  t.strictSame(at('/delayed').map(eventOf).map(({ data }) => data.email_id), [soft])
})

t.test('the bytes of an event are the same on each try, replay and backfill', async t => {
  const { id } = await listen('/retried', ['email.delivered'])
  sink.answers(({ path }) => ({ status: path === '/retried' && at('/retried').length === 1 ? 500 : 200 }))
  const startAt = new Date(Date.now() - 1).toISOString()
  const sent = (await resend.emails.send(mail)).data!.id
  await sink.waitFor(() => at('/retried').length === 2)
  const deliveries = async () => (await ask('GET', `/api/webhooks/${id}/deliveries`)).data
  await until(async () => (await deliveries())[0]?.state === 'delivered')
  const [delivery] = await deliveries()
  const shown = await ask('GET', `/api/deliveries/${delivery.id}`)
  await ask('POST', `/api/deliveries/${delivery.id}/replay`)
  await sink.waitFor(() => at('/retried').length === 3)
  const late = { url: `${sink.url}/late`, events: ['email.delivered'], format: 'resend', start_at: startAt }
  t.match(await ask('POST', '/api/webhooks', late), { format: 'resend', bounces: 'all' })
  await sink.waitFor(() => eventsAt('/late', sent).length > 0)
  const bodies = [...at('/retried'), ...at('/late').filter(request => eventOf(request).data.email_id === sent)]
    .map(({ body }) => body.toString())
  t.equal(bodies.length, 4)
  t.equal(new Set([...bodies, shown.body]).size, 1)
  t.equal(new Set(at('/retried').map(({ headers }) => headers['svix-id'])).size, 1)
})

t.test('a test event is worded alike', async t => {
  await ask('POST', `/api/webhooks/${bounced.id}/test`, { type: 'email.bounced' })
  await sink.waitFor(() => at('/bounced').some(request => eventOf(request).data.test === true))
  const request = at('/bounced').find(request => eventOf(request).data.test === true)!
  t.match(verified(t, request, bounced.secret), {
    type: 'email.bounced',
    data: { to: ['recipient@example.com'], bounce: { type: 'Permanent', subType: 'NoEmail' } }
  })
})

t.test('one mail by /api and one by /resend: the same row, timeline and events', async t => {
  const key = await app.newKey({ defaults: { opens: false, clicks: true, unsubscribe: false } })
  const fields = { ...mail, to: ['Ada <same@example.com>'], cc: ['cc@example.com'], text: 'Hello' }
  const own = (await app.send({ ...fields, metadata: { order: '7' } }, key.secret)).body.id
  const other = new Resend(key.secret, { baseUrl: `${app.url}/resend` })
  const { data } = await other.emails.send({ ...fields, tags: [{ name: 'order', value: '7' }] })
  const ids = [own, data!.id]
  const emails = await Promise.all(ids.map(id => app.settled(id, 'delivered')))
  await sink.waitFor(() => ids.every(id => eventsAt('/own', id).length === 2))
  const listed = (await ask('GET', '/api/emails?q=same@example.com')).data
  t.strictSame(new Set(listed.map(({ id }: { id: string }) => id)), new Set(ids))
  t.same(plain(listed[0]), plain(listed[1]))
  t.same(plain(byRecipient(emails[0])), plain(byRecipient(emails[1])))
  const [a, b] = ids.map(id => eventsAt('/own', id).map(plain).sort((a, b) => (a.data.to < b.data.to ? -1 : 1)))
  t.same(a, b)
})

/** What happens to two recipients may come in either order. */
function byRecipient (email: { timeline: Array<{ n?: number }> }): object {
  return { ...email, timeline: email.timeline.toSorted((a, b) => (a.n ?? -1) - (b.n ?? -1)) }
}

/** Without what is of one mail alone: ids, times, and how long things took. */
function plain (value: unknown): any {
  const text = JSON.stringify(
    value,
    (name, inner: unknown) => (name === 'ms' || name === 'address' ? undefined : inner)
  )
  return JSON.parse(
    text.replaceAll(/\b(em|ev)_[0-9a-z]{26}/g, '$1').replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'then')
      .replaceAll(/\bmsg_\w+/g, 'msg')
  )
}

t.test('endpoints are changed, listed and deleted', async t => {
  const { id } = delayed
  const granted = async (shape: ResendShape, asked: Promise<{ data: unknown, error: unknown }>): Promise<any> => {
    const { data, error } = await asked
    t.equal(error, null)
    t.equal(shapeFault(shape, data), null, 'a secret is shown once')
    return data
  }
  t.match(await granted('webhook', resend.webhooks.get(id)), {
    status: 'enabled',
    events: ['email.delivery_delayed'],
    endpoint: `${sink.url}/delayed`
  })
  const events = ['email.bounced', 'email.opened'] as never
  await granted('changedWebhook', resend.webhooks.update(id, { events, status: 'disabled' }))
  t.match(await granted('webhook', resend.webhooks.get(id)), { status: 'disabled', events })
  t.match(await ask('GET', `/api/webhooks/${id}`), { paused: true, bounces: 'final', format: 'resend' })
  await granted('changedWebhook', resend.webhooks.update(id, { status: 'enabled' }))
  t.match(await granted('webhook', resend.webhooks.get(id)), { status: 'enabled' })
  t.match(await granted('createdWebhook', resend.webhooks.rotateSigningSecret(id)), { signing_secret: /^whsec_/ })
  t.match(await granted('webhooks', resend.webhooks.list({ limit: 2 })), { has_more: true, data: { length: 2 } })
  await granted('deletedWebhook', resend.webhooks.remove(id))
  t.match((await resend.webhooks.get(id)).error, { statusCode: 404, name: 'not_found' })
  const refusal = async (fields: object) =>
    (await resend.webhooks.create({ endpoint: `${sink.url}/x`, events: ['email.sent'], ...fields })).error
  t.match(await refusal({}), { statusCode: 422, name: 'validation_error', message: /at least one/ })
  t.match(await refusal({ events: ['nonsense'] }), { statusCode: 422, message: /events\[0\] must be an event type/ })
  t.match(await refusal({ endpoint: 'nowhere', events: ['email.opened'] }), {
    statusCode: 422,
    message: /^endpoint must/
  })
})

t.test('a format is for good, and Resend has no batches', async t => {
  const batch = { max_events: 2, max_wait_ms: 100 }
  const body = { url: `${sink.url}/x`, events: ['email.opened'], format: 'resend' }
  t.match(await ask('POST', '/api/webhooks', { ...body, batch }), {
    details: [{ field: 'batch', code: 'not_supported' }]
  })
  t.match(await ask('POST', '/api/webhooks', { ...body, format: 'svix' }), { details: [{ field: 'format' }] })
  t.match(await ask('PATCH', `/api/webhooks/${all.id}`, { batch }), { details: [{ field: 'batch' }] })
  t.match(await ask('PATCH', `/api/webhooks/${all.id}`, { format: 'jetpost' }), {
    details: [{ field: 'format', code: 'unknown_field' }]
  })
})
