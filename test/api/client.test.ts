import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect, promisify } from 'node:util'
import t, { type Test } from 'tap'
import {
  isBatch,
  Jetpost,
  JetpostError,
  verifyWebhook,
  WebhookSignatureError,
  type JetpostOptions,
  type SignedRequest,
  type TailedEvent,
  type WebhookBatch,
  type WebhookEvent
} from '#src/client/client.ts'
import { clientFiles } from '../support/client-generator.ts'
import { startHookSink, type HookAnswer, type HookSink } from '../support/hook-sink.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { readDescription } from '../support/openapi.ts'
import { until } from '../support/wait.ts'

const root = join(import.meta.dirname, '..', '..')
const app = await startTestApp(t)
const document = (await app.request('GET', '/openapi.json', { key: null })).body
const jetpost = new Jetpost({ url: app.url, key: API_KEY })
const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', text: 'Hello' }

/** A server that answers as told, the last answer for ever; and a client of it, with what it asked for: `GET
 *  /api/emails`. */
async function openSink (
  t: Test,
  answers: HookAnswer[] = [{}],
  options: Partial<JetpostOptions> = {}
): Promise<{ sink: HookSink, client: Jetpost, asked: string[] }> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  sink.answers((_request, index) => ({
    headers: { 'content-type': 'application/json' },
    body: '{}',
    ...answers[Math.min(index, answers.length - 1)]
  }))
  const asked: string[] = []
  const watched: typeof fetch = async (url, init) => {
    asked.push(`${init!.method} ${(url as URL).pathname}`)
    return await fetch(url, init)
  }
  return { sink, asked, client: new Jetpost({ url: sink.url, key: API_KEY, retries: 1, fetch: watched, ...options }) }
}

async function errorOf (promise: Promise<unknown>): Promise<JetpostError> {
  const error = await promise.then(() => null, (error: unknown) => error)
  if (!(error instanceof JetpostError)) throw new Error(`not a JetpostError: ${inspect(error)}`)
  return error
}

async function collect<T> (items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

t.test('what is generated is up to date', async t => {
  for (const [name, text] of Object.entries(clientFiles(document))) {
    t.equal(
      readFileSync(join(root, 'src', 'client', name), 'utf8'),
      text,
      `${name}: npm run client makes it again`
    )
  }
})

t.test('every operation of the document has a method, and no method is of another', async t => {
  const { asked, client } = await openSink(t, [{ body: '{"data":[],"has_more":false,"next_cursor":null}' }])
  const {
    emails,
    events: { tail, ...events },
    templates,
    domains,
    keys,
    users,
    accounts,
    routes,
    feedbackSources,
    me,
    webhooks,
    suppressions,
    erasures,
    audit,
    stats,
    deliveries,
    replays,
    ...rest
  } = client
  t.strictSame(Object.keys(rest), [], 'this test knows all resources')
  t.type(tail, 'function', 'of the same operation as events.list; see below')
  await me()
  const lists = [
    emails,
    events,
    templates,
    domains,
    keys,
    users,
    accounts,
    routes,
    feedbackSources,
    webhooks,
    suppressions,
    erasures,
    audit,
    stats,
    deliveries,
    replays
  ]
  for (const resource of lists) {
    for (const method of Object.values(resource) as Array<(...args: unknown[]) => unknown>) {
      const answer = method('x', {})
      await (Symbol.asyncIterator in Object(answer) ? collect(answer as AsyncIterable<unknown>) : answer)
    }
  }
  const described = readDescription(document).operations.map(({ method, path }) =>
    `${method} ${path.replaceAll(/\{\w+\}/g, 'x')}`
  )
  t.strictSame([...new Set(asked)].sort(), described.sort())
})

t.test('an email is sent, read, listed over pages, and its message shown', async t => {
  const tag = 'over-pages'
  const ids: string[] = []
  for (let i = 0; i < 5; i++) {
    ids.unshift((await jetpost.emails.send({ ...mail, tags: [tag], metadata: { order: i } })).id)
  }
  t.strictSame((await collect(jetpost.emails.list({ tag: [tag], limit: 2 }))).map(({ id }) => id), ids)
  const page = await jetpost.emails.page({ tag: [tag], limit: 2 })
  t.match(page, { data: [{ id: ids[0] }, { id: ids[1] }], has_more: true })
  t.strictSame(
    (await collect(jetpost.emails.list({ tag: [tag], cursor: page.next_cursor! }))).map(({ id }) => id),
    ids.slice(2),
    'from a cursor on'
  )
  t.strictSame((await jetpost.emails.page({ tag: [tag], metadata: { order: '3' } })).data.map(({ id }) => id), [ids[1]])
  for await (const email of jetpost.emails.list({ tag: [tag], limit: 1 })) {
    t.equal(email.id, ids[0], 'who has enough stops')
    break
  }
  await app.settled(ids[0]!, 'delivered')
  t.match(await jetpost.emails.get(ids[0]!), {
    status: 'delivered',
    recipients: [{ address: 'ada@example.com', last_response: { smtp_code: 250 } }]
  })
  t.match(await jetpost.emails.content(ids[0]!), { subject: 'Hello', text: 'Hello', attachments: [] })
  const raw = await jetpost.emails.raw(ids[0]!)
  t.match(new TextDecoder().decode(raw), /^Subject: Hello\r$/m)
  t.match(await errorOf(jetpost.emails.raw(ids[0]!, 7)), { status: 422, details: [{ field: 'recipient' }] })
})

t.test('lists of emails take several values of status and tag: one of each must hold', async t => {
  const [first, second] = [
    await jetpost.emails.send({ ...mail, tags: ['several-a'] }),
    await jetpost.emails.send({
      ...mail,
      tags: ['several-b'],
      scheduled_at: new Date(Date.now() + 3_600_000).toISOString()
    })
  ]
  await app.settled(first.id, 'delivered')
  const tag = ['several-a', 'several-b']
  const ids = async (query: Parameters<typeof jetpost.emails.page>[0]) =>
    (await jetpost.emails.page(query)).data.map(({ id }) => id)
  t.strictSame(await ids({ tag }), [second.id, first.id])
  t.strictSame(await ids({ tag, status: ['delivered', 'scheduled'] }), [second.id, first.id])
  t.strictSame(await ids({ tag, status: ['bounced', 'scheduled'] }), [second.id])
  t.strictSame(await ids({ tag: ['several-a'], status: ['scheduled', 'bounced'] }), [])
  const { body } = await app.request('GET', '/api/emails?status=delivered&tag=several-a&status=failed&tag=several-b')
  t.strictSame(body.data.map(({ id }: { id: string }) => id), [first.id])
})

t.test('a batch is answered in its order, with the errors of those that have some', async t => {
  const both = await jetpost.emails.sendBatch([mail, { ...mail, to: 'grace@example.com' }])
  t.strictSame(
    (await Promise.all(both.map(sent => ('id' in sent ? jetpost.emails.get(sent.id) : null)))).map(email => email?.to),
    [['ada@example.com'], ['grace@example.com']]
  )
  t.match(await jetpost.emails.sendBatch([mail, { ...mail, to: 'nobody' }], { mode: 'permissive' }), [{
    status: 'queued'
  }, { code: 'validation_failed' }])
  t.match(await errorOf(jetpost.emails.sendBatch([mail, { ...mail, to: 'nobody' }])), {
    status: 422,
    details: [{ field: 'emails[1].to' }]
  })
})

t.test('a scheduled email is moved and canceled; what is over cannot be', async t => {
  const { id } = await jetpost.emails.send({ ...mail, scheduled_at: new Date(Date.now() + 3_600_000).toISOString() })
  const later = new Date(Date.now() + 7_200_000).toISOString()
  t.match(await jetpost.emails.reschedule(id, { scheduled_at: later }), {
    scheduled_at: later,
    rescheduled: [{ n: 0 }]
  })
  t.match(await jetpost.emails.cancel(id), { canceled: [{ status: 'canceled' }], gone: [] })
  t.match(await errorOf(jetpost.emails.retry(id)), { status: 409, body: { recipients: [{ status: 'canceled' }] } })
})

t.test('templates, domains, keys, webhooks and suppressions are made, read, changed and deleted', async t => {
  const template = await jetpost.templates.create({
    name: 'Greeting',
    subject: 'Hello {{name}}',
    text: 'Hello {{name}}'
  })
  await jetpost.templates.update(template.id, { name: 'Welcome' })
  t.match(await jetpost.templates.get(template.id, { version: 1 }), { name: 'Greeting' })
  t.strictSame((await collect(jetpost.templates.versions(template.id, { limit: 1 }))).map(({ version }) => version), [
    2,
    1
  ])
  t.match(await jetpost.templates.preview(template.id, { variables: { name: 'Ada' } }), {
    text: 'Hello Ada',
    missing: []
  })
  t.equal(await jetpost.templates.delete(template.id), undefined)
  t.match(await errorOf(jetpost.templates.get(template.id)), { status: 404, code: 'http_404' })

  const domain = await jetpost.domains.create({ name: 'client.example' })
  t.match(await jetpost.domains.update(domain.id, { unsubscribe: false }), { unsubscribe: false })
  t.ok((await collect(jetpost.domains.list())).some(({ name }) => name === 'client.example'))
  t.equal((await jetpost.domains.rotateDkim(domain.id)).records.filter(({ stage }) => stage === 'next').length, 2)
  t.match(await errorOf(jetpost.domains.rotateDkim(domain.id)), { status: 409, code: 'rotation_under_way' })
  await jetpost.domains.delete(domain.id)

  const key = await jetpost.keys.create({ name: 'Reader', scopes: ['emails:read'], domains: ['*'] })
  t.match(await jetpost.keys.update(key.id, { name: 'Looker' }), { name: 'Looker' })
  t.not((await jetpost.keys.rotate(key.id)).key, key.key)
  await jetpost.keys.delete(key.id)
  t.match(await errorOf(new Jetpost({ url: app.url, key: key.key }).emails.page()), {
    status: 401,
    code: 'http_401',
    message: 'Unauthorized'
  })

  const webhook = await jetpost.webhooks.create({ url: 'http://127.0.0.1:9/', events: ['email.delivered'] })
  t.match(await jetpost.webhooks.update(webhook.id, { paused: true }), { paused: true })
  t.match(await errorOf(jetpost.webhooks.test(webhook.id)), { status: 409 })
  t.match(
    (await jetpost.webhooks.rotateSecret(webhook.id)).secret,
    /^whsec_/,
    'a body that needs nothing can be left out'
  )
  await jetpost.webhooks.delete(webhook.id)

  await jetpost.suppressions.create({ address: 'a+b/c@example.com' })
  t.match(await jetpost.suppressions.get('a+b/c@example.com'), { reasons: [{ reason: 'manual' }] })
  await jetpost.suppressions.delete('a+b/c@example.com')
  t.strictSame(await collect(jetpost.suppressions.list({ address: 'a+b/c@example.com' })), [])
})

t.test('a refusal says what, in words and for programs', async t => {
  const error = await errorOf(jetpost.emails.send({ from: 'nobody', to: [], subject: '' }))
  t.match(error, {
    name: 'JetpostError',
    status: 422,
    code: 'validation_failed',
    retryAfterS: null,
    requestId: /^req_/
  })
  for (const name of ['from', 'to', 'subject']) t.ok(error.details.some(({ field }) => field === name), name)
  t.ok(error.details.every(({ message }) => error.message.includes(message)))
  const reader = await app.newKey({ scopes: ['emails:read'] })
  t.match(await errorOf(new Jetpost({ url: app.url, key: reader.secret }).emails.send(mail)), {
    status: 403,
    message: 'Insufficient API key permissions: The key must have the scope emails:send.',
    helpUrl: /\/docs#\/Emails\/sendEmail$/
  })
  t.match(await new Jetpost({ url: app.url, key: reader.secret }).me(), { id: reader.id, scopes: ['emails:read'] })
  const another = new Jetpost({ url: app.url, key: await app.newAccountKey() })
  const { id } = await jetpost.emails.send(mail)
  t.match(await errorOf(another.emails.get(id)), { status: 404 })
  for (const wrong of ['', '.', '..', undefined as never]) await t.rejects(jetpost.emails.get(wrong), /id cannot be/)
})

t.test('past its window it waits for as long as it is told, and no longer than it has', async t => {
  const { secret, id } = await app.newKey({})
  await app.limitKey(id, { 'emails:send': 1 })
  const client = new Jetpost({ url: app.url, key: secret, deadlineMs: 500 })
  const limited = async () => await client.emails.send(mail).then(() => null, (error: JetpostError) => error)
  // Another minute may begin between two.
  const error = await limited() ?? await limited() ?? await limited()
  t.match(error, { status: 429, message: 'Rate limit exceeded' })
  t.ok(error!.retryAfterS! >= 1 && error!.retryAfterS! <= 60)

  const { sink, client: patient } = await openSink(t, [{
    status: 429,
    headers: { 'retry-after': '1' },
    body: '{"error":"Rate limit exceeded","retryAfter":1}'
  }, {}])
  await patient.keys.create({ name: 'x', scopes: [], domains: [] })
  t.equal(sink.requests.length, 2, 'also what is not safe to repeat: nothing was done')
  t.ok(sink.requests[1]!.at - sink.requests[0]!.at >= 1000)
  const date = await openSink(t, [{
    status: 503,
    headers: { 'retry-after': new Date(Date.now() + 3_600_000).toUTCString() }
  }])
  t.ok((await errorOf(date.client.emails.page())).retryAfterS! > 3500, 'a date')
  t.equal(date.sink.requests.length, 1, 'an hour is more than it has')
})

t.test('sending is tried again under one key of its own', async t => {
  for (const trouble of [{ status: 503 }, { status: 502, body: '<html>' }, { status: 504 }, { reset: true }]) {
    const { sink, client } = await openSink(t, [trouble, {}])
    await client.emails.send(mail)
    await client.emails.sendBatch([mail])
    const [first, second, third] = sink.requests.map(({ headers }) => headers['idempotency-key'])
    t.match(first, /^[0-9a-f-]{36}$/, inspect(trouble))
    t.equal(second, first)
    t.not(third, first)
    t.strictSame(sink.requests.slice(0, 2).map(({ body }) => JSON.parse(String(body))), [mail, mail])
  }
  const given = await openSink(t)
  await given.client.emails.send(mail, { idempotencyKey: 'order-1042' })
  t.equal(given.sink.requests[0]!.headers['idempotency-key'], 'order-1042')
})

t.test('an answer that is lost does not send twice', async t => {
  const sent = new Set<string>()
  let tries = 0
  const client = new Jetpost({
    url: app.url,
    key: API_KEY,
    fetch: async (...args) => {
      const answer = await fetch(...args)
      sent.add((await answer.clone().json() as { id: string }).id)
      if (++tries === 1) throw new TypeError('the line was cut')
      return answer
    }
  })
  const { id } = await client.emails.send(mail)
  t.strictSame([tries, [...sent]], [2, [id]])
  t.match(
    await errorOf(
      jetpost.emails.send(mail, { idempotencyKey: 'once' }).then(() =>
        jetpost.emails.send({ ...mail, text: 'Other' }, { idempotencyKey: 'once' })
      )
    ),
    {
      status: 409,
      code: 'idempotency_mismatch',
      body: { email_id: /^em_/ }
    }
  )
})

t.test('reads, changes and deletions are tried again; what could be done twice is not', async t => {
  for (const trouble of [{ status: 503 }, { reset: true }]) {
    const { asked, client } = await openSink(t, [trouble, { status: 204, body: '' }, trouble, {}, trouble, {}])
    await client.domains.delete('dom_1')
    await client.domains.get('dom_1')
    await client.domains.update('dom_1', {})
    t.strictSame(asked.map(ask => ask.split(' ')[0]), ['DELETE', 'DELETE', 'GET', 'GET', 'PATCH', 'PATCH'])
    const other = await openSink(t, [trouble, {}])
    await errorOf(other.client.keys.create({ name: 'x', scopes: [], domains: [] }))
    t.equal(other.sink.requests.length, 1)
  }
  for (const status of [400, 401, 404, 409, 422, 500]) {
    const { sink, client } = await openSink(t, [{ status }])
    t.match(await errorOf(client.emails.send(mail)), {
      status,
      code: `http_${status}`,
      message: `The answer was ${status}`
    })
    t.equal(sink.requests.length, 1)
  }
  const { sink, client } = await openSink(t, [{ status: 503 }], { retries: 2 })
  t.match(await errorOf(client.emails.page()), { status: 503 })
  t.equal(sink.requests.length, 3, 'no more tries than allowed')
})

t.test('a service that does not listen yet is tried again, whatever is asked', async t => {
  const server = createServer((_request, response) => response.setHeader('content-type', 'application/json').end('{}'))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  await once(server.close(), 'close')
  t.teardown(() => server.close())
  let tries = 0
  const client = new Jetpost({
    url: `http://127.0.0.1:${port}`,
    key: API_KEY,
    fetch: async (...args) => {
      if (++tries === 2) await once(server.listen(port, '127.0.0.1'), 'listening')
      return await fetch(...args)
    }
  })
  t.strictSame(await client.webhooks.test('wh_1'), {})
  t.equal(tries, 2)
})

t.test('a request ends when its time is over, or when the caller has had enough', async t => {
  const { sink, client } = await openSink(t, [{ hang: true }], { timeoutMs: 100 })
  t.match(await errorOf(client.emails.page()), {
    status: null,
    code: 'timeout',
    message: 'There was no answer within 100 ms'
  })
  t.equal(sink.requests.length, 2, 'and is tried again')
  const dribble = await openSink(t, [{ dribble: true }], { timeoutMs: 100, retries: 0 })
  t.match(await errorOf(dribble.client.emails.page()), { code: 'timeout' }, 'also while the answer comes in')

  const enough = new AbortController()
  const hanging = await openSink(t, [{ hang: true }])
  const asked = hanging.client.emails.get('em_1', { signal: enough.signal })
  await hanging.sink.waitFor(requests => requests.length === 1)
  enough.abort(new Error('enough'))
  await t.rejects(asked, /^enough$/)
  const waiting = await openSink(t, [{ status: 503, headers: { 'retry-after': '60' } }])
  const later = new AbortController()
  const waits = waiting.client.emails.get('em_1', { signal: later.signal })
  await waiting.sink.waitFor(requests => requests.length === 1)
  later.abort(new Error('later'))
  await t.rejects(waits, /^later$/, 'also between two tries')
})

t.test('a redirected request is not made into another', async t => {
  const { sink, client } = await openSink(t, [{ status: 301, headers: { location: '/elsewhere' } }])
  t.match(await errorOf(client.emails.send(mail)), { status: 301 })
  t.equal(sink.requests.length, 1)
})

t.test('no error holds the key', async t => {
  const secret = 'jp_live_a-secret-nobody-may-see'
  const errors: unknown[] = []
  const attempt = async (options: JetpostOptions) => {
    try {
      await new Jetpost(options).emails.get('em_1')
    } catch (error) {
      errors.push(error)
    }
  }
  await attempt({ url: app.url, key: secret })
  await attempt({ url: app.url, key: `${secret}\n` })
  await attempt({ url: app.url, key: `${secret}é` })
  await attempt({ url: `http://someone:${secret}@127.0.0.1:9`, key: API_KEY })
  await attempt({ url: 'ftp://127.0.0.1', key: secret })
  await attempt({ url: 'http://127.0.0.1:9', key: secret, retries: 0 })
  t.equal(errors.length, 6)
  for (const error of errors) {
    t.notMatch(`${inspect(error, { depth: 10, showHidden: true })} ${JSON.stringify(error)}`, secret)
  }
  t.notMatch(
    inspect(new Jetpost({ url: app.url, key: secret }), { depth: 10, showHidden: true }),
    secret,
    'nor does the client show it'
  )
})

t.test('a webhook request is verified, and nothing else is', async t => {
  const { sink } = await openSink(t)
  const { id, secret } = await jetpost.webhooks.create({ url: `${sink.url}/hook`, events: ['email.delivered'] })
  const sent = await jetpost.emails.send({ ...mail, tags: ['verify'], metadata: { order: 7 } })
  const [request] = await sink.waitFor(requests => requests.some(({ body }) => String(body).includes(sent.id)))
  const { body, headers } = request!
  const event = await verifyWebhook({ body, headers, secret }) as WebhookEvent
  t.match(event, {
    type: 'email.delivered',
    data: { email_id: sent.id, tags: ['verify'], metadata: { order: 7 }, via: 'relay' }
  })
  if (event.type === 'email.delivered') t.equal(event.data.via, 'relay', 'the type tells what it holds')

  const { 'webhook-signature': _signature, ...plain } = headers
  const text = String(body)
  const good: SignedRequest[] = [
    { body: text, headers: plain, secret },
    { body: new Uint8Array(body).buffer, headers: new Headers(headers), secret },
    { body, headers: { 'X-Service-Signature': [plain['x-service-signature']!] }, secret: ['whsec_b2xk', secret] },
    { body, headers, secret: ['whsec_b2xk', secret], toleranceS: 60 }
  ]
  for (const request of good) t.equal((await verifyWebhook(request)).id, event.id)

  const anHourAgo = String(Number(headers['webhook-timestamp']) - 3600)
  const bad: Array<[string, SignedRequest]> = [
    ['another body', { body: `${text} `, headers, secret }],
    ['another body, without a time', { body: `${text} `, headers: plain, secret }],
    ['another secret', { body, headers, secret: 'whsec_b2xk' }],
    ['another secret, without a time', { body, headers: plain, secret: 'whsec_b2xk' }],
    ['no secret at all', { body, headers, secret: [] }],
    ['an empty secret', { body, headers, secret: ['', 'whsec_'] }],
    ['another id', { body, headers: { ...headers, 'webhook-id': 'ev_1' }, secret }],
    ["a time of one's own", {
      body,
      headers: { ...headers, 'webhook-timestamp': anHourAgo },
      secret,
      toleranceS: 7200
    }],
    ['no time', { body, headers: { ...headers, 'webhook-timestamp': undefined }, secret }],
    ['no time, and one is wanted', { body, headers: plain, secret, toleranceS: 60 }],
    ['no signature', { body, headers: {}, secret }],
    ['capitals', { body, headers: { 'x-service-signature': plain['x-service-signature']!.toUpperCase() }, secret }],
    ['something that is none', { body, headers: { ...headers, 'webhook-signature': 'v1,é v2,eA== v1' }, secret }]
  ]
  for (const [what, request] of bad) await t.rejects(verifyWebhook(request), WebhookSignatureError, what)
  await t.rejects(verifyWebhook({ body: JSON.parse(text), headers, secret }), /raw body/)

  const { secret: next } = await jetpost.webhooks.rotateSecret(id)
  const { id: testEvent } = await jetpost.webhooks.test(id)
  const requests = await sink.waitFor(all => all.some(({ headers }) => headers['webhook-id'] === testEvent))
  const rotated = requests.find(({ headers }) => headers['webhook-id'] === testEvent)!
  for (const either of [secret, next!]) {
    t.match(
      await verifyWebhook({ ...rotated, secret: either }),
      { data: { test: true } },
      'while a secret is rotated, with either'
    )
  }
})

t.test('a batch is verified whole, and told from an event', async t => {
  const secret = `whsec_${Buffer.from('s'.repeat(32)).toString('base64')}`
  const event = {
    id: 'ev_1',
    type: 'email.opened',
    created_at: '2026-11-21T10:00:00.000Z',
    data: { email_id: 'em_1', machine: false }
  }
  const body = JSON.stringify({ object: 'batch', id: 'whd_1', events: [event, { ...event, id: 'ev_2' }] })
  const headers = { 'x-service-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}` }
  const batch = await verifyWebhook({ body, headers, secret })
  t.ok(isBatch(batch))
  t.strictSame((batch as WebhookBatch).events.map(({ id }) => id), ['ev_1', 'ev_2'])
  t.notOk(isBatch(event as never))
  await t.rejects(verifyWebhook({ body: body.replace('ev_2', 'ev_3'), headers, secret }), WebhookSignatureError)
})

t.test("events are listed to their end, and go on from a page's cursor", async t => {
  const { next_cursor: begin } = await endOf()
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.push((await jetpost.emails.send(mail)).id)
  await Promise.all(ids.map(id => app.settled(id, 'delivered')))
  const listed = await collect(
    jetpost.events.list({ after: begin, limit: 2, type: ['email.delivered', 'email.bounced'] })
  )
  t.strictSame(listed.map(({ data }) => data.email_id).sort(), [...ids].sort())
  const page = await jetpost.events.page({ after: begin, limit: 2 })
  t.match(page, { has_more: true, data: listed.slice(0, 2) })
  t.strictSame(await collect(jetpost.events.list({ after: page.next_cursor })), listed.slice(2))
  t.strictSame(await collect(jetpost.events.list({ after: begin, type: ['email.clicked'] })), [])
  t.strictSame(
    (await collect(jetpost.events.list({ after: begin, email_id: ids[0] }))).map(({ data }) => data.email_id),
    [ids[0]]
  )
})

async function endOf (): Promise<{ next_cursor: string }> {
  let page = await jetpost.events.page({ limit: 100 })
  while (page.has_more) page = await jetpost.events.page({ after: page.next_cursor, limit: 100 })
  return page
}

t.test('events are followed over lines that break: none is missed, none comes twice', async t => {
  const { next_cursor: after } = await endOf()
  const asked: Array<{ after: string | null, resumed: string | null }> = []
  const lines: AbortController[] = []
  const client = new Jetpost({
    url: app.url,
    key: API_KEY,
    fetch: async (url, init) => {
      const line = new AbortController()
      lines.push(line)
      asked.push({
        after: (url as URL).searchParams.get('after'),
        resumed: new Headers(init!.headers).get('last-event-id')
      })
      // Now and then nobody is there.
      if (lines.length % 3 === 2) throw new TypeError('the line was cut')
      return await fetch(url, { ...init, signal: AbortSignal.any([line.signal, init!.signal!]) })
    }
  })
  const enough = new AbortController()
  const sent: string[] = []
  const seen: TailedEvent[] = []
  const sending = (async () => {
    for (let i = 0; i < 12; i++) sent.push((await jetpost.emails.send(mail)).id)
  })()
  for await (const one of client.events.tail({ after, type: ['email.delivered'], signal: enough.signal })) {
    seen.push(one)
    if (seen.length % 4 === 0) lines.at(-1)!.abort()
    if (seen.length === 12) enough.abort()
  }
  await sending
  t.strictSame(seen.map(({ event }) => event.data.email_id).sort(), sent.sort())
  t.ok(lines.length >= 3, `${lines.length} lines`)
  t.strictSame(asked[0], { after, resumed: null })
  t.ok(
    asked.slice(1).every(({ resumed }) => seen.some(({ cursor }) => cursor === resumed)),
    'each begins where the one before broke off'
  )
  t.strictSame(
    (await collect(jetpost.events.list({ after: seen[5]!.cursor, type: ['email.delivered'] }))).map(({ id }) => id),
    seen.slice(6).map(({ event }) => event.id),
    'its cursors are those of pages'
  )
})

t.test('following ends with its signal, also between two tries, and throws what no other try would heal', async t => {
  const follow = (client: Jetpost, signal?: AbortSignal) => collect(client.events.tail({ signal }))
  t.match(await errorOf(follow(new Jetpost({ url: app.url, key: 'jp_live_nobody' }))), { status: 401 })
  t.match(await errorOf(collect(jetpost.events.tail({ after: 'x' }))), {
    status: 422,
    details: [{ field: 'after', code: 'invalid_cursor' }]
  }, 'in the words of who asked')
  t.strictSame(await follow(jetpost, AbortSignal.abort()), [])
  const { id, secret } = await app.newKey({})
  const key = new Jetpost({ url: app.url, key: secret })
  const revoked = errorOf(follow(key))
  await key.emails.page()
  await app.revokeKey(id)
  t.match(await revoked, { status: 401 }, 'a key that is revoked')
  for (const trouble of [{ status: 503, headers: { 'retry-after': '60' } }, { hang: true }, { reset: true }]) {
    const { sink, client } = await openSink(t, [trouble])
    const enough = new AbortController()
    const following = follow(client, enough.signal)
    await sink.waitFor(requests => requests.length === 1)
    enough.abort()
    t.strictSame(await following, [], inspect(trouble))
  }
})

t.test('an old event is not taken for a new one', async t => {
  const { sink } = await openSink(t)
  const { id, secret } = await jetpost.webhooks.create({ url: `${sink.url}/old`, events: ['email.delivered'] })
  await jetpost.webhooks.test(id)
  const [request] = await sink.waitFor(requests => requests.length > 0)
  const signed = { ...request!, secret, toleranceS: 1 }
  await verifyWebhook({ ...signed, toleranceS: 300 })
  await until(() => Date.now() / 1000 - Number(request!.headers['webhook-timestamp']) > 1)
  await t.rejects(verifyWebhook(signed), /not signed within 1 s/)
})

t.test("what is built stands alone: neither Node's types nor any package", async t => {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-client-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  // Through env -i: tap puts a loader of its own into every Node it sees, and tsc does not bear it.
  const node = (...args: string[]) => promisify(execFile)('env', ['-i', process.execPath, ...args], { cwd: folder })
  await node(
    join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
    '-p',
    join(root, 'src', 'client'),
    '--outDir',
    folder
  )
  const program = `
    import { Jetpost } from "./client.js"
    const { id } = await new Jetpost(${JSON.stringify({ url: app.url, key: API_KEY })}).emails.send(${
    JSON.stringify(mail)
  })
    console.log(id)`
  const { stdout } = await node('--no-experimental-strip-types', '--input-type=module', '-e', program)
  t.equal((await jetpost.emails.get(stdout.trim())).subject, 'Hello')
})
