import { request as ask, type IncomingMessage } from 'node:http'
import { gunzipSync } from 'node:zlib'
import type { Response } from 'playwright-core'
import t from 'tap'
import { openPage, signIn } from '../support/browser.ts'
import { csrfIn, visit } from '../support/dashboard.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { openLine } from '../support/sse.ts'
import { until } from '../support/wait.ts'

const app = await startTestApp(t)
const me = await visit(app)

/** The bytes of a page as they come, by a client that takes gzip. */
function fetchRaw (
  path: string,
  { cookie = me.cookie, method = 'GET', body = '' } = {}
): Promise<IncomingMessage & { bytes: Buffer }> {
  return new Promise((resolve, reject) => {
    const headers = {
      cookie,
      'accept-encoding': 'gzip, br',
      ...(body === '' ? {} : { 'content-type': 'application/x-www-form-urlencoded' })
    }
    const sent = ask(app.url + path, { method, headers }, response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk)).on(
        'end',
        () => resolve(Object.assign(response, { bytes: Buffer.concat(chunks) }))
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

t.test('a page is fetched once: it learns of nothing that it shows already', async t => {
  await app.settled((await app.send({ subject: 'Seen' })).body.id, 'delivered')
  const { page } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  const parts: Response[] = []
  page.on('response', response => {
    if (response.request().headers()['hx-request'] === 'true') parts.push(response)
  })
  const listening = page.waitForResponse(answer => answer.url().includes('/dashboard/live'))
  await page.goto('/dashboard/emails')
  await listening
  // Who does not say what it has seen is told to look: by then the page was told as well.
  const line = await openLine(app, me.cookie)
  t.teardown(() => line.close())
  await line.more(1)
  await page.evaluate("fetch('/dashboard/sessions').then(answer => answer.text())")
  await app.send({ subject: 'Later' })
  await page.getByRole('link', { name: 'Later' }).waitFor()
  const texts = await Promise.all(parts.map(async part => await part.text()))
  t.ok(texts.length > 0)
  t.strictSame(texts.filter(text => !text.includes('Later')).length, 0, 'no part was fetched that brings nothing new')
  const { html } = await me.get('/dashboard/emails')
  const [, url] = /data-live="([^"]+)"/.exec(html)!
  t.match(url, /^\/dashboard\/live\?emails=\d+&amp;deliveries=\d+$/)
})

t.test('a stream tells a page that is behind what it has not seen, and one that is not nothing', async t => {
  await app.settled((await app.send()).body.id, 'delivered')
  const liveUrl = async () =>
    /data-live="([^"]+)"/.exec((await me.get('/dashboard/emails')).html)![1]!.replaceAll('&amp;', '&')
  const before = await liveUrl()
  await app.settled((await app.send()).body.id, 'delivered')
  const now = await liveUrl()
  const [behind, abreast] = [await openLine(app, me.cookie, before), await openLine(app, me.cookie, now)]
  t.teardown(() => behind.close())
  t.teardown(() => abreast.close())
  await until(() => behind.events.includes('emails'))
  // The places of queues, which lie among the deliveries, move by themselves.
  t.strictSame(behind.events.filter(name => name === 'emails'), ['emails'])
  await app.send()
  await until(() => abreast.events.includes('emails'))
  t.equal(abreast.events.filter(name => name === 'emails').length, 1, 'only of the last one')
})

t.test('new rows do not move what is under the pointer', async t => {
  for (let i = 0; i < 3; i++) await app.send({ subject: `Row ${i}` })
  const { page } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto('/dashboard/emails')
  const link = page.getByRole('link', { name: 'Row 1' })
  await link.hover()
  const before = (await link.boundingBox())!
  for (let i = 0; i < 2; i++) {
    await app.send({ subject: `New ${i}` })
    await page.getByRole('button', { name: `${i + 1} new` }).waitFor()
    const after = (await link.boundingBox())!
    t.ok(Math.abs(after.y - before.y) < 1, `${before.y} → ${after.y}`)
  }
  await page.getByRole('button', { name: '2 new' }).click()
  for (const name of ['New 0', 'New 1']) await page.getByRole('link', { name }).waitFor()
})

t.test('pages are compressed, but none that holds a text of its request, and none with a new secret', async t => {
  const page = await fetchRaw('/dashboard/emails')
  t.equal(page.headers['content-encoding'], 'gzip')
  t.match(page.headers.vary, /accept-encoding/)
  const html = gunzipSync(page.bytes).toString()
  t.match(html, '</html>')
  t.ok(page.bytes.length < html.length / 2, `${page.bytes.length} of ${html.length} bytes`)
  t.equal((await me.get('/dashboard/emails', { 'accept-encoding': 'identity' })).headers.get('content-encoding'), null)

  for (const path of ['/dashboard/emails?q=secret', '/dashboard/sign-in?to=%2Fdashboard']) {
    const { headers, bytes } = await fetchRaw(path)
    t.equal(headers['content-encoding'], undefined, path)
    t.match(bytes.toString(), '</html>')
  }
  const body = new URLSearchParams({ csrf: me.csrf, name: '', domains: '*' }).toString()
  t.equal((await fetchRaw('/dashboard/keys', { method: 'POST', body })).headers['content-encoding'], undefined)

  const tokens = await Promise.all([1, 2].map(async () => csrfIn((await me.get('/dashboard/sessions')).html)!))
  t.not(tokens[0], tokens[1], 'a form token is another text in each page')
  for (const csrf of tokens) t.equal((await me.post('/dashboard/sessions/none', { csrf })).status, 404)
})

t.test('where the language of the browser is no language tag, charts are drawn', async t => {
  await app.settled((await app.send()).body.id, 'delivered')
  const { page, complaints } = await openPage(t, app.url)
  await page.addInitScript(
    "Object.defineProperty(navigator, 'language', { value: 'en-US@posix', configurable: true })"
  )
  await signIn(page, API_KEY)
  await page.goto('/dashboard/overview')
  await page.locator('#volume .u-legend').waitFor()
  t.strictSame(complaints, [])
})

t.test('on the sign-in page no line touches the next', async t => {
  const { page } = await openPage(t, app.url)
  await page.goto('/dashboard/sign-in')
  const boxes = await Promise.all(
    ['h1', 'label[for=field-key]', '#field-key', 'form[action="/dashboard/sign-in"] button', 'main > p.hint'].map(
      async selector => (await page.locator(selector).first().boundingBox())!
    )
  )
  const gaps = boxes.slice(1).map(({ y }, i) => Math.round(y - boxes[i]!.y - boxes[i]!.height))
  t.ok(gaps[0]! >= 16, `between title and form ${gaps[0]} px`)
  t.ok(gaps[2]! >= 12, `between field and button ${gaps[2]} px`)
  t.ok(gaps[3]! >= 16, `between button and hint ${gaps[3]} px`)
})
