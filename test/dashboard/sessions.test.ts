import t from 'tap'
import {
  CONFIRMED_MS,
  ROTATE_AFTER_MS,
  ROTATION_OVERLAP_MS,
  SESSION_IDLE_MS,
  SESSION_MS,
  SESSIONS_MAX
} from '#streams/session/decide.ts'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { lastSequence } from '#src/nats/get.ts'
import { cookieOf, knock, visit, visitorWith } from '../support/dashboard.ts'
import { API_KEY, startTestApp, type TestApp } from '../support/app.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
let passedMs = 0
const clock = { nowMs: () => Date.now() + passedMs }
const app = await startTestApp(t, { natsUrl, databaseUrl, clock })
const other = await startTestApp(t, {
  natsUrl,
  databaseUrl,
  clock,
  env: { JETPOST_ROLES: 'api', JETPOST_PUBLIC_URL: 'https://post.example.com' }
})
const bus = await connectBus({ url: natsUrl, creds: null, name: 'test', log: createLog('silent') })
t.teardown(() => bus.close())

t.beforeEach(() => {
  passedMs += MINUTE_MS
})

/** One ticket, by the name that it has under http or https. */
const look = async (cookie: string, at: TestApp = app) =>
  await knock(at, 'GET', '/dashboard/sessions', {
    cookie: `${at === other ? '__Host-' : ''}${cookie.replace('__Host-', '')}`
  })
/** The ticket that follows: with this answer or, where the log was slow, with the next. */
async function renewed (cookie: string): Promise<string> {
  let next: string | null = null
  await until(async () => (next = cookieOf(await look(cookie))) !== null)
  return next!
}
const isOpen = async (cookie: string, at?: TestApp) => (await look(cookie, at)).status === 200
const isDead = async (cookie: string) =>
  await until(async () => !await isOpen(cookie) && !await isOpen(cookie, other), 1000)
const ticketsIn = (html: string) => [...html.matchAll(/<code>(ses_[0-9a-z]{26})<\/code>/g)].map(([, id]) => id!)

t.test('a session is valid on every node at once, and with https its cookie is bound to the host', async t => {
  const ada = await visit(app)
  t.ok(await isOpen(ada.cookie, other))
  const entered = await knock(other, 'POST', '/dashboard/sign-in', { body: { key: API_KEY } })
  t.match(
    entered.headers.getSetCookie()[0],
    /^__Host-jetpost_session=ses_[^;]+; Path=\/; Expires=[^;]+; HttpOnly; Secure; SameSite=Strict$/
  )
  t.ok(await isOpen(cookieOf(entered)!))
  const planted = cookieOf(entered)!.replace('__Host-', '')
  t.equal(
    (await knock(other, 'GET', '/dashboard/sessions', { cookie: planted })).status,
    303,
    'one that a neighbour can plant is none'
  )
})

t.test('its secret is replaced once after twelve hours; for an hour the old one gets the new one again', async t => {
  const ada = await visit(app)
  passedMs += ROTATE_AFTER_MS - 2 * MINUTE_MS
  t.strictSame((await look(ada.cookie)).headers.getSetCookie(), [], 'not sooner')
  passedMs += 2 * MINUTE_MS
  const before = await lastSequence(bus, 'CONTROL')
  const answers = await Promise.all([...Array.from({ length: 5 }, () => look(ada.cookie)), look(ada.cookie, other)])
  t.strictSame(answers.map(({ status }) => status), Array(6).fill(200), 'all that were under way are served')
  const next = await renewed(ada.cookie)
  for (const given of answers.flatMap(answer => cookieOf(answer) ?? [])) {
    t.equal(given.replace('__Host-', ''), next, 'all are told the same')
  }
  t.equal(await lastSequence(bus, 'CONTROL'), before + 1)
  for (const at of [app, other]) {
    t.strictSame((await look(next, at)).headers.getSetCookie(), [])
    t.ok(await isOpen(next, at))
  }
  passedMs += ROTATION_OVERLAP_MS - MINUTE_MS
  // The browser may have been given nothing: it was closed, or its line was.
  for (const at of [app, other]) t.equal(cookieOf(await look(ada.cookie, at))?.replace('__Host-', ''), next)
  t.equal(await lastSequence(bus, 'CONTROL'), before + 1, 'and the log is told nothing')
  t.equal((await knock(app, 'POST', '/dashboard/sign-out', { cookie: next, body: { csrf: '' } })).status, 403)
  passedMs += MINUTE_MS
  t.notOk(await isOpen(ada.cookie))
  t.equal(
    (await knock(app, 'POST', '/dashboard/sign-out', { cookie: next, body: { csrf: ada.csrf } })).status,
    303,
    'a form that was open all the while can be sent'
  )
})

t.test('it ends when it is not used for a day and a half', async t => {
  const [ada, bob] = [await visit(app), await visit(app)]
  passedMs += SESSION_IDLE_MS - 2 * MINUTE_MS
  const next = await renewed(ada.cookie)
  passedMs += 2 * MINUTE_MS
  t.notOk(await isOpen(bob.cookie))
  const { html } = await look(next)
  t.ok(ticketsIn(html).some(id => next.includes(id)))
  t.notOk(ticketsIn(html).some(id => bob.cookie.includes(id)), 'and is shown no more')
})

t.test('it ends after 14 days, however it is used', async t => {
  let { cookie } = await visit(app)
  for (let ageMs = 0; ageMs + 13 * HOUR_MS < SESSION_MS; ageMs += 13 * HOUR_MS) {
    passedMs += 13 * HOUR_MS
    t.equal((await look(cookie)).status, 200, `after ${ageMs / HOUR_MS} hours`)
    cookie = await renewed(cookie)
  }
  passedMs += 13 * HOUR_MS
  t.notOk(await isOpen(cookie))
})

t.test('signing out ends the session on every node, and no other', async t => {
  const [ada, bob] = [await visit(app), await visit(app)]
  const left = await ada.post('/dashboard/sign-out')
  t.match(left, { status: 303, to: '/dashboard/sign-in' })
  t.match(left.headers.getSetCookie()[0], /^jetpost_session=; .*Expires=Thu, 01 Jan 1970/)
  t.notOk(await isOpen(ada.cookie), 'here with the answer')
  await isDead(ada.cookie)
  t.ok(await isOpen(bob.cookie))
})

t.test('each is listed with browser and address, and ended by itself, by nobody with another key', async t => {
  const { secret } = await app.newKey({ name: 'desk' })
  const signIn = async (agent: string) => {
    const headers = { 'user-agent': agent }
    const entered = await knock(app, 'POST', '/dashboard/sign-in', { body: { key: secret }, headers })
    return await visitorWith(app, cookieOf(entered)!)
  }
  const firefox = await signIn('Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0')
  const safari = await signIn(
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) ' +
      'Version/18.5 Mobile/15E148 Safari/604.1'
  )
  const hostile = await signIn('<b>Evil</b>/3.0 (X)')
  const silent = await signIn('')
  const { html } = await firefox.get('/dashboard/sessions')
  const rows = html.split('<tr>').slice(2).map(row => row.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' '))
  t.equal(rows.length, 4)
  t.match(rows[3], /^ Firefox 140 on Linux this browser ses_\w+ (127\.0\.0\.1|::1) /)
  t.match(rows[2], /^ Safari 18 on iOS ses_/)
  t.match(rows[0], /^ Unknown ses_/)
  t.notMatch(html, '<b>Evil')
  const idOf = ({ cookie }: { cookie: string }) => cookie.replace('jetpost_session=', '').split('.')[0]!
  const endOf = (of: { cookie: string }) => `/dashboard/sessions/${idOf(of)}/end`
  t.equal((await (await visit(app)).post(endOf(safari))).status, 404, 'of another key')
  t.equal((await firefox.post(endOf(safari), { csrf: '' })).status, 403)
  t.ok(await isOpen(safari.cookie))
  t.match(await firefox.post(endOf(safari)), { status: 303, to: '/dashboard/sessions' })
  await isDead(safari.cookie)
  t.equal((await firefox.post(endOf(safari))).status, 404, 'it has ended')
  for (const { cookie } of [firefox, hostile, silent]) t.ok(await isOpen(cookie))
  t.match(await firefox.post(endOf(firefox)), { status: 303, to: '/dashboard/sign-in' })
  await isDead(firefox.cookie)
  t.ok(await isOpen(silent.cookie))
  await until(async () => {
    const { body: { data } } = await app.request('GET', '/api/audit?action=session.opened')
    const told = data.find((record: { subject_id: string }) => record.subject_id === idOf(safari))
    return told?.summary.includes('browser: Safari 18 on iOS') === true && told.actor.ip !== null
  })
})

t.test('what cannot be taken back asks for the key again after an hour, and is done once it is shown', async t => {
  const { id, secret } = await app.newKey({ name: 'desk' })
  const ada = await visit(app, secret)
  const isThere = async (key: string) => (await app.request('GET', `/api/keys/${key}`)).status === 200
  const [one, two] = [await app.newKey({}), await app.newKey({})]
  const { body: hook } = await app.request('POST', '/api/webhooks', {
    body: { url: 'https://example.com/hook', events: ['email.delivered'] }
  })
  const sent = { address: 'gone@example.com', confirmation: 'gone@example.com' }
  const guarded: Array<[path: string, fields: Record<string, string>]> = [
    ['/dashboard/keys', { name: 'New', scopes: 'emails:read', domains: '*', once: 'x' }],
    [`/dashboard/keys/${one.id}`, { name: 'Wider', scopes: 'full', domains: '*' }],
    [`/dashboard/keys/${one.id}/rotate`, { once: 'y' }],
    [`/dashboard/keys/${one.id}/revoke`, {}],
    ['/dashboard/webhooks', { url: 'https://example.com/thief', events: 'email.delivered', once: 'z' }],
    [`/dashboard/webhooks/${hook.id}`, { url: 'https://example.com/thief', events: 'email.delivered' }],
    [`/dashboard/webhooks/${hook.id}/rotate`, {}],
    ['/dashboard/erasures', sent]
  ]
  t.equal((await ada.post(`/dashboard/keys/${two.id}/revoke`)).status, 303, 'not so soon after signing in')
  t.notOk(await isThere(two.id))
  passedMs += CONFIRMED_MS
  const before = await lastSequence(bus, 'CONTROL')
  for (const [path, fields] of guarded) {
    t.match(await ada.post(path, fields), { status: 403, html: 'Enter the key again' }, path)
    for (const wrong of ['', 'x', API_KEY, one.secret]) {
      t.match(await ada.post(path, { ...fields, confirm_key: wrong }), {
        status: 403,
        html: 'must be that of the key desk'
      })
    }
  }
  t.equal(await lastSequence(bus, 'CONTROL'), before, 'nothing has happened')
  const asked = (await ada.post('/dashboard/erasures', { ...sent, address: '"><b>x' })).html
  t.match(asked, 'name="address" value="&quot;&gt;&lt;b&gt;x"')
  t.match(asked, 'name="confirmation" value="gone@example.com"')
  t.notMatch((await ada.post('/dashboard/erasures', { ...sent, confirm_key: API_KEY })).html, API_KEY)
  t.equal((await ada.post(`/dashboard/keys/${one.id}/revoke`, { confirm_key: ` ${secret} ` })).status, 303)
  t.notOk(await isThere(one.id), 'what was asked for is done')
  t.match(
    await ada.post('/dashboard/erasures', sent),
    { status: 303, to: /erasures\/era_/ },
    'and it does not ask again'
  )
  passedMs += CONFIRMED_MS
  t.equal((await ada.post('/dashboard/erasures', sent)).status, 403, 'for an hour')
  t.ok(await isThere(id))
})

t.test('signed out everywhere: all sessions of the key, and of no other', async t => {
  const { secret } = await app.newKey({ name: 'laptop' })
  const [ada, again] = [await visit(app, secret), await visit(other, secret)]
  const owner = await visit(app)
  t.strictSame(ticketsIn((await ada.get('/dashboard/sessions')).html).length, 2)
  t.equal((await again.post('/dashboard/sessions/end')).status, 303)
  for (const { cookie } of [ada, again]) await isDead(cookie)
  t.ok(await isOpen(owner.cookie))
})

t.test('it is as good as its key: revoked, expired, or with other scopes', async t => {
  const [gone, ending] = [
    await app.newKey({ scopes: ['dashboard'] }),
    await app.newKey({ expiresMs: clock.nowMs() + HOUR_MS })
  ]
  const [ada, bob] = [await visit(app, gone.secret), await visit(app, ending.secret)]
  await app.revokeKey(gone.id)
  await isDead(ada.cookie)
  passedMs += HOUR_MS
  await isDead(bob.cookie)
  const narrowed = await app.newKey({ scopes: ['dashboard'] })
  const eve = await visit(app, narrowed.secret)
  t.equal((await app.request('PATCH', `/api/keys/${narrowed.id}`, { body: { scopes: ['emails:read'] } })).status, 200)
  await isDead(eve.cookie)
})

t.test('it ends with the secret it was opened with, also after a rotation; other sessions stay', async t => {
  const { id, secret } = await app.newKey({ name: 'leaked' })
  const rotate = async (overlap: number) =>
    (await app.request('POST', `/api/keys/${id}/rotate`, { body: { overlap_s: overlap } })).body.key as string
  const thief = await visit(other, secret)
  const next = await rotate(3600)
  const [late, owner] = [await visit(app, secret), await visit(app, next)]
  for (const { cookie } of [thief, late, owner]) t.ok(await isOpen(cookie))
  t.equal(ticketsIn((await owner.get('/dashboard/sessions')).html).length, 3)
  passedMs += HOUR_MS
  for (const { cookie } of [thief, late]) await isDead(cookie)
  t.strictSame(ticketsIn((await owner.get('/dashboard/sessions')).html).length, 1, 'and is shown no more')
  const last = await rotate(0)
  await isDead(owner.cookie)
  t.ok(await isOpen((await visit(app, last)).cookie))
})

t.test('a key has at most 50 at a time: the one opened longest ago ends', async t => {
  const { secret } = await app.newKey({})
  const cookies: string[] = []
  for (let i = 0; i <= SESSIONS_MAX; i++) {
    if (i % 5 === 0) passedMs += MINUTE_MS
    cookies.push(cookieOf(await knock(app, 'POST', '/dashboard/sign-in', { body: { key: secret } }))!)
  }
  t.notOk(await isOpen(cookies[0]!))
  t.ok(await isOpen(cookies[1]!))
  t.equal(ticketsIn((await look(cookies.at(-1)!)).html).length, SESSIONS_MAX)
})

t.test('an invalid cookie opens nothing', async t => {
  const { cookie } = await visit(app)
  const [id, secret] = cookie.slice('jetpost_session='.length).split('.') as [string, string]
  const foreign = (await visit(app)).cookie.split('.')[1]
  for (
    const ticket of [
      '',
      id,
      `${id}.`,
      `${id}.${foreign}`,
      `${id}.${secret}x`,
      `${id}.${secret.slice(1)}`,
      `.${secret}`,
      `${id.toUpperCase()}.${secret}`,
      `ses_${'0'.repeat(26)}.${secret}`,
      `${'x'.repeat(3000)}`
    ]
  ) {
    t.notOk(await isOpen(`jetpost_session=${ticket}`), ticket.slice(0, 80))
  }
  t.ok(await isOpen(cookie))
})

t.test('a notice is shown once by the next page, as text, and no refresh takes it away', async t => {
  const ada = await visit(app)
  const note = `jetpost_notice=${Buffer.from('<b>Done</b>').toString('base64url')}`
  const shown = async (headers: Record<string, string>) =>
    await knock(app, 'GET', '/dashboard/sessions', { cookie: `${ada.cookie}; ${note}`, headers })
  const part = await shown({ 'hx-request': 'true' })
  t.strictSame(part.headers.getSetCookie(), [])
  t.notMatch(part.html, 'Done')
  const page = await shown({})
  t.match(page.html, '&lt;b&gt;Done&lt;/b&gt;')
  t.match(page.headers.getSetCookie()[0], /^jetpost_notice=; /)
  t.equal(
    (await knock(app, 'GET', '/dashboard/sessions', { cookie: `${ada.cookie}; jetpost_notice=%ff%00` })).status,
    200,
    'and one that is none does no harm'
  )
})
