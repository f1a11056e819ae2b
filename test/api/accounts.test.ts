import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { Clock } from '#src/base/clock.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const DAY_MS = 86_400_000
/** Time goes on as it does, and a test can make it jump. */
let aheadMs = 0
const clock: Clock = { nowMs: () => Date.now() + aheadMs }

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl, clock })
const second = await startTestApp(t, { natsUrl, databaseUrl, clock, env: { JETPOST_ROLES: 'api' } })

const ask = async (method: string, path: string, body?: unknown, key = API_KEY) =>
  await app.request(method, path, { key, body })
const make = async (fields: Record<string, unknown> = {}) =>
  (await ask('POST', '/api/accounts', { name: 'Second shop', ...fields })).body
const keyOf = async (account: string, fields: Record<string, unknown> = {}) => {
  const body = { name: 'First key', scopes: ['full'], domains: ['*'], ...fields }
  return (await ask('POST', `/api/accounts/${account}/keys`, body)).body
}
const mail = (count: number, more = '') => ({
  from: FROM,
  to: Array.from({ length: count }, (_, i) => `r${i}${more}@example.com`),
  subject: 'Hello',
  text: 'Hello'
})
const send = async (count: number, key: string, headers = {}, at = app) =>
  await at.request('POST', '/api/emails', { key, body: mail(count), headers })
const today = async (key: string) => (await ask('GET', '/api/me', undefined, key)).body.account.recipients_today

t.test('an operator makes an account, gives it a key and sets its limits', async t => {
  const made = await ask('POST', '/api/accounts', {
    name: 'Third shop',
    limits: { 'emails:send': 500 },
    recipients_per_day: 1000
  })
  t.match(made, {
    status: 201,
    body: { name: 'Third shop', limits: { 'emails:send': 500, other: 600 }, recipients_per_day: 1000, suspended: null }
  })
  const path = `/api/accounts/${made.body.id}`
  t.equal(made.headers.get('location'), path)
  t.strictSame((await ask('GET', path)).body, made.body)
  const { body: { data } } = await ask('GET', '/api/accounts')
  t.strictSame(data.map(({ id }: { id: string }) => id), [made.body.id, FIRST_ACCOUNT])
  t.match(data[1], { limits: { 'emails:send': null }, recipients_per_day: null })
  const page = await ask('GET', '/api/accounts?limit=1')
  t.match((await ask('GET', `/api/accounts?limit=1&cursor=${page.body.next_cursor}`)).body.data, [{
    id: FIRST_ACCOUNT
  }])

  const { key, made_by: madeBy } = await keyOf(made.body.id, { scopes: ['emails:send', 'keys:write'] })
  t.equal(madeBy, (await ask('GET', '/api/me')).body.id)
  t.equal((await send(1, key)).status, 202)
  t.match((await ask('GET', '/api/me', undefined, key)).body.account, {
    id: made.body.id,
    recipients_per_day: 1000,
    recipients_today: 1
  })
  t.match((await ask('PATCH', path, { limits: { other: 7 } })).body, { limits: { 'emails:send': 500, other: 7 } })
  t.match((await ask('PATCH', path, { recipients_per_day: null })).body, { recipients_per_day: null })
  t.equal(await today(key), null)
})

t.test('suspended and resumed; the account is told the reason, and not the note', async t => {
  const { id } = await make()
  const { key } = await keyOf(id)
  const suspended = await ask('POST', `/api/accounts/${id}/suspend`, { reason: 'billing', note: 'two invoices' })
  t.match(suspended, {
    status: 200,
    body: { suspended: { reason: 'billing', note: 'two invoices', automatic: false } }
  })
  const refused = await send(1, key)
  t.match(refused, { status: 403, body: { code: 'account_suspended', reason: 'billing' } })
  t.notMatch(JSON.stringify(refused), 'invoices')
  t.match(await ask('POST', `/api/accounts/${id}/resume`), { status: 200, body: { suspended: null } })
  t.equal((await send(1, key)).status, 202)
  t.match(await ask('POST', `/api/accounts/${FIRST_ACCOUNT}/suspend`, { reason: 'abuse' }), {
    status: 409,
    body: { code: 'first_account' }
  })
  const actions = async () => (await ask('GET', '/api/audit', undefined, key)).body.data
  await until(async () => (await actions()).some(({ action }: { action: string }) => action === 'account.resumed'))
  const [resumed] = (await actions()).filter(({ action }: { action: string }) => action === 'account.resumed')
  t.match(resumed, { actor: { kind: 'key' } }, 'the account sees who did it')
})

t.test('past its quota an account sends nothing until the day (UTC) is over, on any node', async t => {
  const { id } = await make({ recipients_per_day: 10 })
  const { key } = await keyOf(id)
  t.equal((await send(4, key)).status, 202)
  const over = await send(7, key)
  t.match(over, {
    status: 429,
    body: { error: 'The account must not send to more than 10 recipients a day (UTC).', code: 'quota_exceeded' }
  })
  const restS = Math.ceil((DAY_MS - clock.nowMs() % DAY_MS) / 1000)
  t.ok(Math.abs(over.body.retryAfter - restS) <= 2)
  t.equal(over.headers.get('retry-after'), String(over.body.retryAfter))
  await until(async () => await today(key) === 4)

  const both = await Promise.all(
    Array.from({ length: 12 }, (_, i) => send(1, key, { 'Idempotency-Key': `q${i}` }, i % 2 === 0 ? app : second))
  )
  t.equal(both.filter(({ status }) => status === 202).length, 6, 'what did not fit took no place')
  t.equal(both.filter(({ status }) => status === 429).length, 6)
  const done = both.findIndex(({ status }) => status === 202)
  t.equal((await send(1, key, { 'Idempotency-Key': `q${done}` })).headers.get('idempotency-replayed'), 'true')
  await until(async () => await today(key) === 10)
  const batch = { emails: [mail(1)] }
  t.equal((await ask('POST', '/api/emails/batch', batch, key)).status, 429)

  aheadMs += DAY_MS
  t.teardown(() => {
    aheadMs -= DAY_MS
  })
  t.equal((await send(10, key)).status, 202, 'a new day')
  t.equal((await send(1, key)).status, 429)
})

t.test('no place is taken by what is refused, suppressed, or sent with a test key', async t => {
  const { id } = await make({ recipients_per_day: 5 })
  const { key } = await keyOf(id)
  const { key: testKey } = await keyOf(id, { test: true })
  t.equal((await send(6, testKey)).status, 202)
  t.equal((await ask('POST', '/api/emails', { ...mail(3), subject: undefined }, key)).status, 422)
  await ask('POST', '/api/suppressions', { address: 'r0@example.com' }, key)
  t.equal((await send(5, key)).status, 202)
  t.equal(await today(key), 4)
  t.equal((await ask('POST', '/api/emails', mail(1, 'x'), key)).status, 202)
  t.equal((await ask('POST', '/api/emails', mail(1, 'y'), key)).status, 429)
  t.equal((await send(1, key)).status, 202, 'who is suppressed gets nothing')
})

t.test('accounts are for operators alone', async t => {
  const { id } = await make()
  const { key: full } = await keyOf(id)
  const ownKey = async (fields: object) =>
    (await ask('POST', '/api/keys', { name: 'Key', scopes: ['full'], domains: ['*'], ...fields })).body.key
  const others = [
    full,
    await ownKey({ test: true }),
    await ownKey({ domains: ['shop.example'] }),
    await ownKey({ scopes: ['keys:write', 'dashboard'] })
  ]
  for (const key of others) {
    for (
      const [method, path, body] of [
        ['GET', ''],
        ['POST', '', { name: 'x' }],
        ['GET', `/${id}`],
        ['PATCH', `/${id}`, { recipients_per_day: null }],
        ['POST', `/${id}/suspend`, { reason: 'abuse' }],
        ['POST', `/${id}/resume`],
        ['POST', `/${id}/keys`, { name: 'x', scopes: ['full'], domains: ['*'] }]
      ] as const
    ) {
      const { status, body: answer } = await ask(method, `/api/accounts${path}`, body, key)
      t.strictSame([status, answer], [403, { error: 'Insufficient API key permissions' }], `${method} ${path}`)
    }
  }
  t.match((await ask('GET', `/api/accounts/${id}`)).body, { suspended: null })
})

t.test('what is wrong is said', async t => {
  const { id } = await make()
  const faultsOf = async (method: string, path: string, body: unknown) =>
    ((await ask(method, path, body)).body.details ?? []).map(({ message }: { message: string }) => message)
  t.strictSame(await faultsOf('POST', '/api/accounts', { limits: { other: 0 }, recipients_per_day: 0 }), [
    'name is required.',
    'limits.other must be a whole number from 1 to 10000000.',
    'recipients_per_day must be a whole number from 1 to 1000000000, or null.'
  ])
  t.strictSame(await faultsOf('PATCH', `/api/accounts/${id}`, { limits: 5 }), [
    'limits must be an object of limits, like {"emails:send":5000}.'
  ])
  t.strictSame(await faultsOf('POST', `/api/accounts/${id}/suspend`, { reason: 'whim', note: '' }), [
    'reason must be abuse, bounces, complaints, billing or other.',
    'note must not be empty.'
  ])
  for (const path of ['', '/suspend', '/resume', '/keys']) {
    const body = {
      '': undefined,
      '/suspend': { reason: 'abuse' },
      '/keys': { name: 'x', scopes: ['full'], domains: ['*'] }
    }[path]
    const { status } = await ask(path === '' ? 'GET' : 'POST', `/api/accounts/acc_none${path}`, body)
    t.equal(status, 404, path)
  }
  t.match(await ask('POST', `/api/accounts/${id}/keys`, { name: 'x', scopes: ['operator'], domains: ['*'] }), {
    status: 422,
    body: { details: [{ field: 'scopes' }] }
  })
})

t.test('the scope operator leads to no more in the account of its key', async t => {
  const onlyOperator = await keyOf(FIRST_ACCOUNT, { scopes: ['operator'], expires_at: '2099-01-01T00:00:00Z' })
  const granting = await keyOf(FIRST_ACCOUNT, { scopes: ['operator', 'keys:write', 'emails:send'] })
  const grant = async (key: string, scopes: string[]) =>
    (await ask('POST', `/api/accounts/${FIRST_ACCOUNT}/keys`, { name: 'More', scopes, domains: ['*'] }, key)).status
  t.equal(await grant(onlyOperator.key, ['full']), 403)
  t.equal(await grant(onlyOperator.key, ['operator']), 403, 'nor to a key that does not end')
  t.equal(await grant(granting.key, ['emails:read']), 403)
  t.equal(await grant(granting.key, ['emails:send']), 201)
  const { id } = await make()
  const given = await ask(
    'POST',
    `/api/accounts/${id}/keys`,
    { name: 'Theirs', scopes: ['full'], domains: ['*'] },
    onlyOperator.key
  )
  t.equal(given.status, 201, "another account's keys are what the scope is for")
})

t.test("an account's audit log tells that its key ended with the operator's that made it", async t => {
  const operator = await keyOf(FIRST_ACCOUNT, { scopes: ['operator', 'keys:write'] })
  const { id } = await make()
  const body = { name: 'Made', scopes: ['full'], domains: ['*'] }
  const made = (await ask('POST', `/api/accounts/${id}/keys`, body, operator.key)).body
  const reader = await keyOf(id)
  t.equal((await ask('DELETE', `/api/keys/${operator.id}?with_children=true`)).status, 200)
  t.equal((await ask('GET', '/api/me', undefined, made.key)).status, 401)
  const told = await ask('GET', '/api/audit?action=key.revoked', undefined, reader.key)
  t.match(told.body.data, [{ subject_id: made.id }])
})
