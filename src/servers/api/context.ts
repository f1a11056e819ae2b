import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault
} from 'fastify'
import type { Key } from '#streams/directory.ts'
import { isDeeperThan } from '#streams/json.ts'
import { mayDo } from '#streams/key/decide.ts'
import type { Scope } from '#streams/key/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { Conflict, isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import type { Counters } from '#src/nats/counters.ts'
import type { Log } from '#src/base/log.ts'
import { ProjectionUnavailable } from '#src/postgres/reads.ts'
import { authorizationOf, createAuthenticator } from './auth.ts'
import {
  answer,
  asProblem,
  conflict,
  forbidden,
  invalid,
  malformedJson,
  malformedUrl,
  methodNotAllowed,
  missingHost,
  notFound,
  Problem,
  rateLimited,
  tooDeep,
  unauthorized,
  unavailable,
  unsupportedMediaType,
  type Fault
} from './errors.ts'
import { compileValidator, SchemaFaults } from './faults.ts'
import type { InternalKeys } from './internal-keys.ts'
import { createLimiter, limitClassOf, limitHeaders, type Limiter, type Standing } from './limits.ts'
import { lacksHost, pathOf } from './target.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks; set before anything else happens under /api. */
    key: Key | null
    /** The request's place in its window, on its way. */
    standing: Promise<Standing> | Standing | null
  }
  interface FastifyContextConfig {
    /** What the key must allow for this route. */
    scope?: Scope
    /** Statuses it can answer beyond those that all routes can, for the description. */
    errors?: number[]
    /** Whether an Idempotency-Key may come with it. */
    idempotent?: boolean
  }
}

/** A Fastify instance whose routes infer their types from TypeBox schemas. */
export type Api = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

export interface ApiOptions {
  services: Services
  counters: Counters
  internalKeys: InternalKeys
  log: Log
}

/** What holds for all of /api, in the contract's order: 401 → 429 → 400/413/415 → 403 scope → 422 → the route's own.
 *  Returns the limiter, for what the HTTP parser refuses before any of this runs. */
export function apiContext (app: Api, { services, counters, internalKeys, log }: ApiOptions): Limiter {
  const { clock } = services.appenders
  const authenticator = createAuthenticator(services.directory, clock)
  const limiter = createLimiter(counters, clock)
  const allowed = rememberMethods(app)

  app.decorateRequest('key', null)
  app.decorateRequest('standing', null)
  app.setValidatorCompiler(({ schema }) => compileValidator(schema as Parameters<typeof compileValidator>[0]))
  // Fastify's own way takes out of an answer what its schema does not name, for twice the time and a fifth of a second
  // of each start. Ours have no more in them.
  app.setSerializerCompiler(() => data => JSON.stringify(data))
  parseJsonStrictly(app)

  app.addHook('onRequest', async request => {
    // By the route that will serve it, however its path is spelt.
    const limitClass = limitClassOf(request.method, request.routeOptions.url ?? pathOf(request.url))
    const authorization = authorizationOf(request.raw.rawHeaders)
    request.key = internalKeys.keyOf(authorization)
    // Whoever let them in has counted them, or need not.
    if (request.key !== null) return
    const found = authenticator.keyOf(authorization, request.ip)
    request.key = found instanceof Promise ? await found : found
    if (request.key === null) {
      request.standing = limiter.countUnauthenticated(request.ip, limitClass)
      throw unauthorized()
    }
    // On its way while the body arrives; looked at before anything else is answered.
    request.standing = limiter.count(request.key, limitClass)
  })

  app.addHook('preParsing', async request => {
    // Small bodies arrive while the window is asked for; big ones are not held in memory for a key that is past it.
    if (mayBeBig(request)) await refuseOverLimit(request)
  })

  app.addHook('preValidation', async request => {
    await refuseOverLimit(request)
    if (lacksHost(request.raw)) throw missingHost()
    // What is nowhere is that, whatever came with it.
    if (request.is404) return
    const { scope } = request.routeOptions.config
    if (scope !== undefined && !mayDo(request.key!, scope)) throw forbidden()
    const unread = unreadFaults(request)
    if (unread.length > 0) throw invalid(unread)
  })

  app.addHook('onSend', async (request, reply) => {
    const standing = await request.standing
    if (standing !== null) reply.headers(limitHeaders(standing))
  })

  const absent = (request: FastifyRequest): Problem => {
    if (request.originalUrl !== request.url) return malformedUrl()
    const methods = allowed(pathOf(request.url))
    return methods.length > 0 ? methodNotAllowed(methods) : notFound()
  }
  app.setNotFoundHandler((request: FastifyRequest) => {
    throw absent(request)
  })

  app.setErrorHandler(async (error, request, reply) => {
    // A body that cannot be read is only looked at after the window: 429 comes before 400, 413 and 415.
    const over = await refuseOverLimit(request).then(() => null, (problem: Problem) => problem)
    // Fastify reads a body, and refuses it, before it says that there is nobody to read it.
    const problem = request.is404 && !(error instanceof Problem) ? absent(request) : problemOf(error, request, log)
    return answer(reply, over ?? problem)
  })
  return limiter
}

/** What came with a request and its route does not read: an Idempotency-Key, a query, a body. Nothing that was sent is
 *  silently dropped. */
function unreadFaults ({ headers, query, body, routeOptions: { config, schema } }: FastifyRequest): Fault[] {
  const faults: Fault[] = []
  if (config.idempotent !== true && headers['idempotency-key'] !== undefined) {
    faults.push({
      field: 'Idempotency-Key',
      code: 'not_supported',
      message: 'Idempotency-Key is for POST /api/emails and /api/emails/batch.'
    })
  }
  if (schema?.querystring === undefined) {
    for (const field of Object.keys(query as object)) {
      faults.push({ field, code: 'unknown_field', message: `${field} is not a parameter of this request.` })
    }
  }
  if (schema?.body === undefined && body !== undefined && !isEmptyObject(body)) {
    faults.push({ field: 'body', code: 'not_supported', message: 'This request takes no body.' })
  }
  return faults
}

function isEmptyObject (value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
}

async function refuseOverLimit (request: FastifyRequest): Promise<void> {
  const standing = await request.standing
  if (request.key !== null && standing !== null && standing.retryAfterS !== null) {
    throw rateLimited(standing.retryAfterS)
  }
}

const OVERLAP_BYTES_MAX = 64 * 1024

/** True when a body is announced that is above 64 kB, or of no length known yet. */
function mayBeBig ({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > OVERLAP_BYTES_MAX
}

function problemOf (error: unknown, request: FastifyRequest, log: Log): Problem {
  if (error instanceof Conflict) {
    return conflict('conflict', 'Others changed this at the same moment: read it, and try again')
  }
  if (error instanceof LogUnavailable || isUnanswered(error)) {
    log.warn({ requestId: request.id, err: error }, 'the log does not take or tell')
    const doubt = error instanceof LogUnavailable && error.doubt
    return unavailable(
      'log_unavailable',
      doubt ? 'It may have been accepted: look before sending again' : 'The log cannot take this now'
    )
  }
  if (error instanceof ProjectionUnavailable) return unavailable(error.code, error.message)
  const problem = asProblem(error)
  if (problem !== null) return problem
  log.error({ requestId: request.id, err: error }, 'request failed')
  return new Problem(500, { error: 'Internal server error', code: 'internal', request_id: request.id })
}

/** The faults found by the schema; a route adds its own and refuses with all of them at once. */
export function schemaFaults (request: FastifyRequest): Fault[] {
  const error: unknown = request.validationError
  if (error === undefined) return []
  if (error instanceof SchemaFaults) return error.faults
  throw error
}

/** Refuses with 422 when the schema found anything: for routes without rules beyond it. */
export function refuseFaults (request: FastifyRequest, faults: Fault[] = []): void {
  const all = [...schemaFaults(request), ...faults]
  if (all.length > 0) throw invalid(all)
}

/** No request of ours is deeper than a batch of emails with variables; whoever reads a body may do so by recursion. */
const DEPTH_MAX = 64

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** False for a body that is compressed, or in other letters than ours: taken as it is it would be garbage. */
function isPlainJson ({ headers }: FastifyRequest): boolean {
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8'
  return (headers['content-encoding'] ?? 'identity') === 'identity' && /^(utf-?8|us-ascii)$/i.test(charset)
}

/** JSON and nothing else; bytes that are not UTF-8, and keys that reach for a prototype, are malformed. */
function parseJsonStrictly (app: Api): void {
  app.removeAllContentTypeParsers()
  const parse = app.getDefaultJsonParser('error', 'error')
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (!isPlainJson(request)) return done(unsupportedMediaType())
    let text: string
    try {
      text = utf8.decode(body as Buffer)
    } catch {
      return done(malformedJson())
    }
    // Some clients name the type on each request, also where there is nothing to send.
    if (text === '' && !needsBody(request)) return done(null, undefined)
    void parse(
      request,
      text,
      (error, value) =>
        done(error !== null ? malformedJson() : isDeeperThan(value, DEPTH_MAX) ? tooDeep() : null, value)
    )
  })
}

/** False where there is no body to be had, or where the schema takes null for it. */
function needsBody ({ routeOptions: { schema } }: FastifyRequest): boolean {
  const body = schema?.body as { anyOf?: Array<{ type?: string }> } | undefined
  return body !== undefined && body.anyOf?.some(({ type }) => type === 'null') !== true
}

/** Which methods a path has, for 405's Allow: asked only after no route was found. */
function rememberMethods (app: Api): (path: string) => string[] {
  const routes: Array<{ pattern: RegExp, method: string }> = []
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll(/:[^/]+/g, '[^/]+')}$`)
    for (const name of [method].flat()) routes.push({ pattern, method: name })
  })
  return path => [...new Set(routes.filter(route => route.pattern.test(path)).map(route => route.method))].sort()
}

/** The answer's body is the route's; this is how it says where the new thing is. */
export function created (reply: FastifyReply, status: 201, location: string): FastifyReply {
  return reply.code(status).header('location', location)
}
