import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Refusal, type FieldFault } from '#streams/define.ts'
import { countFault as domainCountFault, rotationFault as domainRotationFault } from '#streams/domain/decide.ts'
import { HEADERS_MAX } from '#streams/email/headers.ts'
import { countFault as keyCountFault, rotationFault as keyRotationFault } from '#streams/key/decide.ts'
import { countFault as templateCountFault, versionFault } from '#streams/template/decide.ts'
import { countFault as webhookCountFault, testFault } from '#streams/webhook/decide.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { targetFault } from '#src/actions/webhook.ts'
import { Conflict, LogUnavailable } from '#src/nats/errors.ts'
import { API_KEY, FROM, startTestApp, type Answer } from '../support/app.ts'
import { askFailing, hook, key as keyOf, mail, webhook as hookOf } from '../support/failing-server.ts'
import { readDescription, type Operation } from '../support/openapi.ts'
import { recipes } from '../support/requests.ts'
import { withValue, wrongValues } from '../support/wrong-values.ts'

const FILE = join(import.meta.dirname, '..', 'fixtures', 'messages.txt')
const REWRITE = 'JETPOST_TEST_MESSAGES=write npx tap run test/api/messages.test.ts'

/** What a client that was wrong reads: a fault of a field, or the sentence of an error. */
interface Message {
  operation: string
  /** The status, for an error without faults. */
  field: string
  code: string
  message: string
}

const app = await startTestApp(t, { env: { JETPOST_DOMAINS: 'example.com', JETPOST_REQUIRE_VERIFIED_DOMAINS: 'true' } })
const own = (await app.request('GET', '/api/keys?limit=100')).body.data.find(({ name }: { name: string }) =>
  name === 'JETPOST_API_KEY'
)
await app.limitKey(own.id, { 'templates:create': 100_000 })
const { document, operations } = readDescription((await app.request('GET', '/openapi.json', { key: null })).body)
const found = new Map<string, Message>()

function note (message: Message): void {
  // Times, ids, and the places of all but the first item differ each time.
  const plain = (text: string) =>
    text.replaceAll(/\[\d+\]/g, '[0]').replaceAll(/20(?!26-11-21T12:00:00Z)\d\d-\d\d-\d\dT[\d:.]+Z/g, '<time>')
      .replaceAll(/\b(tpl|dom|wh|key)_[0-9a-z]{20,}/g, '<id>').replaceAll(/\b[dl]\d+\.example/g, '<domain>').replaceAll(
        /\bu-\d+@/g,
        'u-0@'
      )
  const { operation, field, code } = message
  const line: Message = { operation, field: plain(field), code, message: plain(message.message) }
  found.set(Object.values(line).join('  '), line)
}

/** Notes all that an answer says is wrong; an answer without an error says nothing. */
function noteAnswer (operation: string, { status, body }: Pick<Answer, 'status' | 'body'>): void {
  if (status < 400) return
  const details: FieldFault[] = body.details ?? []
  for (const { field, code, message } of details) note({ operation, field, code, message })
  if (details.length === 0) note({ operation, field: String(status), code: body.code ?? '-', message: body.error })
}

function noteRefusal (operation: string, field: string, refusal: Refusal | null): void {
  t.ok(refusal, `${operation} is refused by its rule`)
  note({ operation, field, code: refusal!.code, message: refusal!.message })
}

const operationOf = (id: string): Operation => operations.find(operation => operation.id === id)!

interface Call {
  params?: Record<string, string>
  query?: string
  body?: unknown
  raw?: string
  headers?: Record<string, string>
}

async function send (id: string, { params = {}, query = '', body, raw, headers }: Call): Promise<Answer> {
  const { method, path } = operationOf(id)
  const target = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => encodeURIComponent(params[name] ?? 'x'))
  const answer = await app.request(method, `${target}${query === '' ? '' : `?${query}`}`, { body, raw, headers })
  noteAnswer(id, answer)
  return answer
}

/** The rules that the description names: each is broken once. */
for (const { id, method, body, parameters } of operations) {
  t.test(`${id}: what its schemas refuse`, async t => {
    const before = found.size
    for (const { at, value } of body === null ? [] : wrongValues(document, shallow(id, body.schema))) {
      await send(id, { body: withValue(body!.examples[0], at, value) })
    }
    for (const { name, in: place, schema } of parameters) {
      if (place !== 'query') continue
      const query = (value: unknown) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`
      for (const { at, value } of wrongValues(document, schema)) {
        if (Array.isArray(value)) await send(id, { query: value.map(query).join('&') })
        else if (typeof value !== 'object' && at.length === 0) await send(id, { query: query(value) })
      }
      await send(id, { query: `${query('x')}&${query('x')}` })
    }
    await send(id, { query: 'subjct=1', body: body?.examples[0] })
    if (body === null && method !== 'GET') await send(id, { body: { subjct: 1 } })
    await send(id, { body: body?.examples[0], headers: { 'idempotency-key': 'é' } })
    t.ok(found.size > before)
  })
}

/** The emails of a batch are refused as one email is: only that they are listed is its own. */
function shallow (id: string, schema: any): any {
  return id === 'sendBatch' ? { ...document.components.schemas.SendBatchRequest, ...emailsAlone() } : schema
}

function emailsAlone (): object {
  const { properties } = document.components.schemas.SendBatchRequest
  return { properties: { ...properties, emails: { ...properties.emails, items: { type: 'object' } } } }
}

const long = (length: number) => 'x'.repeat(length)
const deep = (levels: number): unknown => (levels === 0 ? 1 : { a: deep(levels - 1) })
const HUGE = '1e999'
const MAIL = { from: FROM, to: 'ada@example.net', subject: 'Hello', html: '<p>Hello</p>' }

async function create (path: string, body: unknown): Promise<string> {
  const answer = await app.request('POST', path, { body })
  if (answer.status !== 201) throw new Error(`POST ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`)
  return answer.body.id
}

const file = (more: object) => ({ attachments: [{ filename: 'a.txt', content: 'YQ==', ...more }] })

t.test('sendEmail: what no schema says', async () => {
  const template = await create('/api/templates', {
    name: 'Receipt',
    text: '{{order}}',
    variables: [{ name: 'order', type: 'string', required: true }, { name: 'items', type: 'list' }]
  })
  const layout = await create('/api/templates', { name: 'Subject', subject: '{{subject}}', text: 'x' })
  const people = Array.from({ length: 51 }, (_, i) => `a${i}@example.net`)
  const headers = ['from', 'sender', 'date', 'received', 'dkim-signature', 'content-type', 'cfbl-address']
  for (
    const change of [
      { from: 'nobody' },
      { from: 'Jürgen "J" <j@example.com>' },
      { to: ['Ada <Byron> <ada@example.com>'] },
      { from: 'ada@example.com' },
      { to: 'nobody' },
      { to: ['nobody'] },
      { cc: people.slice(1) },
      { reply_to: 'nobody' },
      { subject: 'a\nb' },
      { subject: '\ud800' },
      { subject: undefined },
      { html: undefined },
      { html: long(2 * 1024 * 1024 + 1) },
      { html: '\0' },
      { text: long(2 * 1024 * 1024 + 1) },
      { text: '\0' },
      { template_id: template },
      { html: undefined, template_id: 'tpl_nothing' },
      { html: undefined, subject: undefined, template_id: template, variables: { order: '7' } },
      { html: undefined, template_id: template, variables: { items: 'x' } },
      { html: undefined, subject: undefined, template_id: layout, variables: { subject: long(999) } },
      { html: undefined, subject: undefined, template_id: layout, variables: { subjct: 'x' } },
      { variables: {} },
      { html: undefined, template_id: template, variables: { a: deep(40) } },
      { html: undefined, template_id: template, variables: { a: '\0' } },
      { tags: ['\0'] },
      { metadata: { '': 1 } },
      { metadata: { a: '\0' } },
      { metadata: Object.fromEntries(people.map(name => [name, 1])) },
      { metadata: { a: long(8200) } },
      { headers: { 'a b': 'x' } },
      ...headers.map(name => ({ headers: { [name]: 'x' } })),
      { headers: { 'List-Unsubscribe': '<https://example.com>' } },
      { headers: { 'X-A': 'a\nb' } },
      { headers: { 'X-A': ' ' } },
      { headers: { 'X-A': long(1000) } },
      { headers: { References: 'é' } },
      { headers: { References: '<a@b>', references: '<a@b>' } },
      { headers: Object.fromEntries(Array.from({ length: HEADERS_MAX + 1 }, (_, i) => [`X-${i}`, 'x'])) },
      file({ filename: '' }),
      file({ filename: long(256) }),
      file({ content: '!' }),
      file({ content_type: 'x' }),
      file({ content_id: ' ' }),
      { attachments: ['a', 'b'].map(name => ({ filename: name, content: 'YQ==', content_id: 'logo' })) },
      file({ content: long(14 * 1024 * 1024) }),
      { scheduled_at: 'soon' },
      { scheduled_at: '2020-01-01T00:00:00Z' },
      { scheduled_at: '2999-01-01T00:00:00Z' }
    ]
  ) await send('sendEmail', { body: { ...MAIL, ...change } })
  const variables = `{"a":${HUGE}}`
  const raw = JSON.stringify({ ...MAIL, html: undefined, template_id: template, variables: 0 }).replace(
    '"variables":0',
    `"variables":${variables}`
  )
  noteAnswer('sendEmail', await app.request('POST', '/api/emails', { raw }))
  await send('sendBatch', { body: [MAIL] })
  await send('sendBatch', { body: { emails: [[], { ...MAIL, to: 'nobody' }] } })
})

t.test('templates: what no schema says', async () => {
  const body = { name: 'Receipt', html: '<p>Hello</p>' }
  const plain = await create('/api/templates', body)
  const wrongSyntax = ['{{a', '{{#a}}', '{{/a}}', '{{#a}}{{/b}}', '{{ }}', '{{a b}}', '{{a..b}}', '{{=|=}}']
  const variable = (more: object) => ({ variables: [{ name: 'order', type: 'string', ...more }] })
  const types = ['string', 'number', 'boolean', 'object', 'list']
  for (
    const change of [
      { name: ' ' },
      { subject: 'a\nb' },
      { html: long(256 * 1024 + 1) },
      { html: '\u0001' },
      { text: long(128 * 1024 + 1) },
      { text: '\u0001' },
      { html: undefined },
      ...wrongSyntax.map(html => ({ html })),
      { html: `{{${long(256)}}}` },
      { html: '{{#a}}'.repeat(201) },
      { variables: [{ name: 'a', type: 'string' }, { name: 'a', type: 'string' }] },
      ...types.map(type => variable({ type, fallback: type === 'boolean' ? 'x' : true })),
      variable({ type: 'object', fallback: deep(40) }),
      variable({ fallback: '\0' }),
      variable({ fallback: long(65 * 1024) }),
      { layout_id: 'tpl_nothing' },
      { layout_id: plain }
    ]
  ) await send('createTemplate', { body: { ...body, ...change } })
  const params = { id: plain }
  await send('updateTemplate', { params, body: { layout_id: plain } })
  await send('updateTemplate', { params, body: { html: null } })
  const declared = await create('/api/templates', {
    name: 'Types',
    subject: '{{string}}',
    text: 'x',
    variables: types.map(type => ({ name: type, type, required: true }))
  })
  for (const type of types) {
    const variables = { [type]: type === 'boolean' ? 'x' : true }
    await send('previewTemplate', { params: { id: declared }, body: { variables } })
  }
  await send('previewTemplate', { params: { id: declared }, body: { variables: { string: long(999) } } })
  noteRefusal('createTemplate', '409', templateCountFault(10_000))
  noteRefusal('updateTemplate', '409', versionFault(10_001))
})

t.test('domains, keys, webhooks: what no schema says', async () => {
  for (const name of ['x', 'sandbox.jetpost.test', `${long(60)}.`.repeat(4)]) {
    await send('createDomain', { body: { name } })
  }
  noteRefusal('createDomain', '409', domainCountFault(1000))
  const key = { name: 'Shop', scopes: ['emails:send'], domains: ['*'] }
  for (
    const change of [
      { name: ' ' },
      { scopes: ['full', 'emails:send'] },
      { domains: ['*', 'example.com'] },
      { domains: ['x'] },
      { expires_at: 'soon' },
      { expires_at: '2020-01-01T00:00:00Z' },
      { expires_at: '9999-12-31T23:59:59-12:00' }
    ]
  ) await send('createKey', { body: { ...key, ...change } })
  noteRefusal('createKey', '409', keyCountFault(10_000))
  const webhook = { url: 'https://example.com', events: ['email.delivered'] }
  for (
    const change of [
      { url: 'x' },
      { url: 'ftp://example.com' },
      { url: 'https://ada:secret@example.com' },
      { start_at: 'soon' },
      { start_at: '1999-01-01T00:00:00Z' },
      { start_at: '9999-12-31T12:00:00Z' }
    ]
  ) await send('createWebhook', { body: { ...webhook, ...change } })
  for (const url of ['http://example.com', 'https://127.0.0.1', 'https://localhost']) {
    for (const account of [FIRST_ACCOUNT, 'acc_another']) {
      noteRefusal('createWebhook', 'url', targetFault({ mayCallPrivate: () => false }, account, url))
    }
  }
  noteRefusal('createWebhook', '409', webhookCountFault(1000))
})

t.test('importSuppressions: what is said of a file and of its lines', async t => {
  const csv = (raw: string) => send('importSuppressions', { raw, headers: { 'content-type': 'text/csv' } })
  for (const raw of ['name\nAda', 'address\n"ada', `address\n${'ada@example.com\n'.repeat(50_001)}`]) await csv(raw)
  const ndjson = { 'content-type': 'application/x-ndjson' }
  await send('importSuppressions', { raw: long(20_000), headers: ndjson })
  const answers = [
    await csv('address,reason\nnobody,\nada@sandbox.jetpost.test,\nada@example.com,spite'),
    await send('importSuppressions', { raw: '7', headers: ndjson })
  ]
  for (const { code, message } of answers.flatMap(({ body }) => body.refused as FieldFault[])) {
    note({ operation: 'importSuppressions', field: message.split(' ')[0]!, code, message })
  }
  t.equal(answers.flatMap(({ body }) => body.refused).length, 4)
})

t.test('reads, suppressions, erasures: what no schema says', async () => {
  const { body: { id } } = await app.request('POST', '/api/emails', {
    body: { ...MAIL, scheduled_at: new Date(Date.now() + 3_600_000).toISOString() }
  })
  for (const query of ['created_after=soon', 'q=%00', 'cursor=x', 'metadata[a]=1&metadata[a]=2', filters(6)]) {
    await send('listEmails', { query })
  }
  await send('listEmails', { query: 'event=x' })
  const offset = (name: string) => `${name}=2026-11-21T12:00:00+01:00`
  await send('listEmails', { query: `${offset('created_after')}&${offset('created_before')}&limit=1&limit=2` })
  await send('listEvents', { query: offset('created_after') })
  await send('listSuppressions', { query: offset('created_before') })
  await send('getEmail', { params: { id }, query: offset('as_of') })
  await send('getStats', { query: offset('from') })
  for (const at of ['soon', '2999-01-01T00:00:00Z']) await send('getEmail', { params: { id }, query: `as_of=${at}` })
  await send('getEmailRaw', { params: { id }, query: 'recipient=1' })
  for (const at of ['soon', '2020-01-01T00:00:00Z', '2999-01-01T00:00:00Z']) {
    await send('rescheduleEmail', { params: { id }, body: { scheduled_at: at } })
  }
  await send('listEvents', { query: 'after=x&created_after=soon' })
  await send('listEvents', { query: 'limit=1', headers: { accept: 'text/event-stream', 'last-event-id': 'x' } })
  for (const address of ['x', 'a@sandbox.jetpost.test']) await send('createSuppression', { body: { address } })
  await send('listSuppressions', { query: 'address=x&created_after=soon&created_before=soon' })
  await send('createErasure', { body: { address: 'x' } })
  const stats = ['from=soon&to=soon', 'domain=x&destination=x', 'from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z']
  for (
    const query of [
      ...stats,
      'interval=hour&from=2025-01-01T00:00:00Z&to=2026-01-01T00:00:00Z',
      'tag=%00',
      'destination=example.com&tag=x'
    ]
  ) await send('getStats', { query })
  for (const list of ['listTemplates', 'listDomains', 'listKeys', 'listWebhooks', 'listErasures', 'listSuppressions']) {
    await send(list, { query: 'cursor=x' })
  }
})

function filters (count: number): string {
  return Array.from({ length: count }, (_, i) => `metadata[${i}]=x`).join('&')
}

t.test('conflicts', async () => {
  for (const { id, body } of operations) {
    const make = recipes[id]?.also?.[409]
    if (typeof make !== 'function') continue
    const call = await make(app)
    await send(id, { ...call, body: call.body ?? body?.examples[0] })
  }
  const headers = { 'idempotency-key': 'once' }
  for (const subject of ['Hello', 'Good evening']) await send('sendEmail', { body: { ...MAIL, subject }, headers })
  const webhook = { url: 'http://127.0.0.1:9/', events: ['email.delivered'] }
  const id = await create('/api/webhooks', webhook)
  await send('rotateWebhookSecret', { params: { id }, body: { finish: true } })
  noteRefusal('testWebhook', '409', testFault({ ...hookOf, disabled: 'gone' }))
  noteRefusal('rotateKey', '409', keyRotationFault({ ...keyOf, expiresMs: 1 }, 2))
  const retiring = { keys: [], until: '2026-01-01T00:00:00.000Z' }
  const dkim = { active: [], next: null, previous: retiring, retired: [] }
  noteRefusal('rotateDomainKeys', '409', domainRotationFault({ name: 'd1.example', dkim }))
})

t.test('what no route says', async () => {
  const request = async (...call: Parameters<typeof app.request>) => noteAnswer('*', await app.request(...call))
  const speak = async (bytes: string) => {
    const [head, body] = (await app.speak(bytes)).split('\r\n\r\n')
    noteAnswer('*', { status: Number(head!.split(' ')[1]), body: JSON.parse(body!) })
  }
  const post = `POST /api/emails HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${API_KEY}\r\n`
  const json = `${post}Content-Type: application/json\r\n`
  await request('POST', '/api/emails', { raw: '{' })
  await request('POST', '/api/emails', { body: deep(65) })
  await speak(`GET /api/%zz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${API_KEY}\r\nConnection: close\r\n\r\n`)
  await speak(`GET /api/emails HTTP/1.1\r\nAuthorization: Bearer ${API_KEY}\r\nConnection: close\r\n\r\n`)
  await speak('GARBAGE\r\n\r\n')
  await speak(`GET / HTTP/1.1\r\nHost: x\r\nX: ${long(40_000)}\r\n\r\n`)
  await speak(`${json}Content-Length: ${21 * 1024 * 1024}\r\n\r\n`)
  await request('GET', '/api/emails', { key: null })
  await request('POST', '/api/emails', { body: { ...MAIL, from: 'a@not-linked.example' } })
  await request('GET', '/api/emails/em_nothing')
  await request('GET', '/api/nothing')
  await request('PUT', '/api/webhooks/wh_1')
  await request('POST', '/api/emails', { raw: 'a=b', headers: { 'content-type': 'text/plain' } })
  await request('POST', '/api/emails', { body: MAIL, headers: { 'content-encoding': 'gzip' } })
  await request('POST', '/api/emails', { body: MAIL, headers: { 'content-type': 'application/json; charset=latin1' } })
  await speak(`GET /api/emails?q=${long(17_000)} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await speak('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n')
  const { id, secret } = await app.newKey({})
  await app.limitKey(id, { 'emails:list': 1 })
  for (let i = 0; i < 3; i++) await request('GET', '/api/emails', { key: secret })
})

t.test('what a server that fails says', async () => {
  const failing = async (...call: Parameters<typeof askFailing>) => {
    const answer = await askFailing(...call)
    noteAnswer('*', { status: answer.statusCode, body: answer.json() })
  }
  const throwing = (error: Error) => ({ append: () => Promise.reject(error) })
  await failing('POST', '/api/emails', mail, throwing(new LogUnavailable('full', false)))
  const late = throwing(new LogUnavailable('late', true))
  await failing('POST', '/api/emails', mail, late)
  await failing('POST', '/api/emails', mail, late, { 'idempotency-key': 'once' })
  await failing('POST', '/api/webhooks', hook, late)
  await failing('POST', '/api/emails', mail, throwing(new Error('unforeseen')))
  await failing('POST', '/api/webhooks', hook, throwing(new Conflict('moved on')))
  await failing('GET', '/api/webhooks', undefined, { catchUp: false })
  await failing('GET', '/api/emails', undefined, {})
  await failing('GET', '/api/emails', undefined, { caughtUp: () => new Promise(() => {}) })
})

/** The bodies of spec section 7 and of the contract, and the names of what the details are about. */
const TITLES = new Set([
  'Unauthorized',
  'Insufficient API key permissions',
  'Rate limit exceeded',
  'Not found',
  'Internal server error'
])
const FORMS = [
  /^Unknown (field|query parameter) `[^`]+`( \(did you mean `[^`]+`\?\))?\.$/,
  /^[\w.,[\]]+( [\w.,[\]]+)* is required(: [^.]+)?\.$/
]
/** Words of other trades, and those that no client knows. */
const BANNED = /\b(anew|whoever|lies|holds|NATS|JetStream|PostgreSQL|SQL|octets|wrong|oops|please|sorry)\b/i

t.test('every message names its field first and says what must be', async t => {
  for (const [line, { field, message }] of found) {
    if (TITLES.has(message)) continue
    t.ok(message.length <= 140, `${line}: at most 140 characters`)
    t.match(message, /^[^\n]+\.$/, `${line}: one line that ends with a period`)
    t.notMatch(message, BANNED, `${line}: no banned word`)
    if (/^\d+$/.test(field)) continue
    const [subject] = message.split(/[ ,]/)
    const isUnknown = FORMS[0]!.test(message)
    t.ok(message.includes(' must ') || FORMS.some(form => form.test(message)), `${line}: it says what must be`)
    t.ok(isUnknown || field.includes(subject!), `${line}: its field comes first`)
  }
})

/** Where codes come from, and how they are written there. */
const SOURCES = [
  'src/servers/api/*.ts',
  'src/actions/{email,email-change,template,template-cache,domain,key,webhook,suppression}.ts',
  'src/content/attachments.ts',
  'streams/{email,key,domain,template,suppression,webhook}/decide.ts',
  'streams/email/headers.ts',
  'streams/json.ts'
]
const CODE =
  /(?:new (?:Refusal|NotChanged)\(|\bcode: |must(?:Fault)?\([^,()]+, |(?:conflict|unavailable|refuse)\()\s*'([a-z_]+)'/g
/** Codes that a request of this test does not meet, and where their messages are. */
const ELSEWHERE: Record<string, string> = {
  account_suspended: 'journeys/operator-keys: an account that is suspended sends nothing',
  quota_exceeded: 'api/accounts: past its quota an account sends nothing',
  invalid_quota: 'shown by jetpost accounts quota',
  idempotency_busy: 'rules/resend: errors under the names of Resend',
  busy: 'api/bounds: big bodies wait for room',
  no_dashboard: 'api/users: below a path there is no dashboard to sign in to',
  content_expired: 'api/email-guards: the content of an email ends after days',
  dns_unavailable: 'api/domains: a resolver that does not answer',
  too_many_streams: 'api/events: streams up to the limit',
  validation_failed: 'the error around the details',
  domain_not_linked: 'answered as the 403 of spec section 7',
  insufficient_permissions: 'answered as the 403 of spec section 7',
  unauthorized: 'answered as the 401 of spec section 7',
  not_found: 'answered as 404',
  invalid_events: 'the schema refuses it first; jetpost webhooks shows it',
  invalid_limit: 'shown by jetpost keys limit',
  ...Object.fromEntries(
    ['erased', 'settled', 'held', 'claimed'].map(code => [code, 'tells a worker that a recipient is not its to send'])
  )
}

t.test('every code of the source is in the list', async t => {
  const root = join(import.meta.dirname, '..', '..')
  const codes = new Set(
    globSync(SOURCES, { cwd: root }).flatMap(path =>
      [...readFileSync(join(root, path), 'utf8').matchAll(CODE)].map(([, code]) => code!)
    )
  )
  t.ok(codes.size > 40)
  const listed = new Set([...found.values()].map(({ code }) => code))
  t.strictSame([...codes].filter(code => !listed.has(code) && !Object.hasOwn(ELSEWHERE, code)), [])
})

t.test('the list of messages is the one that was reviewed', async t => {
  const order = new Map([...operations.map(({ id }) => id), '*'].map((id, i) => [id, i]))
  const place = ({ operation }: Message) => order.get(operation)!
  const lines = [...found].sort(([, a], [, b]) => place(a) - place(b)).map(([line]) => line)
  const text = `${lines.join('\n')}\n`
  if (process.env.JETPOST_TEST_MESSAGES === 'write') writeFileSync(FILE, text)
  t.equal(text, readFileSync(FILE, 'utf8'), `read what has changed, then ${REWRITE}`)
})
