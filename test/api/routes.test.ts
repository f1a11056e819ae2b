import t from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const second = await startTestApp(t, { natsUrl, databaseUrl, env: { JETPOST_ROLES: 'api' } })

const ask = async (method: string, path: string, body?: unknown, key = API_KEY, at = app) =>
  await at.request(method, path, { key, body })
const SECRET = 'hunter2-of-the-relay'
const FULL = {
  name: 'bulk',
  url: `smtp://me:${SECRET}@relay.example.com:2525?tls=required`,
  position: 10,
  match: { sender_domains: ['shop.example'], tags: ['bulk'] },
  fallbacks: ['default'],
  hostname: 'mx1.example.com',
  sources: [{ address: '192.0.2.1', weight: 3, tags: ['bulk'], warm_up: { from: '2026-12-01', per_day: [50, 100] } }],
  messages_per_second: 2.5,
  connections: 4,
  warm_up: { from: '2026-12-01', per_day: [50], after: 1000 }
}

t.test('an operator creates, reads, changes and deletes routes; another node knows them', async t => {
  const made = await ask('POST', '/api/routes', FULL)
  t.match(made, {
    status: 201,
    body: {
      name: 'bulk',
      url: 'smtp://relay.example.com:2525?tls=required',
      has_credentials: true,
      match: { sender_domains: ['shop.example'], keys: [], tags: ['bulk'], recipient_domains: [] },
      sources: [{ address: '192.0.2.1', hostname: null, weight: 3, warm_up: { per_day: [50, 100], after: null } }],
      messages_per_second: 2.5,
      warm_up: { from: '2026-12-01', per_day: [50], after: 1000 }
    }
  })
  const path = `/api/routes/${made.body.id}`
  t.equal(made.headers.get('location'), path)
  t.strictSame((await ask('GET', path, undefined, API_KEY, second)).body, made.body)
  const plain = await ask('POST', '/api/routes', { name: 'plain', url: 'direct:' })
  t.match(plain, { status: 201, body: { url: 'direct:', has_credentials: false, position: 100, fallbacks: [] } })
  t.strictSame((await ask('GET', '/api/routes')).body.data, [plain.body, made.body])
  const changed = await ask('PATCH', path, { position: 5, warm_up: null })
  t.strictSame(changed.body, { ...made.body, position: 5, warm_up: null })
  t.match((await ask('PATCH', path, { url: 'smtp://other.example.com' })).body, {
    url: 'smtp://other.example.com',
    has_credentials: false
  })
  t.equal((await ask('DELETE', path)).status, 204)
  t.equal((await ask('GET', path)).status, 404)
  t.equal((await ask('PATCH', path, { position: 1 })).status, 404)
  t.equal((await ask('POST', '/api/routes', FULL)).status, 201, 'its name is free again')
})

t.test('what is wrong is said of its field', async t => {
  const wrong: Array<[object, string]> = [
    [{ name: 'bulk' }, 'name'],
    [{ name: 'default' }, 'name'],
    [{ name: 'Not A Name' }, 'name'],
    [{ url: `http://me:${SECRET}@relay.example.com` }, 'url'],
    [{ url: `smtp://me:${SECRET}@relay.example.com?tls=maybe` }, 'url'],
    [{ fallbacks: ['nobody'] }, 'fallbacks'],
    [{ match: { sender_domains: ['not a domain'] } }, 'match'],
    [{ match: { unknown: [] } }, 'match.unknown'],
    [{ hostname: '-' }, 'hostname'],
    [{ sources: [{ address: 'example.com' }] }, 'sources'],
    [{ sources: [{ address: '192.0.2.1', weight: 0 }] }, 'sources[0].weight'],
    [{ warm_up: { from: 'yesterday!', per_day: [1] } }, 'warm_up.from'],
    [{ warm_up: { from: '2026-12-01', per_day: [] } }, 'warm_up.per_day'],
    [{ messages_per_second: 0 }, 'messages_per_second'],
    [{ position: -1 }, 'position']
  ]
  for (const [fields, field] of wrong) {
    const refused = await ask('POST', '/api/routes', { name: 'other', url: 'direct:', ...fields })
    t.equal(refused.status, 422, JSON.stringify(fields))
    t.strictSame(refused.body.details.map((fault: { field: string }) => fault.field), [field])
    t.notMatch(JSON.stringify(refused.body), SECRET)
  }
})

t.test('keys without the scope operator neither see nor set routes', async t => {
  const { body: { key } } = await ask('POST', '/api/keys', {
    name: 'Sends',
    scopes: ['emails:send', 'keys:write', 'domains:write'],
    domains: ['*']
  })
  for (const [method, path, body] of [['GET', '/api/routes'], ['POST', '/api/routes', FULL]] as const) {
    const { status, headers } = await ask(method, path, body, key)
    t.equal(status, 403)
    t.match(headers.get('www-authenticate'), /scope="operator"/)
  }
})

t.test('the user and the password of a relay stand in no list, answer or audit entry', async t => {
  const entries = async () => (await ask('GET', '/api/audit?limit=100')).body.data as Array<{ action: string }>
  await until(async () => (await entries()).some(({ action }) => action === 'route.deleted'))
  const told = await entries()
  t.match(told.find(({ action }) => action === 'route.created'), {
    summary: /^Created the route bulk \(url: smtp:\/\/relay\.example\.com:2525\?tls=required; position: 10\)\.$/
  })
  const texts = [told, (await ask('GET', '/api/routes')).body, (await ask('GET', '/api/audit/export?format=csv')).body]
  for (const text of texts) t.notMatch(JSON.stringify(text), new RegExp(`${SECRET}|me:|sealed(?!_)`))
})
