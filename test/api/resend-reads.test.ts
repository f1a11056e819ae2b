import fc from 'fast-check'
import t from 'tap'
import { Resend } from 'resend'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { shapeFault, type ResendShape } from '../fixtures/resend-shapes.ts'
import { logIn, submit } from '../support/submission-peer.ts'

const app = await startTestApp(t, { env: { JETPOST_SUBMISSION_PORT: '0' } })
const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', html: '<p>Hello</p>' }
const client = (key = API_KEY) => new Resend(key, { baseUrl: `${app.url}/resend` })
const resend = client()

interface Answered<T> {
  data: T | null
  error: unknown
}

/** The data of an answer that has the shape; fails otherwise. */
async function granted<T> (shape: ResendShape, asked: Promise<Answered<T>>): Promise<T> {
  const { data, error } = await asked
  t.equal(error, null)
  check(shape, data)
  return data!
}

async function refused (name: string, asked: Promise<Answered<unknown>>): Promise<string> {
  const { error } = await asked
  check('error', error)
  const { name: given, message } = error as { name: string, message: string }
  t.equal(given, name)
  return message
}

function check (shape: ResendShape, value: unknown): void {
  t.equal(shapeFault(shape, value), null)
}

t.test('a batch, and one of which a part is refused', async t => {
  const emails = [{ ...mail, subject: 'One' }, { ...mail, subject: 'Two' }]
  const { data } = await granted('batch', resend.batch.send(emails))
  t.equal(data.length, 2)
  t.match(await app.settled(data[1]!.id, 'delivered'), { subject: 'Two' })
  const mixed = [mail, { ...mail, to: 'nobody' }, { ...mail, from: 'a@not-linked.example' }, mail]
  const faults = await refused('validation_error', resend.batch.send(mixed))
  t.match(faults, /emails\[1\]\.to must be an email address/)
  const options = { batchValidation: 'permissive', idempotencyKey: 'mixed' } as const
  const part = await granted('permissive', resend.batch.send(mixed, options))
  t.equal(part.data.length, 2)
  t.match(part.errors, [{ index: 1, message: /^to must be/ }, { index: 2, message: String }])
  t.strictSame(await granted('permissive', resend.batch.send(mixed, options)), part)
  const none = await granted(
    'permissive',
    resend.batch.send([{ ...mail, to: 'nobody' }], { batchValidation: 'permissive' })
  )
  t.match(none, { data: [], errors: [{ index: 0, message: /to must be/ }] })
  await refused('validation_error', resend.batch.send([]))
  await refused(
    'validation_error',
    resend.batch.send([{ ...mail, attachments: [{ path: 'https://example.com/a' }] } as never])
  )
})

t.test('an email, as it went', async t => {
  const { id } = await granted(
    'sent',
    resend.emails.send({
      ...mail,
      from: `Shop <${FROM}>`,
      to: ['Ada <ada@example.com>', 'bounced@sandbox.jetpost.test'],
      cc: 'cc@example.com',
      replyTo: 'replies@example.com',
      text: 'Hello',
      tags: [{ name: 'order', value: '7' }]
    })
  )
  await app.settled(id, 'partial')
  const email = await granted('email', resend.emails.get(id))
  t.match(email, {
    id,
    from: `Shop <${FROM}>`,
    to: ['Ada <ada@example.com>', 'bounced@sandbox.jetpost.test'],
    cc: ['cc@example.com'],
    bcc: [],
    reply_to: ['replies@example.com'],
    subject: 'Hello',
    html: '<p>Hello</p>',
    text: 'Hello',
    last_event: 'bounced',
    tags: [{ name: 'order', value: '7' }]
  })
  t.match((await app.caught('ada@example.com')).messageId, email.message_id)
  const lister = await app.newKey({ scopes: ['emails:metadata'] })
  t.match(await granted('email', client(lister.secret).emails.get(id)), { html: null, text: null })
  const own = await app.send({ tags: ['welcome'], metadata: { order: 7, paid: true } })
  const { tags = [] } = await granted('email', resend.emails.get(own.body.id))
  t.strictSame(tags.map(({ name, value }) => `${name} ${value}`).sort(), ['order 7', 'paid true', 'welcome true'])
  await refused('not_found', resend.emails.get('em_nobody'))
  const stranger = client(await app.newAccountKey())
  await refused('not_found', stranger.emails.get(id))
})

t.test('an email that came by SMTP has its bodies', async t => {
  const peer = await logIn(app.submissionPort!, API_KEY)
  const parts = (['plain', 'html'] as const).map(type => `--b\r\nContent-Type: text/${type}\r\n\r\nHello ${type}\r\n`)
  const head = `From: ${FROM}\r\nSubject: Hello\r\nContent-Type: multipart/alternative; boundary=b`
  const reply = await submit(peer, FROM, ['ada@example.com'], `${head}\r\n\r\n${parts.join('')}--b--\r\n`)
  peer.close()
  const [id] = /em_\w+/.exec(reply) ?? []
  await app.settled(id!, 'delivered')
  const email = await granted('email', resend.emails.get(id!))
  t.match(email, { subject: 'Hello', html: 'Hello html', text: 'Hello plain' })
})

t.test('a scheduled email is moved and canceled; one that has gone is not', async t => {
  const { id } = await granted('sent', resend.emails.send({ ...mail, scheduledAt: 'in 1 hour' }))
  t.match(await granted('email', resend.emails.get(id)), { last_event: 'scheduled' })
  const later = new Date(Date.now() + 7_200_000).toISOString()
  await granted('changedEmail', resend.emails.update({ id, scheduledAt: later }))
  t.match(await granted('email', resend.emails.get(id)), { scheduled_at: later })
  await refused('validation_error', resend.emails.update({ id, scheduledAt: 'tomorrow-ish' }))
  t.match((await app.request('PATCH', `/resend/emails/${id}`, { body: {} })).body, { name: 'missing_required_field' })
  await granted('changedEmail', resend.emails.cancel(id))
  t.match(await granted('email', resend.emails.get(id)), { last_event: 'canceled' })
  const gone = await granted('sent', resend.emails.send(mail))
  await app.settled(gone.id, 'delivered')
  await refused('validation_error', resend.emails.cancel(gone.id))
  await refused('not_found', resend.emails.cancel('em_nobody'))
})

t.test('emails are listed by pages, from one id to either side', async t => {
  const other = client(await app.newAccountKey())
  await app.request('POST', '/resend/domains', { body: { name: 'pages.example' } })
  const sent: string[] = []
  for (let i = 0; i < 5; i++) sent.unshift((await granted('sent', resend.emails.send(mail))).id)
  const page = async (options: object) => {
    const { data, has_more: more } = await granted('emails', resend.emails.list(options as never))
    return { ids: data.map(({ id }) => id), more }
  }
  t.strictSame(await page({ limit: 2 }), { ids: sent.slice(0, 2), more: true })
  t.strictSame(await page({ limit: 2, after: sent[1] }), { ids: sent.slice(2, 4), more: true })
  t.strictSame(await page({ limit: 2, before: sent[4] }), { ids: sent.slice(2, 4), more: true })
  t.strictSame(await page({ limit: 2, before: sent[2] }), { ids: sent.slice(0, 2), more: false })
  t.strictSame(await page({ limit: 5, before: sent[0] }), { ids: [], more: false })
  t.ok((await page({})).ids.length > 5)
  t.strictSame((await granted('emails', other.emails.list())).data, [])
  await refused('invalid_parameter', resend.emails.list({ after: 'em_nobody' }))
  await refused('invalid_parameter', other.emails.list({ after: sent[0]! }))
  await refused('invalid_parameter', resend.emails.list({ limit: 101 }))
  await refused('invalid_parameter', resend.emails.list({ after: sent[0], before: sent[1] } as never))
})

t.test('domains', async t => {
  const made = await granted('createdDomain', resend.domains.create({ name: 'shop.example', openTracking: true }))
  t.match(made, { name: 'shop.example', status: 'not_started', open_tracking: true, click_tracking: false })
  t.match(made.records.map(({ record }) => record), ['DKIM', 'DKIM'])
  const { id } = made
  t.match(await granted('domain', resend.domains.get(id)), { id, records: made.records })
  await granted(
    'changedDomain',
    resend.domains.update({ id, clickTracking: true, openTracking: false, tls: 'enforced' })
  )
  t.match(await granted('domain', resend.domains.get(id)), { open_tracking: false, click_tracking: true })
  const more = await granted('createdDomain', resend.domains.create({ name: 'more.example', region: 'eu-west-1' }))
  const all = (await granted('domains', resend.domains.list())).data.map(domain => domain.id)
  t.strictSame(all.slice(0, 2), [more.id, id])
  const page = async (options: object) => {
    const { data, has_more: more } = await granted('domains', resend.domains.list(options as never))
    return { ids: data.map(domain => domain.id), more }
  }
  t.strictSame(await page({ limit: 1 }), { ids: all.slice(0, 1), more: true })
  t.strictSame(await page({ limit: 1, after: all[0] }), { ids: all.slice(1, 2), more: all.length > 2 })
  t.strictSame(await page({ limit: 1, before: all[1] }), { ids: all.slice(0, 1), more: false })
  await refused('invalid_parameter', resend.domains.list({ after: 'dom_none' }))
  await refused('validation_error', resend.domains.create({ name: 'no domain' }))
  await refused('missing_required_field', resend.domains.create({} as never))
  await granted('deletedDomain', resend.domains.remove(id))
  await refused('not_found', resend.domains.get(id))
})

t.test('keys', async t => {
  const domain = await granted('createdDomain', resend.domains.create({ name: 'keys.example' }))
  const asked = { name: 'Sender', permission: 'sending_access', domain_id: domain.id } as const
  const { id, token } = await granted('createdKey', resend.apiKeys.create(asked))
  t.match((await app.request('GET', `/api/keys/${id}`)).body, {
    name: 'Sender',
    scopes: ['emails:send'],
    domains: ['keys.example']
  })
  const sender = client(token)
  t.match(await granted('sent', sender.emails.send({ ...mail, from: 'a@keys.example' })), { id: /^em_/ })
  await refused('validation_error', sender.emails.send(mail))
  t.match(await refused('restricted_api_key', sender.domains.list()), /domains:read/)
  await refused('restricted_api_key', sender.apiKeys.create({ name: 'More' }))
  const full = await granted('createdKey', resend.apiKeys.create({ name: 'Full' }))
  t.match((await app.request('GET', `/api/keys/${full.id}`)).body, { scopes: ['full'], domains: ['*'] })
  await granted('changedKey', resend.apiKeys.update(full.id, { name: 'Renamed' }))
  const { data } = await granted('keys', resend.apiKeys.list())
  t.match(data.slice(0, 2), [{ id: full.id, name: 'Renamed' }, { id, name: 'Sender' }])
  await refused(
    'validation_error',
    resend.apiKeys.create({ name: 'x', permission: 'sending_access', domain_id: 'dom_none' })
  )
  await granted('deletedKey', resend.apiKeys.remove(id))
  await refused('invalid_api_key', sender.emails.send(mail))
  await refused('not_found', resend.apiKeys.remove(id))
})

t.test('whatever a body is, it is answered, and never with a fault of ours', async () => {
  const names = [
    'from',
    'to',
    'cc',
    'reply_to',
    'subject',
    'html',
    'text',
    'headers',
    'attachments',
    'tags',
    'template',
    'scheduled_at'
  ]
  const odd = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.array(fc.record({ name: fc.jsonValue(), value: fc.jsonValue(), content: fc.jsonValue(), path: fc.jsonValue() })),
    fc.record({ id: fc.jsonValue(), variables: fc.jsonValue(), type: fc.constant('Buffer'), data: fc.jsonValue() })
  )
  const email = fc.oneof(
    fc.jsonValue(),
    fc.dictionary(fc.constantFrom(...names), odd).map(more => ({ ...mail, ...more }))
  )
  const named = fc.dictionary(
    fc.constantFrom('name', 'permission', 'domain_id', 'endpoint', 'events', 'status'),
    fc.jsonValue()
  )
  const ask = async (method: string, path: string, body: unknown) => {
    const { status, body: answer } = await app.request(method, `/resend${path}`, { body })
    if (status >= 500) throw new Error(`${status} for ${JSON.stringify(body)}`)
    if (status >= 400) check('error', answer)
  }
  await fc.assert(fc.asyncProperty(email, async body => await ask('POST', '/emails', body)), { numRuns: 300 })
  await fc.assert(fc.asyncProperty(fc.array(email), async body => await ask('POST', '/emails/batch', body)))
  await fc.assert(fc.asyncProperty(named, async body => {
    for (const path of ['/domains', '/api-keys', '/webhooks']) await ask('POST', path, body)
    await ask('PATCH', '/emails/em_none', body)
  }))
})

t.test('what a key does here is in the audit log, and a suspended account sends nothing', async t => {
  const operator = await app.newKey({ scopes: ['operator'] })
  const secret = await app.newAccountKey()
  const other = client(secret)
  const { id } = await granted('createdDomain', other.domains.create({ name: 'audited.example' }))
  const audit = (await app.request('GET', '/api/audit', { key: secret })).body.data
  t.match(audit[0], { action: 'domain.added', actor: { kind: 'key' } }, JSON.stringify(audit[0]))
  const { account } = (await app.request('GET', '/api/me', { key: secret })).body
  const suspend = { key: operator.secret, body: { reason: 'abuse' } }
  t.equal((await app.request('POST', `/api/accounts/${account.id}/suspend`, suspend)).status, 200)
  t.match(
    await refused('validation_error', other.emails.send({ ...mail, from: 'a@audited.example' })),
    /The account is suspended/
  )
  t.match(await granted('domain', other.domains.get(id)), { id })
})
