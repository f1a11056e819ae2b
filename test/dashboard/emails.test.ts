import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { deliveries } from '#projections/deliveries/project.ts'
import { emailFacts } from '#streams/email/facts.ts'
import type { Email } from '#src/client/types.ts'
import { recipientsTable } from '#src/servers/dashboard/pages/email-page.ts'
import { timeline } from '#src/servers/dashboard/pages/email-timeline.ts'
import type { Visit } from '#src/servers/dashboard/visit.ts'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { visit } from '../support/dashboard.ts'
import { holdView } from '../support/held-projection.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const sink = await startSink()
t.teardown(() => sink.stop())
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { databaseUrl, env: { SMTP_URL: sink.url } })
const me = await visit(app)
const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString()
const idIn = (to: string | null) => /\/dashboard\/emails\/(em_\w+)$/.exec(to ?? '')?.[1] ?? ''

async function sent (fields: Record<string, unknown>, status: string): Promise<string> {
  const { body: { id } } = await app.send(fields)
  await app.settled(id, status)
  return id
}

async function suppress (address: string): Promise<void> {
  await app.request('POST', '/api/suppressions', { body: { address } })
}

async function forget (address: string, status: string): Promise<{ id: string, erasure: string }> {
  const id = await sent({ to: address }, status)
  return { id, erasure: (await app.request('POST', '/api/erasures', { body: { address } })).body.id }
}

t.test('the empty list shows how to send; the first email appears in it without a reload', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto('/dashboard/emails')
  t.match(await page.locator('.empty pre').textContent(), '/api/emails')
  t.equal(await page.getByRole('link', { name: 'API key' }).getAttribute('href'), '/dashboard/keys')
  await page.evaluate('window.stayed = true')
  await app.send({ subject: 'The first' })
  await page.getByRole('link', { name: 'The first' }).waitFor()
  await page.locator('#rows .badge.good', { hasText: 'delivered' }).waitFor()
  t.equal(await page.evaluate('window.stayed'), true, 'it was not loaded again')
  t.strictSame(complaints, [])
})

/** Begun early: it takes its time, beside whatever else happens. */
let forgotten: Promise<Array<{ id: string, erasure: string }>>

t.test('an email is sent from the page, becomes delivered without a reload, and its timeline tells how', async t => {
  await suppress('held@example.com')
  forgotten = Promise.all([forget('forgotten@example.com', 'delivered'), forget('held@example.com', 'suppressed')])
  sink.replies('slow@example.com', { dot: { reply: '250 2.0.0 kept as 77', afterMs: 3000 } })
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto('/dashboard/emails')
  await page.getByRole('link', { name: 'Send an email' }).click()
  t.equal(await page.getByLabel('From').inputValue(), FROM, 'the last sender')
  await page.getByLabel('To', { exact: true }).fill('"Slow, Ada" <slow@example.com>')
  await page.getByLabel('Subject').fill('<b>Sent</b> from the page')
  await page.getByLabel('HTML').fill('<p>Hello</p>')
  await page.getByLabel('Tags').fill('one, two')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.waitForURL('**/dashboard/emails/em_*')
  await page.evaluate('window.stayed = true')
  t.equal(await page.locator('h1').textContent(), '<b>Sent</b> from the page')
  await page.locator('.timeline .good', { hasText: 'Delivered to 127.0.0.1' }).waitFor()
  t.equal(await page.evaluate('window.stayed'), true, 'it was not loaded again')
  const line = await page.locator('.timeline .good').textContent()
  t.match(line, '250 2.0.0 kept as 77')
  t.match(line, /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC .* attempt 1/)
  t.equal(await page.locator('section.recipients .badge').textContent(), 'delivered')
  t.strictSame(complaints, [])
})

t.test('a form that is sent twice sends one email; changed, it asks first', async t => {
  const { html } = await me.get('/dashboard/emails/new')
  const once = /name="once" value="([^"]+)"/.exec(html)![1]!
  const fields = { once, from: FROM, to: 'twice@example.com', subject: 'Once', text: 'Once' }
  const first = await me.post('/dashboard/emails/new', fields)
  t.equal(first.status, 303)
  t.equal((await me.post('/dashboard/emails/new', fields)).to, first.to)
  const changed = await me.post('/dashboard/emails/new', { ...fields, subject: 'Another' })
  t.equal(changed.status, 422)
  t.match(changed.html, `<a href="${first.to}">`)
  t.match(changed.html, 'value="Another"')
  const again = /name="once" value="([^"]+)"/.exec(changed.html)![1]!
  const second = await me.post('/dashboard/emails/new', { ...fields, subject: 'Another', once: again })
  t.not(idIn(second.to), '')
  t.not(second.to, first.to)
})

t.test('what is wrong with an email stands at its field, with what was typed', async t => {
  const wrong = await me.post('/dashboard/emails/new', {
    from: FROM,
    to: 'ada@example.com, nobody',
    subject: 'x',
    text: 'x',
    scheduled_at: '2020-01-01T10:00'
  })
  t.equal(wrong.status, 422)
  t.match(wrong.html, /id="field-to"[^>]*aria-invalid="true"[^>]*value="ada@example.com, nobody"/)
  t.match(wrong.html, /id="field-scheduled_at"[^>]*value="2020-01-01T10:00"/)
  t.match(wrong.html, /id="field-to-fault">To \(entry 2\) must be an email address/)
  const { body: template } = await app.request('POST', '/api/templates', {
    body: { name: 'Greeting', subject: 'Hello {{name}}', text: 'Hello {{name}}' }
  })
  const filled = { from: FROM, to: 'ada@example.com', template_id: template.id }
  const broken = await me.post('/dashboard/emails/new', { ...filled, variables: '{name}' })
  t.equal(broken.status, 422)
  t.match(broken.html, 'id="field-variables-fault"')
  const foreign = await me.post('/dashboard/emails/new', { ...filled, from: 'ada@own.example', variables: '' })
  t.match(foreign.html, /id="field-from-fault">[^<]*Add the domain under Domains, or link it to the key under Keys\.</)
  const { to } = await me.post('/dashboard/emails/new', { ...filled, variables: '{"name": "Ada"}' })
  t.match((await me.get(to!)).html, '<h1>Hello Ada</h1>')
})

t.test('filters stand in the URL, find what they say, and a wrong one says so at its field', async t => {
  const id = await sent(
    { to: 'found@example.com', subject: 'Needle', tags: ['sewing'], metadata: { order: 7 } },
    'delivered'
  )
  const today = new Date().toISOString().slice(0, 10)
  const all = `q=needle&status=delivered&event=delivered&from=${FROM}&domain=sandbox.jetpost.test` +
    `&created_after=${today}&created_before=${today}`
  for (const query of ['q=needle', 'to=found@example.com', 'tag=sewing', 'metadata=order%3D7', all]) {
    const { status, html } = await me.get(`/dashboard/emails?${query}`)
    t.equal(status, 200, query)
    t.strictSame([...html.matchAll(/<a href="\/dashboard\/emails\/(em_\w+)"/g)].map(match => match[1]), [id], query)
  }
  const nothing = await me.get('/dashboard/emails?q=haystack')
  t.match(nothing.html, 'No results')
  t.match(nothing.html, '<a class="button" href="/dashboard/emails">Clear the filters</a>')
  const wrong = await me.get('/dashboard/emails?to=found&created_after=2026-02-31&metadata=order&q=needle')
  t.equal(wrong.status, 422)
  for (const [name, typed] of [['to', 'found'], ['created_after', '2026-02-31'], ['metadata', 'order']]) {
    t.match(wrong.html, new RegExp(`id="field-${name}"[^>]*aria-invalid="true"[^>]*value="${typed}"`))
  }
  t.match(wrong.html, 'value="needle"')
  t.equal((await me.get('/dashboard/emails?status=sent')).status, 422)
  t.equal(
    (await me.get('/dashboard/emails?q=a&status=&to=')).to,
    '/dashboard/emails?q=a',
    'what says nothing does not stay in the URL'
  )
  for (let n = 0; n < 40; n++) await app.send({ subject: 'Page', tags: ['many'] })
  await app.send({ subject: 'Page', tags: ['many'] })
  const first = await me.get('/dashboard/emails?tag=many')
  const older = /rel="next" href="([^"]+)"/.exec(first.html)![1]!.replaceAll('&amp;', '&')
  t.match(older, 'tag=many')
  t.equal((await me.get(older)).html.split('>Page</a>').length - 1, 1)
})

t.test('a scheduled email is rescheduled and canceled', async t => {
  const { body: { id } } = await app.send({
    subject: 'Later',
    to: ['a@example.com', 'b@example.com'],
    scheduled_at: inHours(5)
  })
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto(`/dashboard/emails/${id}`)
  await page.getByRole('link', { name: 'Reschedule' }).click()
  await page.getByLabel('Send at (UTC)').fill('2020-01-01T10:00')
  await page.getByRole('button', { name: 'Reschedule' }).click()
  await page.locator('#field-scheduled_at-fault').waitFor()
  const moved = inHours(7).slice(0, 16)
  await page.getByLabel('Send at (UTC)').fill(moved)
  await page.getByRole('button', { name: 'Reschedule' }).click()
  await page.getByRole('status').filter({ hasText: `Rescheduled to ${moved.replace('T', ' ')}` }).waitFor()
  await page.getByRole('button', { name: 'Cancel email' }).click()
  const dialog = page.getByRole('dialog')
  t.match(await dialog.textContent(), 'This email will not be sent to a@example.com, b@example.com.')
  await dialog.getByRole('button', { name: 'Cancel email' }).click()
  await page.getByRole('status').filter({ hasText: 'Canceled for 2 recipients.' }).waitFor()
  t.equal(await page.getByRole('button', { name: 'Cancel email' }).count(), 0)
  t.strictSame(await page.locator('.timeline strong').allTextContents(), [
    'Accepted',
    'Rescheduled',
    'Rescheduled',
    'Canceled',
    'Canceled'
  ])
  t.strictSame(complaints, [])
})

t.test('a bounced email shows why, is retried, and its recipient is suppressed', async t => {
  sink.replies('gone@example.com', { rcpt: '550 5.7.1 <script>alert(1)</script> not wanted' })
  const id = await sent({ to: 'gone@example.com' }, 'bounced')
  const url = `/dashboard/emails/${id}`
  const { html } = await me.get(url)
  t.match(html, '550 5.7.1 &lt;script&gt;alert(1)&lt;/script&gt; not wanted')
  t.match(html, 'Bounced by 127.0.0.1')
  t.notMatch(html, 'Cancel email')
  t.match(html, `action="${url}/suppress"`)
  t.equal((await me.post(`${url}/retry`)).to, url)
  await app.settled(id, 'delivered')
  const after = await me.get(url)
  t.match(after.html, 'Retry requested')
  t.notMatch(after.html, '/retry"')
  t.equal((await me.post(`${url}/retry`)).status, 409)
  t.equal((await me.post(`${url}/suppress`, { n: '0' })).to, url)
  t.equal((await app.request('GET', '/api/suppressions/gone@example.com')).status, 200)
  t.equal((await me.post(`${url}/suppress`, { n: '1' })).status, 404)
})

t.test('suppressed recipients are marked, and only others can be suppressed', async t => {
  sink.replies('unknown@example.com', { rcpt: '550 5.1.1 no such user' })
  const shown = async (to: string, status: string) =>
    (await me.get(`/dashboard/emails/${await sent({ to }, status)}`)).html
  const link = (address: string) =>
    `<a href="/dashboard/suppressions?address=${encodeURIComponent(address)}">Suppressed</a>`
  const bounced = await sent({ to: 'unknown@example.com' }, 'bounced')
  await until(async () => (await app.request('GET', '/api/suppressions/unknown@example.com')).status === 200)
  for (
    const html of [
      (await me.get(`/dashboard/emails/${bounced}`)).html,
      await shown('unknown@example.com', 'suppressed'),
      await shown('gone@example.com', 'suppressed')
    ]
  ) {
    t.match(html, /<a href="\/dashboard\/suppressions\?address=\w+%40example\.com">Suppressed<\/a>/)
    t.notMatch(html, '/suppress"')
  }
  t.match(
    (await me.get(`/dashboard/emails/${bounced}?as_of=${new Date().toISOString()}`)).html,
    'data-name="Events"></td>',
    'not of the past'
  )
  await app.request('DELETE', '/api/suppressions/unknown@example.com')
  const lifted = await me.get(`/dashboard/emails/${bounced}`)
  t.match(lifted.html, '/suppress"')
  t.notMatch(lifted.html, link('unknown@example.com'))
  for (const name of ['bounced', 'suppressed']) {
    const html = await shown(`${name}@sandbox.jetpost.test`, name)
    t.match(html, 'Test address')
    t.notMatch(html, /\/suppress"|\/dashboard\/suppressions\?/)
  }
})

t.test('the slider shows the email as it was known, and the way back', async t => {
  const id = await sent({ to: ['one@example.com', 'bounced@sandbox.jetpost.test'] }, 'partial')
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto(`/dashboard/emails/${id}`)
  await page.getByRole('slider').focus()
  await page.keyboard.press('Home')
  await page.waitForURL(/as_of=/)
  t.match(await page.getByRole('note').textContent(), 'You see this email as of')
  t.strictSame(await page.locator('section.recipients .badge').allTextContents(), ['queued', 'queued'])
  t.strictSame(await page.locator('.timeline strong').allTextContents(), ['Accepted'])
  t.equal(await page.getByRole('button', { name: 'Retry' }).count(), 0, 'nothing can be done in the past')
  await page.getByRole('slider').press('ArrowRight')
  await page.waitForURL(url => !url.search.includes('step'))
  await page.locator('.timeline li').nth(1).waitFor()
  t.equal(await page.evaluate('document.activeElement.id'), 'step')
  await page.keyboard.press('End')
  await page.waitForURL(url => url.search === '')
  t.equal(
    await page.evaluate('document.activeElement.id'),
    'step',
    'focus stays where it was, at the last step as well'
  )
  t.equal(await page.evaluate('scrollY'), 0, 'and what is above is still to be seen')
  await page.keyboard.press('Home')
  await page.getByRole('link', { name: 'Back to now' }).click()
  await page.waitForURL(url => url.search === '')
  await page.getByRole('button', { name: 'Retry' }).waitFor()
  t.strictSame(complaints, [])
  // Without a script it is a form of its own.
  const { body: { timeline } } = await app.request('GET', `/api/emails/${id}`)
  t.match((await me.get(`/dashboard/emails/${id}?step=1`)).to, `as_of=${encodeURIComponent(timeline[0].time)}`)
  t.equal((await me.get(`/dashboard/emails/${id}?step=99`)).to, `/dashboard/emails/${id}#step`)
  t.equal(
    (await me.get(`/dashboard/emails/${id}?step=2&last=2`)).to,
    `/dashboard/emails/${id}#step`,
    'the last step that there was is now, whatever came since'
  )
  t.equal((await me.get(`/dashboard/emails/${id}?as_of=2020-01-01T00:00:00Z`)).status, 404)
  t.equal((await me.get(`/dashboard/emails/${id}?as_of=yesterday`)).status, 422)
})

t.test('mail in the preview runs nothing, reaches nothing, and loads images on request', async t => {
  const seen: string[] = []
  const server = createServer((request, response) => {
    seen.push(request.url!)
    response.setHeader('content-type', 'image/svg+xml').end('<svg xmlns="http://www.w3.org/2000/svg"/>')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const remote = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const evil = `<p id="hello">Hello</p><script>top.broken = 1; parent.document.title = 'broken'</script>
<img src=x onerror="top.location='${remote}/left'"><img src="${remote}/picture">
<svg onload="fetch('${remote}/fetched')"></svg>
<meta http-equiv="refresh" content="0;url=${remote}/refreshed"><link rel="stylesheet" href="${remote}/style">
<iframe src="${remote}/frame"></iframe><a href="${app.url}/dashboard/keys" target="_top" id="link">Out</a>
<form action="${remote}/posted" target="_top"><button id="send">Send</button></form>
<img src="cid:dot" id="dot">`
  const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  const attachments = [{ filename: 'dot.png', content: pixel, content_id: 'dot' }]
  const id = await sent({ html: evil, text: '<script>top.broken = 1</script>', attachments }, 'delivered')
  const { page } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto(`/dashboard/emails/${id}?tab=preview`)
  const mail = page.frameLocator('iframe')
  await mail.locator('#hello').waitFor()
  t.match(await mail.locator('#dot').getAttribute('src'), /^data:image\/png;base64,iVBOR/)
  await mail.locator('#link').click()
  await mail.locator('#send').click()
  t.equal(await page.evaluate('window.broken'), undefined)
  t.match(page.url(), '?tab=preview')
  t.strictSame(seen, [])
  await page.getByRole('link', { name: 'Load images' }).click()
  await until(() => seen.length > 0)
  t.strictSame(seen, ['/picture'])
  t.match(page.url(), 'images=1')
  t.match(await page.title(), 'Hello')
  await page.evaluate("document.querySelector('iframe').src = '/dashboard/emails/em_none/frame'")
  await mail.getByText('It does not exist in this account').waitFor()
  const frame = await me.get(`/dashboard/emails/${id}/frame`)
  t.match(
    frame.headers.get('content-security-policy'),
    /^sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none';/
  )
  t.notMatch(frame.headers.get('content-security-policy'), 'http')
})

t.test('source, details and webhook deliveries', async t => {
  await app.request('POST', '/api/webhooks', { body: { url: 'http://127.0.0.1:9/hook', events: ['email.delivered'] } })
  const extras = {
    tags: ['t1'],
    metadata: { order: 7 },
    headers: { 'X-Own': 'mine' },
    attachments: [{ filename: 'a.txt', content: 'aGVsbG8=' }]
  }
  const id = await sent({ to: ['one@example.com', 'two@example.com'], subject: 'All of it', ...extras }, 'delivered')
  const url = `/dashboard/emails/${id}`
  t.match((await me.get(`${url}?tab=source&recipient=1`)).html, 'Subject: All of it')
  const source = await me.get(`${url}/source?recipient=1`)
  t.match(source.headers.get('content-disposition'), `attachment; filename="${id}-1.eml"`)
  t.match(source.html, 'two@example.com')
  const details = await me.get(`${url}?tab=details`)
  for (const text of ['X-Own', 'a.txt', '<code>order</code>', 'tag=t1', 'Copy the Message-ID']) {
    t.match(details.html, text)
  }
  await until(async () => (await me.get(`${url}?tab=webhooks`)).html.includes('/dashboard/webhooks/deliveries/whd_'))
  const rows = async (path: string) =>
    (await me.get(path)).html.split('<tbody>')[1]!.split('</tbody>')[0]!.replaceAll(/<time.*?<\/time>/g, '')
  await until(async () => /retrying.*Connection refused/s.test(await rows(`${url}?tab=webhooks`)))
  t.match(await rows(`${url}?tab=webhooks`), '>http://127.0.0.1:9/hook</a>')
  await until(async () =>
    await rows(`${url}?tab=webhooks`) === await rows(`/dashboard/webhooks/deliveries?email=${id}`)
  )
  t.match(await me.get(`${url}?tab=webhooks&cursor=x`), {
    status: 200,
    html: /role="alert">This link to a page of the list is not valid/
  })
  const letGo = await holdView(databaseUrl, deliveries)
  t.match(await me.get(`${url}?tab=webhooks`), { status: 200, html: /The list of deliveries is unavailable/ })
  await letGo()
  const { page } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  for (const tab of ['source', 'details', 'webhooks']) {
    await page.goto(`${url}?tab=${tab}`)
  }
})

t.test('an email to very many is shown in parts', async t => {
  const to = Array.from({ length: 50 }, (_, n) => `r${n}@example.com`)
  sink.replies('r41@example.com', { dot: '451 4.7.1 come back later' })
  const url = `/dashboard/emails/${await sent({ to }, 'deferred')}`
  const count = async (query: string, text: string) => (await me.get(url + query)).html.split(text).length - 1
  const first = await me.get(url)
  t.equal(first.html.split('data-name="Recipient"').length - 1, 10)
  t.match(first.html, /data-name="Recipient"><a [^>]*>r41@example.com/, 'who did not get it comes first')
  t.equal(await count('?all=1', 'data-name="Recipient"'), 50)
  t.match(first.html, '52 to 101 of 101')
  t.equal(await count('', '<p class="entry">'), 50)
  t.equal(await count('?until=1', '<p class="entry">'), 1)
  t.equal(await count('?recipient=41', '<p class="entry">'), 3, 'accepted, tried, put off')
})

t.test('every fact of a timeline has its text', async t => {
  const { body } = await app.request('GET', '/api/emails?limit=1')
  const email = (await app.request('GET', `/api/emails/${body.data[0].id}`)).body as Email
  const visit = { url: '/', query: new URLSearchParams() } as Visit
  const told = (entry: object) =>
    timeline(visit, {
      email: { ...email, timeline: [{ type: '', time: email.created_at, ...entry }] },
      n: null,
      momentOf: () => undefined
    }).text
  // Those that hold no news of a recipient are no part of one.
  const types = emailFacts.map(({ name }) => name).filter(name =>
    !['email.recorded', 'email.moved', 'request.claimed'].includes(name)
  )
  for (const type of types) {
    t.notMatch(told({ type, attempt: 1 }), /undefined|null/, type)
    t.match(told({ type, attempt: 1 }), /<strong>[A-Z]/, type)
  }
  const deferred = told({
    type: 'email.deferred',
    host: 'mx.example.net',
    class: 'mailboxfull',
    next_attempt_at: '2026-11-22T10:00:00.000Z',
    smtp_code: 452,
    response: '452 4.2.2 Full'
  })
  const inOrder = [
    'Deferred by mx\\.example\\.net',
    'The mailbox is full\\. Next attempt at 2026-11-22 10:00:00\\.000 UTC\\.',
    '<code>452 4\\.2\\.2 Full'
  ]
  t.match(deferred, new RegExp(inOrder.join('.*'), 's'))
  t.match(
    told({ type: 'email.in_doubt', cause: 'line', held: true }),
    'The server may have accepted it. Jetpost does not send it again by itself.'
  )
  t.match(
    told({ type: 'email.bounced', report: 'in_1', host: 'mx.example.net', class: 'userunknown', status: '5.1.1' }),
    'A bounce report says that it was rejected by mx.example.net. The mailbox does not exist.'
  )
  t.match(
    told({
      type: 'email.delivered',
      host: 'mx.example.net',
      smtp_code: 250,
      response: '',
      tls: { version: 'TLSv1.3', cipher: 'AES', verified: false },
      ms: 1234
    }),
    /<code>250<.*TLSv1\.3, AES, certificate not verified · 1\.2 s to the reply/s
  )
  const plain = { type: 'email.delivered', host: 'mx.example.net', address: '192.0.2.1', response: '250 ok', tls: null }
  for (
    const [why, words] of [
      ['not_offered', ', which the server does not offer'],
      ['refused', ', which the server refused'],
      ['broken', ', which failed with this server'],
      ['policy', ', which SMTP_URL turns off'],
      [undefined, '']
    ]
  ) t.match(told({ ...plain, plain: why }), new RegExp(`192\\.0\\.2\\.1 · without TLS${words}<`))
  const [recipient] = email.recipients
  const overdue = {
    ...email,
    recipients: [{ ...recipient!, status: 'deferred' as const, next_attempt_at: '2026-01-01T00:00:00.000Z' }]
  }
  const recipientsOf = (standings: Map<string, []> | null) =>
    recipientsTable({ ...visit, nowMs: Date.now() }, overdue, standings).text
  t.match(recipientsOf(new Map([[recipient!.address, []]])), 'next attempt due')
  t.match(recipientsOf(null), /next attempt <time/, 'as it was known')
  t.match(
    told({ type: 'email.clicked', url: 'https://a.example/?<b>', machine: true }),
    /Clicked by a program.*https:\/\/a\.example\/\?&lt;b&gt;/s
  )
})

t.test('expired content and erased recipients say so', async t => {
  const [{ id, erasure }, held] = await forgotten as [
    Awaited<ReturnType<typeof forget>>,
    Awaited<ReturnType<typeof forget>>
  ]
  for (const each of [erasure, held.erasure]) {
    await until(async () => (await app.request('GET', `/api/erasures/${each}`)).body.completed_at !== null)
  }
  t.notMatch(
    (await me.get(`/dashboard/emails/${held.id}`)).html,
    /erased%40|suppress"/,
    'nobody is left to be suppressed'
  )
  const url = `/dashboard/emails/${id}`
  const { html } = await me.get(url)
  t.match(html, '(erased)')
  t.match(html, 'The address and all texts about it were deleted')
  t.notMatch(html, 'forgotten@example.com')
  for (const tab of ['preview', 'source']) t.match((await me.get(`${url}?tab=${tab}`)).html, 'has expired')
  for (const part of ['frame', 'source']) t.equal((await me.get(`${url}/${part}`)).status, 404)
})

t.test("another account's email is nobody's", async t => {
  const id = await sent({ subject: 'Secret' }, 'delivered')
  const other = await visit(app, await app.newAccountKey())
  for (
    const path of [
      '',
      '?tab=preview',
      '?tab=source',
      '?tab=webhooks',
      '?step=1',
      '?as_of=2026-01-01T00:00:00Z',
      '/frame',
      '/source',
      '/reschedule'
    ]
  ) {
    const { status, html } = await other.get(`/dashboard/emails/${id}${path}`)
    t.equal(status, 404, path)
    t.notMatch(html, 'Secret')
  }
  for (const act of ['cancel', 'retry', 'reschedule', 'suppress']) {
    t.equal((await other.post(`/dashboard/emails/${id}/${act}`, { scheduled_at: inHours(1), n: '0' })).status, 404, act)
  }
  t.match((await other.get('/dashboard/emails')).html, 'No emails yet')
})

t.test('on a phone nothing is cut off, and the keyboard alone leads from the list to a part of an email', async t => {
  const id = await sent({
    to: ['a-rather-long-address-of-somebody@example.com', 'bounced@sandbox.jetpost.test'],
    subject: 'Unbreakable'.repeat(12)
  }, 'partial')
  const { page } = await openPage(t, app.url, { width: 390, height: 844 })
  await signIn(page, API_KEY)
  for (
    const path of [
      '',
      '/new',
      `/${id}`,
      `/${id}?tab=preview`,
      `/${id}?tab=source`,
      `/${id}?tab=details`,
      `/${id}?tab=webhooks`,
      '?to=x'
    ]
  ) {
    await page.goto(`/dashboard/emails${path}`)
    t.ok(await page.evaluate('document.documentElement.scrollWidth <= document.documentElement.clientWidth'), path)
  }
  await page.goto('/dashboard/emails')
  await page.keyboard.press('/')
  await page.keyboard.type('unbreakable')
  await page.keyboard.press('Enter')
  await page.waitForURL(/q=unbreakable/)
  await tabTo(page, 'Unbreakable')
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/${id}`)
  await tabTo(page, 'Details')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Request' }).waitFor()
})

/** As a hand without a mouse would. */
async function tabTo (page: Page, text: string): Promise<void> {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab')
    if ((await page.evaluate<string>('document.activeElement.textContent')).startsWith(text)) return
  }
  throw new Error(`no way to ${text}`)
}
