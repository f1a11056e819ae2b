import t from 'tap'
import { openPage, signIn } from '../support/browser.ts'
import { visit } from '../support/dashboard.ts'
import { API_KEY, startTestApp } from '../support/app.ts'

const app = await startTestApp(t)
const secretIn = (html: string) => /data-copy="(jp_(?:live|test)_[A-Za-z0-9_-]{43})"/.exec(html)?.[1]
const hintIn = (html: string) => /name="hint" value="([^"]+)"/.exec(html)![1]!
const send = async (key: string) => (await app.send({ to: 'delivered@sandbox.jetpost.test' }, key)).status

t.test('a key is created, used, rotated and revoked', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.getByRole('link', { name: 'Keys' }).click()
  t.match(await page.getByRole('row', { name: /JETPOST_API_KEY/ }).textContent(), /this session/)
  await page.getByRole('link', { name: 'Create a key' }).click()
  await page.getByLabel('Name').fill('Shop')
  await page.getByLabel('emails:send').check()
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('Copy the secret now').waitFor()
  const first = secretIn(await page.content())!
  await page.getByRole('button', { name: 'Copy the secret' }).click()
  t.equal(await page.evaluate('navigator.clipboard.readText()'), first)
  t.equal(await send(first), 202)
  t.equal((await app.request('GET', '/api/emails', { key: first })).status, 403, 'and nothing that was not ticked')

  await page.getByRole('link', { name: 'Shop' }).click()
  t.notMatch(await page.content(), first, 'it is shown once')
  await page.getByLabel('Keep the present secret for').selectOption('Not at all')
  await page.getByRole('button', { name: 'Rotate secret' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate secret' }).click()
  await page.getByText('The previous secret no longer works.').waitFor()
  const second = secretIn(await page.content())!
  t.equal(await send(first), 401)
  t.equal(await send(second), 202)

  await page.getByRole('link', { name: 'Shop' }).click()
  await page.getByRole('button', { name: 'Revoke key' }).click()
  t.match(await page.getByRole('dialog').textContent(), /Requests with Shop will get 401/)
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Key Shop revoked.').waitFor()
  t.equal(await page.getByRole('row', { name: /Shop/ }).count(), 0)
  t.equal(await send(second), 401)
  t.strictSame(complaints, [])
})

t.test('the scope operator is offered to who has it, and stays on the form of a key that has it', async t => {
  const offers = async (visitor: Awaited<ReturnType<typeof visit>>, path: string) =>
    (await visitor.get(`/dashboard/keys/${path}`)).html.includes('value="operator"')
  const { secret } = await app.newKey({ scopes: ['dashboard', 'keys:read', 'keys:write'] })
  const { id } = await app.newKey({ scopes: ['dashboard', 'operator'] })
  const [operator, other, stranger] = [
    await visit(app),
    await visit(app, secret),
    await visit(app, await app.newAccountKey())
  ]
  t.strictSame(await Promise.all([operator, other, stranger].map(async one => await offers(one, 'new'))), [
    true,
    false,
    false
  ])
  t.equal(await offers(other, id), true)
})

t.test('the key of the session goes with its session', async t => {
  const { id, secret } = await app.newKey({ name: 'Mine' })
  const visitor = await visit(app, secret)
  t.match(
    (await visitor.get(`/dashboard/keys/${id}`)).html,
    'You are signed in with this key: revoking it ends your session.'
  )
  const { hint } = (await app.request('GET', `/api/keys/${id}`)).body
  const rotated = await visitor.post(`/dashboard/keys/${id}/rotate`, { hint, overlap_s: '3600' })
  t.match(rotated, {
    status: 200,
    html: /The previous secret works until .*Dashboard sessions opened with the previous secret end with it\./
  })
  t.equal((await visitor.get('/dashboard/keys')).status, 200, 'while the secret before works, so does the session')
  t.match(await visitor.post(`/dashboard/keys/${id}/revoke`), { status: 303, to: '/dashboard/sign-in' })
  t.match(await visitor.get('/dashboard/keys'), { status: 303, to: /sign-in/ })
})

t.test('the session ends at once with a secret that ends at once, and the new one is shown before', async t => {
  const { id, secret } = await app.newKey({ name: 'Leaked' })
  const visitor = await visit(app, secret)
  const { html } = await visitor.get(`/dashboard/keys/${id}`)
  t.match(html, 'Everyone, including you, who signed in with the present secret is signed out when it stops working.')
  const next = secretIn(
    (await visitor.post(`/dashboard/keys/${id}/rotate`, { hint: hintIn(html), overlap_s: '0' })).html
  )!
  t.match(await visitor.get('/dashboard/keys'), { status: 303, to: /sign-in/ })
  t.equal((await (await visit(app, next)).get('/dashboard/keys')).status, 200)
})

t.test('a rotation that is sent again changes nothing: the secret in use works, for a day by default', async t => {
  const { id, secret } = await app.newKey({ name: 'Twice', scopes: ['emails:send'] })
  const visitor = await visit(app)
  const hint = hintIn((await visitor.get(`/dashboard/keys/${id}`)).html)
  const next = secretIn((await visitor.post(`/dashboard/keys/${id}/rotate`, { hint })).html)!
  const { previous_expires_at: until } = (await app.request('GET', `/api/keys/${id}`)).body
  t.ok(Date.parse(until) > Date.now() + 86_000_000)
  const again = await visitor.post(`/dashboard/keys/${id}/rotate`, { hint })
  t.match(again, { status: 422, html: /got a new secret after you opened its page/ })
  t.equal(secretIn(again.html), undefined)
  t.strictSame([await send(secret), await send(next)], [202, 202])
  t.equal(
    (await visitor.post(`/dashboard/keys/${id}/rotate`, {
      hint: hintIn((await visitor.get(`/dashboard/keys/${id}`)).html),
      overlap_s: '0'
    })).status,
    200,
    'by a new page'
  )
  t.equal(await send(secret), 401)
})

t.test('in a browser: reloading the page of a new key creates no other', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto('/dashboard/keys/new')
  await page.getByLabel('Name').fill('Once')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('Choose at least one scope.').waitFor()
  await page.reload()
  await page.getByText('Choose at least one scope.').waitFor()
  await page.getByLabel('emails:send').check()
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('Copy the secret now').waitFor()
  await page.reload()
  await page.getByText('This form was already sent').waitFor()
  t.equal(secretIn(await page.content()), undefined)
  const { data } = (await app.request('GET', '/api/keys')).body
  t.equal(data.filter(({ name }: { name: string }) => name === 'Once').length, 1)
  t.strictSame(complaints, [])
})

t.test('the fields of a key can be edited, and only changed ones are sent', async t => {
  const expiresMs = Date.now() + 86_400_000
  const { id } = await app.newKey({
    name: 'Report',
    scopes: ['emails:read', 'domains:read'],
    domains: ['a.example', 'b.example'],
    expiresMs
  })
  const visitor = await visit(app)
  const present = {
    name: 'Report',
    scopes: ['domains:read', 'emails:read'],
    domains: 'a.example\r\nb.example',
    expires_at: new Date(expiresMs).toISOString().slice(0, 16),
    opens: '',
    clicks: '',
    unsubscribe: ''
  }
  const shown = (await visitor.get(`/dashboard/keys/${id}`)).html
  for (const text of ['a.example\nb.example', `value="${present.expires_at}"`, 'value="emails:read" checked']) {
    t.match(shown, text)
  }
  t.match(await visitor.post(`/dashboard/keys/${id}`, { ...present, name: 'Reports', opens: 'false' }), {
    status: 303,
    to: `/dashboard/keys/${id}`
  })
  const { body: after } = await app.request('GET', `/api/keys/${id}`)
  t.match(after, {
    name: 'Reports',
    domains: ['a.example', 'b.example'],
    track: { opens: false, clicks: null },
    expires_at: new Date(expiresMs).toISOString()
  })
  await visitor.post(`/dashboard/keys/${id}`, { ...present, domains: '*', expires_at: '', scopes: ['emails:send'] })
  t.match((await app.request('GET', `/api/keys/${id}`)).body, {
    name: 'Report',
    domains: ['*'],
    scopes: ['emails:send'],
    expires_at: null
  })
})

t.test('an invalid form comes back as it was, with its faults', async t => {
  const visitor = await visit(app)
  const { status, html } = await visitor.post('/dashboard/keys', {
    name: 'Half "a" key',
    domains: 'not a domain!',
    expires_at: '2020-01-01T00:00',
    test: 'on'
  })
  t.equal(status, 422)
  t.match(html, 'value="Half &quot;a&quot; key"')
  for (
    const fault of ['Scopes must have at least 1 scope', 'must be a domain like', 'Expires must be in the future']
  ) {
    t.match(html, fault)
  }
  t.match(html, /name="test" value="on" checked/)
  const both = await visitor.post('/dashboard/keys', { name: 'Both', scopes: ['full', 'emails:read'], domains: '*' })
  t.match(both, { status: 422, html: /Scopes must be a list of scopes\./ })
})

t.test('a key that JETPOST_API_KEY fixes keeps what it holds', async t => {
  const visitor = await visit(app)
  const id = /href="\/dashboard\/keys\/(key_env[0-9a-z]+)"/.exec((await visitor.get('/dashboard/keys')).html)![1]!
  const { html } = await visitor.get(`/dashboard/keys/${id}`)
  t.match(html, 'sets this key in')
  t.notMatch(html, /\/rotate"/)
  const kept = Object.fromEntries(
    [...html.matchAll(/<input type="hidden" name="(scopes|domains|expires_at)" value="([^"]*)">/g)].map((
      [, name, value]
    ) => [name, value])
  ) as Record<string, string>
  t.equal(
    (await visitor.post(`/dashboard/keys/${id}`, {
      ...kept,
      name: 'The operator',
      opens: '',
      clicks: '',
      unsubscribe: 'false'
    })).status,
    303
  )
  t.match((await app.request('GET', `/api/keys/${id}`)).body, {
    name: 'The operator',
    scopes: ['full'],
    unsubscribe: false
  })
})

t.test('who may not see keys reads so, and who may not change them gets no forms', async t => {
  const other = await app.newKey({ name: 'Other' })
  const blind = await visit(app, (await app.newKey({ name: 'Watcher', scopes: ['dashboard'] })).secret)
  for (const path of ['/dashboard/keys', `/dashboard/keys/${other.id}`]) {
    t.match(await blind.get(path), { status: 403, html: /the key Watcher, which does not have the scope keys:read\./ })
  }
  t.match(await blind.post('/dashboard/keys', { name: 'More', scopes: 'full', domains: '*' }), {
    status: 403,
    html: /does not have the scope keys:write/
  })
  t.equal((await blind.post(`/dashboard/keys/${other.id}/revoke`)).status, 403)
  const seeing = await visit(app, (await app.newKey({ name: 'Auditor', scopes: ['dashboard', 'keys:read'] })).secret)
  t.notMatch((await seeing.get('/dashboard/keys')).html, 'Create a key')
  t.match(await seeing.get('/dashboard/keys/new'), { status: 403, html: /does not have the scope keys:write/ })
  t.match(await seeing.get(`/dashboard/keys/${other.id}`), { status: 200, html: /may see keys, but not change them/ })
  const stranger = await visit(app, await app.newAccountKey())
  t.equal((await stranger.get(`/dashboard/keys/${other.id}`)).status, 404)
  t.equal((await stranger.post(`/dashboard/keys/${other.id}/revoke`)).status, 404)
  t.equal((await app.request('GET', '/api/keys', { key: other.secret })).status, 200)
})
