import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { deliveries, DELIVERY_STATES } from '#projections/deliveries/project.ts'
import {
  getDelivery,
  listDeliveries,
  parsePlace,
  type DeliveryAttempt,
  type DeliveryFilters,
  type DeliveryPage,
  type DeliverySummary
} from '#projections/deliveries/queries.ts'
import { AnyName, Nullable, Refusal, type FieldFault } from '#streams/define.ts'
import { ERROR_KINDS } from '#streams/delivery/facts.ts'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { readBody } from '#src/actions/delivery-body.ts'
import { findDelivery } from '#src/actions/delivery-view.ts'
import { replayDelivery } from '#src/actions/replay.ts'
import type { Services } from '#src/actions/services.ts'
import { ownWebhook } from '#src/actions/webhook.ts'
import { knownTime, parseTime, timestamp } from '#src/base/clock.ts'
import { DELIVERY_WAITS, waitOf } from '#src/operations/delivery-wait.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { schemaFaults, type Api } from './context.ts'
import { FaultList, notFound } from './errors.ts'
import { listAnswer, ListQuery, readPage } from './pages.ts'
import { askerOf, granted, IdParams, MUST_BE_TIME, textReader, timeText } from './params.ts'
import { seeAllWrites } from './resource.ts'

const words = <Word extends string>(all: readonly Word[]) => Type.Union(all.map(word => Type.Literal(word)))
const TimeOrNull = Nullable(Type.String())

const attempt = {
  status: Nullable(Type.Integer({ description: 'HTTP status; null = no answer, and `error` says why.' })),
  error: Nullable(Type.String()),
  error_kind: Nullable(Type.String()),
  duration_ms: Type.Integer()
}

const summary = {
  id: Type.String(),
  webhook_id: Type.String(),
  state: words(DELIVERY_STATES),
  reason: Nullable(Type.String({ description: 'Why it failed without another request.' })),
  waits_for: Type.Union([...DELIVERY_WAITS.map(wait => Type.Literal(wait)), Type.Null()], {
    description: 'Of a delivery that waits for its first request: its endpoint is paused, failing, or busy.'
  }),
  events: Type.Array(Type.Object({ id: Type.String(), type: words(EVENT_TYPES), email_id: Type.String() })),
  batch: Type.Boolean(),
  test: Type.Boolean(),
  replay_id: Nullable(Type.String({ description: 'The replay that its state is about; null = its first run.' })),
  attempts: Type.Integer({ description: 'Requests of this run.' }),
  last_attempt: Nullable(Type.Object(attempt)),
  requested_at: Type.String(),
  first_attempt_at: TimeOrNull,
  next_attempt_at: TimeOrNull,
  ended_at: TimeOrNull
}

const SUMMARY = {
  id: 'whd_5tq2h8c0n4r7k1m3v6e9a2j8gb',
  webhook_id: 'wh_01m7ysd3m7q1t5w9y2a6c0e4gj',
  state: 'failed',
  reason: null,
  waits_for: null,
  events: [{ id: 'ev_01m7ysf2k8q3w5r7t9y1z3x5c7', type: 'email.delivered', email_id: 'em_01m7ysevjmwmdcr41jq5rymhkp' }],
  batch: false,
  test: false,
  replay_id: null,
  attempts: 11,
  last_attempt: { status: 500, error: null, error_kind: null, duration_ms: 31 },
  requested_at: '2026-11-21T12:00:00.310Z',
  first_attempt_at: '2026-11-21T12:00:00.320Z',
  next_attempt_at: null,
  ended_at: '2026-11-22T11:40:12.000Z'
}

/** A delivery as lists show it. All but its events and `requested_at` is about its last run. */
const Summary = Type.Object(summary, { examples: [SUMMARY] })
const DeliveryRecord = Type.Object({
  ...summary,
  requests: Type.Array(
    Type.Object({
      at: Type.String(),
      attempt: Type.Integer({ description: 'From 1 in each run.' }),
      replay_id: Nullable(Type.String()),
      ...attempt,
      url: Type.String(),
      headers: Type.Record(AnyName, Type.String()),
      response: Type.String({ description: 'The first 4,096 bytes of the answer, as text.' })
    }),
    { description: 'Of all its runs, oldest first; the last 100 at most.' }
  ),
  body: Nullable(Type.String({ description: 'What is POSTed; null = no longer stored.' }))
}, {
  examples: [{
    ...SUMMARY,
    requests: [{
      at: '2026-11-21T12:00:00.320Z',
      attempt: 1,
      replay_id: null,
      ...SUMMARY.last_attempt,
      url: 'https://example.com/hooks',
      headers: { 'content-type': 'application/json' },
      response: 'Internal Server Error'
    }],
    body: '{"id":"ev_01m7ysf2k8q3w5r7t9y1z3x5c7","type":"email.delivered"}'
  }]
})

const filterFields = {
  ...ListQuery.properties,
  state: Type.Optional(words(DELIVERY_STATES)),
  error_kind: Type.Optional(words(ERROR_KINDS)),
  event_id: Type.Optional(Type.String({ pattern: '^ev_[0-9a-z]{1,64}$', must: 'be the id of an event' })),
  email_id: Type.Optional(Type.String({ pattern: '^em_[0-9a-z]{1,64}$', must: 'be the id of an email' })),
  created_after: Type.Optional(timeText('Requested then or later.')),
  created_before: Type.Optional(timeText('Requested before then.'))
}

const OfOneQuery = Type.Object(filterFields, { additionalProperties: false })
const OfAllQuery = Type.Object({
  ...filterFields,
  webhook_id: Type.Optional(Type.String({ pattern: '^wh_[0-9a-z]{1,64}$', must: 'be the id of a webhook' }))
}, { additionalProperties: false })

const ReplayAnswer = Type.Object({ id: Type.String(), webhook_id: Type.String(), replay_id: Type.String() }, {
  examples: [{ id: SUMMARY.id, webhook_id: SUMMARY.webhook_id, replay_id: 'rpl_01m7ysf9q2w4e6r8t0y1u3i5o7' }]
})

const TAGS = ['Webhooks']

/** The log of webhook deliveries: kept for 30 days. */
export function deliveryRoutes (app: Api, services: Services, reads: Reads): void {
  listRoutes(app, services, reads)
  oneRoutes(app, services, reads)
}

function listRoutes (app: Api, services: Services, reads: Reads): void {
  const list = async (asked: DeliveryQuestion) =>
    await answerFrom(reads, asked.account, deliveries, listDeliveries(asked))
  const described = ({ data, ...page }: DeliveryPage) => ({
    ...page,
    data: data.map(delivery => describe(delivery, services))
  })

  app.get('/deliveries', {
    config: { scope: 'webhooks:read' },
    schema: {
      operationId: 'listDeliveries',
      summary: 'List deliveries to all webhook endpoints',
      description: 'Newest first, for 30 days, also to endpoints that were deleted. All given filters must hold.',
      tags: TAGS,
      querystring: OfAllQuery,
      response: { 200: listAnswer(Summary) }
    },
    attachValidation: true
  }, async request => {
    const asked = questionIn(request)
    await seeAllWrites(services)
    return described(await list(asked))
  })

  app.get('/webhooks/:id/deliveries', {
    config: { scope: 'webhooks:read', errors: [404] },
    schema: {
      operationId: 'listWebhookDeliveries',
      summary: 'List the deliveries of a webhook endpoint',
      description: 'Newest first, for 30 days, also of an endpoint that was deleted. All given filters must hold.',
      tags: TAGS,
      params: IdParams,
      querystring: OfOneQuery,
      response: { 200: listAnswer(Summary) }
    },
    attachValidation: true
  }, async request => {
    const { account, filters, ...page } = questionIn(request)
    await seeAllWrites(services)
    const { id: webhook } = request.params
    const known = ownWebhook(services, askerOf(request), webhook)
    // The log outlives its endpoint.
    const isThere = !(known instanceof Refusal) || (isWebhookId(webhook) &&
      (await list({ account, filters: { webhook }, limit: 1, cursor: null })).data.length > 0)
    if (!isThere) throw notFound()
    return described(await list({ account, filters: { ...filters, webhook }, ...page }))
  })
}

type DeliveryQuestion = Parameters<typeof listDeliveries>[0]

/** What a query asks of its account's deliveries. */
function questionIn (request: FastifyRequest): DeliveryQuestion {
  const { filters, faults } = filtersIn(request)
  const { limit, before: cursor } = readPage(request, parsePlace, faults)
  return { account: request.principal!.account, filters, limit, cursor }
}

/** The filters of a query, and the faults of meaning where the schema has found none. */
function filtersIn (request: FastifyRequest): { filters: DeliveryFilters, faults: FieldFault[] } {
  const query = request.query as Static<typeof OfAllQuery>
  const found = schemaFaults(request)
  const faults = new FaultList(found)
  const read = textReader(query, faults)
  const time = (field: 'created_after' | 'created_before') => {
    const ms = read(field, parseTime, 'invalid_value', MUST_BE_TIME)
    return ms === null ? undefined : timestamp(knownTime(ms))
  }
  const filters = {
    webhook: query.webhook_id,
    state: query.state,
    errorKind: query.error_kind,
    event: query.event_id,
    email: query.email_id,
    since: time('created_after'),
    until: time('created_before')
  }
  return { filters, faults: faults.all.slice(found.length) }
}

function oneRoutes (app: Api, services: Services, reads: Reads): void {
  app.get('/deliveries/:id', {
    config: { scope: 'webhooks:read', errors: [404] },
    schema: {
      operationId: 'getDelivery',
      summary: 'Get a delivery with its requests and their answers',
      tags: TAGS,
      params: IdParams,
      response: { 200: DeliveryRecord }
    }
  }, async request => {
    const [{ account }, { id }] = [request.principal!, request.params]
    const found = isDeliveryId(id) ? await answerFrom(reads, account, deliveries, getDelivery({ account, id })) : null
    if (found === null) throw notFound()
    const seq = await findDelivery(reads.pool)(account, id)
    const body = seq === null ? null : await readBody(services.factLog.bus, seq)
    return { ...describe(found, services), requests: found.tries.map(describeAttempt), body }
  })

  app.post('/deliveries/:id/replay', {
    config: { scope: 'webhooks:write', errors: [404, 409], testKeys: true },
    schema: {
      operationId: 'replayDelivery',
      summary: 'Send a delivery again',
      description: 'Whatever its state: the same id, the same bytes. Its attempts and its 24 hours begin again.',
      tags: TAGS,
      params: IdParams,
      response: { 202: ReplayAnswer }
    }
  }, async (request, reply) => {
    const [{ account }, { id }] = [request.principal!, request.params]
    // One that was requested a moment ago is there to be found.
    const isThere = isDeliveryId(id) &&
      await answerFrom(reads, account, deliveries, getDelivery({ account, id })) !== null
    if (!isThere) throw notFound()
    await seeAllWrites(services)
    const owed = granted(await replayDelivery(services, askerOf(request), id, findDelivery(reads.pool)))
    void reply.code(202)
    return { id: owed.delivery, webhook_id: owed.webhook, replay_id: owed.replay! }
  })
}

function isWebhookId (id: string): boolean {
  return /^wh_[0-9a-z]{1,64}$/.test(id)
}

function isDeliveryId (id: string): boolean {
  return /^whd_[0-9a-z]{1,64}$/.test(id)
}

function describe (
  delivery: DeliverySummary,
  { directory, factLog: { clock } }: Pick<Services, 'directory' | 'factLog'>
): Static<typeof Summary> {
  const { id, webhook, state, reason, events, batch, test, replay, attempts, last } = delivery
  const at = (time: Date | null) => time?.toISOString() ?? null
  return {
    id,
    webhook_id: webhook,
    state,
    reason,
    waits_for: waitOf(delivery, directory.now.webhooks.get(webhook) ?? null, clock.nowMs()),
    events: events.map(event => ({ id: event.id, type: event.type, email_id: event.email })),
    batch,
    test,
    replay_id: replay,
    attempts,
    last_attempt: last,
    requested_at: delivery.requested_at.toISOString(),
    first_attempt_at: at(delivery.first_attempt_at),
    next_attempt_at: at(delivery.next_attempt_at),
    ended_at: at(delivery.ended_at)
  }
}

function describeAttempt ({ at, attempt, replay, seq: _seq, ...rest }: DeliveryAttempt) {
  return { at: at.toISOString(), attempt, replay_id: replay, ...rest }
}
