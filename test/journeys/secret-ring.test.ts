import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import PostalMime from 'postal-mime'
import t from 'tap'
import { newSecret } from '#src/base/secret.ts'
import { verifyWebhook } from '#src/client/webhook.ts'
import { startTestApp, type TestApp } from '../support/app.ts'
import { jetpostHere } from '../support/command.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const DOMAIN = 'shop.example'
const HTML = '<p><a href="https://shop.example/sale">sale</a></p>'
const [OLD, NEW] = [newSecret(''), newSecret('')]
/** Nobody erases: what is asked for stays under way. */
const NO_SCHEDULER = 'api,sender,projector,webhooks'

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const smtp = await startSink()
t.teardown(() => smtp.stop())
const sink = await startHookSink()
t.teardown(() => sink.stop())

async function start (secrets: string, roles = 'all'): Promise<TestApp> {
  const env = { JETPOST_SECRET: secrets, JETPOST_ROLES: roles, SMTP_URL: smtp.url }
  return await startTestApp(t, { natsUrl, databaseUrl, env })
}

const rotate = async (secrets: string) =>
  await jetpostHere(['secret', 'rotate', '--json'], { NATS_URL: natsUrl, JETPOST_SECRET: secrets })

let app = await start(OLD, NO_SCHEDULER)
const zone = new Map<string, string>()
const secrets: string[] = []
let erasure = ''
let links = { click: '', unsubscribe: '' }

const mail = async (to: string) =>
  (await app.send({ from: `hello@${DOMAIN}`, to, html: HTML, track: { clicks: true }, unsubscribe: true })).body.id

/** Once it is there: both of its signatures are good. */
async function arrived (to: string): Promise<Buffer> {
  await until(() => smtp.received.some(message => message.to === to && message.accepted))
  const { raw } = smtp.received.find(message => message.to === to)!
  const resolver = async (name: string) => [[zone.get(name)!]]
  const { results } = await dkimVerify(raw, { resolver } as Parameters<typeof dkimVerify>[1])
  t.strictSame(results.map(({ status }) => status.result), ['pass', 'pass'], `DKIM of the mail to ${to}`)
  return raw
}

/** Each endpoint has been told of each mail; all that came verifies. */
async function told (ids: string[]): Promise<void> {
  const by = (path: string, id: string) => (request: { path: string, body: Buffer }) =>
    request.path === path && JSON.parse(request.body.toString()).data.email_id === id
  const paths = ['/one', '/two']
  await sink.waitFor(requests => ids.every(id => paths.every(path => requests.some(by(path, id)))))
  for (const { headers, body, path } of sink.requests) {
    const secret = secrets[paths.indexOf(path)]!
    await t.resolves(verifyWebhook({ headers, body, secret }), `a callback to ${path}`)
  }
}

t.test('with one secret: mail, callbacks, an erasure under way', async t => {
  const { body: { records } } = await app.request('POST', '/api/domains', { body: { name: DOMAIN } })
  for (const { name, value } of records) zone.set(name, value)
  for (const path of ['/one', '/two']) {
    const events = ['email.delivered']
    secrets.push((await app.request('POST', '/api/webhooks', { body: { url: sink.url + path, events } })).body.secret)
  }
  const { body: { data } } = await app.request('GET', '/api/webhooks')
  const { id } = data.find(({ url }: { url: string }) => url.endsWith('/two'))
  const rotated = await app.request('POST', `/api/webhooks/${id}/rotate-secret`, { body: {} })
  t.equal(rotated.status, 200)
  const route = { name: 'relay', url: 'smtp://me:secret@127.0.0.1:9', match: { tags: ['of-no-mail'] } }
  t.equal((await app.request('POST', '/api/routes', { body: route })).status, 201)
  const before = await mail('ada@example.net')
  const { html = '', headers } = await PostalMime.parse(await arrived('ada@example.net'))
  const header = headers.find(({ key }) => key === 'list-unsubscribe')!.value
  links = { click: /href="([^"]+)"/.exec(html)![1]!, unsubscribe: /<(http[^>]+)>/.exec(header)![1]! }
  await told([before])
  const asked = await app.request('POST', '/api/erasures', { body: { address: 'grace@example.net' } })
  t.equal(asked.status, 202)
  erasure = asked.body.id
  t.match(await rotate(OLD), { code: 1, err: /put a new secret before it, with a comma between them/ })
  await app.stop()
})

const statusOf = async (link: string) => (await fetch(app.url + new URL(link).pathname, { redirect: 'manual' })).status

t.test('with a new one before it: what was sealed is sealed again under load, and what went out works', async t => {
  app = await start(`${NEW},${OLD}`, NO_SCHEDULER)
  const addresses = Array.from({ length: 40 }, (_, i) => `load${i}@example.net`)
  const sending = Promise.all(addresses.map(mail))
  const first = await rotate(`${NEW},${OLD}`)
  t.match(first, { code: 0 }, first.err)
  t.match(JSON.parse(first.out), { added: false, webhooks: 2, domains: 1, routes: 1, erasures: 1, lost: [] })
  await told(await sending)
  for (const address of addresses) {
    await arrived(address)
    t.equal(smtp.attempts(address), 1, 'no key could not be opened')
  }
  const { body: { data } } = await app.request('GET', '/api/deliveries?limit=100')
  t.strictSame(data.filter((one: { attempts: number }) => one.attempts > 1), [], 'nor any signing secret')
  const again = await rotate(`${NEW},${OLD}`)
  t.match(JSON.parse(again.out), { webhooks: 0, domains: 0, routes: 0, erasures: 1, lost: [] }, 'nothing is done twice')
  t.strictSame([await statusOf(links.click), await statusOf(links.unsubscribe)], [302, 200])
  const asked = await app.request('POST', '/api/erasures', { body: { address: 'grace@example.net' } })
  t.equal(asked.body.id, erasure, 'the erasure is found by the hash of the older secret')
  await app.stop()
  app = await start(`${NEW},${OLD}`)
  await until(async () => (await app.request('GET', `/api/erasures/${erasure}`)).body.status === 'completed')
  const free = await jetpostHere(['secret', 'rotate'], { NATS_URL: natsUrl, JETPOST_SECRET: `${NEW},${OLD}` })
  t.match(free, { code: 0, out: /Nothing is sealed with an older secret any more\. Links, return paths and event/ })
  await app.stop()
})

t.test('without the old one: callbacks and DKIM as before; links of before are over', async t => {
  app = await start(NEW)
  await told([await mail('joan@example.net')])
  await arrived('joan@example.net')
  t.strictSame([await statusOf(links.click), await statusOf(links.unsubscribe)], [404, 404])
})

t.test('a ring that opens nothing says so, and changes nothing', async t => {
  const wrong = await rotate(`${newSecret('')},${newSecret('')}`)
  t.match(wrong, {
    code: 1,
    err:
      /^jetpost: Nothing in JETPOST_SECRET opens the secrets of wh_\w+, wh_\w+, shop\.example, relay: add the secret /
  })
  t.match(JSON.parse(wrong.out), { webhooks: 0, domains: 0, routes: 0, lost: [/^wh_/, /^wh_/, DOMAIN, 'relay'] })
  await told([await mail('edsger@example.net')])
})
