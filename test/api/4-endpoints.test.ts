import { Value } from '@sinclair/typebox/value'
import t from 'tap'
import { EmailRequested } from '#streams/email/facts.ts'
import { FROM, startTestApp } from '../support/app.ts'

const app = await startTestApp(t, { env: { JETPOST_DOMAINS: 'shop.example,news.example' } })

t.test('4.1 POST /api/emails accepts from, to, subject and html with a Bearer key', async t => {
  const answer = await app.send({ from: 'Shop <orders@shop.example>', to: 'ada@example.com' })
  t.equal(answer.status, 202)
  t.match(answer.body, {
    id: /^em_[0-9a-z]{26}$/,
    email_id: answer.body.id,
    status: 'queued',
    created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
  })
  t.equal(answer.headers.get('location'), `/api/emails/${answer.body.id}`)
})

t.test('4.1.1 a from on a domain not linked to the key is 403', async t => {
  const foreign = await app.send({ from: 'a@elsewhere.example' })
  t.equal(foreign.status, 403)
  t.strictSame(foreign.body, { error: 'Insufficient API key permissions' })
  t.equal(
    foreign.headers.get('www-authenticate'),
    'Bearer error="insufficient_scope", error_description="from must be on a domain that is linked to the key: ' +
      'elsewhere.example is not. Add the domain: npx jetpost domains add elsewhere.example, or POST /api/domains."',
    'why, and what to do, stand in a header (RFC 6750): the body is given'
  )
  t.equal((await app.send({ from: 'a@sub.shop.example' })).status, 403, 'a subdomain is another domain')
  const elsewhere = await app.send({ from: 'a@shop.example' }, await app.newAccountKey())
  t.equal(elsewhere.status, 403, "another account's")
  t.match(elsewhere.headers.get('www-authenticate'), / domains add shop\.example --account acc_\w+, or POST /)
})

t.test('4.1.1 a key linked to several domains sends from each of them and from no other', async t => {
  const key = await app.newKey({ scopes: ['emails:send'], domains: ['shop.example', 'news.example'] })
  t.equal((await app.send({ from: 'a@shop.example' }, key.secret)).status, 202)
  t.equal((await app.send({ from: 'a@NEWS.example' }, key.secret)).status, 202)
  const other = await app.send({ from: FROM }, key.secret)
  t.equal(other.status, 403)
  t.match(other.headers.get('www-authenticate'), `is not. Link it: PATCH /api/keys/${key.id} with domains."`)
})

t.test('4.1.2 a scope that does not allow sending is 403', async t => {
  const key = await app.newKey({ scopes: ['emails:read', 'webhooks:write'], domains: ['*'] })
  const answer = await app.send({}, key.secret)
  t.equal(answer.status, 403)
  t.strictSame(answer.body, { error: 'Insufficient API key permissions' })
  t.equal(
    answer.headers.get('www-authenticate'),
    'Bearer error="insufficient_scope", error_description="The key must have the scope emails:send.", ' +
      'scope="emails:send"'
  )
  t.equal(
    (await app.send({ to: 'not an address' }, key.secret)).status,
    403,
    'and the scope is looked at before the fields'
  )
})

t.test('4.1 all faults of a request are named at once, and typos are not dropped', async t => {
  const { status, body } = await app.request('POST', '/api/emails', {
    body: {
      from: 'nobody',
      to: ['ada@example.com', 'b@', 7],
      subjct: 'x',
      html: 5,
      tags: ['ok', ''],
      metadata: { a: { b: 1 } },
      'reply-to': 'x'
    }
  })
  t.equal(status, 422)
  t.equal(body.error, 'Validation failed')
  t.equal(body.code, 'validation_failed')
  const named = Object.fromEntries(
    body.details.map((fault: { field: string, code: string }) => [fault.field, fault.code])
  )
  t.match(named, {
    from: 'invalid_address',
    subject: 'required',
    subjct: 'unknown_field',
    'reply-to': 'unknown_field',
    html: 'invalid_value',
    'tags[1]': 'too_short'
  })
  t.ok(Object.keys(named).some(field => field.startsWith('to')), 'to')
  t.ok(Object.keys(named).some(field => field.startsWith('metadata')), 'metadata')
})

t.test('4.1 one of html and text is required, either will do', async t => {
  t.match((await app.send({ html: undefined })).body, { details: [{ field: 'html', code: 'required' }] })
  t.equal((await app.send({ html: undefined, text: 'Hello' })).status, 202)
})

t.test('4.1 a line break in the subject or a NUL in a body is refused', async t => {
  t.match((await app.send({ subject: 'Hi\r\nBcc: x@example.com' })).body, {
    details: [{ field: 'subject', code: 'invalid_characters' }]
  })
  t.match((await app.send({ html: 'a\0b' })).body, { details: [{ field: 'html', code: 'invalid_characters' }] })
  t.match((await app.send({ from: 'A\nB <hello@sandbox.jetpost.test>' })).body, {
    details: [{ field: 'from', code: 'invalid_address' }]
  })
})

t.test('4.1 no control character reaches a header by the subject', async t => {
  for (const sign of ['\x1b', '\t', '\x7f', '\x85']) {
    t.match((await app.send({ subject: `a${sign}b` })).body, {
      details: [{ field: 'subject', code: 'invalid_characters' }]
    })
  }
})

t.test('4.1 metadata: every name is checked, and empty names and control characters are refused', async t => {
  const named = async (metadata: object) =>
    (await app.send({ metadata })).body.details?.map((
      fault: { field: string, code: string }
    ) => [fault.field, fault.code])
  t.strictSame(await named({ 'a\u2028b': { nested: 1 } }), [['metadata.a\u2028b', 'invalid_value']])
  t.strictSame(await named({ 'a\nb': 'x' }), [['metadata.a\nb', 'invalid_name']])
  t.strictSame(await named({ '': 'x', 'a\x1b': 'x', ok: 'x' }), [['metadata.', 'invalid_name'], [
    'metadata.a\x1b',
    'invalid_name'
  ]])
  const { body: { id } } = await app.send({ metadata: { 'a\u2028b': 'x' } })
  t.strictSame((await app.request('GET', `/api/emails/${id}`)).body.metadata, { 'a\u2028b': 'x' })
})

t.test('4.1 metadata: a fact whose values are not scalars does not fit, whatever their names', async t => {
  const { metadata } = EmailRequested.data.properties
  t.ok(Value.Check(metadata, { 'a\nb': 1 }))
  t.notOk(Value.Check(metadata, { 'a\nb': { nested: 1 } }))
})

t.test('4.1 metadata that is very deep or very wide is refused like any other', async t => {
  const head = JSON.stringify({ from: FROM, to: 'ada@example.com', subject: 's', html: 'h' }).slice(0, -1)
  const deep = await app.request('POST', '/api/emails', {
    raw: `${head},"metadata":{"a":${'['.repeat(200_000)}${']'.repeat(200_000)}}}`
  })
  t.match(deep, { status: 400, body: { error: 'The body must be nested at most 64 levels deep.' } })
  const wide = await app.send({
    metadata: Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`k${i}`, '\0']))
  })
  t.strictSame(wide.body.details, [{
    field: 'metadata',
    code: 'too_many',
    message: 'metadata must have at most 50 values.'
  }])
  const emails = Array(100).fill({ from: FROM, to: Array(50).fill('x'), subject: 's', html: 'h' })
  const faulty = await app.request('POST', '/api/emails/batch', { body: { emails } })
  t.equal(faulty.body.details.length, 1000, 'and no answer lists faults without end')
})

t.test('4.1 limits of the contract: subject 998, bodies 2 MB, 20 tags, 8 kB of metadata, 50 recipients', async t => {
  t.equal((await app.send({ subject: 'x'.repeat(998) })).status, 202)
  t.equal((await app.send({ subject: 'x'.repeat(999) })).status, 422)
  t.equal((await app.send({ html: 'x'.repeat(2 * 1024 * 1024 + 1) })).status, 422)
  t.equal((await app.send({ tags: Array(21).fill('t') })).status, 422)
  t.equal((await app.send({ metadata: { a: 'x'.repeat(8200) } })).status, 422)
  t.equal((await app.send({ to: Array.from({ length: 51 }, (_, i) => `r${i}@example.com`) })).status, 422)
})

t.test('4.1 content too big for a fact goes by the object store and arrives whole', async t => {
  const html = `<p>${'é'.repeat(1_000_000)}</p>`
  const answer = await app.send({ html, to: 'big@example.com', track: { opens: false, clicks: false } })
  t.equal(answer.status, 202)
  await app.settled(answer.body.id, 'delivered')
  const caught = await app.caught('big@example.com')
  t.equal(caught.html?.trimEnd().length, html.length)
})

t.test('4.2 GET /api/emails lists newest first, without bodies, page by page, stable while mail arrives', async t => {
  const key = await app.newAccountKey()
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.unshift((await app.send({ subject: `n ${i}` }, key)).body.id)
  const first = await app.request('GET', '/api/emails?limit=2', { key })
  t.equal(first.status, 200)
  t.strictSame(first.body.data.map((email: { id: string }) => email.id), ids.slice(0, 2))
  t.equal(first.body.has_more, true)
  t.notOk('html' in first.body.data[0])
  await app.send({ subject: 'newer' }, key)
  const second = await app.request('GET', `/api/emails?limit=3&cursor=${first.body.next_cursor}`, { key })
  t.strictSame(second.body.data.map((email: { id: string }) => email.id), ids.slice(2))
  t.equal(second.body.has_more, false)
  t.equal(second.body.next_cursor, null)
})

t.test('4.2 the list filters by status, addresses, domain, tag, metadata, time, event and text', async t => {
  const key = await app.newAccountKey()
  const since = new Date().toISOString()
  const one = (await app.send({
    to: 'ada@one.example',
    subject: 'Order 77',
    tags: ['orders'],
    metadata: { order: 77, vip: true }
  }, key)).body.id
  const two = (await app.send({ to: 'Bob <bob@two.example>', subject: 'News', tags: ['news'], text: 'x' }, key)).body.id
  await app.settled(one, 'delivered', key)
  await app.settled(two, 'delivered', key)
  const ids = async (query: string) =>
    (await app.request('GET', `/api/emails?${query}`, { key })).body.data.map((email: { id: string }) => email.id)
  t.strictSame(await ids('status=delivered'), [two, one])
  t.strictSame(await ids('status=bounced'), [])
  t.strictSame(await ids('to=ADA@one.example'), [one])
  t.strictSame(await ids(`from=${FROM}`), [two, one])
  t.strictSame(await ids('domain=sandbox.jetpost.test'), [two, one])
  t.strictSame(await ids('status=delivered&status=bounced'), [two, one])
  t.strictSame(await ids('status=bounced&status=failed'), [])
  t.strictSame(await ids('tag=orders'), [one])
  t.strictSame(await ids('tag=orders&tag=news&tag=none'), [two, one])
  t.strictSame(await ids('tag=news&tag=none&status=delivered'), [two])
  t.strictSame(await ids('event=bounced&event=delivered&limit=1'), [two])
  t.strictSame(await ids('metadata[order]=77&metadata[vip]=true'), [one])
  t.strictSame(await ids('q=order%2077'), [one])
  t.strictSame(await ids('event=email.delivered'), [two, one])
  t.strictSame(await ids(`created_after=${since}&tag=news`), [two])
  t.strictSame(await ids(`created_before=${since}`), [])
  const faults = await app.request('GET', '/api/emails?stauts=delivered&limit=0&cursor=x&created_after=yesterday', {
    key
  })
  t.equal(faults.status, 422)
  t.strictSame(faults.body.details.map((fault: { field: string }) => fault.field).sort(), [
    'created_after',
    'cursor',
    'limit',
    'stauts'
  ])
  const several = await app.request('GET', '/api/emails?status=delivered&status=sent&tag=a&tag=a', { key })
  t.strictSame(several.body.details.map((fault: { field: string, code: string }) => `${fault.field} ${fault.code}`), [
    'status[1] invalid_value',
    'tag not_unique'
  ])
  t.match(faults.body.details.find((fault: { field: string }) => fault.field === 'created_after'), {
    message: 'created_after must be a time with an offset, like 2026-11-21T12:00:00Z.'
  })
  for (const time of ['2026-11-21T24:00:00Z', '2026-11-21T12:00:00', '2026-02-30T12:00:00Z']) {
    t.equal((await app.request('GET', `/api/emails?created_before=${time}`, { key })).status, 422, time)
  }
})

t.test('4.2 addresses and domains are found however they are spelt', async t => {
  await app.request('POST', '/api/domains', { body: { name: 'bücher.example' } })
  const { body: { id } } = await app.send({ from: 'Shop@Bücher.example', to: 'Ada@Straße.example' })
  const found = async (query: Record<string, string>) =>
    (await app.request('GET', `/api/emails?${new URLSearchParams(query)}`)).body.data.map((email: { id: string }) =>
      email.id
    )
  for (const from of ['shop@bücher.example', 'SHOP@xn--bcher-kva.example']) {
    t.strictSame(await found({ from }), [id], from)
  }
  for (const to of ['ada@straße.example', 'ADA@xn--strae-oqa.EXAMPLE']) t.strictSame(await found({ to }), [id], to)
  for (const domain of ['BÜCHER.example', 'xn--bcher-kva.example']) t.strictSame(await found({ domain }), [id], domain)
  for (const query of [{ from: 'no address' }, { to: '@' }, { domain: 'no domain' }]) {
    t.strictSame(await found(query as unknown as Record<string, string>), [])
  }
})

t.test('4.2 what was accepted is in the very next read', async t => {
  for (let i = 0; i < 10; i++) {
    const { body } = await app.send({ subject: `read ${i}` })
    const list = await app.request('GET', '/api/emails?limit=1')
    t.equal(list.body.data[0].id, body.id)
  }
})

t.test("GET /api/emails/{id} has recipients and the timeline with the server's own reply", async t => {
  const { body: { id } } = await app.send({
    to: ['ada@example.com', 'bob@example.com'],
    tags: ['a'],
    metadata: { k: 'v' }
  })
  const email = await app.settled(id, 'delivered')
  t.match(email, {
    id,
    email_id: id,
    from: FROM,
    to: ['ada@example.com', 'bob@example.com'],
    subject: 'Hello',
    tags: ['a'],
    metadata: { k: 'v' }
  })
  t.match(email.recipients, [{ address: 'ada@example.com', status: 'delivered', attempts: 1 }, {
    address: 'bob@example.com',
    status: 'delivered',
    attempts: 1
  }])
  const types = email.timeline.filter((entry: { n?: number }) => entry.n === 0).map((entry: { type: string }) =>
    entry.type
  )
  t.strictSame(types, ['email.attempted', 'email.delivered'])
  t.match(email.timeline.find((entry: { type: string }) => entry.type === 'email.delivered'), {
    smtp_code: 250,
    response: /^250 /,
    ms: Number,
    attempt: 1
  })
})

t.test("another account's email is a 404, and in no list of ours", async t => {
  const key = await app.newAccountKey()
  const { body: { id } } = await app.send()
  const foreign = await app.request('GET', `/api/emails/${id}`, { key })
  t.equal(foreign.status, 404)
  t.strictSame(foreign.body, { error: 'Not found' })
  t.strictSame((await app.request('GET', '/api/emails', { key })).body.data, [])
})

t.test('2.4 webhook endpoints: created with a secret shown once, listed, read, deleted', async t => {
  const made = await app.request('POST', '/api/webhooks', {
    body: { url: 'http://127.0.0.1:9/hook', events: ['email.delivered', 'email.bounced'] }
  })
  t.equal(made.status, 201)
  t.match(made.body, { id: /^wh_/, secret: /^whsec_/, events: ['email.delivered', 'email.bounced'], status: 'enabled' })
  const { id } = made.body
  const listed = await app.request('GET', '/api/webhooks')
  t.equal(listed.body.data[0].id, id)
  t.notOk('secret' in listed.body.data[0])
  t.equal((await app.request('GET', `/api/webhooks/${id}`)).body.url, 'http://127.0.0.1:9/hook')
  t.equal((await app.request('GET', `/api/webhooks/${id}`, { key: await app.newAccountKey() })).status, 404)
  t.equal((await app.request('DELETE', `/api/webhooks/${id}`, { key: await app.newAccountKey() })).status, 404)
  t.equal((await app.request('DELETE', `/api/webhooks/${id}`)).status, 204)
  t.equal((await app.request('GET', `/api/webhooks/${id}`)).status, 404)
  t.equal((await app.request('DELETE', `/api/webhooks/${id}`)).status, 404)
})

t.test('2.4 a Content-Type without a body does not hinder: some clients send it on every request', async t => {
  const { body: { id } } = await app.request('POST', '/api/webhooks', {
    body: { url: 'http://127.0.0.1:9/hook', events: ['email.delivered'] }
  })
  const headers = { 'content-type': 'application/json' }
  t.equal((await app.request('GET', `/api/webhooks/${id}`, { headers })).status, 200)
  t.equal((await app.request('HEAD', `/api/webhooks/${id}`, { headers })).status, 200)
  t.equal((await app.request('DELETE', `/api/webhooks/${id}`, { headers })).status, 204)
})

t.test('an id that nobody can have is a 404, however long or strange', async t => {
  for (const id of ['x'.repeat(250), 'x'.repeat(10_000), '%00', 'em_%00', '%2F']) {
    t.equal((await app.request('GET', `/api/emails/${id}`)).status, 404, `email ${id.slice(0, 20)}`)
    t.equal((await app.request('GET', `/api/webhooks/${id}`)).status, 404, `webhook ${id.slice(0, 20)}`)
  }
})

t.test('2.4 an endpoint with a wrong URL or unknown types is refused', async t => {
  const { status, body } = await app.request('POST', '/api/webhooks', {
    body: { url: 'ftp://x', events: ['email.sent'], secret: 'x' }
  })
  t.equal(status, 422)
  t.strictSame(body.details.map((fault: { field: string }) => fault.field).sort(), ['events[0]', 'secret', 'url'])
  const wrong = await app.request('POST', '/api/webhooks', {
    body: { url: 'ftp://x.example', events: ['email.delivered'] }
  })
  t.match(wrong.body, { details: [{ field: 'url' }] })
})
