import Fastify from 'fastify'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { composeMessage } from '#src/content/mime.ts'
import { catcherPages } from '#src/servers/mailbox/pages.ts'
import { startCatcher, type Catcher } from '#src/servers/mailbox/server.ts'
import { closeSession, openSession, SMTP_TIMEOUTS } from '#src/workers/sender/session.ts'
import { parseTarget } from '#src/workers/sender/target.ts'
import { SmtpTransaction } from '#src/workers/sender/transaction.ts'
import { handIn } from '../support/inbound-peer.ts'

const LOCAL = { host: 'localhost:8080' }

async function openCatcher (t: Test, keepMax = 500) {
  const catcher = await startCatcher({
    port: null,
    host: '127.0.0.1',
    keepMax,
    comeBack: async () => {},
    log: pino({ level: 'silent' })
  })
  const app = Fastify()
  await app.register(catcherPages, { catcher })
  t.teardown(async () => {
    await app.close()
    await catcher.stop()
  })
  return { catcher, app }
}

async function send (
  catcher: Catcher,
  subjects: string[],
  html = '<p>Hello <script>alert(1)</script></p>'
): Promise<void> {
  const session = await openSession(parseTarget(catcher.url), 'sender.test', SMTP_TIMEOUTS)
  for (const [i, subject] of subjects.entries()) {
    const from = { address: 'shop@example.com', name: null }
    const message = composeMessage({
      messageId: `<${i}@example.com>`,
      date: '2026-11-21T06:20:00.000Z',
      from,
      recipients: [],
      replyTo: [],
      subject,
      headers: [],
      attachments: [],
      html,
      text: 'Hello'
    })
    const mail = { from: from.address, to: 'ada@example.net', message, envelopeId: 'e1', utf8: false }
    const transaction = new SmtpTransaction(session, mail, SMTP_TIMEOUTS)
    if (await transaction.sendBody()) transaction.finish()
    await transaction.result()
  }
  closeSession(session)
}

t.test('caught mail can be read, and does no harm', async t => {
  const { catcher, app } = await openCatcher(t)
  t.match((await app.inject({ url: '/catcher', headers: LOCAL })).body, 'No mail yet')
  await send(catcher, ['<b>one</b>', 'two'])
  const list = await app.inject({ url: '/catcher', headers: LOCAL })
  t.match(list.body, '&lt;b&gt;one&lt;/b&gt;')
  t.ok(list.body.indexOf('>two<') < list.body.indexOf('&gt;one&lt;'), 'newest first')
  const { data } = (await app.inject({ url: '/catcher.json', headers: LOCAL })).json()
  t.match(data, [{ subject: 'two', from: 'shop@example.com', to: ['ada@example.net'] }, { subject: '<b>one</b>' }])
  const page = await app.inject({ url: `/catcher/${data[0].id}`, headers: LOCAL })
  t.match(page.body, /<iframe[^>]+sandbox=/)
  t.notMatch(page.body, '<script>')
  t.match(page.headers['content-security-policy'], /default-src 'none'/)
  const html = await app.inject({ url: `/catcher/${data[0].id}.html`, headers: LOCAL })
  t.match(html.headers['content-security-policy'], /^sandbox /)
  const raw = await app.inject({ url: `/catcher/${data[0].id}.eml`, headers: LOCAL })
  t.match(raw.headers['content-type'], 'message/rfc822')
  t.match(raw.body, 'Subject: two')
  t.equal((await app.inject({ url: '/catcher/msg_none', headers: LOCAL })).statusCode, 404)
})

t.test('a mail that cannot be parsed does not hide the others', async t => {
  const { catcher, app } = await openCatcher(t)
  const raw = `Subject: Wide\r\n${`X-Long: ${'x'.repeat(900)}\r\n`.repeat(2500)}\r\nHello\r\n`
  const reply = await handIn(Number(new URL(catcher.url).port), { from: 'odd@example.com', to: 'ada@example.net', raw })
  await send(catcher, ['plain'])
  const list = await app.inject({ url: '/catcher', headers: LOCAL })
  for (const subject of ['(unreadable)', 'plain']) t.match(list.body, `>${subject}</a>`)
  const page = await app.inject({ url: `/catcher/${/msg_\w+/.exec(reply)![0]}`, headers: LOCAL })
  t.equal(page.statusCode, 200)
  t.match(page.body, '<h1>(unreadable)</h1>')
})

t.test('only the newest are kept', async t => {
  const { catcher } = await openCatcher(t, 3)
  await send(catcher, ['1', '2', '3', '4', '5'])
  t.equal(catcher.messages().length, 3)
  t.match(catcher.messages()[0]!.raw.toString(), 'Subject: 5')
})

t.test('clients that are not local find nothing', async t => {
  const { app } = await openCatcher(t)
  const asked = await Promise.all([
    app.inject({ url: '/catcher', headers: LOCAL, remoteAddress: '203.0.113.9' }),
    app.inject({ url: '/catcher', headers: { ...LOCAL, 'x-forwarded-for': '203.0.113.9' } }),
    app.inject({ url: '/catcher.json', headers: { host: 'rebound.example.com' } }),
    app.inject({ url: '/catcher/msg_1.eml', headers: LOCAL, remoteAddress: '10.0.0.1' })
  ])
  t.same(asked.map(({ statusCode }) => statusCode), [404, 404, 404, 404])
})
