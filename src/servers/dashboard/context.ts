import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import cookie from '@fastify/cookie'
import type { FastifyRequest, FastifyInstance, FastifyReply } from 'fastify'
import { renewTicket, sessionActor, visitorOf, type Visitor } from '#src/actions/session.ts'
import { Html, html } from '#src/base/html.ts'
import { Jetpost } from '#src/client/client.ts'
import { isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import { isOperator } from '#streams/key/decide.ts'
import type { Scope } from '#streams/key/facts.ts'
import { asVisitor, isOpen, principalOf } from '#streams/session/decide.ts'
import { accessRoutes } from './access.ts'
import { assetRoutes } from './assets.ts'
import { sessionCookies, csrfOf, formOf, isCsrf, isForeign, isOwnUrl, type SessionCookies } from './csrf.ts'
import type { DashboardContext } from './dashboard-context.ts'
import { errorPageOf } from './error-pages.ts'
import { pageFor, plainPage, reloadFromHere } from './layout.ts'
import { Signer } from './signer.ts'
import { userAccessRoutes } from './user-access.ts'
import { LiveStreams, type SeenSequences } from './live.ts'
import { framed } from './mail-frame.ts'
import { admits, Permits } from './permits.ts'
import { ALL_PAGES } from './pages.ts'
import { NotPermitted, PageNotFound, type Handler, type PageResult, type Pages, type Visit } from './visit.ts'

const zip = promisify(gzip)

/** Less fits one packet anyhow. */
const CHARS_MIN = 1400

/** The page compressed, or null where it goes out as it is.
 *
 *  BREACH reads a secret out of the sizes of compressed answers that hold it beside a text of the attacker's choice. So
 *  no answer is compressed that takes such a text out of its request: those to forms (which also show new keys), and
 *  those to URLs with a query. What is left holds no secret that is worth guessing: form tokens are another text in
 *  each page, keys are shown by their first letters, and no other site can make a browser ask for a page with its
 *  session (SameSite=Strict). Source: breachattack.com. */
async function compressed ({ method, url, headers }: FastifyRequest, html: string): Promise<Buffer | null> {
  if (method !== 'GET' || url.includes('?') || html.length < CHARS_MIN) return null
  return /\bgzip\b/.test(String(headers['accept-encoding'] ?? '')) ? await zip(html) : null
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Who is signed in; null for routes that need nobody. */
    visitor: Visitor | null
  }
  interface FastifyContextConfig {
    /** Needs no session. */
    open?: boolean
  }
}

/** No script, style, frame or form but ours. Content of others is shown in frames with a policy of their own. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "frame-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'"
].join('; ')
/** On every response. */
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

/** `/dashboard` and below: HTML for people, by a session in a cookie. */
export async function dashboardContext (
  app: FastifyInstance,
  { context }: { context: DashboardContext }
): Promise<void> {
  const cookies = sessionCookies(context.publicUrl)
  const dashboard = new Dashboard(context, cookies)
  await app.register(cookie)
  app.decorateRequest('visitor', null)
  parseForms(app)
  dashboard.addHooks(app)
  assetRoutes(app)
  const signer = new Signer(context, cookies)
  accessRoutes(app, context, cookies, signer)
  userAccessRoutes(app, context, cookies, signer)
  dashboard.addLiveRoute(app)
  const pages = dashboard.pagesOf(app)
  for (const addPages of ALL_PAGES) addPages(pages, context)
}

/** What holds for all pages: session, form token, headers, errors as pages. */
class Dashboard {
  private readonly context: DashboardContext
  private readonly cookies: SessionCookies
  private readonly streams: LiveStreams
  private readonly permits = new Permits()

  constructor (context: DashboardContext, cookies: SessionCookies) {
    const { services, reads, log } = context
    this.context = context
    this.cookies = cookies
    this.streams = new LiveStreams(services.factLog.bus, reads.checkpoints, log)
  }

  addHooks (app: FastifyInstance): void {
    app.addHook('onRequest', async (request, reply) => {
      reply.headers(DASHBOARD_HEADERS)
      if (request.routeOptions.config.open === true) return
      request.visitor = await this.findVisitor(request)
      if (request.visitor === null) return await this.redirectToSignIn(request, reply)
      await this.renew(request.visitor, request.id, reply)
    })
    app.addHook('preHandler', async (request, reply) => {
      if (request.method === 'GET' || request.method === 'HEAD') return
      if (!this.isOwnForm(request)) return await send(reply.code(403), FORM_EXPIRED)
    })
    app.setErrorHandler(async (error, request, reply) => await this.showError(error, request, reply))
    app.setNotFoundHandler(async (request, reply) => {
      request.visitor ??= await this.findVisitor(request)
      if (request.visitor === null) return await this.redirectToSignIn(request, reply)
      return await this.showError(new PageNotFound(), request, reply)
    })
  }

  addLiveRoute (app: FastifyInstance): void {
    const { services } = this.context
    app.addHook('preClose', async () => await this.streams.stop())
    app.get('/live', async (request, reply) => {
      const { session: { id }, principal } = request.visitor!
      const isSignedIn = () => {
        const { now } = services.directory
        const session = now.sessions.get(id)
        return session !== undefined &&
          isOpen(session, principalOf(now, principal.id), session.hash, services.factLog.clock.nowMs())
      }
      return await reply.type('text/event-stream').header('x-accel-buffering', 'no').send(
        this.streams.open(
          principal.account,
          reply.raw,
          isSignedIn,
          seenIn(new URL(request.url, 'http://here').searchParams)
        )
      )
    })
  }

  pagesOf (app: FastifyInstance): Pages {
    const bodyLimit = FORM_BYTES_MAX
    const take = (scope: Scope | null, handler: Handler) => async (request: FastifyRequest, reply: FastifyReply) =>
      await this.handle(scope, handler, request, reply)
    return {
      get: (path, scope, handler) => {
        this.permits.add('GET', path, scope)
        app.get(path, take(scope, handler))
      },
      post: (path, scope, handler) => {
        this.permits.add('POST', path, scope)
        app.post(path, { bodyLimit }, take(scope, handler))
      }
    }
  }

  private async findVisitor (request: FastifyRequest): Promise<Visitor | null> {
    return await visitorOf(this.context.services, this.cookies.ticketIn(request))
  }

  private isOwnForm (request: FastifyRequest): boolean {
    if (isForeign(request, this.context.publicUrl)) return false
    const { visitor } = request
    return visitor === null || isCsrf(visitor.session, formOf(request).get('csrf') ?? '')
  }

  private async handle (
    scope: Scope | null,
    handler: Handler,
    request: FastifyRequest,
    reply: FastifyReply
  ): Promise<FastifyReply> {
    const visit = this.visitOf(request)
    if (!admits(scope, visit.principal)) throw scope === 'operator' ? new PageNotFound() : new NotPermitted(scope!)
    // No id is like these, and in the path of an API request they would lead elsewhere.
    if (Object.values(visit.params).some(part => /^\.{0,2}$/.test(part))) throw new PageNotFound()
    // Before the page reads anything.
    const reading = request.method === 'GET' ? this.streams.sequences() : Promise.resolve({})
    const result = await handler(visit)
    const seen = await reading
    if ('send' in result) return result.send(reply)
    if ('to' in result) {
      if (result.notice !== undefined) this.cookies.setNotice(reply, result.notice)
      return await reply.redirect(result.to, 303)
    }
    return await this.show(reply, request, visit, { ...result, seen })
  }

  private async show (
    reply: FastifyReply,
    request: FastifyRequest,
    visit: Visit,
    { page, title, section, status = 200, assets = [], seen = {}, isWide = false }:
      & Extract<PageResult, { page: Html }>
      & {
        seen?: SeenSequences
      }
  ): Promise<FastifyReply> {
    // A part that htmx fetches shows no notice, so it must not take it from the page that does.
    const notice = request.headers['hx-request'] === 'true' ? null : this.cookies.takeNotice(request, reply)
    const hasMailbox = this.context.mailbox !== null && visit.isOperator
    const { text } = pageFor(visit, { title, section, notice, assets, hasMailbox, seen, isWide }, page)
    const zipped = await compressed(request, text)
    reply.code(status).type(HTML).header('vary', 'accept-encoding')
    return await (zipped === null ? reply.send(text) : reply.header('content-encoding', 'gzip').send(zipped))
  }

  private visitOf (request: FastifyRequest): Visit {
    const { services, fetchAs } = this.context
    const { session, principal: own } = request.visitor!
    const principal = asVisitor(own)
    const account = services.directory.now.accounts.get(principal.account)
    const actor = sessionActor(session, request.ip)
    return {
      params: request.params as Record<string, string>,
      query: new URL(request.url, 'http://here').searchParams,
      form: formOf(request),
      url: request.url,
      account: { id: principal.account, name: account?.name ?? principal.account },
      session,
      principal,
      api: new Jetpost({
        url: 'http://inside',
        key: 'inside',
        fetch: fetchAs({ principal, actor }, request.id),
        retries: 0,
        timeoutMs: API_TIMEOUT_MS
      }),
      asker: { account: principal.account, correlation: request.id, actor, test: principal.test },
      may: (method, url) => this.permits.allow(principal, method, url),
      isOperator: isOperator(own),
      csrf: csrfOf(session),
      nowMs: services.factLog.clock.nowMs()
    }
  }

  private async showError (error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { status, title, text } = errorPageOf(error, request)
    if (status === 500) this.context.log.error({ requestId: request.id, err: error }, 'dashboard page failed')
    // A frame would refuse the full page and stay empty.
    if (request.headers['sec-fetch-dest'] === 'iframe') {
      return framed(html`<p><strong>${title}.</strong> ${text}</p>`.text, { images: false, status }).send(reply)
    }
    // Not an answer that htmx would put in the place of what is there.
    if (request.visitor === null) {
      return send(reply.code(status), plainPage(title, html`<h1>${title}</h1><p>${text}</p>`))
    }
    const back = request.method === 'GET' ? '/dashboard' : this.refererOf(request)
    const page = html`<h1>${title}</h1><p>${text}</p><p><a class="button" href="${back}">Go back</a></p>`
    return await this.show(reply, request, this.visitOf(request), { page, title, section: null, status })
  }

  /** After signing in, the visitor gets the requested page. */
  private redirectToSignIn (request: FastifyRequest, reply: FastifyReply): FastifyReply {
    if (request.method === 'GET' && request.headers['sec-fetch-site'] === 'cross-site') {
      return send(reply, reloadFromHere(request.url))
    }
    const to = request.method === 'GET' ? request.url : this.refererOf(request)
    const signIn = `/dashboard/sign-in?to=${encodeURIComponent(to)}`
    // htmx fetches a part of a page: the page as a whole goes to sign in.
    if (request.headers['hx-request'] === 'true') return reply.code(401).header('hx-redirect', signIn).send('')
    return reply.redirect(signIn, 303)
  }

  /** Replaces the session's secret where it is due. */
  private async renew ({ session, staleSecret }: Visitor, correlation: string, reply: FastifyReply): Promise<void> {
    if (staleSecret === null) return
    try {
      const ticket = await renewTicket(this.context.services, correlation, session, staleSecret)
      if (ticket !== null) this.cookies.setTicket(reply, ticket, session.untilMs)
    } catch (error) {
      // Whether or not the log has it, the next request gets the same secret.
      if (!(error instanceof LogUnavailable) && !isUnanswered(error)) throw error
    }
  }

  /** The dashboard's page that the form was on. */
  private refererOf ({ headers }: FastifyRequest): string {
    const { referer = '' } = headers
    if (!isOwnUrl(referer, headers, this.context.publicUrl)) return '/dashboard'
    const { pathname, search } = new URL(referer)
    return pathname.startsWith('/dashboard') ? pathname + search : '/dashboard'
  }
}

/** The place in the log that the page names. */
function seenIn (query: URLSearchParams): SeenSequences {
  const known = (['emails', 'deliveries'] as const).filter(topic => /^\d{1,15}$/.test(query.get(topic) ?? ''))
  return Object.fromEntries(known.map(topic => [topic, Number(query.get(topic))]))
}

const FORM_EXPIRED = plainPage(
  'Form expired',
  html`<h1>Form expired</h1>
<p>This form belongs to another session, or is too old. Nothing was changed.</p>
<p><a class="button" href="/dashboard">Open the dashboard</a></p>`
)

function parseForms (app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => done(null, new URLSearchParams(body as string))
  )
}

const HTML = 'text/html; charset=utf-8'

function send (reply: FastifyReply, page: Html): FastifyReply {
  return reply.type(HTML).send(page.text)
}
