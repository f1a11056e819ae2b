import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '#src/base/log.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { startTestApp, type TestApp } from '../support/app.ts'
import { chanceOf } from '../support/random.ts'
import { until } from '../support/wait.ts'

const HOUR_MS = 3_600_000
const DAYS = 6
/** Hours of the day, UTC, at which its mail goes out, and how much of it. */
const DAY: Array<[hour: number, mails: number]> = [[6, 2], [8, 6], [10, 9], [12, 7], [15, 10], [18, 8], [21, 4]]
const PEOPLE = [
  'Ingrid Solberg',
  'Mateo Fernández',
  'Aiko Tanaka',
  'Tom Becker',
  'Zoë van Dijk',
  'Samuel Okafor',
  'Priya Raman',
  'Lena Hoffmann',
  'Oliver Grant',
  'Chiara Conti',
  'Jakub Nowak',
  'Emma Lindqvist',
  'Noah Dubois',
  'Fatima Rahimi',
  'Liam O’Connor',
  'Hana Novotná',
  'Pedro Almeida',
  'Maja Kovač',
  'Sven Eriksson',
  'Grace Mwangi'
]
const HOSTS = ['example.com', 'example.net', 'example.org', 'mail.example']
const SHOP = 'fjordcycle.example'
const BROWSER = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' }

interface Scope {
  teardown(end: () => unknown): void
}

/** A shop for bicycles that has sent mail for some days: what the pictures in the README show. On servers of its own,
 *  closed with `scope`. */
export async function startDemoApp (scope: Scope): Promise<{ app: TestApp, seeds: string[], key: string }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-demo-'))
  scope.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  const servers = await startEmbedded({
    dataDir,
    nats: true,
    postgres: true,
    log: createLog('silent'),
    say: () => {}
  })
  scope.teardown(() => servers.stop())
  const [hooks, dns] = [await startHookSink(), await openDnsServer(scope)]
  scope.teardown(() => hooks.stop())
  const startMs = Date.now() - DAYS * 24 * HOUR_MS
  let nowMs = startMs
  const begunMs = performance.now()
  const app = await startTestApp(scope, {
    natsUrl: servers.natsUrl!,
    databaseUrl: servers.databaseUrl!,
    clock: { nowMs: () => Math.round(nowMs + performance.now() - begunMs) },
    env: { JETPOST_DNS: dns.address, JETPOST_INBOUND_PORT: '0', JETPOST_BOUNCE_DOMAIN: `bounces.${SHOP}` }
  })
  const json = { 'content-type': 'application/json' }
  const isDown = () => nowMs > Date.now() - 30 * HOUR_MS
  hooks.answers((
    { path }
  ) => (path === '/crm/events' && isDown()
    ? { status: 503, body: '{"error":"maintenance until Monday"}', headers: json }
    : { body: '{"ok":true}', headers: json })
  )
  const seeds = await wire(app, hooks.url, dns)
  for (let day = 0; day < DAYS; day++) {
    for (const [hour, mails] of DAY) {
      nowMs = startMs + (day * 24 + hour) * HOUR_MS - (performance.now() - begunMs)
      await spend(app, day * 100 + hour, day === DAYS - 1 ? mails + 4 : mails, () => {
        nowMs += HOUR_MS / 2
      })
    }
  }
  nowMs = Date.now() - (performance.now() - begunMs) - 5 * 60_000
  await spend(app, 999, 6, () => {})
  nowMs = Date.now() - (performance.now() - begunMs)
  await app.send(letterOf(3, { scheduled_at: new Date(Date.now() + 9 * HOUR_MS).toISOString() }))
  await app.send(letterOf(5, {}))
  return { app, seeds, key: (await app.newKey({ name: 'Ingrid, laptop' })).secret }
}

async function ask (app: TestApp, method: string, path: string, body?: unknown): Promise<any> {
  const answer = await app.request(method, path, { body })
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

/** What was there before the first mail. */
async function wire (app: TestApp, hooks: string, dns: Awaited<ReturnType<typeof openDnsServer>>): Promise<string[]> {
  const make = async (path: string, body: unknown) => await ask(app, 'POST', path, body)
  const domain = await make('/api/domains', { name: SHOP })
  for (const { type, name, value } of domain.records) if (type === 'TXT') dns.txt(name, value)
  await ask(app, 'POST', `/api/domains/${domain.id}/verify`)
  await make('/api/domains', { name: `news.${SHOP}` })
  const keys = [
    ['Shop backend', ['emails:send', 'emails:read']],
    ['Newsletter', ['emails:send', 'templates:read']],
    ['Support services', ['dashboard']],
    ['Metrics export', ['emails:read']]
  ]
  for (const [name, scopes] of keys) await make('/api/keys', { name, scopes, domains: ['*'] })
  const events = ['email.delivered', 'email.bounced', 'email.complained']
  const shop = await make('/api/webhooks', { url: `${hooks}/shop/mail-events`, events })
  await make('/api/webhooks', {
    url: `${hooks}/crm/events`,
    events: ['email.opened', 'email.clicked', 'email.delivered']
  })
  await make('/api/templates', {
    name: 'Order confirmation',
    subject: 'Your order {{order}} is on its way',
    html: '<h1>Thank you, {{name}}!</h1><p>We have packed your order <b>{{order}}</b>: it leaves Bergen ' +
      'today.</p><p><a href="https://fjordcycle.example/orders/{{order}}">Follow it</a></p>',
    text: 'Thank you, {{name}}! Your order {{order}} leaves Bergen today.'
  })
  const reset = await make('/api/templates', {
    name: 'Password reset',
    subject: 'Choose a new password',
    html: '<p>Hello {{name}},</p><p><a href="{{link}}">Choose a new password</a>. The link works for an hour.</p>'
  })
  await ask(app, 'PATCH', `/api/templates/${reset.id}`, { subject: 'Choose a new password for Fjordcycle' })
  for (const address of ['press@example.com', 'old.inbox@example.net']) await make('/api/suppressions', { address })
  return [
    '/dashboard',
    `/dashboard/webhooks/${shop.id}/replay?what=window&since=24`,
    `/dashboard/webhooks/${shop.id}/replays`
  ]
}

function letterOf (i: number, fields: Record<string, unknown>): Record<string, unknown> {
  const person = PEOPLE[i % PEOPLE.length]!
  const order = `FC-${20_300 + i}`
  const kinds = [
    { subject: `Your order ${order} is on its way`, tags: ['order'], metadata: { order } },
    { subject: `Receipt for ${order}`, tags: ['receipt'], metadata: { order, total: 89 + i } },
    { subject: 'Choose a new password for Fjordcycle', tags: ['account'] },
    { subject: 'Autumn service: book your workshop hour', tags: ['news'] }
  ]
  const { subject, ...rest } = kinds[i % kinds.length]!
  return {
    from: `Fjordcycle <orders@${SHOP}>`,
    to: `${person} <${addressOf(person, i)}>`,
    subject,
    html: `<h1>${subject}</h1><p>Hello ${person.split(' ')[0]},</p>
<p>thank you for riding with us. <a href="https://${SHOP}/orders">See your orders</a></p><p>Fjordcycle, Bergen</p>`,
    text: `Hello ${person.split(' ')[0]}, thank you for riding with us.`,
    ...rest,
    ...fields
  }
}

function addressOf (person: string, i: number): string {
  const local = person.normalize('NFD').replaceAll(/[^A-Za-z ]/g, '').toLowerCase().replaceAll(' ', '.')
  if (i % 31 === 7) return `bounced+${local}@sandbox.jetpost.test`
  if (i % 53 === 11) return `softbounced+${local}@sandbox.jetpost.test`
  if (i % 97 === 13) return `complained+${local}@sandbox.jetpost.test`
  return `${local}@${HOSTS[i % HOSTS.length]}`
}

/** An hour of the shop: its mail goes out, and some of those who have got it open it. */
async function spend (app: TestApp, seed: number, mails: number, pass: () => void): Promise<void> {
  const chance = chanceOf(seed)
  const ids = await Promise.all(
    Array.from(
      { length: mails },
      async () => (await app.send(letterOf(Math.floor(chance.next() * 400), {}))).body.id as string
    )
  )
  await until(
    async () =>
      (await Promise.all(ids.map(async id => (await ask(app, 'GET', `/api/emails/${id}`)).status))).every(status =>
        !['queued', 'sending'].includes(status)
      ),
    60_000
  )
  // Who opens mail at once is no person.
  pass()
  const { data } = await ask(app, 'GET', '/catcher.json')
  for (const { id } of data.slice(0, mails)) {
    const { body: raw } = await app.request('GET', `/catcher/${id}.html`)
    const link = (pattern: RegExp) => pattern.exec(String(raw))?.[1]
    const wanted = [
      chance.next() < 0.55 ? link(/<img src="([^"]+)"/) : undefined,
      chance.next() < 0.2 ? link(/href="([^"]+\/c\/[^"]+)"/) : undefined
    ]
    for (const url of wanted) {
      if (url !== undefined) await fetch(app.url + new URL(url).pathname, { redirect: 'manual', headers: BROWSER })
    }
  }
}
