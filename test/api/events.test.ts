import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { createLog } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { buildHttp } from '#src/http.ts'
import { cursorsOf, type StreamLimits } from '#src/servers/api/event-stream.ts'
import { eventsAfter, readsAfter, positionNow, type FeedPage } from '#src/servers/api/feed.ts'
import { createMetrics } from '#src/servers/ops/metrics.ts'
import { createCounters, createQuotas } from '#src/nats/counters.ts'
import { readEvents, type EventReader } from '../support/event-reader.ts'
import { clicked, deferred, delivered, opened } from '../support/facts.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { API_KEY, startTestApp, type Answer } from '../support/app.ts'
import { LONG_ONLY } from '../support/long.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase, type Ending } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
let aheadMs = 0
const app = await startTestApp(t, { natsUrl, databaseUrl, clock: { nowMs: () => Date.now() + aheadMs } })
const services = await openSecondServices(t, natsUrl)
const stranger = await app.newAccountKey()

const get = (query = '', key = API_KEY, at = app) => at.request('GET', `/api/events${query}`, { key })
const idsOf = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id)
const faultsOf = ({ body }: Answer) =>
  body.details?.map(({ field, code }: { field: string, code: string }) => [field, code]).sort()
const page = async (after: string, query: string, key = API_KEY) => await get(`?after=${after}${query}`, key)
const ends = new Map<string, string>()
/** The end of what there is now. */
const endOf = async (key = API_KEY): Promise<string> => {
  for (;;) {
    const known = ends.get(key)
    const { body } = await get(known === undefined ? '?limit=100' : `?limit=100&after=${known}`, key)
    ends.set(key, body.next_cursor)
    if (!body.has_more) return body.next_cursor
  }
}

let made = 0
/** An event of a new email, as it lies in the log. */
function happened (
  {
    make = delivered as (given: { email: string, event: string }) => any,
    account = FIRST_ACCOUNT,
    type = 'email.delivered',
    email = `em_made${++made}`,
    pad = '',
    time = '',
    ...more
  } = {}
) {
  const id = `ev_made${++made}`
  const fact = { ...make({ email, event: '', ...more }), ...(time === '' ? {} : { time }) }
  const event = JSON.stringify({ id, type, created_at: fact.time, data: { email_id: email, pad } })
  return {
    id,
    fact: { ...fact, account, data: { ...fact.data, event } }
  }
}

/** Writes events to the log; resolves to their ids once it has them. */
async function write (happenings: Array<ReturnType<typeof happened>>, at: Services = services): Promise<string[]> {
  for (let i = 0; i < happenings.length; i += 100) {
    await at.factLog.append(happenings.slice(i, i + 100).map(({ fact }) => ({ fact })))
  }
  return happenings.map(({ id }) => id)
}

const some = (count: number, how: Parameters<typeof happened>[0] = {}) =>
  Array.from({ length: count }, () => happened(how))

async function stream (t: Ending, options: Parameters<typeof readEvents>[1] = {}, url = app.url): Promise<EventReader> {
  const reader = await readEvents(url, options)
  t.teardown(async () => reader.cut())
  return reader
}

/** Another node, with limits that a test does not have to wait for. */
async function openNode (t: Ending, streams: Partial<StreamLimits>, services: Services) {
  const api = {
    services,
    counters: createCounters(services.factLog.bus),
    quotas: createQuotas(services.factLog.bus),
    reads: {} as never,
    streams
  }
  const metrics = createMetrics()
  const http = buildHttp({
    api,
    operations: null,
    catcher: null,
    mailboxDoor: null,
    checks: [],
    metrics,
    publicUrl: 'http://localhost:8080',
    trustProxy: [],
    log: createLog('silent')
  })
  t.teardown(() => http.close())
  return { http, metrics, url: await http.listen({ host: '127.0.0.1', port: 0 }) }
}

t.test('where nothing has happened there is a cursor to go on from', async t => {
  const key = await app.newAccountKey()
  const first = await get('', key)
  t.equal(first.status, 200)
  t.match(first.body, { data: [], has_more: false, next_cursor: String })
  const { body: { id } } = await app.send({}, key)
  await app.settled(id, 'delivered', key)
  const second = await page(first.body.next_cursor, '', key)
  t.match(second.body, { data: [{ type: 'email.delivered', data: { email_id: id } }], has_more: false })
  t.strictSame((await page(second.body.next_cursor, '', key)).body, {
    data: [],
    has_more: false,
    next_cursor: second.body.next_cursor
  })
  t.strictSame(
    second.body.data,
    (await page('', '', key).then(() => get('', key))).body.data,
    'from the beginning it is the same'
  )
})

t.test('6.1 the events are those that a webhook gets, to the byte and in order, without test events', async t => {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  const { body: { id: webhook } } = await app.request('POST', '/api/webhooks', {
    body: { url: sink.url, events: EVENT_TYPES }
  })
  const begin = await endOf()
  const reader = await stream(t)
  await app.request('POST', `/api/webhooks/${webhook}/test`, { body: {} })
  for (const to of ['delivered', 'bounced', 'softbounced', 'delivered+2']) {
    await app.send({ to: `${to}@sandbox.jetpost.test`, metadata: { 'zoë': 1.5, name: 'é\u2028' }, tags: ['a'] })
  }
  const requests = await sink.waitFor(requests => requests.length >= 5)
  await app.request('DELETE', `/api/webhooks/${webhook}`)
  const bodies = requests.map(({ body }) => body.toString()).filter(body => !body.includes('"test":true'))
  t.equal(bodies.length, 4)
  const seen = await reader.until(events => events.length >= 4)
  t.strictSame(seen.map(({ data }) => data).sort(), bodies.sort(), 'as a stream')
  t.strictSame(seen.map(({ event }) => event), seen.map(({ data }) => JSON.parse(data).type))
  const response = await fetch(`${app.url}/api/events?after=${begin}`, {
    headers: { authorization: `Bearer ${API_KEY}` }
  })
  const text = await response.text()
  t.equal(
    text.slice(0, text.lastIndexOf('],"has_more"')),
    `{"data":[${seen.map(({ data }) => data).join(',')}`,
    'as a page'
  )
})

t.test('what was acknowledged is in the next answer', async t => {
  let after = await endOf()
  for (let i = 0; i < 30; i++) {
    const ids = await write(some(1 + i % 3))
    const answer = await page(after, '&limit=100')
    t.strictSame(idsOf(answer), ids)
    after = answer.body.next_cursor
  }
})

t.test('pages are complete and without doubles while new events arrive, on two accounts at once', async t => {
  const others = await app.newAccountKey()
  await services.directory.catchUp(5000)
  const other = services.directory.now.keysByHash.get(sha256Hex(others))!.account
  const [mine, theirs] = [await endOf(), await endOf(others)]
  const written: Record<string, string[]> = { [FIRST_ACCOUNT]: [], [other]: [] }
  let writing = true
  const writer = (async () => {
    for (let round = 0; round < 40; round++) {
      const account = round % 3 === 0 ? other : FIRST_ACCOUNT
      written[account]!.push(...await write(some(1 + round % 7, { account })))
    }
    writing = false
  })()
  const poll = async (from: string, key: string) => {
    const found: string[] = []
    for (let after = from, done = false; !done;) {
      done = !writing
      const answer = await page(after, '&limit=3', key)
      found.push(...idsOf(answer))
      after = answer.body.next_cursor
      if (answer.body.has_more) done = false
    }
    return found
  }
  const [own, foreign] = await Promise.all([poll(mine, API_KEY), poll(theirs, others), writer])
  t.strictSame(own, written[FIRST_ACCOUNT])
  t.strictSame(foreign, written[other])
})

t.test('has_more says whether there is more that fits, and nothing else', async t => {
  const begin = await endOf()
  const ids = await write(some(6))
  await write(some(5, { make: opened as never, type: 'email.opened' }))
  for (
    const [query, count, more] of [
      ['&limit=11', 11, false],
      ['&limit=10', 10, true],
      ['&limit=12', 11, false],
      ['&limit=6&type=email.delivered', 6, false],
      ['&limit=5&type=email.delivered', 5, true],
      ['&limit=5&type=email.opened', 5, false],
      ['&type=email.clicked', 0, false]
    ] as const
  ) {
    const { body } = await page(begin, query)
    t.strictSame([body.data.length, body.has_more], [count, more], query)
  }
  const first = await page(begin, '&limit=4&type=email.delivered')
  const second = await page(first.body.next_cursor, '&type=email.delivered')
  t.strictSame([...idsOf(first), ...idsOf(second)], ids)
})

t.test('a page that had to read too much is short, says that there is more, and skips nothing', async t => {
  const [begin, beginSeq] = [await endOf(), await positionNow(services)]
  const [first] = await write(some(1))
  await write(some(2600, { make: opened as never, type: 'email.opened' }))
  const [last] = await write(some(1))
  const pages = [await page(begin, '&type=email.delivered')]
  while (pages.at(-1)!.body.has_more) pages.push(await page(pages.at(-1)!.body.next_cursor, '&type=email.delivered'))
  t.strictSame(pages.flatMap(idsOf), [first, last])

  const idsIn = ({ events }: FeedPage) => events.map(({ body }) => JSON.parse(body).id)
  const wanted = {
    account: FIRST_ACCOUNT,
    types: new Set(['email.delivered'] as const),
    email: null,
    fromMs: null,
    toMs: null
  }
  const far = await eventsAfter(services, wanted, beginSeq, 25, { ms: 60_000 })
  t.strictSame([idsIn(far), far.more], [[first, last], false])
  const short = [await eventsAfter(services, wanted, beginSeq, 25, { facts: 1000 })]
  while (short.at(-1)!.more) short.push(await eventsAfter(services, wanted, short.at(-1)!.seq, 25, { facts: 1000 }))
  t.equal(short.length, 3)
  t.strictSame(short.flatMap(idsIn), [first, last])
  let looks = 0
  for await (const look of readsAfter(services, wanted, beginSeq, 4)) looks += Math.min(1, look.facts)
  t.ok(looks < 30, `${looks} answers of NATS, though the first was to be a small one`)
})

t.test('filters: types, an email, times; all that are given must hold', async t => {
  const begin = await endOf()
  const [a, b, c] = [
    happened({ email: 'em_filtered' }),
    happened({ make: opened as never, type: 'email.opened', email: 'em_filtered' }),
    happened({ make: clicked as never, type: 'email.clicked' })
  ]
  await write([a, b, c])
  const timeOf = ({ fact }: typeof a) => encodeURIComponent(fact.time)
  for (
    const [query, expected] of [
      ['', [a, b, c]],
      ['&type=email.opened', [b]],
      ['&type=email.opened&type=email.clicked', [b, c]],
      ['&email_id=em_filtered', [a, b]],
      ['&email_id=em_filtered&type=email.clicked', []],
      ['&email_id=em_nobody', []],
      ['&created_after=9999-12-31T23:59:59-10:00', []],
      [`&created_after=${timeOf(b)}`, [b, c]],
      [`&created_before=${timeOf(b)}`, [a]],
      [`&created_after=${timeOf(b)}&created_before=${timeOf(c)}`, [b]],
      [`&created_after=${encodeURIComponent('2026-11-21T12:00:00+02:00')}&email_id=em_filtered`, [a, b]]
    ] as const
  ) t.strictSame(idsOf(await page(begin, `&limit=50${query}`)), expected.map(({ id }) => id), query)
  for (const early of ['0000-01-01T00:00:00Z', '1601-01-01T00:00:00Z']) {
    t.strictSame(idsOf(await get(`?created_after=${early}&email_id=em_filtered`)), [a.id, b.id], early)
  }
  const mail = (await app.send()).body.id
  await app.settled(mail, 'delivered')
  t.match((await get(`?email_id=${mail}`)).body, { data: [{ data: { email_id: mail } }], has_more: false })
  const since = new Date(Date.now() - 60_000).toISOString()
  let answer = await get(`?created_after=${since}`)
  const found = [answer]
  while (answer.body.has_more) found.push(answer = await page(answer.body.next_cursor, `&created_after=${since}`))
  const events = found.flatMap(({ body }) => body.data)
  t.ok(events.some(({ data }) => data.email_id === mail), 'without a cursor a time is where it begins')
  t.ok(events.every(({ created_at: time }) => time >= since))
})

t.test('what is long past a time that is asked for is not looked at', async t => {
  const begin = await endOf()
  const before = '2026-11-21T10:00:00.000Z'
  await write(some(1, { time: '2026-11-20T10:00:00.000Z' }))
  const { next_cursor: cursor } = (await page(begin, `&created_before=${before}`)).body
  await write(some(2100, { time: '2026-11-23T10:00:00.000Z' }))
  t.strictSame((await page(cursor, `&created_before=${before}`)).body, {
    data: [],
    has_more: false,
    next_cursor: cursor
  })
})

t.test('deferrals between the first and the end are not part of it', async t => {
  const begin = await endOf()
  const first = happened({ make: deferred as never, type: 'email.bounced' })
  await write([
    first,
    happened({
      make: ((given: object) => deferred({ ...given, first: false } as never)) as never,
      type: 'email.bounced'
    })
  ])
  t.strictSame(idsOf(await page(begin, '')), [first.id])
})

t.test('422 names every fault at once', async t => {
  const wrong = await get(
    '?after=x&limit=0&type=email.sent&email_id=a.*&created_after=2026-02-30T00:00:00Z&created_before=now&cursor=x'
  )
  t.equal(wrong.status, 422)
  const own = cursorsOf(services.tokens, FIRST_ACCOUNT)
  t.equal((await page(own.cursorOf(1), '')).status, 200)
  t.strictSame(faultsOf(wrong), [
    ['after', 'invalid_cursor'],
    ['created_after', 'invalid_value'],
    ['created_before', 'invalid_value'],
    ['cursor', 'unknown_field'],
    ['email_id', 'invalid_value'],
    ['limit', 'invalid_value'],
    ['type[0]', 'invalid_value']
  ])
  for (
    const [query, field, code] of [
      ['?type=email.opened&type=email.opened', 'type', 'not_unique'],
      ['?email_id=em_%3E', 'email_id', 'invalid_value'],
      ['?after=', 'after', 'invalid_cursor'],
      ['?limit=5&limit=6', 'limit', 'invalid_value'],
      [`?after=${Buffer.from('events 1').toString('base64url')}`, 'after', 'invalid_cursor'],
      [`?after=${own.cursorOf(1)}=`, 'after', 'invalid_cursor'],
      [`?after=${own.cursorOf(99_999_999)}`, 'after', 'invalid_cursor']
    ] as const
  ) t.strictSame(faultsOf(await get(query)), [[field, code]], query)
  const headers = { accept: 'text/event-stream', 'last-event-id': 'x' }
  t.strictSame(faultsOf(await app.request('GET', '/api/events?limit=5', { headers })), [[
    'Last-Event-ID',
    'invalid_cursor'
  ], ['limit', 'not_supported']])
})

t.test('a cursor is good for its own account alone, for pages and streams alike', async t => {
  const cursor = (await get()).body.next_cursor
  t.strictSame(faultsOf(await page(cursor, '', stranger)), [['after', 'invalid_cursor']])
  t.strictSame(
    faultsOf(
      await app.request('GET', '/api/events', {
        key: stranger,
        headers: { accept: 'text/event-stream', 'last-event-id': cursor }
      })
    ),
    [['Last-Event-ID', 'invalid_cursor']]
  )
  await write(some(2))
  const reader = await stream(t, { query: `?after=${cursor}` })
  const [first] = await reader.until(events => events.length > 0)
  t.equal((await page(cursor, '&limit=1')).body.next_cursor, first!.id, 'a stream has the same')
})

t.test('two accounts never see each other, whatever filter they come with', async t => {
  const begin = await endOf(stranger)
  const reader = await stream(t, { key: stranger, query: `?after=${begin}` })
  const ownBegin = await endOf()
  const filtered = await stream(t, { key: stranger, query: `?after=${begin}&email_id=em_secret` })
  await write([happened({ email: 'em_secret' }), ...some(5)])
  for (
    const query of [
      '',
      `?after=${begin}`,
      '?email_id=em_secret',
      '?created_after=2020-01-01T00:00:00Z',
      '?type=email.delivered'
    ]
  ) t.strictSame((await get(query, stranger)).body.data, [], query)
  const { body: { id } } = await app.send({}, stranger)
  await reader.until(events => events.length === 1)
  t.equal(JSON.parse(reader.events()[0]!.data).data.email_id, id)
  t.strictSame(filtered.events(), [])
  t.notOk(
    (await page(ownBegin, '&limit=100')).body.data.some(({ data }: { data: { email_id: string } }) =>
      data.email_id === id
    )
  )
})

t.test('while PostgreSQL is away the feed answers, and goes on', async t => {
  const node = await startTestApp(t, {
    natsUrl,
    databaseUrl: 'postgres://nobody@127.0.0.1:9/nothing',
    env: { JETPOST_ROLES: 'api' }
  })
  t.equal((await node.request('GET', '/api/emails')).status, 503)
  const begin = await endOf()
  const reader = await stream(t, {}, node.url)
  const ids = await write(some(3))
  t.strictSame(idsOf(await get(`?after=${begin}`, API_KEY, node)), ids)
  t.strictSame((await reader.until(events => events.length === 3)).map(({ data }) => JSON.parse(data).id), ids)
})

t.test('a stream has the headers of every answer, counts as one request, and begins now', async t => {
  const key = await app.newKey({ scopes: ['emails:read'] })
  await write(some(2))
  const reader = await stream(t, { key: key.secret })
  t.equal(reader.status, 200)
  t.match(Object.fromEntries(reader.headers), {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-ratelimit-limit': '60',
    'x-ratelimit-remaining': '59',
    'x-ratelimit-reset': /^\d+$/,
    'x-request-id': /^req_/
  })
  const ids = await write(some(1))
  t.strictSame((await reader.until(events => events.length > 0)).map(({ data }) => JSON.parse(data).id), ids)
  t.equal((await get('', key.secret)).headers.get('x-ratelimit-remaining'), '58')
  t.equal((await stream(t, { key: (await app.newKey({ scopes: ['webhooks:read'] })).secret })).status, 403)
  t.equal((await stream(t, { key: 'jp_live_nobody' })).status, 401)
})

t.test('a stream that is cut and resumed, anywhere and any number of times, has no gap and no double', async t => {
  const written: string[] = []
  let reader = await stream(t, { query: `?after=${await endOf()}&type=email.delivered` })
  let lastEventId = (await reader.until((_events, all) => all.length > 0), reader.messages[0]!.id)
  const seen: string[] = []
  const keep = () => {
    reader.cut()
    seen.push(...reader.events().map(({ data }) => JSON.parse(data).id as string))
    lastEventId = reader.messages.at(-1)?.id || lastEventId
  }
  for (let round = 0; round < 12; round++) {
    const writing = write([...some(5 + round * 3), ...some(2, { make: opened as never, type: 'email.opened' })])
    await reader.until(events => events.length >= round % 4)
    keep()
    written.push(...(await writing).slice(0, -2))
    reader = await stream(t, { lastEventId, query: '?type=email.delivered' })
  }
  await reader.until(events => seen.length + events.length >= written.length)
  keep()
  t.strictSame(seen, written)
})

t.test('Last-Event-ID goes before after, unless it is empty; a stream may begin at a time', async t => {
  const begin = await endOf()
  const ids = await write(some(4))
  const { body: { next_cursor: second } } = await page(begin, '&limit=2')
  const idsFrom = async (options: Parameters<typeof readEvents>[1], count: number) =>
    (await (await stream(t, options)).until(events => events.length >= count)).map(({ data }) => JSON.parse(data).id)
  t.strictSame(await idsFrom({ query: `?after=${begin}` }, 4), ids)
  t.strictSame(await idsFrom({ query: `?after=${begin}`, lastEventId: second }, 2), ids.slice(2))
  t.strictSame(await idsFrom({ query: `?after=${begin}`, lastEventId: '' }, 4), ids)
  t.equal((await stream(t, { lastEventId: '' })).status, 200)
  t.equal((await app.request('GET', '/api/events', { headers: { 'last-event-id': '' } })).status, 200)
  const since = new Date(Date.now() - 1000).toISOString()
  const { body: { id } } = await app.send()
  const timed = await (await stream(t, { query: `?created_after=${since}` })).until(events =>
    events.some(({ data }) => data.includes(id))
  )
  t.ok(timed.every(({ data }) => JSON.parse(data).created_at >= since))
})

t.test('a key that is revoked, expires, or loses its scope ends its streams, and no others', async t => {
  const [revoked, scoped, expiring, rotated] = await Promise.all([
    app.newKey({}),
    app.newKey({}),
    app.newKey({ expiresMs: Date.now() + 3_600_000 }),
    app.newKey({})
  ])
  const [a, b, c, d] = await Promise.all(
    [revoked, scoped, expiring, rotated].map(({ secret }) => stream(t, { key: secret }))
  ) as [EventReader, EventReader, EventReader, EventReader]
  const own = await stream(t)
  await app.revokeKey(revoked.id)
  await a.ended
  t.equal((await app.request('PATCH', `/api/keys/${scoped.id}`, { body: { scopes: ['emails:send'] } })).status, 200)
  await b.ended
  t.equal((await app.request('POST', `/api/keys/${rotated.id}/rotate`, { body: { overlap_s: 0 } })).status, 200)
  await d.ended
  aheadMs = 2 * 3_600_000
  t.teardown(async () => {
    aheadMs = 0
  })
  await c.ended
  aheadMs = 0
  const ids = await write(some(1))
  t.strictSame((await own.until(events => events.length > 0)).map(({ data }) => JSON.parse(data).id), ids)
  for (const reader of [a, b, c, d]) t.strictSame(reader.events(), [])
})

t.test('only who names it gets a stream', async t => {
  const typeFor = async (accept: string) => {
    const reader = await stream(t, { accept })
    reader.cut()
    return reader.headers.get('content-type')!.split(';')[0]
  }
  for (
    const accept of [
      'text/event-stream',
      'Text/Event-Stream; q=0.5',
      'text/event-stream, */*;q=0.1',
      'text/event-stream, */*',
      'text/event-stream, application/json;q=0.9'
    ]
  ) {
    t.equal(await typeFor(accept), 'text/event-stream', accept)
  }
  for (
    const accept of [
      '*/*',
      'application/json',
      'text/html, */*;q=0.8',
      'text/*',
      'nonsense',
      'text/event-stream;q=0',
      'application/json, text/event-stream',
      'text/event-stream;q=0.5, */*'
    ]
  ) t.equal(await typeFor(accept), 'application/json', accept)
})

t.test('HEAD has the headers and ends', async t => {
  for (const [accept, type] of [['text/event-stream', 'text/event-stream'], ['*/*', 'application/json']] as const) {
    const answer = await app.request('HEAD', '/api/events', { headers: { accept } })
    t.equal(answer.status, 200)
    t.match(answer.headers.get('content-type'), type)
    t.ok(answer.headers.get('x-ratelimit-limit'))
    t.equal(answer.body, '')
  }
})

t.test('streams are bounded for an account and a process: 503 with the reason, until one is closed', async t => {
  const { url } = await openNode(t, { accountMax: 2, processMax: 3 }, services)
  await services.directory.catchUp(5000)
  const open = async (key = API_KEY) => await stream(t, { key }, url)
  const first = await open()
  await open()
  const refused = await fetch(`${url}/api/events`, {
    headers: { authorization: `Bearer ${API_KEY}`, accept: 'text/event-stream' }
  })
  t.equal(refused.status, 503)
  t.strictSame(await refused.json(), {
    error: 'An account can have at most 2 streams on one server: end one first.',
    code: 'too_many_streams'
  })
  t.ok(Number(refused.headers.get('retry-after')) >= 1)
  t.ok(refused.headers.get('x-ratelimit-limit'))
  t.equal((await open(stranger)).status, 200)
  const another = (await app.newKey({}, {
    account: [...services.directory.now.keys.values()].find(({ account }) => account !== FIRST_ACCOUNT)!.account
  })).secret
  await services.directory.catchUp(5000)
  const full = await open(another)
  t.equal(full.status, 503)
  t.ok(Number(full.headers.get('retry-after')) >= 1)
  first.cut()
  await until(async () => (await open()).status === 200)
})

t.test('a silent stream is kept alive, and its id moves on past what it does not want', async t => {
  const { url } = await openNode(t, { heartbeatMs: 200 }, services)
  const reader = await stream(t, { query: '?type=email.complained' }, url)
  await reader.until((_events, all) => all.filter(({ comment }) => comment !== '').length >= 2)
  const before = reader.messages.at(-1)!.id
  await write(some(1))
  await reader.until((_events, all) => all.at(-1)!.comment !== '' && all.at(-1)!.id !== before)
  t.strictSame(reader.events(), [])
})

/** Opens a stream and reads none of it. */
async function openDeaf (t: Test, url: string, query: string, key = API_KEY): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  t.teardown(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  socket.pause()
  socket.on('error', () => {})
  socket.write(
    `GET /api/events${query} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer ${key}\r\n\r\n`
  )
  return socket
}

let bulky = ''

t.test('a reader that takes nothing is waited for with little in hand, then cut; others are not held up', async t => {
  const { http, url } = await openNode(t, { stallMs: 1500 }, services)
  const sockets = new Set<Socket>()
  http.server.on('connection', socket => sockets.add(socket))
  const begin = bulky = await endOf()
  const deaf = await openDeaf(t, url, `?after=${begin}`)
  await until(() => sockets.size === 1)
  const [server] = sockets
  let heldMax = 0
  const looks = setInterval(() => {
    heldMax = Math.max(heldMax, server!.writableLength)
  }, 5)
  t.teardown(() => clearInterval(looks))
  const reader = await stream(t, { query: `?after=${begin}` }, url)
  const ids = await write(some(800, { pad: 'x'.repeat(16_000) }))
  await until(() => server!.destroyed, 30_000)
  t.ok(heldMax > 0 && heldMax < 1024 * 1024, `${heldMax} bytes of 13 MB were held for it at most`)
  t.strictSame((await reader.until(events => events.length >= ids.length)).map(({ data }) => JSON.parse(data).id), ids)
  deaf.destroy()
})

t.test('a reader that takes nothing is cut as well when its key ends, and when the service stops', async t => {
  const { http, url } = await openNode(t, {}, services)
  const sockets = new Set<Socket>()
  http.server.on('connection', socket => sockets.add(socket))
  const key = await app.newKey({})
  await services.directory.catchUp(5000)
  for (const secret of [key.secret, API_KEY]) await openDeaf(t, url, `?after=${bulky}`, secret)
  await until(() => sockets.size === 2 && [...sockets].every(({ writableLength }) => writableLength > 0))
  await app.revokeKey(key.id)
  await until(() => [...sockets].filter(({ destroyed }) => destroyed).length === 1)
  const reader = await stream(t, {}, url)
  await http.close()
  await reader.ended
  t.ok([...sockets].every(({ destroyed }) => destroyed))
})

t.test('how long a stream lasts is not how long an answer took', async t => {
  const { http, metrics, url } = await openNode(t, {}, services)
  const reader = await stream(t, {}, url)
  t.equal(reader.status, 200)
  t.equal((await fetch(`${url}/api/events`, { headers: { authorization: `Bearer ${API_KEY}` } })).status, 200)
  await http.close()
  await reader.ended
  const text = await metrics.registry.getSingleMetricAsString('jetpost_http_request_seconds')
  t.match(text, /le="\+Inf",route="\/api\/events",status="200"\} 1\n/)
})

t.test('stopping an app ends its streams', async t => {
  const node = await startTestApp(t, { natsUrl, databaseUrl, env: { JETPOST_ROLES: 'api' } })
  const readers = [await stream(t, {}, node.url), await stream(t, { query: '?type=email.opened' }, node.url)]
  await node.stop()
  await Promise.all(readers.map(({ ended }) => ended))
  t.pass('they have ended')
})

t.test('while NATS is away a stream stays and its line is kept alive; then it catches up', {
  timeout: 60_000,
  ...LONG_ONLY
}, async t => {
  const nats = await openOwnNats(t)
  const node = await startTestApp(t, {
    natsUrl: nats.natsUrl,
    databaseUrl: await freshDatabase(t),
    env: { JETPOST_ROLES: 'api' }
  })
  const services = await openSecondServices(t, nats.natsUrl)
  const { url } = await openNode(t, { heartbeatMs: 300 }, services)
  const reader = await stream(t, {}, url)
  const before = await write(some(2), services)
  await reader.until(events => events.length === 2)
  await nats.kill()
  const beats = () => reader.messages.filter(({ comment }) => comment !== '').length
  const had = beats()
  await until(() => beats() >= had + 3)
  t.equal((await fetch(`${url}/api/events`, { headers: { authorization: `Bearer ${API_KEY}` } })).status, 503)
  await nats.start()
  let after: string[] = []
  await until(async () => {
    after = await write(some(3), services).catch(() => [])
    return after.length > 0
  }, 20_000)
  const seen = (await reader.until(events => events.some(({ data }) => JSON.parse(data).id === after.at(-1)))).map((
    { data }
  ) => JSON.parse(data).id)
  t.strictSame(seen.slice(0, 2), before)
  t.strictSame(seen.slice(-3), after)
  t.equal(new Set(seen).size, seen.length)
  await node.stop()
})
