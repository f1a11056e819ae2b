import { createHmac } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { createTransport } from 'nodemailer'
import t, { type Test } from 'tap'
import { startTestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { startSink, type Received } from '../support/smtp-sink.ts'

const TYPES = [
  'email.delivered',
  'email.bounced',
  'email.opened',
  'email.clicked',
  'email.complained',
  'email.unsubscribed'
]
const mail = await startSink()
const hooks = await startHookSink()
const app = await startTestApp(t, {
  env: { SMTP_URL: mail.url, JETPOST_INBOUND_PORT: '0', JETPOST_BOUNCE_DOMAIN: 'bounces.jetpost.example' }
})
t.teardown(async () => {
  await hooks.stop()
  await mail.stop()
})
const { body: { secret } } = await app.request('POST', '/api/webhooks', { body: { url: hooks.url, events: TYPES } })

/** A plain send, and its message as the mail server got it. */
async function sent (to: string): Promise<{ id: string, message: Received, text: string }> {
  const { body: { id } } = await app.send({
    to,
    html: '<p>Hello <a href="https://shop.example/?a=1&amp;b=ü">shop</a></p>',
    tags: ['t'],
    metadata: { order: 7 }
  })
  await app.settled(id, 'delivered')
  const message = mail.received.find(message => message.to === to)!
  // Undone: soft line breaks and escapes of quoted-printable, folds of headers.
  const text = message.raw.toString().replaceAll('=\r\n', '').replaceAll(
    /=([0-9A-F]{2})/g,
    (_all, hex: string) => String.fromCharCode(parseInt(hex, 16))
  )
  return { id, message, text: text.replaceAll(/\r\n(?=[ \t])/g, '') }
}

/** The event of this type for the email, its signature checked; it must be the only one. */
async function told (t: Test, id: string, type: string): Promise<any> {
  const isIt = ({ body }: { body: Buffer }) => {
    const event = JSON.parse(body.toString())
    return event.type === type && event.data.email_id === id
  }
  const requests = (await hooks.waitFor(requests => requests.some(isIt))).filter(isIt)
  t.equal(requests.length, 1)
  t.equal(
    requests[0]!.headers['x-service-signature'],
    `sha256=${createHmac('sha256', secret).update(requests[0]!.body).digest('hex')}`
  )
  return JSON.parse(requests[0]!.body.toString())
}

/** Waits until the address is suppressed. */
async function suppression (address: string): Promise<any> {
  for (const endMs = Date.now() + 10_000;; await wait(50)) {
    const { status, body } = await app.request('GET', `/api/suppressions/${address}`)
    if (status === 200) return body
    if (Date.now() > endMs) throw new Error(`${address} is not suppressed`)
  }
}

const path = (text: string, kind: 'o' | 'c' | 'u'): string =>
  new RegExp(`https://links.example.com(/${kind}/[\\w.-]+)`).exec(text)![1]!
const remote = (from: string) => ({
  send: (to: string, raw: string) =>
    createTransport({ port: app.inboundPort!, host: '127.0.0.1', tls: { rejectUnauthorized: false } }).sendMail({
      envelope: { from, to },
      raw
    })
})
const common = (id: string, to: string) => ({
  email_id: id,
  from: 'hello@sandbox.jetpost.test',
  to,
  subject: 'Hello',
  tags: ['t'],
  metadata: { order: 7 },
  message_id: /^<em_/,
  sequence: Number
})

t.test('6.1 email.delivered: a plain send that the server took', async t => {
  const { id } = await sent('taken@example.com')
  t.match(await told(t, id, 'email.delivered'), {
    data: { ...common(id, 'taken@example.com'), smtp_response: /^250 /, via: 'relay' }
  })
})

t.test('6.1 email.bounced: refused, hard; deferred, soft', async t => {
  mail.replies('gone@example.net', { rcpt: '550 5.1.1 no such user here' })
  mail.replies('later@example.net', { rcpt: '451 4.7.1 greylisted, come back later' })
  const [gone, later] = await Promise.all(
    ['gone@example.net', 'later@example.net'].map(async to =>
      (await app.send({ to, tags: ['t'], metadata: { order: 7 } })).body.id
    )
  )
  t.match(await told(t, gone, 'email.bounced'), {
    data: { ...common(gone, 'gone@example.net'), bounce: { type: 'hard', class: 'userunknown', final: true } }
  })
  t.match(await told(t, later, 'email.bounced'), {
    data: { ...common(later, 'later@example.net'), bounce: { type: 'soft', class: 'speeding', final: false } }
  })
})

t.test('6.1 email.opened: the pixel was fetched; email.clicked: the link was followed', async t => {
  const { id, text } = await sent('reader@example.com')
  const pixel = await fetch(app.url + path(text, 'o'))
  t.match(pixel, { status: 200 })
  t.equal(pixel.headers.get('content-type'), 'image/gif')
  const link = await fetch(app.url + path(text, 'c'), { redirect: 'manual' })
  t.equal(link.status, 302)
  t.equal(link.headers.get('location'), 'https://shop.example/?a=1&b=%C3%BC')
  t.match(await told(t, id, 'email.opened'), { data: { ...common(id, 'reader@example.com'), machine: Boolean } })
  t.match(await told(t, id, 'email.clicked'), {
    data: {
      ...common(id, 'reader@example.com'),
      machine: Boolean,
      click: { url: /^https:\/\/shop\.example\/\?a=1&b=/ }
    }
  })
})

t.test('6.1 email.complained: a feedback report came back; the address gets no more mail', async t => {
  const { id, message } = await sent('angry@example.com')
  const report = [
    'From: <feedback@isp.example>',
    'To: <fbl@bounces.jetpost.example>',
    'Subject: FW: Hello',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=feedback-report; boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'This is an email abuse report.',
    '',
    '--b',
    'Content-Type: message/feedback-report',
    '',
    'Feedback-Type: abuse',
    'User-Agent: SomeGenerator/1.0',
    'Version: 1',
    '',
    '--b',
    'Content-Type: message/rfc822',
    '',
    message.raw.toString(),
    '--b--',
    ''
  ]
  await remote('feedback@isp.example').send('fbl@bounces.jetpost.example', report.join('\r\n'))
  t.match(await told(t, id, 'email.complained'), {
    data: { ...common(id, 'angry@example.com'), complaint: { type: 'abuse' } }
  })
  t.match(await suppression('angry@example.com'), { reasons: [{ reason: 'complaint' }] })
  const { body: again } = await app.send({ to: 'angry@example.com' })
  t.equal(again.status, 'suppressed')
  await app.settled(again.id, 'suppressed')
  t.equal(mail.attempts('angry@example.com'), 1)
})

t.test('6.1 email.unsubscribed: one click, by POST; then only mail that nobody can unsubscribe from', async t => {
  const { id, text } = await sent('enough@example.com')
  const answer = await fetch(app.url + path(text, 'u'), {
    method: 'POST',
    body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }),
    redirect: 'manual'
  })
  t.equal(answer.status, 200)
  t.match(await told(t, id, 'email.unsubscribed'), { data: common(id, 'enough@example.com') })
  t.match(await suppression('enough@example.com'), { reasons: [{ reason: 'unsubscribe' }] })
  t.equal((await app.send({ to: 'enough@example.com' })).body.status, 'suppressed')
  await app.settled((await app.send({ to: 'enough@example.com', unsubscribe: false })).body.id, 'delivered')
})

t.test('a bounce that comes back later is email.bounced too, and ends mail to the address', async t => {
  const { id, message } = await sent('moved@example.com')
  const report = [
    'From: <MAILER-DAEMON@mx.example.com>',
    `To: <${message.from}>`,
    'Subject: Undelivered Mail Returned to Sender',
    'Auto-Submitted: auto-replied',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'Your message could not be delivered.',
    '',
    '--b',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; mx.example.com',
    '',
    'Final-Recipient: rfc822; moved@example.com',
    'Action: failed',
    'Status: 5.1.1',
    'Diagnostic-Code: smtp; 550 5.1.1 <moved@example.com>: User unknown in virtual mailbox table',
    '',
    '--b',
    'Content-Type: text/rfc822-headers',
    '',
    'Subject: Hello',
    '',
    '--b--',
    ''
  ]
  await remote('').send(message.from, report.join('\r\n'))
  t.match(await told(t, id, 'email.bounced'), {
    data: {
      ...common(id, 'moved@example.com'),
      smtp_response: /User unknown/,
      bounce: { type: 'hard', class: 'userunknown', enhanced_code: '5.1.1', final: true }
    }
  })
  t.match(await app.settled(id, 'bounced'), { recipients: [{ delivered_at: /Z$/, bounced_at: /Z$/ }] })
  t.match(await suppression('moved@example.com'), { reasons: [{ reason: 'bounce', email_id: id }] })
})

t.test('mail of a test key is marked, and endpoints may choose', async t => {
  const [live, test] = [await startHookSink(), await startHookSink()]
  t.teardown(async () => void await Promise.all([live.stop(), test.stop()]))
  for (const [sink, mode] of [[live, 'live'], [test, 'test']] as const) {
    await app.request('POST', '/api/webhooks', { body: { url: sink.url, events: ['email.delivered'], mode } })
  }
  const { secret: key } = await app.newKey({ test: true })
  const { status, body: { id } } = await app.send({}, key)
  t.equal(status, 202)
  t.match(await told(t, id, 'email.delivered'), { data: { test: true } })
  const real = await sent('grace@example.net')
  t.equal('test' in (await told(t, real.id, 'email.delivered')).data, false)
  const ids = ({ requests }: typeof live) => requests.map(({ body }) => JSON.parse(body.toString()).data.email_id)
  await test.waitFor(requests => requests.length === 1)
  await live.waitFor(requests => requests.length === 1)
  t.same([ids(test), ids(live)], [[id], [real.id]])
})
