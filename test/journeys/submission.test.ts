import { createTransport } from 'nodemailer'
import t from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { startSink } from '../support/smtp-sink.ts'
import { logIn as logInPeer, submit } from '../support/submission-peer.ts'
import { until } from '../support/wait.ts'

const mail = await startSink()
t.teardown(() => mail.stop())
const app = await startTestApp(t, {
  env: {
    SMTP_URL: mail.url,
    JETPOST_DOMAINS: 'shop.example',
    JETPOST_SUBMISSION_PORT: '0',
    JETPOST_SUBMISSION_TLS_PORT: '0'
  }
})

const logIn = { user: 'jetpost', pass: API_KEY }
const tls = { rejectUnauthorized: false }

t.test('a mail goes from a client of SMTP to the recipient', async t => {
  for (
    const options of [{ port: app.submissionPort!, requireTLS: true }, { port: app.submissionTlsPort!, secure: true }]
  ) {
    const transport = createTransport({ host: '127.0.0.1', ...options, auth: logIn, tls })
    const sent = await transport.sendMail({
      from: 'Shop <hello@shop.example>',
      to: 'Ada <ada@example.net>',
      subject: 'Grüße',
      text: 'Hello',
      html: '<p>Hello <a href="https://shop.example/">Shop</a></p>'
    })
    const [, id] = /^250 2\.0\.0 queued as (em_\w+)$/.exec(sent.response) ?? []
    t.ok(id, sent.response)
    const email = await app.settled(id!, 'delivered')
    t.match(email, {
      from: 'Shop <hello@shop.example>',
      to: ['Ada <ada@example.net>'],
      subject: 'Grüße',
      track: { opens: false, clicks: false },
      unsubscribe: false
    })
    const [received] = mail.received.filter(({ raw }) => raw.includes(id!))
    t.match(
      received!.raw.toString(),
      /<p>Hello <a href=3D"https:\/\/shop\.example\/">|<a href="https:\/\/shop\.example\/">/
    )
    const content = await app.request('GET', `/api/emails/${id}/content`)
    t.match(content.body, { text: 'Hello', html: '<p>Hello <a href="https://shop.example/">Shop</a></p>' })
    transport.close()
  }
})

/** What of an answer must differ between two emails. */
const DIFFERS = /^(id|email_id|created_at|time|message_id|ms|digest)$|_at$/

function comparable (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable)
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'string' ? value.replaceAll(/em_\w+/g, 'em') : value
  }
  return Object.fromEntries(
    Object.entries(value).filter(([name]) => !DIFFERS.test(name)).map(([name, inner]) => [name, comparable(inner)])
  )
}

t.test('the same mail by the API and by SMTP has the same row, timeline and callbacks', async t => {
  const hooks = await startHookSink()
  t.teardown(() => hooks.stop())
  const events = ['email.delivered', 'email.bounced', 'email.opened']
  await app.request('POST', '/api/webhooks', { body: { url: hooks.url, events } })
  const addresses = {
    to: ['Ada <ada@example.net>', 'gone@example.net'],
    cc: ['Cy <cy@example.net>'],
    bcc: ['dee@example.net']
  }
  mail.replies('gone@example.net', { rcpt: '550 5.1.1 no such user here' }, 2)
  const file = {
    filename: 'Preise für Ada.csv',
    content: Buffer.from('1;2\r\n').toString('base64'),
    content_type: 'text/csv'
  }
  const shared = {
    from: 'Shop <hello@shop.example>',
    ...addresses,
    subject: 'Grüße',
    html: '<p>Hello</p>',
    text: 'Hello'
  }
  const byApi = (await app.request('POST', '/api/emails', {
    body: {
      ...shared,
      reply_to: 'help@shop.example',
      attachments: [file],
      headers: { 'X-Order': '77' },
      tags: ['order'],
      metadata: { order: '77' },
      track: { opens: true, clicks: false },
      unsubscribe: false
    }
  })).body.id
  const settled = async (id: string) => {
    await until(async () => {
      const { body } = await app.request('GET', `/api/emails/${id}`)
      return body.recipients?.every(({ status }: { status: string }) => status === 'delivered' || status === 'bounced')
    })
    return (await app.request('GET', `/api/emails/${id}`)).body
  }
  const one = await settled(byApi)
  // Who has bounced gets no more mail.
  await app.request('DELETE', '/api/suppressions/gone@example.net')
  const transport = createTransport({ port: app.submissionPort!, requireTLS: true, auth: logIn, tls })
  const { response } = await transport.sendMail({
    ...shared,
    replyTo: 'help@shop.example',
    attachments: [{ filename: file.filename, content: Buffer.from('1;2\r\n'), contentType: 'text/csv' }],
    headers: {
      'X-Order': '77',
      'X-Jetpost-Tag': 'order',
      'X-Jetpost-Metadata-order': '77',
      'X-Jetpost-Track': 'opens'
    }
  })
  transport.close()
  const bySmtp = /em_\w+/.exec(response)![0]
  const other = await settled(bySmtp)
  const byRecipient = (email: { timeline: Array<{ recipient?: string, type: string }> }) => ({
    ...email,
    timeline: [...email.timeline].sort((a, b) => (`${a.recipient} ${a.type}` < `${b.recipient} ${b.type}` ? -1 : 1))
  })
  t.strictSame(comparable(byRecipient(other)), comparable(byRecipient(one)), 'record and timeline')
  const { body: { data } } = await app.request('GET', '/api/emails?limit=100')
  const row = (id: string) => comparable(data.find((email: { id: string }) => email.id === id))
  t.strictSame(row(bySmtp), row(byApi), 'the row of the list')
  const parts = async (id: string) => comparable((await app.request('GET', `/api/emails/${id}/content`)).body)
  t.strictSame(await parts(bySmtp), await parts(byApi), 'the content')
  const opened = mail.received.filter(({ raw, to }) => to === 'ada@example.net' && raw.includes(bySmtp))[0]!.raw
  t.match(
    opened.toString().replaceAll('=\r\n', ''),
    /links\.example\.com\/o\//,
    'it is tracked where that is asked for'
  )
  const callbacks = await hooks.waitFor(requests => requests.length >= 8)
  const bodies = callbacks.map(({ body }) => JSON.parse(body.toString()))
  const of = (id: string) =>
    bodies.filter(({ data }) => data.email_id === id).map(event => ({ ...event, data: { ...event.data } }))
      .sort((a, b) => (a.data.to < b.data.to ? -1 : 1)).map(comparable)
  t.equal(of(bySmtp).length, 4)
  t.strictSame(of(bySmtp), of(byApi), 'the callbacks')
})

t.test('a mail by SMTP is scheduled, canceled, sent again and erased as any other', async t => {
  const transport = createTransport({ port: app.submissionPort!, requireTLS: true, auth: logIn, tls })
  t.teardown(() => transport.close())
  const send = async (to: string[], headers: Record<string, string> = {}) => {
    const { response } = await transport.sendMail({
      from: 'hello@shop.example',
      to,
      subject: 'Hi',
      text: 'Hello',
      headers
    })
    return response
  }
  const later = new Date(Date.now() + 86_400_000).toISOString()
  const scheduled = await send(['later@example.net'], { 'X-Jetpost-Scheduled-At': later })
  t.match(scheduled, /^250 2\.0\.0 scheduled as em_/)
  const id = /em_\w+/.exec(scheduled)![0]
  t.match((await app.request('GET', `/api/emails/${id}`)).body, { status: 'scheduled', scheduled_at: later })
  t.equal((await app.request('POST', `/api/emails/${id}/cancel`)).status, 200)

  mail.replies('again@example.net', { rcpt: '550 5.7.1 not today' })
  const bounced = /em_\w+/.exec(await send(['again@example.net']))![0]
  await app.settled(bounced, 'bounced')
  await app.request('DELETE', '/api/suppressions/again@example.net')
  t.equal((await app.request('POST', `/api/emails/${bounced}/retry`)).status, 202)
  await app.settled(bounced, 'delivered')
  const copy = mail.received.findLast(({ to, accepted }) => to === 'again@example.net' && accepted)!
  t.match(copy.raw.toString(), /\r\n\r\nHello\r\n$/)

  const two = /em_\w+/.exec(await send(['"Love, Ada" <forget@example.net>', 'stay@example.net']))![0]
  await app.settled(two, 'delivered')
  const erased = await app.request('POST', '/api/erasures', { body: { address: 'forget@example.net' } })
  t.equal(erased.status, 202)
  await until(async () => !(await rawOf(two, 1)).includes('forget@example.net'))
  const raw = await rawOf(two, 1)
  t.match(raw, /\r\nTo: stay@example\.net\r\n/)
  t.notMatch(raw, /Love, Ada/)
  t.match(raw, /\r\n\r\nHello\r\n$/, 'the others keep theirs')
})

async function rawOf (id: string, recipient: number): Promise<string> {
  return String((await app.request('GET', `/api/emails/${id}/raw?recipient=${recipient}`)).body)
}

t.test('a template in the place of the content', async t => {
  const made = await app.request('POST', '/api/templates', {
    body: { name: 'welcome', subject: 'Welcome, {{name}}', html: '<p>Hello {{name}}</p>' }
  })
  const peer = await logInPeer(app.submissionPort!, API_KEY)
  const head = [
    'From: hello@shop.example',
    'To: ada@example.net',
    `X-Jetpost-Template: ${made.body.id}`,
    'X-Jetpost-Variables: {"name":"Ada"}'
  ]
  const reply = await submit(peer, 'hello@shop.example', ['ada@example.net'], `${head.join('\r\n')}\r\n\r\n\r\n`)
  peer.close()
  t.match(reply, /^250 /)
  const email = await app.settled(/em_\w+/.exec(reply)![0], 'delivered')
  t.match(email, { subject: 'Welcome, Ada', template: { id: made.body.id, version: 1 }, to: ['ada@example.net'] })
})

t.test('with JETPOST_SUBMISSION_ONCE a client that has lost our answer sends no second mail', async t => {
  const once = await startTestApp(t, {
    env: { SMTP_URL: mail.url, JETPOST_SUBMISSION_PORT: '0', JETPOST_SUBMISSION_ONCE: 'true' }
  })
  const from = 'hello@sandbox.jetpost.test'
  const message = (body: string) => `From: ${from}\r\nMessage-ID: <1@client>\r\nSubject: Hi\r\n\r\n${body}\r\n`
  const peer = await logInPeer(once.submissionPort!, API_KEY)
  const first = await submit(peer, from, ['ada@example.net'], message('One'))
  t.match(first, /^250 2\.0\.0 queued as em_\w+$/)
  t.equal(await submit(peer, from, ['ada@example.net'], message('One')), `${first}, accepted before`)
  t.match(await submit(peer, from, ['bob@example.net'], message('One')), /^250 2\.0\.0 queued as em_\w+$/, 'to another')
  t.match(
    await submit(peer, from, ['ada@example.net'], message('Two')),
    /^250 2\.0\.0 queued as em_\w+$/,
    'another mail'
  )
  peer.close()
})

t.test('ready only while it listens, and counted', async t => {
  const ready = await app.request('GET', '/readyz')
  t.match(JSON.stringify(ready.body), /submission/)
  const { body: metrics } = await app.request('GET', '/metrics')
  t.match(metrics, /^jetpost_submission_seconds_count\{code="250"\} [1-9]/m)
  t.match(metrics, /^jetpost_submission_connections \d/m)
})
