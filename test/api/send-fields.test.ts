import t from 'tap'
import PostalMime, { decodeWords } from 'postal-mime'
import { startTestApp, FROM } from '../support/app.ts'
import { startSink } from '../support/smtp-sink.ts'

const sink = await startSink()
const app = await startTestApp(t, { env: { SMTP_URL: `${sink.url}?tls=off` } })
t.teardown(() => sink.stop())

const mailTo = async (address: string) => await PostalMime.parse(sink.received.find(({ to }) => to === address)!.raw)
const faults = async (fields: Record<string, unknown>) => {
  const { status, body } = await app.send(fields)
  return status === 422
    ? body.details.map(({ field, code }: { field: string, code: string }) => `${field} ${code}`)
    : [`accepted ${status}`]
}

t.test('to, cc and bcc: each recipient gets a message of its own; bcc is named nowhere', async t => {
  const { body } = await app.send({
    to: ['Ada <ada@one.example>', 'ben@one.example'],
    cc: 'Cat <cat@one.example>',
    bcc: ['dan@one.example'],
    reply_to: ['Help <help@one.example>']
  })
  const record = await app.settled(body.id, 'delivered')
  t.match(record, {
    to: ['Ada <ada@one.example>', 'ben@one.example'],
    cc: ['Cat <cat@one.example>'],
    bcc: ['dan@one.example'],
    reply_to: ['Help <help@one.example>']
  })
  t.strictSame(record.recipients.map(({ n, address, kind, status }: any) => `${n} ${address} ${kind} ${status}`), [
    '0 ada@one.example to delivered',
    '1 ben@one.example to delivered',
    '2 cat@one.example cc delivered',
    '3 dan@one.example bcc delivered'
  ])
  for (const address of ['ada@one.example', 'dan@one.example']) {
    const mail = await mailTo(address)
    t.strictSame(mail.to!.map(one => one.address), ['ada@one.example', 'ben@one.example'])
    t.strictSame(mail.cc!.map(one => one.address), ['cat@one.example'])
    t.strictSame(mail.replyTo!.map(one => one.address), ['help@one.example'])
    t.notMatch(sink.received.find(({ to }) => to === address)!.raw.toString(), /^bcc:|dan@one/im)
  }
})

t.test('the same address twice is one recipient, where it stands first', async t => {
  const { body } = await app.send({ to: 'twice@one.example', cc: ['TWICE@one.example', 'Twice <twice@one.example>'] })
  t.match((await app.settled(body.id, 'delivered')).recipients, [{ address: 'twice@one.example', kind: 'to' }])
  t.equal(sink.attempts('twice@one.example'), 1)
})

t.test('to, cc and bcc name at most 50 addresses together', async t => {
  const list = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}${i}@one.example`)
  t.strictSame(await faults({ to: list('a', 20), cc: list('b', 20), bcc: list('c', 11) }), ['to too_many'])
  t.strictSame(await faults({ to: list('a', 20), cc: list('b', 20), bcc: list('c', 10) }), ['accepted 202'])
})

t.test("a sender's own headers go with the message, ours are not theirs to set", async t => {
  const { body } = await app.send({
    to: 'headers@one.example',
    headers: { 'X-Campaign': 'Frühling 2026', 'In-Reply-To': '<a@b.example>', 'Auto-Submitted': 'auto-generated' }
  })
  const record = await app.settled(body.id, 'delivered')
  t.strictSame(record.headers, [{ name: 'X-Campaign', value: 'Frühling 2026' }, {
    name: 'In-Reply-To',
    value: '<a@b.example>'
  }, { name: 'Auto-Submitted', value: 'auto-generated' }])
  const mail = await mailTo('headers@one.example')
  const values = Object.fromEntries(mail.headers.map(({ key, value }) => [key, decodeWords(value)]))
  t.match(values, { 'x-campaign': 'Frühling 2026', 'in-reply-to': '<a@b.example>', 'auto-submitted': 'auto-generated' })
  for (
    const name of [
      'From',
      'bcc',
      'Message-ID',
      'Content-Type',
      'DKIM-Signature',
      'Return-Path',
      'Received',
      'List-Unsubscribe'
    ]
  ) {
    t.strictSame(await faults({ headers: { [name]: 'x' } }), [`headers.${name} reserved_header`], name)
  }
  t.strictSame(await faults({ headers: { 'X-A': 'a\r\nBcc: evil@one.example' } }), ['headers.X-A invalid_characters'])
  t.strictSame(await faults({ headers: { 'X A': 'a', 'X-B:': 'b' } }), [
    'headers.X A invalid_name',
    'headers.X-B: invalid_name'
  ])
})

t.test('attachments and inline images arrive byte for byte, from the fact and from the object store', async t => {
  const small = Buffer.from('name;price\n')
  const large = Buffer.alloc(3_000_000, 0).map((_, i) => (i * 7919) % 251)
  for (const [address, bytes] of [['small@one.example', small], ['large@one.example', large]] as const) {
    const { body, status } = await app.send({
      to: address,
      html: '<img src="cid:logo">',
      text: 'see the file',
      attachments: [
        { filename: 'Preisliste für März.csv', content: Buffer.from(bytes).toString('base64') },
        { filename: 'logo.png', content: Buffer.from('png').toString('base64'), content_id: 'logo' }
      ]
    })
    t.equal(status, 202)
    const record = await app.settled(body.id, 'delivered')
    const listed = [
      { filename: 'Preisliste für März.csv', content_type: 'text/csv', content_id: null, size_bytes: bytes.length },
      { filename: 'logo.png', content_type: 'image/png', content_id: 'logo', size_bytes: 3 }
    ]
    t.strictSame(record.attachments, listed)
    t.match((await app.request('GET', `/api/emails/${body.id}/content`)).body, {
      html: '<img src="cid:logo">',
      text: 'see the file',
      attachments: listed
    })
    const mail = await mailTo(address)
    t.strictSame(
      mail.attachments.map(({ filename, disposition, contentId }) => [filename, disposition, contentId]).sort(),
      [['Preisliste für März.csv', 'attachment', undefined], ['logo.png', 'inline', '<logo>']].sort()
    )
    const file = mail.attachments.find(({ filename }) => filename?.endsWith('.csv'))!
    t.ok(Buffer.from(file.content as ArrayBuffer).equals(bytes))
  }
})

t.test('an invitation arrives as a form of the body, as it was given, from the object store too', async t => {
  for (const [address, notes] of [['small@two.example', ''], ['large@two.example', 'ä'.repeat(90_000)]] as const) {
    const content = `BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nDESCRIPTION:${notes}\r\nEND:VCALENDAR\r\n`
    const type = 'text/calendar; method=REQUEST'
    const { body, status } = await app.send({
      to: address,
      html: '<p>Come</p>',
      alternatives: [{ content_type: `${type}; charset=latin1`, content }]
    })
    t.equal(status, 202)
    await app.settled(body.id, 'delivered')
    const stored = (await app.request('GET', `/api/emails/${body.id}/content`)).body
    t.strictSame(stored.alternatives, [{ content_type: type, content }])
    const raw = (await app.request('GET', `/api/emails/${body.id}/raw`)).body
    t.match(raw, /alternative;[^]*text\/plain[^]*text\/html[^]*text\/calendar; method=REQUEST; charset=utf-8\r/)
    const mail = await mailTo(address)
    const [invite] = mail.attachments.filter(({ mimeType }) => mimeType === 'text/calendar')
    t.equal(Buffer.from(invite!.content as ArrayBuffer).toString(), content.replaceAll('\r\n', '\n'))
  }
})

t.test('every fault of the further forms is named', async t => {
  const part = { content_type: 'text/calendar', content: 'x' }
  t.strictSame(
    await faults({
      alternatives: [
        { content: 'x' },
        { ...part, content_type: 'text/html; a=b', url: 'x' },
        { content_type: 'image/png', content: 'a\0' }
      ]
    }),
    [
      'alternatives[0].content_type required',
      'alternatives[1].url unknown_field',
      'alternatives[1].content_type invalid_value',
      'alternatives[2].content_type invalid_value',
      'alternatives[2].content invalid_characters'
    ]
  )
  t.strictSame(await faults({ alternatives: [{ ...part, content_type: 'nonsense' }] }), [
    'alternatives[0].content_type invalid_value'
  ])
  t.strictSame(await faults({ alternatives: Array(4).fill(part) }), ['alternatives too_many'])
  t.strictSame(await faults({ alternatives: [{ ...part, content: 'x'.repeat(262_145) }] }), [
    'alternatives[0].content too_long'
  ])
})

t.test('every fault of the attachments is named', async t => {
  const content = Buffer.from('x').toString('base64')
  t.strictSame(
    await faults({
      attachments: [{ filename: 'a/b', content: '###' }, { filename: 'ok', content, content_type: 'nonsense' }, {
        content
      }, { filename: 'x', content, url: 'https://a.example' }]
    }),
    [
      'attachments[2].filename required',
      'attachments[3].url unknown_field',
      'attachments[0].filename invalid_name',
      'attachments[0].content invalid_base64',
      'attachments[1].content_type invalid_value'
    ]
  )
  t.strictSame(await faults({ attachments: Array(21).fill({ filename: 'a', content }) }), ['attachments too_many'])
  const half = Buffer.alloc(6_000_000).toString('base64')
  t.strictSame(await faults({ attachments: [{ filename: 'a', content: half }, { filename: 'b', content: half }] }), [
    'attachments too_long'
  ])
})

t.test('track and unsubscribe are on unless the request, its key or its domain says otherwise', async t => {
  const on = { track: { opens: true, clicks: true }, unsubscribe: true }
  const read = async (fields: Record<string, unknown>, key?: string) =>
    (await app.request('GET', `/api/emails/${(await app.send(fields, key)).body.id}`)).body
  t.match(await read({}), on)
  t.match(await read({ track: { clicks: false } }), { ...on, track: { opens: true, clicks: false } })
  t.match(await read({ unsubscribe: false, track: { opens: false, clicks: false } }), {
    unsubscribe: false,
    track: { opens: false, clicks: false }
  })
  const { secret } = await app.newKey({ defaults: { opens: false, clicks: null, unsubscribe: false } })
  t.match(await read({}, secret), { unsubscribe: false, track: { opens: false, clicks: true } })
  t.match(await read({ track: { opens: true } }, secret), { unsubscribe: false, track: { opens: true, clicks: true } })
  const name = 'quiet.example'
  const domain = await app.request('POST', '/api/domains', { body: { name } })
  t.equal(
    (await app.request('PATCH', `/api/domains/${domain.body.id}`, { body: { track: { clicks: false } } })).status,
    200
  )
  t.match(await read({ from: `a@${name}` }), { unsubscribe: true, track: { opens: true, clicks: false } })
  t.strictSame(
    await faults({ track: { open: true }, unsubscribe: 'yes', on_doubt: 'ask', expires_in: 299 }),
    ['track.open unknown_field', 'unsubscribe invalid_value', 'on_doubt invalid_value', 'expires_in invalid_value']
      .sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b))
  )
})

/** Faults come in the order of the schema's fields. */
const ORDER = [
  'expires_in invalid_value',
  'track.open unknown_field',
  'unsubscribe invalid_value',
  'on_doubt invalid_value'
]

t.test('mail to a suppressed address is accepted, said to be suppressed, and not sent', async t => {
  t.equal((await app.request('POST', '/api/suppressions', { body: { address: 'No-More@one.example' } })).status, 201)
  const { status, body } = await app.send({ to: 'no-more@one.example' })
  t.match({ status, body }, { status: 202, body: { status: 'suppressed', suppressed: ['no-more@one.example'] } })
  t.match(await app.settled(body.id, 'suppressed'), {
    recipients: [{ status: 'suppressed', suppressed_at: String }],
    timeline: [{}, { type: 'email.suppressed', reason: 'manual' }]
  })
  const both = await app.send({ to: ['no-more@one.example', 'still@one.example'] })
  t.match(both.body, { status: 'queued', suppressed: ['no-more@one.example'] })
  await app.settled(both.body.id, 'partial')
  t.equal(sink.attempts('no-more@one.example'), 0)
  t.equal((await app.request('DELETE', '/api/suppressions/no-more@one.example')).status, 204)
  t.equal((await app.request('POST', `/api/emails/${body.id}/retry`)).status, 202)
  await app.settled(body.id, 'delivered')
})

t.test('suppressed between accept and send: not sent either', async t => {
  const { body } = await app.send({
    to: 'changed-mind@one.example',
    scheduled_at: new Date(Date.now() + 1200).toISOString()
  })
  t.equal(body.status, 'scheduled')
  t.equal(
    (await app.request('POST', '/api/suppressions', { body: { address: 'changed-mind@one.example' } })).status,
    201
  )
  await app.settled(body.id, 'suppressed')
  t.equal(sink.attempts('changed-mind@one.example'), 0)
})

t.test('who has unsubscribed gets what cannot be unsubscribed from', async t => {
  t.equal(
    (await app.request('POST', '/api/suppressions', { body: { address: 'left@one.example', reason: 'unsubscribe' } }))
      .status,
    201
  )
  const news = await app.send({ to: 'left@one.example' })
  t.equal(news.body.status, 'suppressed')
  const receipt = await app.send({ to: 'left@one.example', unsubscribe: false })
  await app.settled(receipt.body.id, 'delivered')
})

t.test('a template stands in for subject and bodies', async t => {
  const template = await app.request('POST', '/api/templates', {
    body: {
      name: 'welcome',
      subject: 'Welcome, {{name}}',
      html: '<p>Hello {{name}}, {{#items}}<b>{{.}}</b>{{/items}}</p>',
      text: 'Hello {{name}}',
      variables: [{ name: 'name', type: 'string', required: true }, { name: 'items', type: 'list', fallback: ['tea'] }]
    }
  })
  t.equal(template.status, 201)
  const { id } = template.body
  const base = { subject: undefined, html: undefined, template_id: id }
  const sent = await app.send({ ...base, to: 'tpl@one.example', variables: { name: 'A & B' } })
  const record = await app.settled(sent.body.id, 'delivered')
  t.match(record, { subject: 'Welcome, A & B', template: { id, version: 1 } })
  t.match(await mailTo('tpl@one.example'), {
    subject: 'Welcome, A & B',
    html: /<p>Hello A &amp; B, <b>tea<\/b><\/p>/,
    text: /Hello A & B/
  })
  const own = await app.send({ ...base, to: 'tpl2@one.example', subject: 'Mine', variables: { name: 'C' } })
  t.match(await app.settled(own.body.id, 'delivered'), { subject: 'Mine' })
  t.strictSame(
    (await app.request('GET', `/api/emails?template_id=${id}`)).body.data.map((one: { id: string }) => one.id),
    [own.body.id, sent.body.id]
  )
  t.strictSame(await faults({ ...base, variables: {} }), ['variables.name missing_variable'])
  t.strictSame(await faults({ ...base, template_id: 'tpl_none' }), ['template_id template_not_found'])
  t.strictSame(await faults({ template_id: id }), ['template_id not_supported'], 'html beside a template')
  t.strictSame(await faults({ variables: {} }), ['variables not_supported'], 'variables without a template')
  let deep: unknown = 1
  for (let i = 0; i < 40; i++) deep = { deep }
  t.strictSame(await faults({ ...base, variables: { name: 'x', deep } }), ['variables too_deep'])
})

t.test('all faults of a request are named at once', async t => {
  t.strictSame(
    (await faults({
      from: 'nobody',
      to: ['ok@one.example', 'bad'],
      cc: 7,
      subject: 'a\nb',
      html: 'x\0',
      tags: ['\0'],
      metadata: { k: {} },
      headers: { From: 'x' },
      attachments: [{}],
      scheduled_at: 'soon',
      reply_to: 'b@',
      'reply-to': 'x'
    })).sort(),
    [
      'attachments[0].content required',
      'attachments[0].filename required',
      'cc invalid_value',
      'from invalid_address',
      'headers.From reserved_header',
      'html invalid_characters',
      'metadata.k invalid_value',
      'reply-to unknown_field',
      'reply_to invalid_address',
      'scheduled_at invalid_value',
      'subject invalid_characters',
      'tags[0] invalid_characters',
      'to[1] invalid_address'
    ].sort()
  )
})

t.test('an email whose time has run out is failed, not sent', async t => {
  sink.replies('slow@one.example', { rcpt: '451 4.7.1 later' }, 1)
  const { body } = await app.send({ to: 'slow@one.example', expires_in: 300 })
  const record = await app.settled(body.id, 'deferred')
  t.ok(
    Date.parse(record.recipients[0].next_attempt_at) <= Date.parse(record.created_at) + 300_000,
    'no attempt is put off past its end'
  )
})

t.test('where mail can leave, another account sends only from domains that DNS shows to be its own', async t => {
  const key = await app.newAccountKey()
  for (const [name, asker] of [['squatted.example', key], ['operators.example', undefined]] as const) {
    t.equal((await app.request('POST', '/api/domains', { key: asker, body: { name } })).status, 201)
  }
  t.match(await app.send({ from: 'ceo@squatted.example' }, key), {
    status: 422,
    body: { details: [{ field: 'from', code: 'domain_unverified', message: /publish the DNS records of squatted/ }] }
  })
  t.equal((await app.send({ from: FROM }, key)).status, 202, 'but from the sandbox')
  t.equal((await app.send({ from: 'a@operators.example' })).status, 202, 'the operator has chosen so for himself')
})

t.test('a requirement for verified domains holds back others, and lets the sandbox through', async t => {
  const strict = await startTestApp(t, {
    env: { JETPOST_REQUIRE_VERIFIED_DOMAINS: 'true', JETPOST_DOMAINS: 'unproven.example' }
  })
  const refused = await strict.send({ from: 'a@unproven.example' })
  t.match(refused, { status: 422, body: { details: [{ field: 'from', code: 'domain_unverified' }] } })
  t.equal((await strict.send({ from: FROM })).status, 202)
})
