import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Nullable } from '../define.ts'

/** The route that SMTP_URL is: what no rule picks goes by it. */
export const DEFAULT_ROUTE = 'default'

/** A URL that means the MX hosts of each recipient's domain. */
export const DIRECT = 'direct:'

/** How people and facts call a route. */
export const RouteName = Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' })
/** By which route an attempt went, none = SMTP_URL's; from which address of ours, where the route says so. */
export const taken = { route: Type.Optional(RouteName), source: Type.Optional(Type.String({ maxLength: 45 })) }
export const RouteDay = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\d$' })

export const ROUTE_URL_LENGTH_MAX = 500
export const POSITION_MAX = 1_000_000
export const MATCHES_MAX = 100
export const FALLBACKS_MAX = 10
export const SOURCES_MAX = 32
export const WEIGHT_MAX = 1000
export const CAP_DAYS_MAX = 366
export const CAP_MAX = 1_000_000_000
export const RATE_MAX = 10_000
export const ROUTE_CONNECTIONS_MAX = 1000

const Text = Type.String({ minLength: 1, maxLength: 320 })
const Texts = Type.Array(Text, { maxItems: MATCHES_MAX })
const Cap = Type.Integer({ minimum: 0, maximum: CAP_MAX })

/** How many mails a route or a source takes on a day (UTC), over all senders: on its first day `perDay[0]`, and so on;
 *  after the last of them `after`, null = any number. Before its first day it takes none. */
export const WarmUp = Type.Object({
  from: RouteDay,
  perDay: Type.Array(Cap, { minItems: 1, maxItems: CAP_DAYS_MAX }),
  after: Nullable(Cap)
})
export type WarmUp = Static<typeof WarmUp>

/** An address of this machine that connections are made from. */
export const RouteSource = Type.Object({
  address: Type.String({ minLength: 2, maxLength: 45 }),
  /** Our name in EHLO from there; null = the route's. */
  hostname: Nullable(Text),
  /** Its share, beside those of the other sources that a mail may have. */
  weight: Type.Integer({ minimum: 1, maximum: WEIGHT_MAX }),
  /** The mail it is for; empty = what no other source is for. */
  tags: Texts,
  warmUp: Nullable(WarmUp)
})
export type RouteSource = Static<typeof RouteSource>

/** Which mail a route is for: of each list that has entries, one must fit. */
export const RouteMatch = Type.Object({
  senderDomains: Texts,
  keys: Texts,
  tags: Texts,
  recipientDomains: Texts
})
export type RouteMatch = Static<typeof RouteMatch>

const settings = {
  /** `smtp://` or `smtps://` without a user and a password, or DIRECT. */
  url: Type.String({ minLength: 1, maxLength: ROUTE_URL_LENGTH_MAX }),
  /** The same URL with user and password, sealed for the context of the route's id; null = it has none. */
  sealedUrl: Nullable(Type.String()),
  /** Of the routes that fit, the one with the lowest takes the mail; of equal ones the older. */
  position: Type.Integer({ minimum: 0, maximum: POSITION_MAX }),
  match: RouteMatch,
  /** Names of routes that take its mail, in this order, while it is down or its cap is used up. */
  fallbacks: Type.Array(RouteName, { maxItems: FALLBACKS_MAX }),
  /** Our name in EHLO; null = the machine's. */
  hostname: Nullable(Text),
  /** Empty = whichever the system takes. */
  sources: Type.Array(RouteSource, { maxItems: SOURCES_MAX }),
  /** Of one sender; null = as fast as it goes. */
  messagesPerSecond: Nullable(Type.Number({ exclusiveMinimum: 0, maximum: RATE_MAX })),
  /** Of one sender, to a relay, or to each site of direct MX; null = what the sender has. */
  connections: Nullable(Type.Integer({ minimum: 1, maximum: ROUTE_CONNECTIONS_MAX })),
  warmUp: Nullable(WarmUp)
}

export const RouteCreated = factType(
  'route.created',
  1,
  Type.Object({ route: Id('rt'), name: RouteName, ...settings })
)

/** All settings, as they are from now on. */
export const RouteChanged = factType(
  'route.changed',
  1,
  Type.Object({ route: Id('rt'), name: RouteName, ...settings })
)

/** The same URL, sealed with the newest of JETPOST_SECRET. */
export const RouteResealed = factType(
  'route.resealed',
  1,
  Type.Object({ route: Id('rt'), name: RouteName, sealedUrl: Type.String() })
)

export const RouteDeleted = factType('route.deleted', 1, Type.Object({ route: Id('rt'), name: RouteName }))

export const routeFacts = [RouteCreated, RouteChanged, RouteResealed, RouteDeleted] as const

/** What an operator decides about a route. */
export type RouteSettings = Omit<Static<typeof RouteCreated.data>, 'route' | 'name'>
