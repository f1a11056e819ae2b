import t from 'tap'
import { flaws } from '../support/axe.ts'
import { openPage, signIn } from '../support/browser.ts'
import { visit } from '../support/dashboard.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { until } from '../support/wait.ts'

const dns = await openDnsServer(t)
const app = await startTestApp(t, {
  env: { JETPOST_DNS: dns.address, JETPOST_BOUNCE_DOMAIN: 'bounces.jetpost.example' }
})
const visitor = await visit(app)

interface DnsRecord {
  purpose: string
  type: string
  name: string
  value: string
  stage: string
}

const add = async (name: string) =>
  (await app.request('POST', '/api/domains', { body: { name } })).body as { id: string, records: DnsRecord[] }
const get = async (id: string) => (await app.request('GET', `/api/domains/${id}`)).body
const rsaOf = (records: DnsRecord[], stage = 'current') =>
  records.find(record => record.value.includes('k=rsa') && record.stage === stage)!

function publish (records: DnsRecord[]): void {
  for (const { type, name, value } of records) {
    if (type === 'CNAME') dns.cname(name, value)
    else dns.txt(name, value)
  }
}

t.test('before there is one, the page says why, and takes the first', async t => {
  const { html } = await visitor.get('/dashboard/domains')
  t.match(html, 'No domains yet')
  t.match(html, 'sandbox.jetpost.test')
  const bad = await visitor.post('/dashboard/domains', { name: 'localhost' })
  t.equal(bad.status, 422)
  t.match(bad.html, /aria-invalid="true"/)
  t.match(bad.html, 'value="localhost"')
})

t.test('a domain is added, its records are copied, and once they are published it is verified', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto('/dashboard/domains')
  await page.getByLabel('Domain to send from').fill('Shop.Example')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByText('Publish its DNS records next.').waitFor()
  const id = page.url().split('/').at(-1)!
  const { records } = await get(id)

  const pasted = async () => await page.evaluate('navigator.clipboard.readText()')
  const rsa = rsaOf(records)
  const card = page.getByRole('region', { name: `DKIM (RSA): ${rsa.name}` })
  await card.getByRole('button', { name: 'Copy the name of DKIM (RSA)', exact: true }).click()
  await card.getByText('Copied').waitFor()
  t.equal(await pasted(), rsa.name)
  await card.getByRole('button', { name: 'Copy the name of DKIM (RSA) in the zone shop.example' }).click()
  await page.waitForFunction('navigator.clipboard.readText().then(text => !text.endsWith("shop.example"))')
  t.equal(`${await pasted()}.shop.example`, rsa.name)
  await card.getByRole('button', { name: 'Copy the code' }).click()
  await page.waitForFunction('navigator.clipboard.readText().then(text => text.startsWith("v=DKIM1"))')
  t.equal(await pasted(), rsa.value)

  dns.txt(rsa.name, rsa.value.slice(0, 255))
  dns.cname('jp-bounces.shop.example', 'elsewhere.example')
  await page.getByRole('button', { name: 'Check now' }).click()
  await page.getByText('Not verified yet. DKIM (RSA): wrong.').waitFor()
  await card.getByText('The value was cut off').waitFor()
  await page.getByText('The CNAME must point to the value above.').waitFor()
  await page.getByText('DNS has no record with this name.').first().waitFor()
  t.strictSame(await flaws(page), [])

  publish(records)
  await page.getByRole('button', { name: 'Check now' }).click()
  await page.getByText('All required DNS records are correct.').waitFor()
  t.equal(await page.locator('#standing .badge', { hasText: 'correct' }).count(), 4)
  t.equal((await get(id)).status, 'verified')
  await page.goto('/dashboard/domains')
  await page.getByRole('row', { name: /shop\.example verified/ }).waitFor()
  t.strictSame(complaints, [])
})

t.test('the zone file says what the records say, in strings that DNS carries', async t => {
  const { id, records } = await add('zone.example')
  const { html } = await visitor.get(`/dashboard/domains/${id}`)
  const zone = /aria-label="Zone file"><code>([^]*?)<\/code>/.exec(html)![1]!.replaceAll('&quot;', '"')
  const lines = zone.split('\n')
  t.equal(lines.length, records.length)
  const values = lines.map(line => [...line.matchAll(/"([^"]*)"/g)].map(([, text]) => text!))
  t.ok(values.flat().every(text => text.length <= 255))
  t.strictSame(
    values.map(strings => strings.join('')).filter(text => text !== ''),
    records.filter(({ type }) => type === 'TXT').map(({ value }) => value)
  )
  t.ok(lines.includes('jp-bounces.zone.example. 3600 IN CNAME bounces.jetpost.example.'))
})

t.test('what DNS shows instead is text, whatever it is', async t => {
  const { id, records } = await add('hostile.example')
  dns.txt(rsaOf(records).name, '<img src=x onerror=alert(1)>')
  await visitor.post(`/dashboard/domains/${id}/verify`)
  const { html } = await visitor.get(`/dashboard/domains/${id}`)
  t.match(html, '&lt;img src=x onerror=alert(1)&gt;')
  t.notMatch(html, '<img src=x')
})

t.test('of a domain below another the names are given for both zones it may lie in', async t => {
  const { id, records } = await add('mail.shop.example')
  const selector = rsaOf(records).name.split('.')[0]
  const { html } = await visitor.get(`/dashboard/domains/${id}`)
  for (
    const [zone, name] of [['shop.example', `${selector}._domainkey.mail`], [
      'mail.shop.example',
      `${selector}._domainkey`
    ]]
  ) {
    t.match(html, `<dt>Name in the zone ${zone}</dt><dd><span class="copyable"><code>${name}</code>`)
  }
})

t.test('when DNS does not answer, the page says so, and nothing changes', async t => {
  const { id, records } = await add('mute.example')
  dns.fails(rsaOf(records).name, 'SERVFAIL')
  const { status, html } = await visitor.post(`/dashboard/domains/${id}/verify`)
  t.equal(status, 503)
  t.match(html, 'DNS does not answer. Nothing was changed.')
  t.equal((await get(id)).status, 'pending')
})

t.test('keys are rotated step by step, and the page shows the step', async t => {
  const { id, records } = await add('turn.example')
  publish(records)
  await visitor.post(`/dashboard/domains/${id}/verify`)
  const page = async () => (await visitor.get(`/dashboard/domains/${id}`)).html
  t.match(await page(), 'Rotate keys')
  t.match(await visitor.post(`/dashboard/domains/${id}/rotate`), { status: 303 })
  t.match(await page(), 'Publish the records marked as new above')
  t.notMatch(await page(), '>Rotate keys<')
  const again = await visitor.post(`/dashboard/domains/${id}/rotate`)
  t.equal(again.status, 409)
  t.match(again.html, 'are being rotated')
  publish((await get(id)).records.filter(({ stage }: DnsRecord) => stage === 'next'))
  await visitor.post(`/dashboard/domains/${id}/verify`)
  t.match(await page(), /The new keys sign\. Keep the old records until <time/)
  t.match(await page(), /Of the old keys\. Keep this record until <time/)
})

t.test('the defaults of a domain are set and reset', async t => {
  const { id } = await add('quiet.example')
  t.match(
    await visitor.post(`/dashboard/domains/${id}/defaults`, { opens: 'false', clicks: '', unsubscribe: 'true' }),
    { status: 303 }
  )
  t.match(await get(id), { track: { opens: false, clicks: null }, unsubscribe: true })
  const options = '<option value="">Default (on)</option><option value="true">On</option>' +
    '<option value="false" selected>Off'
  t.ok((await visitor.get(`/dashboard/domains/${id}`)).html.includes(`name="opens" >${options}`))
  await visitor.post(`/dashboard/domains/${id}/defaults`, { opens: '', clicks: '', unsubscribe: '' })
  t.match(await get(id), { track: { opens: null, clicks: null }, unsubscribe: null })
})

t.test('the keys that may send from it are named, to those who may see keys', async t => {
  const { id } = await add('senders.example')
  const fine = await app.newKey({ name: 'Of this domain', scopes: ['emails:send'], domains: ['senders.example'] })
  await app.newKey({ name: 'Of another', scopes: ['emails:send'], domains: ['shop.example'] })
  await app.newKey({ name: 'Reads only', scopes: ['emails:read'] })
  const { html } = await visitor.get(`/dashboard/domains/${id}`)
  t.match(html, new RegExp(`href="/dashboard/keys/${fine.id}">Of this domain`))
  t.match(html, 'JETPOST_API_KEY')
  for (const name of ['Of another', 'Reads only']) t.notMatch(html, name)
  await app.newKey({ name: 'Soon over', expiresMs: Date.now() + 2000 })
  t.match((await visitor.get(`/dashboard/domains/${id}`)).html, 'Soon over')
  await until(async () => !(await visitor.get(`/dashboard/domains/${id}`)).html.includes('Soon over'))
  for (let i = 0; i < 100; i++) await app.newKey({ name: 'Reads only', scopes: ['emails:read'] }, { wait: i === 99 })
  t.match((await visitor.get(`/dashboard/domains/${id}`)).html, 'Of this domain', 'however many there are')
  const { secret } = await app.newKey({ name: 'Looks', scopes: ['dashboard'] })
  const looker = await visit(app, secret)
  t.match((await looker.get(`/dashboard/domains/${id}`)).html, 'The key you signed in with may not see keys.')
})

t.test('a domain is deleted, and another account never sees it', async t => {
  const { id } = await add('gone.example')
  const other = await visit(app, await app.newAccountKey())
  t.equal((await other.get(`/dashboard/domains/${id}`)).status, 404)
  for (const act of ['verify', 'rotate', 'defaults', 'delete']) {
    t.equal((await other.post(`/dashboard/domains/${id}/${act}`)).status, 404, act)
  }
  t.match((await other.get('/dashboard/domains')).html, 'No domains yet')
  t.match(await visitor.post(`/dashboard/domains/${id}/delete`), { status: 303, to: '/dashboard/domains' })
  t.equal((await visitor.get(`/dashboard/domains/${id}`)).status, 404)
})
