import { parse } from 'parse5'
import type { Scope } from '#streams/key/facts.ts'
import type { DashboardContext } from '#src/servers/dashboard/dashboard-context.ts'
import { ALL_PAGES } from '#src/servers/dashboard/pages.ts'
import type { Shown, Visitor } from './dashboard.ts'
import { LONG } from './long.ts'

/** A page of the dashboard as it is registered, such as GET /emails/:id. */
export interface Route {
  method: 'GET' | 'POST'
  path: string
  /** What it takes; null = a session alone. */
  scope: Scope | null
  name: string
  matches(path: string): boolean
}

/** A form as somebody found it. */
export interface Form {
  action: string
  fields: Record<string, string>
}

/** What of the dashboard somebody can come to by its links. */
export interface Crawl {
  /** Whatever was fetched, by its URL. */
  shown: Map<string, Shown>
  /** URLs by the name of their route. */
  pages: Map<string, string[]>
  /** Forms by the name of the route that takes them. */
  forms: Map<string, Form[]>
  /** Names of routes that lead to another page. */
  redirects: Set<string>
  /** Links to what is no page. */
  broken: string[]
}

/** Of one route with the same parameters; a list links to many alike. */
const ALIKE_MAX = LONG ? 30 : 8
const SAME_QUERY_MAX = 2

/** All pages there are, so that a new one is never forgotten. */
export function dashboardRoutes (): Route[] {
  const routes: Route[] = []
  const stand = (method: Route['method']) => (path: string, scope: Scope | null) => {
    const pattern = new RegExp(`^/dashboard${path === '/' ? '/?' : path.replaceAll(/:\w+/g, '[^/]+')}$`)
    routes.push({ method, path, scope, name: `${method} ${path}`, matches: given => pattern.test(given) })
  }
  // They are only told what there is; nobody asks them for anything.
  const nowhere: unknown = new Proxy({}, { get: () => nowhere })
  for (const pages of ALL_PAGES) pages({ get: stand('GET'), post: stand('POST') }, nowhere as DashboardContext)
  // As the router has it: a word before a parameter.
  return routes.toSorted((a, b) => params(a) - params(b))
}

const params = ({ path }: Route) => path.split(':').length

/** The route that serves a path, or null. */
export function routeOf (routes: Route[], method: Route['method'], url: string): Route | null {
  const path = new URL(url, 'http://here').pathname
  return routes.find(route => route.method === method && route.matches(path)) ?? null
}

/** Follows every link from `seeds` on, to so many that are alike. */
export async function crawl (visitor: Visitor, seeds: string[] = ['/dashboard'], alikeMax = ALIKE_MAX): Promise<Crawl> {
  const routes = dashboardRoutes()
  const found: Crawl = { shown: new Map(), pages: new Map(), forms: new Map(), redirects: new Set(), broken: [] }
  const counts = new Map<string, number>()
  const queue = [...seeds]
  const isWanted = (url: string): boolean => {
    const route = routeOf(routes, 'GET', url)
    if (route === null) return false
    const asked = [...new URL(url, 'http://here').searchParams.keys()].toSorted().join('&')
    const count = (counts.get(`${route.name}?${asked}`) ?? 0) + 1
    counts.set(`${route.name}?${asked}`, count)
    return count <= (asked === '' ? alikeMax : SAME_QUERY_MAX)
  }
  for (let url = queue.shift(); url !== undefined; url = queue.shift()) {
    if (found.shown.has(url) || !isWanted(url)) continue
    const shown = await visitor.get(url)
    if (shown.to !== null) {
      found.redirects.add(routeOf(routes, 'GET', url)!.name)
      queue.push(shown.to)
      continue
    }
    found.shown.set(url, shown)
    if (shown.status >= 400) found.broken.push(`${shown.status} ${url}`)
    add(found.pages, routeOf(routes, 'GET', url)!.name, url)
    if (!String(shown.headers.get('content-type')).startsWith('text/html')) continue
    const { links, forms } = waysFrom(shown.html, url)
    queue.push(...links)
    for (const form of forms) {
      const route = routeOf(routes, 'POST', form.action)
      if (route !== null) add(found.forms, route.name, form)
      else if (form.action !== '/dashboard/sign-out') found.broken.push(`a form for ${form.action} on ${url}`)
    }
  }
  return found
}

function add<T> (map: Map<string, T[]>, key: string, value: T): void {
  map.set(key, [...map.get(key) ?? [], value])
}

interface Node {
  tagName?: string
  attrs?: Array<{ name: string, value: string }>
  childNodes?: Node[]
  content?: Node
}

/** Where a page leads. */
export function waysFrom (html: string, url: string): { links: string[], forms: Form[] } {
  const links = new Set<string>()
  const forms: Form[] = []
  const to = (href: string | undefined) => {
    const base = new URL(url, 'http://here').href
    if (href === undefined || !URL.canParse(href, base)) return null
    const { origin, pathname, search } = new URL(href, base)
    return origin === 'http://here' && pathname.startsWith('/dashboard') ? pathname + search : null
  }
  const walk = (node: Node, form: Form | null): void => {
    const own = Object.fromEntries((node.attrs ?? []).map(({ name, value }) => [name, value]))
    let within = form
    if (node.tagName === 'form' && own.method === 'post') {
      forms.push(within = { action: to(own.action ?? url) ?? own.action!, fields: {} })
    } else {for (
        const href of [
          own['hx-get'],
          node.tagName === 'a' || node.tagName === 'area' ? own.href : undefined,
          node.tagName === 'iframe' || node.tagName === 'img' ? own.src : undefined
        ]
      ) take(to(href))}
    const posted = own['hx-post'] ?? own.formaction
    if (posted !== undefined) forms.push({ action: to(posted)!, fields: within?.fields ?? {} })
    if (within !== null && own.name !== undefined && (own.type !== 'checkbox' || 'checked' in own)) {
      within.fields[own.name] = node.tagName === 'textarea' ? textOf(node) : own.value ?? ''
    }
    if (within !== null && node.tagName === 'select') within.fields[own.name!] = chosenIn(node)
    for (const child of node.childNodes ?? []) walk(child, within)
    if (node.content !== undefined) walk(node.content, within)
  }
  const take = (link: string | null) => void (link !== null && links.add(link))
  walk(parse(html) as Node, null)
  return { links: [...links], forms }
}

function textOf ({ childNodes = [] }: Node): string {
  return childNodes.map(child => (child as { value?: string }).value ?? '').join('')
}

function chosenIn ({ childNodes = [] }: Node): string {
  const options = childNodes.filter(({ tagName }) => tagName === 'option').map(({ attrs = [] }) =>
    Object.fromEntries(attrs.map(({ name, value }) => [name, value]))
  )
  return (options.find(option => 'selected' in option) ?? options[0])?.value ?? ''
}
