import Fastify from 'fastify'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { composeMessage } from '#src/content/mime.ts'
import { MailboxDoor, catcherPages, MAILBOX_LINK_PATH } from '#src/servers/mailbox/pages.ts'
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
  const door = new MailboxDoor()
  await app.register(catcherPages, { catcher, door, isOperators: async () => false })
  t.teardown(async () => {
    await app.close()
    await catcher.stop()
  })
  const enter = async (token: string, method: 'GET' | 'HEAD' = 'GET', headers: Record<string, string> = LOCAL) =>
    await app.inject({ method, url: MAILBOX_LINK_PATH + token, headers })
  const { cookies: [cookie] } = await enter(door.mintToken())
  const local = { ...LOCAL, cookie: `${cookie!.name}=${cookie!.value}` }
  return { catcher, app, door, enter, local }
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
  const { catcher, app, local } = await openCatcher(t)
  t.match((await app.inject({ url: '/catcher', headers: local })).body, 'No mail yet')
  await send(catcher, ['<b>one</b>', 'two'])
  const list = await app.inject({ url: '/catcher', headers: local })
  t.match(list.body, '&lt;b&gt;one&lt;/b&gt;')
  t.ok(list.body.indexOf('>two<') < list.body.indexOf('&gt;one&lt;'), 'newest first')
  const { data } = (await app.inject({ url: '/catcher.json', headers: local })).json()
  t.match(data, [{ subject: 'two', from: 'shop@example.com', to: ['ada@example.net'] }, { subject: '<b>one</b>' }])
  const page = await app.inject({ url: `/catcher/${data[0].id}`, headers: local })
  t.match(page.body, /<iframe[^>]+sandbox=/)
  t.notMatch(page.body, '<script>')
  t.match(page.headers['content-security-policy'], /default-src 'none'/)
  const html = await app.inject({ url: `/catcher/${data[0].id}.html`, headers: local })
  t.match(html.headers['content-security-policy'], /^sandbox /)
  const raw = await app.inject({ url: `/catcher/${data[0].id}.eml`, headers: local })
  t.match(raw.headers['content-type'], 'message/rfc822')
  t.match(raw.body, 'Subject: two')
  t.equal((await app.inject({ url: '/catcher/msg_none', headers: local })).statusCode, 404)
})

t.test('a mail that cannot be parsed does not hide the others', async t => {
  const { catcher, app, local } = await openCatcher(t)
  const raw = `Subject: Wide\r\n${`X-Long: ${'x'.repeat(900)}\r\n`.repeat(2500)}\r\nHello\r\n`
  const reply = await handIn(Number(new URL(catcher.url).port), { from: 'odd@example.com', to: 'ada@example.net', raw })
  await send(catcher, ['plain'])
  const list = await app.inject({ url: '/catcher', headers: local })
  for (const subject of ['(unreadable)', 'plain']) t.match(list.body, `>${subject}</a>`)
  const page = await app.inject({ url: `/catcher/${/msg_\w+/.exec(reply)![0]}`, headers: local })
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
  const { app, local } = await openCatcher(t)
  const asked = await Promise.all([
    app.inject({ url: '/catcher', headers: local, remoteAddress: '203.0.113.9' }),
    app.inject({ url: '/catcher', headers: { ...local, 'x-forwarded-for': '203.0.113.9' } }),
    app.inject({ url: '/catcher.json', headers: { ...local, host: 'rebound.example.com' } }),
    app.inject({ url: '/catcher/msg_1.eml', headers: local, remoteAddress: '10.0.0.1' })
  ])
  t.same(asked.map(({ statusCode }) => statusCode), [404, 404, 404, 404])
})

t.test('a proxy on this machine that says Host: localhost and no more reads nothing', async t => {
  const { app, catcher } = await openCatcher(t)
  await send(catcher, ['private'])
  const { id } = catcher.messages()[0]!
  for (const path of ['', '.json', `/${id}`, `/${id}.eml`, `/${id}.html`, '/msg_none', '?token=', '?token=x']) {
    const { statusCode, body } = await app.inject({ url: `/catcher${path}`, headers: LOCAL })
    t.equal(statusCode, 403, path)
    t.notMatch(body, /private|Hello/, path)
    t.match(body, 'the link that the start of Jetpost printed', path)
  }
})

t.test('a link opens it once, for one browser, that may come by it again; a HEAD leaves it good', async t => {
  const { app, door, enter, local } = await openCatcher(t)
  const token = door.mintToken()
  t.equal((await enter(token, 'HEAD')).statusCode, 403)
  t.equal((await enter(token, 'GET', { ...LOCAL, 'x-real-ip': '203.0.113.9' })).statusCode, 404)
  const entered = await enter(token)
  t.match(entered, { statusCode: 303, headers: { location: '/catcher' } })
  t.match(entered.cookies.map(({ path, httpOnly, sameSite }) => [path, httpOnly, sameSite]), [
    ['/catcher', true, 'Strict'],
    ['/catcher.json', true, 'Strict']
  ])
  t.equal((await enter(token)).statusCode, 403, 'in another browser')
  t.match(await enter(token, 'GET', local), { statusCode: 303, headers: { location: '/catcher' } }, 'in the same')
  t.equal((await app.inject({ url: '/catcher', headers: local })).statusCode, 200)
  const other = new MailboxDoor()
  t.equal(other.enter(door.mintToken()), null, 'of another process')
})
