import { STATUS_CODES } from 'node:http'
import type { FastifyContextConfig } from 'fastify'
import { DEFAULT_LIMITS } from '#streams/key/decide.ts'
import type { LimitClass } from '#streams/key/facts.ts'
import { needsLiveKey } from './auth.ts'
import { ProblemBody } from './errors.ts'
import { limitClassOf } from './limits.ts'
import {
  errorResponse,
  ERROR_RESPONSES,
  ERROR_SCHEMAS,
  HEADERS,
  headersOf,
  INTRODUCTION,
  OTHER_BODIES,
  TAGS,
  type Json
} from './openapi-parts.ts'
import { createModels, portable, type Models } from './openapi-schemas.ts'
import { eventModels, SIGNATURE_HEADERS, webhooksOf } from './openapi-webhooks.ts'

/** An object's schema as TypeBox leaves it. */
interface ObjectSchema {
  properties?: Record<string, Json>
  required?: string[]
  examples?: unknown[]
  anyOf?: Json[]
}

/** What a route says about itself. */
export interface ApiRoute {
  method: string
  /** As Fastify writes it: `/api/emails/:id`. */
  url: string
  schema: {
    operationId?: string
    summary?: string
    description?: string
    tags?: string[]
    params?: ObjectSchema
    querystring?: ObjectSchema
    headers?: ObjectSchema
    body?: ObjectSchema
    response?: Record<string, ResponseSchema>
    /** What else than JSON a 200 may be. */
    produces?: string[]
  }
  config: FastifyContextConfig
}

type ResponseSchema = ObjectSchema & { type?: string, description?: string }

export interface DocumentOptions {
  publicUrl: string
  version: string
}

/** The OpenAPI 3.1 document of these routes. Source: https://spec.openapis.org/oas/v3.1.0 */
export function documentOf (routes: ApiRoute[], { publicUrl, version }: DocumentOptions): Json {
  // Where two are alike, the one that GET answers is the thing itself.
  const sorted = routes.toSorted((a, b) => Number(b.method === 'GET') - Number(a.method === 'GET'))
  const models = createModels([['Problem', ProblemBody], ...sorted.flatMap(namedSchemas), ...eventModels])
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    ;(paths[pathOf(route.url)] ??= {})[route.method.toLowerCase()] = operationOf(route, models, routes)
  }
  const used = new Set(routes.flatMap(route => route.schema.tags ?? []))
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Jetpost',
      version,
      summary: 'Self-hosted email sending',
      description: INTRODUCTION,
      license: { name: 'MIT', identifier: 'MIT' }
    },
    servers: [{ url: publicUrl }],
    security: [{ key: [] }],
    tags: [...new Set([...Object.keys(TAGS), ...used])].filter(name => used.has(name)).map(name => ({
      name,
      description: TAGS[name]
    })),
    paths,
    webhooks: webhooksOf(models),
    components: {
      securitySchemes: {
        key: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key: `jp_live_…`, or `jp_test_…`, whose mail goes to the mail catcher only.'
        }
      },
      parameters: SIGNATURE_HEADERS,
      headers: HEADERS,
      responses: ERROR_RESPONSES,
      schemas: { ...ERROR_SCHEMAS, ...models.components() }
    }
  }
  return JSON.parse(JSON.stringify(document)) as Json
}

/** `getEmail` answers an `Email`; the other names are the operation's own. */
function namedSchemas ({ schema: { operationId = '', body, response = {} } }: ApiRoute): Array<[string, unknown]> {
  const name = operationId.charAt(0).toUpperCase() + operationId.slice(1)
  const answers = Object.values(response).filter(answer => answer.properties !== undefined)
  return [
    ...answers.map(answer =>
      [/^Get[A-Z]/.test(name) ? name.slice('Get'.length) : `${name}Answer`, answer] as [string, unknown]
    ),
    ...(body === undefined ? [] : [[`${name}Request`, givenBody(body)] as [string, unknown]])
  ]
}

function operationOf (route: ApiRoute, models: Models, routes: ApiRoute[]): Json {
  const { schema: { operationId, summary, tags }, config: { scope } } = route
  const limitClass = limitClassOf(route.method, route.url)
  return {
    operationId,
    summary,
    description: descriptionOf(route, limitClass),
    tags,
    security: [{ key: scope === undefined ? [] : [scope] }],
    parameters: parametersOf(route),
    requestBody: requestBodyOf(route, models),
    responses: { ...successesOf(route, models, linksOf(route, routes)), ...errorsOf(route) },
    'x-rate-limit': { class: limitClass, limit: DEFAULT_LIMITS[limitClass], window_s: 60 }
  }
}

function requestBodyOf ({ schema: { body }, config: { uploads } }: ApiRoute, models: Models): Json | undefined {
  if (uploads !== undefined) {
    const content = Object.fromEntries(uploads.map(type => [type, { schema: OTHER_BODIES[type] }]))
    return { required: true, content }
  }
  if (body === undefined) return undefined
  const given = givenBody(body)
  return {
    required: given === body,
    content: { 'application/json': { schema: models.refer(given), examples: examplesOf(body) } }
  }
}

function descriptionOf ({ method, schema, config }: ApiRoute, limitClass: LimitClass): string {
  const shared = limitClass === 'other' ? ' together with all operations that have no limit of their own' : ''
  return [
    ...(schema.description === undefined ? [] : [schema.description]),
    config.scope === undefined ? 'Any key may ask this.' : `Scope: \`${config.scope}\`.`,
    ...(needsLiveKey(method, config) ? ['A live key must ask this.'] : []),
    `Limit: ${DEFAULT_LIMITS[limitClass]} requests a minute${shared}.`
  ].join('\n\n')
}

function parametersOf ({ url, schema, config }: ApiRoute): Json[] {
  const path = [...url.matchAll(/:(\w+)/g)].map(([, name]) => ({
    ...parameter('path', name!, schema.params?.properties?.[name!] ?? { type: 'string' }),
    required: true
  }))
  const query = Object.entries(schema.querystring?.properties ?? {}).map(([name, given]) => ({
    ...parameter('query', name, given),
    required: schema.querystring!.required?.includes(name) ?? false
  }))
  const headers = Object.entries(schema.headers?.properties ?? {}).map(([name, given]) => ({
    ...parameter('header', HEADER_NAMES[name] ?? name, given),
    required: false
  }))
  return [...path, ...query, ...headers, ...(config.idempotent === true ? [IDEMPOTENCY_KEY] : [])]
}

/** As they are written; Node has them in small letters. */
const HEADER_NAMES: Record<string, string> = { 'last-event-id': 'Last-Event-ID' }

const IDEMPOTENCY_KEY = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'Printable ASCII. The same key with the same body within 7 days gets the first answer again; with ' +
    'another body, 409.',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]([ -~]*[!-~])?$' }
}

function parameter (place: string, name: string, given: Json): Json {
  const { description, ...schema } = portable(given, name) as Json
  return { name, in: place, description, ...styleOf(schema), schema, examples: examplesOf(given) }
}

/** `metadata[order]=7`, and `type=a&type=b`. */
function styleOf ({ type }: Json): Json {
  if (type === 'object') return { style: 'deepObject', explode: true }
  return type === 'array' ? { style: 'form', explode: true } : {}
}

function successesOf ({ schema: { response = {}, produces }, config }: ApiRoute, models: Models, links: Json): Json {
  const answers = Object.entries(produces === undefined ? response : { 200: { type: 'null' }, ...response })
  return Object.fromEntries(answers.map(([status, answer]) => {
    const made = isCreated(status, answer)
    const headers = headersOf(
      ...(made ? ['Location'] : []),
      ...(config.idempotent === true ? ['Idempotency-Replayed'] : [])
    )
    const json = answer.type === 'null'
      ? {}
      : { 'application/json': { schema: models.refer(answer), examples: examplesOf(answer) } }
    const others = (status === '200' ? produces ?? [] : []).map(type => [type, { schema: OTHER_BODIES[type] }])
    return [status, {
      description: answer.description ?? STATUS_CODES[status],
      headers,
      content: { ...json, ...Object.fromEntries(others) },
      links: made ? links : undefined
    }]
  }))
}

/** True for an answer that speaks of one new thing, and has its Location. A 202 without a time of its own speaks of
 *  what was there before, or of many. */
function isCreated (status: string, { properties = {} }: ResponseSchema): boolean {
  return status === '201' || (status === '202' && properties.created_at !== undefined)
}

/** What can be done next with what a POST has made: every operation on its path and below. */
function linksOf ({ method, url }: ApiRoute, routes: ApiRoute[]): Json {
  const next = method === 'POST' ? routes.filter(route => route.url.startsWith(`${url}/:`)) : []
  return Object.fromEntries(next.map(({ url, schema: { operationId } }) => {
    const [, name] = /:(\w+)/.exec(url)!
    return [operationId, { operationId, parameters: { [name!]: `$response.body#/${name}` } }]
  }))
}

function errorsOf ({ method, config }: ApiRoute): Json {
  const statuses = new Set([
    // Nobody reads the body of a GET.
    ...(method === 'GET' ? [] : [413, 415]),
    ...(config.scope === undefined ? [] : [403]),
    ...(config.idempotent === true ? [409] : []),
    ...(config.errors ?? []),
    // 422 where nothing is to be checked: an Idempotency-Key, a body.
    400,
    401,
    422,
    429,
    500,
    503
  ])
  return Object.fromEntries([...statuses].map(status => [status, errorResponse(status, config.sends)]))
}

function examplesOf ({ examples }: { examples?: unknown }): Json | undefined {
  return Array.isArray(examples)
    ? Object.fromEntries(examples.map((value, i) => [`example ${i + 1}`, { value: value as unknown }]))
    : undefined
}

/** A body that may be left out is null to the validator; what is sent is the other option. */
function givenBody (body: ObjectSchema): ObjectSchema {
  const [some, none] = body.anyOf ?? []
  return none?.type === 'null' ? some as ObjectSchema : body
}

function pathOf (url: string): string {
  return url.replaceAll(/:(\w+)/g, '{$1}')
}
