import t from 'tap'
import { pastOfEmails } from '#projections/emails/activity.ts'
import { createLog } from '#src/base/log.ts'
import { createPool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { cookieOf, knock, visit, visitorWith } from '../support/dashboard.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

/** Of a page with all that it loads, over the wire. */
const BYTES_MAX = 100_000
const WIDE = { width: 1440, height: 900 }

const sink = await startSink()
t.teardown(() => sink.stop())
const hooks = await startHookSink()
t.teardown(() => hooks.stop())
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { databaseUrl, env: { SMTP_URL: sink.url } })
const me = await visit(app)
const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString()

async function sent (fields: Record<string, unknown>, status: string, key?: string): Promise<string> {
  const { body: { id } } = await app.send(fields, key)
  await app.settled(id, status, key)
  return id
}

/** The rows as they are shown, `status subject`. */
const rowsIn = async (page: Page) =>
  await page.locator('.mail').evaluateAll((rows: any[]) =>
    rows.map(row => `${row.querySelector('.state').textContent.trim()} ${row.querySelector('.what a').textContent}`)
  )

const statusesIn = (html: string) =>
  [...html.matchAll(/<li id="(em_\w+)" class="mail"[^]*?<span class="badge \w+">([\w ]+)</g)].map(([, id, status]) =>
    `${id} ${status}`
  )

t.test('what is kept of an email tells of it as the API does, whatever became of it', async t => {
  sink.replies('none@example.com', { rcpt: '550 5.1.1 no such user' })
  sink.replies('later@example.com', { rcpt: '452 4.2.2 mailbox full' })
  const moved = (await app.send({ scheduled_at: inHours(5) })).body.id as string
  await app.request('PATCH', `/api/emails/${moved}`, { body: { scheduled_at: inHours(7) } })
  const canceled = (await app.send({ scheduled_at: inHours(5) })).body.id as string
  await app.request('POST', `/api/emails/${canceled}/cancel`)
  const ids = [
    moved,
    canceled,
    await sent({ to: ['a@example.com', 'none@example.com'], cc: ['c@example.com'] }, 'partial'),
    await sent({ to: 'later@example.com' }, 'deferred'),
    await sent({ to: 'Ada <forgotten@example.com>' }, 'delivered')
  ]
  const { body: { id: erasure } } = await app.request('POST', '/api/erasures', {
    body: { address: 'forgotten@example.com' }
  })
  await until(async () => (await app.request('GET', `/api/erasures/${erasure}`)).body.completed_at !== null)
  const pool = createPool(databaseUrl, createLog('silent'))
  t.teardown(async () => await pool.end())
  const found = await ask(pool, pastOfEmails({ account: 'acc_first', ids }))
  for (const id of ids) {
    const { body } = await app.request('GET', `/api/emails/${id}`)
    const { recipients, status, scheduled_at: at } = found.get(id)!.at(Infinity)
    t.strictSame({ recipients, status, scheduled_at: at }, {
      recipients: body.recipients,
      status: body.status,
      scheduled_at: body.scheduled_at
    })
    t.match(found.get(id)!.at(Date.parse(body.created_at)), {
      status: body.scheduled_at === null ? 'queued' : 'scheduled'
    })
  }
  t.strictSame(await ask(pool, pastOfEmails({ account: 'acc_other', ids })), new Map(), 'nothing to another account')
})

t.test('lists go back in time: statuses, filters and marks are those of then', async t => {
  const key = await app.newAccountKey()
  const who = await visit(app, key)
  const first = await sent({ subject: 'First' }, 'delivered', key)
  const { body: { timeline, created_at: createdAt } } = await app.request('GET', `/api/emails/${first}`, { key })
  sink.replies('none@example.com', { rcpt: '550 5.1.1 no such user' })
  const last = await sent({ subject: 'Last', to: 'none@example.com' }, 'bounced', key)
  const at = (time: string, query = '') => `/dashboard/emails?as_of=${encodeURIComponent(time)}${query}`
  t.strictSame(statusesIn((await who.get('/dashboard/emails')).html), [`${last} bounced`, `${first} delivered`])
  const begun = await who.get(at(createdAt))
  t.strictSame(statusesIn(begun.html), [`${first} queued`])
  t.match(begun.html, 'You see the account as of')
  t.match((await who.get(at(createdAt, `&email=${last}`))).html, `data-email="${first}"`, 'one that was not there yet')
  const other = await who.get('/dashboard/emails?email=..')
  t.match(other, { status: 200, html: new RegExp(`data-email="${last}"`) }, 'what is no id is no path either')
  t.notMatch(begun.html, /\/(cancel|retry)"/, 'nothing can be done in the past')
  const delivered = timeline.find(({ type }: { type: string }) => type === 'email.delivered').time
  t.strictSame(statusesIn((await who.get(at(delivered))).html), [`${first} delivered`])
  t.strictSame(statusesIn((await who.get(at(createdAt, '&status=delivered'))).html), [])
  t.strictSame(statusesIn((await who.get(at(createdAt, '&status=in_progress'))).html), [`${first} queued`])
  t.strictSame(statusesIn((await who.get(at(delivered, '&event=delivered'))).html), [`${first} delivered`])
  t.match((await who.get(at('2020-01-01T00:00:00Z'))).html, 'No emails yet at that time')
  for (const wrong of ['yesterday', inHours(1), '']) {
    t.not((await who.get(at(wrong))).status, 200, wrong)
  }
  t.strictSame(statusesIn((await me.get(at(delivered))).html).filter(row => row.startsWith(first)), [])
  const { body: user } = await app.request('POST', '/api/users', { body: { email: 'v@example.com', role: 'viewer' } })
  const { body: { url } } = await app.request('POST', `/api/users/${user.id}/link`)
  const token = new URL(url).searchParams.get('token')!
  const lister = await visitorWith(app, cookieOf(await knock(app, 'POST', '/dashboard/link', { body: { token } }))!)
  t.equal((await lister.get(at(delivered))).status, 403)
  t.notMatch((await lister.get('/dashboard/emails')).html, /id="(track|selected)"/)
})

t.test('tabs count statuses, and a chip removes its filter', async t => {
  const key = await app.newAccountKey()
  const who = await visit(app, key)
  const done = await sent({ subject: 'Done' }, 'delivered', key)
  const waits = (await app.send({ subject: 'Waits', scheduled_at: inHours(2) }, key)).body.id
  const { html } = await who.get('/dashboard/emails')
  t.match(html, /status=in_progress">In progress <span class="count">1</)
  t.match(html, /status=delivered">Delivered <span class="count">1</)
  const some = await who.get('/dashboard/emails?status=in_progress&q=wai')
  t.strictSame(statusesIn(some.html), [`${waits} scheduled`])
  t.match(
    some.html,
    /class="chip" href="\/dashboard\/emails\?q=wai"[^>]*><span class="soft">Status<\/span> In progress/
  )
  t.match(some.html, /class="chip" href="\/dashboard\/emails\?status=in_progress"/)
  t.strictSame(statusesIn((await who.get('/dashboard/emails?status=delivered')).html), [`${done} delivered`])
})

t.test('by the keyboard alone: find a mail by its id, see why it bounced, go back, replay its webhook', async t => {
  const key = await app.newAccountKey()
  const { body: hook } = await app.request('POST', '/api/webhooks', {
    key,
    body: { url: `${hooks.url}/journey`, events: ['email.bounced'] }
  })
  const before = hooks.requests.length
  sink.replies('gone@example.com', { rcpt: '550 5.1.1 nobody of that name' })
  const id = await sent({ to: 'Ada <gone@example.com>', subject: 'To nobody' }, 'bounced', key)
  await hooks.waitFor(requests => requests.length > before)
  await sent({ subject: 'Another' }, 'delivered', key)
  const { page, complaints } = await openPage(t, app.url, WIDE)
  await signIn(page, key)
  await page.keyboard.press('/')
  await page.keyboard.type(id)
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/${id}`)
  await page.locator('.timeline .bad', { hasText: '550 5.1.1 nobody of that name' }).waitFor()
  t.match(await page.locator('.timeline .bad').textContent(), 'The mailbox does not exist.')

  await page.goto('/dashboard/emails')
  t.strictSame(await rowsIn(page), ['delivered Another', 'bounced To nobody'])
  await page.keyboard.press('j')
  await page.locator('#selected h2', { hasText: 'To nobody' }).waitFor()
  t.equal(await page.locator('.strip .bad').textContent().then(text => text?.includes('Bounced')), true)
  const line = page.getByRole('slider', { name: 'Time' })
  await line.press('Home')
  await page.waitForURL(/as_of=/)
  await page.locator('.mail .badge', { hasText: 'queued' }).waitFor()
  t.strictSame(await rowsIn(page), ['queued To nobody'], 'the list goes back')
  t.equal(await page.locator('#selected .above .badge').textContent(), 'queued', 'and the email')
  t.equal(await page.locator('#selected .hook').count(), 0, 'and its deliveries')
  t.equal(await page.evaluate('document.activeElement.id'), 'track-line', 'the focus stays')
  await line.press('ArrowRight')
  await page.locator('#selected .above .badge', { hasText: 'bounced' }).waitFor()
  await line.press('End')
  await page.waitForURL(url => !url.search.includes('as_of'))
  await page.locator('#selected .hook').waitFor()

  // From now back over all that happened: the range grows with each step.
  for (let i = 0; i < 12; i++) await line.press('Shift+ArrowLeft')
  await page.locator('#range').waitFor()
  t.match(await page.locator('#range [role=status]').textContent(), /1 bounced/)
  await page.getByRole('button', { name: 'Replay…' }).press('Enter')
  await page.waitForURL(`**/webhooks/${hook.id}/replay?what=window&from=*`)
  const count = hooks.requests.length
  await page.getByRole('button', { name: 'Replay 1 delivery' }).press('Enter')
  await hooks.waitFor(requests => requests.length > count)
  t.strictSame(complaints, [])
})

t.test('the pointer scrubs and draws a range on the track, and its dots have labels', async t => {
  const key = await app.newAccountKey()
  await sent({ subject: 'Dotted' }, 'delivered', key)
  const { page, complaints } = await openPage(t, app.url, WIDE)
  await signIn(page, key)
  const box = (await page.locator('#track-dots').boundingBox())!
  const middle = box.y + box.height / 2
  await page.mouse.move(box.x, box.y + 14)
  t.match(await page.locator('.bubble').textContent(), /^Accepted .*Dotted/)
  await page.mouse.click(box.x + 1, middle)
  await page.waitForURL(/as_of=/)
  await page.getByRole('note').waitFor()
  await page.getByRole('link', { name: 'Back to now' }).click()
  await page.waitForURL(url => !url.search.includes('as_of'))
  await page.mouse.move(box.x, middle)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width / 2, middle)
  await page.mouse.up()
  t.match(await page.locator('#range [role=status]').textContent(), /\d+ events: 1 accepted/)
  t.equal(await page.getByRole('button', { name: 'Replay…' }).count(), 0, 'without an endpoint there is no replay')
  await page.getByRole('button', { name: 'Clear' }).click()
  await page.locator('#range').waitFor({ state: 'hidden' })
  t.strictSame(complaints, [])
})

t.test('the email beside the list: a click selects it, its text and source are shown, images on request', async t => {
  const key = await app.newAccountKey()
  const html = '<p id="hello">Hello</p><img src="http://127.0.0.1:9/picture">'
  const id = await sent({ subject: 'Pictured', html, text: 'In words' }, 'delivered', key)
  await sent({ subject: 'Newer' }, 'delivered', key)
  const { page, complaints } = await openPage(t, app.url, WIDE)
  await signIn(page, key)
  await page.evaluate('window.stayed = true')
  await page.getByRole('link', { name: 'Pictured' }).click()
  await page.locator('#selected h2', { hasText: 'Pictured' }).waitFor()
  await page.waitForURL(`**/dashboard/emails?email=${id}`)
  await page.frameLocator('#selected iframe').locator('#hello').waitFor()
  await page.getByRole('link', { name: 'Load images' }).click()
  await page.locator('#selected iframe[src$="images=1"]').waitFor()
  await page.getByRole('link', { name: 'Text', exact: true }).click()
  await page.getByRole('region', { name: 'The text part' }).waitFor()
  await page.getByRole('link', { name: 'Source', exact: true }).click()
  t.match(await page.getByRole('region', { name: 'The source' }).textContent(), 'Subject: Pictured')
  t.equal(await page.evaluate('window.stayed'), true, 'no page was loaded')
  await page.reload()
  await page.locator('#selected h2', { hasText: 'Pictured' }).waitFor()
  t.strictSame(complaints.filter(text => !text.includes('127.0.0.1:9/picture')), [], 'but that it was blocked at first')
})

t.test('Activity, with all that it loads, weighs no more than it may', async t => {
  const { page, context } = await openPage(t, app.url, WIDE)
  await signIn(page, API_KEY)
  const line = await context.newCDPSession(page)
  for (const path of ['/dashboard/emails', '/dashboard/overview', '/dashboard/webhooks']) {
    await line.send('Network.enable')
    await line.send('Network.clearBrowserCache')
    let bytes = 0
    const add = ({ encodedDataLength }: { encodedDataLength: number }) => {
      bytes += encodedDataLength
    }
    line.on('Network.loadingFinished', add)
    await page.goto(path, { waitUntil: 'load' })
    t.ok(bytes > 10_000 && bytes <= BYTES_MAX, `${path}: ${bytes} bytes`)
    line.off('Network.loadingFinished', add)
  }
})

t.test('the palette finds pages, actions, ids, addresses and subjects by the keyboard, and goes there', async t => {
  const key = await app.newAccountKey()
  const id = await sent({ to: 'grace@example.com', subject: 'Findable <b>thing</b>' }, 'delivered', key)
  await app.request('POST', '/api/webhooks', { key, body: { url: `${hooks.url}/findable`, events: ['email.opened'] } })
  const { page, complaints } = await openPage(t, app.url, WIDE)
  await signIn(page, key)
  const options = page.locator('#found [role=option]')
  const find = async (text: string, expected: string) => {
    await page.keyboard.press('ControlOrMeta+K')
    await page.getByRole('combobox', { name: 'Find and do' }).fill(text)
    await options.filter({ hasText: expected }).first().waitFor()
  }
  for (
    const [text, expected] of [
      ['templ', 'Templates'],
      ['create end', 'Create endpoint'],
      ['grace@example.com', 'Emails to grace@example.com'],
      ['grace@example.com', 'Findable <b>thing</b>'],
      ['findable', '/findable'],
      ['nothing like it', '']
    ] as const
  ) {
    if (expected === '') {
      await page.keyboard.press('ControlOrMeta+K')
      await page.getByRole('combobox').fill(text)
      await page.getByText('Nothing found for').waitFor()
    } else await find(text, expected)
    await page.keyboard.press('Escape')
  }
  await find(id, id)
  t.equal(await options.first().getAttribute('aria-selected'), 'true')
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/dashboard/emails/${id}`)
  await find('over', 'Overview')
  await page.keyboard.press('Escape')
  await page.keyboard.press('?')
  await options.filter({ hasText: 'Go to Activity' }).waitFor()
  await page.keyboard.press('Escape')
  await page.keyboard.press('g')
  await page.keyboard.press('e')
  await page.waitForURL('**/dashboard/emails')
  const stranger = await visit(app, await app.newAccountKey())
  t.notMatch((await stranger.get(`/dashboard/find?part=options&q=${id}`)).html, /href="\/dashboard\/emails\/em_/)
  t.notMatch((await stranger.get('/dashboard/find?q=findable')).html, /&lt;b&gt;thing|\/findable/)
  t.match((await me.get(`/dashboard/find?q=${'x'.repeat(3000)}`)).status, 200)
  t.strictSame(complaints, [])
})
