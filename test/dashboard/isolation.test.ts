import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { decodeFact } from '#streams/catalog.ts'
import { SCOPES } from '#streams/key/facts.ts'
import type { Bus } from '#src/nats/connect.ts'
import { readRange } from '#src/nats/range.ts'
import { crawl, dashboardRoutes, type Form, type Route } from '../support/crawl.ts'
import { knock, visit } from '../support/dashboard.ts'
import { CUSTOMER, openWorld, SUBJECT } from '../support/dashboard-world.ts'
import { until } from '../support/wait.ts'

/** The streams that hold facts. */
const STREAMS = ['CONTROL', 'REQUESTS', 'EMAILS', 'WEBHOOKS', 'INBOUND']
/** Facts that workers append meanwhile. */
const BY_THE_CLOCK = new RegExp(`^(${
  [
    'delivery\\.',
    'domain\\.checked',
    'email\\.(attempted|deferred|delivered|bounced|failed|in_doubt)',
    'webhook\\.(failing|disabled|recovered)',
    'replay\\.(advanced|ended)',
    'erasure\\.(advanced|completed)',
    'usage\\.',
    'session\\.'
  ].join('|')
})`)
/** Forms that stand there for moments, or for people alone: what they would ask for. */
const FLEETING: Record<string, Form> = {
  'POST /passkeys': { action: '/dashboard/passkeys', fields: {} },
  'POST /passkeys/:id/remove': { action: '/dashboard/passkeys/AQID/remove', fields: {} },
  'POST /operations/projections/:name/stop': { action: '/dashboard/operations/projections/emails/stop', fields: {} },
  'POST /operations/dead-letters/:name/retry': { action: '/dashboard/operations/dead-letters/emails/retry', fields: {} }
}

const { app, bus, seeds } = await openWorld(t)
const routes = dashboardRoutes()
const owner = await visit(app)
const own = await crawl(owner, seeds)
const stranger = await visit(app, await app.newAccountKey())

const idsIn = (text: string) =>
  new Set(text.match(/\b(?:em|ev|wh|whd|tpl|dom|key|er|rp|ses|in|msg|acc)_[0-9a-z]{20,26}\b/g) ?? [])
/** Ids and words that only the first account's pages have. */
const marks = new Set(
  [...own.shown.values()].flatMap(({ html }) => [...idsIn(html)]).concat(
    CUSTOMER,
    SUBJECT,
    'suppressed-by-hand',
    'shop-of-ada',
    'Till in Lane 4',
    'reader@example.com'
  )
)
const formsFor = ({ name }: Route) => own.forms.get(name) ?? (FLEETING[name] === undefined ? [] : [FLEETING[name]])

function traces (html: string, url: string): string[] {
  return [...marks].filter(mark => html.includes(mark) && !decodeURIComponent(url).includes(mark))
}

t.test('crawling an app that has lived finds every page and every form', async t => {
  t.strictSame(own.broken, [])
  const missing = routes.filter(route =>
    (route.method === 'GET' ? own.pages.get(route.name) ?? [] : formsFor(route)).length === 0 &&
    !own.redirects.has(route.name)
  )
  t.strictSame(missing.map(({ name }) => name), [])
  t.ok(marks.size > 60, `${marks.size} things to be told apart by`)
})

t.test('without a session every page leads to sign-in', async t => {
  for (const { method, path, name } of routes) {
    const shown = await knock(
      app,
      method,
      `/dashboard${path.replaceAll(/:\w+/g, 'x')}`,
      method === 'GET' ? {} : { body: {} }
    )
    t.match(shown, { status: 303, to: /^\/dashboard\/sign-in\?to=/, html: '' }, name)
  }
})

t.test('every form needs the token of its session', async t => {
  for (const { method, path, name } of routes) {
    if (method === 'POST') {
      t.equal(
        (await owner.post(`/dashboard${path.replaceAll(/:\w+/g, 'x')}`, { csrf: stranger.csrf })).status,
        403,
        name
      )
    }
  }
})

t.test('another account sees nothing of the first on its own pages', async t => {
  const theirs = await crawl(stranger)
  t.ok(theirs.shown.size >= 8)
  for (const [url, { html, status }] of theirs.shown) {
    t.equal(status, 200, url)
    t.strictSame(traces(html, url), [], url)
  }
})

t.test('with the ids of the first it gets no page', async t => {
  for (const [name, urls] of own.pages) {
    for (const url of urls) {
      const { status, html } = await stranger.get(url)
      if (name.includes(':') || /^GET \/(operations|mailbox)/.test(name)) t.equal(status, 404, url)
      else t.ok(status === 200 || status === 404 || status === 422, `${status} ${url}`)
      t.strictSame(traces(html, url), [], url)
    }
  }
})

t.test('with its forms it changes nothing', async t => {
  // At its end an erasure takes what it was asked for with out of the log.
  await until(async () => {
    const { body } = await app.request('GET', '/api/erasures')
    return body.data.every(({ completed_at: at }: { completed_at: string | null }) => at !== null)
  })
  const { counts: before } = await written(bus)
  let count = 0
  for (const route of routes) {
    for (const { action, fields } of route.method === 'POST' && route.path !== '/sessions/end' ? formsFor(route) : []) {
      const { status, html } = await stranger.post(action, { ...fields, csrf: stranger.csrf }, {
        'x-request-id': `stranger-${++count}`
      })
      if (route.path.includes(':')) t.match(String(status), /^40[34]$/, `${route.name}: ${action}`)
      else t.ok(status < 500, `${status} ${route.name}`)
      t.strictSame(traces(html, JSON.stringify(fields) + action), [], action)
    }
  }
  t.ok(count > 20, `${count} forms`)
  const after = await written(bus)
  t.strictSame(after.counts, before)
  t.strictSame(
    [...after.asked].filter(([correlation, by]) => correlation.startsWith('stranger-') && by === FIRST_ACCOUNT),
    []
  )
})

t.test('nor the first of the other, outside of Operations', async t => {
  const other = await app.newAccountKey()
  const theirs = await visit(app, other)
  const { body: { id } } = await app.send({ to: 'secret@example.com' }, other)
  await app.settled(id, 'delivered', other)
  const { body: hook } = await app.request('POST', '/api/webhooks', {
    key: other,
    body: { url: 'http://127.0.0.1:9/secret', events: ['email.delivered'] }
  })
  const found = await crawl(theirs)
  for (const [name, urls] of found.pages) {
    for (const url of name.includes(':') ? urls : []) t.equal((await owner.get(url)).status, 404, url)
  }
  for (const [name, urls] of own.pages) {
    for (const url of name.includes(':') || /operations|mailbox/.test(name) ? [] : urls) {
      const { html } = await owner.get(url)
      t.strictSame([id, hook.id, 'secret@example.com'].filter(mark => html.includes(mark)), [], url)
    }
  }
})

t.test('with the scope dashboard a visitor sees no keys and creates none', async t => {
  const visitor = await visit(app, (await app.newKey({ scopes: ['dashboard'] })).secret)
  const keys = async () => (await app.request('GET', '/api/keys')).body.data.length
  const before = await keys()
  for (const [name, urls] of own.pages) {
    for (const url of /^GET \/keys(\/:|$)/.test(name) ? urls : []) {
      const { status, html } = await visitor.get(url)
      t.ok(status === 403 || !/key_[0-9a-z]{26}/.test(html.replaceAll(url, '')), `${status} ${url}`)
    }
  }
  for (const [name, forms] of own.forms) {
    for (const { action, fields } of name.startsWith('POST /keys') ? forms : []) {
      const { status, html } = await visitor.post(action, {
        ...fields,
        name: 'Mine',
        scopes: 'full',
        scope: 'full',
        domains: '*',
        csrf: visitor.csrf
      })
      t.ok(status === 403 || status === 422, `${status} ${action}`)
      t.notMatch(html, /jp_(live|test)_/)
    }
  }
  t.equal(await keys(), before)
  t.equal((await visitor.get('/dashboard/emails')).status, 200)
})

t.test("what is the operator's opens for keys with the scope operator alone, pages and forms", async t => {
  const key = async (wish: Parameters<typeof app.newKey>[0]) => (await app.newKey(wish)).secret
  const bound = ['shop-of-ada.example']
  const keys: Array<[name: string, secret: string, isOperator: boolean]> = [
    ['full', await key({}), true],
    ['dashboard and operator', await key({ scopes: ['dashboard', 'operator'] }), true],
    ['dashboard', await key({ scopes: ['dashboard'] }), false],
    ['all but operator', await key({ scopes: SCOPES.filter(scope => !/^(full|operator)$/.test(scope)) }), false],
    ['a full test key', await key({ test: true }), false],
    ['full for one domain', await key({ domains: bound }), false],
    ['dashboard for one domain, test', await key({ scopes: ['dashboard'], domains: bound, test: true }), false],
    ['full of another account', await app.newAccountKey(), false]
  ]
  const ours = routes.filter(({ path }) => /^\/(operations|mailbox)/.test(path))
  t.ok(ours.length >= 17, `${ours.length} routes of the operator`)
  for (const [name, secret, isOperator] of keys) {
    const visitor = await visit(app, secret)
    const { html } = await visitor.get('/dashboard/emails')
    for (const place of ['operations', 'mailbox']) {
      t.equal(html.includes(`href="/dashboard/${place}"`), isOperator, `${name}: the menu has ${place}`)
    }
    for (const route of ours) {
      const { status, html } = route.method === 'GET'
        ? await visitor.get(own.pages.get(route.name)![0]!)
        : await visitor.post(formsFor(route)[0]!.action, { ...formsFor(route)[0]!.fields, csrf: visitor.csrf })
      const isRefused = status === 404 && html.includes('This page does not exist.')
      t.equal(isRefused, !isOperator, `${name}: ${status} ${route.name}`)
    }
  }
})

/** How many facts of each kind the first account has, and on whose behalf each request wrote. */
async function written (bus: Bus): Promise<{ counts: Record<string, number>, asked: Map<string, string> }> {
  const counts: Record<string, number> = {}
  const asked = new Map<string, string>()
  for (const stream of STREAMS) {
    for await (const messages of readRange(bus, { stream, afterSeq: 0 })) {
      for (const { data } of messages) {
        const fact = decodeFact(data)
        asked.set(fact.correlation, fact.account)
        if (fact.account === FIRST_ACCOUNT && !BY_THE_CLOCK.test(fact.type)) {
          counts[fact.type] = (counts[fact.type] ?? 0) + 1
        }
      }
    }
  }
  return { counts, asked }
}
