import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Log } from '#src/base/log.ts'
import { newId } from '#src/base/id.ts'
import { systemClock } from '#src/base/clock.ts'
import type { Desk } from '#src/actions/desk.ts'
import { apiContext } from '#src/in/api/context.ts'
import { answer, malformedUrl, missingHost, notFound } from '#src/in/api/errors.ts'
import { batchRoutes } from '#src/in/api/batches.ts'
import { domainRoutes } from '#src/in/api/domains.ts'
import { emailActionRoutes } from '#src/in/api/email-actions.ts'
import { contentRoutes } from '#src/in/api/email-content.ts'
import { readRoutes } from '#src/in/api/email-reads.ts'
import { sendRoutes } from '#src/in/api/emails.ts'
import { erasureRoutes } from '#src/in/api/erasures.ts'
import { eventRoutes } from '#src/in/api/events.ts'
import type { StreamLimits } from '#src/in/api/event-stream.ts'
import { createAcceptor } from '#src/in/api/idempotency.ts'
import { createInsiders, insideFetch, type Insiders } from '#src/in/api/insiders.ts'
import { keyRoutes } from '#src/in/api/keys.ts'
import { hangUpLines } from '#src/in/api/lines.ts'
import { apiDescription, rememberRoutes } from '#src/in/api/openapi.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { statsRoutes } from '#src/in/api/stats.ts'
import { suppressionRoutes } from '#src/in/api/suppressions.ts'
import { templateRoutes } from '#src/in/api/templates.ts'
import { webhookRoutes } from '#src/in/api/webhooks.ts'
import type { Limiter } from '#src/in/api/limits.ts'
import { parserRefusals } from '#src/in/api/parser.ts'
import { lacksHost, pathOf } from '#src/in/api/target.ts'
import { catcherPages } from '#src/in/catcher/pages.ts'
import type { Catcher } from '#src/in/catcher/server.ts'
import { dashboardContext, DASHBOARD_HEADERS } from '#src/in/dashboard/context.ts'
import type { Operations } from '#src/in/dashboard/operations.ts'
import { healthRoutes, type Part } from '#src/in/ops/health.ts'
import { metricsRoute, type Metrics } from '#src/in/ops/metrics.ts'
import { trackingPages } from '#src/in/tracking/context.ts'
import type { Counters } from '#src/nats/counters.ts'

export interface HttpOptions {
  /** What /api and tracking need; null in a process without the role `api`. */
  api: { desk: Desk, counters: Counters, reads: Reads, streams?: Partial<StreamLimits> } | null
  /** Where clients reach it. */
  publicUrl: string
  /** What the dashboard needs beside the API; null = there is no dashboard. */
  operations: Operations | null
  catcher: Catcher | null
  parts: Part[]
  metrics: Metrics
  trustProxy: string[]
  log: Log
}

const REQUEST_BYTES_MAX = 20 * 1024 * 1024
/** More than the head of a request holds: an id of any length is one that nobody has. */
const PARAM_CHARS_MAX = 64 * 1024

/** The one HTTP server, for main and tests alike: api, tracking, catcher and ops, each a context with its own rules. */
export function buildHttp (options: HttpOptions): FastifyInstance {
  const { log, metrics } = options
  let limiter: Limiter | null = null
  const parser = parserRefusals(() => limiter)
  const app: FastifyInstance = Fastify({
    bodyLimit: REQUEST_BYTES_MAX,
    // A request that takes longer to arrive holds a socket for nothing.
    requestTimeout: 60_000,
    keepAliveTimeout: 72_000,
    trustProxy: options.trustProxy.length === 0 ? false : options.trustProxy,
    genReqId: request => requestIdOf(request.headers['x-request-id']),
    routerOptions: { maxParamLength: PARAM_CHARS_MAX },
    // Node would answer without our headers; see lacksHost.
    http: { requireHostHeader: false },
    // While it stops, what still comes in on open lines is served and told that the line closes: a bare 503 would lack the headers.
    return503OnClosing: false,
    clientErrorHandler: parser.refuse,
    frameworkErrors: (_error, request, reply) => refuseUrl(app, request, reply, options.api !== null)
  })
  hangUpLines(app)
  app.server.on('request', parser.expect)
  // What a client expects beside 100-continue is not ours to promise: served as if it had not been said (RFC 9110 10.1.1).
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
    // Under /api the key and the window come first.
    if (lacksHost(request.raw) && request.server.prefix !== '/api') return await answer(reply, missingHost())
  })
  app.addHook('onResponse', async (request, reply) => {
    // A stream lasts as long as its reader likes: that is not how long it took to answer.
    if (!isStream(reply)) metrics.request(request.routeOptions.url ?? 'none', reply.statusCode, reply.elapsedTime / 1000)
    const line = { requestId: request.id, method: request.method, route: request.routeOptions.url, status: reply.statusCode, durationMs: Math.round(reply.elapsedTime) }
    log.debug(line, 'request')
  })
  app.setNotFoundHandler(async (_request, reply) => await answer(reply, notFound()))
  healthRoutes(app, options.parts)
  metricsRoute(app, metrics)
  if (options.catcher !== null) void app.register(catcherPages, { catcher: options.catcher })
  const { api, operations } = options
  if (api !== null) {
    void app.register(trackingPages, { desk: api.desk, registry: metrics.registry, log })
    const routes = rememberRoutes(app)
    const insiders = createInsiders()
    void app.register(async plain => {
      const context = plain.withTypeProvider<TypeBoxTypeProvider>()
      limiter = apiContext(context, { desk: api.desk, counters: api.counters, insiders, log })
      const acceptor = createAcceptor(api.desk)
      sendRoutes(context, api.desk, acceptor)
      batchRoutes(context, api.desk, acceptor)
      readRoutes(context, api.desk, api.reads)
      emailActionRoutes(context, api.desk, api.reads)
      contentRoutes(context, api.desk, api.reads)
      templateRoutes(context, api.desk, api.reads)
      domainRoutes(context, api.desk)
      keyRoutes(context, api.desk)
      webhookRoutes(context, api.desk)
      suppressionRoutes(context, api.desk, api.reads)
      erasureRoutes(context, api.desk, api.reads)
      statsRoutes(context, api.reads, api.desk.ledger.clock)
      eventRoutes(context, api.desk, { log, streams: api.streams ?? {} })
    }, { prefix: '/api' })
    void app.register(apiDescription, { routes, publicUrl: options.publicUrl })
    if (operations !== null) openDashboard(app, { ...options, api, operations }, insiders)
  }
  return app
}

type DashboardOptions = HttpOptions & { api: NonNullable<HttpOptions['api']>, operations: Operations }

function openDashboard (app: FastifyInstance, { api, operations, catcher, publicUrl, log }: DashboardOptions, insiders: Insiders): void {
  void app.register(dashboardContext, {
    prefix: '/dashboard',
    rooms: {
      desk: api.desk,
      reads: api.reads,
      fetchAs: (key, correlation) => insideFetch(app, insiders, key, correlation),
      operations,
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

/** The caller's own id when it is a harmless one, so that its logs and ours meet; else a new one. */
function requestIdOf (given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[A-Za-z0-9._-]{8,100}$/.test(given) ? given : newId('req', systemClock.nowMs())
}

/** A URL that cannot be decoded has no route. Under /api it is led to that room's "not found" all the same: keys, windows and headers hold. */
function refuseUrl (app: FastifyInstance, request: FastifyRequest, reply: FastifyReply, hasApi: boolean): void {
  const { raw } = request
  if (/^\/dashboard(\/|$)/.test(pathOf(request.url))) reply.headers(DASHBOARD_HEADERS)
  if (!hasApi || !/^\/api(\/|$)/.test(pathOf(request.url))) return void answer(reply.header('x-request-id', request.id), malformedUrl())
  // The room sees that the URL is not the original one, and says so instead of 404.
  Object.assign(raw, { originalUrl: raw.url, url: '/api/' })
  app.routing(raw, reply.raw)
}
