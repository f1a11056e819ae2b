import t, { type Test } from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { createTokens } from '#src/content/token.ts'
import { readFacts } from '#src/nats/range.ts'
import type { SmtpStage } from '#streams/email/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { openBus } from '../support/bus.ts'
import { REPORT_FORMS, reportOf } from '../fixtures/replies-reported.ts'
import { startTestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { arf, dsn, handIn, letter, vacation } from '../support/inbound-peer.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink, type Received } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const HOST = 'bounces.jetpost.test'
const KEPT = /^250 2\.0\.0 kept as in_/
const { natsUrl } = freshAccount()
const mail = await startSink()
const hooks = await startHookSink()
const app = await startTestApp(t, {
  natsUrl,
  env: { SMTP_URL: mail.url, JETPOST_INBOUND_PORT: '0', JETPOST_BOUNCE_DOMAIN: HOST, JETPOST_DOMAINS: 'shop.example' }
})
const { bus } = await openBus(t, natsUrl)
const port = app.inboundPort!
t.teardown(async () => {
  await hooks.stop()
  await mail.stop()
})
await app.request('POST', '/api/webhooks', {
  body: { url: hooks.url, events: ['email.bounced', 'email.complained', 'email.unsubscribed'] }
})

let sent = 0

interface Sent {
  id: string
  to: string
  returnPath: string
  header: string
  unsubscribe: string
}

/** A mail that has been delivered, with what stands in it for whatever comes back. */
async function deliver (fields: Record<string, unknown> = {}): Promise<Sent> {
  const to = `ada${++sent}@example.com`
  const { body: { id } } = await app.send({ to, ...fields })
  await app.settled(id, 'delivered')
  return sentOf(id, to, mail.received.find(message => message.to === to)!)
}

function sentOf (id: string, to: string, { from, raw }: Received): Sent {
  const header = raw.toString('latin1').split('\r\n\r\n')[0]!
  const unsubscribe = /<mailto:(u\+[^?>]+)/.exec(header.replaceAll(/\r\n[ \t]/g, ' ').replaceAll(' ', ''))?.[1] ?? ''
  return { id, to, returnPath: from, header, unsubscribe }
}

const events = (id: string) =>
  hooks.requests.map(request => JSON.parse(request.body.toString())).filter(event => event.data.email_id === id)

/** What was counted of mails that came back. */
async function counted (kind: string, outcome: string): Promise<number> {
  const { body } = await app.request('GET', '/metrics', { key: null })
  return Number(
    new RegExp(`jetpost_inbound_mails_total\\{kind="${kind}",outcome="${outcome}"\\} (\\d+)`).exec(body)?.[1] ?? 0
  )
}

/** Hands in a mail, and waits until one more of its kind had this outcome. */
async function comesTo (t: Test, kind: string, outcome: string, to: string | string[], raw: string): Promise<void> {
  const before = await counted(kind, outcome)
  t.match(await handIn(port, { to, raw }), KEPT)
  await until(async () => await counted(kind, outcome) === before + 1, 20_000)
}

async function facts (id: string): Promise<string[]> {
  const found = await Promise.all(
    [subjects.recipient, subjects.engagement].map(subject => readFacts(bus, 'EMAILS', subject(FIRST_ACCOUNT, id, 0)))
  )
  return found.flat().map(({ fact }) => fact.type)
}

const SETTLED = ['email.attempted', 'email.delivered']

t.test("6.1 a bounce that comes after the delivery is email.bounced, and the recipient's status", async t => {
  const { id, to, returnPath, header } = await deliver()
  t.match(
    await handIn(port, { to: returnPath.toUpperCase(), raw: dsn({ to, returned: header }) }),
    KEPT,
    'in capitals, as servers on the way may write it'
  )
  const email = await app.settled(id, 'bounced')
  t.match(email.recipients, [{ status: 'bounced', last_response: { smtp_code: 550, enhanced_code: '5.1.1' } }])
  await hooks.waitFor(() => events(id).length > 0)
  t.match(events(id), [{
    type: 'email.bounced',
    data: {
      to,
      smtp_response: /no such user/,
      bounce: { type: 'hard', class: 'userunknown', code: 550, enhanced_code: '5.1.1', final: true }
    }
  }])
})

t.test('the same bounce twice, and a mail worked on twice, is one fact', async t => {
  const { id, to, returnPath } = await deliver()
  await comesTo(t, 'hard', 'bounced', returnPath, dsn({ to }))
  await comesTo(t, 'hard', 'nothing_new', returnPath, dsn({ to }))
  t.strictSame(await facts(id), [...SETTLED, 'email.bounced'])
})

t.test('a delay, an out-of-office reply and a success are no bounce', async t => {
  const { id, to, returnPath } = await deliver()
  await comesTo(
    t,
    'soft',
    'nothing',
    returnPath,
    dsn({ to, action: 'delayed', status: '4.4.1', diagnostic: 'smtp; 451 4.4.1 no answer yet' })
  )
  await comesTo(t, 'auto-reply', 'nothing', returnPath, vacation(returnPath))
  await comesTo(
    t,
    'delivered',
    'nothing',
    returnPath,
    dsn({ to, action: 'relayed', status: '2.0.0', diagnostic: 'smtp; 250 2.0.0 ok' })
  )
  t.strictSame(await facts(id), SETTLED)
  t.equal((await app.request('GET', `/api/emails/${id}`)).body.status, 'delivered')
})

t.test('a bounce that is quicker than the reply it follows waits for the outcome', async t => {
  const to = 'slow-reply@example.com'
  mail.replies(to, { dot: { reply: '250 2.0.0 queued at last', afterMs: 2500 } })
  const { body: { id } } = await app.send({ to })
  await until(() => mail.received.some(message => message.to === to))
  await until(async () => (await facts(id)).length === 1)
  t.match(await handIn(port, { to: mail.received.find(message => message.to === to)!.from, raw: dsn({ to }) }), KEPT)
  await app.settled(id, 'bounced')
  t.strictSame(await facts(id), [...SETTLED, 'email.bounced'])
})

t.test('6.1 a complaint with our token in the mail it returns is email.complained, once', async t => {
  const { id, header } = await deliver()
  const report = arf({ returned: header.replace(/^To: .*$/m, 'To: undisclosed') })
  await comesTo(t, 'complaint', 'complained', `fbl@${HOST}`, report)
  await comesTo(t, 'complaint', 'nothing_new', `fbl@${HOST}`, report)
  await hooks.waitFor(() => events(id).length > 0)
  t.match(events(id), [{ type: 'email.complained', data: { complaint: { type: 'abuse' } } }])
  t.strictSame(await facts(id), [...SETTLED, 'email.complained'])
})

t.test('a report without a genuine token leads to nothing, whatever else it knows of a mail', async t => {
  const { id, to, header } = await deliver()
  const forger = createTokens('the-secret-of-somebody-else-32-characters!')
  const token = forger.mint('return', { email: id, n: 0, request: 1 })
  const forged = header.replaceAll(/[0-9a-z]{54}/g, token)
  t.match(forged, new RegExp(`CFBL-Feedback-ID: ${token}`))
  await comesTo(t, 'complaint', 'no_token', `fbl@${HOST}`, arf({ returned: forged }))
  await comesTo(
    t,
    'hard',
    'no_token',
    `abuse@${HOST}`,
    dsn({ to, returned: `${forged}\r\nReturn-Path: <b+${token}@${HOST}>` })
  )
  t.strictSame(await facts(id), SETTLED)
})

t.test('feedback that is no complaint leads to nothing; an opt-out unsubscribes', async t => {
  const { id, header } = await deliver()
  for (const type of ['auth-failure', 'not-spam']) {
    await comesTo(t, 'none', 'nothing', `fbl@${HOST}`, arf({ type, returned: header }))
  }
  t.strictSame(await facts(id), SETTLED)
  await comesTo(t, 'unsubscribe', 'unsubscribed', `fbl@${HOST}`, arf({ type: 'opt-out', returned: header }))
  t.strictSame(await facts(id), [...SETTLED, 'email.unsubscribed'])
})

t.test('6.1 a mail to the unsubscribe address is email.unsubscribed; an auto-reply or a bounce is not', async t => {
  const { id, to, unsubscribe } = await deliver({ unsubscribe: true })
  await comesTo(t, 'auto-reply', 'nothing', unsubscribe, vacation(unsubscribe))
  await comesTo(t, 'hard', 'nothing', unsubscribe, dsn({ to }))
  t.strictSame(await facts(id), SETTLED)
  await comesTo(t, 'none', 'unsubscribed', unsubscribe.toUpperCase(), letter('please, no more of this'))
  await hooks.waitFor(() => events(id).length > 0)
  t.match(events(id), [{ type: 'email.unsubscribed', data: { to } }])
  await comesTo(t, 'unsubscribe', 'nothing_new', unsubscribe, letter('unsubscribe'))
})

t.test('a bounce without a status part, in words alone, is one too', async t => {
  const { id, to, returnPath } = await deliver()
  const raw = [
    'From: MAILER-DAEMON@mx.example.net',
    'Subject: failure notice',
    '',
    'Hi. This is the qmail-send program at mx.example.net.',
    "I'm afraid I wasn't able to deliver your message to the following addresses.",
    "This is a permanent error; I've given up. Sorry it didn't work out.",
    '',
    `<${to}>:`,
    '192.0.2.1 does not like recipient.',
    'Remote host said: 550 5.1.1 user unknown',
    'Giving up on 192.0.2.1.',
    '',
    '--- Below this line is a copy of the message.',
    '',
    'Subject: Hello',
    '',
    'x',
    ''
  ].join('\r\n')
  await comesTo(t, 'hard', 'bounced', returnPath, raw)
  t.strictSame(await facts(id), [...SETTLED, 'email.bounced'])
})

t.test('a report that our sender was refused, at any stage and in any form, suppresses nobody', async t => {
  const refusals = {
    connect: '554 5.1.1 unknown user or host',
    ehlo: '550 Host unknown',
    mail: '550 5.1.1 <b@shop.example>: User unknown',
    rcpt: '550 5.1.8 <b@shop.example>: Sender address rejected: Domain not found',
    data: '550 5.1.0 <b@shop.example>: Sender address rejected: user does not exist'
  }
  const living: string[] = []
  for (const form of REPORT_FORMS) {
    for (const [stage, text] of Object.entries(refusals)) {
      const { id, to, returnPath } = await deliver()
      await comesTo(t, 'soft', 'bounced', returnPath, reportOf({ form, to, text, stage: stage as SmtpStage }))
      t.strictSame(await facts(id), [...SETTLED, 'email.bounced'], `${form}, ${stage}`)
      living.push(to)
    }
  }
  const { to, returnPath } = await deliver()
  const text = `550 5.1.1 <${to}>: User unknown`
  await comesTo(t, 'hard', 'bounced', returnPath, reportOf({ form: 'postfix', to, text, stage: 'rcpt' }))
  const suppressed = async (address: string) =>
    (await app.request('GET', `/api/suppressions/${address}`)).status === 200
  await until(async () => await suppressed(to))
  for (const address of living) t.notOk(await suppressed(address), address)
})

t.test('forged tokens, other mailboxes and other hosts are refused at RCPT', async t => {
  const { returnPath, unsubscribe } = await deliver({ unsubscribe: true })
  const raw = 'Subject: x\r\n\r\n'
  t.match(
    await handIn(port, { to: returnPath.replace(/.@/, match => (match === '0@' ? '1@' : '0@')), raw }),
    /^550 5\.1\.1 /
  )
  t.match(
    await handIn(port, { to: unsubscribe.replace('u+', 'b+'), raw }),
    /^550 5\.1\.1 /,
    'a token for something else'
  )
  t.match(await handIn(port, { to: `ada@${HOST}`, raw }), /^550 5\.1\.1 /)
  t.match(await handIn(port, { to: 'ada@example.com', raw }), /^550 5\.7\.1 /)
  t.match(await handIn(port, { to: returnPath.replace(HOST, 'example.com'), raw }), /^550 5\.7\.1 /)
  t.match(
    await handIn(port, { to: returnPath.replace(HOST, 'jp-bounces.shop.example'), raw }),
    KEPT,
    'the host a domain of ours has for itself'
  )
  t.match(
    await handIn(port, { to: returnPath.replace(HOST, 'jp-bounces.given-up.example'), raw }),
    KEPT,
    'the host of a domain that was given up'
  )
  t.match(await handIn(port, { to: 'postmaster@jp-bounces.given-up.example', raw }), /^550 5\.7\.1 /)
})
