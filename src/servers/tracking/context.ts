import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import type { Registry } from 'prom-client'
import { domainOf } from '#streams/address.ts'
import { recipientRefOf, type RecipientRef } from '#src/actions/recipient.ts'
import type { Services } from '#src/actions/services.ts'
import { unsubscribe } from '#src/actions/suppression.ts'
import type { Log } from '#src/base/log.ts'
import { donePage, errorPage, FORM_FIELD, formPage, unavailablePage, type Parties } from './pages.ts'
import { clickRoute, isForgotten, openRoute, openVisits, tokenOf, type TokenPath } from './visits.ts'

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

type UnsubscribeRoute = TokenPath & { Body: Buffer | undefined }

/** GET /u/<token> shows a form and changes nothing, since scanners follow every link. POST unsubscribes, whatever its
 *  body: a mail program's button (RFC 8058) or our form. Safe to repeat. Its 200 means that the log has it. */
function unsubscribeRoutes (app: FastifyInstance, services: Services): void {
  app.get<TokenPath>('/u/*', async (request, reply) => {
    const ref = await findRecipient(services, request)
    return typeof ref === 'number' ? await errorPage(reply, ref) : await formPage(reply, partiesOf(ref))
  })

  app.post<UnsubscribeRoute>('/u/*', async (request, reply): Promise<FastifyReply> => {
    const ref = await findRecipient(services, request)
    if (typeof ref === 'number') return await errorPage(reply, ref)
    await unsubscribe(services, ref, isOurForm(request.body) ? 'page' : 'one-click')
    return await donePage(reply, partiesOf(ref))
  })
}

/** The recipient who unsubscribes; 404 when the token is not ours, 410 when its mail is no longer on record. Throws
 *  when NATS does not answer. */
async function findRecipient (
  { tokens, factLog }: Services,
  request: FastifyRequest<TokenPath>
): Promise<RecipientRef | 404 | 410> {
  const pointer = tokens.read('unsubscribe', tokenOf(request))
  if (pointer === null) return 404
  const ref = await recipientRefOf(factLog, pointer)
  return ref === null || isForgotten(ref) ? 410 : ref
}

function isOurForm (body: Buffer | undefined): boolean {
  return body !== undefined && new URLSearchParams(body.toString('latin1')).get(FORM_FIELD.name) === FORM_FIELD.value
}

function partiesOf ({ request: { fact: { data } }, n }: RecipientRef): Parties {
  const { address: from } = data.from
  return { to: masked(data.recipients[n]!.address), from: domainOf(from) }
}

/** Enough to recognize one's own address, and no more for those the mail was forwarded to. */
function masked (address: string): string {
  const at = address.lastIndexOf('@')
  const [first = ''] = address.slice(0, at)
  return `${first}…${address.slice(at)}`
}
