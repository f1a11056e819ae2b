import t from 'tap'
import { cookieOf, knock, visitorWith, type Visitor } from '../support/dashboard.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const [natsUrl, databaseUrl] = [freshAccount().natsUrl, await freshDatabase(t)]
const app = await startTestApp(t, { natsUrl, databaseUrl, env: { JETPOST_PUBLIC_URL: 'http://localhost:8080' } })
const other = await startTestApp(t, { natsUrl, databaseUrl, env: { JETPOST_ROLES: 'api' } })
let made = 0

const add = async (fields: Record<string, unknown> = {}, key = API_KEY) =>
  await app.request('POST', '/api/users', {
    key,
    body: { email: `person-${++made}@example.com`, role: 'viewer', ...fields }
  })
const linkOf = async (id: string): Promise<string> => (await app.request('POST', `/api/users/${id}/link`)).body.url
const openLink = async (url: string, at = app) =>
  await knock(at, 'POST', '/dashboard/link', { body: { token: new URL(url).searchParams.get('token')! } })

/** Somebody with this role, signed in. */
async function person (role: string): Promise<{ id: string, visitor: Visitor }> {
  const { body: { id } } = await add({ role })
  return { id, visitor: await visitorWith(app, cookieOf(await openLink(await linkOf(id)))!) }
}

t.test('a user is added, listed, changed and removed', async t => {
  const added = await add({ email: ' Ada@Example.COM ', name: 'Ada Lovelace', role: 'developer' })
  t.match(added, {
    status: 201,
    body: {
      id: /^usr_[0-9a-f]{32}$/,
      email: 'ada@example.com',
      name: 'Ada Lovelace',
      role: 'developer',
      issuer: null,
      passkeys: 0,
      last_seen_at: null
    }
  })
  const { id } = added.body
  t.equal(added.headers.get('location'), `/api/users/${id}`)
  t.match(await add({ email: 'ada@example.com' }), { status: 409, body: { code: 'user_exists' } })
  t.match((await app.request('GET', '/api/users')).body.data, [{ id }])
  t.match(await app.request('PATCH', `/api/users/${id}`, { body: { role: 'support' } }), {
    status: 200,
    body: { name: 'Ada Lovelace', role: 'support' }
  })
  t.match(await app.request('GET', `/api/users/${id}`), { status: 200, body: { role: 'support' } })
  t.equal((await app.request('DELETE', `/api/users/${id}`)).status, 204)
  t.equal((await app.request('GET', `/api/users/${id}`)).status, 404)
  t.match(await add({ email: 'ada@example.com', role: 'viewer' }), { status: 201, body: { id, role: 'viewer' } })
})

t.test('all faults are named at once', async t => {
  const { status, body } = await add({ email: 'ada', name: '\u0007', role: 'king' })
  t.equal(status, 422)
  t.strictSame(body.details.map(({ field }: { field: string }) => field).sort(), ['email', 'name', 'role'])
  t.match((await add({ rolle: 'viewer' })).body.details, [{ field: 'rolle', code: 'unknown_field' }])
})

t.test("nobody gives more than they hold, and people are their account's", async t => {
  const writer = (await app.newKey({ scopes: ['users:read', 'users:write', 'emails:list'] })).secret
  t.equal((await add({ role: 'viewer' }, writer)).status, 403)
  const { body: { id } } = await add({ role: 'owner' })
  for (
    const [method, path, body] of [
      ['PATCH', `/api/users/${id}`, { role: 'viewer' }],
      ['DELETE', `/api/users/${id}`, undefined],
      ['POST', `/api/users/${id}/link`, undefined]
    ] as const
  ) t.equal((await app.request(method, path, { key: writer, body })).status, 403, `${method} ${path}`)
  const stranger = await app.newAccountKey()
  t.equal((await app.request('GET', `/api/users/${id}`, { key: stranger })).status, 404)
  t.equal((await app.request('DELETE', `/api/users/${id}`, { key: stranger })).status, 404)
  t.strictSame((await app.request('GET', '/api/users', { key: stranger })).body.data, [])
  t.match(await add({ role: 'operator' }, stranger), { status: 422, body: { details: [{ field: 'role' }] } })
  const test = (await app.newKey({ test: true })).secret
  t.equal((await add({ role: 'viewer' }, test)).status, 403)
})

t.test('two nodes that invite one person make one user', async t => {
  const body = { email: 'twice@example.com', role: 'viewer' }
  const answers = await Promise.all([app, other].map(node => node.request('POST', '/api/users', { body })))
  t.strictSame(answers.map(({ status }) => status).sort(), [201, 409])
})

t.test('a link signs its user in once, on any node', async t => {
  const { body: { id } } = await add({ name: 'Grace', role: 'developer' })
  const url = await linkOf(id)
  t.match(url, /^http:\/\/localhost:8080\/dashboard\/link\?token=[\w-]{69}$/)
  const opened = await openLink(url, other)
  t.match(opened, { status: 303, to: '/dashboard' })
  t.match(await openLink(url), { status: 422, html: /already used/ })
  const visitor = await visitorWith(app, cookieOf(opened)!)
  const { html } = await visitor.get('/dashboard/emails')
  t.match(html, /Grace/)
  await until(async () => (await app.request('GET', `/api/users/${id}`)).body.last_seen_at !== null)
  t.match((await app.request('GET', `/api/audit?actor=${id}`)).body.data, [{
    action: 'session.opened',
    actor: { kind: 'user', id, name: 'Grace', key_id: null, session_id: /^ses_/ }
  }])
})

t.test('a removed user is signed out everywhere, and an older link opens nothing for who is invited again', async t => {
  const { id, visitor } = await person('owner')
  const { body: { email } } = await app.request('GET', `/api/users/${id}`)
  const url = await linkOf(id)
  t.equal((await visitor.get('/dashboard/emails')).status, 200)
  t.equal((await app.request('DELETE', `/api/users/${id}`)).status, 204)
  for (const node of [app, other]) {
    const shown = await knock(node, 'GET', '/dashboard/emails', { cookie: visitor.cookie })
    t.match(shown, { status: 303, to: /^\/dashboard\/sign-in/ })
  }
  t.equal((await add({ email, role: 'owner' })).body.id, id)
  t.match(await openLink(url), { status: 422, html: /invalid or expired/ })
  t.equal((await visitor.get('/dashboard/emails')).status, 303)
})

t.test('keys that a user has made tell so, and end with the user where that is asked', async t => {
  const { id, visitor } = await person('owner')
  t.match(await visitor.post('/dashboard/keys', { name: 'Mine', scopes: 'keys:write', domains: '*' }), { status: 200 })
  const { body: { data } } = await app.request('GET', '/api/keys')
  const key = data.find(({ name }: { name: string }) => name === 'Mine')
  t.equal(key.made_by, id)
  t.match(await app.request('DELETE', `/api/users/${id}?with_keys=true`), { status: 200, body: { revoked: 1 } })
  t.equal((await app.request('GET', `/api/keys/${key.id}`)).status, 404)
})

t.test('below a path there is no dashboard to sign in to', async t => {
  const below = await startTestApp(t, { env: { JETPOST_PUBLIC_URL: 'https://example.com/mail' } })
  const { body: { id } } = await below.request('POST', '/api/users', {
    body: { email: 'a@example.com', role: 'viewer' }
  })
  t.match(await below.request('POST', `/api/users/${id}/link`), { status: 409, body: { code: 'no_dashboard' } })
})

t.test('the last owner of an account stays one', async t => {
  const key = await app.newAccountKey()
  const request = async (method: string, path: string, body?: object) => await app.request(method, path, { key, body })
  const { body: { id } } = await request('POST', '/api/users', { email: 'only@example.com', role: 'owner' })
  const { body: { url } } = await request('POST', `/api/users/${id}/link`)
  const visitor = await visitorWith(app, cookieOf(await openLink(url))!)
  t.match((await visitor.get('/dashboard/emails')).html, /only@example.com/)
  t.match(await request('PATCH', `/api/users/${id}`, { role: 'viewer' }), { status: 200 }, 'a key may change it')
})
