import { Type, type Static } from '@sinclair/typebox'
import { Nullable, Refusal } from '#streams/define.ts'
import { REPLAY_PACE, type ReplayState, type ReplayWish } from '#streams/replay/decide.ts'
import { PACE_MAX } from '#streams/replay/facts.ts'
import { failedPages } from '#src/actions/delivery-view.ts'
import { cancelReplay, countReplay, findReplay, replaysOf, requestReplay } from '#src/actions/replay.ts'
import type { Services } from '#src/actions/services.ts'
import { ownWebhook } from '#src/actions/webhook.ts'
import { parseTime } from '#src/base/clock.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { refuseFaults, type Api } from './context.ts'
import { unavailable } from './errors.ts'
import { cursorParser, listAnswer, ListQuery, pageOf, readPage } from './pages.ts'
import { askerOf, granted, IdParams, MUST_BE_OBJECT, timeFaults, timeText } from './params.ts'
import { seeAllWrites } from './resource.ts'

/** Counting reads everything that would be sent; it stops after this time. */
const COUNT_MS = 8000

const ReplayRequest = Type.Object({
  what: Type.Union([Type.Literal('failed'), Type.Literal('all')], {
    description: '`failed` = deliveries that failed in the span; `all` = every event of the span that it listens to.'
  }),
  from: timeText('Where the span begins.'),
  to: Type.Optional(timeText('Where it ends. Now when left out.')),
  pace: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: PACE_MAX,
      description: `Deliveries a second, 1 to ${PACE_MAX}, behind what is new. ${REPLAY_PACE} when left out.`
    })
  )
}, {
  must: MUST_BE_OBJECT,
  additionalProperties: false,
  examples: [{ what: 'failed', from: '2026-11-21T12:00:00Z', to: '2026-11-21T13:00:00Z' }]
})

const REPLAY = {
  id: 'rpl_01m7ysf9q2w4e6r8t0y1u3i5o7',
  webhook_id: 'wh_01m7ysd3m7q1t5w9y2a6c0e4gj',
  what: 'failed',
  from: '2026-11-21T12:00:00.000Z',
  to: '2026-11-21T13:00:00.000Z',
  pace: 100,
  requested: 250,
  state: 'running',
  waits_for: null,
  changed_at: '2026-11-21T13:00:02.500Z'
}
const ReplayRecord = Type.Object({
  id: Type.String(),
  webhook_id: Type.String(),
  what: Type.Union((['failed', 'all', 'backfill'] as const).map(what => Type.Literal(what)), {
    description: '`backfill` = events from before the endpoint was created, by its `start_at`.'
  }),
  from: Type.String(),
  to: Type.String(),
  pace: Type.Integer(),
  requested: Type.Integer({ description: 'Deliveries so far; not all of them are sent yet.' }),
  state: Type.String({
    description: '`running`, `done`, `canceled`, `endpoint_deleted` or `endpoint_disabled`.'
  }),
  waits_for: Nullable(Type.String({ description: 'What it waits for, while it does for longer.' })),
  changed_at: Type.String({ description: 'When it last requested deliveries, or ended.' })
}, { examples: [REPLAY] })

const CountAnswer = Type.Object({
  deliveries: Type.Integer(),
  events: Type.Integer({ description: 'More than deliveries where they go out in batches.' }),
  types: Type.Record(Type.String(), Type.Integer(), { description: 'Events by type.' }),
  complete: Type.Boolean({
    description: 'False = there may be more: counting takes 8 s and 100,000 deliveries at most.'
  })
}, { examples: [{ deliveries: 2, events: 2, types: { 'email.delivered': 2 }, complete: true }] })

/** Refusals that are about a field. */
const FIELDS = { invalid_pace: 'pace', invalid_from: 'from', invalid_to: 'to' }
const TAGS = ['Webhooks']

/** Sending events of the past again. */
export function replayRoutes (app: Api, services: Services, reads: Reads): void {
  createRoute(app, services)
  countRoute(app, services, reads)
  readRoutes(app, services)
}

function createRoute (app: Api, services: Services): void {
  app.post('/webhooks/:id/replays', {
    config: { scope: 'webhooks:write', errors: [404, 409], testKeys: true },
    schema: {
      operationId: 'createReplay',
      summary: 'Send events of the past to a webhook endpoint again',
      description: 'With the same ids and the same bytes, behind new events. Ten can be under way at once.',
      tags: TAGS,
      params: IdParams,
      body: ReplayRequest,
      response: { 202: ReplayRecord }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request, [...timeFaults(request, 'from'), ...timeFaults(request, 'to')])
    await seeAllWrites(services)
    const wish = wishOf(request.body, services)
    const replay = granted(await requestReplay(services, askerOf(request), request.params.id, wish), FIELDS)
    void reply.code(202)
    return describe(replay)
  })
}

function countRoute (app: Api, services: Services, reads: Reads): void {
  app.post('/webhooks/:id/replays/count', {
    config: { scope: 'webhooks:read', errors: [404, 409] },
    schema: {
      operationId: 'countReplay',
      summary: 'Count what a replay would send',
      description: 'Takes what creating the replay takes, and sends nothing.',
      tags: TAGS,
      params: IdParams,
      body: ReplayRequest,
      response: { 200: CountAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request, [...timeFaults(request, 'from'), ...timeFaults(request, 'to')])
    await seeAllWrites(services)
    const wish = wishOf(request.body, services)
    const enough = AbortSignal.timeout(COUNT_MS)
    const failed = failedPages(reads.pool)
    const count = await countReplay(services, askerOf(request), request.params.id, wish, failed, enough)
    if (count instanceof Refusal && count.code === 'projection_behind') {
      throw unavailable('projection_behind', 'The projection is behind the log: try again.')
    }
    const { whole: complete, ...counted } = granted(count, FIELDS)
    return { ...counted, complete }
  })
}

function wishOf (
  { what, from, to, pace = REPLAY_PACE }: Static<typeof ReplayRequest>,
  { factLog: { clock } }: Pick<Services, 'factLog'>
): ReplayWish {
  const toMs = to === undefined ? clock.nowMs() : parseTime(to)!
  return { what: what === 'all' ? 'window' : 'failed', fromMs: parseTime(from)!, toMs, pace }
}

function readRoutes (app: Api, services: Services): void {
  app.get('/webhooks/:id/replays', {
    config: { scope: 'webhooks:read', errors: [404] },
    schema: {
      operationId: 'listReplays',
      summary: 'List the replays of a webhook endpoint',
      description: 'Newest first, with how far each has come: the last 500 of the last 30 days.',
      tags: TAGS,
      params: IdParams,
      querystring: ListQuery,
      response: { 200: listAnswer(ReplayRecord) }
    },
    attachValidation: true
  }, async request => {
    const page = readPage(request, cursorParser('rpl'))
    await seeAllWrites(services)
    const webhook = granted(ownWebhook(services, askerOf(request), request.params.id))
    const replays = await replaysOf(services, webhook.id)
    // Their ids are in the order of their requests.
    const items = replays.map(state => ({ id: state.replay, createdAt: webhook.createdAt, state }))
    return pageOf(items, page, ({ state }) => describe(state))
  })

  app.get('/replays/:id', {
    config: { scope: 'webhooks:read', errors: [404] },
    schema: {
      operationId: 'getReplay',
      summary: 'Get a replay and how far it has come',
      tags: TAGS,
      params: IdParams,
      response: { 200: ReplayRecord }
    }
  }, async request => describe(granted(await findReplay(services, askerOf(request), request.params.id))))

  app.post('/replays/:id/cancel', {
    config: { scope: 'webhooks:write', errors: [404, 409], testKeys: true },
    schema: {
      operationId: 'cancelReplay',
      summary: 'Cancel a replay',
      description: 'It requests no more deliveries; those that it has requested are still sent.',
      tags: TAGS,
      params: IdParams,
      response: { 200: ReplayRecord }
    }
  }, async request => describe(granted(await cancelReplay(services, askerOf(request), request.params.id))))
}

function describe (
  { replay, webhook, what, from, to, pace, made, state, waits, changedAt }: ReplayState
): Static<typeof ReplayRecord> {
  return {
    id: replay,
    webhook_id: webhook,
    what: what === 'window' ? 'all' : what,
    from,
    to,
    pace,
    requested: made,
    state,
    waits_for: waits,
    changed_at: changedAt
  }
}
