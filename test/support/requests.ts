import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { TestApp } from './app.ts'
import { until } from './wait.ts'

/** What goes into a request. Without `body` it is the first example of the document. */
export interface Call {
  params?: Record<string, string>
  /** Without the question mark. */
  query?: string
  body?: unknown
  /** In place of a body, for an operation that takes no JSON. */
  raw?: string
  headers?: Record<string, string>
}

type Make = (app: TestApp) => Promise<Call>

/** How to get an operation to do its work, and to answer what not every operation can. */
export interface Recipe {
  /** A request that succeeds, whatever it is about made before. May be made any number of times. */
  valid: Make
  /** Status → a request that is answered with it, or why a test of the API alone cannot have it. */
  also?: Record<number, Make | string>
}

const simply: Make = async () => ({})
let made = 0
const fresh = (text: string): string => text.replace('#', String(++made))
const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString()

/** What POST answers; throws when it is no success. */
async function post (app: TestApp, path: string, body?: unknown): Promise<any> {
  const answer = await app.request('POST', path, { body })
  if (answer.status >= 300) throw new Error(`POST ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`)
  return answer.body
}

/** The id of a new thing. */
const created = (path: string, body: () => unknown): Make => async app => ({
  params: { id: (await post(app, path, body())).id }
})

const sent: Make = async app => ({ params: { id: (await app.send()).body.id } })
const scheduled: Make = async app => ({ params: { id: (await app.send({ scheduled_at: inHours(1) })).body.id } })
const delivered: Make = async app => {
  const { body: { id } } = await app.send()
  await app.settled(id, 'delivered')
  return { params: { id } }
}
const undelivered: Make = async app => {
  const address = fresh('gone-#@example.com')
  await post(app, '/api/suppressions', { address })
  const { body: { id } } = await app.send({ to: address })
  await app.settled(id, 'suppressed')
  await app.request('DELETE', `/api/suppressions/${address}`)
  return { params: { id } }
}

const newDomain = (): Call => ({ body: { name: fresh('d#.example') } })
const newSuppression = (): Call => ({ body: { address: fresh('s-#@example.com') } })
const domain = created('/api/domains', () => newDomain().body)
const newUser = (): Call => ({ body: { email: fresh('u-#@example.com'), role: 'viewer' } })
const user = created('/api/users', () => newUser().body)
const key = created('/api/keys', () => ({ name: fresh('Key #'), scopes: ['emails:send'], domains: ['*'] }))
/** Nobody listens there. */
const HOOK = 'http://127.0.0.1:9/'
const feedbackSource = created('/api/feedback-sources', () => ({ provider: 'postmark', name: fresh('Relay #') }))
const account = created('/api/accounts', () => ({ name: fresh('Account #') }))
/** That no mail takes. */
const newRoute = () => ({ name: fresh('r#'), url: 'smtp://127.0.0.1:9', match: { tags: ['of-no-mail'] } })
const route = created('/api/routes', newRoute)
const webhook = created('/api/webhooks', () => ({ url: HOOK, events: ['email.delivered'] }))
const template = created(
  '/api/templates',
  () => ({ name: fresh('Template #'), subject: 'Hello {{name}}', html: '<p>Hello {{name}}</p>' })
)
/** That of another. */
const layout: Make = async app => {
  const { id } = await post(app, '/api/templates', { name: 'Layout', html: '<main>{{{content}}}</main>' })
  await post(app, '/api/templates', { name: 'Inside', subject: 'Hello', html: '<p>Hello</p>', layout_id: id })
  return { params: { id } }
}
const suppression: Make = async app => ({
  params: { address: (await post(app, '/api/suppressions', newSuppression().body)).address }
})

const uploaded = (raw: string): Call => ({ raw, headers: { 'content-type': 'text/csv' } })

const RIVALS = 'only when others change it at the same moment, again and again'
const TOO_MANY = 'takes more of them than this test should make: the tests of the operation have it'

/** The same request twice: the second is the one to look at. */
const twice = (path: string, make: () => Call): Make => async app => {
  const call = make()
  await post(app, path, call.body)
  return call
}

const fixed: Make = async app => {
  const { body } = await app.request('GET', '/api/keys?limit=100')
  return { params: { id: body.data.find((key: { name: string }) => key.name === 'JETPOST_API_KEY').id } }
}
const rotated: Make = async app => {
  const call = await webhook(app)
  await post(app, `/api/webhooks/${call.params!.id}/rotate-secret`, {})
  return call
}
const inRotation: Make = async app => {
  const call = await domain(app)
  await post(app, `/api/domains/${call.params!.id}/rotate-dkim`)
  return call
}
const paused = created('/api/webhooks', () => ({ url: HOOK, events: ['email.delivered'], paused: true }))

const delivery: Make = async app => {
  const { id } = (await webhook(app)).params!
  return { params: { id: (await post(app, `/api/webhooks/${id}/test`)).delivery_id } }
}
const orphan: Make = async app => {
  const hook = await webhook(app)
  const { delivery_id: id } = await post(app, `/api/webhooks/${hook.params!.id}/test`)
  await app.request('DELETE', `/api/webhooks/${hook.params!.id}`)
  return { params: { id } }
}
const lastHour = () => ({ what: 'failed', from: inHours(-1) })
/** Of a paused endpoint it waits. */
const replay: Make = async app => {
  const hook = await paused(app)
  return { params: { id: (await post(app, `/api/webhooks/${hook.params!.id}/replays`, lastHour())).id } }
}
const finished: Make = async app => {
  const hook = await webhook(app)
  const { id } = await post(app, `/api/webhooks/${hook.params!.id}/replays`, lastHour())
  await until(async () => (await app.request('GET', `/api/replays/${id}`)).body.state === 'done')
  return { params: { id } }
}
const DISABLED = 'takes an endpoint that is disabled: api/webhook-deliveries has it'

/** By operationId: an operation without an entry fails the test. */
export const recipes: Record<string, Recipe> = {
  sendEmail: { valid: simply },
  sendBatch: { valid: simply },
  listEmails: { valid: simply },
  getEmail: { valid: sent },
  getEmailContent: { valid: sent },
  getEmailRaw: { valid: sent },
  rescheduleEmail: {
    valid: async app => ({ ...await scheduled(app), body: { scheduled_at: inHours(2) } }),
    also: { 409: async app => ({ ...await delivered(app), body: { scheduled_at: inHours(2) } }) }
  },
  cancelEmail: { valid: scheduled, also: { 409: delivered } },
  retryEmail: { valid: undelivered, also: { 409: delivered } },

  listEvents: {
    valid: async app => {
      await delivered(app)
      return { query: 'type=email.delivered&type=email.bounced&limit=2' }
    }
  },

  createTemplate: { valid: simply, also: { 409: TOO_MANY } },
  listTemplates: { valid: simply },
  getTemplate: { valid: template },
  updateTemplate: {
    valid: template,
    also: { 409: async app => ({ ...await layout(app), body: { html: '<p>No place for content</p>' } }) }
  },
  deleteTemplate: { valid: template, also: { 409: layout } },
  listTemplateVersions: { valid: template },
  previewTemplate: { valid: template },

  createDomain: { valid: async () => newDomain(), also: { 200: twice('/api/domains', newDomain), 409: TOO_MANY } },
  listDomains: { valid: simply },
  getDomain: { valid: domain },
  updateDomain: { valid: domain, also: { 409: RIVALS } },
  deleteDomain: { valid: domain, also: { 409: RIVALS } },
  verifyDomain: { valid: domain, also: { 409: RIVALS } },
  rotateDomainKeys: { valid: domain, also: { 409: inRotation } },

  createKey: { valid: simply, also: { 409: TOO_MANY } },
  listKeys: { valid: simply },
  getKey: { valid: key },
  getMe: { valid: simply },

  createUser: { valid: async () => newUser(), also: { 409: twice('/api/users', newUser) } },
  listUsers: { valid: simply },
  getUser: { valid: user },
  updateUser: { valid: user, also: { 409: 'takes a user who asks: dashboard/people has it' } },
  deleteUser: {
    valid: user,
    also: {
      200: async app => ({ ...await user(app), query: 'with_keys=true' }),
      409: 'takes a user who asks: dashboard/people has it'
    }
  },
  createUserLink: { valid: user, also: { 409: 'takes a JETPOST_PUBLIC_URL with a path: api/users has it' } },

  createAccount: { valid: simply },
  listAccounts: { valid: simply },
  getAccount: { valid: account },
  updateAccount: { valid: account, also: { 409: RIVALS } },
  suspendAccount: { valid: account, also: { 409: async () => ({ params: { id: FIRST_ACCOUNT } }) } },
  resumeAccount: { valid: account, also: { 409: RIVALS } },
  createAccountKey: { valid: account, also: { 409: TOO_MANY } },

  createFeedbackSource: { valid: simply, also: { 409: TOO_MANY } },
  listFeedbackSources: { valid: simply },
  getFeedbackSource: { valid: feedbackSource },
  updateFeedbackSource: { valid: feedbackSource, also: { 409: RIVALS } },
  deleteFeedbackSource: { valid: feedbackSource, also: { 409: RIVALS } },
  rotateFeedbackSource: { valid: feedbackSource, also: { 409: RIVALS } },

  updateKey: {
    valid: async app => ({ ...await key(app), body: { name: 'Another name' } }),
    also: { 409: async app => ({ ...await fixed(app), body: { expires_at: null } }) }
  },
  deleteKey: { valid: key, also: { 200: async app => ({ ...await key(app), query: 'with_children=true' }) } },
  rotateKey: { valid: key, also: { 409: fixed } },

  createRoute: { valid: async () => ({ body: newRoute() }), also: { 409: TOO_MANY } },
  listRoutes: { valid: simply },
  getRoute: { valid: route },
  updateRoute: { valid: route, also: { 409: RIVALS } },
  deleteRoute: { valid: route, also: { 409: RIVALS } },
  createWebhook: { valid: simply, also: { 409: TOO_MANY } },
  listWebhooks: { valid: simply },
  getWebhook: { valid: webhook },
  updateWebhook: { valid: webhook, also: { 409: RIVALS } },
  deleteWebhook: { valid: webhook, also: { 409: RIVALS } },
  rotateWebhookSecret: { valid: webhook, also: { 409: rotated } },
  testWebhook: { valid: webhook, also: { 409: paused } },

  listDeliveries: { valid: simply },
  listWebhookDeliveries: { valid: webhook },
  getDelivery: { valid: delivery },
  replayDelivery: { valid: delivery, also: { 409: orphan } },
  createReplay: { valid: async app => ({ ...await webhook(app), body: lastHour() }), also: { 409: DISABLED } },
  countReplay: { valid: async app => ({ ...await webhook(app), body: lastHour() }), also: { 409: DISABLED } },
  listReplays: { valid: webhook },
  getReplay: { valid: replay },
  cancelReplay: { valid: replay, also: { 409: finished } },

  createSuppression: {
    valid: async () => newSuppression(),
    also: { 200: twice('/api/suppressions', newSuppression), 409: RIVALS }
  },
  listSuppressions: { valid: simply },
  getSuppression: { valid: suppression },
  deleteSuppression: { valid: suppression, also: { 409: RIVALS } },

  importSuppressions: { valid: async () => uploaded('address\nada@example.com\n'), also: { 409: RIVALS } },
  exportSuppressions: { valid: async () => ({ query: 'format=ndjson' }) },

  listAudit: { valid: async () => ({ query: 'action=key.created&limit=2' }) },
  exportAudit: { valid: async () => ({ query: 'format=ndjson' }) },

  createErasure: { valid: async () => newSuppression() },
  listErasures: { valid: simply },
  getErasure: { valid: created('/api/erasures', () => newSuppression().body) },

  getStats: {
    valid: async app => {
      await delivered(app)
      return { query: 'interval=hour&group_by=domain' }
    }
  }
}
