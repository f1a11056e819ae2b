import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { Resend } from 'resend'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'

const app = await startTestApp(t)
const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', html: '<p>Hello</p>' }

const client = (key = API_KEY, slashes = '') => new Resend(key, { baseUrl: `${app.url}/resend${slashes}` })
const resend = client()

/** The error that a client of Resend's got; fails without one. */
function errorOf ({ error }: { error: unknown }): { statusCode: number, name: string, message: string } {
  if (error === null) throw new Error('it was not refused')
  return error as ReturnType<typeof errorOf>
}

const post = (body: unknown, headers = {}) => app.request('POST', '/resend/emails', { body, headers })

t.test('a client sends by changing its base URL, with a slash at its end or without', async t => {
  for (const slashes of ['', '/']) {
    const { data, error } = await client(API_KEY, slashes).emails.send({
      ...mail,
      to: ['Ada <ada@example.com>'],
      cc: 'cc@example.com',
      replyTo: ['replies@example.com'],
      headers: { 'X-Order': '7' },
      tags: [{ name: 'category', value: 'welcome' }]
    })
    t.equal(error, null)
    t.match(data, { id: /^em_/ })
    const email = await app.settled(data!.id, 'delivered')
    t.match(email, {
      from: FROM,
      to: ['Ada <ada@example.com>'],
      cc: ['cc@example.com'],
      reply_to: ['replies@example.com'],
      headers: [{ name: 'X-Order', value: '7' }],
      tags: [],
      metadata: { category: 'welcome' }
    })
  }
})

t.test('nothing is tracked, and nobody can unsubscribe, unless the key or the domain says so', async t => {
  const link = '<a href="https://example.com/once">Sign in</a>'
  const { data } = await resend.emails.send({ ...mail, to: 'quiet@example.com', html: link })
  const email = await app.settled(data!.id, 'delivered')
  t.match(email, { track: { opens: false, clicks: false }, unsubscribe: false })
  t.match((await app.caught('quiet@example.com')).html, link)
  const key = await app.newKey({ defaults: { opens: null, clicks: true, unsubscribe: true } })
  const tracked = await client(key.secret).emails.send(mail)
  t.match(await app.settled(tracked.data!.id, 'delivered'), {
    track: { opens: false, clicks: true },
    unsubscribe: true
  })
  const own = { 'List-Unsubscribe': '<https://example.com/u>' }
  t.match(await client(key.secret).emails.send({ ...mail, headers: own }), { data: { id: /^em_/ } })
})

t.test('what is null, empty or unknown is passed over', async t => {
  const none = { cc: [], bcc: null, reply_to: '', text: null, headers: [], tags: [], template: null, topic_id: 'x' }
  const { status, body } = await post({ ...mail, ...none, scheduled_at: null, attachments: null, nonsense: { a: 1 } })
  t.equal(status, 200)
  t.match(await app.settled(body.id, 'delivered'), { cc: [], bcc: [], reply_to: [], metadata: {} })
})

t.test('keys: none, wrong, and one that may not', async t => {
  t.match(await app.request('POST', '/resend/emails', { key: null, body: mail }), {
    status: 401,
    body: { statusCode: 401, name: 'missing_api_key', message: String }
  })
  t.match(errorOf(await client('re_nobody').emails.send(mail)), { statusCode: 403, name: 'invalid_api_key' })
  const reader = await app.newKey({ scopes: ['emails:list'] })
  t.match(errorOf(await client(reader.secret).emails.send(mail)), {
    statusCode: 401,
    name: 'restricted_api_key',
    message: /emails:send/
  })
  const elsewhere = await resend.emails.send({ ...mail, from: 'a@not-linked.example' })
  t.match(errorOf(elsewhere), { statusCode: 403, name: 'validation_error', message: /not-linked\.example/ })
})

t.test('a template of Jetpost, by its id', async t => {
  const made = await app.request('POST', '/api/templates', {
    body: {
      name: 'Hello',
      subject: 'Hello {{name}}',
      text: 'Hello {{name}}',
      variables: [{ name: 'name', type: 'string', required: true }]
    }
  })
  t.equal(made.status, 201, JSON.stringify(made.body))
  const { id } = made.body
  const send = (variables: Record<string, string>) =>
    resend.emails.send({ from: FROM, to: 'ada@example.com', template: { id, variables } })
  const { data } = await send({ name: 'Ada' })
  t.match(await app.settled(data!.id, 'delivered'), { subject: 'Hello Ada', template: { id } })
  t.match(errorOf(await send({})), {
    statusCode: 422,
    name: 'validation_error',
    message: /^template\.variables\.name /
  })
  // As clients write what was left out that have no null.
  t.equal(
    (await post({
      from: FROM,
      to: ['ada@example.com'],
      subject: '',
      html: '',
      template: { id, variables: { name: 'x' } }
    })).status,
    200
  )
  t.match((await post({ ...mail, subject: '' })).body, {
    name: 'missing_required_field',
    message: /subject is required/
  })
})

t.test('a test key sends to nobody, and hears of its own mail', async t => {
  const { secret } = await app.newKey({ test: true })
  const { data } = await client(secret).emails.send(mail)
  t.match(await app.settled(data!.id, 'delivered'), { test: true })
  const hook = await client(secret).webhooks.create({ endpoint: 'https://example.com/hooks', events: ['email.opened'] })
  t.match((await app.request('GET', `/api/webhooks/${hook.data!.id}`)).body, { mode: 'test', format: 'resend' })
  t.match(errorOf(await client(secret).domains.create({ name: 'example.org' })), {
    statusCode: 403,
    name: 'validation_error',
    message: /test key/
  })
})

t.test('faults are named as Resend names them', async t => {
  const refused = async (fields: object) => {
    const { status, body } = await post({ ...mail, ...fields })
    t.equal(body.statusCode, status)
    t.equal(typeof body.message, 'string')
    return `${status} ${body.name}`
  }
  t.equal(await refused({ to: undefined }), '422 missing_required_field')
  t.equal(await refused({ html: undefined }), '422 missing_required_field')
  t.equal(await refused({ from: 'nobody' }), '422 invalid_from_address')
  t.equal(await refused({ to: 'nobody' }), '422 validation_error')
  t.equal(await refused({ attachments: [{ filename: 'a.txt', content: '*' }] }), '422 invalid_attachment')
  t.equal(await refused({ attachments: [{ filename: 'a.txt' }] }), '422 missing_required_field')
  t.equal(await refused({ tags: 'welcome' }), '422 validation_error')
  t.equal(await refused({ scheduled_at: 'soon' }), '422 validation_error')
  t.equal(await refused({ html: undefined, template: { id: 'tpl_none' } }), '422 validation_error')
  t.match(await app.request('POST', '/resend/emails', { raw: '{' }), {
    status: 400,
    body: { statusCode: 400, name: 'validation_error' }
  })
  t.match((await post(null)).body, { statusCode: 422 })
  t.match((await app.request('PUT', '/resend/emails')).body, { statusCode: 405, name: 'method_not_allowed' })
  t.match((await app.request('GET', '/resend/%')).body, { statusCode: 400, name: 'validation_error' })
})

t.test('what Jetpost does not have is not found, with a sentence', async t => {
  for (const path of ['audiences', 'broadcasts', 'contacts', 'segments', 'topics', 'templates', 'x']) {
    const { status, body } = await app.request('GET', `/resend/${path}`)
    t.equal(status, 404)
    t.match(body, { statusCode: 404, name: 'not_found', message: new RegExp(`/resend/${path}`) })
  }
  t.match(errorOf(await resend.contacts.list()), { statusCode: 404, name: 'not_found' })
})

t.test('an Idempotency-Key: the first answer, then a conflict', async t => {
  const options = { idempotencyKey: 'k'.repeat(256) }
  const first = await resend.emails.send(mail, options)
  const again = await resend.emails.send(mail, options)
  t.equal(first.error, null)
  t.strictSame(again.data, first.data)
  t.equal(again.headers!['idempotency-replayed'], 'true')
  t.match(errorOf(await resend.emails.send({ ...mail, subject: 'Other' }, options)), {
    statusCode: 409,
    name: 'invalid_idempotent_request'
  })
  t.match(errorOf(await resend.emails.send(mail, { idempotencyKey: 'k'.repeat(257) })), {
    statusCode: 400,
    name: 'invalid_idempotency_key'
  })
  const own = { 'idempotency-key': 'shared' }
  const { body } = await app.request('POST', '/api/emails', { body: mail, headers: own })
  t.match(await post(mail, own), { status: 200, body: { id: body.id } }, 'one namespace with /api')
})

t.test('the same windows as /api, under the names of Resend', async t => {
  const { id, secret } = await app.newKey({})
  await app.limitKey(id, { 'emails:send': 2 })
  t.equal((await app.send({}, secret)).status, 202)
  const { error, headers } = await client(secret).emails.send(mail)
  t.equal(error, null)
  t.match(headers, { 'ratelimit-limit': '2', 'ratelimit-remaining': '0', 'ratelimit-reset': /^[1-9]\d?$/ })
  t.notOk(headers!['x-ratelimit-limit'])
  const over = await client(secret).emails.send(mail)
  // A new minute may have begun meanwhile.
  const refused = over.error === null ? await overLimit(secret) : over
  t.match(errorOf(refused), { statusCode: 429, name: 'rate_limit_exceeded' })
  t.match(refused.headers, { 'retry-after': /^[1-9]\d?$/ })
})

async function overLimit (secret: string) {
  for (let tries = 0; tries < 10; tries++) {
    const answer = await client(secret).emails.send(mail)
    if (answer.error !== null) return answer
  }
  throw new Error('ten requests were within a limit of two')
}

t.test('files: base64, lists of bytes and Buffers, small and large', async t => {
  const bytes = Buffer.from([0, 1, 2, 253, 254, 255])
  const large = Buffer.alloc(400_000, bytes)
  const files = [
    { filename: 'base64.bin', content: bytes.toString('base64') },
    { filename: 'list.bin', content: [...bytes] },
    { filename: 'buffer.bin', content: bytes },
    { filename: 'large-list.bin', content: [...large], content_type: 'application/x-own' },
    { filename: 'large-buffer.bin', content: large, inline_content_id: 'large' },
    { content: bytes.toString('base64'), content_id: '<small>' }
  ]
  const variables = { content: [1, 2, 3] }
  const to = 'files@example.com'
  const { status, body } = await post({
    ...mail,
    to,
    attachments: files,
    headers: { 'X-Json': JSON.stringify(variables) }
  })
  t.equal(status, 200, JSON.stringify(body))
  await app.settled(body.id, 'delivered')
  const { attachments } = await app.caught(to)
  // Those that the html may show come first.
  const read = attachments.map(({ filename, mimeType, content, contentId }) => {
    const file = Buffer.from(content as ArrayBuffer)
    return [filename, mimeType, file.length, file.subarray(0, 6).toString('hex'), contentId ?? null]
  }).sort()
  const type = 'application/octet-stream'
  const start = bytes.toString('hex')
  t.strictSame(read, [
    ['attachment', type, 6, start, '<small>'],
    ['base64.bin', type, 6, start, null],
    ['buffer.bin', type, 6, start, null],
    ['large-buffer.bin', type, large.length, start, '<large>'],
    ['large-list.bin', 'application/x-own', large.length, start, null],
    ['list.bin', type, 6, start, null]
  ])
  const viaClient = await resend.emails.send({
    ...mail,
    to: 'sdk@example.com',
    attachments: [{ filename: 'a.bin', content: bytes }]
  })
  await app.settled(viaClient.data!.id, 'delivered')
  t.equal((await app.caught('sdk@example.com')).attachments[0]!.filename, 'a.bin')
})

t.test('a file by URL is fetched once, whole, and only so much of it', async t => {
  let asked = 0
  const server = createServer((request, response) => {
    asked++
    if (request.url === '/report.csv') response.end('a,b')
    else if (request.url === '/moved') response.writeHead(302, { location: '/report.csv' }).end()
    else {
      const piece = Buffer.alloc(1024 * 1024)
      const write = (left: number) => left === 0 ? response.end() : response.write(piece, () => write(left - 1))
      write(12)
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const at = (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${path}`
  const send = (path: string, key?: string) =>
    resend.emails.send({
      ...mail,
      to: 'url@example.com',
      attachments: [
        { filename: 'first.txt', content: 'YQ==' },
        { path },
        { filename: 'last.txt', content: 'Yg==' }
      ]
    }, key === undefined ? {} : { idempotencyKey: key })
  const { data } = await send(at('report.csv'), 'once')
  t.strictSame((await send(at('report.csv'), 'once')).data, data)
  t.equal(asked, 1)
  await app.settled(data!.id, 'delivered')
  const { attachments } = await app.caught('url@example.com')
  t.strictSame(attachments.map(({ filename }) => filename), ['first.txt', 'report.csv', 'last.txt'])
  t.equal(Buffer.from(attachments[1]!.content as ArrayBuffer).toString(), 'a,b')
  t.match(errorOf(await send(at('moved'))), { statusCode: 422, name: 'invalid_attachment', message: /answered 302/ })
  t.match(errorOf(await send(at('endless'))), { statusCode: 422, name: 'invalid_attachment', message: /10 MB/ })
  const mixed = { ...mail, attachments: [{ path: at('report.csv') }, { filename: 'b', content: '*' }] }
  t.match((await post(mixed)).body, { message: /^attachments\[1\]\.content must be/ })
  const lacking = { ...mixed, attachments: [mixed.attachments[0], {}, { filename: 'c', content: 'YQ==' }] }
  t.match((await post(lacking)).body, { name: 'missing_required_field', message: /content or path is required/ })
  t.match(errorOf(await send('file:///etc/passwd')), { statusCode: 422, name: 'invalid_attachment' })
})
