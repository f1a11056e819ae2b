import t from 'tap'
import { failedWaiting } from '#projections/deliveries/backlog.ts'
import { queueOf } from '#projections/emails/queue.ts'
import { judgeWebhook } from '#src/actions/webhook.ts'
import { createLog } from '#src/base/log.ts'
import { createPool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { visit } from '../support/dashboard.ts'
import { lockTables } from '../support/held-projection.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const DAY_MS = 86_400_000
const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const mail = await startSink()
t.teardown(() => mail.stop())
// Not at test addresses: those are no part of the statistics.
const app = await startTestApp(t, { natsUrl, databaseUrl, env: { SMTP_URL: mail.url } })
const NOBODY = { rcpt: '550 5.1.1 no such user' }
/** An address whose mail is refused. */
const refused = (name: string): string => {
  const address = `${name}@refused.example`
  mail.replies(address, NOBODY)
  return address
}

/** What a chart has drawn: pixels that are not as the card behind them. */
const drawnIn = async (page: Page, chart: string) =>
  await page.locator(`#${chart} canvas`).evaluate((canvas: any) =>
    canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.filter((value: number, i: number) =>
      i % 4 === 3 && value > 0
    ).length
  )

/** How much of it is in the colour of what is not over. */
const shadedIn = async (page: Page, chart: string) =>
  await page.locator(`#${chart} canvas`).evaluate((canvas: any) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
    return data.filter((value: number, i: number) =>
      i % 4 === 0 && value === 0xe8 && data[i + 1] === 0xee && data[i + 2] === 0xff
    ).length
  })

t.test('an account without emails sees how to send the first one, and then its result', async t => {
  const key = await app.newAccountKey()
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, key)
  await page.goto('/dashboard/overview')
  await page.getByRole('heading', { name: 'Get started' }).waitFor()
  t.match(
    await page.getByRole('region', { name: 'The first email as a command' }).textContent(),
    /^curl \S+\/api\/emails \\/
  )
  t.equal((await app.send({ to: 'delivered@sandbox.jetpost.test' }, key)).status, 202)
  await page.getByRole('heading', { name: 'Volume and delivery' }).waitFor()
  await page.locator('#volume .u-legend').waitFor()
  await page.getByRole('navigation', { name: 'Period' }).waitFor()
  t.strictSame(complaints, [])
})

t.test('what happens is shown without waiting for the clock', async t => {
  const key = await app.newAccountKey()
  await app.settled((await app.send({}, key)).body.id, 'delivered', key)
  const { page } = await openPage(t, app.url)
  await signIn(page, key)
  await page.goto('/dashboard/overview')
  await page.clock.install()
  await page.clock.pauseAt(Date.now() + 60_000)
  const refreshed = page.waitForRequest(request => request.headers()['hx-target'] === 'figures')
  await page.goto('/dashboard/overview')
  await app.send({}, key)
  await refreshed
})

t.test('charts are drawn, and what is looked at stays while the figures move on', async t => {
  const key = await app.newAccountKey()
  const sent = await app.send({
    to: ['ada@example.com', refused('once')],
    tags: ['invoice']
  }, key)
  await app.settled(sent.body.id, 'partial', key)
  const { page, complaints } = await openPage(t, app.url, { width: 390 })
  await page.clock.install()
  await signIn(page, key)
  await page.goto('/dashboard/overview')
  for (const chart of ['volume', 'problems', 'reading']) t.ok(await drawnIn(page, chart) > 1000, chart)
  t.ok(await shadedIn(page, 'volume') > 100, 'the end that is not over is shaded')
  t.match(await page.locator('#volume-table tr').last().textContent(), /:00, so far/)
  t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'nothing is wider than a phone')
  await page.locator('#problems summary').click()
  const cells = page.locator('#problems-table td[data-name=Bounced]')
  const total = async () => (await cells.allTextContents()).reduce((sum, text) => sum + Number(text), 0)
  await until(async () => {
    await page.clock.runFor(10_500)
    return await total() === 1
  })
  const canvas = await page.locator('#problems canvas').elementHandle()
  const again = await app.send({ to: refused('again') }, key)
  await app.settled(again.body.id, 'bounced', key)
  await until(async () => {
    await page.clock.runFor(10_500)
    return await total() === 2
  })
  t.ok(await page.locator('#problems-table').getAttribute('open') !== null, 'the table is still open')
  t.ok(await canvas!.evaluate((element: any) => element.isConnected), 'the chart was not made again')
  await page.getByRole('link', { name: '30 days' }).click()
  await page.getByLabel('Tag').fill('invoice')
  await page.keyboard.press('Enter')
  await page.waitForURL(/period=30d.*tag=invoice/)
  t.match(await page.locator('.tile', { hasText: 'Accepted' }).textContent(), /^Accepted\s*2recipients/)
  t.strictSame(complaints, [])
})

t.test('what needs attention is named, with its reason and where to fix it', async t => {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  sink.answers(() => ({ status: 410 }))
  const hook = async (path: string, events: string[]) =>
    (await app.request('POST', '/api/webhooks', { body: { url: sink.url + path, events } })).body
  const [failing, gone] = [await hook('/failing', ['email.opened']), await hook('/gone', ['email.bounced'])]
  const { body: domain } = await app.request('POST', '/api/domains', { body: { name: 'shop.example' } })
  const ending = await app.newKey({ name: 'Nightly <b>report</b>', expiresMs: Date.now() + 3 * DAY_MS })
  await app.newKey({ name: 'Of next year', expiresMs: Date.now() + 300 * DAY_MS })
  const cause = { account: 'acc_first', correlation: 'test', causation: null }
  await judgeWebhook(await openSecondServices(t, natsUrl), cause, failing, { failingSinceMs: Date.now() - 3_600_000 })
  for (let i = 0; i < 2; i++) {
    await app.send({ to: Array.from({ length: 50 }, (_, n) => refused(`list-${i}-${n}`)) })
  }
  const { body: later } = await app.send({ scheduled_at: new Date(Date.now() + 3_600_000).toISOString() })
  await app.settled(later.id, 'scheduled')
  await until(async () => (await app.request('GET', '/api/stats')).body.totals.bounced === 100)
  await until(async () => (await app.request('GET', `/api/webhooks/${gone.id}`)).body.status === 'disabled')
  const visitor = await visit(app)
  await until(async () => /deliver(y|ies) to \S+\/gone failed/.test((await visitor.get('/dashboard/overview')).html))
  const { html } = await visitor.get('/dashboard/overview')
  t.match(html, `Endpoint ${failing.url} is failing`)
  t.match(html, `Endpoint ${gone.url} is disabled`)
  t.match(html, /100\.0 % of emails bounced<\/strong><p>100 of 100 recipients in the last 24 hours/)
  t.match(html, 'Domain shop.example is not verified')
  t.match(html, 'Key Nightly &lt;b&gt;report&lt;/b&gt; expires soon')
  t.notMatch(html, 'Of next year')
  for (const path of [`webhooks/${failing.id}`, `webhooks/${gone.id}`, `domains/${domain.id}`, `keys/${ending.id}`]) {
    t.match(html, `href="/dashboard/${path}"`)
  }
  t.match(html, `href="/dashboard/webhooks/${gone.id}?state=failed"`)
  t.match(html, /<dt>Scheduled<\/dt><dd><a href="\/dashboard\/emails\?status=scheduled">1<\/a>/)
  t.notMatch(
    (await (await visit(app, await app.newAccountKey())).get('/dashboard/overview')).html,
    /shop\.example|Nightly|failing/,
    'nothing of another account'
  )
})

t.test('bounces and complaints of test addresses raise no alarm, and are said to be left out', async t => {
  const key = await app.newAccountKey()
  const to = Array.from({ length: 50 }, (_, n) => `${n % 2 === 0 ? 'bounced' : 'complained'}+${n}@sandbox.jetpost.test`)
  for (let i = 0; i < 2; i++) await app.send({ to, text: 'Hello' }, key)
  const { body: plain } = await app.send({}, key)
  await app.settled(plain.id, 'delivered', key)
  const destination = async () =>
    (await app.request('GET', '/api/stats?destination=sandbox.jetpost.test', { key })).body.totals
  await until(async () => {
    const { bounced, complained } = await destination()
    return bounced === 50 && complained === 50
  })
  t.match((await app.request('GET', '/api/stats', { key })).body.totals, { accepted: 1, bounced: 0, complained: 0 })
  const { html } = await (await visit(app, key)).get('/dashboard/overview')
  t.notMatch(html, /of emails bounced|marked as spam/)
  t.match(html, 'Test addresses of sandbox.jetpost.test are left out: 100 recipients.')
})

t.test('an endpoint that is deleted while its deliveries are counted does no harm', async t => {
  const { body: { data } } = await app.request('GET', '/api/webhooks')
  const { id } = data.find(({ url }: { url: string }) => url.endsWith('/gone'))
  const visitor = await visit(app)
  const client = await lockTables(t, databaseUrl, 'deliveries')
  const asked = visitor.get('/dashboard/overview')
  await until(async () =>
    (await client.query("select from pg_locks where not granted and relation = 'deliveries'::regclass")).rowCount! > 0
  )
  t.equal((await app.request('DELETE', `/api/webhooks/${id}`)).status, 204)
  await client.query('rollback')
  t.match(await asked, { status: 200, html: /Needs attention/ })
})

t.test('a session that may not see keys reads nothing of them, and an invalid filter has a fault', async t => {
  const { secret } = await app.newKey({ name: 'Watcher', scopes: ['dashboard'] })
  await app.newKey({ name: 'Soon over', expiresMs: Date.now() + DAY_MS })
  const visitor = await visit(app, secret)
  t.notMatch((await visitor.get('/dashboard/overview')).html, 'Soon over')
  const wrong = await visitor.get('/dashboard/overview?domain=not%20one')
  t.equal(wrong.status, 422)
  t.match(wrong.html, 'Domain must be a domain like example.com')
})

t.test('what is counted is read from indexes, however many emails there are', async t => {
  const pool = createPool(databaseUrl, createLog('silent'))
  t.teardown(async () => await pool.end())
  await pool.query(`insert into email_states (id, account, created_at, status, events)
    select 'em_' || i, 'acc_many', now(), 'delivered', '{}' from generate_series(1, 20000) i`)
  await pool.query(`insert into email_states (id, account, created_at, status, events)
    select 'em_q' || i, 'acc_many', now() - interval '1 hour', 'queued', '{}' from generate_series(1, 40) i`)
  const queue = queueOf({ account: 'acc_many', max: 30 })
  const { counts, oldestAt } = await ask(pool, queue)
  t.match(counts, { queued: 30, sending: 0, in_doubt: 0 })
  t.equal(oldestAt, null, 'more are queued than were counted')
  t.ok((await ask(pool, queueOf({ account: 'acc_many', max: 50 }))).oldestAt)
  for (const { sql } of [queue, failedWaiting({ account: 'acc_many', webhooks: ['wh_1'], max: 10 })]) {
    const { rows } = await pool.query<{ 'QUERY PLAN': string }>(`explain ${sql.text}`, [...sql.values])
    t.notMatch(rows.map(row => row['QUERY PLAN']).join('\n'), /Seq Scan/)
  }
})

t.test('operators see that mail leaves without links, others do not', async t => {
  const sink = await startSink()
  t.teardown(() => sink.stop())
  const relayed = await startTestApp(t, { env: { SMTP_URL: sink.url, JETPOST_TRACKING_URL: '' } })
  const other = await relayed.newAccountKey()
  for (const key of [API_KEY, other]) {
    await relayed.settled((await relayed.send({}, key)).body.id, 'delivered', key)
    const { html } = await (await visit(relayed, key)).get('/dashboard/overview')
    t.equal(html.includes('Mail goes out without tracking and without unsubscribe links'), key === API_KEY)
  }
})

t.test('while a projection does not answer, the page comes without it', async t => {
  const visitor = await visit(app, await app.newAccountKey())
  const client = await lockTables(t, databaseUrl, 'email_states, stats_hours')
  const startMs = performance.now()
  const { status, html } = await visitor.get('/dashboard/overview')
  await client.query('rollback')
  t.equal(status, 200)
  t.ok(performance.now() - startMs < 5000, 'before the statement is given up')
  t.match(html, 'Statistics are unavailable')
  t.match(html, 'Needs attention')
  t.match((await visitor.get('/dashboard/overview')).html, 'Get started', 'and it is back')
})

t.test('the page is small, and says what it loads', async t => {
  const { html } = await (await visit(app, API_KEY)).get('/dashboard/overview?period=7d')
  t.ok(html.length < 60_000, `${html.length}`)
  t.match(html, /<script defer src="\/dashboard\/assets\/[^"]+\/uplot\.js">/)
})
