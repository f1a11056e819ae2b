import { createHmac } from 'node:crypto'
import t from 'tap'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { Refusal, type FieldFault } from '#streams/define.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import { createWebhook } from '#src/actions/webhook.ts'
import { startHookSink, type HookRequest, type HookSink } from '../support/hook-sink.ts'
import { startTestApp, type Answer, type TestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase, type Ending } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const HOUR_MS = 3_600_000
const where = { natsUrl: freshAccount().natsUrl, databaseUrl: await freshDatabase(t) }
let aheadMs = 0
const clock = { nowMs: () => Date.now() + aheadMs }
const app = await startTestApp(t, { ...where, clock })
const other = await startTestApp(t, { ...where, clock, env: { JETPOST_ROLES: 'api' } })
const elsewhere = await openSecondServices(t, where.natsUrl)

async function openSink (t: Ending): Promise<HookSink> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  return sink
}

const create = (fields: Record<string, unknown> = {}, at: TestApp = app) =>
  at.request('POST', '/api/webhooks', {
    body: { url: 'http://127.0.0.1:9/hook', events: ['email.delivered'], ...fields }
  })
const post = (id: string, action: string, body: unknown = {}, at: TestApp = app) =>
  at.request('POST', `/api/webhooks/${id}/${action}`, { body })
const patch = (id: string, body: unknown, at: TestApp = app) => at.request('PATCH', `/api/webhooks/${id}`, { body })
const get = (id: string, at: TestApp = app) => at.request('GET', `/api/webhooks/${id}`)
const faultsOf = ({ body }: Answer) =>
  body.details?.map(({ field, code }: { field: string, code: string }) => [field, code])

t.test('2.4 an endpoint is made with its settings, and shows them', async t => {
  const plain = await create()
  t.match(plain.body, {
    paused: false,
    concurrency: null,
    batch: null,
    every_deferral: false,
    mode: 'both',
    status: 'enabled',
    disabled_reason: null,
    failing_since: null,
    secret_rotation: null
  })
  t.equal(plain.body.start_at, plain.body.created_at, 'from now on')
  t.equal(plain.headers.get('location'), `/api/webhooks/${plain.body.id}`)
  const settings = {
    paused: true,
    concurrency: 100,
    batch: { max_events: 50, max_wait_ms: 2000 },
    every_deferral: true,
    mode: 'test'
  }
  const made = await create(settings)
  t.equal(made.status, 201)
  const { secret, ...shown } = made.body
  t.match(secret, /^whsec_/)
  t.match(shown, settings)
  t.strictSame((await get(shown.id)).body, shown)
  t.strictSame((await app.request('GET', '/api/webhooks?limit=1')).body.data, [shown])
})

t.test('PATCH changes what it names and leaves the rest', async t => {
  const { body: { secret: _secret, ...made } } = await create()
  const batch = { max_events: 100, max_wait_ms: 60_000 }
  const changes = {
    url: 'http://127.0.0.1:9/new',
    events: ['email.bounced', 'email.clicked'],
    paused: true,
    concurrency: 3,
    batch,
    every_deferral: true
  }
  for (const [name, value] of Object.entries(changes)) {
    const before = (await get(made.id)).body
    const { status, body } = await patch(made.id, { [name]: value })
    t.equal(status, 200)
    t.strictSame(body, { ...before, [name]: value })
  }
  t.strictSame((await get(made.id)).body, { ...made, ...changes })
  t.equal((await patch(made.id, { concurrency: null })).body.concurrency, null)
  t.equal((await patch(made.id, { batch: { max_events: 1, max_wait_ms: 100 } })).body.batch.max_events, 1)
  t.equal((await patch(made.id, { batch: null })).body.batch, null)
  t.strictSame((await patch(made.id, {})).body, { ...made, ...changes, concurrency: null, batch: null })
})

t.test('the same said again makes no fact', async t => {
  const { body: { id } } = await create({
    concurrency: 2,
    batch: { max_events: 10, max_wait_ms: 500 },
    every_deferral: true
  })
  const version = async () => {
    await elsewhere.directory.catchUp(5000)
    return [...elsewhere.directory.now.versions].find(([subject]) => subject.endsWith(id))![1]
  }
  const before = await version()
  const again = {
    url: 'http://127.0.0.1:9/hook',
    events: ['email.delivered'],
    paused: false,
    concurrency: 2,
    batch: { max_wait_ms: 500, max_events: 10 },
    every_deferral: true,
    status: 'enabled'
  }
  t.strictSame((await patch(id, again)).body, (await get(id)).body)
  t.equal(await version(), before)
  await patch(id, { ...again, concurrency: 3 })
  t.not(await version(), before)
})

t.test('start_at is a time in the past, while events are kept, or in the future; it is shown, and stays', async t => {
  const inHours = (hours: number) => new Date(Date.now() + hours * HOUR_MS).toISOString()
  for (const start of [inHours(-1), inHours(-24 * 89), inHours(24 * 30)]) {
    const { status, body } = await create({ start_at: start })
    t.equal(status, 201)
    t.equal(body.start_at, start)
    t.equal((await get(body.id)).body.start_at, start)
    t.strictSame(faultsOf(await patch(body.id, { start_at: start })), [['start_at', 'unknown_field']])
  }
  t.equal((await create({ start_at: '2026-11-21T12:00:00.5+02:00' })).body.start_at, '2026-11-21T10:00:00.500Z')
  for (
    const [start, code] of [
      [inHours(-24 * 91), 'too_early'],
      ['0000-01-01T00:00:00Z', 'too_early'],
      ['9999-12-31T23:00:00-10:00', 'too_late'],
      ['2026-11-21T12:00:00', 'invalid_value'],
      ['2026-02-30T00:00:00Z', 'invalid_value'],
      ['yesterday', 'invalid_value'],
      [7, 'invalid_value'],
      [null, 'invalid_value']
    ]
  ) {
    const answer = await create({ start_at: start, url: 'ftp://x' })
    t.strictSame(faultsOf(answer).sort(), [['start_at', code], ['url', 'invalid_url']], String(start))
  }
})

t.test('an endpoint that begins in the future gets nothing before', async t => {
  const [sink, now] = [await openSink(t), await openSink(t)]
  const { body: { id } } = await create({ url: sink.url, start_at: new Date(Date.now() + HOUR_MS).toISOString() })
  await create({ url: now.url })
  await app.send()
  await now.waitFor(requests => requests.length === 1)
  await callback(sink, id)
  t.equal(sink.requests.length, 1, 'nothing but what it asked for itself')
})

t.test('a change on one node is in the next read on another', async t => {
  const { body: { id } } = await create()
  for (let concurrency = 1; concurrency <= 10; concurrency++) {
    const [here, there] = concurrency % 2 === 0 ? [app, other] : [other, app]
    t.equal((await patch(id, { concurrency }, here)).status, 200)
    t.equal((await get(id, there)).body.concurrency, concurrency)
  }
  t.equal((await post(id, 'rotate-secret', {}, app)).status, 200)
  t.type((await get(id, other)).body.secret_rotation?.previous_expires_at, 'string')
  t.equal((await post(id, 'rotate-secret', {}, other)).status, 409)
  t.equal((await app.request('DELETE', `/api/webhooks/${id}`)).status, 204)
  t.equal((await patch(id, { paused: true }, other)).status, 404)
})

t.test('changes at the same moment on two nodes are all kept', async t => {
  const { body: { id } } = await create()
  for (let round = 1; round <= 10; round++) {
    const changes = [{ paused: round % 2 === 1 }, { concurrency: round }, { events: [EVENT_TYPES[round % 6]] }, {
      url: `http://127.0.0.1:9/${round}`
    }]
    const answers = await Promise.all(changes.map((change, i) => patch(id, change, i % 2 === 0 ? app : other)))
    t.strictSame(answers.map(({ status }) => status), [200, 200, 200, 200])
    t.match((await get(id)).body, Object.assign({}, ...changes))
  }
  const ends = await Promise.all([app, other].map(at => at.request('DELETE', `/api/webhooks/${id}`)))
  t.strictSame(ends.map(({ status }) => status).sort(), [204, 404], 'one of two ends it')
})

t.test('422 names every fault at once', async t => {
  const { body: { id } } = await create()
  const wrong = {
    url: 'ftp://x',
    events: ['email.sent'],
    paused: 'yes',
    concurrency: 0,
    batch: { max_events: 101, wait: 1 },
    every_deferral: 1,
    start_at: '2026-01-01T00:00:00Z',
    secret: 'x'
  }
  const named = [
    ['batch.max_events', 'invalid_value'],
    ['batch.max_wait_ms', 'required'],
    ['batch.wait', 'unknown_field'],
    ['concurrency', 'invalid_value'],
    ['events[0]', 'invalid_value'],
    ['every_deferral', 'invalid_value'],
    ['paused', 'invalid_value'],
    ['secret', 'unknown_field']
  ]
  t.strictSame(faultsOf(await app.request('POST', '/api/webhooks', { body: wrong })).sort(), [...named, [
    'start_at',
    'too_early'
  ], ['url', 'invalid_url']])
  t.strictSame(faultsOf(await patch(id, wrong)).sort(), [...named, ['start_at', 'unknown_field'], [
    'url',
    'invalid_url'
  ]])
  t.strictSame(faultsOf(await app.request('POST', '/api/webhooks', { body: {} })).sort(), [['events', 'required'], [
    'url',
    'required'
  ]])
})

t.test('422 for each value that means nothing', async t => {
  const { body: { id } } = await create()
  for (
    const [field, value] of [
      ['url', 'not a url'],
      ['url', 'https://user:pw@example.com'],
      ['url', `https://example.com/${'a'.repeat(2048)}`],
      ['url', 7],
      ['url', null],
      ['events', []],
      ['events', ['email.clicked', 'email.clicked']],
      ['events', 'email.clicked'],
      ['paused', null],
      ['paused', 1],
      ['batch', true],
      ['batch', { max_events: 0, max_wait_ms: 100 }],
      ['batch', { max_events: 1, max_wait_ms: 99 }],
      ['batch', { max_events: 1, max_wait_ms: 60_001 }],
      ['batch', { max_events: 1.5, max_wait_ms: 100 }],
      ['batch', {}],
      ['every_deferral', null],
      ['every_deferral', 'yes'],
      ['mode', 'dead'],
      ['concurrency', 101],
      ['concurrency', 1.5],
      ['concurrency', '5'],
      ['status', 'disabled'],
      ['status', 'paused']
    ] as const
  ) {
    const answer = await patch(id, { [field]: value })
    t.equal(answer.status, 422, `${field} ${JSON.stringify(value)?.slice(0, 40)}`)
    t.equal(faultsOf(answer)[0][0].replace(/[[.].*/, ''), field)
    if (field !== 'status') t.equal((await create({ [field]: value })).status, 422, `POST ${field}`)
  }
  t.strictSame(faultsOf(await create({ status: 'enabled' })), [['status', 'unknown_field']], 'a new one is enabled')
  t.strictSame(faultsOf(await post(id, 'rotate-secret', { finish: 'yes', secret: 'x' })).sort(), [[
    'finish',
    'invalid_value'
  ], ['secret', 'unknown_field']])
  t.strictSame(faultsOf(await post(id, 'test', { type: 'email.sent', data: {} })).sort(), [['data', 'unknown_field'], [
    'type',
    'invalid_value'
  ]])
  for (const [method, path] of [['PATCH', ''], ['POST', '/test'], ['POST', '/rotate-secret']] as const) {
    t.strictSame(faultsOf(await app.request(method, `/api/webhooks/${id}${path}`, { body: [] })), [[
      'body',
      'invalid_value'
    ]])
  }
})

t.test('a message says what is wanted in words of its own', async t => {
  const { body: { details } } = await create({ url: 7, events: ['email.sent'], concurrency: 'x', paused: [] })
  t.equal(details.length, 4)
  t.notMatch(JSON.stringify(details), /Expected/)
  t.match(
    details.find(({ field }: { field: string }) => field === 'events[0]').message,
    /^events\[0\] must be email\.delivered, email\.bounced, /
  )
})

t.test('each fault is one sentence, which says what would be right', async t => {
  const { body: { id } } = await create()
  const [batch, time] = [
    'batch must be an object with max_events and max_wait_ms, or null.',
    'start_at must be a time with an offset, like 2026-11-21T12:00:00Z.'
  ]
  const [paused, everyDeferral] = ['paused must be true or false.', 'every_deferral must be true or false.']
  for (
    const [field, value, message] of [
      ['events', [], 'events must have at least 1 event type.'],
      ['events', ['email.opened', 'email.opened'], 'events must not contain duplicates.'],
      ['batch', [], batch],
      ['batch', true, batch],
      ['paused', null, paused],
      ['every_deferral', 1, everyDeferral],
      ['mode', 'dead', 'mode must be live, test or both.']
    ] as const
  ) {
    t.strictSame(
      (await patch(id, { [field]: value })).body.details.map((fault: FieldFault) => [fault.field, fault.message]),
      [[field, message]],
      JSON.stringify(value)
    )
  }
  for (const start of [null, 7, 'soon']) {
    t.strictSame(
      (await create({ start_at: start })).body.details.map((fault: FieldFault) => [fault.field, fault.message]),
      [
        ['start_at', time]
      ],
      String(start)
    )
  }
})

t.test('what needs no field needs no body', async t => {
  const { body: { id } } = await create()
  const bare = (action: string) => app.request('POST', `/api/webhooks/${id}/${action}`)
  const typed = (action: string) =>
    app.request('POST', `/api/webhooks/${id}/${action}`, { headers: { 'content-type': 'application/json' } })
  for (const send of [bare, typed]) t.equal((await send('test')).status, 202)
  t.match(await bare('rotate-secret'), { status: 200, body: { secret: /^whsec_/ } })
  t.match(await typed('rotate-secret'), { status: 409, body: { code: 'rotation_under_way' } })
})

t.test('the list refuses a cursor of another list, and names it with the other faults', async t => {
  const foreign = Buffer.from('2026-11-21T12:00:00.000Z key_0').toString('base64url')
  t.strictSame(faultsOf(await app.request('GET', `/api/webhooks?limit=0&cursor=${foreign}`)).sort(), [[
    'cursor',
    'invalid_cursor'
  ], ['limit', 'invalid_value']])
  const own = Buffer.from('2026-11-21T12:00:00.000Z wh_0').toString('base64url')
  t.equal((await app.request('GET', `/api/webhooks?cursor=${own}`)).status, 200)
})

t.test("another account's endpoint is a 404, and so is one that never was", async t => {
  const { body: { id } } = await create()
  const key = await app.newAccountKey()
  for (const target of [id, 'wh_none', 'x', '%00']) {
    const as = target === id ? { key } : {}
    for (
      const [method, path, body] of [
        ['GET', '', undefined],
        ['PATCH', '', { paused: true }],
        ['POST', '/test', {}],
        ['POST', '/rotate-secret', {}],
        ['POST', '/rotate-secret', { finish: true }],
        ['DELETE', '', undefined]
      ] as const
    ) {
      const answer = await app.request(method, `/api/webhooks/${target}${path}`, { ...as, body })
      t.equal(answer.status, 404, `${method} ${target}${path}`)
      t.strictSame(answer.body, { error: 'Not found' })
    }
  }
  t.match((await get(id)).body, { paused: false, secret_rotation: null })
})

t.test('private addresses: of the first account alone, and of no other, however its endpoint came to be', async t => {
  const { natsUrl } = freshAccount()
  const [sink, app] = [await openSink(t), await startTestApp(t, { natsUrl, targetsAsSet: true })]
  const services = { ...await openSecondServices(t, natsUrl), settings: { mayCallPrivate: () => true } }
  const key = await app.newAccountKey()
  const { id: account } = (await app.request('GET', '/api/me', { key })).body.account
  const refused = await app.request('POST', '/api/webhooks', {
    key,
    body: { url: sink.url, events: ['email.delivered'] }
  })
  t.match(refused, { status: 422, body: { details: [{ field: 'url', message: 'url must start with https://.' }] } })
  const own = (await create({ url: sink.url }, app)).body.id
  // Made when it was allowed, or by a node with other settings.
  const made = await createWebhook(services, { account, correlation: 'test', actor: roleActor('test') }, {
    url: sink.url,
    events: ['email.delivered'],
    paused: false,
    concurrency: null,
    batch: null,
    everyDeferral: false,
    bounces: 'all',
    mode: 'both'
  })
  if (made instanceof Refusal) throw new Error(made.message)
  t.match(await app.request('PATCH', `/api/webhooks/${made.webhook.id}`, { key, body: { url: sink.url } }), {
    status: 422
  })
  const test = (id: string, key?: string) => app.request('POST', `/api/webhooks/${id}/test`, { key, body: {} })
  t.equal((await test(own)).status, 202)
  await sink.waitFor(requests => requests.length === 1)
  const { delivery_id: delivery } = (await test(made.webhook.id, key)).body
  const requestsOf = async () => (await app.request('GET', `/api/deliveries/${delivery}`, { key })).body.requests ?? []
  await until(async () => (await requestsOf()).length > 0)
  t.match(await requestsOf(), [{ status: null, error: 'target refused: only https is allowed' }])
  t.equal(sink.requests.length, 1)
})

t.test('a test key makes and changes endpoints of mode test, and no others, and leaves them so', async t => {
  const key = (await app.newKey({ test: true })).secret
  const ask = (method: string, path: string, body?: unknown) => app.request(method, `/api${path}`, { key, body })
  const forbidden = { status: 403, body: { error: 'Insufficient API key permissions' } }
  const wanted = { url: 'http://127.0.0.1:9/hook', events: ['email.delivered'] }
  for (const mode of [undefined, 'both', 'live']) {
    t.match(await ask('POST', '/webhooks', { ...wanted, mode }), forbidden)
  }
  const { status, body: { id } } = await ask('POST', '/webhooks', { ...wanted, mode: 'test' })
  t.equal(status, 201)
  const other = (await create()).body.id
  for (const mode of ['both', 'live']) t.match(await ask('PATCH', `/webhooks/${id}`, { mode }), forbidden, mode)
  t.match(await ask('PATCH', `/webhooks/${other}`, { mode: 'test' }), forbidden)
  t.equal((await ask('PATCH', `/webhooks/${id}`, { events: ['email.bounced'], mode: 'test' })).status, 200)
  t.match(await ask('POST', `/webhooks/${other}/test`, {}), forbidden)
  const { delivery_id: delivery } = (await ask('POST', `/webhooks/${id}/test`, {})).body
  t.equal((await ask('POST', `/deliveries/${delivery}/replay`)).status, 202)
  t.equal((await ask('PATCH', `/webhooks/${id}`, { paused: true })).status, 200)
  const span = { what: 'failed', from: new Date(Date.now() - HOUR_MS).toISOString() }
  const replay = (await ask('POST', `/webhooks/${id}/replays`, span)).body
  t.match(await ask('POST', `/replays/${replay.id}/cancel`), { status: 200, body: { state: 'canceled' } })
  t.equal((await ask('POST', `/webhooks/${id}/rotate-secret`, {})).status, 200)
  t.equal((await ask('DELETE', `/webhooks/${id}`)).status, 204)
  t.match((await get(other)).body, { mode: 'both', paused: false, events: ['email.delivered'] })
})

t.test('7 a key without webhooks:write reads and nothing more; 403 comes before the fields', async t => {
  const { body: { id } } = await create()
  const reader = (await app.newKey({ scopes: ['webhooks:read'] })).secret
  t.equal((await app.request('GET', `/api/webhooks/${id}`, { key: reader })).status, 200)
  const stranger = (await app.newKey({ scopes: ['emails:send'] })).secret
  t.equal((await app.request('GET', `/api/webhooks/${id}`, { key: stranger })).status, 403)
  for (
    const [method, path] of [['PATCH', ''], ['POST', '/test'], ['POST', '/rotate-secret'], ['DELETE', '']] as const
  ) {
    const answer = await app.request(method, `/api/webhooks/${id}${path}`, {
      key: reader,
      ...(method === 'DELETE' ? {} : { body: { nonsense: 1 } })
    })
    t.equal(answer.status, 403, `${method} ${path}`)
    t.strictSame(answer.body, { error: 'Insufficient API key permissions' })
  }
})

/** As a receiver would, with nothing of ours. */
function signs (secret: string, { headers, body }: HookRequest): { spec: boolean, standard: boolean } {
  const spec = headers['x-service-signature'] === `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
  const signed = Buffer.concat([Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.`), body])
  const standard = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64')).update(signed).digest(
    'base64'
  )
  return { spec, standard: headers['webhook-signature']!.split(' ').includes(`v1,${standard}`) }
}

/** The callback of a test event sent now. */
async function callback (sink: HookSink, id: string): Promise<HookRequest> {
  const sent = await post(id, 'test')
  const of = ({ headers }: HookRequest) => headers['webhook-id'] === sent.body.id
  return (await sink.waitFor(requests => requests.some(of))).find(of)!
}

t.test("6.3 while a rotated secret overlaps both sign; the spec's header keeps the old one for 24 hours", async t => {
  const sink = await openSink(t)
  const { body: { id, secret: old } } = await create({ url: sink.url })
  const before = await callback(sink, id)
  t.same(signs(old, before), { spec: true, standard: true })
  t.equal(before.headers['webhook-signature']!.split(' ').length, 1)

  const rotated = await post(id, 'rotate-secret')
  t.equal(rotated.status, 200)
  const { secret: fresh, ...shown } = rotated.body
  t.match(fresh, /^whsec_[A-Za-z0-9+/]{43}=$/)
  t.not(fresh, old)
  t.ok(Math.abs(Date.parse(shown.secret_rotation.previous_expires_at) - Date.now() - 24 * HOUR_MS) < 60_000)
  t.strictSame((await get(id)).body, shown, 'and the secret is shown no more')
  const during = await callback(sink, id)
  t.same(signs(old, during), { spec: true, standard: true })
  t.same(signs(fresh, during), { spec: false, standard: true })
  t.match(await post(id, 'rotate-secret'), { status: 409, body: { error: String, code: 'rotation_under_way' } })

  aheadMs = 24 * HOUR_MS + 1000
  t.teardown(() => {
    aheadMs = 0
  })
  t.equal((await get(id)).body.secret_rotation, null)
  const after = await callback(sink, id)
  t.same(signs(old, after), { spec: false, standard: false })
  t.same(signs(fresh, after), { spec: true, standard: true })
  t.equal(after.headers['webhook-signature']!.split(' ').length, 1)
  t.match(await post(id, 'rotate-secret', { finish: true }), { status: 409, body: { code: 'no_rotation' } })
  t.equal((await post(id, 'rotate-secret')).status, 200, 'and the next rotation may begin')
})

t.test('an overlap is finished by {"finish":true}, without a secret in the answer', async t => {
  const sink = await openSink(t)
  const { body: { id, secret: old } } = await create({ url: sink.url })
  t.match(await post(id, 'rotate-secret', { finish: true }), { status: 409, body: { code: 'no_rotation' } })
  const { body: { secret: fresh } } = await post(id, 'rotate-secret', { finish: false })
  const finished = await post(id, 'rotate-secret', { finish: true })
  t.equal(finished.status, 200)
  t.notOk('secret' in finished.body)
  t.equal(finished.body.secret_rotation, null)
  const request = await callback(sink, id)
  t.same(signs(old, request), { spec: false, standard: false })
  t.same(signs(fresh, request), { spec: true, standard: true })
  t.equal((await post(id, 'rotate-secret')).status, 200)
})

t.test('POST /test answers 202 with event and delivery, and sends any of the types to this endpoint alone', async t => {
  const [sink, quiet] = [await openSink(t), await openSink(t)]
  const { body: { id } } = await create({ url: sink.url, events: ['email.bounced'] })
  await create({ url: quiet.url, events: EVENT_TYPES })
  const sent = await post(id, 'test')
  t.equal(sent.status, 202)
  t.match(sent.body, { id: /^ev_[0-9a-z]{26}$/, delivery_id: /^whd_[0-9a-z]{26}$/ })
  for (const type of EVENT_TYPES) t.equal((await post(id, 'test', { type })).status, 202)
  const requests = await sink.waitFor(requests => requests.length === 1 + EVENT_TYPES.length)
  const bodies = requests.map(({ body }) => JSON.parse(body.toString()))
  t.same(
    bodies.map(({ type }) => type).sort(),
    ['email.bounced', ...EVENT_TYPES].sort(),
    'without a type the first it listens to'
  )
  t.ok(bodies.every(({ data }) => data.test === true))
  t.equal(bodies.find(({ id }) => id === sent.body.id)?.type, 'email.bounced')
  t.equal(quiet.requests.length, 0)
})

t.test('6.2 a test event has the keys of a real one, and test', async t => {
  const sink = await openSink(t)
  const { body: { id } } = await create({ url: sink.url })
  await app.send()
  const [real] = await sink.waitFor(requests => requests.length === 1)
  const made = await callback(sink, id)
  const [realBody, madeBody] = [real, made].map(request => JSON.parse(request!.body.toString()))
  t.strictSame(Object.keys(madeBody), Object.keys(realBody))
  t.strictSame(Object.keys(madeBody.data).sort(), [...Object.keys(realBody.data), 'test'].sort())
})

t.test('a paused endpoint gets nothing, no test event either; resumed, it gets what it is owed', async t => {
  const [sink, other] = [await openSink(t), await openSink(t)]
  const { body: { id } } = await create({ url: sink.url, paused: true })
  await create({ url: other.url })
  t.match(await post(id, 'test'), { status: 409, body: { error: String, code: 'webhook_paused' } })
  const { body: { id: email } } = await app.send()
  await other.waitFor(requests => requests.length === 1)
  t.equal(sink.requests.length, 0)
  t.equal((await patch(id, { paused: false })).body.paused, false)
  const [request] = await sink.waitFor(requests => requests.length === 1)
  t.equal(JSON.parse(request!.body.toString()).data.email_id, email)
})

t.test('an endpoint that said 410 is disabled, says why, and is enabled again by PATCH status', async t => {
  const sink = await openSink(t)
  sink.answers((_request, index) => ({ status: index === 0 ? 410 : 200 }))
  const { body: { id } } = await create({ url: sink.url })
  await post(id, 'test')
  await until(async () => (await get(id)).body.status === 'disabled')
  t.equal((await get(id)).body.disabled_reason, 'gone')
  t.match(await post(id, 'test'), { status: 409, body: { code: 'webhook_disabled' } })
  t.equal((await patch(id, { url: `${sink.url}/new` })).body.status, 'disabled', 'a new URL alone does not enable it')
  t.match((await patch(id, { url: `${sink.url}/newer`, status: 'enabled' })).body, {
    url: `${sink.url}/newer`,
    status: 'enabled',
    disabled_reason: null
  })
  t.equal((await callback(sink, id)).path, '/newer')
})
