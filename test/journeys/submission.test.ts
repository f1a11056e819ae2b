import { createTransport } from 'nodemailer'
import t from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'
import { startSink } from '../support/smtp-sink.ts'

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
