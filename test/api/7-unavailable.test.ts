import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { deadline } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { Conflict, LogUnavailable } from '#src/nats/errors.ts'
import { createMetrics } from '#src/servers/ops/metrics.ts'
import { API_KEY } from '../support/app.ts'
import { askFailing, failingServer, hook, mail, source, SOURCE_SECRET } from '../support/failing-server.ts'

t.test('an unused connection delays no stop, and a request under way is answered', async t => {
  const stored = Promise.withResolvers<void>()
  const http = failingServer({
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
      askFailing('GET', '/api/emails', undefined, {}),
      askFailing('GET', '/api/webhooks', undefined, { catchUp: false }),
      askFailing('POST', '/api/emails', mail, gone)
    ])
  ) {
    t.equal(answer.statusCode, 503)
    for (const header of ['retry-after', 'x-ratelimit-limit', 'x-request-id']) t.ok(answer.headers[header], header)
  }
})

t.test('a relay is told to come again while the log is away, and nothing else of it', async t => {
  const report = { RecordType: 'SpamComplaint', ID: 1, Email: 'ada@example.com', Metadata: { jetpost: 'em_0.0' } }
  const path = `/feedback/${source.id}/${SOURCE_SECRET}`
  const appended: object[] = []
  const there = await askFailing('POST', path, report, {
    append: async (...args: unknown[]) => {
      appended.push(...args[0] as object[])
      return [7]
    }
  })
  t.match(there, { statusCode: 200, body: '{"received":1}' })
  t.match(appended, [{ fact: { type: 'inbound.reported', data: { kind: 'complaint', address: 'ada@example.com' } } }])
  const away = await askFailing('POST', path, report, {
    append: async () => {
      throw new LogUnavailable('the place of the log', false)
    }
  })
  t.match(away, { statusCode: 503, body: '{"error":"Unavailable: try again."}' })
  t.ok(Number(away.headers['retry-after']) >= 1)
})

t.test('7 a node that is behind the log says so instead of denying a write: 503 projection_behind', async t => {
  for (
    const [method, url] of [['GET', '/api/webhooks'], ['GET', '/api/webhooks/wh_1'], [
      'DELETE',
      '/api/webhooks/wh_2'
    ]] as const
  ) {
    const answer = await askFailing(method, url, undefined, { catchUp: false })
    t.equal(answer.statusCode, 503, `${method} ${url}`)
    t.equal(answer.json().code, 'projection_behind')
  }
  t.equal((await askFailing('GET', '/api/emails', undefined, {})).json().code, 'projection_behind')
})

t.test('7 what is stored is answered as stored, though this node has not seen it yet', async t => {
  const behind = await askFailing('POST', '/api/webhooks', hook, { catchUp: false })
  t.match(behind.json(), { code: 'projection_behind' }, 'behind before it begins, it stores nothing')
  const answer = await askFailing('POST', '/api/webhooks', hook, { reached: false })
  t.equal(answer.statusCode, 201)
  t.match(answer.json(), { secret: /^whsec_/ })
})

t.test('7 503 tells whether it may have been accepted, and which email that is', async t => {
  const refused = await askFailing('POST', '/api/emails', mail, {
    append: async () => {
      throw new LogUnavailable('full', false)
    }
  })
  t.strictSame(refused.json(), { error: 'The log is unavailable: try again.', code: 'log_unavailable' })
  const late = {
    append: async () => {
      throw new LogUnavailable('late', true)
    }
  }
  const once = { 'idempotency-key': 'order-7' }
  for (
    const [path, body, headers, code, error] of [
      [
        '/api/emails',
        mail,
        once,
        'acceptance_unknown',
        'The email may have been accepted: repeat the request with the same Idempotency-Key.'
      ],
      [
        '/api/emails',
        mail,
        {},
        'acceptance_unknown',
        'The email may have been accepted: check before you send it again. With an ' +
        'Idempotency-Key you need not check.'
      ],
      [
        '/api/webhooks',
        hook,
        {},
        'log_unavailable',
        'The request may have been accepted: check before you send it again.'
      ]
    ] as const
  ) {
    const unsure = await askFailing('POST', path, body, late, headers)
    t.equal(unsure.statusCode, 503)
    const { email_id: id, ...said } = unsure.json()
    t.strictSame(said, { error, code }, path)
    t.equal(unsure.headers['retry-after'], code === 'acceptance_unknown' ? '10' : '2')
    if (code === 'acceptance_unknown') t.match(id, /^em_/, 'by it one can look')
  }
})

t.test('7 a store that is silent, and others who were quicker, are no fault of ours', async t => {
  const large = { ...mail, text: 'x'.repeat(600_000) }
  const silent = await askFailing('POST', '/api/emails', large, {
    put: () => deadline(new Promise(() => {}), 10, 'the object store did not answer in time')
  })
  t.equal(silent.statusCode, 503)
  t.match(silent.json(), { code: 'log_unavailable' })
  const rivals = await askFailing('POST', '/api/webhooks', hook, {
    append: async () => {
      throw new Conflict('moved on')
    }
  })
  t.equal(rivals.statusCode, 409)
  t.match(rivals.json(), { code: 'conflict' })
})

t.test('7 a PostgreSQL that says nothing makes a read wait 2 s and no longer', async t => {
  const beginMs = performance.now()
  const answer = await askFailing('GET', '/api/emails', undefined, { caughtUp: () => new Promise(() => {}) })
  t.equal(answer.statusCode, 503)
  t.equal(answer.json().code, 'projection_unavailable')
  t.ok(performance.now() - beginMs < 15_000)
})

const QUOTED = 'password authentication failed for user "secret_user" at db.internal'

t.test('/readyz says which part is not ready, and the log says why, once', async t => {
  const said = new Map<string, string>()
  const warn = ({ part, reason }: { part: string, reason: string }) =>
    said.set(part, `${said.get(part) ?? ''}${reason}`)
  const log = { ...createLog('silent'), warn } as never
  const checks = [
    { name: 'postgres', graceMs: 0, check: async () => QUOTED },
    { name: 'sender', graceMs: 0, check: () => null, details: () => ({ queued: 1 }) },
    {
      name: 'nats',
      graceMs: 0,
      check: () => {
        throw new Error(QUOTED)
      }
    }
  ]
  const http = failingServer({}, { checks, log })
  const answer = await http.inject({ url: '/readyz' })
  await http.inject({ url: '/readyz' })
  await http.close()
  t.equal(answer.statusCode, 503)
  t.notMatch(answer.body, /password|secret_user|internal/)
  t.match(answer.json(), {
    status: 'not_ready',
    parts: [{ name: 'postgres', ready: false, reason: String }, { name: 'sender', ready: true, queued: 1 }, {
      name: 'nats',
      ready: false
    }]
  })
  t.strictSame(said, new Map([['postgres', QUOTED], ['nats', QUOTED]]))
})

t.test('/readyz bears the trouble of a part for its grace; never of one that was not ready yet', async t => {
  const reasons: Record<string, string | null> = { bears: null, short: null }
  const checks = [
    { name: 'bears', graceMs: Infinity, check: () => reasons.bears! },
    { name: 'short', graceMs: 0, check: () => reasons.short! }
  ]
  const http = failingServer({}, { checks })
  const ask = async () => (await http.inject({ url: '/readyz' }))
  reasons.bears = 'it has not begun'
  t.match(await ask(), { statusCode: 503 })
  reasons.bears = null
  t.match(await ask(), { statusCode: 200 })
  reasons.bears = 'it elects a leader'
  const borne = await ask()
  t.match([borne.statusCode, borne.json()], [200, {
    status: 'ready',
    parts: [{ name: 'bears', ready: false, reason: String }, { name: 'short', ready: true }]
  }])
  reasons.short = 'it is gone'
  t.match(await ask(), { statusCode: 503 })
  await http.close()
})

t.test('what fails outside the API is a masked 500, also in /metrics', async t => {
  const metrics = createMetrics()
  metrics.registry.metrics = async () => {
    throw new Error(QUOTED)
  }
  const http = failingServer({}, { metrics })
  const answer = await http.inject({ url: '/metrics' })
  await http.close()
  t.equal(answer.statusCode, 500)
  t.match(answer.json(), { code: 'internal', request_id: /^req_/ })
  t.notMatch(answer.body, 'secret_user')
})

t.test('no answer of the API is cached; where clients come by https they are told to stay with it', async t => {
  for (const publicUrl of ['http://localhost:8080', 'https://jetpost.example.com']) {
    const http = failingServer({}, { publicUrl })
    const headers = { authorization: `Bearer ${API_KEY}` }
    const answers = await Promise.all([
      http.inject({ url: '/api/webhooks', headers }),
      http.inject({ url: '/api/webhooks' }),
      http.inject({ url: '/api/nowhere', headers }),
      http.inject({ url: '/healthz' })
    ])
    await http.close()
    t.strictSame(answers.map(({ statusCode }) => statusCode), [200, 401, 404, 200])
    for (const { headers } of answers.slice(0, 3)) t.equal(headers['cache-control'], 'no-store')
    const hsts = publicUrl.startsWith('https:') ? 'max-age=31536000' : undefined
    for (const { headers } of answers) t.equal(headers['strict-transport-security'], hsts)
  }
})
