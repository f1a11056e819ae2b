import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyInstance } from 'fastify'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Log } from '#src/base/log.ts'
import { newId } from '#src/base/id.ts'
import { systemClock } from '#src/base/clock.ts'
import type { Desk } from '#src/actions/desk.ts'
import { apiContext } from '#src/in/api/context.ts'
import { answer, asProblem } from '#src/in/api/errors.ts'
import { sendRoutes } from '#src/in/api/emails.ts'
import { readRoutes, type Reads } from '#src/in/api/email-reads.ts'
import { webhookRoutes } from '#src/in/api/webhooks.ts'
import { limitHeaders, type Limiter } from '#src/in/api/limits.ts'
import { catcherPages } from '#src/in/catcher/pages.ts'
import type { Catcher } from '#src/in/catcher/server.ts'
import { healthRoutes, type Part } from '#src/in/ops/health.ts'
import { metricsRoute, type Metrics } from '#src/in/ops/metrics.ts'
import type { Counters } from '#src/nats/counters.ts'

export interface HttpOptions {
  /** What /api needs; null in a process without the role `api`. */
  api: { desk: Desk, counters: Counters, reads: Reads } | null
  catcher: Catcher | null
  parts: Part[]
  metrics: Metrics
  trustProxy: string[]
  log: Log
}

const REQUEST_BYTES_MAX = 20 * 1024 * 1024

/** The one HTTP server, for main and tests alike: api, catcher and ops, each a context with its own rules. */
export function buildHttp (options: HttpOptions): FastifyInstance {
  const { log, metrics } = options
  let limiter: Limiter | null = null
  const app = Fastify({
    bodyLimit: REQUEST_BYTES_MAX,
    // A request that takes longer to arrive holds a socket for nothing.
    requestTimeout: 60_000,
    keepAliveTimeout: 72_000,
    trustProxy: options.trustProxy.length === 0 ? false : options.trustProxy,
    genReqId: request => requestIdOf(request.headers['x-request-id']),
    routerOptions: { maxParamLength: 200 },
    // While it stops, what still comes in on open lines is served and told that the line closes: a bare 503 would lack the headers.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => refuseAtParser(error, socket, limiter),
    frameworkErrors: (error, _request, reply) => { void answer(reply, asProblem(error)!) }
  })
  app.addHook('onRequest', async (request, reply) => { reply.header('x-request-id', request.id) })
  app.addHook('onResponse', async (request, reply) => {
    metrics.request(request.routeOptions.url ?? 'none', reply.statusCode, reply.elapsedTime / 1000)
    const line = { requestId: request.id, method: request.method, route: request.routeOptions.url, status: reply.statusCode, durationMs: Math.round(reply.elapsedTime) }
    log.debug(line, 'request')
  })
  healthRoutes(app, options.parts)
  metricsRoute(app, metrics)
  if (options.catcher !== null) void app.register(catcherPages, { catcher: options.catcher })
  const { api } = options
  if (api !== null) {
    void app.register(async plain => {
      const context = plain.withTypeProvider<TypeBoxTypeProvider>()
      limiter = apiContext(context, { desk: api.desk, counters: api.counters, log })
      sendRoutes(context, api.desk)
      readRoutes(context, api.reads)
      webhookRoutes(context, api.desk)
    }, { prefix: '/api' })
  }
  return app
}

/** The caller's own id when it is a harmless one, so that its logs and ours meet; else a new one. */
function requestIdOf (given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[A-Za-z0-9._-]{8,100}$/.test(given) ? given : newId('req', systemClock.nowMs())
}

const PARSER_STATUS: Record<string, number> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 }

/** What the HTTP parser refuses never becomes a request; it gets the same headers all the same. */
function refuseAtParser (error: NodeJS.ErrnoException, socket: Socket, limiter: Limiter | null): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const status = PARSER_STATUS[error.code ?? ''] ?? 400
  const body = JSON.stringify({ error: STATUS_CODES[status], code: 'malformed_request' })
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    'x-request-id': newId('req', systemClock.nowMs()),
    ...(limiter === null ? {} : limitHeaders(limiter.countStranger(socket.remoteAddress ?? '', 'other')))
  }
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body}`)
}
