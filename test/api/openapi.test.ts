import { readdirSync, readFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { testEventBody } from '#streams/delivery/test-event.ts'
import type { Decision } from '#streams/email/decide.ts'
import { eventBody, eventOf } from '#streams/email/event.ts'
import type { Engagement } from '#streams/email/engagements.ts'
import { LIMIT_CLASSES, PARTS_OF_SCOPES, SCOPES, type Scope } from '#streams/key/facts.ts'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { signatureHeaders, signingKeys } from '#src/workers/webhooks/attempt.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { requested } from '../support/facts.ts'
import { API_KEY, startTestApp, type Answer } from '../support/app.ts'
import { createTally, lookUp, readDescription, referencesIn, type Operation } from '../support/openapi.ts'
import { recipes, type Call } from '../support/requests.ts'

const PUBLIC_URL = 'https://mail.example.com'
const app = await startTestApp(t, { env: { JETPOST_PUBLIC_URL: PUBLIC_URL, JETPOST_DOMAINS: 'example.com' } })
const answer = await app.request('GET', '/openapi.json', { key: null })
const described = readDescription(answer.body)
const { document, operations } = described
const tally = createTally()

t.test('the document is for anybody, and in no window', async t => {
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8')
  t.ok(answer.headers.get('x-request-id'))
  t.equal(answer.headers.get('x-ratelimit-limit'), null)
})

t.test('the document is OpenAPI 3.1: what it is about, where it is, how to get in', async t => {
  t.equal(document.openapi, '3.1.0')
  t.equal(document.info.version, packageJson.version)
  t.strictSame(document.info.license, { name: 'MIT', identifier: 'MIT' })
  t.strictSame(document.servers, [{ url: PUBLIC_URL }])
  t.match(document.components.securitySchemes.key, { type: 'http', scheme: 'bearer' })
  t.strictSame(Object.keys(document).sort(), [
    'components',
    'info',
    'openapi',
    'paths',
    'security',
    'servers',
    'tags',
    'webhooks'
  ])
})

t.test('every reference leads somewhere, and everything that is shared is used', async t => {
  const references = referencesIn(document)
  t.doesNotThrow(() => references.forEach(reference => lookUp(document, reference)))
  const shared = ['headers', 'parameters', 'responses', 'schemas'].flatMap(kind =>
    Object.keys(document.components[kind]).map(name => `#/components/${kind}/${name}`)
  )
  t.strictSame(shared.filter(name => !references.includes(name)), [])
  const links = operations.flatMap(({ responses }) =>
    [...responses.values()].flatMap(response => Object.values(response.links))
  )
  t.ok(links.length > 0)
  for (const { operationId, parameters } of links) {
    const names = operations.find(({ id }) => id === operationId)?.parameters.map(({ name }) => name) ?? []
    t.ok(Object.keys(parameters).every(name => names.includes(name)), `a link to ${operationId}`)
  }
})

t.test('every operation has a name of its own, words for people, its scope and its limit', async t => {
  t.equal(new Set(operations.map(({ id }) => id)).size, operations.length)
  for (const { id, summary, description, tags, scope, limitClass, path, parameters } of operations) {
    t.match(id, /^[a-z]+[A-Z][A-Za-z]+$/, `${id}: a name like listEmails`)
    t.match(summary, /^[A-Z].+[^.]$/, `${id}: a summary without a full stop`)
    for (const tag of tags) {
      t.ok(
        document.tags.find(({ name }: { name: string }) => name === tag)?.description,
        `${id}: the tag ${tag} is described in openapi-parts.ts`
      )
    }
    t.equal(tags.length, 1, `${id}: one tag`)
    t.ok(scope === null || (SCOPES.includes(scope as never) && description.includes(`\`${scope}\``)), `${id}: scope`)
    t.ok(LIMIT_CLASSES.includes(limitClass as never) && /\d+ requests a minute/.test(description), `${id}: limit`)
    const inPath = parameters.filter(parameter => parameter.in === 'path').map(({ name }) => `{${name}}`)
    t.strictSame(inPath, path.match(/\{\w+\}/g) ?? [], `${id}: the parameters of its path`)
  }
})

t.test('every schema is valid in strict mode, every body and success has an example that fits it', async t => {
  for (const { id, parameters, body, responses } of operations) {
    for (const { name, schema } of parameters) t.doesNotThrow(() => described.mismatch(schema, ''), `${id}: ${name}`)
    if (body !== null) t.ok(body.examples.length > 0, `${id}: its body has an example`)
    for (const example of body?.examples ?? []) {
      t.strictSame(described.mismatch(body!.schema, example), [], `${id}: example`)
    }
    for (const [status, { content, headers }] of responses) {
      for (const { schema } of Object.values(headers)) described.mismatch(schema, '')
      for (const [type, { schema = {}, example, examples = {} }] of Object.entries(content)) {
        const all = [...(example === undefined ? [] : [example]), ...Object.values(examples).map(({ value }) => value)]
        if (status < 300 && type === 'application/json') t.ok(all.length > 0, `${id}: its ${status} has an example`)
        t.strictSame(all.flatMap(value => described.mismatch(schema, value)), [], `${id}: examples of ${status}`)
        described.mismatch(schema, null)
      }
    }
  }
})

t.test('for generated clients numbers are integers, bodies are objects, other bodies have a type', async t => {
  const numbers = operations.flatMap(({ id, parameters }) =>
    parameters.filter(({ name }) => /^(limit|version|recipient)$/.test(name)).map(parameter => ({ id, ...parameter }))
  )
  t.ok(numbers.length >= 10)
  for (const { id, name, schema } of numbers) {
    t.match(schema, { type: 'integer', minimum: Number, maximum: Number }, `${id}: ${name}`)
  }
  for (const { id, body, responses } of operations) {
    const schema = body?.schema.$ref === undefined ? body?.schema : lookUp(document, body.schema.$ref)
    t.ok(body === null || schema?.type === 'object', `${id}: its body is an object, and may be left out or not`)
    const others = [...responses.values()].flatMap(({ content }) =>
      Object.entries(content).filter(([type]) => type !== 'application/json')
    )
    for (const [type, { schema }] of others) t.equal(schema?.type, 'string', `${id}: ${type}`)
  }
  const { content } = operations.find(({ id }) => id === 'getEmailRaw')!.responses.get(200)!
  t.strictSame(content, { 'message/rfc822': { schema: { type: 'string', format: 'binary' } } })
  const names = Object.keys(document.components.schemas).map(name => name.toLowerCase())
  t.equal(new Set(names).size, names.length, 'names differ, also where upper and lower case are the same')
})

t.test('a number in a query is written in digits, and in one way', async t => {
  for (const limit of ['1', '100']) t.equal((await app.request('GET', `/api/emails?limit=${limit}`)).status, 200, limit)
  for (const limit of ['0', '101', '-1', '05', '1.0', '1e1', '0x10', '+5', '%205', '', '9'.repeat(400), 'NaN']) {
    const answer = await app.request('GET', `/api/emails?limit=${limit}`)
    const message = 'limit must be a whole number from 1 to 100.'
    t.match(answer, { status: 422, body: { details: [{ field: 'limit', code: 'invalid_value', message }] } }, limit)
    t.equal(answer.body.details.length, 1)
  }
})

t.test('a body that may be left out is not null', async t => {
  const { body: { id } } = await app.request('POST', '/api/templates', { body: { name: 'Hello', text: 'Hello' } })
  const path = `/api/templates/${id}/preview`
  for (const options of [{}, { raw: '' }, { body: {} }]) {
    t.equal((await app.request('POST', path, options)).status, 200, JSON.stringify(options))
  }
  t.match(await app.request('POST', path, { body: null }), {
    status: 422,
    body: { details: [{ field: 'body', message: 'body must be a JSON object, or left out.' }] }
  })
})

t.test('every event has its webhook, with examples that fit', async t => {
  t.strictSame(Object.keys(document.webhooks), [...EVENT_TYPES, 'batch'])
  for (const type of EVENT_TYPES) {
    const { post: { operationId, security, requestBody: { content } } } = document.webhooks[type]
    const { schema, examples } = content['application/json']
    t.notOk(operations.some(({ id }) => id === operationId), `${operationId} is a name of its own`)
    t.strictSame(security, [], `${type} carries no key of ours`)
    t.ok(Object.values<{ value: any }>(examples).every(({ value }) => value.type === type), type)
    t.strictSame(
      Object.values<{ value: any }>(examples).flatMap(({ value }) => described.mismatch(schema, value)),
      [],
      type
    )
  }
})

t.test('a batch has its webhook, and so has what is in it', async t => {
  const { schema, examples } = document.webhooks.batch.post.requestBody.content['application/json']
  const bodies = Object.values<{ value: any }>(examples).map(({ value }) => value)
  t.ok(bodies.length > 0)
  for (const body of bodies) {
    t.strictSame(described.mismatch(schema, body), [])
    t.not(
      described.mismatch(schema, { ...body, events: [{ ...body.events[0], type: 'email.sent' }] }).length,
      0,
      'only events that there are'
    )
    t.not(described.mismatch(schema, { ...body, events: [] }).length, 0, 'never empty')
  }
})

t.test('when a webhook is tried again is said, also what becomes of one that fails and fails', async t => {
  const { description } = document.tags.find(({ name }: { name: string }) => name === 'Webhooks')
  t.match(description, /after 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 4 h, 6 h, 10 h,/)
  for (const word of [/24 hours/, /while few/, /probed, one request at a time/, /at most 30 min later/]) {
    t.match(description, word)
  }
})

t.test('what proves a webhook is described as it is sent', async t => {
  const [keys, previous] = ['a', 'b'].map(letter =>
    signingKeys(`whsec_${Buffer.from(letter.repeat(32)).toString('base64')}`)
  )
  for (const before of [null, previous!]) {
    const sent = signatureHeaders({
      keys: keys!,
      previous: before,
      id: 'ev_1',
      timestampS: 1_795_000_000,
      body: Buffer.from('{}')
    })
    for (const type of EVENT_TYPES) {
      const parameters = document.webhooks[type].post.parameters.map(({ $ref }: { $ref: string }) =>
        lookUp(document, $ref)
      )
      t.strictSame(parameters.map(({ name }: { name: string }) => name), Object.keys(sent))
      for (const { name, schema } of parameters) t.strictSame(described.mismatch(schema, sent[name]), [], name)
    }
  }
})

const TRANSACTION = { attempt: 1, host: 'mx.example.net', tls: null, via: 'mx' as const, ms: 9 }
const REPLY = { code: 550, enhanced: '5.1.1', text: '550 5.1.1 no such user' }
const NO_REPLY = { ...TRANSACTION, stage: 'connect' as const, reply: null }
/** Everything that an event is made of, with and without what may be missing. */
const HAPPENED: Array<Decision | Engagement> = [
  { type: 'email.delivered', data: { ...TRANSACTION, reply: { code: 250, enhanced: null, text: '250 ok' } } },
  {
    type: 'email.delivered',
    data: { ...TRANSACTION, via: 'relay', reply: { code: 250, enhanced: '2.0.0', text: '250 2.0.0 ok' } }
  },
  {
    type: 'email.bounced',
    data: { ...TRANSACTION, stage: 'rcpt', reply: REPLY, status: null, error: null, class: 'userunknown', report: null }
  },
  {
    type: 'email.bounced',
    data: {
      ...NO_REPLY,
      host: null,
      status: '5.1.10',
      error: 'example.net takes no mail',
      class: 'notaccept',
      report: null
    }
  },
  {
    type: 'email.bounced',
    data: {
      ...NO_REPLY,
      stage: 'data',
      status: '5.2.2',
      error: 'smtp; 552 5.2.2 mailbox full',
      class: 'mailboxfull',
      report: 'in_1'
    }
  },
  {
    type: 'email.bounced',
    data: { ...NO_REPLY, stage: 'data', status: null, error: null, class: 'undefined', report: 'in_1' }
  },
  {
    type: 'email.deferred',
    data: {
      ...TRANSACTION,
      stage: 'rcpt',
      reply: { ...REPLY, code: 451 },
      error: null,
      class: 'speeding',
      nextAttemptAt: '2026-11-21T10:05:00.000Z',
      first: true
    }
  },
  {
    type: 'email.deferred',
    data: {
      ...NO_REPLY,
      error: 'connect ECONNREFUSED',
      class: 'networkerror',
      nextAttemptAt: '2026-11-21T10:05:00.000Z',
      first: false
    }
  },
  { type: 'email.failed', data: { attempt: 3, reason: 'expired', detail: null } },
  { type: 'email.failed', data: { attempt: 0, reason: 'unsendable', detail: 'its content is gone' } },
  { type: 'email.opened', data: { machine: true } },
  { type: 'email.clicked', data: { url: 'https://shop.example/', machine: false } },
  { type: 'email.complained', data: { feedback: 'abuse', report: 'in_1' } },
  { type: 'email.unsubscribed', data: { by: 'one-click', report: null } }
]

/** An event as an endpoint gets it. */
function eventFor (happened: Decision | Engagement, fields: object): any {
  const recipient = { to: 'ada@example.net', messageId: '<em_1.0@example.com>', sequence: 2 }
  return JSON.parse(
    eventBody({
      id: 'ev_1',
      createdAt: '2026-11-21T10:00:00.000Z',
      ...eventOf(happened)!,
      request: requested({ email: 'em_1', ...fields }).data,
      recipient
    })
  )
}

t.test('real events have all that is described, and nothing else', async t => {
  const seen = new Map<string, Set<string>>()
  for (const happened of HAPPENED) {
    for (
      const fields of [{}, {
        template: { id: 'tpl_1', version: 2 },
        tags: ['a'],
        metadata: { text: 'x', number: 1.5, flag: true, none: null }
      }]
    ) {
      const event = eventFor(happened, fields)
      t.strictSame(described.mismatch(closed(schemaOf(event.type)), event), [], `${happened.type} as ${event.type}`)
      seen.set(event.type, new Set([...seen.get(event.type) ?? [], ...Object.keys(event.data)]))
    }
  }
  for (const type of EVENT_TYPES) {
    t.strictSame(
      [...seen.get(type) ?? []].sort(),
      Object.keys(schemaOf(type).properties.data.properties).filter(name => name !== 'test').sort(),
      `${type}: each key has been seen`
    )
  }
})

t.test('a test event is as the real ones are described', async t => {
  for (const type of EVENT_TYPES) {
    const event = JSON.parse(testEventBody({ id: 'ev_1', type, createdAt: '2026-11-21T10:00:00.000Z', email: 'em_1' }))
    t.strictSame(described.mismatch(closed(schemaOf(type)), event), [], type)
    t.strictSame(
      Object.keys(event.data.bounce ?? {}),
      Object.keys(schemaOf(type).properties.data.properties.bounce?.properties ?? {}),
      type
    )
  }
})

/** The schema of an event's body in the document. */
function schemaOf (type: string): any {
  return lookUp(document, document.webhooks[type].post.requestBody.content['application/json'].schema.$ref)
}

/** The schema with every object in it closed: to receivers it is open, since keys may be added. */
function closed (schema: any): any {
  if (typeof schema !== 'object' || schema === null) return schema
  if (Array.isArray(schema)) return schema.map(closed)
  const inside = Object.fromEntries(Object.entries(schema).map(([name, child]) => [name, closed(child)]))
  return schema.type === 'object' && schema.properties !== undefined
    ? { ...inside, additionalProperties: false }
    : inside
}

t.test('every route of the API is described, and nothing else', async t => {
  const folder = join(import.meta.dirname, '..', '..', 'src', 'servers', 'api')
  // resource.ts registers what others tell it; another dialect has a folder, and a description, of its own.
  const isOurs = (name: string) => name.endsWith('.ts') && !name.startsWith('openapi') && name !== 'resource.ts'
  const sources = readdirSync(folder).filter(isOurs).map(name => readFileSync(join(folder, name), 'utf8'))
  const routes = sources.flatMap(text => [
    ...[...text.matchAll(/\bapp\.(get|post|put|patch|delete)\(\s*'([^']+)'/g)].map(([, method, url]) => [method, url]),
    ...[...text.matchAll(/\broutes\.(?:list|get)\('([^']+)'/g)].map(([, url]) => ['get', url]),
    ...[...text.matchAll(/\broutes\.write\('([A-Z]+)', '([^']+)'/g)].map(([, method, url]) => [method, url])
  ]).map(([method, url]) => `${method!.toUpperCase()} /api${url!.replaceAll(/:(\w+)/g, '{$1}')}`)
  t.strictSame(operations.map(({ method, path }) => `${method} ${path}`).sort(), routes.sort())
  const unseen = [
    /\bapp\.(route|all|head|options)\b/,
    /\bapp\.(get|post|put|patch|delete)\b(?!\(\s*')/,
    /\broutes\.(list|get)\b(?!\(')/,
    /\broutes\.write\b(?!\('[A-Z]+', ')/
  ]
  t.notOk(
    sources.some(text => unseen.some(pattern => pattern.test(text))),
    'routes are written so that this test sees them'
  )
})

t.test('the methods of a path are the ones that its 405 allows', async t => {
  for (const path of Object.keys(document.paths)) {
    const asked = path.replaceAll(/\{\w+\}/g, 'x')
    const documented = operations.filter(operation => operation.path === path).map(({ method }) => method)
    const refused = await app.request('PROPFIND', asked)
    t.equal(refused.status, 405, path)
    t.equal(
      refused.headers.get('allow'),
      [...documented, ...(documented.includes('GET') ? ['HEAD'] : [])].sort().join(', '),
      path
    )
  }
})

interface Ask {
  key?: string | null
  headers?: Record<string, string>
  raw?: string
}

/** Sends a call and holds the answer against the document. */
async function ask (
  t: Test,
  operation: Operation,
  call: Call,
  status: number,
  { key = API_KEY, headers, raw = call.raw }: Ask = {}
): Promise<Answer> {
  const body = raw === undefined && operation.body !== null ? call.body ?? operation.body.examples[0] : undefined
  return note(
    t,
    operation,
    status,
    await app.request(operation.method, target(operation, call), {
      key,
      headers: { ...call.headers, ...headers },
      raw,
      body
    })
  )
}

function note (t: Test, operation: Operation, status: number, answer: Answer): Answer {
  tally.count(operation.id, answer.status)
  t.equal(
    answer.status,
    status,
    `${operation.id} ${status} ${STATUS_CODES[status]}${
      answer.status === status ? '' : `: ${JSON.stringify(answer.body)}`
    }`
  )
  t.strictSame(described.faultsOf(operation, answer), [], `${operation.id} ${answer.status} is as described`)
  return answer
}

function target ({ path }: Operation, { params = {}, query }: Call): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => encodeURIComponent(params[name] ?? 'x'))
  return query === undefined ? filled : `${filled}?${query}`
}

/** Lines that the usual client would not send. */
async function speak (head: string[]): Promise<Answer> {
  const text = await app.speak([...head, `Authorization: Bearer ${API_KEY}`, 'Connection: close', '', ''].join('\r\n'))
  const [lines, ...rest] = text.split('\r\n\r\n')
  const [first, ...fields] = lines!.split('\r\n')
  const headers = new Headers(
    fields.map(field =>
      [field.slice(0, field.indexOf(':')), field.slice(field.indexOf(':') + 1).trim()] as [string, string]
    )
  )
  return { status: Number(first!.split(' ')[1]), headers, body: JSON.parse(rest.join('\r\n\r\n')) }
}

const own = (await app.request('GET', '/api/keys?limit=100')).body.data.find((key: { name: string }) =>
  key.name === 'JETPOST_API_KEY'
)
await app.limitKey(own.id, Object.fromEntries(LIMIT_CLASSES.map(name => [name, 100_000])))

const without = new Map<string, Promise<{ secret: string }>>()
/** A key that may do everything but this, and what this is a part of. */
function keyWithout (scope: string): Promise<{ secret: string }> {
  const isWith = (name: Scope) =>
    name === scope || name === 'full' || PARTS_OF_SCOPES[name]?.includes(scope as Scope) === true
  const made = without.get(scope) ?? app.newKey({ scopes: SCOPES.filter(name => !isWith(name)) })
  without.set(scope, made)
  return made
}

const stranger = await app.newAccountKey()
const { secret: testKey } = await app.newKey({ test: true })
/** What a test key may do whatever the request: its mail goes to the mail catcher. */
const SENDING = ['sendEmail', 'sendBatch']

for (const operation of operations) {
  const { id, method, path, responses, body, uploads, scope, limitClass, parameters } = operation
  const recipe = recipes[id]
  const success = Math.max(...[...responses.keys()].filter(status => status < 300))

  t.test(`${method} ${path} does what ${id} says`, async t => {
    if (recipe === undefined) {
      return void t.fail(
        `${id} has no recipe: say in test/support/requests.ts how to make a request of it that succeeds.`
      )
    }
    const call = await recipe.valid(app)
    const reads = method === 'GET' || scope?.endsWith(':read') === true
    if (!reads && !SENDING.includes(id)) {
      // Recipes are about what a live key has made, and would make the like; after this, its own request succeeds.
      const refused = await ask(t, operation, call, 403, { key: testKey })
      t.match(
        refused.headers.get('www-authenticate'),
        /error_description="(A test key must only|A key cannot grant|The key must be a live key|.*and of its mode)/
      )
    }
    await ask(t, operation, call, success)
    await ask(t, operation, call, 401, { key: null })
    if (scope !== null) await ask(t, operation, call, 403, { key: (await keyWithout(scope)).secret })

    await t.test('malformed requests', async t => {
      const head = `${method} ${target(operation, call)} HTTP/1.1`
      note(t, operation, 400, await speak([head]))
      if (method === 'GET') return
      if (uploads === null) await ask(t, operation, call, 400, { raw: '{"a":' })
      note(
        t,
        operation,
        413,
        await speak([
          head,
          'Host: x',
          `Content-Type: ${uploads?.[0] ?? 'application/json'}`,
          `Content-Length: ${21 * 1024 * 1024}`
        ])
      )
      await ask(t, operation, call, 415, {
        raw: 'a=b',
        headers: { 'content-type': 'application/x-www-form-urlencoded' }
      })
    })

    const idempotent = parameters.some(({ name }) => name === 'Idempotency-Key')
    const keyed = await ask(t, operation, call, 422, { headers: { 'idempotency-key': idempotent ? 'é' : 'once' } })
    t.match(keyed.body.details, [{ field: 'Idempotency-Key' }])
    if (body !== null) {
      const filled = { ...(call.body ?? body.examples[0]) as object, no_such_field: 1 }
      t.match((await ask(t, operation, { ...call, body: filled }, 422)).body.details, [{
        field: 'no_such_field',
        code: 'unknown_field'
      }])
    }
    if (parameters.some(parameter => parameter.in === 'query')) {
      t.match((await ask(t, operation, { ...call, query: 'no_such_parameter=1' }, 422)).body.details, [{
        field: 'no_such_parameter',
        code: 'unknown_field'
      }])
    }

    if (call.params !== undefined) {
      const again = await recipe.valid(app)
      // Another account is told nothing; that there are accounts, everybody knows.
      await ask(t, operation, again, scope === 'operator' ? 403 : 404, { key: stranger })
      for (const change of [nobody, () => 'x', () => '\0', () => 'é'.repeat(300)]) {
        await ask(t, operation, { ...again, params: mapValues(again.params!, change) }, 404)
      }
    }

    if (idempotent) {
      const headers = { 'idempotency-key': `once for ${id}` }
      const first = await ask(t, operation, call, success, { headers })
      const second = await ask(t, operation, call, success, { headers })
      t.strictSame([second.body, second.headers.get('idempotency-replayed')], [first.body, 'true'])
      await ask(t, operation, { body: otherThan(call.body ?? body!.examples[0]) }, 409, { headers })
    }

    for (const [status, make] of Object.entries(recipe.also ?? {})) {
      if (typeof make !== 'string') await ask(t, operation, await make(app), Number(status))
    }

    await t.test('its window', async t => {
      const key = await app.newKey({})
      await app.limitKey(key.id, { [limitClass]: 1 })
      const again = await recipe.valid(app)
      const send = () =>
        app.request(method, target(operation, again), {
          key: key.secret,
          raw: again.raw,
          headers: again.headers,
          body: body === null ? undefined : again.body ?? body.examples[0]
        })
      let last = await send()
      // Another minute may begin between two.
      for (let i = 0; i < 3 && last.status !== 429; i++) last = await send()
      t.equal(note(t, operation, 429, last).headers.get('x-ratelimit-limit'), '1')
    })
  })
}

/** An id as there are, that nobody has. */
function nobody (value: string): string {
  return /^[a-z]+_/.test(value) ? value.replace(/_.*/, `_${'0'.repeat(26)}`) : `nobody-${value}`
}

function mapValues (object: Record<string, string>, change: (value: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]))
}

/** The same with another word in it. */
function otherThan (body: unknown): object {
  return JSON.parse(JSON.stringify(body).replaceAll('Hello', 'Good evening'))
}

/** Faults of ours and of the servers behind us: test/faults and api/7-unavailable have them. */
const ELSEWHERE = new Set([500, 503])

t.test('every status that is described has been seen, and no other', async t => {
  for (const line of tally.lines(operations)) t.comment(line)
  const missing = operations.flatMap(({ id, responses }) =>
    [...responses.keys()]
      .filter(status =>
        !ELSEWHERE.has(status) && tally.of(id, status) === 0 && typeof recipes[id]?.also?.[status] !== 'string'
      )
      .map(status => `${id} ${status}`)
  )
  t.strictSame(missing, [])
})
