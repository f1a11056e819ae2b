import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { grantKey } from '#src/actions/key.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { readFacts } from '#src/nats/range.ts'
import { visit } from '../support/dashboard.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount } from '../support/servers.ts'
import { API_KEY, startTestApp, type Answer } from '../support/app.ts'

const { natsUrl } = freshAccount()
const app = await startTestApp(t, { natsUrl })
const ask = async (method: string, path: string, key = API_KEY, body?: unknown): Promise<Answer> =>
  await app.request(method, path, { key, body })
const list = async (query: string, key = API_KEY) => await ask('GET', `/api/audit?limit=100&${query}`, key)
/** What a key has done, oldest first. */
const doneBy = async (actor: string) => (await list(`actor=${actor}`)).body.data.toReversed()
const actionsOf = (entries: Array<{ action: string }>) => entries.map(({ action }) => action)
const make = async (name: string, key = API_KEY, scopes = ['full']): Promise<{ id: string, key: string }> =>
  (await ask('POST', '/api/keys', key, { name, scopes, domains: ['*'] })).body
const noticeIn = (headers: Headers) =>
  Buffer.from(/jetpost_notice=([^;]*)/.exec(headers.getSetCookie().join())![1]!, 'base64url').toString()
const isLive = async (key: string) => (await ask('GET', '/api/me', key)).status === 200

t.test('commands by a key are told with the key and its address, and without any secret', async t => {
  const { id, key } = await make('Deployment')
  const secrets = [key]
  const post = async (path: string, body: unknown) => (await ask('POST', path, key, body)).body
  const other = await post('/api/keys', { name: 'Other', scopes: ['emails:send'], domains: ['*'] })
  await ask('PATCH', `/api/keys/${other.id}`, key, { name: 'Another' })
  secrets.push(other.key, (await post(`/api/keys/${other.id}/rotate`, {})).key)
  await ask('DELETE', `/api/keys/${other.id}`, key)
  const domain = await post('/api/domains', { name: 'audit.example' })
  await ask('PATCH', `/api/domains/${domain.id}`, key, { track: { opens: true } })
  await ask('DELETE', `/api/domains/${domain.id}`, key)
  const hook = await post('/api/webhooks', {
    url: 'https://hooks.example/hunter2?token=hunter3',
    events: ['email.delivered']
  })
  secrets.push(hook.secret, 'hunter2', 'hunter3')
  await ask('PATCH', `/api/webhooks/${hook.id}`, key, { paused: true })
  secrets.push((await post(`/api/webhooks/${hook.id}/rotate-secret`, {})).secret)
  await ask('DELETE', `/api/webhooks/${hook.id}`, key)
  const template = await post('/api/templates', { name: 'Welcome', subject: 'Hello', html: '<p>Hello</p>' })
  await ask('PATCH', `/api/templates/${template.id}`, key, { subject: 'Good day' })
  await ask('DELETE', `/api/templates/${template.id}`, key)
  await post('/api/suppressions', { address: 'Ada@example.com' })
  await ask('DELETE', '/api/suppressions/ada@example.com', key)
  const entries = await doneBy(id)
  t.strictSame(actionsOf(entries), [
    'key.created',
    'key.changed',
    'key.rotated',
    'key.revoked',
    'domain.added',
    'domain.changed',
    'domain.removed',
    'webhook.created',
    'webhook.changed',
    'webhook.secret_rotated',
    'webhook.deleted',
    'template.versioned',
    'template.versioned',
    'template.deleted',
    'suppression.added',
    'suppression.removed'
  ])
  for (const { actor } of entries) {
    t.strictSame(actor, { kind: 'key', id, key_id: id, session_id: null, name: 'Deployment', ip: '127.0.0.1' })
  }
  const summaries = entries.map(({ summary }: { summary: string }) => summary)
  t.equal(summaries[0], 'Created the key Other (scopes: emails:send; domains: *; expires: never).')
  t.equal(summaries[3], 'Revoked the key Another.', 'by its last name')
  t.match(summaries[7], /^Created the webhook hooks\.example \(/, 'whose URL may hold a secret')
  t.match(summaries[14], 'Suppressed the address Ada@example.com')
  const files = await Promise.all(
    ['csv', 'ndjson'].map(async format => await ask('GET', `/api/audit/export?format=${format}`))
  )
  for (const text of [JSON.stringify(entries), ...files.map(({ body }) => body)]) {
    for (const secret of secrets) t.notMatch(text, secret)
    t.notMatch(text, /jp_live_|whsec_|"hash"|sealed/)
  }
})

t.test('commands in the dashboard are told with the session and its key', async t => {
  const { id, key } = await make('Person')
  const visitor = await visit(app, key)
  const session = /ses_[0-9a-z]+/.exec(visitor.cookie)![0]
  await visitor.post('/dashboard/keys', { name: 'By hand', scopes: 'emails:send', domains: '*' })
  await visitor.post('/dashboard/domains', { name: 'by-hand.example' })
  await visitor.post('/dashboard/webhooks', {
    url: 'https://by-hand.example/',
    events: 'email.delivered',
    mode: 'live'
  })
  await visitor.post('/dashboard/templates', { name: 'By hand', subject: 'Hello', html: '<p>Hello</p>' })
  await visitor.post('/dashboard/suppressions', { address: 'by-hand@example.com', reason: 'manual' })
  await visitor.post('/dashboard/operations/projections/usage/stop')
  await visitor.post('/dashboard/sign-out')
  const entries = await doneBy(id)
  t.strictSame(actionsOf(entries), [
    'session.opened',
    'key.created',
    'domain.added',
    'webhook.created',
    'template.versioned',
    'suppression.added',
    'rebuild.stopped',
    'session.ended'
  ])
  for (const { actor } of entries) {
    t.strictSame(actor, {
      kind: 'session',
      id: session,
      key_id: id,
      session_id: session,
      name: 'Person',
      ip: '127.0.0.1'
    })
  }
  t.strictSame(await doneBy(session), entries, 'the session alone')
  const { body: { data: [made] } } = await ask('GET', '/api/keys?limit=1')
  t.match(made, { name: 'By hand', made_by: id })
})

t.test('mail and what follows from it names nobody', async t => {
  const { id, key } = await make('Sender')
  const headers = { 'idempotency-key': 'audit-1' }
  const body = { from: 'hello@sandbox.jetpost.test', to: 'delivered@sandbox.jetpost.test', subject: 'Hi', text: 'Hi' }
  const sent = await app.request('POST', '/api/emails', { key, headers, body })
  await app.settled(sent.body.id, 'delivered')
  const facts = async (stream: string, filter: string): Promise<AnyFact[]> =>
    (await readFacts(app.bus, stream, filter, 'leader')).map(({ fact }) => fact)
  const told = [...await facts('REQUESTS', '>'), ...await facts('EMAILS', 'email.>')]
  t.ok(told.some(({ type }) => type === 'request.claimed'))
  for (const fact of told) t.notOk('actor' in fact, fact.type)
  t.strictSame(await doneBy(id), [])
})

t.test('who starts Jetpost is told as a role', async t => {
  t.match((await doneBy('start')).at(0), {
    actor: { kind: 'role', id: 'start', key_id: null, session_id: null, name: 'start', ip: null },
    action: 'account.created',
    subject_id: FIRST_ACCOUNT
  })
})

t.test('only keys with the scope see it, each its own account, and so does the dashboard', async t => {
  const [sees, blind] = [await make('Auditor', API_KEY, ['audit:read']), await make('Person', API_KEY, ['dashboard'])]
  t.equal((await list('', sees.key)).status, 200)
  for (const path of ['/api/audit', '/api/audit/export']) {
    t.equal((await ask('GET', path, blind.key)).status, 403)
  }
  const [mine, others] = [await visit(app), await visit(app, blind.key)]
  t.match(await mine.get('/dashboard/audit'), { status: 200, html: /Created the key Auditor[^]*127\.0\.0\.1/ })
  t.match(await mine.get('/dashboard/audit?action=x'), { status: 422 })
  t.match(await mine.get('/dashboard/audit?action=domain.removed'), {
    status: 200,
    html: 'Removed the domain audit.example'
  })
  t.match(await mine.get('/dashboard/audit/export'), { status: 200, html: 'Created the key Auditor' })
  t.match(await mine.get('/dashboard/emails'), { html: 'href="/dashboard/audit"' })
  t.notMatch(await others.get('/dashboard/emails'), { html: 'href="/dashboard/audit"' })
  for (const path of ['audit', 'audit/export']) t.equal((await others.get(`/dashboard/${path}`)).status, 403)

  const stranger = await app.newAccountKey({ limited: true })
  await ask('POST', '/api/suppressions', stranger, { address: 'strange@example.com' })
  const { body: { data } } = await list('', stranger)
  t.strictSame(actionsOf(data).sort(), ['account.created', 'key.created', 'suppression.added'])
  t.strictSame((await list(`actor=${sees.id}`, stranger)).body.data, [])
  t.notMatch((await ask('GET', '/api/audit/export', stranger)).body, 'Auditor')
  t.notMatch((await ask('GET', '/api/audit/export')).body, 'strange@example.com')
})

t.test('filters, pages and files', async t => {
  const { id, key } = await make('=cmd()')
  for (const n of [1, 2, 3]) await ask('POST', '/api/suppressions', key, { address: `page-${n}@example.com` })
  const all = (await list(`actor=${id}`)).body.data
  const [last, , first] = all
  const pages = [await ask('GET', `/api/audit?actor=${id}&limit=2`)]
  pages.push(await ask('GET', `/api/audit?actor=${id}&limit=2&cursor=${pages[0]!.body.next_cursor}`))
  t.strictSame(pages.flatMap(({ body }) => body.data), all)
  t.strictSame(pages.map(({ body }) => body.has_more), [true, false])
  t.strictSame(
    (await list(`actor=${id}&from=${last.at}`)).body.data.at(-1),
    all.findLast((one: any) => one.at >= last.at)
  )
  t.strictSame((await list(`actor=${id}&to=${first.at}`)).body.data, [])
  t.strictSame((await list(`actor=${id}&action=suppression.removed`)).body.data, [])
  t.equal((await list(`actor=${id}&action=suppression.added`)).body.data.length, 3)
  const wrong = await list('action=key.stolen&from=yesterday')
  t.match(wrong, { status: 422, body: { details: [{ field: 'action' }, { field: 'from' }] } })
  t.match(await ask('GET', '/api/audit/export?to=x'), { status: 422, body: { details: [{ field: 'to' }] } })

  const lines = (await ask('GET', `/api/audit/export?format=ndjson&actor=${id}`)).body.trim().split('\n')
  t.strictSame(lines.map((line: string) => JSON.parse(line)), all)
  const csv = await ask('GET', `/api/audit/export?actor=${id}`)
  t.match(csv.headers.get('content-disposition'), 'audit.csv')
  const [head, row] = csv.body.split('\r\n')
  t.equal(head, 'id,at,actor_kind,actor_id,key_id,actor_name,ip,action,subject_id,summary,session_id')
  t.match(row, `${last.id},${last.at},key,${id},${id},'=cmd(),127.0.0.1,suppression.added,,"Suppressed`, 'no formula')
})

t.test('a key is revoked with all that comes from it, and nothing else', async t => {
  const root = await make('Leaked')
  const child = await make('Child', root.key)
  const grandchild = await make('Grandchild', child.key)
  await (await visit(app, root.key)).post('/dashboard/keys', { name: 'By session', scopes: 'full', domains: '*' })
  const { body: { data: [bySession] } } = await ask('GET', '/api/keys?limit=1')
  const sibling = await make('Sibling')
  t.strictSame(
    [child, grandchild, bySession].map(({ made_by: by }: any) => by),
    [root.id, child.id, root.id]
  )
  // One between is gone already: what it made still comes from the first.
  t.match(await ask('DELETE', `/api/keys/${child.id}`), { status: 204, body: '' })
  t.ok(await isLive(grandchild.key), 'without a word it lives on')
  const wide = await make('Wide')
  t.equal((await ask('PATCH', `/api/keys/${grandchild.id}`, wide.key, { scopes: ['full'] })).status, 200)
  const narrow = await make('Narrow', API_KEY, ['keys:write'])
  t.equal((await ask('PATCH', `/api/keys/${root.id}`, API_KEY, { scopes: ['keys:write'] })).status, 200)
  const refused = await ask('DELETE', `/api/keys/${root.id}?with_children=true`, narrow.key)
  t.equal(refused.status, 403, 'one of them holds more than it')
  t.ok(await isLive(root.key), 'and then none ends')

  t.match((await (await visit(app)).get(`/dashboard/keys/${root.id}`)).html, 'Also revoke 2 keys made with this key')
  const ended = await ask('DELETE', `/api/keys/${root.id}?with_children=true`)
  t.match(ended, { status: 200, body: { revoked: 3 } })
  t.strictSame(await Promise.all([root.key, grandchild.key, sibling.key].map(isLive)), [false, false, true])
  t.equal((await ask('GET', `/api/keys/${bySession.id}`)).status, 404)
  t.equal((await ask('DELETE', `/api/keys/${root.id}?with_children=true`)).status, 404, 'nothing is left of it')
  const told = (await list('action=key.revoked')).body.data.slice(0, 3)
  t.strictSame(new Set(told.map((entry: any) => entry.subject_id)), new Set([root.id, grandchild.id, bySession.id]))

  const gone = await make('Gone')
  const left = await make('Left', gone.key)
  await ask('DELETE', `/api/keys/${gone.id}`)
  const visitor = await visit(app)
  t.match((await visitor.get(`/dashboard/keys/${left.id}`)).html, `<code>${gone.id}</code>, which is no more`)
  t.match(await ask('DELETE', `/api/keys/${gone.id}?with_children=true`), { status: 200, body: { revoked: 1 } })
  t.equal(await isLive(left.key), false, 'also when the first was revoked long before')

  const maker = await make('Maker')
  const madeByIt = await make('Made', maker.key)
  const { headers } = await visitor.post(`/dashboard/keys/${maker.id}/revoke`, { with_children: 'true' })
  t.match(noticeIn(headers), 'Key Maker and all that comes from it revoked: 2 keys.')
  t.strictSame(await Promise.all([maker.key, madeByIt.key].map(isLive)), [false, false])
  const strange = await make('Not theirs')
  t.equal(
    (await ask('DELETE', `/api/keys/${strange.id}?with_children=true`, await app.newAccountKey({ limited: true })))
      .status,
    404
  )
})

t.test('a key that a revoked key makes at the same moment never works', async t => {
  const maker = await make('Maker')
  const late = await openSecondServices(t, natsUrl)
  // This node is told of nothing more: it does not know that the maker is revoked.
  await late.directory.stop()
  await ask('DELETE', `/api/keys/${maker.id}?with_children=true`)
  const asker = {
    account: FIRST_ACCOUNT,
    correlation: 'test',
    actor: { kind: 'key' as const, id: maker.id, ip: null },
    by: maker.id
  }
  const wanted = {
    name: 'Late',
    test: false,
    scopes: ['full' as const],
    domains: ['*'],
    expiresMs: null,
    defaults: NO_DEFAULTS
  }
  const made = await grantKey(late, asker, wanted)
  if (!('secret' in made)) throw new Error(made.message)
  while (!await app.hasSeen(made.seq)) await list('limit=1')
  t.equal(await isLive(made.secret), false)
})
