import { API_KEY, type TestHouse } from './house.ts'

/** What came back for a page: its status, where it sends the browser, and its HTML. */
export interface Shown { status: number, to: string | null, html: string, headers: Headers }

/** Somebody who is signed in, without a browser: for what needs no script. */
export interface Visitor {
  get (path: string, headers?: Record<string, string>): Promise<Shown>
  /** With the token of the visitor's forms, unless `fields` bring another. */
  post (path: string, fields?: Record<string, string | string[]>, headers?: Record<string, string>): Promise<Shown>
  cookie: string
  csrf: string
}

/** Signs in to the dashboard of a house. */
export async function visit (house: TestHouse, key = API_KEY): Promise<Visitor> {
  const entered = await ask(house, 'POST', '/dashboard/sign-in', { body: new URLSearchParams({ key }) })
  if (entered.status !== 303) throw new Error(`not signed in: ${entered.status} ${entered.html}`)
  const cookie = entered.headers.getSetCookie()[0]!.split(';')[0]!
  const { html } = await ask(house, 'GET', '/dashboard/sessions', { cookie })
  const csrf = /name="csrf" value="([0-9a-f]{64})"/.exec(html)![1]!
  return {
    cookie,
    csrf,
    get: async (path, headers) => await ask(house, 'GET', path, { cookie, headers }),
    post: async (path, fields = {}, headers) => {
      const pairs = Object.entries({ csrf, ...fields }).flatMap(([name, value]) => [value].flat().map((one): [string, string] => [name, one]))
      return await ask(house, 'POST', path, { cookie, headers, body: new URLSearchParams(pairs) })
    }
  }
}

async function ask (house: TestHouse, method: string, path: string, { cookie, headers, body }: { cookie?: string, headers?: Record<string, string>, body?: URLSearchParams }): Promise<Shown> {
  const init: RequestInit = { method, redirect: 'manual', headers: { ...(cookie === undefined ? {} : { cookie }), ...headers }, signal: AbortSignal.timeout(30_000) }
  const response = await fetch(house.url + path, body === undefined ? init : { ...init, body })
  return { status: response.status, to: response.headers.get('location'), html: await response.text(), headers: response.headers }
}
