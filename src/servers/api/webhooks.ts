import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Nullable, Refusal } from '#streams/define.ts'
import type { Webhook } from '#streams/directory.ts'
import { overlapOf } from '#streams/webhook/decide.ts'
import { BATCH_EVENTS_MAX, BATCH_WAIT_MS_MAX, EVENT_TYPES, EventTypeSchema } from '#streams/webhook/facts.ts'
import type { Services } from '#src/actions/services.ts'
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  finishRotation,
  rotateSecret,
  targetFault,
  testWebhook
} from '#src/actions/webhook.ts'
import { parseTime, timestamp } from '#src/base/clock.ts'
import { ageMsMax } from '#src/nats/status.ts'
import { created, refuseFaults, type Api } from './context.ts'
import { notFound, type Fault } from './errors.ts'
import { sawOwnWrite, seeAllWrites } from './own-writes.ts'
import { listAnswer, ListQuery, pageOf, placeAmong, readPage } from './pages.ts'
import { askerOf, fieldFaults, granted, IdParams, orNothing, timeMessage } from './params.ts'

const EventTypeField = Type.Union(EventTypeSchema.anyOf, { description: `type is one of ${EVENT_TYPES.join(', ')}.` })
/** Below that nothing is gained: a request of its own would be there sooner. */
const BATCH_WAIT_MS_MIN = 100
const BATCH = 'batch is an object with max_events and max_wait_ms, or null for one event a request.'
const settings = {
  url: Type.String({ maxLength: 2048, description: 'url is where events are POSTed to.' }),
  events: Type.Array(EventTypeSchema, {
    minItems: 1,
    uniqueItems: true,
    description: 'events is a list of at least one event type, each once.'
  }),
  paused: Type.Boolean({
    description:
      'paused is true or false. While true nothing is sent, and what is owed waits, its 24 hours stopped for up to 24 hours.'
  }),
  concurrency: Type.Union([Type.Integer({ minimum: 1, maximum: 100 }), Type.Null()], {
    description:
      'concurrency is the number of requests at once from one webhooks process, 1 to 100, or null for its own choice, 8.'
  }),
  batch: Type.Union([
    Type.Object({
      max_events: Type.Integer({
        minimum: 1,
        maximum: BATCH_EVENTS_MAX,
        description: `batch.max_events is the most events in one request, 1 to ${BATCH_EVENTS_MAX}.`
      }),
      max_wait_ms: Type.Integer({
        minimum: BATCH_WAIT_MS_MIN,
        maximum: BATCH_WAIT_MS_MAX,
        description:
          `batch.max_wait_ms is how long an event may wait for others, in ms, ${BATCH_WAIT_MS_MIN} to ${BATCH_WAIT_MS_MAX}.`
      })
    }, { additionalProperties: false, description: BATCH }),
    Type.Null()
  ], { description: BATCH }),
  every_deferral: Type.Boolean({
    description:
      'every_deferral is true or false. While true each deferral of an email is an event, else only the first is, and how it ends.'
  })
}
const START_AT = timeMessage('start_at')
const BODY = { additionalProperties: false, description: 'The body is a JSON object.' }

const CreateRequest = Type.Object({
  url: settings.url,
  events: settings.events,
  paused: Type.Optional(settings.paused),
  concurrency: Type.Optional(settings.concurrency),
  batch: Type.Optional(settings.batch),
  every_deferral: Type.Optional(settings.every_deferral),
  start_at: Type.Optional(
    Type.String({
      maxLength: 40,
      description:
        `${START_AT} Events from then on are sent: past ones too, as far back as they are kept. Now unless told.`
    })
  )
}, {
  ...BODY,
  examples: [
    { url: 'https://example.com/hooks', events: ['email.delivered', 'email.bounced'] },
    {
      url: 'https://example.com/hooks',
      events: [...EVENT_TYPES],
      batch: { max_events: 100, max_wait_ms: 5000 },
      every_deferral: true
    }
  ]
})

const ChangeRequest = Type.Object({
  ...Type.Partial(Type.Object(settings)).properties,
  status: Type.Optional(
    Type.Literal('enabled', {
      description: 'status can be set to "enabled": an endpoint that was disabled gets events again, from now on.'
    })
  )
}, { ...BODY, examples: [{ paused: true }, { url: 'https://example.com/new', status: 'enabled' }, { batch: null }] })

const RotateRequest = orNothing(
  Type.Object({
    finish: Type.Optional(Type.Boolean({ description: 'finish is true to end the overlap of the last rotation now.' }))
  }, BODY),
  [{}, { finish: true }]
)

const TestRequest = orNothing(Type.Object({ type: Type.Optional(EventTypeField) }, BODY), [{}, {
  type: 'email.bounced'
}])

const EXAMPLE = {
  id: 'wh_01m7ysd3m7q1t5w9y2a6c0e4gj',
  url: 'https://example.com/hooks',
  events: ['email.delivered', 'email.bounced'],
  paused: false,
  concurrency: null,
  batch: null,
  every_deferral: false,
  start_at: '2026-11-21T12:00:00.000Z',
  status: 'enabled',
  disabled_reason: null,
  failing_since: null,
  secret_rotation: null,
  created_at: '2026-11-21T12:00:00.000Z'
}
const WebhookAnswer = Type.Object({
  id: Type.String(),
  url: Type.String(),
  events: Type.Array(EventTypeSchema),
  paused: Type.Boolean(),
  concurrency: Nullable(Type.Integer()),
  batch: Nullable(Type.Object({ max_events: Type.Integer(), max_wait_ms: Type.Integer() })),
  every_deferral: Type.Boolean(),
  start_at: Type.String({ description: 'Events from then on are its.' }),
  status: Type.Union([Type.Literal('enabled'), Type.Literal('disabled')], {
    description: 'disabled: nothing is sent. A pause is no status.'
  }),
  disabled_reason: Type.Union([Type.Literal('gone'), Type.Literal('failing'), Type.Null()], {
    description: '`gone` = it answered 410; `failing` = it did nothing but fail for five days.'
  }),
  failing_since: Type.Union([Type.String(), Type.Null()], {
    description:
      'Since when it has done nothing but fail, once it has for a quarter of an hour; null = it works, as far as is known.'
  }),
  secret_rotation: Type.Union([Type.Object({ previous_expires_at: Type.String() }), Type.Null()], {
    description: 'While both secrets sign: when the one before the rotation ceases to. null when none is under way.'
  }),
  created_at: Type.String()
}, { examples: [EXAMPLE] })
const Secret = Type.String({ description: 'The signing secret, shown now and never again.' })
const CreateAnswer = Type.Composite([WebhookAnswer, Type.Object({ secret: Secret })], {
  examples: [{ ...EXAMPLE, secret: 'whsec_…' }]
})
const RotateAnswer = Type.Composite([WebhookAnswer, Type.Object({ secret: Type.Optional(Secret) })], {
  examples: [{ ...EXAMPLE, secret_rotation: { previous_expires_at: '2026-11-23T08:00:00.000Z' }, secret: 'whsec_…' }]
})
const TestAnswer = Type.Object({ id: Type.String({ description: "The event's id." }), delivery_id: Type.String() }, {
  examples: [{ id: 'ev_01m7ysf2k8q3w5r7t9y1z3x5c7', delivery_id: 'whd_5tq2h8c0n4r7k1m3v6e9a2j8gb' }]
})

const tags = ['Webhooks']

/** Endpoints are read from the directory in memory: a write on another node is caught up with before each read and each
 *  change. */
export function webhookRoutes (app: Api, services: Services): void {
  const answerOf = (webhook: Webhook) => describeWebhook(webhook, services.appenders.clock.nowMs())
  makingRoute(app, services, answerOf)
  readingRoutes(app, services, answerOf)
  changingRoutes(app, services, answerOf)
  rotatingRoute(app, services, answerOf)
  testingRoute(app, services)
}

type AnswerOf = (webhook: Webhook) => Static<typeof WebhookAnswer>

function makingRoute (app: Api, services: Services, answerOf: AnswerOf): void {
  app.post('/webhooks', {
    config: { scope: 'webhooks:write', errors: [409] },
    schema: {
      operationId: 'createWebhook',
      summary: 'Create a webhook endpoint',
      tags,
      body: CreateRequest,
      response: { 201: CreateAnswer }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseSettings(request, services, startFaults(request, await keptSince(request, services)))
    const { start_at: startAt, ...body } = request.body
    const start = startAt === undefined ? {} : { startAt: timestamp(parseTime(startAt)!) }
    const made = granted(await createWebhook(services, askerOf(request), { ...PLAIN, ...settingsOf(body), ...start }))
    await sawOwnWrite(services, made.seq)
    created(reply, 201, `/api/webhooks/${made.webhook.id}`)
    return { ...answerOf(made.webhook), secret: made.secret }
  })
}

function readingRoutes (app: Api, services: Services, answerOf: AnswerOf): void {
  app.get('/webhooks', {
    config: { scope: 'webhooks:read' },
    schema: {
      operationId: 'listWebhooks',
      summary: 'List webhook endpoints',
      tags,
      querystring: ListQuery,
      response: { 200: listAnswer(WebhookAnswer) }
    },
    attachValidation: true
  }, async request => {
    const page = readPage(request, placeAmong('wh'))
    await seeAllWrites(services)
    const own = [...services.directory.now.webhooks.values()].filter(webhook =>
      webhook.account === request.key!.account
    )
    return pageOf(own, page, answerOf)
  })

  app.get('/webhooks/:id', {
    config: { scope: 'webhooks:read', errors: [404] },
    schema: {
      operationId: 'getWebhook',
      summary: 'Read a webhook endpoint',
      tags,
      params: IdParams,
      response: { 200: WebhookAnswer }
    }
  }, async request => {
    await seeAllWrites(services)
    const webhook = services.directory.now.webhooks.get(request.params.id)
    if (webhook === undefined || webhook.account !== request.key!.account) throw notFound()
    return answerOf(webhook)
  })
}

function changingRoutes (app: Api, services: Services, answerOf: AnswerOf): void {
  app.patch('/webhooks/:id', {
    config: { scope: 'webhooks:write', errors: [404, 409] },
    schema: {
      operationId: 'updateWebhook',
      summary: 'Change, pause, resume or enable a webhook endpoint',
      tags,
      params: IdParams,
      body: ChangeRequest,
      response: { 200: WebhookAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseSettings(request, services)
    const { status, ...body } = request.body
    await seeAllWrites(services)
    const changed = granted(
      await changeWebhook(services, askerOf(request), request.params.id, {
        ...settingsOf(body),
        ...(status === undefined ? {} : { enabled: true })
      })
    )
    await sawOwnWrite(services, changed.seq)
    return answerOf(changed.webhook)
  })

  app.delete('/webhooks/:id', {
    config: { scope: 'webhooks:write', errors: [404, 409] },
    schema: {
      operationId: 'deleteWebhook',
      summary: 'Delete a webhook endpoint',
      tags,
      params: IdParams,
      response: { 204: Type.Null() }
    }
  }, async (request, reply) => {
    await seeAllWrites(services)
    const deleted = granted(await deleteWebhook(services, askerOf(request), request.params.id))
    await sawOwnWrite(services, deleted.seq)
    return reply.code(204).send(null)
  })
}

function rotatingRoute (app: Api, services: Services, answerOf: AnswerOf): void {
  app.post('/webhooks/:id/rotate-secret', {
    config: { scope: 'webhooks:write', errors: [404, 409] },
    schema: {
      operationId: 'rotateWebhookSecret',
      summary: 'Give a webhook endpoint a new signing secret, or end the overlap of the last rotation',
      description:
        'For 24 hours both secrets sign in webhook-signature, and X-Service-Signature keeps the old one; a second rotation is refused until then.',
      tags,
      params: IdParams,
      body: RotateRequest,
      response: { 200: RotateAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    await seeAllWrites(services)
    const turn = request.body?.finish === true ? finishRotation : rotateSecret
    const { webhook, seq, ...secret } = granted(await turn(services, askerOf(request), request.params.id))
    await sawOwnWrite(services, seq)
    return { ...answerOf(webhook), ...secret }
  })
}

function testingRoute (app: Api, services: Services): void {
  app.post('/webhooks/:id/test', {
    config: { scope: 'webhooks:write', errors: [404, 409] },
    schema: {
      operationId: 'testWebhook',
      summary: 'Send a test event to a webhook endpoint',
      description:
        'A made-up event with data.test true, signed, sent and retried like any other, whatever the endpoint subscribes to. Without type it is the first of its events.',
      tags,
      params: IdParams,
      body: TestRequest,
      response: { 202: TestAnswer }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request)
    await seeAllWrites(services)
    const owed = granted(await testWebhook(services, askerOf(request), request.params.id, request.body?.type))
    return reply.code(202).send({ id: owed.event, delivery_id: owed.delivery })
  })
}

/** 422 with every fault of schema and meaning together. */
function refuseSettings (request: FastifyRequest, services: Services, more: Fault[] = []): void {
  refuseFaults(request, [
    ...fieldFaults(request, 'url', url => targetFault(url, services.settings.webhookAllowPrivate)),
    ...more
  ])
}

/** Unix ms: the oldest event that is still there may be as old, if somebody asks for past ones. Throws what
 *  `isUnanswered` knows. */
async function keptSince (request: FastifyRequest, { appenders: { bus, clock } }: Services): Promise<number> {
  const { start_at: startAt } = (request.body ?? {}) as { start_at?: unknown }
  const nowMs = clock.nowMs()
  const startMs = typeof startAt === 'string' ? parseTime(startAt) : null
  return startMs === null || startMs >= nowMs ? nowMs : nowMs - await ageMsMax(bus, 'EMAILS')
}

const START_MS_MAX = Date.UTC(9999, 11, 31)

function startFaults (request: FastifyRequest, keptSinceMs: number): Fault[] {
  return fieldFaults(request, 'start_at', text => {
    const ms = parseTime(text)
    if (ms === null) return new Refusal('invalid_value', START_AT)
    if (ms > START_MS_MAX) return new Refusal('too_late', 'start_at is before the last day of the year 9999.')
    return ms < keptSinceMs
      ? new Refusal(
        'too_early',
        `start_at is not before ${new Date(keptSinceMs).toISOString()}: older events are not kept.`
      )
      : null
  })
}

const PLAIN = { paused: false, concurrency: null, batch: null, everyDeferral: false }

type Settings = Partial<Pick<Static<typeof CreateRequest>, 'paused' | 'concurrency' | 'batch' | 'every_deferral'>>

/** As the log has them. */
function settingsOf<Body extends Settings> ({ batch, every_deferral: everyDeferral, ...plain }: Body) {
  return {
    ...plain,
    ...(batch === undefined
      ? {}
      : { batch: batch === null ? null : { maxEvents: batch.max_events, maxWaitMs: batch.max_wait_ms } }),
    ...(everyDeferral === undefined ? {} : { everyDeferral })
  }
}

export function describeWebhook (webhook: Webhook, nowMs: number): Static<typeof WebhookAnswer> {
  const { id, url, events, paused, concurrency, batch, everyDeferral, startAt, disabled, failingSince, createdAt } =
    webhook
  const overlap = overlapOf(webhook, nowMs)
  return {
    id,
    url,
    events,
    paused,
    concurrency,
    batch: batch === null ? null : { max_events: batch.maxEvents, max_wait_ms: batch.maxWaitMs },
    every_deferral: everyDeferral,
    start_at: startAt,
    status: disabled === null ? 'enabled' : 'disabled',
    disabled_reason: disabled as 'gone' | 'failing' | null,
    failing_since: failingSince,
    secret_rotation: overlap === null ? null : { previous_expires_at: timestamp(overlap.untilMs) },
    created_at: createdAt
  }
}
