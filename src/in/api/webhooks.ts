import { Type } from '@sinclair/typebox'
import { Refusal } from '#streams/define.ts'
import type { Webhook } from '#streams/directory.ts'
import { EventTypeSchema } from '#streams/webhook/facts.ts'
import type { Desk } from '#src/actions/desk.ts'
import { createWebhook, deleteWebhook } from '#src/actions/webhook.ts'
import { created, refuseFaults, type Api } from './context.ts'
import { conflict, invalid, notFound, unavailable } from './errors.ts'
import { ListQuery, pageOf } from './pages.ts'

const CreateRequest = Type.Object({
  url: Type.String({ maxLength: 2048, description: 'url is where events are POSTed to.' }),
  events: Type.Array(EventTypeSchema, { minItems: 1, uniqueItems: true, description: 'events is a list of event types, each once.' })
}, { additionalProperties: false, description: 'The body is a JSON object.' })

const WebhookAnswer = Type.Object({
  id: Type.String(),
  url: Type.String(),
  events: Type.Array(EventTypeSchema),
  status: Type.Union([Type.Literal('enabled'), Type.Literal('disabled')]),
  disabled_reason: Type.Union([Type.String(), Type.Null()]),
  created_at: Type.String()
})
const CreateAnswer = Type.Composite([WebhookAnswer, Type.Object({ secret: Type.String() })])
const ListAnswer = Type.Object({ data: Type.Array(WebhookAnswer), has_more: Type.Boolean(), next_cursor: Type.Union([Type.String(), Type.Null()]) })
const IdParams = Type.Object({ id: Type.String() })

/** How long a read waits for this node's directory to hold what was written before it came, and a write to hold what it wrote. */
const SEEN_MS = 2000

/** Endpoints are read from the directory in memory: a write on another node is caught up with before each read. */
export function webhookRoutes (app: Api, desk: Desk): void {
  app.post('/webhooks', {
    config: { scope: 'webhooks:write' },
    schema: { body: CreateRequest, response: { 201: CreateAnswer } },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request)
    const made = await createWebhook(desk, { account: request.key!.account, correlation: request.id }, request.body)
    if (made instanceof Refusal) throw refusalOf(made)
    await sawOwnWrite(desk, made.seq)
    created(reply, 201, `/api/webhooks/${made.webhook.id}`)
    return { ...answerOf(made.webhook), secret: made.secret }
  })

  app.get('/webhooks', {
    config: { scope: 'webhooks:read' },
    schema: { querystring: ListQuery, response: { 200: ListAnswer } },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    await seeAllWrites(desk)
    const own = [...desk.directory.now.webhooks.values()].filter(webhook => webhook.account === request.key!.account)
    return pageOf(own, request.query, answerOf)
  })

  app.get('/webhooks/:id', {
    config: { scope: 'webhooks:read' },
    schema: { params: IdParams, response: { 200: WebhookAnswer } }
  }, async request => {
    await seeAllWrites(desk)
    const webhook = desk.directory.now.webhooks.get(request.params.id)
    if (webhook === undefined || webhook.account !== request.key!.account) throw notFound()
    return answerOf(webhook)
  })

  app.delete('/webhooks/:id', {
    config: { scope: 'webhooks:write' },
    schema: { params: IdParams, response: { 204: Type.Null() } }
  }, async (request, reply) => {
    await seeAllWrites(desk)
    const deleted = await deleteWebhook(desk, { account: request.key!.account, correlation: request.id }, request.params.id)
    if (deleted instanceof Refusal) throw notFound()
    await sawOwnWrite(desk, deleted.seq)
    return reply.code(204).send(null)
  })
}

/** 503 when this node's directory stays behind the log: an answer from before somebody's write would deny it. */
async function seeAllWrites ({ directory }: Desk): Promise<void> {
  if (!await directory.catchUp(SEEN_MS)) throw unavailable('projection_behind', 'This node is behind the log')
}

/** The write is stored, whether this node sees it in time or not: a 503 would ask for a second one. The next read waits for it, or says 503. */
async function sawOwnWrite ({ directory }: Desk, seq: number): Promise<void> {
  await directory.reached(seq, SEEN_MS)
}

function refusalOf (refusal: Refusal): Error {
  if (refusal.code === 'too_many_webhooks') return conflict(refusal.code, refusal.message)
  return invalid([{ field: refusal.code.endsWith('_events') ? 'events' : 'url', code: refusal.code, message: refusal.message }])
}

function answerOf ({ id, url, events, disabled, createdAt }: Webhook) {
  return { id, url, events, status: disabled === null ? 'enabled' as const : 'disabled' as const, disabled_reason: disabled, created_at: createdAt }
}
