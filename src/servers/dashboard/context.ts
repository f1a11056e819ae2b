import cookie from '@fastify/cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { asVisitor, isOpen } from '#streams/session/decide.ts'
import { Jetpost, JetpostError } from '#src/client/client.ts'
import type { Services } from '#src/actions/services.ts'
import { FIRST_ACCOUNT } from '#src/actions/first-start.ts'
import { renewTicket, visitorOf, type Visitor } from '#src/actions/session.ts'
import { Html, html } from '#src/base/html.ts'
import { isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import { ProjectionUnavailable } from '#src/postgres/reads.ts'
import { accessRoutes } from './access.ts'
import { assetRoutes } from './assets.ts'
import { bounceThrough, pageFor, plainPage } from './layout.ts'
import { createLiveLines } from './live.ts'
import { framed } from './mail-frame.ts'
import { ALL_PAGES } from './pages.ts'
import type { DashboardContext } from './dashboard-context.ts'
import { cookies, csrfOf, formOf, isCsrf, isForeign, isOurs, type Cookies } from './tickets.ts'
import { Missing, Unfit, type Answer, type Handler, type Pages, type Visit } from './visit.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who is signed in; null for what needs nobody. */
    visitor: Visitor | null
  }
  interface FastifyContextConfig {
    /** Anybody may ask for it. */
    open?: boolean
  }
}

/** No script, style, frame or form but ours; what strangers wrote is in frames that have a policy of their own. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "frame-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'"
].join('; ')
/** On every answer. */
export const DASHBOARD_HEADERS = {
  'content-security-policy': POLICY,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()'
}
const FORM_BYTES_MAX = 4 * 1024 * 1024
const API_TIMEOUT_MS = 15_000

/** `/dashboard` and what is under it: HTML for people, by a session in a cookie. */
export async function dashboardContext (
  app: FastifyInstance,
  { context }: { context: DashboardContext }
): Promise<void> {
  const { services, log, publicUrl } = context
  const jar = cookies(publicUrl)
  await app.register(cookie)
  app.decorateRequest('visitor', null)
  takeForms(app)

  app.addHook('onRequest', async (request, reply) => {
    reply.headers(DASHBOARD_HEADERS)
    if (request.routeOptions.config.open === true) return
    request.visitor = await visitorOf(services, jar.ticketOf(request))
    if (request.visitor === null) return await showDoor(request, reply, publicUrl)
    await renew(request.visitor, request.id, reply, services, jar)
  })

  app.addHook('preHandler', async (request, reply) => {
    if (request.method === 'GET' || request.method === 'HEAD') return
    const { visitor } = request
    const isOwn = !isForeign(request, publicUrl) &&
      (visitor === null || isCsrf(visitor.session, formOf(request).get('csrf') ?? ''))
    if (!isOwn) return await send(reply.code(403), NOT_SENT)
  })

  app.setErrorHandler(async (error, request, reply) => await failed(error, request, reply))
  app.setNotFoundHandler(async (request, reply) => {
    request.visitor ??= await visitorOf(services, jar.ticketOf(request))
    if (request.visitor === null) return await showDoor(request, reply, publicUrl)
    return await failed(new Missing('There is no such page.'), request, reply)
  })

  assetRoutes(app)
  accessRoutes(app, context, jar)
  const lines = createLiveLines(services.appenders.bus, context.reads.view, log)
  app.addHook('preClose', async () => await lines.stop())
  app.get('/live', async (request, reply) => {
    const { session, key } = request.visitor!
    const stands = () => {
      const now = services.directory.now.sessions.get(session.id)
      return now !== undefined &&
        isOpen(now, services.directory.now.keys.get(key.id), now.hash, services.appenders.clock.nowMs())
    }
    return await reply.type('text/event-stream').header('x-accel-buffering', 'no').send(
      lines.open(visitOf(request), reply.raw, stands)
    )
  })
  const pages: Pages = {
    get: (path, handler) => void app.get(path, async (request, reply) => await answer(handler, request, reply)),
    post: (path, handler) =>
      void app.post(
        path,
        { bodyLimit: FORM_BYTES_MAX },
        async (request, reply) => await answer(handler, request, reply)
      )
  }
  for (const stand of ALL_PAGES) stand(pages, context)

  async function answer (handler: Handler, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const visit = visitOf(request)
    // No id is like these, and in the path of a question to the API they would lead elsewhere.
    if (Object.values(visit.params).some(part => /^\.{0,2}$/.test(part))) throw new Missing('There is no such page.')
    const given = await handler(visit)
    if ('send' in given) return given.send(reply)
    if ('to' in given) {
      if (given.notice !== undefined) jar.leaveNotice(reply, given.notice)
      return await reply.redirect(given.to, 303)
    }
    return show(reply, request, visit, given)
  }

  function show (
    reply: FastifyReply,
    request: FastifyRequest,
    visit: Visit,
    { page, title, section, status = 200, assets = [] }: Extract<Answer, { page: Html }>
  ): FastifyReply {
    // A part that is drawn anew does not show it, and so must not take it from the page that does.
    const notice = request.headers['hx-request'] === 'true' ? null : jar.takeNotice(request, reply)
    return send(
      reply.code(status),
      pageFor(visit, { title, section, notice, assets, hasMailbox: context.mailbox !== null && visit.isOperator }, page)
    )
  }

  function visitOf (request: FastifyRequest): Visit {
    const { session, key: own } = request.visitor!
    const key = asVisitor(own)
    const account = services.directory.now.accounts.get(key.account)
    return {
      params: request.params as Record<string, string>,
      query: new URL(request.url, 'http://here').searchParams,
      form: formOf(request),
      url: request.url,
      account: { id: key.account, name: account?.name ?? key.account },
      session,
      key,
      api: new Jetpost({
        url: 'http://inside',
        key: 'inside',
        fetch: context.fetchAs(key, request.id),
        retries: 0,
        timeoutMs: API_TIMEOUT_MS
      }),
      asker: { account: key.account, correlation: request.id },
      isOperator: key.account === FIRST_ACCOUNT,
      csrf: csrfOf(session),
      nowMs: services.appenders.clock.nowMs()
    }
  }

  async function failed (error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { status, title, text } = faultOf(error, request)
    if (status === 500) log.error({ requestId: request.id, err: error }, 'a page of the dashboard failed')
    // A page in a frame would be refused, and the frame be empty.
    if (request.headers['sec-fetch-dest'] === 'iframe') {
      return framed(html`<p><strong>${title}.</strong> ${text}</p>`.text, { images: false, status }).send(reply)
    }
    // Not an answer that htmx would put in the place of what is there.
    if (request.visitor === null) {
      return send(reply.code(status), plainPage(title, html`<h1>${title}</h1><p>${text}</p>`))
    }
    const page = html`<h1>${title}</h1><p>${text}</p><p><a class="button" href="${
      request.method === 'GET' ? '/dashboard' : backOf(request, publicUrl)
    }">Go back</a></p>`
    return show(reply, request, visitOf(request), { page, title, section: null, status })
  }
}

const NOT_SENT = plainPage(
  'Not sent',
  html`<h1>Not sent</h1><p>This form was not of your session, or too old. Nothing was changed.</p>
<p><a class="button" href="/dashboard">Open the dashboard</a></p>`
)

/** Who is not signed in is sent to the door, and from there to where they wanted to go. */
function showDoor (request: FastifyRequest, reply: FastifyReply, publicUrl: string): FastifyReply {
  if (request.method === 'GET' && request.headers['sec-fetch-site'] === 'cross-site') {
    return send(reply, bounceThrough(request.url))
  }
  const to = request.method === 'GET' ? request.url : backOf(request, publicUrl)
  const door = `/dashboard/sign-in?to=${encodeURIComponent(to)}`
  // A part of a page cannot be the door: the page as a whole goes there.
  if (request.headers['hx-request'] === 'true') return reply.code(401).header('hx-redirect', door).send('')
  return reply.redirect(door, 303)
}

async function renew (
  { session, staleSecret }: Visitor,
  correlation: string,
  reply: FastifyReply,
  services: Services,
  jar: Cookies
): Promise<void> {
  if (staleSecret === null) return
  const ticket = await renewTicket(services, { account: session.account, correlation }, session, staleSecret).catch(
    error => {
      // Whether or not the log has it, the next request is told the same.
      if (error instanceof LogUnavailable || isUnanswered(error)) return null
      throw error
    }
  )
  if (ticket !== null) jar.give(reply, ticket, session.untilMs)
}

/** The page a form stood on, when it is one of ours. */
function backOf ({ headers }: FastifyRequest, publicUrl: string): string {
  const { referer = '' } = headers
  const { pathname, search } = isOurs(referer, headers, publicUrl) ? new URL(referer) : { pathname: '', search: '' }
  return pathname.startsWith('/dashboard') ? pathname + search : '/dashboard'
}

interface Fault {
  status: number
  title: string
  text: string
}

const GOES_ON = 'Sending goes on, and this page works again as soon as it is back.'
const LOG_AWAY = 'NATS does not answer just now. Nothing that was accepted is lost'
const LOOK = 'It may have been done: look before you do it again.'

function faultOf (error: unknown, { id, method }: FastifyRequest): Fault {
  if (error instanceof Missing) return { status: 404, title: 'Not here', text: error.message }
  if (error instanceof Unfit) return { status: 422, title: 'This cannot be done', text: error.message }
  if (error instanceof ProjectionUnavailable) {
    return { status: 503, title: 'Not readable just now', text: `${error.message}. ${GOES_ON}` }
  }
  if (error instanceof LogUnavailable && error.doubt) {
    return { status: 503, title: 'No answer', text: `${LOG_AWAY}. ${LOOK}` }
  }
  if (error instanceof LogUnavailable || isUnanswered(error)) {
    return { status: 503, title: 'The log cannot be reached', text: `${LOG_AWAY}; try again in a moment.` }
  }
  if (error instanceof JetpostError && error.status !== null && error.status < 500) return apiFault(error, error.status)
  if (error instanceof JetpostError && (error.status ?? 503) === 503) {
    return { status: 503, title: 'Not just now', text: laterText(error, method) }
  }
  const status = (error as { statusCode?: unknown }).statusCode
  const unread = status === 413 ? 'What was sent is too big.' : 'The request is malformed.'
  if (typeof status === 'number' && status < 500) return { status, title: 'This was not understood', text: unread }
  return { status: 500, title: 'Something went wrong', text: `It is in the log of Jetpost under ${id}.` }
}

/** What the API could not do now: only where a view alone is away does all else go on. */
function laterText ({ status, code, message }: JetpostError, method: string): string {
  if (status === null) return `There was no answer in time. ${method === 'GET' ? 'Try again in a moment.' : LOOK}`
  if (code === 'view_unavailable' || code === 'projection_behind') return `${message} ${GOES_ON}`
  return code === 'log_unavailable' ? `${message} Nothing that was accepted is lost.` : message
}

function apiFault ({ message }: JetpostError, status: number): Fault {
  if (status === 404) {
    return { status, title: 'Not here', text: 'There is no such thing in this account; it may have been deleted.' }
  }
  if (status === 403) return { status, title: 'Not allowed', text: 'The key you signed in with may not do this.' }
  return { status, title: 'This cannot be done', text: message }
}

function takeForms (app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => done(null, new URLSearchParams(body as string))
  )
}

function send (reply: FastifyReply, page: Html): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(page.text)
}
