import { SpanStatusCode, type Span } from '@opentelemetry/api'
import type { FastifyInstance } from 'fastify'
import { startSpan, traceparentOf } from '#src/base/tracing.ts'

declare module 'fastify' {
  interface FastifyRequest {
    span: Span | null
    /** The `traceparent` of its span, for what follows from it; undefined where it is not traced. */
    trace: string | undefined
  }
}

/** A span for each request, below the client's where that sends `traceparent`. It tells the route, never the query: an
 *  address may stand there. */
export function traceRequests (app: Pick<FastifyInstance, 'addHook' | 'decorateRequest'>): void {
  app.decorateRequest('span', null)
  app.decorateRequest('trace', undefined)
  app.addHook('onRequest', (request, _reply, done) => {
    const { method, routeOptions: { url: route }, id, headers: { traceparent } } = request
    const parent = typeof traceparent === 'string' ? traceparent : undefined
    const attributes = { 'http.request.method': method, 'http.route': route, 'jetpost.request': id }
    request.span = startSpan({ name: `${method} ${route ?? ''}`.trim(), kind: 'server', parent, attributes })
    request.trace = traceparentOf(request.span)
    done()
  })
  app.addHook('onResponse', (request, { statusCode }, done) => {
    request.span?.setAttribute('http.response.status_code', statusCode)
    if (statusCode >= 500) request.span?.setStatus({ code: SpanStatusCode.ERROR })
    request.span?.end()
    done()
  })
  // Its client is gone, or no longer reads.
  app.addHook('onRequestAbort', (request, done) => {
    request.span?.end()
    done()
  })
}
