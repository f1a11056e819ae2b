import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import type { Registry } from 'prom-client'
import type { Services } from '#src/actions/services.ts'
import type { Log } from '#src/base/log.ts'
import { clickRoute, openRoute, openVisits } from './visits.ts'
import { errorPage, unavailablePage } from './pages.ts'
import { unsubscribeRoutes } from './unsubscribe.ts'

export interface TrackingOptions {
  services: Services
  /** For its metrics. */
  registry: Registry
  log: Log
}

/** Enough for our form: anybody may post here. */
const BODY_BYTES_MAX = 16 * 1024
const METHODS: HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']
const RETRY_AFTER_S = 5
/** Neither a cache, nor a search engine, nor the page behind a link learns a token. */
const PRIVACY_HEADERS = {
  'cache-control': 'private, no-store, no-cache, max-age=0',
  'referrer-policy': 'no-referrer',
  'x-robots-tag': 'noindex, nofollow',
  'x-content-type-options': 'nosniff'
}

/** `/o`, `/c` and `/u`: the targets of the links in our mail. No key is needed: the token says it all. */
export async function trackingPages (
  app: FastifyInstance,
  { services, registry, log }: TrackingOptions
): Promise<void> {
  const visits = openVisits({ services, registry, log })
  app.addHook('onClose', () => visits.stop())

  app.addHook('onRequest', async (request, reply) => {
    // The content type makes no difference here, and Fastify would refuse a malformed one.
    delete request.headers['content-type']
    reply.headers(PRIVACY_HEADERS)
  })

  // The POST itself unsubscribes; of its body only our own form is read.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer', bodyLimit: BODY_BYTES_MAX },
    (_request, body, done) => done(null, body)
  )

  app.setErrorHandler(async (error: FastifyError, request, reply) => {
    const { statusCode = 500 } = error
    if (statusCode >= 400 && statusCode < 500) return await errorPage(reply, statusCode)
    // A mail program that gets a 503 tries again.
    log.warn({ err: error, requestId: request.id }, 'tracking request failed; answered with 503')
    return await unavailablePage(reply, RETRY_AFTER_S)
  })

  openRoute(app, services, visits)
  clickRoute(app, services, visits)
  unsubscribeRoutes(app, services)
  refuseOthers(app, '/o/*', ['GET', 'HEAD', 'OPTIONS'])
  refuseOthers(app, '/c/*', ['GET', 'HEAD', 'OPTIONS'])
  refuseOthers(app, '/u/*', ['GET', 'HEAD', 'POST', 'OPTIONS'])
}

function refuseOthers (app: FastifyInstance, url: string, methods: HTTPMethods[]): void {
  const allow = methods.join(', ')
  app.options(
    url,
    async (_request: FastifyRequest, reply: FastifyReply) => await reply.code(204).header('allow', allow).send()
  )
  app.route({
    method: METHODS.filter(method => !methods.includes(method)),
    url,
    handler: async (_request, reply) => await errorPage(reply.header('allow', allow), 405)
  })
}
