import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Refusal } from '#streams/define.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import type { WebhookChanges } from '#streams/webhook/decide.ts'
import { EVENT_TYPES, URL_LENGTH_MAX, type BounceChoice, type EventType } from '#streams/webhook/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { changeWebhook, createWebhook, deleteWebhook, rotateSecret, targetFault } from '#src/actions/webhook.ts'
import type { Api } from '../context.ts'
import { askerOf, IdParams, MUST_BE_OBJECT, textFaults } from '../params.ts'
import { ResourceRoutes } from '../resource.ts'
import { WEBHOOK_DEFAULTS } from '../webhooks.ts'
import { AnAnswer, resendList } from './resources.ts'

const DELAYED = 'email.delivery_delayed'
const SENT = [...EVENT_TYPES, DELAYED]
/** What else Resend sends, as far as its families are known. */
const FAMILY = '^(email|contact|domain|suppression|topic|inbox)\\.'
const Events = Type.Array(Type.String({ pattern: FAMILY, must: 'be an event type of Resend' }), {
  minItems: 1,
  maxItems: 100,
  noun: 'event type'
})
const settings = {
  endpoint: Type.String({ maxLength: URL_LENGTH_MAX }),
  events: Events,
  status: Type.Union([Type.Literal('enabled'), Type.Literal('disabled')], { must: 'be enabled or disabled' })
}
const CreateRequest = Type.Object({ endpoint: settings.endpoint, events: Events }, { must: MUST_BE_OBJECT })
const ChangeRequest = Type.Partial(Type.Object(settings), { must: MUST_BE_OBJECT })

const FIELDS = { no_events: 'events', not_supported: 'events' }

/** Endpoints that are made here get their events in Resend's words. */
export function resendWebhookRoutes (app: Api, services: Services): void {
  const faults = (request: FastifyRequest) =>
    textFaults(request, 'endpoint', url => inResend(targetFault(services.settings, request.principal!.account, url)))
  const routes = new ResourceRoutes(app, services, {
    kind: 'webhook',
    tag: 'Webhooks',
    testKeys: true,
    scopes: { read: 'webhooks:read', write: 'webhooks:write' },
    prefix: 'wh',
    schema: AnAnswer,
    answerOf: webhook => ({ object: 'webhook', ...webhookOf(webhook) })
  })

  routes.write('POST', '/webhooks', ['createWebhook', 'Create a webhook endpoint'], {
    schema: { body: CreateRequest, response: { 201: AnAnswer } },
    errors: [],
    faults,
    async act (request) {
      const { endpoint: url, events } = request.body
      const wanted = eventsIn(events)
      if (wanted instanceof Refusal) return wanted
      const mode = request.principal!.test ? 'test' : 'both'
      return await createWebhook(services, askerOf(request), {
        ...WEBHOOK_DEFAULTS,
        ...wanted,
        url,
        mode,
        format: 'resend'
      })
    },
    fieldOf: FIELDS,
    tell: opened
  })
  resendList(app, services, '/webhooks', { kind: 'webhook', scope: 'webhooks:read', answerOf: webhookOf })
  routes.get('/webhooks/:id', ['getWebhook', 'Get a webhook endpoint'])
  routes.write('PATCH', '/webhooks/:id', ['updateWebhook', 'Change a webhook endpoint'], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: AnAnswer } },
    errors: [],
    faults,
    async act (request) {
      const changes = changesIn(request.body)
      return changes instanceof Refusal
        ? changes
        : await changeWebhook(services, askerOf(request), request.params.id, changes)
    },
    fieldOf: FIELDS,
    tell: ({ webhook }) => ({ object: 'webhook', id: webhook.id })
  })
  endRoutes(routes, services)
}

function endRoutes (routes: ResourceRoutes<'webhook', Record<string, unknown>>, services: Services): void {
  routes.write('DELETE', '/webhooks/:id', ['deleteWebhook', 'Delete a webhook endpoint'], {
    schema: { params: IdParams, response: { 200: AnAnswer } },
    errors: [],
    async act (request) {
      const { id } = request.params
      const deleted = await deleteWebhook(services, askerOf(request), id)
      return deleted instanceof Refusal ? deleted : { ...deleted, id }
    },
    tell: ({ id }) => ({ object: 'webhook', id, deleted: true })
  })
  routes.write('POST', '/webhooks/:id/signing-secret/rotate', ['rotateWebhookSecret', 'Rotate the signing secret'], {
    schema: { params: IdParams, response: { 200: AnAnswer } },
    errors: [],
    act: async request => await rotateSecret(services, askerOf(request), request.params.id),
    tell: opened
  })
}

function opened ({ webhook, secret }: { webhook: WebhookEntry, secret: string }) {
  return { object: 'webhook', id: webhook.id, signing_secret: secret }
}

/** The rule's words with Resend's name of the field. */
function inResend (fault: Refusal | null): Refusal | null {
  return fault === null ? null : new Refusal(fault.code, fault.message.replace(/^url\b/, 'endpoint'))
}

interface WantedEvents {
  events: EventType[]
  bounces: BounceChoice
}

/** What Jetpost sends of these types; refuses where that is nothing. */
function eventsIn (types: readonly string[]): WantedEvents | Refusal {
  const events = EVENT_TYPES.filter(type =>
    types.includes(type) || (type === 'email.bounced' && types.includes(DELAYED))
  )
  if (events.length === 0) {
    return new Refusal('no_events', `events must have at least one of those that Jetpost sends: ${SENT.join(', ')}.`)
  }
  const [final, deferred] = [types.includes('email.bounced'), types.includes(DELAYED)]
  return { events: [...events], bounces: final === deferred ? 'all' : final ? 'final' : 'deferred' }
}

function changesIn ({ endpoint, events, status }: Static<typeof ChangeRequest>): WebhookChanges | Refusal {
  const wanted = events === undefined ? {} : eventsIn(events)
  if (wanted instanceof Refusal) return wanted
  return {
    ...(endpoint === undefined ? {} : { url: endpoint }),
    ...wanted,
    ...(status === undefined ? {} : { paused: status === 'disabled' }),
    ...(status === 'enabled' ? { enabled: true } : {})
  }
}

/** Without the secret, which is shown once. */
function webhookOf ({ id, url, events, bounces, paused, disabled, createdAt }: WebhookEntry) {
  return {
    id,
    created_at: createdAt,
    status: paused || disabled !== null ? 'disabled' : 'enabled',
    endpoint: url,
    events: events.flatMap(type => (type === 'email.bounced' ? BOUNCES[bounces] : [type]))
  }
}

const BOUNCES: Record<BounceChoice, string[]> = {
  all: ['email.bounced', DELAYED],
  final: ['email.bounced'],
  deferred: [DELAYED]
}
