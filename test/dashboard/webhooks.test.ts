import t from 'tap'
import { cursorText } from '#projections/cursor.ts'
import { openPage, signIn } from '../support/browser.ts'
import { waysFrom } from '../support/crawl.ts'
import { visit } from '../support/dashboard.ts'
import { startHookSink, type HookRequest } from '../support/hook-sink.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { until } from '../support/wait.ts'

const app = await startTestApp(t)
const sink = await startHookSink()
t.teardown(() => sink.stop())
const { page, complaints } = await openPage(t, app.url)
await signIn(page, API_KEY)
const me = await visit(app)

/** What a receiver may answer to run or to dress something in the page that shows it. */
const HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script></code></pre></details>' +
  '<style>*{display:none}</style>"\'`${1}'
const PAST = '2027-01-01T00:00'
let endpoint = ''
let secret = ''

async function deliver (): Promise<string> {
  return (await app.send({ to: 'delivered@sandbox.jetpost.test', subject: '</script><b>Hello' })).body.id
}

const about = (email: string) => (requests: HookRequest[]) => requests.filter(({ body }) => body.includes(email))
const row = (text: string) => page.getByRole('row').filter({ hasText: text })

/** What the page knows it forgets when it is loaded again. */
const stay = async () => await page.evaluate('window.stayed = true')
const stayed = async () => await page.evaluate('window.stayed === true')

async function confirmed (button: string, confirm: string): Promise<void> {
  await page.getByRole('button', { name: button }).click()
  await page.getByRole('dialog').getByRole('button', { name: confirm }).click()
}

/** The function that the page shows, as a receiver runs it. */
async function shownCheck (): Promise<(body: Buffer, headers: Record<string, string>, secret: string) => boolean> {
  const code = await page.getByRole('region', { name: 'How to verify a signature' }).innerText()
  return (await import(`data:text/javascript,${encodeURIComponent(code)}`)).isFromJetpost
}

t.test('an endpoint is created: faults are at their fields, the secret is shown once, its code verifies', async t => {
  await page.getByRole('link', { name: 'Webhooks' }).click()
  t.match(await page.locator('.empty').innerText(), /curl .*\/api\/webhooks/, 'an empty page teaches')
  await page.getByRole('link', { name: 'Create an endpoint' }).click()
  await page.getByLabel('URL').fill('ftp://example.com/')
  for (const type of ['opened', 'clicked', 'complained', 'unsubscribed']) {
    await page.getByRole('checkbox', { name: `email.${type}` }).uncheck()
  }
  await page.getByText('Batches and concurrency').click()
  await page.getByLabel('Concurrent requests').fill('200')
  await page.getByRole('button', { name: 'Create endpoint' }).click()
  t.match(await page.locator('#field-url-fault').innerText(), /https:\/\//)
  t.match(await page.locator('#field-concurrency-fault').innerText(), /1 to 100/)
  t.equal(
    await page.getByRole('checkbox', { name: 'email.opened' }).isChecked(),
    false,
    'what was chosen is still there'
  )
  const late = await me.post('/dashboard/webhooks', {
    url: 'https://example.com/late',
    events: 'email.opened',
    start_at: 'tomorrow'
  })
  t.match(late, {
    status: 422,
    html: new RegExp(
      'value="https://example\\.com/late"[^]*type="text" id="field-start_at"' +
        '[^>]*aria-invalid="true"[^>]*value="tomorrow"'
    )
  }, 'nothing typed is lost')
  await page.getByLabel('URL').fill(`${sink.url}/hooks`)
  await page.getByLabel('Concurrent requests').fill('3')
  await page.getByRole('button', { name: 'Create endpoint' }).click()
  secret = await page.locator('.secret code').innerText()
  t.match(secret, /^whsec_[\w+/]{43}=$/)
  await page.getByRole('button', { name: 'Copy the secret' }).click()
  t.equal(await page.evaluate('navigator.clipboard.readText()'), secret)
  const check = await shownCheck()
  await page.reload()
  await page.getByText('This form was already sent').waitFor()
  const { data } = (await app.request('GET', '/api/webhooks')).body
  t.equal(data.length, 1, 'loaded again, the page makes no other')
  await page.goto(`/dashboard/webhooks/${data[0].id}`)
  endpoint = new URL(page.url()).pathname
  t.notMatch(await page.content(), secret)
  await page.getByLabel('Type').selectOption('email.bounced')
  await page.getByRole('button', { name: 'Send test event' }).click()
  await page.getByText('HTTP 200').first().waitFor()
  const [{ headers, body }] = sink.requests as [HookRequest]
  t.match(JSON.parse(body.toString()), { type: 'email.bounced', data: { test: true } })
  t.equal(check(body, headers, secret), true)
  t.equal(check(Buffer.concat([body, Buffer.from(' ')]), headers, secret), false)
  t.equal(check(body, { 'x-service-signature': 'é'.repeat(71) }, secret), false)
})

t.test('a failing receiver shows without a reload; once it is fixed, a replay arrives', async t => {
  await page.goto(endpoint)
  await stay()
  sink.answers(() => ({ status: 500, headers: { 'retry-after': '3600' }, body: HOSTILE }))
  const email = await deliver()
  await row('HTTP 500').waitFor()
  t.ok(await stayed())
  await row('HTTP 500').getByRole('link', { name: 'email.delivered' }).click()
  const payload = JSON.parse(await page.getByRole('region', { name: 'Payload' }).innerText())
  t.match(payload, {
    type: 'email.delivered',
    data: { email_id: email, to: 'delivered@sandbox.jetpost.test', subject: '</script><b>Hello' }
  })
  t.equal(await page.getByRole('region', { name: 'Response to request 1' }).innerText(), HOSTILE, 'a text')
  t.match(
    await page.getByRole('region', { name: 'Request 1', exact: true }).innerText(),
    /POST http:.*\/hooks\n[^]*X-Service-Signature: sha256=/
  )
  t.equal(await page.locator('main img, main script, main style').count(), 0)
  t.match(await page.locator('#delivery .box.warn').innerText(), /HTTP 500\. The receiver failed/)
  t.equal(await page.getByRole('link', { name: email }).getAttribute('href'), `/dashboard/emails/${email}`)
  sink.answers(() => ({ body: 'thank you' }))
  await page.getByRole('button', { name: 'Replay' }).click()
  await page.getByText('HTTP 200').waitFor()
  t.match(await page.locator('.facts').innerText(), /Status\s+delivered/)
  const [first, again] = about(email)(sink.requests) as [HookRequest, HookRequest]
  t.equal(again.headers['webhook-id'], first.headers['webhook-id'])
  t.ok(again.body.equals(first.body))
  await page.getByText('Raw bytes, as signed and sent').click()
  t.equal(await page.getByRole('region', { name: 'Raw bytes' }).innerText(), first.body.toString())
  const saved = await me.get(`${new URL(page.url()).pathname}/body`)
  t.equal(saved.html, first.body.toString())
  t.match(saved.headers.get('content-disposition'), /^attachment/)
  await page.reload()
  await page.getByText('HTTP 500').click()
  await stay()
  await me.post(`${new URL(page.url()).pathname}/replay`)
  await page.getByText('HTTP 200').nth(1).waitFor()
  t.equal(
    await page.getByRole('region', { name: 'Response to request 1' }).isVisible(),
    true,
    'what somebody has opened stays open'
  )
  t.ok(await stayed())
})

t.test('failed deliveries are counted, then replayed, to an endpoint that answered 410', async t => {
  sink.answers(() => ({ status: 410 }))
  await page.goto(endpoint)
  await stay()
  const email = await deliver()
  await page.getByText('Disabled:').waitFor()
  t.ok(await stayed())
  t.match(await (await me.get('/dashboard/webhooks')).html, /answered 410/)
  t.match(await me.get(`${endpoint}/replay?what=failed`), {
    status: 422,
    html: /The webhook is disabled: enable it first/
  })
  sink.answers(() => ({}))
  await page.getByRole('button', { name: 'Enable' }).click()
  await page.getByRole('link', { name: 'Replay…' }).click()
  await page.getByLabel('Replay', { exact: true }).selectOption('failed')
  await page.getByRole('button', { name: 'Count deliveries' }).click()
  await page.getByRole('heading', { name: 'This replay sends 1 delivery' }).waitFor()
  t.match(await row('email.delivered').innerText(), /1/)
  t.equal(about(email)(sink.requests).length, 1, 'counting sends nothing')
  await page.getByRole('button', { name: 'Replay 1 delivery' }).click()
  await page.locator('#replays').getByText('done').waitFor()
  t.match(await page.locator('#replays').innerText(), /1 requested/)
  await sink.waitFor(requests => about(email)(requests).length === 2)
  t.match(await page.locator('#replays').innerText(), /Failed deliveries/)
  await page.goto(`${endpoint}/replay?what=failed`)
  await page.getByRole('heading', { name: 'Nothing to replay' }).waitFor()
  for (const bad of ['pace=0', `from=${PAST}`, 'from=2020-01-01T00:00']) {
    t.match(await me.get(`${endpoint}/replay?what=window&${bad}`), { status: 422, html: /role="alert"/ }, bad)
  }
  const wrong = await me.get(`${endpoint}/replay?what=window&from=yesterday&to=tomorrow&pace=7`)
  t.match(wrong, {
    status: 422,
    html: /id="field-from"[^>]*aria-invalid="true"[^>]*value="yesterday"[^]*id="field-to-fault"/
  })
  t.match(wrong.html, 'value="7"')
})

t.test('a pause holds deliveries and a replay, which can be canceled; resuming sends them', async t => {
  await page.goto(endpoint)
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('Paused:', { exact: true }).waitFor()
  const email = await deliver()
  await row('No response yet').waitFor()
  t.match(await me.get(endpoint), { html: /Jetpost sends nothing while the endpoint is paused/ })
  t.equal((await me.post(`${endpoint}/test`, { type: 'email.opened' })).status, 409)
  await page.goto(`${endpoint}/replay?what=window&since=1`)
  await page.getByRole('button', { name: /Replay \d deliveries/ }).click()
  await page.locator('#replays').getByText('Waiting: the endpoint is paused').waitFor()
  await confirmed('Cancel', 'Cancel replay')
  await page.locator('#replays').getByText('canceled').waitFor()
  await sendTwice(t)
  const before = sink.requests.length
  await page.getByRole('button', { name: 'Resume' }).click()
  await sink.waitFor(requests => about(email)(requests).length === 1)
  await until(async () => !(await me.get(endpoint)).html.includes('No response yet'))
  t.equal(sink.requests.length, before + 1, 'nothing of the replay')
})

/** A form that an impatient hand sends twice. */
async function sendTwice (t: { equal(found: unknown, wanted: unknown): void }): Promise<void> {
  const { action, fields } = waysFrom((await me.get(`${endpoint}/replay?what=window&since=1`)).html, endpoint).forms
    .find(form => form.fields.once !== undefined)!
  const replays = async () => (await me.get(`${endpoint}/replays`)).html
  const count = (html: string) => html.split('data-name="What"').length - 1
  const before = count(await replays())
  for (const { status } of await Promise.all([me.post(action, fields), me.post(action, fields)])) t.equal(status, 303)
  t.equal(count(await replays()), before + 1)
  const cancels = (await replays()).match(/\/dashboard\/webhooks\/\w+\/replays\/\w+\/cancel/g)!
  for (const path of cancels) t.equal((await me.post(path)).status, 303)
}

t.test('settings are changed, the secret is rotated, and the rotation finished', async t => {
  await page.goto(endpoint)
  await page.getByRole('link', { name: 'Edit' }).click()
  await page.getByLabel('URL').fill(`${sink.url}/moved`)
  await page.getByLabel('Events per request').fill('2')
  await page.locator('select[name=mode]').selectOption('live')
  await page.getByRole('button', { name: 'Save' }).click()
  t.match(await page.locator('.facts').innerText(), /Up to 2 events, sent after 5000 ms at most/)
  t.match(await page.locator('.facts').innerText(), /Emails\s+Sent with live keys/)
  t.equal((await app.request('GET', `/api/webhooks/${endpoint.split('/').at(-1)}`)).body.mode, 'live')
  await confirmed('Rotate secret', 'Rotate secret')
  const next = await page.locator('.secret code').innerText()
  t.match(next, /^whsec_[\w+/]{43}=$/)
  t.not(next, secret)
  const check = await shownCheck()
  await page.reload()
  await page.getByText('still signs').waitFor()
  const sent = async () => {
    const before = sink.requests.length
    await page.goto(endpoint)
    await page.getByRole('button', { name: 'Send test event' }).click()
    return (await sink.waitFor(requests => requests.length > before)).at(-1)!
  }
  const during = await sent()
  t.equal(during.path, '/moved')
  t.equal(check(during.body, during.headers, secret), true, 'the old one')
  await page.goto(endpoint)
  await confirmed('Finish rotation', 'Finish rotation')
  await page.getByText('Only the new secret signs').waitFor()
  const after = await sent()
  t.equal(check(after.body, after.headers, next), true)
})

t.test('filters stand in the URL, and lists go on page by page', async t => {
  const { id } = (await app.request('POST', '/api/webhooks', {
    body: { url: `${sink.url}/many?"><img src=x onerror=window.hit=1><i a='`, events: ['email.delivered'] }
  })).body
  const [first] = await Promise.all(Array.from({ length: 27 }, deliver))
  await sink.waitFor(requests => requests.filter(({ path }) => path.startsWith('/many')).length === 27)
  const path = `/dashboard/webhooks/${id}`
  await until(async () => !/pending/.test((await me.get(`${path}?state=pending`)).html.split('<tbody>')[1] ?? ''))
  const links = (html: string) =>
    [...html.matchAll(/href="(\/dashboard\/webhooks\/deliveries\/whd_\w+)"/g)].map(([, link]) => link!)
  const newest = await me.get(path)
  t.equal(links(newest.html).length, 25)
  const [, tile] = /href="([^"]*state=delivered[^"]*)">27</.exec(newest.html)!
  const ofTheDay = (await me.get(tile!.replaceAll('&amp;', '&'))).html
  t.equal(links(ofTheDay).length, 25, 'a figure leads to what it counts')
  t.match(ofTheDay, `name="since" autocomplete="off" value="${/since=(.{16})/.exec(tile!)![1]}"`)
  t.match(await me.get('/dashboard/webhooks'), { html: /27 delivered/ })
  const [, older] = /rel="next" href="([^"]+)"/.exec(newest.html)!
  const rest = links((await me.get(older!.replaceAll('&amp;', '&'))).html)
  t.equal(new Set([...links(newest.html), ...rest]).size, 27)
  t.equal(links((await me.get(`/dashboard/webhooks/deliveries?email=${first}`)).html).length, 2, 'of both endpoints')
  t.equal(links((await me.get(`${path}?email=${first}&state=delivered`)).html).length, 1)
  t.match(await me.get(`${path}?state=failed`), { html: /No results/ })
  t.match(await me.get(`${path}?since=${PAST}`), { html: /No results/ })
  t.match(await me.get(`${path}?error=timeout&event=ev_1`), { html: /No results/ })
  for (const bad of ['state=lost', 'error=none', 'cursor=abc', 'since=yesterday', 'event=em_1', 'email=%00']) {
    t.equal((await me.get(`${path}?${bad}`)).status, 422, bad)
  }
  for (const wide of ['since=0000-01-01T00:00', 'until=9999-12-31T23:59:59-23:00']) {
    t.match((await me.get(`${path}?${wide}`)).html, 'href="/dashboard/webhooks/deliveries/', wide)
  }
  t.equal((await me.get(`${path}?cursor=${cursorText({ at: '0000-01-01T00:00:00.000Z', id: 'whd_1' })}`)).status, 422)
  const { html: wrong } = await me.get(`${path}?state=delivered&email=ada@example.com&since=yesterday`)
  t.match(wrong, 'Deliveries of the last 24 hours', 'the endpoint is there all the same')
  t.match(wrong, '<option value="delivered" selected>')
  const field = 'id="field-email"[^>]*aria-invalid="true"[^>]*value="ada@example.com"'
  const fault = 'id="field-email-fault">Email must be an id, em_…, not an address'
  t.match(wrong, new RegExp(`${field}[^]*${fault}`))
  t.match(wrong, /type="text" id="field-since"[^>]*aria-invalid="true"[^>]*value="yesterday"/)
  for (const none of ['whd_none', '%00']) {
    t.equal((await me.get(`/dashboard/webhooks/deliveries/${none}`)).status, 404, none)
  }
  await page.goto(path)
  await page.getByLabel('Status', { exact: true }).selectOption('delivered')
  await page.waitForURL(/state=delivered/)
  for (
    const shown of [
      path,
      '/dashboard/webhooks',
      '/dashboard/webhooks/deliveries',
      rest[0]!,
      `${path}/edit`,
      `${path}/replay`
    ]
  ) {
    await page.goto(shown)
    t.equal(await page.locator('main img, main i').count(), 0, 'its URL is a text')
  }
  await page.goto(path)
  t.equal(newest.html.split('hx-get=').length - 1, 1, 'the page asks once when something has happened')
  await page.getByText('More filters').click()
  await page.getByLabel('Event', { exact: true }).fill('ev_half')
  await page.getByLabel('Email', { exact: true }).focus()
  await stay()
  await deliver()
  await page.locator('.tile', { hasText: 'Delivered' }).getByText('28').waitFor()
  t.equal(await page.getByLabel('Event', { exact: true }).inputValue(), 'ev_half', 'what is half typed stays')
  t.ok(await stayed())
  await page.goto(path)
  await confirmed('Delete endpoint', 'Delete endpoint')
  await page.getByText('Endpoint deleted.').waitFor()
  t.match(await me.get(rest[0]!), { status: 200, html: /cannot be replayed/ })
  t.match(await me.post(`${rest[0]}/replay`), { status: 422, html: /deleted/ })
})

t.test('another account sees none of it and changes nothing', async t => {
  const stranger = await visit(app, await app.newAccountKey())
  const [delivery] = /\/dashboard\/webhooks\/deliveries\/whd_\w+/.exec((await me.get(endpoint)).html)!
  const [replay] = /replays\/rpl_\w+/.exec((await me.get(`${endpoint}/replays`)).html) ?? ['replays/rpl_none']
  t.match(await stranger.get('/dashboard/webhooks'), { html: /No endpoints yet/ })
  t.match(await stranger.get('/dashboard/webhooks/deliveries'), { html: /No deliveries yet/ })
  for (
    const path of [
      endpoint,
      `${endpoint}/edit`,
      `${endpoint}/replay?what=window`,
      `${endpoint}/replays`,
      delivery,
      `${delivery}/body`
    ]
  ) t.equal((await stranger.get(path)).status, 404, path)
  const verbs = ['pause', 'resume', 'enable', 'delete', 'rotate', 'finish', 'replay', `${replay}/cancel`].map(verb =>
    `${endpoint}/${verb}`
  )
  for (const path of [...verbs, `${delivery}/replay`]) t.equal((await stranger.post(path)).status, 404, path)
  t.equal((await stranger.post(`${endpoint}/test`, { type: 'email.opened' })).status, 404)
  t.equal((await stranger.post(endpoint, { url: 'https://example.com/', events: 'email.opened' })).status, 404)
})

t.test('nothing that receivers answered has run, and the content policy had nothing to stop', async t => {
  t.strictSame(complaints, [])
  t.equal(await page.evaluate('"hit" in window'), false)
})

t.test('an endpoint gets its format when it is made', async t => {
  await page.goto('/dashboard/webhooks/new')
  const format = page.getByLabel('Format of events')
  t.equal(await format.inputValue(), 'jetpost')
  await page.getByLabel('URL').fill('https://example.com/resend')
  await format.selectOption('resend')
  await page.getByRole('button', { name: 'Create endpoint' }).click()
  await page.locator('.secret code').waitFor()
  const [{ id, format: made }] = (await app.request('GET', '/api/webhooks')).body.data
  t.equal(made, 'resend')
  await page.goto(`/dashboard/webhooks/${id}`)
  t.match(await page.locator('main').innerText(), /Format\s+Resend/)
  await page.goto(`/dashboard/webhooks/${id}/edit`)
  t.equal(await format.count(), 0, 'and keeps it')
})
