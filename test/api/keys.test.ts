import t, { type Test } from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import { createKey, grantKey } from '#src/actions/key.ts'
import { KEYS_MAX } from '#streams/key/decide.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { getFact, lastSequence } from '#src/nats/get.ts'
import type { Clock } from '#src/base/clock.ts'
import { API_KEY, FROM, startTestApp, type Answer } from '../support/app.ts'
import { LONG_ONLY } from '../support/long.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

/** Time goes on as it does, and a test can make it jump. */
let aheadMs = 0
const clock: Clock = { nowMs: () => Date.now() + aheadMs }

const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl, clock })
const second = await startTestApp(t, { natsUrl, databaseUrl, clock, env: { JETPOST_ROLES: 'api' } })

const INSUFFICIENT = { error: 'Insufficient API key permissions' }
const OWN_ID = (await app.request('GET', '/api/me')).body.id
const UNAUTHORIZED = { error: 'Unauthorized' }
const inMs = (ms: number) => new Date(clock.nowMs() + ms).toISOString()

/** POST /api/keys with defaults for what a test does not care about. */
function make (fields: Record<string, unknown> = {}, key = API_KEY, at = app): Promise<Answer> {
  return at.request('POST', '/api/keys', { key, body: { name: 'Shop', scopes: ['full'], domains: ['*'], ...fields } })
}

const rotate = (id: string, body?: unknown, key = API_KEY, at = app) =>
  at.request('POST', `/api/keys/${id}/rotate`, { key, body })
const patch = (id: string, body: unknown, key = API_KEY, at = app) =>
  at.request('PATCH', `/api/keys/${id}`, { key, body })
const revoke = (id: string, key = API_KEY, at = app) => at.request('DELETE', `/api/keys/${id}`, { key })
const statusOf = async (key: string, at = app) => (await at.request('GET', '/api/keys', { key })).status

function refused (t: Test, answer: Answer, status: number, body: object, name = ''): void {
  t.equal(answer.status, status, name)
  t.strictSame(answer.body, body, name)
}

t.test('a key is made with a secret that is shown once, and works', async t => {
  const made = await make({
    name: 'Shop',
    scopes: ['emails:send', 'keys:read'],
    domains: ['Shop.example'],
    expires_at: '2099-01-31T12:00:00+01:00',
    track: { opens: false },
    unsubscribe: true
  })
  t.equal(made.status, 201)
  const { key, ...rest } = made.body
  t.match(key, /^jp_live_[A-Za-z0-9_-]{43}$/)
  t.strictSame(rest, {
    id: rest.id,
    name: 'Shop',
    hint: `${key.slice(0, 12)}…`,
    scopes: ['emails:send', 'keys:read'],
    domains: ['shop.example'],
    test: false,
    expires_at: '2099-01-31T11:00:00.000Z',
    limits: { 'emails:send': 100, 'emails:batch': 60, 'emails:list': 300, 'templates:create': 60, other: 60 },
    track: { opens: false, clicks: null },
    unsubscribe: true,
    previous_expires_at: null,
    made_by: OWN_ID,
    last_used_at: null,
    created_at: rest.created_at
  })
  t.match(rest, { id: /^key_[0-9a-z]{26}$/, created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/ })
  t.equal(made.headers.get('location'), `/api/keys/${rest.id}`)
  t.strictSame((await app.request('GET', `/api/keys/${rest.id}`)).body, rest, 'read back, without the secret')
  const listed = await app.request('GET', '/api/keys')
  t.strictSame(listed.body.data.find((one: { id: string }) => one.id === rest.id), rest)
  const own = (await app.request('GET', `/api/keys/${rest.id}`, { key })).body
  t.ok(Math.abs(Date.now() - Date.parse(own.last_used_at)) < 60_000, 'read by itself it was used')
  t.strictSame({ ...own, last_used_at: null }, rest)
  t.notMatch(JSON.stringify(listed.body), key)
})

t.test('the secret is nowhere in the log, and no hash of it in an answer', async t => {
  const { body } = await make()
  const rotated = await rotate(body.id)
  const { factLog } = await openSecondServices(t, natsUrl)
  const facts: string[] = []
  for (let seq = await lastSequence(factLog.bus, 'CONTROL'); seq > 0; seq--) {
    facts.push(JSON.stringify(await getFact(factLog.bus, 'CONTROL', { seq })))
  }
  t.equal(facts.filter(fact => fact.includes(body.id)).length, 2)
  for (const secret of [body.key, rotated.body.key]) t.notOk(facts.some(fact => fact.includes(secret)))
  for (const answer of [body, rotated.body, (await app.request('GET', '/api/keys')).body]) {
    t.notMatch(JSON.stringify(answer), /[0-9a-f]{64}/)
  }
})

t.test("a test key's secret says so", async t => {
  const { body } = await make({ test: true })
  t.match(body, { test: true, key: /^jp_test_/, hint: /^jp_test_/ })
  t.equal((await app.send({}, body.key)).status, 202)
})

t.test('a new key does what it holds and nothing else', async t => {
  const { body: { key } } = await make({ scopes: ['emails:send'], domains: ['sandbox.jetpost.test'] })
  t.equal((await app.send({ from: FROM }, key)).status, 202)
  refused(t, await app.request('GET', '/api/emails', { key }), 403, INSUFFICIENT)
})

t.test('names are folded: domains given twice or as U-labels, scopes given twice', async t => {
  const { body } = await make({
    scopes: ['emails:read', 'emails:read'],
    domains: ['Bücher.example', 'xn--bcher-kva.example', 'not-yet-ours.example']
  })
  t.strictSame(body.scopes, ['emails:read'])
  t.strictSame(body.domains, ['xn--bcher-kva.example', 'not-yet-ours.example'])
})

t.test('all faults of a key are named at once', async t => {
  const faults = async (fields: Record<string, unknown>) => {
    const { status, body } = await make(fields)
    t.equal(status, 422)
    return Object.fromEntries(body.details.map((fault: { field: string, code: string }) => [fault.field, fault.code]))
  }
  t.strictSame(
    await faults({
      name: ' ',
      scopes: ['emails:sned'],
      domains: ['ok.example', 'no domain', '*.example.com'],
      expires_at: 'tomorrow',
      test: 1,
      limits: {},
      track: { views: true },
      unsubscribe: 'no'
    }),
    {
      name: 'invalid_name',
      'scopes[0]': 'invalid_value',
      'domains[1]': 'invalid_domain',
      'domains[2]': 'invalid_domain',
      expires_at: 'invalid_value',
      test: 'invalid_value',
      limits: 'unknown_field',
      'track.views': 'unknown_field',
      unsubscribe: 'invalid_value'
    }
  )
  t.strictSame(await faults({ name: undefined, scopes: undefined, domains: undefined }), {
    name: 'required',
    scopes: 'required',
    domains: 'required'
  })
  t.strictSame(await faults({ name: 'a\nb', scopes: [], domains: [], expires_at: inMs(-1000) }), {
    name: 'invalid_name',
    scopes: 'too_few',
    domains: 'too_few',
    expires_at: 'in_the_past'
  })
  t.strictSame(await faults({ scopes: ['full', 'emails:send'], domains: ['*', 'a.example'] }), {
    scopes: 'invalid_scope',
    domains: 'invalid_domain'
  }, 'what is all stands alone')
  for (
    const at of [
      '2099-02-30T00:00:00Z',
      '2099-01-01T00:00:00',
      '2099-01-01',
      '9999-12-31T23:59:59-01:00',
      4_000_000_000
    ]
  ) t.strictSame(await faults({ expires_at: at }), { expires_at: 'invalid_value' }, String(at))
  t.strictSame(await faults({ domains: Array.from({ length: 1001 }, (_, i) => `d${i}.example`) }), {
    domains: 'too_many'
  })
  t.equal((await app.request('POST', '/api/keys', { body: [] })).status, 422)
})

t.test("the list is a page at a time, newest first, and holds the account's keys alone", async t => {
  const key = await app.newAccountKey()
  const ids: string[] = []
  for (let i = 0; i < 3; i++) {
    ids.unshift((await make({ name: `n ${i}` }, key)).body.id)
    const madeMs = clock.nowMs()
    await until(() => clock.nowMs() > madeMs)
  }
  const first = (await app.request('GET', '/api/keys?limit=2', { key })).body
  t.equal(first.data.length, 2)
  t.equal(first.has_more, true)
  await make({ name: 'newer' }, key)
  const rest = (await app.request('GET', `/api/keys?limit=10&cursor=${first.next_cursor}`, { key })).body
  const all = [...first.data, ...rest.data].map((one: { id: string }) => one.id)
  t.strictSame(all.slice(0, 3), ids)
  t.equal(all.length, 4, 'with the key that made them')
  t.strictSame([rest.has_more, rest.next_cursor], [false, null])
  const faulty = await app.request('GET', '/api/keys?nmae=x&limit=0&cursor=x', { key })
  t.strictSame(faulty.body.details.map((fault: { field: string }) => fault.field).sort(), ['cursor', 'limit', 'nmae'])
  for (const id of ['em_0', 'wh_0', 'dom_0', 'key_']) {
    const cursor = Buffer.from(`2026-11-21T12:00:00.000Z ${id}`).toString('base64url')
    t.match((await app.request('GET', `/api/keys?cursor=${cursor}`, { key })).body, {
      details: [{ field: 'cursor', code: 'invalid_cursor' }]
    }, id)
  }
})

t.test('a change changes what it names', async t => {
  const { body: { key, previous_expires_at: _, ...before } } = await make({
    scopes: ['emails:send', 'emails:read'],
    domains: ['a.example'],
    track: { opens: false, clicks: true }
  })
  const changed = await patch(before.id, {
    name: 'Renamed',
    track: { opens: null },
    unsubscribe: false,
    expires_at: '2099-01-01T00:00:00Z'
  })
  t.equal(changed.status, 200)
  t.strictSame(changed.body, {
    ...before,
    name: 'Renamed',
    track: { opens: null, clicks: true },
    unsubscribe: false,
    expires_at: '2099-01-01T00:00:00.000Z',
    previous_expires_at: null
  })
  t.match((await patch(before.id, { scopes: ['emails:read'], domains: ['B.example'], expires_at: null })).body, {
    scopes: ['emails:read'],
    domains: ['b.example'],
    expires_at: null,
    name: 'Renamed'
  })
  refused(t, await app.send({ from: 'x@b.example' }, key), 403, INSUFFICIENT, 'the scope is gone at once')
  t.equal((await app.request('GET', '/api/emails', { key })).status, 200)
  const { factLog } = await openSecondServices(t, natsUrl)
  const seq = await lastSequence(factLog.bus, 'CONTROL')
  t.equal((await patch(before.id, { name: 'Renamed', domains: ['b.example'] })).status, 200)
  t.equal(await lastSequence(factLog.bus, 'CONTROL'), seq, 'said twice, happened once')
  t.strictSame(
    (await patch(before.id, { test: true, name: '' })).body.details.map((fault: { field: string }) => fault.field)
      .sort(),
    ['name', 'test'],
    'live stays live'
  )
})

t.test('an expired key stays in the list, takes no new secret, and works again when its end is moved', async t => {
  const { body } = await make({ expires_at: inMs(3_600_000) })
  aheadMs += 3_600_001
  refused(t, await app.request('GET', '/api/keys', { key: body.key }), 401, UNAUTHORIZED)
  t.equal((await app.request('GET', `/api/keys/${body.id}`)).body.expires_at, body.expires_at)
  t.match(await rotate(body.id), { status: 409, body: { code: 'key_expired' } })
  t.equal((await patch(body.id, { name: 'Old' })).status, 200)
  t.equal((await patch(body.id, { expires_at: null })).status, 200)
  t.equal(await statusOf(body.key), 200)
})

t.test('a revoked key is gone: its secrets, its place in the list, and a second time 404', async t => {
  const { body } = await make()
  const rotated = (await rotate(body.id)).body
  const gone = await revoke(body.id)
  t.equal(gone.status, 204)
  t.equal(gone.body, '')
  for (const secret of [body.key, rotated.key]) {
    refused(t, await app.request('GET', '/api/keys', { key: secret }), 401, UNAUTHORIZED)
  }
  for (
    const answer of [
      await app.request('GET', `/api/keys/${body.id}`),
      await revoke(body.id),
      await patch(body.id, { name: 'x' }),
      await rotate(body.id)
    ]
  ) refused(t, answer, 404, { error: 'Not found' })
})

t.test("another account's key is a 404, whatever is asked of it", async t => {
  const stranger = await app.newAccountKey()
  const { body: { id, key } } = await make()
  for (
    const answer of [
      await app.request('GET', `/api/keys/${id}`, { key: stranger }),
      await patch(id, { name: 'x' }, stranger),
      await rotate(id, {}, stranger),
      await revoke(id, stranger)
    ]
  ) {
    refused(t, answer, 404, { error: 'Not found' })
  }
  t.notMatch(JSON.stringify((await app.request('GET', '/api/keys', { key: stranger })).body), id)
  t.equal(await statusOf(key), 200)
  for (const wrong of ['x', 'key_', 'em_01', '%00', 'key_'.repeat(100)]) {
    t.equal((await app.request('GET', `/api/keys/${wrong}`)).status, 404, wrong)
  }
})

t.test('reading and writing keys are scopes of their own, looked at before the fields', async t => {
  const reader = (await make({ scopes: ['keys:read'] })).body
  const writer = (await make({ scopes: ['keys:write'] })).body
  t.equal((await app.request('GET', `/api/keys/${writer.id}`, { key: reader.key })).status, 200)
  for (const path of ['', `/${reader.id}`]) {
    refused(t, await app.request('GET', `/api/keys${path}`, { key: writer.key }), 403, INSUFFICIENT)
  }
  for (
    const answer of [
      await make({ name: 7 }, reader.key),
      await patch(reader.id, { name: 7 }, reader.key),
      await rotate(reader.id, { overlap_s: -1 }, reader.key),
      await revoke(reader.id, reader.key)
    ]
  ) {
    refused(t, answer, 403, INSUFFICIENT)
  }
})

t.test('a key grants no more than it holds, by no road', async t => {
  const expires = inMs(86_400_000)
  const held = {
    scopes: ['keys:write', 'keys:read', 'emails:send'],
    domains: ['a.example', 'b.example'],
    expires_at: expires,
    test: true
  }
  const asker = (await make(held)).body
  const within = { scopes: ['emails:send'], domains: ['b.example'], expires_at: expires, test: true }
  const own = (await make(within, asker.key)).body
  t.match(own, { key: /^jp_test_/, ...within })
  const tooMuch = [
    { scopes: ['full'] },
    { scopes: ['emails:send', 'emails:read'] },
    { domains: ['*'] },
    { domains: ['a.example', 'c.example'] },
    { expires_at: inMs(86_500_000) },
    { expires_at: null }
  ]
  for (const more of [...tooMuch, { test: false }]) {
    refused(t, await make({ ...within, ...more }, asker.key), 403, INSUFFICIENT, `made: ${JSON.stringify(more)}`)
  }
  refused(t, await make({ ...within, expires_at: undefined }, asker.key), 403, INSUFFICIENT, 'made: without an end')
  for (const more of tooMuch) {
    refused(t, await patch(own.id, more, asker.key), 403, INSUFFICIENT, `changed: ${JSON.stringify(more)}`)
    refused(t, await patch(asker.id, more, asker.key), 403, INSUFFICIENT, `changed in itself: ${JSON.stringify(more)}`)
    refused(
      t,
      await patch('key_nobody', more, asker.key),
      403,
      INSUFFICIENT,
      `looked at before the id: ${JSON.stringify(more)}`
    )
    const bigger = (await make({ ...within, ...more })).body
    refused(t, await rotate(bigger.id, {}, asker.key), 403, INSUFFICIENT, `rotated: ${JSON.stringify(more)}`)
    refused(t, await patch(bigger.id, { name: 'x' }, asker.key), 403, INSUFFICIENT, `renamed: ${JSON.stringify(more)}`)
  }
  const live = (await make({ ...within, test: false })).body
  refused(t, await rotate(live.id, {}, asker.key), 403, INSUFFICIENT, 'a test key has no live secret made')
  t.equal((await patch(own.id, { name: 'Mine', domains: ['a.example'] }, asker.key)).status, 200)
  t.equal((await rotate(own.id, {}, asker.key)).status, 200)
  t.match(
    await make({ ...within, name: '', scopes: ['full'] }, asker.key),
    { status: 422 },
    'fields come before growth'
  )
})

t.test("the mailbox of this machine is read with an operator's key alone", async t => {
  const { body: { id } } = await app.send({ to: 'caught@example.com' })
  await app.settled(id, 'delivered')
  t.match((await app.caught('caught@example.com')).to, [{ address: 'caught@example.com' }])
  const [limited, test] = [await app.newKey({ scopes: ['dashboard'] }), await app.newKey({ test: true })]
  for (const key of [null, 'jp_live_nothing', limited.secret, test.secret, await app.newAccountKey()]) {
    t.equal((await app.request('GET', '/catcher.json', { key })).status, 403)
  }
})

t.test('operator is for live keys of the first account on all domains, from who has it', async t => {
  const code = (answer: Answer) => answer.body.details?.map((fault: any) => [fault.field, fault.code, fault.message])
  const fault = [
    'scopes',
    'invalid_scope',
    'operator must only be given to a live key of the first account with domains ["*"].'
  ]
  const scopes = ['dashboard', 'operator', 'keys:write']
  for (
    const [name, answer] of [
      ['test', await make({ scopes, test: true })],
      ['bound', await make({ scopes, domains: ['shop.example'] })],
      ['another account', await make({ scopes }, await app.newAccountKey())]
    ] as const
  ) {
    t.equal(answer.status, 422, name)
    t.strictSame(code(answer), [fault], name)
  }
  const { body: operator } = await make({ scopes })
  t.strictSame(operator.scopes, scopes)
  t.strictSame(code(await patch(operator.id, { domains: ['shop.example'] })), [fault])
  t.equal((await make({ scopes: ['operator'] }, operator.key)).status, 201, 'it hands it on')
  const { body: other } = await make({ scopes: ['dashboard', 'keys:write'] })
  for (
    const answer of [
      await make({ scopes: ['operator'] }, other.key),
      await patch(other.id, { scopes: ['dashboard', 'operator'] }, other.key),
      await rotate(operator.id, {}, other.key),
      await revoke(operator.id, other.key)
    ]
  ) t.equal(answer.status, 403)
})

t.test('a key may narrow, rotate and revoke itself', async t => {
  const { body } = await make({ scopes: ['keys:write', 'emails:send'], domains: ['a.example', 'b.example'] })
  t.equal((await patch(body.id, { domains: ['a.example'] }, body.key)).status, 200)
  refused(
    t,
    await patch(body.id, { domains: ['a.example', 'b.example'] }, body.key),
    403,
    INSUFFICIENT,
    'there is no way back'
  )
  const rotated = await rotate(body.id, { overlap_s: 0 }, body.key)
  t.equal(rotated.status, 200)
  t.equal((await revoke(body.id, rotated.body.key)).status, 204)
  refused(t, await revoke(body.id, rotated.body.key), 401, UNAUTHORIZED)
})

t.test('a key ends only keys that hold no more than it does', async t => {
  const writer = (await make({ scopes: ['keys:write', 'emails:send'], domains: ['a.example'], test: true })).body
  const within = { scopes: ['emails:send'], domains: ['a.example'], test: true }
  for (
    const more of [{ scopes: ['full'] }, { scopes: ['emails:read'] }, { domains: ['*'] }, { domains: ['b.example'] }, {
      test: false
    }]
  ) {
    const bigger = (await make({ ...within, ...more })).body
    refused(t, await revoke(bigger.id, writer.key), 403, INSUFFICIENT, JSON.stringify(more))
    t.equal((await app.request('GET', `/api/keys/${bigger.id}`)).status, 200, 'it is still there')
  }
  refused(t, await revoke('key_nobody', writer.key), 404, { error: 'Not found' })
  t.equal((await revoke((await make(within)).body.id, writer.key)).status, 204)
  t.equal((await revoke(writer.id, writer.key)).status, 204, 'and itself')
  const ending = (await make({ scopes: ['keys:write'], expires_at: inMs(3_600_000) })).body
  const lasting = (await make({ scopes: ['keys:write'] })).body
  refused(t, await revoke(lasting.id, ending.key), 403, INSUFFICIENT, 'one that lasts longer')
})

t.test('a key that was narrowed or revoked on one node grants no more on another', async t => {
  for (let i = 0; i < 10; i++) {
    const { body } = await make({ scopes: ['keys:write'], domains: ['*'] })
    await patch(body.id, { domains: ['a.example'] })
    refused(t, await make({ scopes: ['keys:write'] }, body.key, second), 403, INSUFFICIENT)
  }
  // One whose request came in before it was revoked, and is decided after.
  const { body } = await make()
  await revoke(body.id)
  const services = await openSecondServices(t, natsUrl)
  const wanted = {
    name: 'x',
    test: false,
    scopes: ['full' as const],
    domains: ['*'],
    expiresMs: null,
    defaults: NO_DEFAULTS
  }
  t.match(
    await grantKey(
      services,
      { account: FIRST_ACCOUNT, correlation: 'test', actor: roleActor('test'), by: body.id },
      wanted
    ),
    {
      code: 'unauthorized'
    }
  )
})

t.test('a rotated key answers to both secrets until the overlap ends', async t => {
  const { body } = await make()
  const rotated = await rotate(body.id, { overlap_s: 3600 })
  t.equal(rotated.status, 200)
  t.match(rotated.body, { id: body.id, name: body.name, key: /^jp_live_/, created_at: body.created_at })
  t.not(rotated.body.key, body.key)
  const endsInMs = Date.parse(rotated.body.previous_expires_at) - clock.nowMs()
  t.ok(endsInMs > 3_500_000 && endsInMs <= 3_600_000)
  for (const at of [app, second]) {
    for (const secret of [body.key, rotated.body.key]) t.equal(await statusOf(secret, at), 200)
  }
  t.equal(
    (await second.request('GET', `/api/keys/${body.id}`)).body.previous_expires_at,
    rotated.body.previous_expires_at
  )
  aheadMs += 3_600_000
  for (const at of [app, second]) {
    refused(t, await at.request('GET', '/api/keys', { key: body.key }), 401, UNAUTHORIZED)
    t.equal(await statusOf(rotated.body.key, at), 200)
  }
  t.equal((await app.request('GET', `/api/keys/${body.id}`)).body.previous_expires_at, null)
})

t.test('an overlap is a day when nothing is said, none at 0, a week at most', async t => {
  const { body } = await make()
  for (const given of [undefined, {}]) {
    const { body: { previous_expires_at: end } } = await rotate(body.id, given)
    t.ok(Math.abs(Date.parse(end) - clock.nowMs() - 86_400_000) < 60_000)
  }
  const last = (await rotate(body.id, { overlap_s: 604_800 })).body
  const now = (await rotate(body.id, { overlap_s: 0 })).body
  t.equal(now.previous_expires_at, null)
  refused(t, await app.request('GET', '/api/keys', { key: last.key }), 401, UNAUTHORIZED)
  t.equal(await statusOf(now.key), 200)
  for (const overlap of [-1, 604_801, 1.5, '60', null]) {
    t.match(
      await rotate(body.id, { overlap_s: overlap }),
      { status: 422, body: { details: [{ field: 'overlap_s' }] } },
      String(overlap)
    )
  }
  t.match(await rotate(body.id, { overlap: 5 }), {
    status: 422,
    body: { details: [{ field: 'overlap', code: 'unknown_field' }] }
  })
  t.equal((await rotate(body.id, [])).status, 422)
})

t.test('the key that JETPOST_API_KEY fixes takes no new secret, and no other powers', async t => {
  const { body: { data } } = await app.request('GET', '/api/keys?limit=100')
  const { id } = data.find((key: { name: string }) => key.name === 'JETPOST_API_KEY')
  t.match(await rotate(id), { status: 409, body: { code: 'key_fixed' } })
  for (
    const change of [{ scopes: ['keys:read'] }, { domains: ['a.example'] }, { expires_at: '2099-01-01T00:00:00Z' }, {
      expires_at: null,
      name: 'x'
    }]
  ) {
    t.match(await patch(id, change), { status: 409, body: { code: 'key_fixed' } }, JSON.stringify(change))
  }
  const changes = { name: 'JETPOST_API_KEY', track: { opens: true }, unsubscribe: true }
  t.match(await patch(id, changes), {
    status: 200,
    body: { ...changes, scopes: ['full'], domains: ['*'], expires_at: null }
  })
  t.equal(await statusOf(API_KEY), 200)
})

t.test('a key made on one node is used on the other at once, fifty times', async t => {
  for (let i = 0; i < 50; i++) {
    const { body: { key } } = await make()
    t.equal(await statusOf(key, second), 200)
  }
})

t.test('a new secret works on the other node at once; what ended stops there within a second', async t => {
  for (let i = 0; i < 10; i++) {
    const { body } = await make()
    const rotated = (await rotate(body.id, { overlap_s: 0 })).body
    t.equal(await statusOf(rotated.key, second), 200)
    await until(async () => await statusOf(body.key, second) === 401, 1000)
    await revoke(body.id)
    await until(async () => await statusOf(rotated.key, second) === 401, 1000)
  }
})

t.test('changes at the same moment on two nodes: none is lost', async t => {
  for (let i = 0; i < 10; i++) {
    const { body: { id } } = await make()
    const answers = await Promise.all([
      patch(id, { name: 'One' }),
      patch(id, { unsubscribe: false }, API_KEY, second),
      patch(id, { track: { opens: false } }),
      patch(id, { track: { clicks: true } }, API_KEY, second)
    ])
    t.strictSame(answers.map(answer => answer.status), [200, 200, 200, 200])
    t.match((await app.request('GET', `/api/keys/${id}`)).body, {
      name: 'One',
      unsubscribe: false,
      track: { opens: false, clicks: true }
    })
  }
})

t.test('rotations at the same moment on two nodes: both new secrets work', async t => {
  for (let i = 0; i < 10; i++) {
    const { body } = await make()
    const rotated = await Promise.all([rotate(body.id), rotate(body.id, {}, API_KEY, second)])
    for (const answer of rotated) for (const at of [app, second]) t.equal(await statusOf(answer.body.key, at), 200)
    t.equal(await statusOf(body.key), 401, 'and of older ones none')
  }
})

t.test('in a storm of changes each is made or refused as a conflict', async t => {
  const { body: { id } } = await make()
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, i) => patch(id, { name: `n ${i}` }, API_KEY, i % 2 === 0 ? app : second))
  )
  const refusals = answers.filter(answer => answer.status !== 200)
  t.ok(refusals.length < 40)
  for (const answer of refusals) t.match(answer, { status: 409, body: { code: 'conflict' } })
})

t.test('a revocation beats whatever comes at the same moment', async t => {
  for (let i = 0; i < 10; i++) {
    const { body } = await make()
    const [gone, changed, rotated] = await Promise.all([
      revoke(body.id),
      patch(body.id, { name: 'x' }, API_KEY, second),
      rotate(body.id, {}, API_KEY, second)
    ])
    t.equal(gone.status, 204)
    t.ok([200, 404].includes(changed.status) && [200, 404].includes(rotated.status))
    for (const at of [app, second]) t.equal((await at.request('GET', `/api/keys/${body.id}`)).status, 404)
    for (const secret of [body.key, rotated.body.key ?? body.key]) t.equal(await statusOf(secret), 401)
  }
})

t.test('what the operator has set shows in the answers', async t => {
  const { body: { id } } = await make()
  await app.limitKey(id, { 'emails:send': 500 })
  t.strictSame((await app.request('GET', `/api/keys/${id}`)).body.limits, {
    'emails:send': 500,
    'emails:batch': 60,
    'emails:list': 300,
    'templates:create': 60,
    other: 60
  })
})

t.test(`an account has at most ${KEYS_MAX} keys`, LONG_ONLY, async t => {
  const key = await app.newAccountKey()
  const services = await openSecondServices(t, natsUrl)
  const account = [...services.directory.now.accounts.keys()].at(-1)!
  const wanted = {
    name: 'x',
    test: false,
    scopes: ['emails:read' as const],
    domains: ['*'],
    expiresMs: null,
    defaults: NO_DEFAULTS
  }
  for (let made = 1; made < KEYS_MAX; made += 500) {
    await Promise.all(
      Array.from(
        { length: Math.min(500, KEYS_MAX - made) },
        () => createKey(services, { account, correlation: 'test', actor: roleActor('test') }, wanted)
      )
    )
  }
  const full = await make({}, key)
  t.match(full, { status: 409, body: { code: 'too_many_keys' } })
  const { body: { data: [one] } } = await app.request('GET', '/api/keys?limit=1', { key })
  await revoke(one.id, key)
  t.equal((await make({}, key)).status, 201)
})
