import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Nullable } from '#streams/define.ts'
import { partUrl } from '#streams/route/decide.ts'
import {
  CAP_DAYS_MAX,
  CAP_MAX,
  FALLBACKS_MAX,
  MATCHES_MAX,
  POSITION_MAX,
  RATE_MAX,
  ROUTE_CONNECTIONS_MAX,
  ROUTE_URL_LENGTH_MAX,
  SOURCES_MAX,
  WEIGHT_MAX,
  type RouteSource,
  type WarmUp
} from '#streams/route/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { changeRoute, createRoute, deleteRoute, type WantedRoute } from '#src/actions/route.ts'
import type { Services } from '#src/actions/services.ts'
import type { Api } from './context.ts'
import { askerOf, IdParams, MUST_BE_OBJECT, textFaults } from './params.ts'
import { ResourceRoutes } from './resource.ts'

const CLOSED = { must: MUST_BE_OBJECT, additionalProperties: false }
const Words = (what: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 320 }), { maxItems: MATCHES_MAX, description: what })
const Host = (description: string) =>
  Type.Union([Type.String({ minLength: 1, maxLength: 253 }), Type.Null()], {
    must: 'be a host name in lower case, like mail.example.com, or null',
    description
  })

const Cap = Type.Integer({ minimum: 0, maximum: CAP_MAX })
const WarmUpBody = Type.Object({
  from: Type.String({
    pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$',
    must: 'be a day such as 2026-12-01',
    description: 'Its first day (UTC). Before it takes no mail.'
  }),
  per_day: Type.Array(Cap, {
    minItems: 1,
    maxItems: CAP_DAYS_MAX,
    description: 'The most mails of its first day, its second …'
  }),
  after: Type.Optional(
    Type.Union([Cap, Type.Null()], {
      must: `be a whole number from 0 to ${CAP_MAX}, or null`,
      description: 'The most a day after those. `null`, or left out = any number.'
    })
  )
}, { additionalProperties: false })
const WarmUpOrNull = Type.Union([WarmUpBody, Type.Null()], {
  must: 'be an object with from, per_day and after, or null',
  description: 'The most mails a day (UTC), over all senders together. What is more takes a fallback, or waits.'
})

const SourceBody = Type.Object({
  address: Type.String({ minLength: 2, maxLength: 45, description: 'An address of the machine that sends.' }),
  hostname: Type.Optional(Host('Our name in EHLO from there. `null` = the one of the route.')),
  weight: Type.Optional(
    Type.Integer({ minimum: 1, maximum: WEIGHT_MAX, description: 'Its share beside the others. 1 when left out.' })
  ),
  tags: Type.Optional(Words('Mail with one of these tags is for it. Empty = for mail that no other is for.')),
  warm_up: Type.Optional(WarmUpOrNull)
}, { additionalProperties: false })

const MatchBody = Type.Object({
  sender_domains: Type.Optional(Words('Domains of From.')),
  keys: Type.Optional(Words('Ids of keys.')),
  tags: Type.Optional(Words('Tags of the email.')),
  recipient_domains: Type.Optional(Words('Domains of recipients.'))
}, { ...CLOSED, description: 'Which mail it takes: of each list that has entries, one must fit. `{}` = all mail.' })

const MUST_BE_RATE = `be a number above 0 and up to ${RATE_MAX}, or null`
const MUST_BE_CONNECTIONS = `be a whole number from 1 to ${ROUTE_CONNECTIONS_MAX}, or null`
const settings = {
  position: Type.Integer({
    minimum: 0,
    maximum: POSITION_MAX,
    description: 'Of the routes that fit, the lowest takes the mail. 100 when left out.'
  }),
  match: MatchBody,
  fallbacks: Type.Array(Type.String({ minLength: 1, maxLength: 63 }), {
    maxItems: FALLBACKS_MAX,
    description: 'Names of routes that take its mail, in this order, while it is down. `default` = SMTP_URL.'
  }),
  hostname: Host('Our name in EHLO. `null` = JETPOST_HOSTNAME.'),
  sources: Type.Array(SourceBody, {
    maxItems: SOURCES_MAX,
    description: 'The addresses to send from. Empty = the one the system takes.'
  }),
  messages_per_second: Type.Union([Type.Number({ exclusiveMinimum: 0, maximum: RATE_MAX }), Type.Null()], {
    must: MUST_BE_RATE,
    description: 'The most mails a second from one sender. `null` = as fast as it takes them.'
  }),
  connections: Type.Union([Type.Integer({ minimum: 1, maximum: ROUTE_CONNECTIONS_MAX }), Type.Null()], {
    must: MUST_BE_CONNECTIONS,
    description: 'The most connections from one sender; for `direct:`, to each site. `null` = JETPOST_SMTP_CONNECTIONS.'
  }),
  warm_up: WarmUpOrNull
}
const Url = Type.String({
  minLength: 1,
  maxLength: ROUTE_URL_LENGTH_MAX,
  description: 'The relay, as in SMTP_URL; `direct:` = the MX hosts of each domain. User and password are never shown.'
})
const optional = Type.Partial(Type.Object(settings)).properties
const CreateRequest = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 63, description: 'Of a-z, 0-9 and -. It cannot be changed.' }),
  url: Url,
  ...optional
}, {
  ...CLOSED,
  examples: [{
    name: 'bulk',
    url: 'smtp://user:password@smtp.example.com:587',
    match: { tags: ['bulk'] },
    fallbacks: ['default'],
    messages_per_second: 20
  }]
})
const ChangeRequest = Type.Object({ url: Type.Optional(Url), ...optional }, {
  ...CLOSED,
  examples: [{ position: 10 }, { warm_up: { from: '2026-12-01', per_day: [50, 100, 500, 1000] } }]
})

const WarmUpAnswer = Nullable(
  Type.Object({ from: Type.String(), per_day: Type.Array(Type.Integer()), after: Nullable(Type.Integer()) })
)
const RouteAnswer = Type.Object({
  id: Type.String(),
  name: Type.String(),
  url: Type.String({ description: 'Without user and password.' }),
  has_credentials: Type.Boolean({ description: 'Whether it logs in with a user and a password.' }),
  position: Type.Integer(),
  match: Type.Object({
    sender_domains: Type.Array(Type.String()),
    keys: Type.Array(Type.String()),
    tags: Type.Array(Type.String()),
    recipient_domains: Type.Array(Type.String())
  }),
  fallbacks: Type.Array(Type.String()),
  hostname: Nullable(Type.String()),
  sources: Type.Array(Type.Object({
    address: Type.String(),
    hostname: Nullable(Type.String()),
    weight: Type.Integer(),
    tags: Type.Array(Type.String()),
    warm_up: WarmUpAnswer
  })),
  messages_per_second: Nullable(Type.Number()),
  connections: Nullable(Type.Integer()),
  warm_up: WarmUpAnswer,
  created_at: Type.String()
}, {
  examples: [{
    id: 'rt_01m7yse7ke2esfck840wxx2ekh',
    name: 'bulk',
    url: 'smtp://smtp.example.com:587',
    has_credentials: true,
    position: 100,
    match: { sender_domains: [], keys: [], tags: ['bulk'], recipient_domains: [] },
    fallbacks: ['default'],
    hostname: null,
    sources: [],
    messages_per_second: 20,
    connections: null,
    warm_up: null,
    created_at: '2026-11-24T12:00:00.000Z'
  }]
})

/** The field whose fault a refusal is. */
const FIELDS = {
  invalid_url: 'url',
  invalid_name: 'name',
  invalid_match: 'match',
  invalid_fallbacks: 'fallbacks',
  invalid_hostname: 'hostname',
  invalid_sources: 'sources',
  invalid_warm_up: 'warm_up'
}
const CREATE_TEXT = 'Mail that no route takes goes by SMTP_URL. Who sets a relay can read the mail that goes by it.'

/** The ways that outgoing mail takes, for the operators of the installation. */
export function mailRouteRoutes (app: Api, services: Services): void {
  const routes = new ResourceRoutes(app, services, {
    kind: 'route',
    tag: 'Routes',
    scopes: { read: 'operator', write: 'operator' },
    prefix: 'rt',
    schema: RouteAnswer,
    answerOf: routeAnswer
  })
  const urlFaults = (request: FastifyRequest) => textFaults(request, 'url', partUrl)

  routes.write('POST', '/routes', ['createRoute', 'Create a route for outgoing mail', CREATE_TEXT], {
    schema: { body: CreateRequest, response: { 201: RouteAnswer } },
    errors: [409],
    faults: urlFaults,
    act (request) {
      const { name, ...settings } = request.body
      return createRoute(services, askerOf(request), {
        ...ROUTE_DEFAULTS,
        ...settingsOf(settings),
        name,
        url: settings.url
      })
    },
    fieldOf: FIELDS,
    location: ({ route }) => `/api/routes/${route.id}`,
    tell: ({ route }) => routeAnswer(route)
  })
  routes.list('/routes', ['listRoutes', 'List routes'])
  routes.get('/routes/:id', ['getRoute', 'Get a route'])
  routes.write('PATCH', '/routes/:id', ['updateRoute', 'Change a route', 'What is left out stays.'], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: RouteAnswer } },
    errors: [404, 409],
    faults: urlFaults,
    act: request => changeRoute(services, askerOf(request), request.params.id, settingsOf(request.body)),
    fieldOf: FIELDS,
    tell: ({ route }) => routeAnswer(route)
  })
  routes.write('DELETE', '/routes/:id', [
    'deleteRoute',
    'Delete a route',
    'What waits for it goes by the routes that are left.'
  ], {
    schema: { params: IdParams, response: { 204: Type.Null() } },
    errors: [404, 409],
    act: request => deleteRoute(services, askerOf(request), request.params.id),
    tell: () => null
  })
}

/** What is left out of a new route. */
export const ROUTE_DEFAULTS: Omit<WantedRoute, 'url'> = {
  position: 100,
  match: { senderDomains: [], keys: [], tags: [], recipientDomains: [] },
  fallbacks: [],
  hostname: null,
  sources: [],
  messagesPerSecond: null,
  connections: null,
  warmUp: null
}

/** What a request says, as facts have it. */
function settingsOf (body: Static<typeof ChangeRequest>): Partial<WantedRoute> {
  const { match, sources, warm_up: warmUp, messages_per_second: messagesPerSecond, ...plain } = body
  return {
    ...plain,
    ...(match === undefined ? {} : { match: matchOf(match) }),
    ...(sources === undefined ? {} : { sources: sources.map(sourceOf) }),
    ...(messagesPerSecond === undefined ? {} : { messagesPerSecond }),
    ...(warmUp === undefined ? {} : { warmUp: warmUpOf(warmUp) })
  }
}

function matchOf (match: Static<typeof MatchBody>): WantedRoute['match'] {
  const { sender_domains: senderDomains = [], recipient_domains: recipientDomains = [], keys = [], tags = [] } = match
  return { senderDomains, keys, tags, recipientDomains }
}

function sourceOf (source: Static<typeof SourceBody>): RouteSource {
  const { address, hostname = null, weight = 1, tags = [], warm_up: warmUp = null } = source
  return { address, hostname, weight, tags, warmUp: warmUpOf(warmUp) }
}

function warmUpOf (warmUp: Static<typeof WarmUpOrNull>): WarmUp | null {
  if (warmUp === null) return null
  const { from, per_day: perDay, after = null } = warmUp
  return { from, perDay, after }
}

function tellWarmUp (warmUp: WarmUp | null) {
  return warmUp === null ? null : { from: warmUp.from, per_day: warmUp.perDay, after: warmUp.after }
}

/** A route for everybody who may see routes: without its secret. */
export function routeAnswer (route: RouteEntry): Static<typeof RouteAnswer> {
  const { id, name, url, sealedUrl, position, match, fallbacks, hostname, sources, connections } = route
  return {
    id,
    name,
    url,
    has_credentials: sealedUrl !== null,
    position,
    match: {
      sender_domains: match.senderDomains,
      keys: match.keys,
      tags: match.tags,
      recipient_domains: match.recipientDomains
    },
    fallbacks,
    hostname,
    sources: sources.map(({ warmUp, ...source }) => ({ ...source, warm_up: tellWarmUp(warmUp) })),
    messages_per_second: route.messagesPerSecond,
    connections,
    warm_up: tellWarmUp(route.warmUp),
    created_at: route.createdAt
  }
}
