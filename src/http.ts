import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Socket } from 'node:net'
import { isOperator } from '#streams/key/decide.ts'
import { addressRanges } from '#src/base/config-values.ts'
import type { Log } from '#src/base/log.ts'
import { newId } from '#src/base/id.ts'
import { systemClock } from '#src/base/clock.ts'
import type { Services } from '#src/actions/services.ts'
import { accountRoutes } from '#src/servers/api/accounts.ts'
import { auditRoutes } from '#src/servers/api/audit.ts'
import { apiContext, createBounds, type Api, type ApiOptions } from '#src/servers/api/context.ts'
import { OWN_DIALECT } from '#src/servers/api/dialect.ts'
import { authorizationOf, createAuthenticator, type Authenticator } from '#src/servers/api/auth.ts'
import {
  answer,
  helpLink,
  internal,
  malformedUrl,
  missingHost,
  notFound,
  type HttpProblem
} from '#src/servers/api/errors.ts'
import { batchRoutes } from '#src/servers/api/batches.ts'
import { deliveryRoutes } from '#src/servers/api/deliveries.ts'
import { domainRoutes } from '#src/servers/api/domains.ts'
import { emailActionRoutes } from '#src/servers/api/email-actions.ts'
import { contentRoutes } from '#src/servers/api/email-content.ts'
import { readRoutes } from '#src/servers/api/email-reads.ts'
import { sendRoutes } from '#src/servers/api/emails.ts'
import { erasureRoutes } from '#src/servers/api/erasures.ts'
import { eventRoutes } from '#src/servers/api/events.ts'
import type { StreamLimits } from '#src/servers/api/event-stream.ts'
import { Acceptor } from '#src/actions/acceptor.ts'
import { createInternalKeys, internalFetch, type InternalKeys } from '#src/servers/api/internal-keys.ts'
import { keyRoutes } from '#src/servers/api/keys.ts'
import { meRoute } from '#src/servers/api/me.ts'
import { DailyQuota } from '#src/actions/quota.ts'
import { boundConnections, closeIdleConnections } from '#src/servers/api/connections.ts'
import { apiDescription, rememberRoutes } from '#src/servers/api/openapi.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { RemoteFiles } from '#src/servers/api/resend/remote-files.ts'
import { RESEND_DIALECT, resendRoutes } from '#src/servers/api/resend/routes.ts'
import { replayRoutes } from '#src/servers/api/replays.ts'
import { statsRoutes } from '#src/servers/api/stats.ts'
import { suppressionFileRoutes } from '#src/servers/api/suppression-files.ts'
import { suppressionRoutes } from '#src/servers/api/suppressions.ts'
import { templateRoutes } from '#src/servers/api/templates.ts'
import { userRoutes } from '#src/servers/api/users.ts'
import { webhookRoutes } from '#src/servers/api/webhooks.ts'
import type { Limiter } from '#src/actions/limiter.ts'
import { limitHeaders } from '#src/servers/api/limits.ts'
import { parserRefusals, type ParserRefusals } from '#src/servers/api/parser.ts'
import { lacksHost, markUndecodable, pathOf } from '#src/servers/api/target.ts'
import { catcherPages, type MailboxDoor } from '#src/servers/mailbox/pages.ts'
import type { Catcher } from '#src/servers/mailbox/server.ts'
import { dashboardContext, DASHBOARD_HEADERS } from '#src/servers/dashboard/context.ts'
import { Oidc, type OidcSettings } from '#src/servers/dashboard/oidc.ts'
import { hasPasskeys, Passkeys } from '#src/servers/dashboard/passkeys.ts'
import type { OperationsService } from '#src/operations/operations.ts'
import type { HealthCheck } from '#src/base/role.ts'
import { healthRoutes } from '#src/servers/ops/health.ts'
import { metricsRoute, type Metrics, type MetricsReport } from '#src/servers/ops/metrics.ts'
import { trackingPages } from '#src/servers/tracking/context.ts'
import type { Resolve } from '#src/dns/guard.ts'
import type { Counters, Quotas } from '#src/nats/counters.ts'

const OWN_PREFIX = '/api'
const RESEND_PREFIX = '/resend'
const API_PREFIXES = [OWN_PREFIX, RESEND_PREFIX]

/** What the API stands on. */
interface ApiModules {
  services: Services
  counters: Counters
  quotas: Quotas
  reads: Reads
  streams?: Partial<StreamLimits>
  /** How host names are resolved that a request names; left out = by DNS and the system. */
  resolve?: Resolve
}

export interface HttpOptions {
  /** What /api and tracking need; null in a process without the role `api`. */
  api: ApiModules | null
  /** Where clients reach it. */
  publicUrl: string
  /** Where people sign in; left out = here alone. */
  oidc?: OidcSettings
  /** What the dashboard needs beside the API; null = there is no dashboard. */
  operations: OperationsService | null
  catcher: Catcher | null
  /** Opens what was caught to browsers of this machine; null = it is in the dashboard alone. */
  mailboxDoor: MailboxDoor | null
  checks: HealthCheck[]
  metrics: Metrics
  /** What a second process has counted; left out = there is none. */
  otherMetrics?: () => Promise<MetricsReport>
  trustProxy: string[]
  log: Log
}

/** Of a request that brings no attachments and no file: the largest template, every character of it escaped. */
const REQUEST_BYTES_MAX = 4 * 1024 * 1024
/** For a year, and for this host alone: the others of the domain are not ours. Source: RFC 6797 6.1. */
const HSTS = 'max-age=31536000'
/** More than the headers hold: an id of any length is just one that does not exist. */
const PARAM_CHARS_MAX = 64 * 1024

/** What a browser shows where nothing is. */
const NOT_FOUND = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page not found</title></head>' +
  '<body><h1>Page not found</h1><p>There is nothing at this address. <a href="/dashboard">Open the dashboard</a></p>' +
  '</body></html>'
const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff'
}

/** A browser names HTML first; clients of the API do not. */
function isForPerson ({ method, headers: { accept = '' } }: FastifyRequest): boolean {
  return method === 'GET' && accept.startsWith('text/html')
}

/** The one HTTP server, for main and tests alike: api, tracking, mailbox and ops, each a context with its own rules. */
export function buildHttp (options: HttpOptions): FastifyInstance {
  const { log, metrics, api, operations, publicUrl } = options
  let limiter: Limiter | null = null
  const app = createServer(options, parserRefusals(() => limiter), refuse)

  /** Refuses what has no context of its own, with the headers that every answer of the API has. */
  function refuse (request: FastifyRequest, reply: FastifyReply, problem: HttpProblem): FastifyReply {
    if (limiter !== null) {
      reply.headers(limitHeaders(limiter.countUnauthenticated(request.ip, 'other')))
      reply.header('link', helpLink(publicUrl))
    }
    return answer(reply.header('x-request-id', request.id), problem)
  }

  const secured = publicUrl.startsWith('https:')
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
    if (secured) reply.header('strict-transport-security', HSTS)
    // In an API the key and the window come first.
    if (lacksHost(request.raw) && !API_PREFIXES.includes(request.server.prefix)) {
      return await refuse(request, reply, missingHost())
    }
  })
  recordRequests(app, metrics, log)
  app.setNotFoundHandler(async (request, reply) =>
    await (isForPerson(request)
      ? reply.code(404).headers(PAGE_HEADERS).send(NOT_FOUND)
      : refuse(request, reply, notFound()))
  )
  // For what has no context of its own, such as /metrics: Fastify's own handler sends the message of any error.
  app.setErrorHandler(async (error: FastifyError, request, reply) => {
    if ((error.statusCode ?? 500) < 500) return await reply.send(error)
    log.error({ requestId: request.id, err: error }, 'request failed; answering 500')
    return answer(reply, internal(request.id))
  })
  healthRoutes(app, options.checks, log)
  metricsRoute(app, metrics, options.otherMetrics)
  const authenticator = api === null ? null : createAuthenticator(api.services.directory, api.services.factLog.clock)
  const { catcher, mailboxDoor: door } = options
  if (catcher !== null && door !== null) {
    void app.register(catcherPages, { catcher, door, isOperators: operators(authenticator) })
  }
  if (api === null || authenticator === null) return app
  void app.register(trackingPages, { services: api.services, registry: metrics.registry, log })
  const routes = rememberRoutes(app)
  const internalKeys = createInternalKeys()
  limiter = registerApis(app, api, { authenticator, internalKeys, publicUrl, log })
  void app.register(apiDescription, { routes, publicUrl: options.publicUrl })
  if (operations !== null) openDashboard(app, { ...options, api, operations }, internalKeys)
  return app
}

/** Nobody in a process that knows no keys. */
function operators (authenticator: Authenticator | null): (request: FastifyRequest) => Promise<boolean> {
  return async request => {
    const key = await authenticator?.keyOf(authorizationOf(request.raw.rawHeaders), request.ip) ?? null
    return key !== null && isOperator(key)
  }
}

type Refuse = (request: FastifyRequest, reply: FastifyReply, problem: HttpProblem) => FastifyReply

function createServer ({ trustProxy, api, log }: HttpOptions, parser: ParserRefusals, refuse: Refuse): FastifyInstance {
  const app: FastifyInstance = Fastify({
    bodyLimit: REQUEST_BYTES_MAX,
    // A request that takes longer to arrive holds a socket for nothing.
    requestTimeout: 60_000,
    // So does a client that no longer reads its answer.
    connectionTimeout: 120_000,
    keepAliveTimeout: 72_000,
    trustProxy: trustProxy.length === 0 ? false : trustProxy,
    genReqId: request => requestIdOf(request.headers['x-request-id']),
    routerOptions: { maxParamLength: PARAM_CHARS_MAX },
    rewriteUrl: ({ url = '' }) => withoutDoubleSlash(url),
    http: {
      // Node would answer without our headers; see lacksHost.
      requireHostHeader: false,
      headersTimeout: 15_000,
      connectionsCheckingInterval: 5000
    },
    // While it stops, requests on open connections are served and told that the connection closes: a bare 503 would
    // lack the headers.
    return503OnClosing: false,
    clientErrorHandler: parser.refuse,
    frameworkErrors: (_error, request, reply) => {
      const prefix = API_PREFIXES.find(prefix => `${pathOf(request.url)}/`.startsWith(`${prefix}/`))
      if (api !== null && prefix !== undefined) return refuseUrlInApi(app, prefix, request, reply)
      if (/^\/dashboard(\/|$)/.test(pathOf(request.url))) reply.headers(DASHBOARD_HEADERS)
      void refuse(request, reply, malformedUrl())
    }
  })
  closeIdleConnections(app)
  boundConnections(app, addressRanges(trustProxy), log)
  app.server.on('request', parser.expect)
  app.server.on('connect', (_request, socket) => parser.refuseConnect(socket as Socket))
  // An expectation other than 100-continue is ignored. Source: RFC 9110 10.1.1.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  return app
}

function recordRequests (app: FastifyInstance, metrics: Metrics, log: Log): void {
  app.addHook('onResponse', async (request, reply) => {
    // A stream lasts as long as its client likes: that is not how long it took to answer.
    if (!isStream(reply)) {
      metrics.request(request.routeOptions.url ?? 'none', reply.statusCode, reply.elapsedTime / 1000)
    }
    const line = {
      requestId: request.id,
      method: request.method,
      route: request.routeOptions.url,
      status: reply.statusCode,
      durationMs: Math.round(reply.elapsedTime)
    }
    log.debug(line, 'request')
  })
}

/** Our own API, and the same in the words of another, for its clients: what is done, and what bounds it, is one. */
function registerApis (
  app: FastifyInstance,
  api: ApiModules,
  shared: Pick<ApiOptions, 'authenticator' | 'internalKeys' | 'publicUrl' | 'log'>
): Limiter {
  const { services, counters, quotas, reads, resolve } = api
  const bounds = createBounds(counters, services)
  const quota = new DailyQuota(quotas, services.directory, services.factLog.clock)
  const acceptor = new Acceptor(services, quota)
  void app.register(async plain => {
    const context = plain.withTypeProvider<TypeBoxTypeProvider>()
    apiContext(context, { ...shared, services, bounds, dialect: OWN_DIALECT })
    apiRoutes(context, api, { quota, acceptor }, shared)
  }, { prefix: OWN_PREFIX })
  const remoteFiles = new RemoteFiles({ mayCallPrivate: services.settings.mayCallPrivate, resolve })
  app.addHook('onClose', async () => await remoteFiles.close())
  void app.register(async plain => {
    const context = plain.withTypeProvider<TypeBoxTypeProvider>()
    apiContext(context, { ...shared, services, bounds, dialect: RESEND_DIALECT })
    resendRoutes(context, { services, acceptor, reads, remoteFiles })
  }, { prefix: RESEND_PREFIX })
  return bounds.limiter
}

function apiRoutes (
  app: Api,
  { services, reads, streams = {} }: ApiModules,
  { quota, acceptor }: { quota: DailyQuota, acceptor: Acceptor },
  { publicUrl, log }: Pick<ApiOptions, 'publicUrl' | 'log'>
): void {
  sendRoutes(app, services, acceptor)
  batchRoutes(app, services, acceptor)
  readRoutes(app, services, reads)
  emailActionRoutes(app, services, reads)
  contentRoutes(app, services, reads)
  templateRoutes(app, services, reads)
  domainRoutes(app, services)
  keyRoutes(app, services)
  meRoute(app, services, quota)
  userRoutes(app, services, publicUrl)
  accountRoutes(app, services)
  webhookRoutes(app, services)
  deliveryRoutes(app, services, reads)
  replayRoutes(app, services, reads)
  suppressionRoutes(app, services, reads)
  suppressionFileRoutes(app, services, reads)
  erasureRoutes(app, services, reads)
  auditRoutes(app, reads)
  statsRoutes(app, reads, services.factLog.clock)
  eventRoutes(app, services, { log, streams })
}

type DashboardOptions = HttpOptions & { api: ApiModules, operations: OperationsService }

function openDashboard (
  app: FastifyInstance,
  { api, operations, catcher, publicUrl, oidc, log }: DashboardOptions,
  internalKeys: InternalKeys
): void {
  void app.register(dashboardContext, {
    prefix: '/dashboard',
    context: {
      services: api.services,
      reads: api.reads,
      fetchAs: (holder, correlation) => internalFetch(app, internalKeys, holder, correlation),
      operations,
      ways: {
        oidc: oidc === undefined ? null : new Oidc(oidc, publicUrl),
        passkeys: hasPasskeys(publicUrl) ? new Passkeys(api.services, publicUrl) : null
      },
      mailbox: catcher,
      publicUrl,
      log: log.child({ role: 'dashboard' })
    }
  })
  app.get('/', async (_request, reply) => await reply.redirect('/dashboard', 303))
}

function isStream (reply: FastifyReply): boolean {
  return String(reply.getHeader('content-type')).startsWith('text/event-stream')
}

/** The client's own id when it is harmless, so that both logs have the same; else a new one. */
function requestIdOf (given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[A-Za-z0-9._-]{8,100}$/.test(given) ? given : newId('req', systemClock.nowMs())
}

/** A URL that cannot be decoded has no route. In an API it goes to that context's not-found handler, for its keys and
 *  windows. */
function refuseUrlInApi (app: FastifyInstance, prefix: string, { raw }: FastifyRequest, reply: FastifyReply): void {
  markUndecodable(raw)
  Object.assign(raw, { url: `${prefix}/` })
  app.routing(raw, reply.raw)
}

/** Some of Resend's clients put a slash between base URL and path, whether or not the base URL ends with one. */
function withoutDoubleSlash (url: string): string {
  return url.startsWith(`${RESEND_PREFIX}//`) ? RESEND_PREFIX + url.slice(RESEND_PREFIX.length + 1) : url
}
