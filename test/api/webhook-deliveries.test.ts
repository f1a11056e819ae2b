import t from 'tap'
import { startTestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { until } from '../support/wait.ts'

let passedMs = 0
const app = await startTestApp(t, { clock: { nowMs: () => Date.now() + passedMs } })
const sink = await startHookSink()
t.teardown(() => sink.stop())

const ask = async (method: string, path: string, body?: unknown, key?: string) =>
  await app.request(method, `/api${path}`, key === undefined ? { body } : { body, key })
const HOUR_MS = 3_600_000
const hoursAgo = (hours: number) => new Date(Date.now() - hours * HOUR_MS).toISOString()
const hook = async (path: string): Promise<string> =>
  (await ask('POST', '/webhooks', { url: sink.url + path, events: ['email.delivered', 'email.bounced'] })).body.id
const statesOf = async (id: string, query = '') =>
  (await ask('GET', `/webhooks/${id}/deliveries${query}`)).body.data.map(({ state }: { state: string }) => state)
const got = (path: string) => sink.requests.filter(request => request.path === path)

t.test('the deliveries of an endpoint are listed, filtered and paged; one has its requests and its body', async t => {
  sink.answers(({ path }) => ({ status: path === '/bad' ? 500 : 200 }))
  const [good, bad] = [await hook('/good'), await hook('/bad')]
  const emails: string[] = []
  for (let i = 0; i < 3; i++) emails.unshift((await app.send({ to: `ada${i}@example.com` })).body.id)
  for (const id of emails) await app.settled(id, 'delivered')
  await until(async () => (await statesOf(good, '?state=delivered')).length === 3)
  await until(async () => (await statesOf(bad, '?state=retrying')).length === 3)
  t.strictSame(await statesOf(good, '?state=retrying'), [])
  t.strictSame(await statesOf(bad, '?state=delivered'), [])

  const first = (await ask('GET', `/webhooks/${good}/deliveries?limit=2`)).body
  t.match(first, { has_more: true, data: { length: 2 } })
  const rest = (await ask('GET', `/webhooks/${good}/deliveries?limit=2&cursor=${first.next_cursor}`)).body
  t.match(rest, { has_more: false, next_cursor: null, data: { length: 1 } })
  const all = [...first.data, ...rest.data]
  t.equal(new Set(all.map(({ id }) => id)).size, 3)
  const { data: [one] } = (await ask('GET', `/webhooks/${good}/deliveries?email_id=${emails[0]}`)).body
  t.match(one, {
    webhook_id: good,
    state: 'delivered',
    events: [{ type: 'email.delivered', email_id: emails[0] }],
    attempts: 1,
    last_attempt: { status: 200, error: null },
    replay_id: null
  })
  t.strictSame(await statesOf(good, `?event_id=${one.events[0].id}`), ['delivered'])
  const away = (await ask('POST', '/webhooks', { url: 'http://127.0.0.1:9/', events: ['email.clicked'] })).body.id
  await ask('POST', `/webhooks/${away}/test`)
  await until(async () => (await statesOf(away, '?error_kind=connect')).length === 1)
  t.strictSame(await statesOf(away, '?error_kind=timeout'), [])
  t.strictSame(await statesOf(good, `?created_before=${hoursAgo(1)}`), [])
  t.equal((await statesOf(good, `?created_after=${hoursAgo(1)}`)).length, 3)

  const { requests, body, ...record } = (await ask('GET', `/deliveries/${one.id}`)).body
  t.strictSame(record, one)
  t.match(requests, [{
    attempt: 1,
    status: 200,
    url: `${sink.url}/good`,
    headers: { 'X-Service-Signature': /^sha256=/ }
  }])
  t.equal(body, got('/good').map(request => request.body.toString()).find(text => text.includes(one.events[0].id)))
  const wrong = 'state=sent&error_kind=x&event_id=x&created_after=now&limit=0&x=1'
  const faults = await ask('GET', `/webhooks/${good}/deliveries?${wrong}`)
  t.strictSame(faults.body.details.map(({ field }: { field: string }) => field).sort(), [
    'created_after',
    'error_kind',
    'event_id',
    'limit',
    'state',
    'x'
  ])
})

t.test('the deliveries to all endpoints of an account are one list', async t => {
  sink.answers(() => ({ status: 200 }))
  const key = await app.newAccountKey()
  const listOf = async (query = '') => (await ask('GET', `/deliveries${query}`, undefined, key)).body
  t.match(await listOf(), { data: { length: 0 }, has_more: false })
  const hooks: string[] = []
  for (const path of ['/one', '/two']) {
    const body = { url: sink.url + path, events: ['email.clicked'] }
    const { id } = (await ask('POST', '/webhooks', body, key)).body
    await ask('POST', `/webhooks/${id}/test`, undefined, key)
    hooks.unshift(id)
  }
  await until(async () => (await listOf('?state=delivered')).data.length === 2)
  const { data } = await listOf()
  t.strictSame(data.map(({ webhook_id: id }: { webhook_id: string }) => id), hooks, 'the newest first')
  const first = await listOf('?limit=1')
  t.match(first, { data: [data[0]], has_more: true })
  t.match(await listOf(`?limit=1&cursor=${first.next_cursor}`), { data: [data[1]], has_more: false })
  t.strictSame((await listOf(`?webhook_id=${hooks[1]}`)).data, [data[1]])
  t.match((await ask('GET', `/deliveries?webhook_id=${hooks[1]}`)).body, { data: { length: 0 } }, 'not a stranger')
  t.match((await ask('GET', '/deliveries?webhook_id=x', undefined, key)).body, {
    details: [{ field: 'webhook_id', message: 'webhook_id must be the id of a webhook.' }]
  })
})

t.test('what a deleted endpoint was sent is listed for as long as it is kept', async t => {
  sink.answers(() => ({ status: 200 }))
  const id = await hook('/deleted')
  const { body: test } = await ask('POST', `/webhooks/${id}/test`)
  await until(async () => (await statesOf(id, '?state=delivered')).length === 1)
  t.equal((await ask('DELETE', `/webhooks/${id}`)).status, 204)
  t.match((await ask('GET', `/webhooks/${id}/deliveries`)).body, { data: [{ id: test.delivery_id, webhook_id: id }] })
  t.strictSame(await statesOf(id, '?state=failed'), [], 'a filter that nothing passes is no 404')
  const stranger = await app.newAccountKey()
  t.equal((await ask('GET', `/webhooks/${id}/deliveries`, undefined, stranger)).status, 404)
  for (const none of ['wh_none', '%00', 'wh_%00']) {
    t.equal((await ask('GET', `/webhooks/${none}/deliveries`)).status, 404, none)
  }
})

t.test('one delivery is sent again: the same id, the same bytes', async t => {
  sink.answers(() => ({ status: 200 }))
  const id = await hook('/again')
  const { body: test } = await ask('POST', `/webhooks/${id}/test`)
  await until(async () => (await ask('GET', `/deliveries/${test.delivery_id}`)).body.state === 'delivered')
  const replayed = await ask('POST', `/deliveries/${test.delivery_id}/replay`)
  t.match(replayed, { status: 202, body: { id: test.delivery_id, webhook_id: id, replay_id: /^rpl_/ } })
  await until(() => got('/again').length === 2)
  const [first, second] = got('/again')
  t.strictSame(second!.body, first!.body)
  await until(async () => {
    const { body } = await ask('GET', `/deliveries/${test.delivery_id}`)
    return body.replay_id === replayed.body.replay_id && body.state === 'delivered'
  })
  t.equal((await ask('GET', `/deliveries/${test.delivery_id}`)).body.requests.length, 2, 'of both runs')
})

t.test('a span of the past is counted, replayed, watched and canceled', async t => {
  sink.answers(() => ({ status: 200 }))
  const id = await hook('/past')
  const span = { what: 'all', from: hoursAgo(1) }
  const count = await ask('POST', `/webhooks/${id}/replays/count`, span)
  t.match(count, { status: 200, body: { deliveries: 3, events: 3, types: { 'email.delivered': 3 }, complete: true } })
  t.equal(got('/past').length, 0, 'and nothing is sent')
  const made = await ask('POST', `/webhooks/${id}/replays`, { ...span, pace: 50 })
  t.match(made, { status: 202, body: { id: /^rpl_/, webhook_id: id, what: 'all', pace: 50, waits_for: null } })
  await until(async () => (await ask('GET', `/replays/${made.body.id}`)).body.state === 'done')
  t.match((await ask('GET', `/replays/${made.body.id}`)).body, { requested: 3 })
  await until(() => got('/past').length === 3)
  t.match(await ask('POST', `/replays/${made.body.id}/cancel`), { status: 409, body: { code: 'replay_over' } })

  await ask('PATCH', `/webhooks/${id}`, { paused: true })
  const waiting = (await ask('POST', `/webhooks/${id}/replays`, { ...span, what: 'failed' })).body
  t.match(await ask('POST', `/replays/${waiting.id}/cancel`), { status: 200, body: { state: 'canceled' } })
  const list = (await ask('GET', `/webhooks/${id}/replays?limit=1`)).body
  t.match(list, { has_more: true, data: [{ id: waiting.id, state: 'canceled' }] })
  const older = (await ask('GET', `/webhooks/${id}/replays?limit=1&cursor=${list.next_cursor}`)).body
  t.match(older, { has_more: false, data: [{ id: made.body.id, state: 'done' }] })

  const faultsOf = async (body: object) =>
    (await ask('POST', `/webhooks/${id}/replays`, body)).body.details.map((fault: { field: string, code: string }) =>
      `${fault.field} ${fault.code}`
    ).sort()
  t.strictSame(await faultsOf({ what: 'some', from: 'now', to: 7, pace: 0 }), [
    'from invalid_value',
    'pace invalid_value',
    'to invalid_value',
    'what invalid_value'
  ])
  t.strictSame(await faultsOf({ what: 'all', from: hoursAgo(1), to: hoursAgo(-1) }), ['to invalid_to'])
  t.strictSame(await faultsOf({ what: 'all', from: hoursAgo(1), to: hoursAgo(2) }), ['from invalid_from'])
})

t.test('what a disabled endpoint, another account or a lesser key asks is refused', async t => {
  const id = await hook('/gone')
  const { body: test } = await ask('POST', `/webhooks/${id}/test`)
  const { body: replay } = await ask('POST', `/webhooks/${id}/replays`, { what: 'failed', from: hoursAgo(1) })
  const stranger = await app.newAccountKey()
  const reader = (await app.newKey({ scopes: ['webhooks:read'] })).secret
  const span = { what: 'all', from: hoursAgo(1) }
  const asks: Array<[method: string, path: string, body: unknown, byReader: number]> = [
    ['GET', `/webhooks/${id}/deliveries`, undefined, 200],
    ['GET', `/deliveries/${test.delivery_id}`, undefined, 200],
    ['POST', `/deliveries/${test.delivery_id}/replay`, undefined, 403],
    ['GET', `/webhooks/${id}/replays`, undefined, 200],
    ['POST', `/webhooks/${id}/replays/count`, span, 200],
    ['POST', `/webhooks/${id}/replays`, span, 403],
    ['GET', `/replays/${replay.id}`, undefined, 200],
    ['POST', `/replays/${replay.id}/cancel`, undefined, 403]
  ]
  for (const [method, path, body, byReader] of asks) {
    t.equal((await ask(method, path, body, stranger)).status, 404, `${method} ${path}`)
    t.equal((await ask(method, path, body, reader)).status, byReader, `${method} ${path}`)
  }
  sink.answers(() => ({ status: 410 }))
  await ask('POST', `/webhooks/${id}/test`)
  await until(async () => (await ask('GET', `/webhooks/${id}`)).body.status === 'disabled')
  for (const path of [`/webhooks/${id}/replays`, `/webhooks/${id}/replays/count`]) {
    t.match(await ask('POST', path, span), { status: 409, body: { code: 'webhook_disabled' } }, path)
  }
  t.match(await ask('POST', `/deliveries/${test.delivery_id}/replay`), { body: { code: 'webhook_disabled' } })
})

t.test('a delivery without a request says what it waits for, once it has waited for half a minute', async t => {
  sink.answers(() => ({ status: 200 }))
  const id = await hook('/paused')
  await ask('PATCH', `/webhooks/${id}`, { paused: true })
  await app.send()
  const list = async () => (await ask('GET', `/webhooks/${id}/deliveries`)).body.data
  await until(async () => (await list()).length === 1)
  const [delivery] = await list()
  t.match(delivery, { state: 'pending', attempts: 0, waits_for: null })
  passedMs += 31_000
  t.match(await list(), [{ state: 'pending', attempts: 0, waits_for: 'paused' }])
  t.match((await ask('GET', `/deliveries/${delivery.id}`)).body, { waits_for: 'paused', requests: [] })
})
