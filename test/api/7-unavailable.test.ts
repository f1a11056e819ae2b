import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { emptyDirectory, type Key, type Webhook } from '#streams/directory.ts'
import type { Services } from '#src/actions/services.ts'
import { systemClock } from '#src/base/clock.ts'
import { deadline } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { createVault, sha256Hex } from '#src/base/secret.ts'
import { buildHttp } from '#src/http.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { createMetrics } from '#src/servers/ops/metrics.ts'
import { Conflict, LogUnavailable } from '#src/nats/errors.ts'
import { API_KEY, FROM } from '../support/app.ts'

const key: Key = {
  id: 'key_1',
  account: 'acc_1',
  name: 'k',
  hash: sha256Hex(API_KEY),
  hint: '',
  previous: null,
  test: false,
  scopes: ['full'],
  domains: ['*'],
  expiresMs: null,
  defaults: NO_DEFAULTS,
  limits: {},
  createdAt: ''
}
const webhook: Webhook = {
  id: 'wh_1',
  account: 'acc_1',
  url: 'https://a.example',
  events: ['email.delivered'],
  paused: false,
  concurrency: null,
  batch: null,
  everyDeferral: false,
  sealedSecret: '',
  previous: null,
  startAt: '',
  createdAt: '',
  failingSince: null,
  workedAt: null,
  disabled: null
}
const settings = {
  webhookAllowPrivate: true,
  requireVerifiedDomains: false,
  bounceDomain: null,
  contentRetentionMs: 30 * 86_400_000
}
const suppressions = { standing: async (_account: string, addresses: string[]) => addresses.map(() => []) }
const mail = { from: FROM, to: 'ada@example.com', subject: 's', text: 't' }
const hook = { url: 'https://a.example/hook', events: ['email.delivered'] }

/** How the servers behind the API do. */
interface Trouble {
  catchUp?: boolean
  /** What storing large content does; without it, it is stored. */
  put?: () => Promise<void>
  /** What an append does; without it the fact is stored. */
  append?: () => Promise<number[]>
  caughtUp?: () => Promise<boolean>
}

/** The HTTP side alone: what lies behind it fails as told, which no real server does on command. */
function server (
  { catchUp = true, put = async () => {}, append = async () => [7], caughtUp = async () => false }: Trouble
) {
  const now = emptyDirectory()
  now.keysByHash.set(key.hash, key)
  now.webhooks.set(webhook.id, webhook)
  const directory = { now, catchUp: async () => catchUp, reached: async () => catchUp }
  const appenders = { clock: systemClock, requests: { append }, control: { append }, bus: { nc: {} } }
  const services = {
    directory,
    appenders,
    vault: createVault('x'.repeat(32)),
    settings,
    suppressions,
    blobs: { put }
  } as unknown as Services
  const reads = { pool: {}, checkpoints: { caughtUp } } as unknown as Reads
  const counters = { count: async () => ({ position: 1, exact: true }), inexact: () => 0 }
  return buildHttp({
    api: { services, counters, reads },
    operations: null,
    catcher: null,
    checks: [],
    metrics: createMetrics(),
    publicUrl: 'http://localhost:8080',
    trustProxy: [],
    log: createLog('silent')
  })
}

async function ask (method: 'GET' | 'POST' | 'DELETE', url: string, body: object | undefined, trouble: Trouble) {
  const http = server(trouble)
  const answer = await http.inject({ method, url, headers: { authorization: `Bearer ${API_KEY}` }, payload: body })
  await http.close()
  return answer
}

t.test('a line that was opened ahead, and not used yet, holds up no stop; a request that is on its way is answered', async t => {
  const stored = Promise.withResolvers<void>()
  const http = server({
    append: async () => {
      await stored.promise
      return [7]
    }
  })
  const url = new URL(await http.listen({ host: '127.0.0.1', port: 0 }))
  const ahead = connect(Number(url.port), url.hostname)
  await once(ahead, 'connect')
  const asked = fetch(new URL('/api/emails', url), {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(mail)
  })
  await once(http.server, 'request')
  const closing = http.close()
  await once(ahead, 'close')
  stored.resolve()
  t.equal((await asked).status, 202)
  await closing
})

t.test('7 every 503 has Retry-After and the headers of every answer', async t => {
  const gone = {
    append: async () => {
      throw new LogUnavailable('away', false)
    }
  }
  for (
    const answer of await Promise.all([
      ask('GET', '/api/emails', undefined, {}),
      ask('GET', '/api/webhooks', undefined, { catchUp: false }),
      ask('POST', '/api/emails', mail, gone)
    ])
  ) {
    t.equal(answer.statusCode, 503)
    for (const header of ['retry-after', 'x-ratelimit-limit', 'x-request-id']) t.ok(answer.headers[header], header)
  }
})

t.test('7 a node that is behind the log says so instead of denying a write: 503 projection_behind', async t => {
  for (
    const [method, url] of [['GET', '/api/webhooks'], ['GET', '/api/webhooks/wh_1'], [
      'DELETE',
      '/api/webhooks/wh_2'
    ]] as const
  ) {
    const answer = await ask(method, url, undefined, { catchUp: false })
    t.equal(answer.statusCode, 503, `${method} ${url}`)
    t.equal(answer.json().code, 'projection_behind')
  }
  t.equal((await ask('GET', '/api/emails', undefined, {})).json().code, 'projection_behind')
})

t.test('7 what is stored is answered as stored, though this node has not seen it yet', async t => {
  const answer = await ask('POST', '/api/webhooks', hook, { catchUp: false })
  t.equal(answer.statusCode, 201)
  t.match(answer.json(), { secret: /^whsec_/ })
})

t.test('7 503 log_unavailable tells whether it may have been accepted', async t => {
  const refused = await ask('POST', '/api/emails', mail, {
    append: async () => {
      throw new LogUnavailable('full', false)
    }
  })
  t.strictSame(refused.json(), { error: 'The log cannot take this now', code: 'log_unavailable' })
  const unsure = await ask('POST', '/api/emails', mail, {
    append: async () => {
      throw new LogUnavailable('late', true)
    }
  })
  t.equal(unsure.statusCode, 503)
  t.strictSame(unsure.json(), {
    error: 'It may have been accepted: look before sending again',
    code: 'log_unavailable'
  })
})

t.test('7 a store that is silent, and others who were quicker, are no fault of ours', async t => {
  const large = { ...mail, text: 'x'.repeat(600_000) }
  const silent = await ask('POST', '/api/emails', large, {
    put: () => deadline(new Promise(() => {}), 10, 'the object store did not answer in time')
  })
  t.equal(silent.statusCode, 503)
  t.match(silent.json(), { code: 'log_unavailable' })
  const rivals = await ask('POST', '/api/webhooks', hook, {
    append: async () => {
      throw new Conflict('moved on')
    }
  })
  t.equal(rivals.statusCode, 409)
  t.match(rivals.json(), { code: 'conflict' })
})

t.test('7 a PostgreSQL that says nothing makes a read wait 2 s and no longer', async t => {
  const beginMs = performance.now()
  const answer = await ask('GET', '/api/emails', undefined, { caughtUp: () => new Promise(() => {}) })
  t.equal(answer.statusCode, 503)
  t.equal(answer.json().code, 'view_unavailable')
  t.ok(performance.now() - beginMs < 4000)
})
