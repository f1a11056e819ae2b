import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { TObject, TSchema } from '@sinclair/typebox'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  onRequestAsyncHookHandler,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault
} from 'fastify'
import type { Actor, FieldFault } from '#streams/define.ts'
import type { Principal } from '#streams/directory.ts'
import { isOperator, mayDo, testKeyRefusal } from '#streams/key/decide.ts'
import type { Scope } from '#streams/key/facts.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import { AcceptanceUnknown } from '#src/actions/email.ts'
import { createLimiter, type Limiter, type RateLimitStatus } from '#src/actions/limiter.ts'
import type { Services } from '#src/actions/services.ts'
import type { KeyedSemaphore } from '#src/base/keyed-semaphore.ts'
import type { Log } from '#src/base/log.ts'
import type { Counters } from '#src/nats/counters.ts'
import { Conflict, isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import { ProjectionUnavailable } from '#src/postgres/reads.ts'
import { type Authenticator, authorizationOf, needsLiveKey } from './auth.ts'
import { mayBeBig, newTurns, takeRoom } from './big-bodies.ts'
import { BodyBudget } from './body-budget.ts'
import type { Dialect } from './dialect.ts'
import {
  asProblem,
  conflict,
  accountSuspended,
  forbidden,
  helpLink,
  HttpProblem,
  idsOf,
  internal,
  invalid,
  malformedUrl,
  methodNotAllowed,
  missingHost,
  mustFault,
  notFound,
  rateLimited,
  unauthorized,
  unavailable,
  unknownFault
} from './errors.ts'
import { compileQueryValidator, compileValidator, QUERY_MEMBER, SchemaFaults, type FaultWords } from './faults.ts'
import type { InternalKeys } from './internal-keys.ts'
import { needsBody, parseJsonStrictly } from './json-body.ts'
import { limitClassOf } from './limits.ts'
import { isUndecodable, lacksHost, pathOf } from './target.ts'
import { traceRequests } from './traces.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks; set before anything else happens under /api. */
    principal: Principal | null
    /** Who is behind a request from within; null = the principal itself. */
    actor: Actor | null
    /** The request's place in its window, on its way. */
    rateLimit: Promise<RateLimitStatus> | RateLimitStatus | null
  }
  interface FastifyContextConfig {
    /** What the key must allow for this route. */
    scope?: Scope
    /** Whether a test key may ask it although it writes: it then changes test data alone. */
    testKeys?: true
    /** Statuses it can answer beyond those that all routes can, for the description. */
    errors?: number[]
    /** Whether an Idempotency-Key may come with it. */
    idempotent?: boolean
    /** How long that may be; left out = 255 characters. */
    keyCharsMax?: number
    /** Whether it takes new mail: not that of an account that is suspended. */
    sends?: true
    /** The media types of a body that the route reads itself, instead of JSON. */
    uploads?: readonly string[]
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

/** What bounds the requests of a process, by whatever dialect they come. */
export interface RequestBounds {
  limiter: Limiter
  budget: BodyBudget
  turns: KeyedSemaphore
}

export function createBounds (counters: Counters, { directory, factLog }: Services): RequestBounds {
  return {
    limiter: createLimiter(counters, directory, factLog.clock),
    budget: new BodyBudget(),
    turns: newTurns()
  }
}

export interface ApiOptions {
  services: Services
  bounds: RequestBounds
  authenticator: Authenticator
  internalKeys: InternalKeys
  dialect: Dialect
  /** Where clients find the documentation. */
  publicUrl: string
  log: Log
}

/** What holds for all of an API, in this order: 401 → 429 → 403 scope → 400/413/415 → 422 → the route's own. */
export function apiContext (
  app: Api,
  { services, bounds, authenticator, internalKeys, dialect, publicUrl, log }: ApiOptions
): void {
  const { limiter, budget, turns } = bounds
  const methodsOf = rememberMethods(app)
  traceRequests(app)
  app.decorateRequest('principal', null)
  app.decorateRequest('actor', null)
  app.decorateRequest('rateLimit', null)
  app.setValidatorCompiler(({ schema, httpPart }) =>
    httpPart === 'querystring' ? compileQueryValidator(schema as TObject) : compileValidator(schema as TSchema)
  )
  // Fastify's own way takes out of an answer what its schema does not name, for twice the time and a fifth of a second
  // of each start. Ours have no more in them.
  app.setSerializerCompiler(() => data => JSON.stringify(data))
  parseJsonStrictly(app, turns, dialect)
  app.addHook('onRequest', async (_request, reply) => {
    // Answers may show a key, a signing secret or somebody's mail, on whatever way they go.
    reply.header('cache-control', 'no-store')
  })
  app.addHook('onRequest', authenticate(authenticator, internalKeys, limiter, services))
  app.addHook('preParsing', async (request, reply) => {
    const refusal = refusalOf(request, services.directory)
    // Small bodies arrive while the window is asked for; big ones are not held in memory for a key that is past it.
    if (refusal === null && !mayBeBig(request)) return
    await refuseOverLimit(request)
    if (refusal !== null) throw refusal
    await takeRoom(budget, request, reply)
  })
  app.addHook('preValidation', async request => await refuseUnreadable(request, dialect))
  app.addHook('onSend', async (request, reply) => {
    const status = await request.rateLimit
    if (status !== null) reply.headers(dialect.limitHeaders(status, services.factLog.clock.nowMs()))
    if (reply.statusCode >= 400) reply.header('link', helpLink(publicUrl, request.routeOptions.schema))
  })
  app.setNotFoundHandler(request => {
    throw problemOfAbsent(request, methodsOf)
  })
  app.setErrorHandler(async (error, request, reply) => {
    // A body that cannot be read is only looked at after the window: 429 comes before 400, 413 and 415.
    const over = await refuseOverLimit(request).then(() => null, (problem: HttpProblem) => problem)
    // Fastify reads a body, and refuses it, before it says that there is nobody to read it.
    const isAbsent = request.is404 && !(error instanceof HttpProblem)
    const problem = over ?? (isAbsent ? problemOfAbsent(request, methodsOf) : problemOf(error, request, log))
    return dialect.answer(request, reply, problem)
  })
}

/** Finds the key of a request and counts it in its window. Throws 401. */
function authenticate (
  authenticator: Authenticator,
  internalKeys: InternalKeys,
  limiter: Limiter,
  { keyUses, factLog: { clock } }: Pick<Services, 'keyUses' | 'factLog'>
): onRequestAsyncHookHandler {
  return async request => {
    // By the route that will serve it, however its path is spelt.
    const limitClass = limitClassOf(request.method, request.routeOptions.url ?? pathOf(request.url))
    const authorization = authorizationOf(request.raw.rawHeaders)
    const inside = internalKeys.holderOf(authorization)
    // Requests from within are counted where they come from, or not at all.
    if (inside !== null) {
      keyUses.note(inside.principal, clock.nowMs())
      return void Object.assign(request, inside)
    }
    const found = authenticator.keyOf(authorization, request.ip)
    const key = found instanceof Promise ? await found : found
    if (key === null) {
      request.rateLimit = limiter.countUnauthenticated(request.ip, limitClass)
      throw unauthorized()
    }
    request.principal = key
    keyUses.note(key, clock.nowMs())
    // On its way while the body arrives; looked at before anything else is answered.
    request.rateLimit = limiter.count(key, limitClass)
  }
}

async function refuseUnreadable (request: FastifyRequest, { isLenient }: Dialect): Promise<void> {
  await refuseOverLimit(request)
  if (lacksHost(request.raw)) throw missingHost()
  // What is nowhere is that, whatever came with it.
  if (request.is404 || isLenient) return
  const unread = unreadFaults(request)
  if (unread.length > 0) throw invalid(unread)
}

/** The answer where no route is. */
function problemOfAbsent (request: FastifyRequest, methodsOf: (path: string) => string[]): HttpProblem {
  if (isUndecodable(request.raw)) return malformedUrl()
  const methods = methodsOf(pathOf(request.url))
  return methods.length > 0 ? methodNotAllowed(methods) : notFound()
}

/** What came with a request and its route does not read: an Idempotency-Key, a query, a body. Nothing that was sent is
 *  silently dropped. */
function unreadFaults (request: FastifyRequest): FieldFault[] {
  const { headers, query, body, routeOptions: { config, schema } } = request
  const faults: FieldFault[] = []
  if (config.idempotent !== true && headers['idempotency-key'] !== undefined) {
    const must = 'only be sent to POST /api/emails and /api/emails/batch'
    faults.push(mustFault('Idempotency-Key', 'not_supported', must))
  }
  if (schema?.querystring === undefined) {
    for (const field of Object.keys(query as object)) faults.push(unknownFault(field, QUERY_MEMBER))
  }
  if (schema?.body === undefined && config.uploads === undefined && body !== undefined && !isEmptyObject(body)) {
    faults.push(mustFault('body', 'not_supported', 'be left out'))
  }
  // To its schema null is a body that was left out.
  if (schema?.body !== undefined && body === null && !needsBody(request)) {
    faults.push(mustFault('body', 'invalid_value', (schema.body as Required<FaultWords>).must))
  }
  return faults
}

function isEmptyObject (value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
}

async function refuseOverLimit (request: FastifyRequest): Promise<void> {
  const status = await request.rateLimit
  if (request.principal !== null && status !== null && status.retryAfterS !== null) {
    throw rateLimited(status.retryAfterS)
  }
}

const OPERATORS_ONLY = 'The key must be a live key of the first account, for all domains.'

/** Why this key may not ask this; null = it may. */
function refusalOf (
  { principal, method, routeOptions: { config } }: FastifyRequest,
  { now }: Pick<LiveDirectory, 'now'>
): HttpProblem | null {
  const { scope, sends = false } = config
  if (scope !== undefined && !mayDo(principal!, scope)) return forbidden(`The key must have the scope ${scope}.`, scope)
  if (scope === 'operator' && !isOperator(principal!)) return forbidden(OPERATORS_ONLY, scope)
  if (principal!.test && needsLiveKey(method, config)) return forbidden(testKeyRefusal().message)
  const suspended = sends ? now.accounts.get(principal!.account)?.suspended : null
  return suspended == null ? null : accountSuspended(suspended.reason)
}

function problemOf (error: unknown, request: FastifyRequest, log: Log): HttpProblem {
  if (error instanceof Conflict) {
    return conflict('conflict', 'Another request changed this at the same time: read it and try again.')
  }
  if (error instanceof LogUnavailable || isUnanswered(error)) {
    const mayBeStored = error instanceof LogUnavailable && error.doubt
    log.warn({ requestId: request.id, mayBeStored, err: error }, 'JetStream is unavailable; answering 503')
    if (error instanceof AcceptanceUnknown) return acceptanceUnknown(error, request)
    return unavailable('log_unavailable', mayBeStored ? MAY_BE_STORED : 'The log is unavailable: try again.')
  }
  if (error instanceof ProjectionUnavailable) return unavailable(error.code, `${error.message}: try again.`)
  const problem = asProblem(error, request.routeOptions)
  if (problem !== null) return problem
  log.error({ requestId: request.id, err: error }, 'request failed; answering 500')
  return internal(request.id)
}

const MAY_BE_STORED = 'The request may have been accepted: check before you send it again.'
/** A cluster elects a leader within it. */
const ELECTED_S = 10

/** With the ids by which one can look. */
function acceptanceUnknown ({ emails }: AcceptanceUnknown, { headers }: FastifyRequest): HttpProblem {
  const sentence = headers['idempotency-key'] === undefined
    ? 'The email may have been accepted: check before you send it again. With an Idempotency-Key you need not check.'
    : 'The email may have been accepted: repeat the request with the same Idempotency-Key.'
  return unavailable('acceptance_unknown', sentence, ELECTED_S, idsOf(emails))
}

/** The faults found by the schema; a route adds its own and refuses with all of them at once. */
export function schemaFaults (request: FastifyRequest): FieldFault[] {
  const error: unknown = request.validationError
  if (error === undefined) return []
  if (error instanceof SchemaFaults) return error.faults
  throw error
}

/** Refuses with 422 when the schema found anything: for routes without rules beyond it. */
export function refuseFaults (request: FastifyRequest, faults: FieldFault[] = []): void {
  const all = [...schemaFaults(request), ...faults]
  if (all.length > 0) throw invalid(all)
}

/** Which methods a path has, for 405's Allow: asked only after no route was found. A path that is a route's own is not
 *  taken for a value of another's parameter. */
function rememberMethods (app: Api): (path: string) => string[] {
  const routes: Array<{ url: string, pattern: RegExp, method: string }> = []
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll(/:[^/]+/g, '[^/]+')}$`)
    for (const name of [method].flat()) routes.push({ url, pattern, method: name })
  })
  return path => {
    const own = routes.filter(({ url }) => url === path)
    const found = own.length > 0 ? own : routes.filter(({ pattern }) => pattern.test(path))
    return [...new Set(found.map(({ method }) => method))].sort()
  }
}

/** Sets status and Location of an answer whose body is the route's. */
export function created (reply: FastifyReply, status: 201, location: string): FastifyReply {
  return reply.code(status).header('location', location)
}
