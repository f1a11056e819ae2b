import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createListener } from 'node:net'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { emails } from '#projections/emails/project.ts'
import { openPage, signIn } from '../support/browser.ts'
import { visit } from '../support/dashboard.ts'
import { holdView } from '../support/held-projection.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { handIn, letter } from '../support/inbound-peer.ts'
import { freshDatabase } from '../support/servers.ts'

const port = await freePort()
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { databaseUrl, env: { JETPOST_CATCHER_PORT: String(port) } })
const visitor = await visit(app)
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** Sends a mail that is caught; resolves to its id in the mailbox. */
async function caught (to: string, fields: Record<string, unknown>): Promise<string> {
  const { body } = await app.send({ to, track: { opens: false, clicks: false }, ...fields })
  await app.settled(body.id, 'delivered')
  const { body: list } = await app.request('GET', '/catcher.json')
  return list.data.find((mail: { to: string[], id: string }) => mail.to.includes(to)).id
}

async function freePort (): Promise<number> {
  const probe = createListener().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port: free } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return free
}

/** What any program on this machine may hand in; resolves to its id in the mailbox. */
async function handed (raw: string): Promise<string> {
  return /caught as (msg_\w+)/.exec(await handIn(port, { from: 'odd@example.com', to: 'ada@example.com', raw }))![1]!
}

t.test('mail that is caught shows up by itself, and is read part by part', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto('/dashboard/mailbox')
  await page.getByText('No mail yet').waitFor()
  const files = [{ filename: 'dot.png', content: PIXEL, content_id: 'dot' }, {
    filename: 'Übersicht "1".txt',
    content: Buffer.from('Ink: 3.10').toString('base64')
  }]
  const html =
    '<h1>Thank you</h1><p style="color: teal">Your order is on its way.</p><img id="dot" src="cid:dot" alt="dot">'
  const sent = await app.send({
    subject: 'Order 1042',
    html,
    text: 'Thank you',
    attachments: files,
    track: { opens: false }
  })
  const row = page.getByRole('row', { name: /Order 1042/ })
  await row.waitFor()
  t.match(await row.textContent(), /ada@example\.com.*kB.*ago|now/)
  await row.getByRole('link').click()
  const frame = page.frameLocator('iframe')
  await frame.getByRole('heading', { name: 'Thank you' }).waitFor()
  t.match(
    await frame.locator('#dot').getAttribute('src'),
    /^data:image\/png;base64,/,
    'pictures that the mail brings are shown'
  )
  const saving = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Übersicht "1".txt' }).click()
  t.equal((await saving).suggestedFilename(), 'Übersicht _1_.txt')
  await page.getByRole('link', { name: 'Text', exact: true }).click()
  await page.getByRole('region', { name: 'Text of the mail' }).getByText('Thank you').waitFor()
  await page.getByRole('link', { name: 'Headers' }).click()
  await page.getByRole('row', { name: /message-id/ }).waitFor()
  await page.getByRole('link', { name: 'Source' }).click()
  await page.getByText('Content-Type: multipart/mixed').waitFor()
  t.equal(
    await page.getByRole('link', { name: 'Open the email' }).getAttribute('href'),
    `/dashboard/emails/${sent.body.id}`
  )
  t.strictSame(complaints, [])
})

t.test('the list says who a mail says it is from, the mail itself what its envelope says', async t => {
  const id = await handed(
    'From: Grace Hopper <grace@example.org>\r\nTo: ada@example.com\r\nSubject: By return\r\n\r\nHello\r\n'
  )
  const { html } = await visitor.get('/dashboard/mailbox')
  t.match(html, 'grace@example.org')
  t.notMatch(html, 'odd@example.com')
  t.match((await visitor.get(`/dashboard/mailbox/${id}`)).html, 'odd@example.com')
})

t.test('a hostile mail runs nothing, reaches nothing, and loads images only on request', async t => {
  const asked: string[] = []
  const elsewhere = createServer((request, response) => {
    asked.push(request.url!)
    response.end()
  }).listen(0, '127.0.0.1')
  t.teardown(() => void elsewhere.close().closeAllConnections())
  await once(elsewhere, 'listening')
  const url = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`
  const html = `<script>parent.document.title = 'taken'; fetch('${url}/fetch')</script>
<img src=x onerror="top.document.title = 'taken'"><iframe src="${url}/frame"></iframe>
<iframe srcdoc="<script>top.document.title = 'taken'</script>"></iframe><object data="${url}/object"></object>
<video src="${url}/video" autoplay></video><link rel="stylesheet" href="${url}/style">
<link rel="prefetch" href="${url}/prefetch"><meta http-equiv="refresh" content="0;url=${url}/refresh">
<img src="${url}/pixel"><a href="${url}/top" target="_top" id="top">over it</a>
<a href="${url}/beside" id="out">beside it</a>
<form action="${url}/form"><button id="send">send</button></form><p id="end">the end</p>`
  const id = await caught('hostile@example.com', {
    subject: '<script>alert(1)</script>',
    html,
    text: '</pre><script>alert(1)</script>',
    headers: { 'X-Evil': '<img src=x onerror=alert(1)>' }
  })
  const { page, context } = await openPage(t, app.url)
  const dialogs: string[] = []
  page.on('dialog', async dialog => {
    dialogs.push(dialog.message())
    await dialog.dismiss()
  })
  await signIn(page, API_KEY)
  await page.goto(`/dashboard/mailbox/${id}`)
  const frame = page.frameLocator('iframe.frame')
  await frame.locator('#end').waitFor()
  await frame.locator('#send').click()
  await frame.locator('#top').click()
  t.strictSame(asked, [])
  const opening = context.waitForEvent('page')
  await frame.locator('#out').click()
  const beside = await opening
  t.equal(await beside.evaluate('opener'), null, 'a link opens beside the page, and knows nothing of it')
  await beside.close()
  t.equal(new URL(page.url()).pathname, `/dashboard/mailbox/${id}`)
  t.equal(await page.title(), '<script>alert(1)</script> · Jetpost')
  asked.length = 0
  await page.getByRole('link', { name: 'Load images' }).click()
  await page.getByRole('link', { name: 'Block images' }).waitFor()
  await frame.locator('#end').waitFor()
  for (const endMs = Date.now() + 5000; asked.length < 1 && Date.now() < endMs;) await page.waitForTimeout(20)
  t.strictSame(asked, ['/pixel'])
  for (const view of ['text', 'headers', 'source']) await page.goto(`/dashboard/mailbox/${id}?view=${view}`)
  t.strictSame(dialogs, [])

  const alone = await visitor.get(`/dashboard/mailbox/${id}/html`)
  t.match(
    alone.headers.get('content-security-policy'),
    /^sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'/
  )
  const source = await visitor.get(`/dashboard/mailbox/${id}/source`)
  t.equal(source.headers.get('content-disposition')?.startsWith('attachment'), true)
  t.match(source.html, 'X-Evil: <img src=x')
})

t.test('only for the account that runs the installation, and only where there is a mailbox', async t => {
  const id = await caught('private@example.com', {})
  const other = await visit(app, await app.newAccountKey())
  for (const path of ['', `/${id}`, `/${id}/html`, `/${id}/source`, `/${id}/files/0`]) {
    t.equal((await other.get(`/dashboard/mailbox${path}`)).status, 404, path)
  }
  t.notMatch((await other.get('/dashboard/domains')).html, '/dashboard/mailbox')
  for (const path of ['/msg_none', `/${id}/files/0`, `/${id}/files/x`]) {
    t.equal((await visitor.get(`/dashboard/mailbox${path}`)).status, 404, path)
  }
})

t.test('older mail is a page further, and what is wide makes no page wider than a phone', async t => {
  const emails = Array.from(
    { length: 52 },
    (_, i) => ({ from: 'hello@sandbox.jetpost.test', to: `many${i}@example.com`, subject: `Many ${i}`, text: 'Hello' })
  )
  const { body } = await app.request('POST', '/api/emails/batch', { body: { emails } })
  for (const { id } of body.data) await app.settled(id, 'delivered')
  const first = (await visitor.get('/dashboard/mailbox')).html
  t.equal([...first.matchAll(/href="\/dashboard\/mailbox\/msg_/g)].length, 50)
  const next = /rel="next" href="([^"]+)"/.exec(first)![1]!
  t.match((await visitor.get(next)).html, 'Order 1042')
  const { page } = await openPage(t, app.url, { width: 390, dark: true })
  await signIn(page, API_KEY)
  const id = await caught('wide@example.com', {
    subject: `A ${'very'.repeat(40)} long subject`,
    html: '<table width="1200"><tr><td>wide</td></tr></table>'
  })
  for (const path of ['', `/${id}`, `/${id}?view=headers`, `/${id}?view=source`]) {
    await page.goto(`/dashboard/mailbox${path}`)
    t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), path)
  }
})

t.test('mail that cannot be parsed is there with its source, and the others beside it', async t => {
  const wide = await handed(`Subject: Wide\r\n${`X-Long: ${'x'.repeat(900)}\r\n`.repeat(2500)}\r\nHello\r\n`)
  const deep = await handed(
    Array.from(
      { length: 300 },
      (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\r\n${i === 0 ? 'Subject: Deep\r\n' : ''}\r\n--b${i}\r\n`
    ).join('')
  )
  await handed(letter('Plain'))
  const { status, html } = await visitor.get('/dashboard/mailbox')
  t.equal(status, 200)
  for (const subject of ['(unreadable)', 'Deep', 'Plain']) t.match(html, `>${subject}</a>`)
  for (
    const [id, title, source] of [[wide, '(unreadable)', 'Subject: Wide'], [deep, 'Deep', 'boundary=b299']] as const
  ) {
    const page = await visitor.get(`/dashboard/mailbox/${id}`)
    t.match(page, { status: 200, html: /This mail cannot be parsed/ })
    t.match(page.html, `<h1>${title}</h1>`)
    t.match(page.html, source)
  }
})

t.test('a source is read as the UTF-8 that it is, and a name is cut between characters', async t => {
  const file = 'Content-Type: text/plain\r\nContent-Disposition: attachment; filename="' + '🎉'.repeat(100) +
    'x"\r\n\r\nHello\r\n'
  const id = await handed(`Subject: Grüße\r\n${file}`)
  t.match((await visitor.get(`/dashboard/mailbox/${id}?view=source`)).html, 'Subject: Grüße')
  const saved = await visitor.get(`/dashboard/mailbox/${id}/files/0`)
  t.equal(saved.status, 200)
  t.match(saved.headers.get('content-disposition'), `filename*=UTF-8''%EF%BF%BD${encodeURIComponent('🎉'.repeat(99))}x`)
})

t.test('while the projection emails does not answer, the mailbox works without links to emails', async t => {
  const id = await caught('behind@example.com', { subject: 'Behind' })
  t.match(await visitor.get(`/dashboard/mailbox/${id}`), { status: 200, html: /Open the email/ })
  const letGo = await holdView(databaseUrl, emails)
  const { status, html } = await visitor.get(`/dashboard/mailbox/${id}`)
  await letGo()
  t.equal(status, 200)
  t.match(html, '<h1>Behind</h1>')
  t.notMatch(html, 'Open the email')
})
