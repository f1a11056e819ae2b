import t from 'tap'
import { openPage, signIn } from '../support/browser.ts'
import { visit } from '../support/dashboard.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { until } from '../support/wait.ts'

const app = await startTestApp(t)

t.test('an address is suppressed, gets no mail, is found, and gets mail again', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.getByRole('link', { name: 'Suppressions' }).click()
  await page.getByRole('heading', { name: 'No suppressions yet' }).waitFor()
  await page.getByRole('link', { name: 'Suppress an address' }).click()
  await page.getByLabel('Address').fill('Grace@example.com')
  await page.getByRole('button', { name: 'Suppress address' }).click()
  await page.getByText('Grace@example.com is suppressed').waitFor()
  const held = await app.send({ to: 'grace@example.com' })
  await app.settled(held.body.id, 'suppressed')

  await page.getByLabel('Full address').fill('GRACE@example.com')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.waitForURL(/address=GRACE/)
  await page.getByRole('row', { name: /Grace@example.com.*Added manually/ }).getByRole('button', { name: 'Remove' })
    .click()
  t.match(await page.getByRole('dialog').textContent(), /Jetpost sends emails to Grace@example.com again/)
  await page.getByRole('dialog').getByRole('button', { name: 'Remove suppression' }).click()
  await page.getByText('Grace@example.com can get emails again.').waitFor()
  t.match(page.url(), /address=GRACE/, 'the search stays')
  const sent = await app.send({ to: 'grace@example.com' })
  await app.settled(sent.body.id, 'delivered')
  t.strictSame(complaints, [])
})

t.test('the list shows reasons, and the faults of a search or a form', async t => {
  const visitor = await visit(app)
  await visitor.post('/dashboard/suppressions', { address: 'ada@example.com', reason: 'complaint' })
  await visitor.post('/dashboard/suppressions', { address: 'ben@example.com', reason: 'unsubscribe' })
  const { html } = await visitor.get('/dashboard/suppressions?reason=complaint')
  t.match(html, /ada@example\.com.*Marked as spam/s)
  t.notMatch(html, 'ben@example.com')
  t.match(html, 'The recipient did not want your emails')
  t.match(await visitor.get('/dashboard/suppressions?address=nobody%40example.com'), {
    status: 200,
    html: /No results/
  })
  t.match(await visitor.get('/dashboard/suppressions?address=nobody'), {
    status: 422,
    html: /Address must be an email address/
  })
  t.match(await visitor.post('/dashboard/suppressions', { address: '"><b>x' }), {
    status: 422,
    html: /value="&quot;&gt;&lt;b&gt;x"/
  })
  for (const address of ['nobody@example.com', '', '..']) {
    t.match(await visitor.post('/dashboard/suppressions/remove', { address }), { status: 422 }, address)
  }
  const stranger = await visit(app, await app.newAccountKey())
  t.match((await stranger.get('/dashboard/suppressions')).html, 'No suppressions yet')
  t.equal((await stranger.post('/dashboard/suppressions/remove', { address: 'ada@example.com' })).status, 422)
  t.equal((await app.request('GET', '/api/suppressions/ada@example.com')).status, 200)
})

t.test('a list keeps its filters when a suppression is removed, or cannot be', async t => {
  const visitor = await visit(app)
  for (let i = 0; i < 60; i++) {
    await app.request('POST', '/api/suppressions', { body: { address: `many${i}@example.com`, reason: 'complaint' } })
  }
  await until(async () => /rel="next"/.test((await visitor.get('/dashboard/suppressions?reason=complaint')).html))
  const remove = 'action="/dashboard/suppressions/remove?reason=complaint"'
  t.match((await visitor.get('/dashboard/suppressions?reason=complaint')).html, remove)
  const failed = await visitor.post('/dashboard/suppressions/remove?reason=complaint', {
    address: 'nobody@example.com'
  })
  t.match(failed, { status: 422 })
  t.match(failed.html, remove)
  t.match(failed.html, '<option value="complaint" selected>')
  const [, next] = /rel="next" href="([^"]+)"/.exec(failed.html)!
  t.match(await visitor.get(next!.replaceAll('&amp;', '&')), { status: 200, html: /Newest/ })
  t.match(await visitor.post('/dashboard/suppressions/remove?reason=complaint', { address: 'many0@example.com' }), {
    status: 303,
    to: '/dashboard/suppressions?reason=complaint'
  })
})

t.test('the notice of an unsubscribe says what it holds back', async t => {
  const added = await (await visit(app)).post('/dashboard/suppressions', {
    address: 'eve@example.com',
    reason: 'unsubscribe'
  })
  const cookie = added.headers.getSetCookie().find(line => /notice/i.test(line)) ?? ''
  t.match(
    Buffer.from(/=([^;]*)/.exec(cookie)?.[1] ?? '', 'base64url').toString(),
    'eve@example.com is suppressed: it gets no emails with an unsubscribe link from this account.'
  )
})

t.test('an address is erased once it was typed twice, and the receipt refreshes itself', async t => {
  const sent = await app.send({ to: 'gone@example.com' })
  await app.settled(sent.body.id, 'delivered')
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto('/dashboard/suppressions')
  await page.getByRole('link', { name: 'Erasures' }).click()
  await page.getByRole('heading', { name: 'No erasures yet' }).waitFor()
  await page.getByRole('link', { name: 'Erase a person' }).click()
  await page.getByLabel('Address', { exact: true }).fill('gone@example.com')
  await page.getByLabel('Repeat the address').fill('gone@example.com')
  await page.getByRole('button', { name: 'Erase address' }).click()
  t.match(await page.getByRole('dialog').textContent(), /This cannot be undone/)
  await page.getByRole('dialog').getByRole('button', { name: 'Erase for good' }).click()
  await page.getByRole('heading', { name: 'Erasure receipt' }).waitFor()
  await page.getByText('Out of reach').waitFor({ timeout: 40_000 })
  t.match(await page.locator('.facts', { hasText: 'Canceled recipients' }).textContent(), /Emails1/)
  await until(async () => (await app.request('GET', `/api/emails/${sent.body.id}`)).body.to?.[0] !== 'gone@example.com')
  t.notMatch((await (await visit(app)).get('/dashboard/erasures')).html, 'gone@example.com')
  t.strictSame(complaints, [])
})

t.test('a typing error erases nothing', async t => {
  const visitor = await visit(app)
  const slip = await visitor.post('/dashboard/erasures', {
    address: 'ada@example.com',
    confirmation: 'ade@example.com'
  })
  t.match(slip, { status: 422, html: /This must be the same address/ })
  t.match(await visitor.post('/dashboard/erasures', { address: 'ada', confirmation: 'ada' }), {
    status: 422,
    html: /Address must be an email address/
  })
  const { html } = await visitor.get('/dashboard/erasures')
  const id = /era_[0-9a-z]+/.exec(html)![0]
  const stranger = await visit(app, await app.newAccountKey())
  t.equal((await stranger.get(`/dashboard/erasures/${id}`)).status, 404)
})

t.test('many are imported by a form, with a report, and exported as a file', async t => {
  const visitor = await visit(app)
  const { html: list } = await visitor.get('/dashboard/suppressions')
  t.match(list, 'href="/dashboard/suppressions/import"')
  t.match(list, 'href="/dashboard/suppressions/export"')
  const addresses = 'email,reason\r\none@import.example,bounce\r\nnobody,\r\ntwo@import.example,'
  const done = await visitor.post('/dashboard/suppressions/import', { addresses, reason: '' })
  t.equal(done.status, 200)
  t.match(done.html, '3 lines: 2 added, 0 unchanged, 1 refused.')
  t.match(done.html, /<td[^>]*>3<\/td>.*address must be an email address\./s)
  const wrong = await visitor.post('/dashboard/suppressions/import', { addresses: 'name\r\nAda', reason: '' })
  t.equal(wrong.status, 422)
  t.match(wrong.html, 'The text must begin with a line that names a column address or email, or with an address.')
  t.match(wrong.html, 'name\nAda', 'what was typed is still there')
  const { html: file } = await visitor.get('/dashboard/suppressions/export')
  t.match(file, /^address,reason,email_id,since\r\n/)
  t.match(file, 'two@import.example,manual,')
  t.match(file, 'one@import.example,bounce,')
})
