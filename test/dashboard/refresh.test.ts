import t from 'tap'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { visitorWith } from '../support/dashboard.ts'
import { lockTables } from '../support/held-projection.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { databaseUrl })

async function open (t: Parameters<typeof openPage>[0], path: string, url = app.url): Promise<Page> {
  const { page } = await openPage(t, url)
  await signIn(page, API_KEY)
  await page.goto(path)
  return page
}

async function scheduled (): Promise<string> {
  return (await app.send({ scheduled_at: new Date(Date.now() + 3_600_000).toISOString() })).body.id
}

/** Resolves once the browser has a new part that holds `text`. */
async function redrawn (page: Page, text: string): Promise<void> {
  const answer = await page.waitForResponse(async answer =>
    answer.request().headers()['hx-request'] === 'true' && (await answer.text()).includes(text)
  )
  await answer.finished()
}

t.test('while a confirmation is open, the page does not refresh', async t => {
  const page = await open(t, '/dashboard')
  const form = page.locator('form[action$="/cancel"]')
  /** The dialog, once the email it asks about was canceled by somebody else. */
  const late = async () => {
    const id = await scheduled()
    await page.goto(`/dashboard/emails/${id}`)
    await form.getByRole('button').click()
    const drawn = redrawn(page, '>canceled<')
    await app.request('POST', `/api/emails/${id}/cancel`)
    await drawn
    t.equal(await form.count(), 1)
    return { id, dialog: page.getByRole('dialog') }
  }
  await (await late()).dialog.getByRole('button', { name: 'Cancel', exact: true }).click()
  await page.locator('#email .badge', { hasText: 'canceled' }).first().waitFor()
  t.equal(await form.count(), 0, 'then it is drawn again')
  const { id, dialog } = await late()
  const posted = page.waitForRequest(request => request.method() === 'POST')
  await dialog.getByRole('button', { name: 'Cancel email' }).click()
  t.match((await posted).url(), `/dashboard/emails/${id}/cancel`, 'what was said yes to is what is sent')
})

t.test('while a form is on its way, it cannot be sent again', async t => {
  const id = await scheduled()
  const page = await open(t, '/dashboard/sessions')
  await page.goto(`/dashboard/emails/${id}`)
  const arriving = Promise.withResolvers<void>()
  await page.route(`**/${id}/cancel`, async route => {
    await arriving.promise
    await route.continue()
  })
  // A page that is about to be left tells the driver nothing: what it saw is asked of the next.
  await page.evaluate(`addEventListener('htmx:afterRequest', () => {
    sessionStorage.seen = document.querySelector('form[action$="/cancel"] button').disabled
  })`)
  await page.getByRole('button', { name: 'Cancel email' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel email' }).click({ noWaitAfter: true })
  const drawn = page.waitForEvent('requestfinished', request => request.headers()['hx-request'] === 'true')
  await app.send()
  await drawn
  arriving.resolve()
  await page.getByRole('status').filter({ hasText: 'Canceled for 1 recipient.' }).waitFor()
  t.equal(await page.evaluate('sessionStorage.seen'), 'true')
})

t.test('a row keeps its focus when another comes above it', async t => {
  await app.send({ subject: 'The first' })
  const page = await open(t, '/dashboard/emails')
  await page.getByRole('link', { name: 'The first' }).focus()
  await app.send({ subject: 'The second' })
  await page.getByRole('link', { name: 'The second' }).waitFor()
  t.equal(await page.evaluate('document.activeElement.textContent'), 'The first')
})

t.test('a refresh does not turn a button into another one', async t => {
  const { body: { id } } = await app.request('POST', '/api/webhooks', {
    body: { url: 'https://hooks.example.com/', events: ['email.bounced'] }
  })
  const page = await open(t, `/dashboard/webhooks/${id}`)
  await page.getByRole('button', { name: 'Pause' }).focus()
  await app.request('PATCH', `/api/webhooks/${id}`, { body: { paused: true } })
  await page.evaluate("document.body.dispatchEvent(new CustomEvent('live-deliveries'))")
  await page.getByRole('button', { name: 'Resume' }).waitFor()
  t.not(await page.evaluate('document.activeElement.textContent'), 'Resume')
})

t.test('a part that cannot refresh says so until it can', async t => {
  const page = await open(t, '/dashboard/emails')
  const client = await lockTables(t, databaseUrl, 'email_states')
  await page.evaluate("document.body.dispatchEvent(new CustomEvent('live-emails'))")
  await page.locator('#stale').waitFor()
  await client.query('rollback')
  await app.send({ subject: 'Seen again' })
  await page.getByRole('link', { name: 'Seen again' }).waitFor()
  await page.locator('#stale').waitFor({ state: 'hidden' })
})

t.test('a slow refresh is not interrupted, and changes meanwhile cause one more', async t => {
  const page = await open(t, '/dashboard/sessions')
  // Nothing happens here but what the test says.
  await page.route('**/dashboard/live', async route => await route.abort())
  await page.goto('/dashboard/emails', { waitUntil: 'load' })
  const waiting: Array<() => void> = []
  const failed: string[] = []
  page.on('requestfailed', request => {
    if (!request.url().endsWith('/live')) failed.push(request.url())
  })
  await page.route('**/dashboard/emails*', async route => {
    await new Promise<void>(resolve => waiting.push(resolve))
    await route.continue()
  })
  const happens = async (times: number) =>
    await page.evaluate(
      `for (let i = 0; i < ${times}; i++) document.body.dispatchEvent(new CustomEvent('live-emails'))`
    )
  await happens(1)
  await until(() => waiting.length > 0)
  await happens(3)
  const drawn = redrawn(page, 'id="rows"')
  waiting[0]!()
  await drawn
  await until(() => waiting.length > 1)
  t.equal(waiting.length, 2)
  waiting[1]!()
  t.strictSame(failed, [])
})

t.test('a visitor who has signed out elsewhere gets the sign-in page from every live page', async t => {
  const page = await open(t, '/dashboard/emails')
  const [ticket] = (await page.context().cookies()).filter(({ name }) => name === 'jetpost_session')
  await (await visitorWith(app, `jetpost_session=${ticket!.value}`)).post('/dashboard/sign-out')
  await page.waitForURL(/\/dashboard\/sign-in\?to=%2Fdashboard%2Femails/)
})

t.test('a browser without a clipboard copies all the same, and says so', async t => {
  const { body: { id } } = await app.send()
  const page = await open(t, `/dashboard/emails/${id}`, app.url.replace('127.0.0.1', 'jetpost.test'))
  t.equal(await page.evaluate('navigator.clipboard'), undefined)
  await page.getByRole('button', { name: 'Copy the id' }).click()
  await page.getByRole('status').filter({ hasText: 'Copied' }).waitFor()
  t.equal(await page.evaluate('document.activeElement.dataset.copy'), id)
  await page.goto('/dashboard/emails')
  await page.getByLabel('Search').focus()
  await page.keyboard.press('ControlOrMeta+V')
  t.equal(await page.getByLabel('Search').inputValue(), id)
})

t.test('keys choose in a list without sending its form', async t => {
  const page = await open(t, '/dashboard/suppressions')
  await page.evaluate('window.stayed = true')
  await page.getByLabel('Reason').focus()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  t.equal(await page.evaluate('window.stayed'), true)
  const chosen = await page.getByLabel('Reason').inputValue()
  t.not(chosen, '')
  await page.getByRole('button', { name: 'Search' }).press('Enter')
  await page.waitForURL(`**/dashboard/suppressions?*reason=${chosen}`)
})

t.test('leaving a refused form asks first', async t => {
  const page = await open(t, '/dashboard/emails/new')
  await page.getByLabel('To', { exact: true }).fill('nobody')
  await page.getByLabel('Subject').fill('Much to say')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.locator('#field-to-fault').waitFor()
  const asking = page.waitForEvent('dialog')
  const leaving = page.getByRole('link', { name: 'Templates' }).click()
  const asked = await asking
  t.equal(asked.type(), 'beforeunload')
  await asked.dismiss()
  await leaving
  t.equal(await page.getByLabel('Subject').inputValue(), 'Much to say')
})
