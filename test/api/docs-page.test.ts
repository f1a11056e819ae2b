import t from 'tap'
import { openPage, type Page } from '../support/browser.ts'
import { API_KEY, startTestApp } from '../support/app.ts'

/** As a start without settings has it: the service prints 127.0.0.1, and its public URL is another. */
const app = await startTestApp(t, { env: { JETPOST_PUBLIC_URL: 'http://localhost:1' } })
const { body: document } = await app.request('GET', '/openapi.json', { key: null })

t.test('/docs shows it with files of our own, under a policy that allows no others', async t => {
  const page = await app.request('GET', '/docs/', { key: null })
  t.equal(page.status, 200)
  t.match(page.headers.get('content-security-policy'), /default-src 'none'; script-src 'self';/)
  t.ok(page.headers.get('x-request-id'))
  t.notMatch(page.body, /https?:\/\/|<script>|<style>/)
  const files = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) =>
    new URL(path, `${app.url}/docs/`).pathname
  )
  t.ok(files.length >= 5)
  for (const file of files) t.equal((await app.request('GET', file, { key: null })).status, 200, file)
  const { body: { servers, ...shown } } = await app.request('GET', '/docs/json', { key: null })
  t.strictSame({ ...shown, servers: document.servers }, document, 'the page shows this very document')
  t.strictSame(servers, [{ url: '..', description: 'This server' }], 'and asks where it came from')
})

/** Opens an operation on the page, and its form. */
async function tryOut (page: Page, operation: string): Promise<void> {
  const block = page.locator(`[id$="-${operation}"]`)
  await block.locator('.opblock-summary-control').click()
  await block.getByRole('button', { name: 'Try it out' }).click()
}

/** What the page shows as the server's answer. */
async function execute (page: Page): Promise<{ status: number, body: any, url: string }> {
  await page.getByRole('button', { name: 'Execute' }).click()
  const answer = page.locator('.live-responses-table')
  await answer.waitFor()
  return {
    status: Number(await answer.locator('tbody .response-col_status').first().innerText()),
    body: JSON.parse(await answer.locator('.response-col_description .highlight-code code').first().innerText()),
    url: await page.locator('.request-url pre').innerText()
  }
}

for (const host of ['127.0.0.1', 'localhost']) {
  t.test(`"Try it out" at ${host} asks that very server, and its form asks for all emails`, async t => {
    const { body: { id } } = await app.send({ subject: 'Shown', metadata: { order: '8' } })
    const url = `http://${host}:${new URL(app.url).port}`
    const { page, complaints } = await openPage(t, url)
    await page.goto('/docs')
    await page.locator('.auth-wrapper > .btn.authorize').click()
    await page.locator('.modal-ux input').fill(API_KEY)
    await page.locator('.modal-ux .btn.authorize').click()
    await page.locator('.modal-ux .btn-done').click()
    await tryOut(page, 'listEmails')
    const answer = await execute(page)
    t.equal(answer.url, `${url}/api/emails`, 'without a filter that nobody chose')
    t.equal(answer.status, 200)
    t.ok(answer.body.data.some((email: { id: string }) => email.id === id))
    t.strictSame(complaints, [], 'under the policy of the page')
  })
}

t.test('the page fits a telephone', async t => {
  const { page } = await openPage(t, app.url, { width: 390, height: 800 })
  await page.goto('/docs')
  await page.locator('.opblock').first().waitFor()
  const content = await page.locator('meta[name=viewport]').getAttribute('content')
  t.equal(content, 'width=device-width, initial-scale=1')
})

t.test('a link to an operation opens it: a 4xx sends people there', async t => {
  const { headers } = await app.request('POST', '/api/emails', { body: {} })
  const [, link] = /^<([^>]+)>; rel="help"$/.exec(headers.get('link')!)!
  t.equal(link, 'http://localhost:1/docs#/Emails/sendEmail')
  const { page } = await openPage(t, app.url)
  await page.goto(`/docs${new URL(link!).hash}`)
  await page.locator('.opblock.is-open').waitFor()
  t.match(await page.locator('.opblock.is-open').getAttribute('id'), /-sendEmail$/)
})
