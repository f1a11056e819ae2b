import { createHmac } from 'node:crypto'
import PostalMime, { type Email } from 'postal-mime'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { sleep } from '#src/base/backoff.ts'
import t from 'tap'
import type { EngagementFact } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { recipientRefOf, recordEngagement } from '#src/actions/recipient.ts'
import { occasionNow } from '#src/actions/fact-log.ts'
import { newId } from '#src/base/id.ts'
import { readFacts } from '#src/nats/range.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { FROM, startTestApp, type TestApp } from '../support/app.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const BROWSER = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' }
const TARGET = 'https://shop.example/sale?a=1&b=grüße#top'
const HTML = `<p>Hello <a href="${TARGET.replace('&', '&amp;')}">sale</a> <a href="%unsubscribe_url%">enough</a></p>`

/** The app's time: the real one, and what a test has let pass. */
let passedMs = 0
const clock = { nowMs: () => Date.now() + passedMs }

const { natsUrl } = freshAccount()
const app = await startTestApp(t, { natsUrl, clock })
const elsewhere = await openSecondServices(t, natsUrl)

function visit (path: string, init: RequestInit = {}, at: TestApp = app): Promise<Response> {
  return fetch(at.url + path, { redirect: 'manual', ...init, headers: { ...BROWSER, ...init.headers } })
}

interface Links {
  pixel: string
  click: string
  unsubscribe: string
}

/** What the mail says where to go, as paths: the origin is that of the tracking URL. */
function linksOf ({ html = '', headers }: Email): Links {
  const header = headers.find(({ key }) => key === 'list-unsubscribe')!.value
  const [pixel, click, unsubscribe] = [
    /<img src="([^"]+)"/.exec(html)![1]!,
    /href="([^"]+)">sale/.exec(html)![1]!,
    /<(http[^>]+)>/.exec(header)![1]!
  ].map(url => new URL(url).pathname)
  return { pixel: pixel!, click: click!, unsubscribe: unsubscribe! }
}

/** The path with one letter of its token's MAC changed. */
function forged (path: string): string {
  const at = 3 + 44
  return path.slice(0, at) + (path[at] === '7' ? '8' : '7') + path.slice(at + 1)
}

let mails = 0

/** A mail that has been in its mailbox for a minute. */
async function mailed (fields: Record<string, unknown> = {}): Promise<Links & { id: string, to: string }> {
  const to = `ada${++mails}@example.com`
  const { body: { id } } = await app.send({ to, html: HTML, ...fields })
  await app.settled(id, 'delivered')
  const links = linksOf(await app.caught(to))
  passedMs += 60_000
  return { id, to, ...links }
}

async function marks (id: string, services = elsewhere): Promise<EngagementFact[]> {
  return (await readFacts(services.factLog.bus, 'EMAILS', subjects.engagement(FIRST_ACCOUNT, id, 0))).map((
    { fact }
  ) => fact as EngagementFact)
}

const typesOf = (facts: EngagementFact[]) => facts.map(({ type }) => type)
const machines = (facts: EngagementFact[]) => facts.map(({ data }) => ('machine' in data ? data.machine : null))

t.test('6.1 opened, clicked and unsubscribed become facts and signed callbacks', async t => {
  const hooks = await startHookSink()
  t.teardown(() => hooks.stop())
  const { secret } = (await app.request('POST', '/api/webhooks', {
    body: { url: hooks.url, events: ['email.opened', 'email.clicked', 'email.unsubscribed'] }
  })).body
  const { id, to, pixel, click, unsubscribe } = await mailed({ tags: ['sale'] })
  t.equal((await visit(pixel)).status, 200)
  t.equal((await visit(click)).status, 302)
  t.equal(
    (await visit(unsubscribe, { method: 'POST', body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }) }))
      .status,
    200
  )
  const facts = await marks(id)
  t.match(facts, [
    { type: 'email.opened', data: { machine: false, sequence: 3 } },
    { type: 'email.clicked', data: { machine: false, url: TARGET, sequence: 4 } },
    { type: 'email.unsubscribed', data: { by: 'one-click', sequence: 5 } }
  ], 'durable before the answer')
  const callbacks = await hooks.waitFor(requests => requests.length >= 3)
  for (const { headers, body } of callbacks) {
    t.equal(headers['x-service-signature'], `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`)
  }
  const events = callbacks.map(({ body }) => JSON.parse(body.toString())).sort((a, b) =>
    a.data.sequence - b.data.sequence
  )
  const shared = { email_id: id, from: FROM, to, subject: 'Hello', tags: ['sale'] }
  t.match(events, [
    { type: 'email.opened', data: { ...shared, machine: false } },
    { type: 'email.clicked', data: { ...shared, machine: false, click: { url: TARGET } } },
    { type: 'email.unsubscribed', data: shared }
  ])
  t.strictSame(events.map(event => event.id), facts.map(fact => fact.id))
})

t.test('the pixel is the same for everybody; HEAD and what is not ours count for nothing', async t => {
  const { id, pixel } = await mailed()
  const invalid = [forged(pixel), `${pixel.slice(0, -10)}.gif`, '/o/', '/o/nothing', pixel.replace('/o/', '/o/x')]
  const answers = await Promise.all([...invalid, pixel].map(path => visit(path)))
  t.equal((await visit(pixel, { method: 'HEAD' })).status, 200)
  const bodies = await Promise.all(answers.map(async answer => Buffer.from(await answer.arrayBuffer()).toString('hex')))
  t.equal(new Set(bodies).size, 1)
  t.equal(bodies[0]!.length, 86, '43 bytes')
  t.match(Buffer.from(bodies[0]!, 'hex').subarray(0, 10).toString('latin1'), 'GIF89a\x01\x00\x01\x00')
  for (const answer of answers) {
    t.strictSame([answer.status, answer.headers.get('content-type'), answer.headers.get('referrer-policy')], [
      200,
      'image/gif',
      'no-referrer'
    ])
    t.match(answer.headers.get('cache-control'), /no-store/)
    t.match(answer.headers.get('x-request-id'), /^req_/)
    t.equal(answer.headers.get('x-ratelimit-limit'), null)
  }
  t.strictSame(typesOf(await marks(id)), ['email.opened'])
})

t.test('tokens of opens and unsubscribes survive what mail programs do to a URL', async t => {
  const { id, pixel, unsubscribe } = await mailed()
  for (const path of [pixel.replace('.gif', ''), `/o/${pixel.slice(3).toUpperCase()}`, `${pixel}.`, `${pixel}=`]) {
    t.equal((await visit(path)).status, 200)
  }
  t.equal((await marks(id)).length, 4)
  for (
    const path of [
      `/u/${unsubscribe.slice(3).toUpperCase()}`,
      `${unsubscribe}.`,
      `${unsubscribe}=`,
      `${unsubscribe}>`,
      `${unsubscribe}/`
    ]
  ) t.equal((await visit(path)).status, 200, path)
})

t.test('a click leads where the mail says and nowhere else', async t => {
  const { id, click, pixel, unsubscribe } = await mailed()
  const answer = await visit(click)
  t.equal(answer.status, 302)
  t.equal(answer.headers.get('location'), 'https://shop.example/sale?a=1&b=gr%C3%BC%C3%9Fe#top')
  t.match(answer.headers.get('cache-control'), /no-store/)
  t.equal(answer.headers.get('referrer-policy'), 'no-referrer')
  t.match(answer.headers.get('x-robots-tag'), /noindex/)
  t.equal(await answer.text(), '')
  const head = click.slice(0, 57)
  const base64 = (url: string) => Buffer.from(url).toString('base64url')
  const tampered = [
    head + base64('https://evil.example/'),
    `${head}${click.slice(57)}${base64('.evil.example')}`,
    head,
    '/c/',
    '/c/https://evil.example/',
    `${pixel.replace('/o/', '/c/').replace('.gif', '')}${base64('https://evil.example')}`,
    `${unsubscribe.replace('/u/', '/c/')}${click.slice(57)}`,
    `/c/?url=https://evil.example/`,
    `/c//evil.example`,
    `/c/%2f%2fevil.example`,
    `${forged(click)}?to=https://evil.example/`
  ]
  for (const path of tampered) {
    const refused = await visit(path)
    t.strictSame([refused.status, refused.headers.get('location')], [404, null], path)
    t.match(refused.headers.get('content-type'), 'text/html')
    t.notMatch(await refused.text(), 'evil.example')
  }
  // Ours by its MAC, yet no web page: none of ours is made so.
  const pointer = elsewhere.tokens.readClick(click.slice(3))!.pointer
  for (const url of ['javascript:alert(1)', 'data:text/html,x', 'ftp://files.example/', '//evil.example/', 'http://']) {
    t.equal((await visit(`/c/${elsewhere.tokens.clicks(pointer)(url)}`)).status, 404, url)
  }
  t.equal((await visit(`${click}.`)).status, 302, 'with a full stop behind it')
  const before = await visit(click, { method: 'HEAD' })
  t.strictSame(
    [before.status, before.headers.get('location')],
    [302, answer.headers.get('location')],
    'HEAD looks, and is not counted'
  )
  t.strictSame(typesOf(await marks(id)), ['email.clicked', 'email.clicked'])
})

t.test('programs are told from people', async t => {
  const { id, pixel, click } = await mailed()
  await visit(pixel, {
    headers: {
      'user-agent': 'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)'
    }
  })
  await visit(click, { headers: { 'sec-purpose': 'prefetch' } })
  await visit(click)
  t.strictSame(machines(await marks(id)), [true, true, false])
  const { body: early } = await app.send({ to: 'early@example.com', html: HTML })
  await app.settled(early.id, 'delivered')
  await visit(linksOf(await app.caught('early@example.com')).click)
  t.strictSame(machines(await marks(early.id)), [true], 'less than two seconds after it was delivered')
})

t.test('many at once: each is a fact of its own, with a number of its own', async t => {
  const { id, pixel, click } = await mailed()
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => visit(i % 2 === 0 ? pixel : click)))
  t.strictSame([...new Set(answers.map(({ status }) => status))].sort(), [200, 302])
  await until(async () => (await marks(id)).length === 20)
  t.strictSame((await marks(id)).map(({ data }) => data.sequence), Array.from({ length: 20 }, (_, i) => i + 3))
})

t.test('an occasion that is told again, since the first answer was lost, is no second one', async t => {
  const { id, click } = await mailed()
  const { pointer, url } = elsewhere.tokens.readClick(click.slice(3))!
  const ref = (await recipientRefOf(elsewhere.factLog, pointer))!
  const occasion = occasionNow(elsewhere.factLog)
  const tell = () =>
    recordEngagement(elsewhere.factLog, ref, { type: 'email.clicked', data: { url, machine: false } }, occasion)
  await Promise.all([tell(), tell(), tell()])
  t.equal(await tell(), false)
  t.strictSame((await marks(id)).map(fact => [fact.id, Date.parse(fact.time)]), [[occasion.id, occasion.atMs]])
})

t.test('the unsubscribe page asks, says whom it is about, and changes nothing', async t => {
  const { id, unsubscribe } = await mailed()
  const answer = await visit(unsubscribe)
  t.equal(answer.status, 200)
  const page = await answer.text()
  t.match(page, `a…@example.com`)
  t.match(page, 'sandbox.jetpost.test')
  t.notMatch(page, /ada\d/, 'not the whole address')
  t.match(
    page,
    /<html lang="en">.*<title>Unsubscribe<\/title>.*<form method="post">.*<button type="submit">Unsubscribe<\/button>/s
  )
  t.notMatch(page, /<script|https?:|src=/)
  t.equal(answer.headers.get('set-cookie'), null)
  t.match(
    answer.headers.get('content-security-policy'),
    /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/
  )
  t.equal(answer.headers.get('referrer-policy'), 'no-referrer')
  t.match(answer.headers.get('x-robots-tag'), /noindex/)
  t.match(answer.headers.get('cache-control'), /no-store/)
  const options = await visit(unsubscribe, { method: 'OPTIONS' })
  t.strictSame([options.status, options.headers.get('allow')], [204, 'GET, HEAD, POST, OPTIONS'])
  t.equal((await visit(unsubscribe, { method: 'HEAD' })).status, 200)
  t.strictSame(await marks(id), [])
})

t.test('8058 one click unsubscribes, whatever the body is, without a redirect; said twice, happened once', async t => {
  const form = new FormData()
  form.set('List-Unsubscribe', 'One-Click')
  const bodies: Record<string, RequestInit> = {
    'urlencoded': { body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }) },
    'multipart': { body: form },
    'nothing': {},
    'an empty form': { body: '', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    'text': { body: 'List-Unsubscribe=One-Click', headers: { 'content-type': 'text/plain' } },
    'json': { body: '{"broken', headers: { 'content-type': 'application/json' } },
    'a stream without a type': {
      body: new Blob(['List-Unsubscribe=One-Click']).stream(),
      duplex: 'half'
    } as RequestInit,
    'a type that is none': { body: 'x', headers: { 'content-type': 'nonsense' } },
    'a multipart without a boundary': {
      body: 'List-Unsubscribe=One-Click',
      headers: { 'content-type': 'multipart/form-data' }
    }
  }
  for (const [name, init] of Object.entries(bodies)) {
    const { id, unsubscribe } = await mailed()
    const answers = [
      await visit(unsubscribe, { method: 'POST', ...init }),
      await visit(unsubscribe, { method: 'POST' })
    ]
    for (const answer of answers) {
      t.strictSame(
        [answer.status, answer.headers.get('location'), answer.headers.get('set-cookie')],
        [200, null, null],
        name
      )
    }
    t.match(await marks(id), [{ type: 'email.unsubscribed', data: { by: 'one-click', report: null } }], name)
    t.equal((await marks(id)).length, 1, name)
  }
})

t.test('who was let in again and unsubscribes again gets no more mail, at once', async t => {
  const { id, to, unsubscribe } = await mailed()
  const standing = async () => (await app.request('GET', `/api/suppressions/${to}`)).status
  t.equal((await visit(unsubscribe, { method: 'POST' })).status, 200)
  for (const endMs = Date.now() + 10_000; await standing() !== 200 && Date.now() < endMs;) await sleep(50)
  t.equal((await app.request('DELETE', `/api/suppressions/${to}`)).status, 204)
  t.equal((await visit(unsubscribe, { method: 'POST' })).status, 200)
  t.equal(await standing(), 200)
  t.equal((await marks(id)).length, 1, 'one event')
})

t.test('the form of the page unsubscribes as a browser sends it, and says that it is done', async t => {
  const { id, unsubscribe } = await mailed()
  const [, name, value] = /<input type="hidden" name="([^"]+)" value="([^"]+)">/.exec(
    await (await visit(unsubscribe)).text()
  )!
  const answer = await visit(unsubscribe, { method: 'POST', body: new URLSearchParams({ [name!]: value! }) })
  t.equal(answer.status, 200)
  t.match(await answer.text(), 'You are unsubscribed')
  t.match(await marks(id), [{ type: 'email.unsubscribed', data: { by: 'page' } }])
})

t.test('what is not ours, not known, too big or not meant for a link has a page of its own', async t => {
  const { id, unsubscribe, pixel, click } = await mailed()
  const gone = `/u/${elsewhere.tokens.mint('unsubscribe', { email: newId('em', Date.now()), n: 0, request: 999_999 })}`
  const asked: Array<[number, string, RequestInit]> = [
    [404, forged(unsubscribe), {}],
    [404, forged(unsubscribe), { method: 'POST' }],
    [404, pixel.replace('/o/', '/u/').replace('.gif', ''), { method: 'POST' }],
    [404, '/u/', {}],
    [410, gone, {}],
    [410, gone, { method: 'POST' }],
    [413, unsubscribe, { method: 'POST', body: 'x'.repeat(17_000) }],
    [405, unsubscribe, { method: 'DELETE' }],
    [405, unsubscribe, { method: 'PUT', body: 'x' }],
    [405, pixel, { method: 'POST' }],
    [405, click, { method: 'POST' }]
  ]
  for (const [status, path, init] of asked) {
    const answer = await visit(path, init)
    t.equal(answer.status, status, `${init.method ?? 'GET'} ${path.slice(0, 12)}`)
    t.match(answer.headers.get('content-type'), 'text/html')
    t.equal(answer.headers.get('allow') !== null, status === 405)
    t.match(await answer.text(), /<h1>/)
  }
  t.strictSame(await marks(id), [])
})

t.test('an unsubscribe holds though the mail itself is gone from the log', async t => {
  const { id, unsubscribe } = await mailed()
  const { request } = elsewhere.tokens.read('unsubscribe', unsubscribe.slice(3))!
  await elsewhere.factLog.bus.nc.request('$JS.API.STREAM.MSG.DELETE.REQUESTS', JSON.stringify({ seq: request }))
  t.match(await (await visit(unsubscribe)).text(), /a…@example\.com.*sandbox\.jetpost\.test/s)
  t.equal((await visit(unsubscribe, { method: 'POST' })).status, 200)
  t.match(await marks(id), [{ type: 'email.unsubscribed', data: { by: 'one-click' } }])
})

t.test('mail that leaves with no URL for others to reach has no links of ours; what the catcher gets does', async t => {
  const mail = await startSink()
  t.teardown(() => mail.stop())
  const relayed = await startTestApp(t, { env: { SMTP_URL: mail.url, JETPOST_TRACKING_URL: '' } })
  const { body: { id } } = await relayed.send({ to: 'ada@example.com', html: HTML })
  await relayed.settled(id, 'delivered')
  const [message] = await mail.dots(1)
  t.notMatch(message!.raw.toString(), /localhost|List-Unsubscribe|<img/)
  await relayed.settled((await relayed.send({ to: 'delivered@sandbox.jetpost.test', html: HTML })).body.id, 'delivered')
  t.match(linksOf(await relayed.caught('delivered@sandbox.jetpost.test')), { click: /^\/c\// })
})

t.test('a filter that follows links before its server has said yes: both are recorded', async t => {
  const mail = await startSink()
  t.teardown(() => mail.stop())
  const account = freshAccount()
  const relayed = await startTestApp(t, { natsUrl: account.natsUrl, env: { SMTP_URL: mail.url } })
  const services = await openSecondServices(t, account.natsUrl)
  mail.replies('filtered@example.com', { dot: { reply: '250 2.0.0 clean', afterMs: 1500 } })
  const { body: { id } } = await relayed.send({ to: 'filtered@example.com', html: HTML })
  const [message] = await mail.dots(1)
  const { pixel, click } = linksOf(await PostalMime.parse(message!.raw))
  t.equal((await visit(click, {}, relayed)).status, 302)
  t.equal((await visit(pixel, {}, relayed)).status, 200)
  t.notSame(
    (await relayed.request('GET', `/api/emails/${id}`)).body.status,
    'delivered',
    'the server still thinks about it'
  )
  const { timeline } = await relayed.settled(id, 'delivered')
  t.strictSame(machines(await marks(id, services)), [true, true])
  t.equal(timeline.filter(({ type }: { type: string }) => type === 'email.delivered').length, 1)
  t.equal(mail.attempts('filtered@example.com'), 1)
})

t.test('without NATS, pixel and redirect work and are recorded later; an unsubscribe is not promised', async t => {
  const nats = await openOwnNats(t)
  const away = await startTestApp(t, { natsUrl: nats.natsUrl, clock })
  const services = await openSecondServices(t, nats.natsUrl)
  const { body: { id } } = await away.send({ html: HTML })
  await away.settled(id, 'delivered')
  const { pixel, click, unsubscribe } = linksOf(await away.caught('ada@example.com'))
  passedMs += 60_000
  await nats.kill()
  t.equal((await visit(pixel, {}, away)).status, 200)
  t.equal((await visit(click, {}, away)).status, 302)
  const beforeMs = clock.nowMs()
  const refused = await visit(unsubscribe, { method: 'POST' }, away)
  t.equal(refused.status, 503)
  t.match(refused.headers.get('retry-after'), /^[1-9]\d*$/)
  t.equal((await visit(unsubscribe, {}, away)).status, 503)
  t.match((await away.request('GET', '/metrics')).body, /jetpost_visits_waiting 2\n/)
  passedMs += 3_600_000
  await nats.start()
  await until(async () => (await marks(id, services).catch(() => [])).length === 2, 30_000)
  const facts = await marks(id, services)
  t.strictSame(typesOf(facts), ['email.opened', 'email.clicked'])
  t.ok(facts.every(({ time }) => Date.parse(time) < beforeMs))
  await until(async () => (await visit(unsubscribe, { method: 'POST' }, away)).status === 200)
  t.strictSame(typesOf(await marks(id, services)), ['email.opened', 'email.clicked', 'email.unsubscribed'])
  const { body: metrics } = await away.request('GET', '/metrics')
  t.match(metrics, /jetpost_visits_waiting 0\n/)
  t.notMatch(metrics, /jetpost_visits_dropped_total\{.*\} [1-9]/)
})
