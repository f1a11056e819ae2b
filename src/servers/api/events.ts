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
import { FaultList, invalid, mustFault } from './errors.ts'
import { cursorsOf, EventStreams, type Cursors, type StreamLimits } from './event-stream.ts'
import { isAhead, eventsAfter, positionAt, positionNow, type Wanted } from './feed.ts'
import { AnyEvent } from './openapi-webhooks.ts'
import { LIMIT_DEFAULT, ListQuery } from './pages.ts'
import { listing, mustBeTime, timeText } from './params.ts'

const MUST_BE_CURSOR = 'be a next_cursor or an event id of this feed'

const ListEventsQuery = Type.Object({
  after: Type.Optional(
    Type.String({
      maxLength: 500,
      must: MUST_BE_CURSOR,
      description: 'List what comes after this: a `next_cursor`, or the id of an event of a stream.'
    })
  ),
  limit: ListQuery.properties.limit,
  type: Type.Optional(Type.Array(EventTypeSchema, {
    minItems: 1,
    maxItems: EVENT_TYPES.length,
    uniqueItems: true,
    noun: 'event type',
    description: 'Event types: `type=email.opened&type=email.clicked`.'
  })),
  email_id: Type.Optional(
    Type.String({
      pattern: '^em_[0-9a-z]{1,64}$',
      must: 'be the id of an email',
      description: 'Events of this email.'
    })
  ),
  created_after: Type.Optional(timeText('Created then or later.')),
  created_before: Type.Optional(timeText('Created before then.'))
}, { additionalProperties: false })

const ListEventsHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({ description: 'The id of the last event that a stream brought: it goes on after it.' })
  )
})

const EventPage = Type.Object({
  data: Type.Array(AnyEvent),
  has_more: Type.Boolean({
    description: 'Whether there is more: also a short or empty page may not be the last.'
  }),
  next_cursor: Type.String({
    description: 'Pass it as `after` for the next page, also when there is nothing yet.'
  })
}, { examples: [{ data: [AnyEvent.anyOf[0]!.examples[0]], has_more: false, next_cursor: 'q7Yw0nZt5oXcV2bLk9PfDg' }] })

const DESCRIPTION =
  `The events that webhooks get, with the same bodies, oldest first, for as long as they are kept. Without test events,
and without the deferrals between an email's first one and its end. All given filters must hold. Pass \`next_cursor\` as
\`after\`, again and again, and you miss nothing and get nothing twice. It also answers while PostgreSQL is unavailable.

With \`Accept: text/event-stream\` it is an endless stream of server-sent events, each with \`id\` (a cursor), \`event\`
(its type) and \`data\` (its body on one line). It begins after \`Last-Event-ID\`, else after \`after\`, else at
\`created_after\`, else now. A comment comes every 15 seconds when there is no event. A stream counts as one request,
takes no \`limit\`, and ends with its key. An account can have 20 streams on one server; one more gets 503
\`too_many_streams\`. A client that reads nothing for a minute is disconnected.`

const SCOPE = 'emails:metadata'
/** No other request can use the connection: kept alive, it would delay a stop. */
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
  const streams = new EventStreams(services, log, limits)
  // Before the server waits for connections: streams never end by themselves.
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
      request.query = listing(request.query, ['type'])
    },
    attachValidation: true
  }, async (request, reply) => {
    if (wantsStream(request.headers.accept)) return await answerStream(services, streams, request, reply)
    const { limit = LIMIT_DEFAULT, after } = request.query
    const cursors = cursorsOf(services.tokens, request.principal!.account)
    const wanted = read(request, cursors)
    const fromSeq = await positionOf(services, wanted, cursors, { after }) ?? 0
    const { events, seq, more } = await eventsAfter(services, wanted, fromSeq, limit)
    // Joined as they are, so that they are the very bytes that a webhook gets.
    const text = `{"data":[${events.map(({ body }) => body).join(',')}],"has_more":${more},"next_cursor":${
      JSON.stringify(cursors.cursorOf(seq))
    }}`
    return await reply.header('vary', 'Accept').type('application/json; charset=utf-8').send(text as never)
  })
}

type EventsQuery = Static<typeof ListEventsQuery>

async function answerStream (
  services: Services,
  streams: EventStreams,
  request: FastifyRequest,
  reply: FastifyReply
): Promise<FastifyReply> {
  const cursors = cursorsOf(services.tokens, request.principal!.account)
  const wanted = read(request, cursors)
  const fromSeq = await positionOf(services, wanted, cursors, {
    'Last-Event-ID': lastEventId(request),
    after: (request.query as EventsQuery).after
  })
  reply.headers(STREAM_HEADERS)
  // Not text: it has a length, and a stream has none.
  if (request.method === 'HEAD') return await reply.send(Readable.from([]))
  const afterSeq = fromSeq ?? await positionNow(services)
  return await reply.send(streams.open({ wanted, afterSeq, isAllowed: permission(services, request) }, reply.raw))
}

/** Tells whether the key of a request still allows it. */
function permission ({ directory, factLog: { clock } }: Services, { raw }: FastifyRequest): () => boolean {
  const hash = sha256Hex(authorizationOf(raw.rawHeaders)!.slice('Bearer '.length))
  return () => {
    const key = directory.now.keysByHash.get(hash)
    return key !== undefined && opens(key, hash, clock.nowMs()) && mayDo(key, SCOPE)
  }
}

/** What is wanted. Throws 422 with every fault at once. */
function read (request: FastifyRequest, cursors: Cursors): Wanted {
  const faults = new FaultList(schemaFaults(request))
  addMeaningFaults(request, cursors, faults)
  if (faults.all.length > 0) throw invalid(faults.all)
  const { type, email_id: email = null, created_after: from, created_before: to } = request.query as EventsQuery
  return {
    account: request.principal!.account,
    types: type === undefined ? null : new Set(type),
    email,
    fromMs: msOf(from),
    toMs: msOf(to)
  }
}

/** What a schema cannot say. What it has refused may be of any type here. */
function addMeaningFaults (request: FastifyRequest, { parseCursor }: Cursors, faults: FaultList): void {
  const query = request.query as Record<string, unknown>
  for (const name of ['created_after', 'created_before']) {
    const time = query[name]
    if (isText(time) && parseTime(time) === null) faults.must(name, 'invalid_value', mustBeTime(time))
  }
  for (const [field, cursor] of [['after', query.after], ['Last-Event-ID', lastEventId(request)]] as const) {
    if (isText(cursor) && parseCursor(cursor) === null) faults.must(field, 'invalid_cursor', MUST_BE_CURSOR)
  }
  if (query.limit !== undefined && wantsStream(request.headers.accept)) {
    faults.must('limit', 'not_supported', 'be left out of a stream')
  }
}

function isText (value: unknown): value is string {
  return typeof value === 'string'
}

function msOf (time: string | undefined): number | null {
  return time === undefined ? null : knownTime(parseTime(time)!)
}

/** A client that has had no id yet sends an empty one. */
function lastEventId ({ headers }: FastifyRequest): string | undefined {
  return (headers['last-event-id'] as string | undefined) || undefined
}

/** The sequence to begin after: of the first given cursor, else of the given time; null = neither is given. Throws 422
 *  for a cursor that this log has not come to. */
async function positionOf (
  services: Services,
  { fromMs }: Wanted,
  { parseCursor }: Cursors,
  given: Record<string, string | undefined>
): Promise<number | null> {
  const [field, cursor] = Object.entries(given).find(([, text]) => text !== undefined) ?? []
  if (cursor === undefined) return fromMs === null ? null : await positionAt(services, fromMs)
  const seq = parseCursor(cursor)!
  if (seq > 0 && await isAhead(services, seq)) {
    throw invalid([mustFault(field!, 'invalid_cursor', MUST_BE_CURSOR)])
  }
  return seq
}

/** A client gets a stream only when it names it, and prefers it to JSON. Source: RFC 9110 12.5.1. */
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
