import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { LIMIT_CLASSES } from '#streams/key/facts.ts'
import { scopesOf, USER_ROLES, type UserRole } from '#streams/user/roles.ts'
import { userPrincipal } from '#streams/user/state.ts'
import { admits } from '#src/servers/dashboard/permits.ts'
import { crawl, dashboardRoutes, routeOf, waysFrom, type Route } from '../support/crawl.ts'
import { cookieOf, knock, visit, visitorWith, type Shown, type Visitor } from '../support/dashboard.ts'
import { openWorld } from '../support/dashboard-world.ts'
import { userEntry } from '../support/entries.ts'
import { readDescription } from '../support/openapi.ts'

/** What each role may do, written down: a new route has no verdict there, and a changed one differs. */
const TABLE = join(import.meta.dirname, '..', 'fixtures', 'roles.txt')
const HOW_TO_WRITE = 'read what differs, then JETPOST_TEST_ROLES=write npx tap run test/dashboard/roles.test.ts'

const { app, seeds } = await openWorld(t)
const routes = dashboardRoutes()
const own = await crawl(await visit(app), seeds)
const { operations } = readDescription((await app.request('GET', '/openapi.json')).body)

/** Signs in as a new person with this role. */
async function signIn (role: UserRole): Promise<Visitor> {
  const email = `${role}-${Math.random().toString(36).slice(2)}@example.com`
  const { body: { id } } = await app.request('POST', '/api/users', { body: { email, role } })
  const { body: { url } } = await app.request('POST', `/api/users/${id}/link`)
  const token = new URL(url).searchParams.get('token')!
  return await visitorWith(app, cookieOf(await knock(app, 'POST', '/dashboard/link', { body: { token } }))!)
}

const people = new Map<UserRole, Visitor>()
for (const role of USER_ROLES) people.set(role, await signIn(role))

const line = (name: string, words: readonly string[]) =>
  `${name.padEnd(58)} ${words.map(word => word.padEnd(9)).join(' ')}`.trimEnd()
const row = (name: string, verdicts: boolean[]) => line(name, verdicts.map(may => (may ? 'yes' : '-')))
const table = [line('route', USER_ROLES)]

t.test('each operation of the API answers the scopes of each role as the table says', async t => {
  const keys = await Promise.all(USER_ROLES.map(async role => {
    const key = await app.newKey({ name: role, scopes: [...scopesOf(role, FIRST_ACCOUNT)] })
    await app.limitKey(key.id, Object.fromEntries(LIMIT_CLASSES.map(name => [name, 100_000])))
    return key.secret
  }))
  for (const { method, path, scope, uploads } of operations) {
    const url = path.replaceAll(/\{\w+\}/g, 'x')
    const raw = method === 'GET' || uploads !== null ? {} : { raw: '{}' }
    const statuses = await Promise.all(
      keys.map(async key => (await app.request(method, url, { key, ...raw, once: true })).status)
    )
    const may = statuses.map(status => status !== 403)
    t.notOk(
      statuses.some(status => status === 401 || status === 429 || status >= 500),
      `${method} ${path}: ${statuses}`
    )
    const expected = USER_ROLES.map(role => admits(scope as never, principalOf(role)))
    t.strictSame(may, expected, `${method} ${path}: ${scope}`)
    table.push(row(`${method} ${path}`, may))
  }
})

const principalOf = (role: UserRole) => userPrincipal(userEntry({ account: FIRST_ACCOUNT, role }))

/** A page that the world has, or one of nobody's. */
function urlOf ({ method, path, name }: Route): string {
  const known = method === 'GET' ? own.pages.get(name)?.[0] : undefined
  return known ?? `/dashboard${path.replaceAll(/:\w+/g, 'x')}`
}

async function ask (route: Route, role: UserRole): Promise<Shown> {
  if (route.method === 'GET') return await people.get(role)!.get(urlOf(route))
  // It ends all sessions of who asks.
  const visitor = route.path === '/sessions/end' ? await signIn(role) : people.get(role)!
  return await visitor.post(urlOf(route))
}

/** What is the operator's does not exist for others. */
function isDenied ({ scope }: Route, { status, html }: Shown): boolean {
  return status === 403 || (scope === 'operator' && status === 404 && html.includes('This page does not exist.'))
}

t.test('each page and form of the dashboard answers each role as the table says', async t => {
  for (const route of routes) {
    const shown = await Promise.all(USER_ROLES.map(role => ask(route, role)))
    const may = shown.map(answer => !isDenied(route, answer))
    const statuses = shown.map(({ status }) => status)
    t.strictSame(may, USER_ROLES.map(role => admits(route.scope, principalOf(role))), `${route.name}: ${statuses}`)
    // The preview of a draft is its session's alone.
    const isSeen = route.method === 'GET' && route.path !== '/templates/previews/:preview'
    const isFine = shown.every(({ status }, i) => !may[i] || status < (isSeen ? 400 : 500))
    t.ok(isFine, `${route.name} is shown to who may see it: ${statuses}`)
    table.push(row(`${route.method} /dashboard${route.path}`, may))
  }
})

t.test('no role is shown a form, or an item of the menu, that it may not use', async t => {
  for (const role of USER_ROLES) {
    for (const route of routes) {
      if (route.method !== 'GET' || !admits(route.scope, principalOf(role))) continue
      const url = urlOf(route)
      const { html, headers } = await people.get(role)!.get(url)
      if (!String(headers.get('content-type')).startsWith('text/html')) continue
      const menu = /<nav aria-label="Main">[^]*?<\/nav>/.exec(html)?.[0] ?? ''
      const wrong = [
        ...waysFrom(html, url).forms.map(({ action }) => routeOf(routes, 'POST', action)),
        ...waysFrom(menu, url).links.map(link => routeOf(routes, 'GET', link))
      ].filter(found => found !== null && !admits(found.scope, principalOf(role)))
      t.strictSame(wrong.map(found => found!.name), [], `${role}: ${url}`)
    }
  }
})

t.test('the table is the one that is written down', async t => {
  const text = `${table.join('\n')}\n`
  if (process.env.JETPOST_TEST_ROLES === 'write') writeFileSync(TABLE, text)
  t.equal(text, readFileSync(TABLE, 'utf8'), HOW_TO_WRITE)
})
