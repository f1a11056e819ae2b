import t from 'tap'
import { CONFIRMED_MS } from '#streams/session/decide.ts'
import type { UserRole } from '#streams/user/roles.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { flaws } from '../support/axe.ts'
import { openPage, type Page } from '../support/browser.ts'
import { cookieOf, knock, visitorWith, type Visitor } from '../support/dashboard.ts'
import { signInAtIssuer, startOidcIssuer } from '../support/oidc-issuer.ts'

const port = await choosePort(null, null, '')
const url = `http://localhost:${port}`
const issuer = await startOidcIssuer(t, `${url}/dashboard/oidc/callback`)
let passedMs = 0
const app = await startTestApp(t, {
  clock: { nowMs: () => Date.now() + passedMs },
  env: {
    PORT: String(port),
    JETPOST_PUBLIC_URL: url,
    JETPOST_OIDC_ISSUER: issuer.url,
    JETPOST_OIDC_CLIENT_ID: issuer.clientId,
    JETPOST_OIDC_CLIENT_SECRET: issuer.clientSecret,
    JETPOST_OIDC_ALLOWED_DOMAINS: 'jetpost.example',
    JETPOST_OIDC_DEFAULT_ROLE: 'support'
  }
})

const userOf = async (id: string) => (await app.request('GET', `/api/users/${id}`)).body
const add = async (email: string, role: UserRole, key = API_KEY): Promise<string> =>
  (await app.request('POST', '/api/users', { key, body: { email, role, name: email.split('@')[0] } })).body.id
const linkOf = async (id: string, key = API_KEY): Promise<string> =>
  (await app.request('POST', `/api/users/${id}/link`, { key })).body.url
const actionsOf = async (id: string) =>
  (await app.request('GET', `/api/audit?actor=${id}`)).body.data.map(({ action }: { action: string }) => action)

/** A page of a browser of its own, at the door. */
async function atDoor (t: Parameters<typeof openPage>[0]): Promise<Awaited<ReturnType<typeof openPage>>> {
  const opened = await openPage(t, url)
  await opened.page.goto('/dashboard')
  return opened
}

async function signInElsewhere (page: Page, name: string): Promise<void> {
  await page.getByRole('link', { name: /Sign in with localhost/ }).click()
  await signInAtIssuer(page, name)
}

/** Somebody with this role who has come by a link, without a browser. */
async function visitorOf (id: string, key = API_KEY): Promise<Visitor> {
  const token = new URL(await linkOf(id, key)).searchParams.get('token')!
  return await visitorWith(app, cookieOf(await knock(app, 'POST', '/dashboard/link', { body: { token } }))!)
}

t.test('who is invited signs in at the issuer, and is linked to the subject there', async t => {
  const id = await add('ada@example.com', 'developer')
  issuer.people.set('ada', { email: 'Ada@Example.com', email_verified: true, name: 'Ada Lovelace' })
  const { page, complaints } = await atDoor(t)
  t.strictSame(await flaws(page), [], 'axe: sign in')
  await signInElsewhere(page, 'ada')
  await page.waitForURL('**/dashboard/emails')
  t.match(await page.locator('.who').textContent(), /ada/)
  t.match(await userOf(id), { issuer: issuer.url })
  t.strictSame(await actionsOf(id), ['session.opened', 'user.linked'])
  t.strictSame(complaints, [])

  // From now on the subject counts.
  issuer.people.set('ada', { email: 'ada@other.example', email_verified: true })
  issuer.people.set('thief', { email: 'ada@example.com', email_verified: true })
  const again = await atDoor(t)
  await signInElsewhere(again.page, 'ada')
  await again.page.waitForURL('**/dashboard/emails')
  const other = await atDoor(t)
  await signInElsewhere(other.page, 'thief')
  await other.page.getByText('ada@example.com is not invited').waitFor()
})

t.test('a stranger is refused, and so is an address that nobody has verified', async t => {
  issuer.people.set('eve', { email: 'eve@example.com', email_verified: true })
  const { page } = await atDoor(t)
  await signInElsewhere(page, 'eve')
  await page.getByText('eve@example.com is not invited. Ask an owner of the account to invite you.').waitFor()
  await add('grace@example.com', 'owner')
  issuer.people.set('grace', { email: 'grace@example.com' })
  const other = await atDoor(t)
  await signInElsewhere(other.page, 'grace')
  await other.page.getByText('did not tell a verified email address of yours').waitFor()
})

t.test('people of a domain that is let in need no invitation', async t => {
  issuer.people.set('new', { email: 'new@jetpost.example', email_verified: true, name: 'New One' })
  const { page } = await atDoor(t)
  await signInElsewhere(page, 'new')
  await page.waitForURL('**/dashboard/emails')
  const { body: { data } } = await app.request('GET', '/api/users')
  t.match(data.find(({ email }: { email: string }) => email === 'new@jetpost.example'), {
    name: 'New One',
    role: 'support'
  })
})

t.test('who is a user of two accounts chooses', async t => {
  const key = await app.newAccountKey()
  await Promise.all([add('two@example.com', 'viewer'), add('two@example.com', 'owner', key)])
  issuer.people.set('two', { email: 'two@example.com', email_verified: true })
  const { page } = await atDoor(t)
  await signInElsewhere(page, 'two')
  t.strictSame(await flaws(page), [], 'axe: choose an account')
  await page.getByRole('button', { name: 'Another (owner)' }).click()
  await page.waitForURL('**/dashboard/emails')
  t.match(await page.locator('.who').textContent(), /Another/)
})

t.test('a sign-in comes back to the browser that began it, once', async t => {
  const begun = await knock(app, 'GET', '/dashboard/oidc')
  t.equal(begun.status, 303)
  const to = new URL(begun.to!)
  t.match(Object.fromEntries(to.searchParams), {
    response_type: 'code',
    code_challenge_method: 'S256',
    state: /.{20}/,
    nonce: /.{20}/
  })
  const cookie = begun.headers.getSetCookie().find(text => text.startsWith('jetpost_oidc='))!
  t.match(cookie, /HttpOnly; SameSite=Lax/)
  const back = `/dashboard/oidc/callback?code=x&state=${to.searchParams.get('state')}&iss=${issuer.url}`
  t.match(await knock(app, 'GET', back), { status: 422, html: /belongs to another browser/ })
  const own = { cookie: cookie.split(';')[0]! }
  t.match(await knock(app, 'GET', `${back.replace('state=', 'state=y')}`, own), {
    status: 422,
    html: /did not confirm/
  })
  t.match(await knock(app, 'GET', back, own), { status: 422, html: /did not confirm/ })
  passedMs += 11 * 60_000
  t.match(await knock(app, 'GET', back, own), { status: 422, html: /has expired/ })
})

t.test('a passkey is added, signs in without a name, and confirms', async t => {
  const id = await add('passkey@example.com', 'owner')
  const { page, context, complaints } = await openPage(t, url)
  const cdp = await context.newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true
    }
  })
  await page.goto((await linkOf(id)).replace(url, ''))
  await page.getByRole('button', { name: 'Open the dashboard' }).click()
  await page.locator('.who summary').click()
  await page.getByRole('link', { name: 'Your sign-in' }).click()
  await page.getByLabel('Name of a new passkey').fill('Laptop')
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByText('Passkey Laptop added.').waitFor()
  t.strictSame(await flaws(page), [], 'axe: your sign-in')
  t.match(await userOf(id), { passkeys: 1 })

  await page.locator('.who summary').click()
  await page.locator('.who').getByRole('button', { name: 'Sign out', exact: true }).click()
  await page.waitForURL('**/sign-in')
  const signIn = async () => {
    await page.goto('/dashboard/sign-in')
    await page.getByRole('button', { name: 'Use a passkey' }).click()
  }
  await signIn()
  await page.waitForURL('**/dashboard/emails')
  t.match(await page.locator('.who').textContent(), /passkey/)

  passedMs += CONFIRMED_MS
  await page.goto('/dashboard/people/new')
  await page.getByLabel('Email address').fill('invited@example.com')
  await page.getByRole('button', { name: 'Invite' }).click()
  await page.getByRole('heading', { name: 'Confirm that it is you' }).waitFor()
  t.strictSame(await flaws(page), [], 'axe: confirm')
  await page.getByRole('button', { name: 'Use a passkey' }).click()
  await page.getByRole('heading', { name: 'Person invited' }).waitFor()
  t.ok((await actionsOf(id)).includes('session.confirmed'))

  // A copy of the passkey signs with a counter that has been.
  const { credentials: [credential] } = await cdp.send('WebAuthn.getCredentials', { authenticatorId })
  await cdp.send('WebAuthn.removeCredential', { authenticatorId, credentialId: credential!.credentialId })
  await cdp.send('WebAuthn.addCredential', { authenticatorId, credential: { ...credential!, signCount: 0 } })
  await signIn()
  await page.getByText('it may be a copy').waitFor()

  await cdp.send('WebAuthn.removeCredential', { authenticatorId, credentialId: credential!.credentialId })
  await cdp.send('WebAuthn.addCredential', { authenticatorId, credential: { ...credential!, signCount: 100 } })
  await signIn()
  await page.waitForURL('**/dashboard/emails')
  await page.goto('/dashboard/sessions')
  await page.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Remove passkey' }).click()
  await page.getByText('Passkey removed.').waitFor()
  await signIn()
  await page.getByText('The passkey was not accepted.').waitFor()
  t.strictSame(complaints, [])
})

t.test('who has signed in elsewhere confirms there, in a tab of its own', async t => {
  await add('boss@example.com', 'operator')
  issuer.people.set('boss', { email: 'boss@example.com', email_verified: true })
  issuer.people.set('ada', { email: 'ada@example.com', email_verified: true })
  const { page, context } = await atDoor(t)
  await signInElsewhere(page, 'boss')
  await page.waitForURL('**/dashboard/emails')
  passedMs += CONFIRMED_MS
  await page.goto('/dashboard/keys/new')
  await page.getByLabel('Name').fill('Of the boss')
  await page.locator('input[value="emails:send"]').check()
  await page.getByRole('button', { name: 'Create key' }).click()
  const again = async (name: string): Promise<Page> => {
    const opening = context.waitForEvent('page')
    await page.getByRole('link', { name: /Sign in again/ }).click()
    const tab = await opening
    await signInAtIssuer(tab, name)
    return tab
  }
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByText('You have not signed in again yet.').waitFor()
  await (await again('ada')).getByText('You signed in there as somebody else than boss.').waitFor()
  await (await again('boss')).getByText('You are who you say.').waitFor()
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('heading', { name: 'Key created' }).waitFor()
  const { body: { data: [key] } } = await app.request('GET', '/api/keys?limit=1')
  t.match(key, { name: 'Of the boss', made_by: /^usr_/ })
  const { body: { data: [sent] } } = await sendAs(page)
  await page.goto(`/dashboard/emails/${sent.id}?tab=details`)
  await page.getByRole('link', { name: key.made_by }).waitFor()
  await page.goto(`/dashboard/keys/${key.id}`)
  await page.getByRole('link', { name: 'boss' }).click()
  await page.getByRole('heading', { name: 'boss you' }).waitFor()
})

/** Sends an email with the form, and lists what was sent last. */
async function sendAs (page: Page) {
  await page.goto('/dashboard/emails/new')
  await page.getByLabel('From', { exact: true }).fill('hello@sandbox.jetpost.test')
  await page.getByLabel('To', { exact: true }).fill('delivered@sandbox.jetpost.test')
  await page.getByLabel('Subject').fill('By a person')
  await page.getByLabel('HTML').first().fill('<p>Hello</p>')
  await page.getByRole('button', { name: /^Send/ }).first().click()
  await page.waitForURL(/\/dashboard\/emails\/em_/)
  return await app.request('GET', '/api/emails?limit=1')
}

t.test('People: who invites, changes and removes gives no more than they hold', async t => {
  const owner = await visitorOf(await add('owner@example.com', 'owner'))
  const operator = await add('root@example.com', 'operator')
  const { html } = await owner.get('/dashboard/people/new')
  t.match(html, /value="owner"/)
  t.notMatch(html, /value="operator"/)
  const invite = { email: 'x@example.com', role: 'operator', once: '1' }
  t.match(await owner.post('/dashboard/people', invite), { status: 422, html: /takes more than you hold/ })
  const made = await owner.post('/dashboard/people', { ...invite, role: 'viewer', once: '2' })
  t.match(made, { status: 200, html: /\/dashboard\/link\?token=/ })
  t.match(await owner.post('/dashboard/people', { ...invite, role: 'viewer', once: '2' }), { status: 422 })
  t.match((await owner.get(`/dashboard/people/${operator}`)).html, /who may do more than you/)
  for (const path of ['', '/link', '/remove']) {
    const posted = await owner.post(`/dashboard/people/${operator}${path}`, { name: 'Mine', role: 'viewer' })
    t.equal(posted.status, 422, path)
  }
  t.match(await userOf(operator), { name: 'root', role: 'operator' })
})

t.test('the last owner of an account stays one, and another may take the role', async t => {
  const key = await app.newAccountKey()
  const [first, second] = [await add('first@example.com', 'owner', key), await add('second@example.com', 'viewer', key)]
  const visitor = await visitorOf(first, key)
  const resign = async () => await visitor.post(`/dashboard/people/${first}`, { name: 'first', role: 'viewer' })
  t.match(await resign(), { status: 422, html: /You are the last owner/ })
  t.match(await visitor.post(`/dashboard/people/${first}/remove`), { status: 422, html: /You are the last owner/ })
  t.match(await visitor.post(`/dashboard/people/${second}`, { name: 'second', role: 'owner' }), { status: 303 })
  t.match(await resign(), { status: 303 })
  t.equal((await visitor.get('/dashboard/people')).status, 403, 'the new role holds at once')
  t.equal((await visitor.get('/dashboard/emails')).status, 200)
})

t.test('a user reads and ends their own sessions', async t => {
  const id = await add('many@example.com', 'viewer')
  const [one, two] = [await visitorOf(id), await visitorOf(id)]
  const { html } = await one.get('/dashboard/sessions')
  t.match(html, /many@example\.com/)
  t.equal(html.match(/<code>ses_/g)?.length, 2)
  const other = /<code>(ses_\w+)/g
  const ids = [...html.matchAll(other)].map(([, id]) => id!)
  const theirs = ids.find(id => !one.cookie.includes(id))!
  t.equal((await one.post(`/dashboard/sessions/${theirs}/end`)).status, 303)
  t.match(await knock(app, 'GET', '/dashboard', { cookie: two.cookie }), { status: 303 })
})

t.test('an owner ends one session of another, and nobody less does', async t => {
  const owner = await visitorOf(await add('keeper@example.com', 'owner'))
  const other = await add('lost-laptop@example.com', 'developer')
  const [lost, kept] = [await visitorOf(other), await visitorOf(other)]
  const session = /ses_\w{26}/.exec(lost.cookie)![0]
  const path = `/dashboard/people/${other}/sessions`
  t.match((await owner.get(`/dashboard/people/${other}`)).html, new RegExp(`${path}/${session}/end`))
  t.equal((await kept.post(`${path}/${session}/end`)).status, 403)
  t.equal((await owner.post(`${path}/ses_${'0'.repeat(26)}/end`)).status, 404)
  t.equal((await lost.get('/dashboard/emails')).status, 200)
  t.equal((await owner.post(`${path}/${session}/end`)).status, 303)
  t.match(await knock(app, 'GET', '/dashboard', { cookie: lost.cookie }), { status: 303 })
  t.equal((await kept.get('/dashboard/emails')).status, 200)
})
