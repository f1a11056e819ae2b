import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { LINK_MS } from '#streams/session/decide.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import { createVault } from '#src/base/secret.ts'
import { buildHttp, type HttpOptions } from '#src/http.ts'
import { createMetrics } from '#src/servers/ops/metrics.ts'
import { connectBus } from '#src/nats/connect.ts'
import { lastSequence } from '#src/nats/get.ts'
import { readFacts } from '#src/nats/range.ts'
import { openPage, signIn } from '../support/browser.ts'
import { jetpostHere } from '../support/command.ts'
import { cookieOf, knock, visit, visitorWith, type Shown } from '../support/dashboard.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const MINUTE_MS = 60_000
const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
let passedMs = 0
const app = await startTestApp(t, { natsUrl, databaseUrl, clock: { nowMs: () => Date.now() + passedMs } })
const bus = await connectBus({ url: natsUrl, creds: null, name: 'test', log: createLog('silent') })
t.teardown(() => bus.close())

// Each begins with a minute of its own: there is a limit to how often somebody may try.
t.beforeEach(() => {
  passedMs += MINUTE_MS - (Date.now() + passedMs) % MINUTE_MS
})

const enter = async (key: string, extra: Record<string, string> = {}) =>
  await knock(app, 'POST', '/dashboard/sign-in', { body: { key, ...extra } })
const follow = async (token: string) => await knock(app, 'POST', '/dashboard/link', { body: { token } })
const isOpen = async (cookie: string) => (await knock(app, 'GET', '/dashboard/sessions', { cookie })).status === 200
const tokenIn = (url: string) => new URL(url, app.url).searchParams.get('token')!

t.test('a person signs in with a key, comes to Activity, and signs out', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  t.equal(await page.title(), 'Activity · Jetpost')
  await page.locator('.who summary').click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.waitForURL('**/sign-in')
  t.strictSame(complaints, [])
})

t.test('keys of scope full and dashboard open it, test keys among them; others get the reason why not', async t => {
  const opens = async (secret: string) => {
    const entered = await enter(secret)
    t.match(entered, { status: 303, to: '/dashboard' })
    return await isOpen(cookieOf(entered)!)
  }
  const [own, test, sender, ending, gone] = await Promise.all([
    app.newKey({ scopes: ['dashboard'] }),
    app.newKey({ scopes: ['full'], test: true }),
    app.newKey({ scopes: ['emails:send', 'emails:read'] }),
    app.newKey({ expiresMs: Date.now() + passedMs + MINUTE_MS }),
    app.newKey({})
  ])
  for (const secret of [API_KEY, ` ${own.secret}\n`, test.secret, ending.secret, gone.secret]) t.ok(await opens(secret))
  await app.revokeKey(gone.id)
  passedMs += MINUTE_MS
  for (
    const [secret, sentence] of [
      [sender.secret, 'Use a key with the scope full or dashboard'],
      [ending.secret, 'That API key isn&#39;t valid'],
      [gone.secret, 'That API key isn&#39;t valid'],
      ['jp_live_never-made', 'That API key isn&#39;t valid'],
      ['', 'That API key isn&#39;t valid'],
      [own.id, 'That API key isn&#39;t valid']
    ] as const
  ) {
    const refused = await enter(secret)
    t.equal(refused.status, 422)
    t.match(refused.html, sentence)
    t.strictSame(refused.headers.getSetCookie(), [])
  }
})

t.test('a key that another node has just made opens it at once', async t => {
  const { secret } = await app.newKey({ scopes: ['dashboard'] }, { wait: false })
  t.equal((await enter(secret)).status, 303)
})

t.test('the session cookie is out of reach of scripts and other sites', async t => {
  const [text] = (await enter(API_KEY)).headers.getSetCookie()
  t.match(
    text,
    /^jetpost_session=ses_[0-9a-z]{26}\.[A-Za-z0-9_-]{43}; Path=\/dashboard; Expires=[^;]+; HttpOnly; SameSite=Strict$/
  )
  const { page, context } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  t.match(await context.cookies(), [{ name: 'jetpost_session', httpOnly: true, sameSite: 'Strict', secure: false }])
  t.equal(await page.evaluate('document.cookie'), '')
})

t.test('the link of npm start opens it once; loading its page does not use it up', async t => {
  const path = (await app.mintSignInPath())!
  const token = tokenIn(path)
  for (let i = 0; i < 2; i++) {
    const shown = await knock(app, 'GET', path)
    t.equal(shown.status, 200)
    t.match(shown.html, 'Open the dashboard')
  }
  const entered = await follow(token)
  t.match(entered, { status: 303, to: '/dashboard' })
  t.ok(await isOpen(cookieOf(entered)!))
  const again = await follow(token)
  t.equal(again.status, 422)
  t.match(again.html, 'was already used')
  t.equal(cookieOf(again), null)
})

t.test('two who follow a link at the same time: one is let in', async t => {
  const token = tokenIn((await jetpostHere(['dashboard'], { NATS_URL: natsUrl, JETPOST_SECRET: SECRET })).out.trim())
  const statuses = (await Promise.all([follow(token), follow(token), follow(token)])).map(({ status }) => status)
  t.strictSame(statuses.toSorted(), [303, 422, 422])
})

t.test('jetpost dashboard prints a link, as JSON too, below the public URL', async t => {
  const env = { NATS_URL: natsUrl, JETPOST_SECRET: SECRET, JETPOST_PUBLIC_URL: 'https://post.example.com' }
  const plain = await jetpostHere(['dashboard'], env)
  t.match(plain, { code: 0, out: /^https:\/\/post\.example\.com\/dashboard\/link\?token=[A-Za-z0-9_-]+\n$/ })
  const [{ url }] = JSON.parse((await jetpostHere(['dashboard', '--json'], env)).out)
  t.not(url, plain.out.trim(), 'each is another')
  for (const one of [url, plain.out.trim()]) {
    const cookie = cookieOf(await follow(tokenIn(one)))!
    t.equal((await knock(app, 'GET', '/dashboard/operations', { cookie })).status, 200, "the operator's")
  }
  t.match(await jetpostHere(['dashboard', 'me'], env), { code: 2, err: 'usage: jetpost dashboard' })
})

/** What who knows JETPOST_SECRET, and the id of a key, can make of them. */
function forgedLinks (key: string): string[] {
  const session = newId('ses', Date.now() + passedMs)
  const proof = createVault(SECRET).derive(`${session} ${key}`, 'sign-in link')[0]
  const token = session.slice('ses_'.length) + proof
  return [token, token + key.slice('key_'.length)]
}

t.test('a link is good for 15 minutes, where it was made, as it was made; JETPOST_SECRET makes none', async t => {
  const behindMs = passedMs
  const token = tokenIn((await jetpostHere(['dashboard'], { NATS_URL: natsUrl, JETPOST_SECRET: SECRET })).out.trim())
  const elsewhere = await startTestApp(t, { env: { JETPOST_ROLES: 'api' } })
  const foreign = tokenIn((await elsewhere.mintSignInPath())!)
  const { body: { data: [{ id: key }] } } = await app.request('GET', '/api/keys')
  const middle = token.length >> 1
  const changed = token.slice(0, middle) + (token[middle] === 'A' ? 'B' : 'A') + token.slice(middle + 1)
  const strange = [foreign, changed, '', 'x', token.slice(0, -8), 'A'.repeat(10_000)]
  for (const none of [...forgedLinks(key), ...strange]) {
    const refused = await follow(none)
    t.equal(refused.status, 422)
    t.match(refused.html, 'This sign-in link is invalid or expired')
  }
  // The one who made it has the machine's clock.
  passedMs = LINK_MS
  const late = await follow(token)
  passedMs = behindMs + MINUTE_MS
  t.equal(late.status, 422)
  t.match(late.html, 'This sign-in link is invalid or expired.')
})

// Behind a proxy that Jetpost was not told of all the world has one address: were every try counted, a stranger could
// keep everybody out.
t.test('an address that failed ten times a minute must wait; a valid key or link still opens a session', async t => {
  const token = tokenIn((await jetpostHere(['dashboard'], { NATS_URL: natsUrl, JETPOST_SECRET: SECRET })).out.trim())
  const statuses: number[] = []
  for (let i = 0; i < 10; i++) statuses.push((await enter(`jp_live_guess-${i}`)).status)
  t.strictSame(statuses, Array(10).fill(422))
  const refused = await enter('jp_live_guess-10')
  t.equal(refused.status, 429)
  t.equal(refused.headers.get('retry-after'), '60')
  t.match(refused.html, 'Wait a minute')
  t.equal((await follow('x')).status, 429, 'links count with keys')
  t.equal((await enter(API_KEY)).status, 303)
  t.equal((await follow(token)).status, 303)
  passedMs += MINUTE_MS
  t.equal((await enter('jp_live_guess-11')).status, 422)
})

t.test('a key signs in sixty times a minute, since each is a fact; another is not kept waiting', async t => {
  const { secret } = await app.newKey({})
  const statuses: number[] = []
  for (let i = 0; i < 61; i++) statuses.push((await enter(secret)).status)
  t.strictSame(statuses, [...Array(60).fill(303), 429])
  t.equal((await enter(API_KEY)).status, 303)
  passedMs += MINUTE_MS
  t.equal((await enter(secret)).status, 303)
})

t.test('behind a proxy that says another Host, forms are known by the public URL', async t => {
  const proxied = await startTestApp(t, {
    natsUrl,
    databaseUrl,
    env: { JETPOST_ROLES: 'api', JETPOST_PUBLIC_URL: 'http://post.example.com' }
  })
  const post = async (origin: string) => {
    const body = `key=${API_KEY}`
    const head = [
      'Host: 10.0.0.7:8080',
      `Origin: ${origin}`,
      'Content-Type: application/x-www-form-urlencoded',
      `Content-Length: ${body.length}`,
      'Connection: close'
    ]
    return await proxied.speak(`POST /dashboard/sign-in HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${body}`)
  }
  t.equal(proxied.mintMailboxPath(), null)
  t.match(await post('http://post.example.com'), /^HTTP\/1\.1 303 /)
  t.match(await post('http://10.0.0.7:8080'), /^HTTP\/1\.1 303 /, 'and by what was asked')
  for (
    const origin of [
      'https://post.example.com',
      'http://post.example.com:8080',
      'http://example.com',
      'http://evil.example',
      'null'
    ]
  ) t.match(await post(origin), /^HTTP\/1\.1 403 /, origin)
  const ada = await visit(proxied)
  t.match(
    await knock(proxied, 'POST', '/dashboard/sign-out', {
      body: {},
      headers: { referer: 'http://post.example.com/dashboard/domains?a=1' }
    }),
    { to: '/dashboard/sign-in?to=%2Fdashboard%2Fdomains%3Fa%3D1' }
  )
  t.equal((await ada.post('/dashboard/sign-out', {}, { origin: 'http://post.example.com' })).status, 303)
})

t.test('a sign-in by http where the dashboard is for https gets the right URL and no session', async t => {
  const secure = await startTestApp(t, {
    natsUrl,
    databaseUrl,
    env: { JETPOST_ROLES: 'api', JETPOST_PUBLIC_URL: 'https://post.example.com' }
  })
  const token = tokenIn((await secure.mintSignInPath())!)
  const before = await lastSequence(bus, 'CONTROL')
  for (const [path, body] of [['/dashboard/sign-in', { key: API_KEY }], ['/dashboard/link', { token }]] as const) {
    const refused = await knock(secure, 'POST', path, { body, headers: { origin: secure.url } })
    t.equal(refused.status, 422)
    t.match(refused.html, /<a href="https:\/\/post\.example\.com\/dashboard">/)
    t.strictSame(refused.headers.getSetCookie(), [])
  }
  t.equal(await lastSequence(bus, 'CONTROL'), before)
  t.equal(
    (await knock(secure, 'POST', '/dashboard/link', {
      body: { token },
      headers: { origin: 'https://post.example.com' }
    })).status,
    303,
    'the link has not been used up'
  )
})

t.test('in a browser: a dashboard for https opens no session by http, and says why', async t => {
  const secure = await startTestApp(t, {
    natsUrl,
    databaseUrl,
    env: { JETPOST_ROLES: 'api', JETPOST_PUBLIC_URL: 'https://post.example.com' }
  })
  const { page, complaints } = await openPage(t, secure.url)
  await page.goto('/dashboard')
  await page.getByLabel('API key').fill(API_KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  t.match(
    await page.getByRole('alert').textContent(),
    /only keeps sessions of https:\/\/post\.example\.com\/dashboard\. Sign in there/
  )
  t.strictSame(complaints, [])
})

t.test('below a path there is the API and no dashboard', async t => {
  const below = await startTestApp(t, { env: { JETPOST_PUBLIC_URL: 'https://example.com/post' } })
  t.equal(await below.mintSignInPath(), null)
  for (const path of ['/dashboard', '/dashboard/sign-in', '/dashboard/link?token=x']) {
    t.equal((await knock(below, 'GET', path)).status, 404, path)
  }
  t.equal((await knock(below, 'POST', '/dashboard/sign-in', { body: { key: API_KEY } })).status, 404)
  t.equal((await below.request('GET', '/api/keys')).status, 200)
  const refused = await jetpostHere(['dashboard'], {
    NATS_URL: natsUrl,
    JETPOST_SECRET: SECRET,
    JETPOST_PUBLIC_URL: 'https://example.com/post'
  })
  t.match(refused, { code: 1, out: '', err: 'There is no dashboard below a path' })
})

t.test('after signing in, the visitor gets the requested page of the dashboard, and no other site', async t => {
  const wanted: Array<[string, string]> = [
    ['/dashboard/emails?status=bounced', '/dashboard/emails?status=bounced'],
    ['/dashboard', '/dashboard'],
    ['', '/dashboard'],
    ['https://evil.example/dashboard', '/dashboard'],
    ['//evil.example/dashboard', '/dashboard'],
    ['/\\evil.example', '/dashboard'],
    ['\\\\evil.example', '/dashboard'],
    ['/dashboard/..//evil.example', '/dashboard'],
    ['/dashboard/../..//evil.example/dashboard', '/dashboard'],
    ['javascript:alert(1)', '/dashboard'],
    ['/dashboardx', '/dashboard'],
    ['/api/keys', '/dashboard'],
    ['http://here@evil.example/dashboard', '/dashboard'],
    ['/dashboard\r\nSet-Cookie: a=b', '/dashboard'],
    ['data:text/html,x', '/dashboard'],
    [' //evil.example', '/dashboard']
  ]
  for (const [to, where] of wanted) {
    passedMs += MINUTE_MS
    t.equal((await enter(API_KEY, { to })).to, where, JSON.stringify(to))
  }
})

t.test('without a session, a page leads to sign-in and back; a part of a page takes the whole page there', async t => {
  t.match(await knock(app, 'GET', '/dashboard/emails?q=a%26b'), {
    status: 303,
    to: '/dashboard/sign-in?to=%2Fdashboard%2Femails%3Fq%3Da%2526b'
  })
  t.match(await knock(app, 'GET', '/dashboard/nowhere'), { status: 303 }, 'what there is, is not told')
  const part = await knock(app, 'GET', '/dashboard/emails', { headers: { 'hx-request': 'true' } })
  t.match(part, { status: 401, html: '' })
  t.equal(part.headers.get('hx-redirect'), '/dashboard/sign-in?to=%2Fdashboard%2Femails')
  const posted = await knock(app, 'POST', '/dashboard/sign-out', {
    body: {},
    headers: { referer: `${app.url}/dashboard/domains?a=1` }
  })
  t.match(posted, { status: 303, to: '/dashboard/sign-in?to=%2Fdashboard%2Fdomains%3Fa%3D1' })
  const strange = await knock(app, 'POST', '/dashboard/sign-out', {
    body: {},
    headers: { referer: 'https://evil.example/dashboard/x' }
  })
  t.match(strange, { status: 303, to: '/dashboard/sign-in?to=%2Fdashboard' })
})

t.test('a form takes the token of its own session, from this site; anything else changes nothing', async t => {
  const [ada, bob] = [await visit(app), await visit(app)]
  const before = await lastSequence(bus, 'CONTROL')
  const forms: Array<[string, Record<string, string>, Record<string, string>?]> = [
    ['no token', { csrf: '' }],
    ['the token of another session', { csrf: bob.csrf }],
    ['a token that is none', { csrf: '0'.repeat(64) }],
    ['a longer one', { csrf: `${ada.csrf}0` }],
    ['a foreign origin', {}, { origin: 'https://evil.example' }],
    ['no origin at all', {}, { origin: 'null' }],
    ['the same host by another port', {}, { origin: 'http://127.0.0.1:1' }],
    ['another site', {}, { 'sec-fetch-site': 'cross-site' }],
    ['a neighbour', {}, { 'sec-fetch-site': 'same-site' }],
    ['another site that says it is none', {}, { 'sec-fetch-site': 'cross-site', origin: app.url }]
  ]
  for (const [name, fields, headers] of forms) {
    const refused = await ada.post('/dashboard/sessions/end', fields, headers)
    t.equal(refused.status, 403, name)
    t.match(refused.html, 'Nothing was changed')
  }
  t.equal(
    (await knock(app, 'POST', '/dashboard/sessions/end', {
      cookie: ada.cookie,
      body: JSON.stringify({ csrf: ada.csrf }),
      headers: { 'content-type': 'application/json' }
    })).status,
    415
  )
  t.equal(
    (await knock(app, 'POST', '/dashboard/sessions/end', {
      cookie: ada.cookie,
      body: `csrf=${ada.csrf}`,
      headers: { 'content-type': 'text/plain' }
    })).status,
    415
  )
  t.equal((await knock(app, 'GET', `/dashboard/sessions/end?csrf=${ada.csrf}`, { cookie: ada.cookie })).status, 404)
  for (const [name, value] of [['sec-fetch-site', 'cross-site'], ['origin', 'https://evil.example']] as const) {
    t.equal(
      (await knock(app, 'POST', '/dashboard/sign-in', { body: { key: API_KEY }, headers: { [name]: value } })).status,
      403,
      'nobody is signed in by another site'
    )
  }
  t.equal(await lastSequence(bus, 'CONTROL'), before)
  t.ok(await isOpen(ada.cookie))
  t.equal((await ada.post('/dashboard/sign-out', {}, { 'sec-fetch-site': 'same-origin', origin: app.url })).status, 303)
})

t.test('in a browser: a link on another site leads to the page, its form to nothing', async t => {
  const { port } = new URL(app.url)
  const target = `http://127.0.0.1:${port}/dashboard`
  const evil = createServer((_request, response) =>
    response.setHeader('content-type', 'text/html').end(
      `<a href="${target}/sessions?a=1&amp;b=2">in</a>
<form method="post" action="${target}/sessions/end"><input name="csrf" value="x"><button>end</button></form>`
    )
  ).listen(0, '127.0.0.1')
  t.teardown(() => evil.close())
  await once(evil, 'listening')
  const elsewhere = `http://localhost:${(evil.address() as AddressInfo).port}/`
  const { page, complaints } = await openPage(t, `http://127.0.0.1:${port}`)
  await signIn(page, API_KEY)
  await page.goto(elsewhere)
  await page.getByText('in', { exact: true }).click()
  await page.waitForURL('**/dashboard/sessions?a=1&b=2')
  await page.getByRole('heading', { name: 'Sessions' }).waitFor()
  t.strictSame(complaints, [])
  await page.goto(elsewhere)
  await page.getByRole('button', { name: 'end' }).click()
  await page.waitForURL('**/dashboard/sign-in?to=**')
  await page.goto('/dashboard/sessions')
  t.equal(await page.title(), 'Sessions · Jetpost', 'still signed in')
})

t.test('every response has the content policy', async t => {
  const ada = await visit(app)
  const { cookie } = ada
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const answers: Array<[number, Promise<Shown>]> = [
    [200, ada.get('/dashboard/emails')],
    [303, ada.get('/dashboard')],
    [303, ada.get('/dashboard/')],
    [404, ada.get('/dashboard/nowhere')],
    [404, ada.post('/dashboard/nowhere')],
    [403, ada.post('/dashboard/sign-out', { csrf: '' })],
    [200, knock(app, 'GET', '/dashboard/sign-in')],
    [200, knock(app, 'GET', '/dashboard/link?token=x')],
    [422, enter('x')],
    [303, knock(app, 'GET', '/dashboard')],
    [303, enter(API_KEY)],
    [401, knock(app, 'GET', '/dashboard/emails', { headers: { 'hx-request': 'true' } })],
    [200, knock(app, 'GET', '/dashboard/emails', { headers: { 'sec-fetch-site': 'cross-site' } })],
    [415, knock(app, 'POST', '/dashboard/sign-in', { body: '{}', headers: { 'content-type': 'application/json' } })],
    [413, knock(app, 'POST', '/dashboard/sign-in', { body: `key=${'x'.repeat(20_000)}`, headers: form })],
    [400, knock(app, 'GET', '/dashboard/%zz', { cookie })],
    [404, knock(app, 'GET', '/dashboard/assets/x/nothing.js')],
    [404, knock(app, 'GET', '/dashboard/assets/x/constructor')],
    [200, knock(app, 'GET', '/dashboard/assets/x/app.js')],
    [200, knock(app, 'HEAD', '/dashboard/sessions', { cookie })],
    [403, knock(app, 'PUT', '/dashboard/sessions', { cookie })],
    [403, knock(app, 'OPTIONS', '/dashboard/sessions', { cookie })]
  ]
  for (const [status, answer] of answers) {
    const { headers, ...shown } = await answer
    t.equal(shown.status, status)
    const policy = headers.get('content-security-policy')
    t.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/)
    t.match(policy, /form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/)
    t.match(Object.fromEntries(headers), {
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'x-request-id': /^req_/
    })
    t.equal(headers.get('cache-control'), 'no-store')
  }
})

t.test('an unexpected error is masked, and the log has it under the id of its request', async t => {
  const said: unknown[] = []
  const log = {
    ...createLog('silent'),
    error: (line: unknown) => said.push(line),
    child: () => log,
    debug () {}
  } as unknown as ReturnType<typeof createLog>
  const broken = {
    now: {
      sessions: {
        get () {
          throw new Error('select * from secrets')
        }
      }
    },
    look: async () => {}
  }
  const services = {
    directory: broken,
    settings: { contentRetentionMs: 1 },
    factLog: { clock: { nowMs: Date.now }, bus: {} }
  }
  const rooms = {
    api: { services, counters: {}, reads: {} },
    operations: {},
    catcher: null,
    mailboxDoor: null
  } as unknown as Pick<
    HttpOptions,
    'api' | 'operations' | 'catcher' | 'mailboxDoor'
  >
  const http = buildHttp({ ...rooms, checks: [], metrics: createMetrics(), publicUrl: app.url, trustProxy: [], log })
  const { cookie } = await visit(app)
  const { statusCode, body, headers } = await http.inject({
    url: '/dashboard/emails',
    headers: { cookie, 'x-request-id': 'my-request-1' }
  })
  await http.close()
  t.equal(statusCode, 500)
  t.match(body, 'The log of Jetpost has the details under my-request-1.')
  t.notMatch(body, /secrets|Error|at /)
  t.match(headers['content-security-policy'], "default-src 'none'")
  t.match(said, [{ requestId: 'my-request-1', err: { message: 'select * from secrets' } }])
})

t.test('the id of a request is in its facts', async t => {
  const entered = await knock(app, 'POST', '/dashboard/sign-in', {
    body: { key: API_KEY },
    headers: { 'x-request-id': 'sign-in-of-ada' }
  })
  t.equal(entered.headers.get('x-request-id'), 'sign-in-of-ada')
  const { csrf } = await visitorWith(app, cookieOf(entered)!)
  await knock(app, 'POST', '/dashboard/sign-out', {
    cookie: cookieOf(entered)!,
    body: { csrf },
    headers: { 'x-request-id': 'sign-out-of-ada' }
  })
  const told: string[] = []
  const facts = await readFacts(bus, 'CONTROL', 'control.*.session.>', 'leader')
  for (const { fact: { type, correlation } } of facts) {
    if (correlation.endsWith('-of-ada')) told.push(`${type} ${correlation}`)
  }
  t.strictSame(told, ['session.opened sign-in-of-ada', 'session.ended sign-out-of-ada'])
})

t.test('a client cannot use an internal key, and a session cookie is no API key', async t => {
  const { cookie } = await visit(app)
  const ticket = cookie.split('=')[1]!
  for (
    const authorization of [
      'Inside',
      'Inside ',
      'Inside inside',
      `Inside ${'A'.repeat(43)}`,
      `Inside ${ticket}`,
      `Bearer ${ticket}`,
      'Bearer inside',
      `Inside ${API_KEY}`
    ]
  ) {
    const { status, body } = await app.request('GET', '/api/keys', { key: null, headers: { authorization, cookie } })
    t.equal(status, 401, authorization)
    t.strictSame(body, { error: 'Unauthorized' })
  }
})

t.test('an id that would lead elsewhere in the API leads nowhere', async t => {
  const ada = await visit(app)
  for (
    const id of ['..%2Fkeys', '%2e%2e%2fkeys', '..%5Ckeys', '%3Flimit=1', 'x%23', 'x%2F..%2F..%2Fkeys', '%00', '%0d%0a']
  ) t.match((await ada.get(`/dashboard/emails/${id}`)).status, /^4\d\d$/, id)
})
