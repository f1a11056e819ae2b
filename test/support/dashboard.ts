import { API_KEY, type TestApp } from './app.ts'

/** What came back for a page: its status, where it sends the browser, and its HTML. */
export interface Shown {
  status: number
  to: string | null
  html: string
  headers: Headers
}

/** Somebody who is signed in, without a browser: for what needs no script. */
export interface Visitor {
  get(path: string, headers?: Record<string, string>): Promise<Shown>
  /** With the token of the visitor's forms, unless `fields` bring another. */
  post(path: string, fields?: Record<string, string | string[]>, headers?: Record<string, string>): Promise<Shown>
  cookie: string
  csrf: string
}

/** Signs in to the dashboard of an app. */
export async function visit (app: Pick<TestApp, 'url'>, key = API_KEY): Promise<Visitor> {
  const entered = await knock(app, 'POST', '/dashboard/sign-in', { body: { key } })
  if (entered.status !== 303) throw new Error(`not signed in: ${entered.status} ${entered.html}`)
  return await visitorWith(app, cookieOf(entered)!)
}

/** Somebody who has this cookie. */
export async function visitorWith (app: Pick<TestApp, 'url'>, cookie: string): Promise<Visitor> {
  const { html } = await knock(app, 'GET', '/dashboard/sessions', { cookie })
  const csrf = csrfIn(html)!
  return {
    cookie,
    csrf,
    get: async (path, headers) => await knock(app, 'GET', path, { cookie, headers }),
    post: async (path, fields = {}, headers) =>
      await knock(app, 'POST', path, { cookie, headers, body: { csrf, ...fields } })
  }
}

/** `name=value` of the ticket that an answer gives; null = it gives none. */
export function cookieOf ({ headers }: Shown): string | null {
  return headers.getSetCookie().find(text => /^(__Host-)?jetpost_session=ses_/.test(text))?.split(';')[0] ?? null
}

/** The token of the forms on a page. */
export function csrfIn (html: string): string | null {
  return /name="csrf" value="([\w-]{86})"/.exec(html)?.[1] ?? null
}

interface Knock {
  cookie?: string
  headers?: Record<string, string>
  body?: Record<string, string | string[]> | string
}

/** A request to the dashboard as it is said here; redirects are shown, not followed. */
export async function knock (
  { url }: Pick<TestApp, 'url'>,
  method: string,
  path: string,
  { cookie, headers, body }: Knock = {}
): Promise<Shown> {
  const init: RequestInit = {
    method,
    redirect: 'manual',
    headers: { ...(cookie === undefined ? {} : { cookie }), ...headers },
    signal: AbortSignal.timeout(30_000)
  }
  const response = await fetch(
    url + path,
    body === undefined ? init : { ...init, body: typeof body === 'string' ? body : formOf(body) }
  )
  return {
    status: response.status,
    to: response.headers.get('location'),
    html: await response.text(),
    headers: response.headers
  }
}

function formOf (fields: Record<string, string | string[]>): URLSearchParams {
  return new URLSearchParams(
    Object.entries(fields).flatMap(([name, value]) => [value].flat().map((one): [string, string] => [name, one]))
  )
}
