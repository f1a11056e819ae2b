import { Readable } from 'node:stream'
import { Type, type Static } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { mayDo, opens } from '#streams/key/decide.ts'
import { EVENT_TYPES, EventTypeSchema } from '#streams/webhook/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { knownTime, parseTime } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { authorizationOf } from './auth.ts'
import { schemaFaults, type Api } from './context.ts'
import { invalid, type Fault } from './errors.ts'
import { cursorsOf, type Cursors } from './event-cursors.ts'
import { createEventStreams, type EventStreams, type StreamLimits } from './event-stream.ts'
import { isAhead, lookFurther, placeAt, placeNow, type Wanted } from './feed.ts'
import { AnyEvent } from './openapi-webhooks.ts'
import { ListQuery } from './pages.ts'
import { timeMessage } from './params.ts'

const Time = (name: string) => Type.Optional(Type.String({ maxLength: 40, description: timeMessage(name) }))
const Cursor = (name: string) =>
  Type.Optional(
    Type.String({
      maxLength: 500,
      description: `${name} is the next_cursor of an earlier answer, or the id of an event of a stream.`
    })
  )

const ListEventsQuery = Type.Object({
  after: Cursor('after'),
  limit: ListQuery.properties.limit,
  type: Type.Optional(Type.Array(EventTypeSchema, {
    minItems: 1,
    maxItems: EVENT_TYPES.length,
    uniqueItems: true,
    description: 'type is an event type, or several: type=email.opened&type=email.clicked.'
  })),
  email_id: Type.Optional(
    Type.String({ pattern: '^em_[0-9a-z]{1,64}$', description: 'email_id is the id of an email.' })
  ),
  created_after: Time('created_after'),
  created_before: Time('created_before')
}, { additionalProperties: false })

const ListEventsHeaders = Type.Object({ 'last-event-id': Cursor('Last-Event-ID') })

const EventPage = Type.Object({
  data: Type.Array(AnyEvent),
  has_more: Type.Boolean({
    description: 'There is more to look at: a page may be short, or empty, and not be the last.'
  }),
  next_cursor: Type.String({
    description: 'What to pass as `after` for what comes then; also when there is nothing yet.'
  })
}, { examples: [{ data: [AnyEvent.anyOf[0]!.examples[0]], has_more: false, next_cursor: 'q7Yw0nZt5oXcV2bLk9PfDg' }] })

const DESCRIPTION =
  `The same events that webhooks get, the same bodies, oldest first, for as long as facts are kept. Test events are none of them, and neither are deferrals
between an email's first and its end. All filters given must hold; \`created_after\` is inclusive, \`created_before\` is not. Pass \`next_cursor\` as \`after\`, again
and again, and you miss nothing and get nothing twice. It does not need the view: it answers while PostgreSQL is away.

With \`Accept: text/event-stream\` it is a stream of server-sent events that goes on for ever, each with \`id\` (a cursor), \`event\` (its type) and \`data\` (its body
on one line). It begins after \`Last-Event-ID\`, else after \`after\`, else at \`created_after\`, else now. A comment comes every 15 seconds when nothing else does.
It counts as one request, takes no \`limit\`, and ends with its key; an account can have 20 of them on one node, and for one more gets 503 \`too_many_streams\`.
Whoever reads nothing for a minute is cut off.`

const SCOPE = 'emails:read'
const LIMIT_DEFAULT = '25'
/** The line is of no use to another request: kept alive, it would be what a stop waits for. */
const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
  vary: 'Accept',
  connection: 'close'
}

export interface EventRoutesOptions {
  log: Log
  streams: Partial<StreamLimits>
}

/** The feed is read from the log itself. */
export function eventRoutes (app: Api, services: Services, { log, streams: limits }: EventRoutesOptions): void {
  const streams = createEventStreams(services, log, limits)
  // Before connections are waited for, and streams never end by themselves.
  app.addHook('preClose', () => streams.stop())

  app.get('/events', {
    config: { scope: SCOPE },
    schema: {
      operationId: 'listEvents',
      summary: 'Read events, or follow them as they happen',
      description: DESCRIPTION,
      tags: ['Events'],
      querystring: ListEventsQuery,
      headers: ListEventsHeaders,
      response: { 200: EventPage },
      produces: ['text/event-stream']
    },
    preValidation: async request => {
      request.query = listingTypes(request.query)
    },
    attachValidation: true
  }, async (request, reply) => {
    if (wantsStream(request.headers.accept)) return await answerStream(services, streams, request, reply)
    const { limit = LIMIT_DEFAULT, after } = request.query
    const cursors = cursorsOf(services.tokens, request.key!.account)
    const wanted = read(request, cursors)
    const fromSeq = await placeOf(services, wanted, cursors, { after }) ?? 0
    const { events, seq, more } = await lookFurther(services, wanted, fromSeq, Number(limit))
    // Joined as they are, so that they are the very bytes that a webhook gets.
    const text = `{"data":[${events.map(({ body }) => body).join(',')}],"has_more":${more},"next_cursor":${
      JSON.stringify(cursors.cursorOf(seq))
    }}`
    return await reply.header('vary', 'Accept').type('application/json; charset=utf-8').send(text as never)
  })
}

type Query = Static<typeof ListEventsQuery>

async function answerStream (
  services: Services,
  streams: EventStreams,
  request: FastifyRequest,
  reply: FastifyReply
): Promise<FastifyReply> {
  const cursors = cursorsOf(services.tokens, request.key!.account)
  const wanted = read(request, cursors)
  const place = await placeOf(services, wanted, cursors, {
    'Last-Event-ID': lastEventId(request),
    after: (request.query as Query).after
  })
  reply.headers(STREAM_HEADERS)
  // Not text: it has a length, and a stream has none.
  if (request.method === 'HEAD') return await reply.send(Readable.from([]))
  const afterSeq = place ?? await placeNow(services)
  return await reply.send(streams.open({ wanted, afterSeq, stands: standing(services, request) }, reply.raw))
}

/** Does the key that a request came with still allow it? */
function standing ({ directory, appenders: { clock } }: Services, { raw }: FastifyRequest): () => boolean {
  const hash = sha256Hex(authorizationOf(raw.rawHeaders)!.slice('Bearer '.length))
  return () => {
    const key = directory.now.keysByHash.get(hash)
    return key !== undefined && opens(key, hash, clock.nowMs()) && mayDo(key, SCOPE)
  }
}

/** One type is a list of one, as OpenAPI's exploded form means it. */
function listingTypes<Query extends object> (query: Query): Query {
  const { type } = query as { type?: unknown }
  return typeof type === 'string' ? { ...query, type: [type] } : query
}

/** What is asked for. Throws 422 with every fault at once. */
function read (request: FastifyRequest, cursors: Cursors): Wanted {
  const faults = [...schemaFaults(request), ...meaningFaults(request, cursors)]
  if (faults.length > 0) throw invalid(faults)
  const { type, email_id: email = null, created_after: from, created_before: to } = request.query as Query
  return {
    account: request.key!.account,
    types: type === undefined ? null : new Set(type),
    email,
    fromMs: msOf(from),
    toMs: msOf(to)
  }
}

/** What a schema cannot say. What it has refused may be of any type here. */
function meaningFaults (request: FastifyRequest, { parseCursor }: Cursors): Fault[] {
  const query = request.query as Record<string, unknown>
  const times = (['created_after', 'created_before'] as const).filter(name =>
    isText(query[name]) && parseTime(query[name]) === null
  )
  const given = { after: query.after, 'Last-Event-ID': lastEventId(request) }
  return [
    ...times.map(field => ({ field, code: 'invalid_value', message: timeMessage(field) })),
    ...Object.entries(given).filter(([, text]) => isText(text) && parseCursor(text) === null).map(([field]) =>
      foreign(field)
    ),
    ...(query.limit !== undefined && wantsStream(request.headers.accept)
      ? [{ field: 'limit', code: 'not_supported', message: 'A stream has no limit.' }]
      : [])
  ]
}

const foreign = (field: string): Fault => ({
  field,
  code: 'invalid_cursor',
  message: `${field} is not a cursor of this feed.`
})

function isText (value: unknown): value is string {
  return typeof value === 'string'
}

function msOf (time: string | undefined): number | null {
  return time === undefined ? null : knownTime(parseTime(time)!)
}

/** Empty says nothing: so does a client that has had no id yet. */
function lastEventId ({ headers }: FastifyRequest): string | undefined {
  return (headers['last-event-id'] as string | undefined) || undefined
}

/** Where to begin: after the first cursor that is given, else at the time that is asked for; null = nothing says where.
 *  Throws 422 for a cursor that this log has not come to. */
async function placeOf (
  services: Services,
  { fromMs }: Wanted,
  { parseCursor }: Cursors,
  given: Record<string, string | undefined>
): Promise<number | null> {
  const [field, cursor] = Object.entries(given).find(([, text]) => text !== undefined) ?? []
  if (cursor === undefined) return fromMs === null ? null : await placeAt(services, fromMs)
  const seq = parseCursor(cursor)!
  if (seq > 0 && await isAhead(services, seq)) throw invalid([foreign(field!)])
  return seq
}

/** Only who names it gets a stream, and only before JSON: whoever takes anything gets JSON. Source: RFC 9110 12.5.1. */
function wantsStream (accept = ''): boolean {
  const weights = new Map(
    accept.toLowerCase().split(',').map(part => {
      const [type = '', ...parameters] = part.split(';').map(text => text.trim())
      const [, weight = '1'] = parameters.map(text =>
        /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.exec(text)
      ).find(match => match !== null) ?? []
      return [type, Number(weight)]
    })
  )
  const stream = weights.get('text/event-stream') ?? 0
  const others = Math.max(weights.get('application/*') ?? 0, weights.get('*/*') ?? 0)
  const json = weights.get('application/json')
  return stream > 0 && (json === undefined ? stream >= others : stream > json)
}
