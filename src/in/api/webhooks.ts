import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Nullable } from '#streams/define.ts'
import type { Webhook } from '#streams/directory.ts'
import { overlapOf, urlFault } from '#streams/webhook/decide.ts'
import { EVENT_TYPES, EventTypeSchema } from '#streams/webhook/facts.ts'
import type { Desk } from '#src/actions/desk.ts'
import { changeWebhook, createWebhook, deleteWebhook, finishRotation, rotateSecret, testWebhook } from '#src/actions/webhook.ts'
import { timestamp } from '#src/base/clock.ts'
import { created, refuseFaults, type Api } from './context.ts'
import { notFound } from './errors.ts'
import { sawOwnWrite, seeAllWrites } from './own-writes.ts'
import { listAnswer, ListQuery, pageOf, placeAmong, readPage } from './pages.ts'
import { askerOf, fieldFaults, granted, IdParams, orNothing } from './params.ts'

const EventTypeField = Type.Union(EventTypeSchema.anyOf, { description: `type is one of ${EVENT_TYPES.join(', ')}.` })
const settings = {
  url: Type.String({ maxLength: 2048, description: 'url is where events are POSTed to.' }),
  events: Type.Array(EventTypeSchema, { minItems: 1, uniqueItems: true, description: 'events is a list of event types, each once.' }),
  paused: Type.Boolean({ description: 'paused is true or false: while true nothing is sent, and what is owed waits, its 24 hours stopped for up to 24 hours.' }),
  concurrency: Type.Union([Type.Integer({ minimum: 1, maximum: 100 }), Type.Null()], {
    description: 'concurrency is the number of requests at once from one webhooks process, 1 to 100, or null for its own choice, 8.'
  })
}
const BODY = { additionalProperties: false, description: 'The body is a JSON object.' }

const CreateRequest = Type.Object({
  url: settings.url,
  events: settings.events,
  paused: Type.Optional(settings.paused),
  concurrency: Type.Optional(settings.concurrency)
}, { ...BODY, examples: [{ url: 'https://example.com/hooks', events: ['email.delivered', 'email.bounced'] }] })

const ChangeRequest = Type.Object({
  ...Type.Partial(Type.Object(settings)).properties,
  status: Type.Optional(Type.Literal('enabled', { description: 'status can be set to "enabled": an endpoint that answered 410 gets events again, from now on.' }))
}, { ...BODY, examples: [{ paused: true }, { url: 'https://example.com/new', status: 'enabled' }] })

const RotateRequest = orNothing(Type.Object({
  finish: Type.Optional(Type.Boolean({ description: 'finish is true to end the overlap of the last rotation now.' }))
}, BODY), [{}, { finish: true }])

const TestRequest = orNothing(Type.Object({ type: Type.Optional(EventTypeField) }, BODY), [{}, { type: 'email.bounced' }])

const EXAMPLE = {
  id: 'wh_01m7ysd3m7q1t5w9y2a6c0e4gj',
  url: 'https://example.com/hooks',
  events: ['email.delivered', 'email.bounced'],
  paused: false,
  concurrency: null,
  status: 'enabled',
  disabled_reason: null,
  secret_rotation: null,
  created_at: '2026-11-21T12:00:00.000Z'
}
const WebhookAnswer = Type.Object({
  id: Type.String(),
  url: Type.String(),
  events: Type.Array(EventTypeSchema),
  paused: Type.Boolean(),
  concurrency: Nullable(Type.Integer()),
  status: Type.Union([Type.Literal('enabled'), Type.Literal('disabled')], { description: 'disabled: the endpoint answered 410. A pause is no status.' }),
  disabled_reason: Nullable(Type.String()),
  secret_rotation: Type.Union([Type.Object({ previous_expires_at: Type.String() }), Type.Null()], {
    description: 'While both secrets sign: when the one before the rotation ceases to. null when none is under way.'
  }),
  created_at: Type.String()
}, { examples: [EXAMPLE] })
const Secret = Type.String({ description: 'The signing secret, shown now and never again.' })
const CreateAnswer = Type.Composite([WebhookAnswer, Type.Object({ secret: Secret })], { examples: [{ ...EXAMPLE, secret: 'whsec_…' }] })
const RotateAnswer = Type.Composite([WebhookAnswer, Type.Object({ secret: Type.Optional(Secret) })], {
  examples: [{ ...EXAMPLE, secret_rotation: { previous_expires_at: '2026-11-23T08:00:00.000Z' }, secret: 'whsec_…' }]
})
const TestAnswer = Type.Object({ id: Type.String({ description: "The event's id." }), delivery_id: Type.String() }, {
  examples: [{ id: 'ev_01m7ysf2k8q3w5r7t9y1z3x5c7', delivery_id: 'whd_5tq2h8c0n4r7k1m3v6e9a2j8gb' }]
})

const tags = ['Webhooks']

/** Endpoints are read from the directory in memory: a write on another node is caught up with before each read and each change. */
export function webhookRoutes (app: Api, desk: Desk): void {
  const answerOf = (webhook: Webhook) => describe(webhook, desk.ledger.clock.nowMs())
  makingRoute(app, desk, answerOf)
  readingRoutes(app, desk, answerOf)
  changingRoutes(app, desk, answerOf)
  rotatingRoute(app, desk, answerOf)
  testingRoute(app, desk)
}

type AnswerOf = (webhook: Webhook) => Static<typeof WebhookAnswer>

function makingRoute (app: Api, desk: Desk, answerOf: AnswerOf): void {
  app.post('/webhooks', {
    config: { scope: 'webhooks:write', errors: [409] },
    schema: { operationId: 'createWebhook', summary: 'Create a webhook endpoint', tags, body: CreateRequest, response: { 201: CreateAnswer } },
    attachValidation: true
  }, async (request, reply) => {
    refuseSettings(request, desk)
    const { paused = false, concurrency = null, ...rest } = request.body
    const made = granted(await createWebhook(desk, askerOf(request), { ...rest, paused, concurrency }))
    await sawOwnWrite(desk, made.seq)
    created(reply, 201, `/api/webhooks/${made.webhook.id}`)
    return { ...answerOf(made.webhook), secret: made.secret }
  })
}

function readingRoutes (app: Api, desk: Desk, answerOf: AnswerOf): void {
  app.get('/webhooks', {
    config: { scope: 'webhooks:read' },
    schema: { operationId: 'listWebhooks', summary: 'List webhook endpoints', tags, querystring: ListQuery, response: { 200: listAnswer(WebhookAnswer) } },
    attachValidation: true
  }, async request => {
    const page = readPage(request, placeAmong('wh'))
    await seeAllWrites(desk)
    const own = [...desk.directory.now.webhooks.values()].filter(webhook => webhook.account === request.key!.account)
    return pageOf(own, page, answerOf)
  })

  app.get('/webhooks/:id', {
    config: { scope: 'webhooks:read', errors: [404] },
    schema: { operationId: 'getWebhook', summary: 'Read a webhook endpoint', tags, params: IdParams, response: { 200: WebhookAnswer } }
  }, async request => {
    await seeAllWrites(desk)
    const webhook = desk.directory.now.webhooks.get(request.params.id)
    if (webhook === undefined || webhook.account !== request.key!.account) throw notFound()
    return answerOf(webhook)
  })
}

function changingRoutes (app: Api, desk: Desk, answerOf: AnswerOf): void {
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
    refuseSettings(request, desk)
    const { status, ...changes } = request.body
    await seeAllWrites(desk)
    const changed = granted(await changeWebhook(desk, askerOf(request), request.params.id, { ...changes, ...(status === undefined ? {} : { enabled: true }) }))
    await sawOwnWrite(desk, changed.seq)
    return answerOf(changed.webhook)
  })

  app.delete('/webhooks/:id', {
    config: { scope: 'webhooks:write', errors: [404, 409] },
    schema: { operationId: 'deleteWebhook', summary: 'Delete a webhook endpoint', tags, params: IdParams, response: { 204: Type.Null() } }
  }, async (request, reply) => {
    await seeAllWrites(desk)
    const deleted = granted(await deleteWebhook(desk, askerOf(request), request.params.id))
    await sawOwnWrite(desk, deleted.seq)
    return reply.code(204).send(null)
  })
}

function rotatingRoute (app: Api, desk: Desk, answerOf: AnswerOf): void {
  app.post('/webhooks/:id/rotate-secret', {
    config: { scope: 'webhooks:write', errors: [404, 409] },
    schema: {
      operationId: 'rotateWebhookSecret',
      summary: 'Give a webhook endpoint a new signing secret, or end the overlap of the last rotation',
      description: 'For 24 hours both secrets sign in webhook-signature, and X-Service-Signature keeps the old one; a second rotation is refused until then.',
      tags,
      params: IdParams,
      body: RotateRequest,
      response: { 200: RotateAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    await seeAllWrites(desk)
    const turn = request.body?.finish === true ? finishRotation : rotateSecret
    const { webhook, seq, ...secret } = granted(await turn(desk, askerOf(request), request.params.id))
    await sawOwnWrite(desk, seq)
    return { ...answerOf(webhook), ...secret }
  })
}

function testingRoute (app: Api, desk: Desk): void {
  app.post('/webhooks/:id/test', {
    config: { scope: 'webhooks:write', errors: [404, 409] },
    schema: {
      operationId: 'testWebhook',
      summary: 'Send a test event to a webhook endpoint',
      description: 'A made-up event with data.test true, signed, sent and retried like any other, whatever the endpoint subscribes to. Without type it is the first of its events.',
      tags,
      params: IdParams,
      body: TestRequest,
      response: { 202: TestAnswer }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request)
    await seeAllWrites(desk)
    const owed = granted(await testWebhook(desk, askerOf(request), request.params.id, request.body?.type))
    return reply.code(202).send({ id: owed.event, delivery_id: owed.delivery })
  })
}

/** 422 with every fault of schema and meaning together. */
function refuseSettings (request: FastifyRequest, desk: Desk): void {
  refuseFaults(request, fieldFaults(request, 'url', url => urlFault(url, desk.settings.webhookAllowPrivate)))
}

function describe (webhook: Webhook, nowMs: number): Static<typeof WebhookAnswer> {
  const { id, url, events, paused, concurrency, disabled, createdAt } = webhook
  const overlap = overlapOf(webhook, nowMs)
  return {
    id,
    url,
    events,
    paused,
    concurrency,
    status: disabled === null ? 'enabled' : 'disabled',
    disabled_reason: disabled,
    secret_rotation: overlap === null ? null : { previous_expires_at: timestamp(overlap.untilMs) },
    created_at: createdAt
  }
}
