import t from 'tap'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { jetpostHere } from '../support/command.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const env = {
  NATS_URL: natsUrl,
  DATABASE_URL: databaseUrl,
  JETPOST_SECRET: SECRET
}

const keys = (...args: string[]) => jetpostHere(['keys', ...args], env)

const statusOf = async (key: string) => (await app.request('GET', '/api/keys', { key })).status

t.test('a key is made, shown, rotated and revoked in the shell', async t => {
  const made = await keys(
    'create',
    '--name',
    'Shop',
    '--domains',
    'Bücher.example,xn--bcher-kva.example',
    '--scopes',
    'keys:read',
    '--expires',
    '2099-01-01T00:00:00+01:00',
    '--json'
  )
  const [{ id, key }] = JSON.parse(made.out)
  t.match(JSON.parse((await keys('limit', id, 'other=70', '--json')).out), [{ id, limits: { other: 70 } }])
  const [shown] = JSON.parse((await keys('show', id, '--json')).out)
  t.match(shown, {
    id,
    name: 'Shop',
    domains: ['xn--bcher-kva.example'],
    scopes: ['keys:read'],
    test: false,
    limits: { 'emails:send': 100, 'emails:batch': 60, 'emails:list': 300, 'templates:create': 60, other: 70 },
    expires_at: '2098-12-31T23:00:00.000Z',
    previous_expires_at: null
  })
  t.strictSame(shown, (await app.request('GET', `/api/keys/${id}`)).body, 'as the API shows it')
  const [rotated] = JSON.parse((await keys('rotate', id, '--overlap', '2h', '--json')).out)
  t.ok(Math.abs(Date.parse(rotated.previous_expires_at) - Date.now() - 7_200_000) < 60_000)
  for (const secret of [key, rotated.key]) t.equal(await statusOf(secret), 200)
  const plain = await keys('show', id)
  t.match(plain.out, rotated.previous_expires_at)
  for (const secret of [key, rotated.key]) t.notMatch(plain.out, secret, 'never shown again')
  const [last] = JSON.parse((await keys('rotate', id, '--overlap', '0', '--json')).out)
  // The app looks at the log for the secret that it does not know, and then knows what has become of the others.
  t.equal(await statusOf(last.key), 200)
  t.strictSame(await Promise.all([key, rotated.key].map(statusOf)), [401, 401])
  t.equal(last.previous_expires_at, null)
  t.strictSame(JSON.parse((await keys('revoke', id, '--json')).out), [{ id, revoked: true }])
  await until(async () => await statusOf(last.key) === 401)
  t.match(await keys('show', id), { code: 1, err: `There is no key ${id}` })
  t.match(await keys('rotate', id), { code: 1, err: `There is no key ${id}` })
})

t.test('a person is added, changed, let in and removed in the shell', async t => {
  const users = async (...args: string[]) => await jetpostHere(['users', ...args], env)
  const json = async (...args: string[]) => JSON.parse((await users(...args, '--json')).out)
  const [made] = await json('create', 'Root@Example.com', '--role', 'operator', '--name', 'Root')
  t.match(made, { id: /^usr_/, role: 'operator', url: /\/dashboard\/link\?token=/, expires_at: /Z$/ })
  t.match(await users('create', 'root@example.com'), {
    code: 1,
    err: 'root@example.com is a user of this account already.'
  })
  t.match(await users('create', 'root'), { code: 2, err: 'email must be an email address.' })
  t.match(await users('create', 'b@example.com', '--role', 'king'), { code: 2, err: 'role must be one of operator,' })
  const openings = await Promise.all(['/', made.url].map(async link => {
    const body = new URLSearchParams({ token: new URL(link, app.url).searchParams.get('token') ?? '' })
    return (await fetch(`${app.url}/dashboard/link`, { method: 'POST', body, redirect: 'manual' })).status
  }))
  t.strictSame(openings, [422, 303])
  t.match(await json('change', 'root@example.com', '--role', 'support'), [{
    id: made.id,
    name: 'Root',
    role: 'support'
  }])
  t.match(await users('link', made.id), { code: 0, out: /^http.*token=[\w-]{69}\n$/ })
  t.match(await json('list'), [{ id: made.id, email: 'root@example.com', role: 'support', passkeys: 0 }])
  t.match(await json('remove', made.id, '--with-keys'), [{ id: made.id, removed: true, keys: 0 }])
  t.strictSame(await json('list'), [])
  t.match(await users('remove', made.id), { code: 1, err: `There is no user ${made.id}.` })
})

t.test('an account is made, limited and listed in the shell', async t => {
  const accounts = (...args: string[]) => jetpostHere(['accounts', ...args], env)
  const [{ id }] = JSON.parse((await accounts('create', 'Second shop', '--json')).out)
  t.match(await accounts('limit', id, 'other=900', 'emails:send=5000'), {
    code: 0,
    out: `${id}  Second shop  other=900 emails:send=5000`
  })
  t.match(await accounts('limit', id, 'other=901'), { code: 0, out: 'other=901 emails:send=5000' })
  t.match(JSON.parse((await accounts('--json')).out), [{ id: 'acc_first', limits: {} }, {
    id,
    limits: { other: 901, 'emails:send': 5000 }
  }])
  t.match(JSON.parse((await accounts('quota', id, '5000', '--json')).out), [{ id, recipients_per_day: 5000 }])
  t.match(JSON.parse((await accounts('quota', id, 'none', '--json')).out), [{ id, recipients_per_day: null }])
  for (const wrong of ['0', '1.5', 'many', '']) {
    t.match(await accounts('quota', id, wrong), { code: 2, err: 'recipients a day must be a whole number' }, wrong)
  }
  t.match(await accounts('limit', 'acc_none', 'other=5'), { code: 1, err: 'There is no account acc_none.' })
  t.match(await accounts('limit', id, 'other=0'), { code: 2, err: 'limits must be whole numbers' })
  for (const args of [['limit'], ['limit', id], ['create']]) {
    t.match(await accounts(...args), { code: 2, err: 'usage: jetpost accounts' }, args.join(' '))
  }
})

t.test('an account that is suspended sends nothing, and reads; until it is resumed', async t => {
  const accounts = (...args: string[]) => jetpostHere(['accounts', ...args], env)
  const key = await app.newAccountKey()
  const { body: { account } } = await app.request('GET', '/api/me', { key })
  const suspended = await accounts('suspend', account.id, '--reason', 'complaints', '--note', 'told by mail')
  t.match(suspended, { code: 0, out: /complaints/ })
  const body = {
    error: 'The account is suspended (complaints): it can be read, and sends nothing until the operator resumes it.',
    code: 'account_suspended',
    reason: 'complaints'
  }
  await until(async () => (await app.send({}, key)).status === 403)
  t.match(await app.send({}, key), { status: 403, body })
  const emails = [{ from: FROM, to: 'ada@example.com', subject: 'x', text: 'x' }]
  t.match(await app.request('POST', '/api/emails/batch', { key, body: { emails } }), { status: 403, body })
  t.equal((await app.request('GET', '/api/emails', { key })).status, 200, 'it can be read')
  t.equal((await app.send({})).status, 202, 'others send')
  t.match(JSON.parse((await accounts('--json')).out).at(-1), {
    id: account.id,
    suspended: { reason: 'complaints', note: 'told by mail' }
  })
  t.match(await accounts('suspend', account.id, '--reason', 'complaints', '--note', 'told by mail'), { code: 0 })
  t.match(await accounts('resume', account.id), { code: 0 })
  t.match(await accounts('resume', account.id), { code: 0 }, 'said twice')
  await until(async () => (await app.send({}, key)).status === 202)

  t.match(await accounts('suspend', 'acc_first', '--reason', 'abuse'), {
    code: 1,
    err: 'The first account must not be suspended.'
  })
  t.match(await accounts('suspend', account.id, '--reason', 'whim'), { code: 2, err: '--reason must be one of abuse,' })
  t.match(await accounts('suspend', account.id, '--reason', 'other', '--note', ''), {
    code: 2,
    err: 'note must have 1'
  })
  t.match(await accounts('list', '--reason', 'abuse'), { code: 2, err: '--reason is no option of accounts list' })
  t.match(await accounts('suspend', 'acc_none', '--reason', 'abuse'), { code: 1, err: 'There is no account acc_none.' })
})

t.test('a command line that is not understood says why', async t => {
  await Promise.all(
    ['8d', 'soon', '-1', '1w'].map(async overlap =>
      t.match(await keys('rotate', 'key_x', `--overlap=${overlap}`), { code: 2, err: '--overlap takes' }, overlap)
    )
  )
  const unfinished = [['show'], ['rotate'], ['revoke'], ['show', 'a', 'b'], ['dance', 'x'], ['limit', 'x']]
  await Promise.all(
    unfinished.map(async args => t.match(await keys(...args), { code: 2, err: 'usage: jetpost keys' }, args.join(' ')))
  )
  t.match(await keys('create', '--expires', '2099-02-30T00:00:00Z'), { code: 2, err: '--expires' })
  for (const expires of ['2020-01-01T00:00:00Z', '9999-12-31T23:59:59-01:00']) {
    t.match(
      await keys('create', '--expires', expires),
      { out: '', err: /^jetpost: expires_at must be .*\.\n$/ },
      expires
    )
  }
  t.match(await keys('create', '--scopes', 'full,emails:send'), {
    code: 2,
    err: 'scopes must be a list of scopes, or ["full"].'
  })
  t.match(await keys('create', '--scopes', 'emails:sned'), { code: 2, err: 'scopes must not contain emails:sned' })
  const pairs = [
    'other=1e3',
    'other=0x10',
    'other=',
    'other',
    'other=1=2',
    'other=-1',
    '=5',
    'others=5',
    'constructor=5',
    'other= 5'
  ]
  await Promise.all(
    pairs.map(async pair => t.match(await keys('limit', 'key_x', pair), { code: 2, err: 'is no limit' }, pair))
  )
  const { id } = await app.newKey({})
  for (const pair of ['other=0', 'other=10000001']) {
    t.match(await keys('limit', id, pair), { code: 2, err: 'limits must be whole numbers' }, pair)
  }
  const nobodys = [[], ['list'], ['create'], ['show', 'x'], ['rotate', 'x'], ['limit', 'x', 'other=5'], ['revoke', 'x']]
  await Promise.all(
    nobodys.map(async args =>
      t.match(
        await keys(...args, '--account', 'acc_none'),
        { code: 2, out: '', err: 'There is no account acc_none' },
        args.join(' ')
      )
    )
  )
})

t.test('a new JETPOST_API_KEY ends the old one, whatever its name is now, and no key that took its name', async t => {
  const { body: { data } } = await app.request('GET', '/api/keys')
  const { id } = data.find((key: { name: string }) => key.name === 'JETPOST_API_KEY')
  t.equal((await app.request('PATCH', `/api/keys/${id}`, { body: { name: 'Renamed' } })).status, 200)
  const namesake = await app.newKey({ name: 'JETPOST_API_KEY' })
  await startTestApp(t, {
    natsUrl,
    databaseUrl,
    env: { JETPOST_API_KEY: 'jp_live_another-key-of-the-app', JETPOST_ROLES: 'api' }
  })
  t.equal(await statusOf('jp_live_another-key-of-the-app'), 200)
  t.equal(await statusOf(API_KEY), 401)
  t.equal(await statusOf(namesake.secret), 200)
})

t.test('JETPOST_API_KEY cannot be a secret that was rotated away: it would work for the overlap alone', async t => {
  const { id, secret } = await app.newKey({})
  await keys('rotate', id)
  await t.rejects(startTestApp(t, { natsUrl, databaseUrl, env: { JETPOST_API_KEY: secret, JETPOST_ROLES: 'api' } }), {
    message: `JETPOST_API_KEY is the secret that ${id} had before`
  })
})
