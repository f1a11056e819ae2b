import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Nullable, Refusal, type FieldFault } from '#streams/define.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { overlapOf, type WebhookChanges } from '#streams/webhook/decide.ts'
import {
  BATCH_EVENTS_MAX,
  BATCH_WAIT_MS_MAX,
  BATCH_WAIT_MS_MIN,
  BOUNCE_CHOICES,
  CONCURRENCY_MAX,
  EVENT_TYPES,
  EventTypeSchema,
  URL_LENGTH_MAX,
  WEBHOOK_FORMATS,
  WEBHOOK_MODES
} from '#streams/webhook/facts.ts'
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
import type { Api } from './context.ts'
import { askerOf, IdParams, MUST_BE_OBJECT, MUST_BE_TIME, orNothing, textFaults, timeText } from './params.ts'
import { ResourceRoutes } from './resource.ts'

const MUST_BE_COUNT = `be a whole number from 1 to ${CONCURRENCY_MAX}, or null`
const settings = {
  url: Type.String({ maxLength: URL_LENGTH_MAX, description: 'Where events are POSTed.' }),
  events: Type.Array(EventTypeSchema, {
    minItems: 1,
    uniqueItems: true,
    noun: 'event type',
    description: 'The event types it gets.'
  }),
  paused: Type.Boolean({
    description: 'While true nothing is sent: events wait, and their 24 hours of retries stop for up to 24 hours.'
  }),
  concurrency: Type.Union([Type.Integer({ minimum: 1, maximum: CONCURRENCY_MAX, must: MUST_BE_COUNT }), Type.Null()], {
    must: MUST_BE_COUNT,
    description: 'Most requests at once from one process. `null` = 8.'
  }),
  batch: Type.Union([
    Type.Object({
      max_events: Type.Integer({
        minimum: 1,
        maximum: BATCH_EVENTS_MAX,
        description: `Most events in one request, 1 to ${BATCH_EVENTS_MAX}.`
      }),
      max_wait_ms: Type.Integer({
        minimum: BATCH_WAIT_MS_MIN,
        maximum: BATCH_WAIT_MS_MAX,
        description: `How long an event may wait for others, in ms, ${BATCH_WAIT_MS_MIN} to ${BATCH_WAIT_MS_MAX}.`
      })
    }, { additionalProperties: false }),
    Type.Null()
  ], {
    must: 'be an object with max_events and max_wait_ms, or null',
    description: 'Several events in one request. `null` = one event a request.'
  }),
  every_deferral: Type.Boolean({
    description: 'Whether each deferral of an email is an event, or only the first one and the end.'
  }),
  bounces: Type.Union(BOUNCE_CHOICES.map(choice => Type.Literal(choice)), {
    must: 'be all, final or deferred',
    description: 'Which events of `email.bounced` it gets: all, without those of deferrals, or only those.'
  }),
  mode: Type.Union(WEBHOOK_MODES.map(mode => Type.Literal(mode)), {
    must: 'be live, test or both',
    description: 'Whether it gets events of mail sent with live keys, with test keys, or with both.'
  })
}
const Format = Type.Union(WEBHOOK_FORMATS.map(format => Type.Literal(format)), {
  must: 'be jetpost or resend',
  description: 'How events are worded, for good: as Jetpost does, or as Resend does, one event a request. `jetpost` ' +
    'when left out.'
})
const BODY = { must: MUST_BE_OBJECT, additionalProperties: false }

const CreateRequest = Type.Object({
  url: settings.url,
  events: settings.events,
  paused: Type.Optional(settings.paused),
  concurrency: Type.Optional(settings.concurrency),
  batch: Type.Optional(settings.batch),
  every_deferral: Type.Optional(settings.every_deferral),
  bounces: Type.Optional(settings.bounces),
  mode: Type.Optional(settings.mode),
  format: Type.Optional(Format),
  start_at: Type.Optional(
    timeText('Events from then on are sent, also past ones as far back as they are kept. Now when left out.')
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
    Type.Literal('enabled', { description: 'Enables an endpoint that was disabled: it gets events from now on.' })
  )
}, { ...BODY, examples: [{ paused: true }, { url: 'https://example.com/new', status: 'enabled' }, { batch: null }] })

const RotateRequest = orNothing(
  Type.Object({
    finish: Type.Optional(
      Type.Boolean({ description: 'True ends the overlap of the last rotation, without a new one.' })
    )
  }, { additionalProperties: false }),
  [{}, { finish: true }]
)

const TestRequest = orNothing(
  Type.Object({
    type: Type.Optional(
      Type.Union(EventTypeSchema.anyOf, {
        description: 'Type of the event. The first one the endpoint subscribes to when left out.'
      })
    )
  }, { additionalProperties: false }),
  [{}, { type: 'email.bounced' }]
)

const EXAMPLE = {
  id: 'wh_01m7ysd3m7q1t5w9y2a6c0e4gj',
  url: 'https://example.com/hooks',
  events: ['email.delivered', 'email.bounced'],
  paused: false,
  concurrency: null,
  batch: null,
  every_deferral: false,
  bounces: 'all',
  mode: 'both',
  format: 'jetpost',
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
  bounces: settings.bounces,
  mode: settings.mode,
  format: Format,
  start_at: Type.String({ description: 'It gets events from then on.' }),
  status: Type.Union([Type.Literal('enabled'), Type.Literal('disabled')], {
    description: '`disabled`: nothing is sent. See `paused` too.'
  }),
  disabled_reason: Type.Union([Type.Literal('gone'), Type.Literal('failing'), Type.Null()], {
    description: '`gone` = it answered 410. `failing` = every request failed for five days.'
  }),
  failing_since: Type.Union([Type.String(), Type.Null()], {
    description: 'Since when every request has failed, once that is 15 minutes. `null` = it works, as far as is known.'
  }),
  secret_rotation: Type.Union([Type.Object({ previous_expires_at: Type.String() }), Type.Null()], {
    description: 'While both secrets sign: when the previous one stops. `null` = no rotation is under way.'
  }),
  created_at: Type.String()
}, { examples: [EXAMPLE] })
const Secret = Type.String({ description: 'The signing secret, shown only here.' })
const CreateAnswer = Type.Composite([WebhookAnswer, Type.Object({ secret: Secret })], {
  examples: [{ ...EXAMPLE, secret: 'whsec_…' }]
})
const RotateAnswer = Type.Composite([WebhookAnswer, Type.Object({ secret: Type.Optional(Secret) })], {
  examples: [{ ...EXAMPLE, secret_rotation: { previous_expires_at: '2026-11-23T08:00:00.000Z' }, secret: 'whsec_…' }]
})
const TestAnswer = Type.Object({ id: Type.String({ description: "The event's id." }), delivery_id: Type.String() }, {
  examples: [{ id: 'ev_01m7ysf2k8q3w5r7t9y1z3x5c7', delivery_id: 'whd_5tq2h8c0n4r7k1m3v6e9a2j8gb' }]
})

/** What other settings decide. */
export const WEBHOOK_FIELDS = { not_supported: 'batch' }
const TEST_KEYS_TEXT = 'A test key makes and changes endpoints of mode `test` alone.'

export function webhookRoutes (app: Api, services: Services): void {
  const answerOf = (webhook: WebhookEntry) => describeWebhook(webhook, services.factLog.clock.nowMs())
  const urlFaults = (request: FastifyRequest) =>
    textFaults(request, 'url', url => targetFault(services.settings, request.principal!.account, url))
  const routes = new ResourceRoutes(app, services, {
    kind: 'webhook',
    tag: 'Webhooks',
    testKeys: true,
    scopes: { read: 'webhooks:read', write: 'webhooks:write' },
    prefix: 'wh',
    schema: WebhookAnswer,
    answerOf
  })

  routes.write('POST', '/webhooks', ['createWebhook', 'Create a webhook endpoint', TEST_KEYS_TEXT], {
    schema: { body: CreateRequest, response: { 201: CreateAnswer } },
    errors: [409],
    faults: async request => [
      ...urlFaults(request),
      ...startFaults(request, await keptSince(request, services))
    ],
    act: request => createWebhook(services, askerOf(request), newWebhookOf(request.body)),
    fieldOf: WEBHOOK_FIELDS,
    location: ({ webhook }) => `/api/webhooks/${webhook.id}`,
    tell: ({ webhook, secret }) => ({ ...answerOf(webhook), secret })
  })
  routes.list('/webhooks', ['listWebhooks', 'List webhook endpoints'])
  routes.get('/webhooks/:id', ['getWebhook', 'Get a webhook endpoint'])
  routes.write('PATCH', '/webhooks/:id', [
    'updateWebhook',
    'Change, pause, resume or enable a webhook endpoint',
    TEST_KEYS_TEXT
  ], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: WebhookAnswer } },
    errors: [404, 409],
    faults: urlFaults,
    act: request => changeWebhook(services, askerOf(request), request.params.id, changesOf(request.body)),
    fieldOf: WEBHOOK_FIELDS,
    tell: ({ webhook }) => answerOf(webhook)
  })
  routes.write('DELETE', '/webhooks/:id', ['deleteWebhook', 'Delete a webhook endpoint'], {
    schema: { params: IdParams, response: { 204: Type.Null() } },
    errors: [404, 409],
    act: request => deleteWebhook(services, askerOf(request), request.params.id),
    tell: () => null
  })
  signingRoutes(routes, services)
}

function signingRoutes (routes: ResourceRoutes<'webhook', Static<typeof WebhookAnswer>>, services: Services): void {
  routes.write('POST', '/webhooks/:id/rotate-secret', [
    'rotateWebhookSecret',
    'Rotate the signing secret of a webhook endpoint',
    'For 24 hours both secrets sign in webhook-signature, and X-Service-Signature keeps the old one. ' +
    'Another rotation is refused until then.'
  ], {
    schema: { params: IdParams, body: RotateRequest, response: { 200: RotateAnswer } },
    errors: [404, 409],
    async act (request) {
      const rotate = request.body?.finish === true ? finishRotation : rotateSecret
      return await rotate(services, askerOf(request), request.params.id)
    },
    tell: ({ webhook, seq: _seq, ...secret }) => ({
      ...describeWebhook(webhook, services.factLog.clock.nowMs()),
      ...secret
    })
  })
  routes.write('POST', '/webhooks/:id/test', [
    'testWebhook',
    'Send a test event to a webhook endpoint',
    'Sends a made-up event, with `data.test` true, signed and retried like any other.'
  ], {
    schema: { params: IdParams, body: TestRequest, response: { 202: TestAnswer } },
    errors: [404, 409],
    act: request => testWebhook(services, askerOf(request), request.params.id, request.body?.type),
    tell: ({ event, delivery }) => ({ id: event, delivery_id: delivery })
  })
}

/** Unix ms: the time of the oldest event that may be kept, if past ones are wanted; else now. Throws what
 *  `isUnanswered` knows. */
async function keptSince (request: FastifyRequest, { factLog: { bus, clock } }: Services): Promise<number> {
  const { start_at: startAt } = (request.body ?? {}) as { start_at?: unknown }
  const nowMs = clock.nowMs()
  const startMs = typeof startAt === 'string' ? parseTime(startAt) : null
  return startMs === null || startMs >= nowMs ? nowMs : nowMs - await ageMsMax(bus, 'EMAILS')
}

const START_MS_MAX = Date.UTC(9999, 11, 31)

function startFaults (request: FastifyRequest, keptSinceMs: number): FieldFault[] {
  return textFaults(request, 'start_at', text => {
    const refuse = (code: string, must: string) => new Refusal(code, `start_at must ${must}.`)
    const ms = parseTime(text)
    if (ms === null) return refuse('invalid_value', MUST_BE_TIME)
    if (ms > START_MS_MAX) return refuse('too_late', 'be before 9999-12-31')
    const since = new Date(keptSinceMs).toISOString()
    return ms < keptSinceMs ? refuse('too_early', `be ${since} or later: older events are not kept`) : null
  })
}

export const WEBHOOK_DEFAULTS = {
  paused: false,
  concurrency: null,
  batch: null,
  everyDeferral: false,
  bounces: 'all' as const,
  mode: 'both' as const
}

function newWebhookOf ({ start_at: startAt, ...body }: Static<typeof CreateRequest>) {
  const start = startAt === undefined ? {} : { startAt: timestamp(parseTime(startAt)!) }
  return { ...WEBHOOK_DEFAULTS, ...settingsOf(body), ...start }
}

function changesOf ({ status, ...body }: Static<typeof ChangeRequest>): WebhookChanges {
  return { ...settingsOf(body), ...(status === undefined ? {} : { enabled: true }) }
}

type RequestSettings = Partial<
  Pick<Static<typeof CreateRequest>, 'paused' | 'concurrency' | 'batch' | 'every_deferral' | 'bounces' | 'mode'>
>

/** The settings of a request as facts have them. */
function settingsOf<Body extends RequestSettings> ({ batch, every_deferral: everyDeferral, ...plain }: Body) {
  return {
    ...plain,
    ...(batch === undefined
      ? {}
      : { batch: batch === null ? null : { maxEvents: batch.max_events, maxWaitMs: batch.max_wait_ms } }),
    ...(everyDeferral === undefined ? {} : { everyDeferral })
  }
}

export function describeWebhook (webhook: WebhookEntry, nowMs: number): Static<typeof WebhookAnswer> {
  const { id, url, events, paused, concurrency, batch, everyDeferral, bounces, mode, format } = webhook
  const { startAt, createdAt, disabled, failingSince } = webhook
  const overlap = overlapOf(webhook, nowMs)
  return {
    id,
    url,
    events,
    paused,
    concurrency,
    batch: batch === null ? null : { max_events: batch.maxEvents, max_wait_ms: batch.maxWaitMs },
    every_deferral: everyDeferral,
    bounces,
    mode,
    format,
    start_at: startAt,
    status: disabled === null ? 'enabled' : 'disabled',
    disabled_reason: disabled as 'gone' | 'failing' | null,
    failing_since: failingSince,
    secret_rotation: overlap === null ? null : { previous_expires_at: timestamp(overlap.untilMs) },
    created_at: createdAt
  }
}
