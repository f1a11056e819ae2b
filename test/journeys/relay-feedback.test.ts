import t, { type Test } from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { InboundReported } from '#streams/inbound/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { getFact, lastSequence } from '#src/nats/get.ts'
import { decodeStored } from '#src/nats/message.ts'
import { readFacts, readRange } from '#src/nats/range.ts'
import { startTestApp, type Answer } from '../support/app.ts'
import { openBus } from '../support/bus.ts'
import { erase, receipt } from '../support/erasure-rig.ts'
import { startHookSink } from '../support/hook-sink.ts'
import {
  brevoEvent,
  MAILGUN_KEY,
  mailgunEvent,
  postmarkRecord,
  SENDGRID_KEY,
  sendgridEvent,
  sendgridHeaders,
  sesBounce,
  sesEvent,
  type ReportedMail
} from '../support/relay-reports.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { createTestSns, TOPIC } from '../support/sns.ts'
import { until } from '../support/wait.ts'

const { natsUrl } = freshAccount()
const mail = await startSink()
const hooks = await startHookSink()
const sns = createTestSns()
const app = await startTestApp(t, {
  natsUrl,
  fetchText: url => sns.fetchText(url),
  env: { SMTP_URL: mail.url, JETPOST_BOUNCE_DOMAIN: 'bounces.jetpost.test', JETPOST_DOMAINS: 'shop.example' }
})
const { bus } = await openBus(t, natsUrl)
t.teardown(async () => {
  await hooks.stop()
  await mail.stop()
})
await app.request('POST', '/api/webhooks', {
  body: { url: hooks.url, events: ['email.delivered', 'email.bounced', 'email.complained', 'email.unsubscribed'] }
})

const MAPPING = {
  reports: '/events',
  message_id: '/mail/id',
  recipient: '/to',
  kind: '/what',
  reason: '/reply',
  time: '/at',
  kinds: { lost: 'failed', late: 'delayed', there: 'delivered', spam: 'complaint', stop: 'unsubscribe' }
}

async function newSource (fields: object): Promise<{ id: string, path: string }> {
  const { status, body } = await app.request('POST', '/api/feedback-sources', { body: { name: 'A relay', ...fields } })
  if (status !== 201) throw new Error(JSON.stringify(body))
  return { id: body.id, path: new URL(body.url).pathname }
}

const sources = {
  ses: await newSource({ provider: 'ses', topic_arn: TOPIC }),
  mailgun: await newSource({ provider: 'mailgun', verification_key: MAILGUN_KEY }),
  postmark: await newSource({ provider: 'postmark' }),
  sendgrid: await newSource({ provider: 'sendgrid', verification_key: SENDGRID_KEY }),
  brevo: await newSource({ provider: 'brevo' }),
  generic: await newSource({ provider: 'generic', mapping: MAPPING })
}
type Provider = keyof typeof sources

async function post (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  const raw = typeof body === 'string' ? body : JSON.stringify(body)
  return await app.request('POST', path, { key: null, raw, headers: { 'content-type': 'text/plain', ...headers } })
}

/** As the provider tells it. */
async function tell (provider: Provider, report: unknown): Promise<Answer> {
  const { path } = sources[provider]
  if (provider === 'ses') return await post(path, sns.notification(report as object))
  if (provider !== 'sendgrid') return await post(path, provider === 'generic' ? { events: [report] } : report)
  const raw = JSON.stringify([report])
  return await post(path, raw, sendgridHeaders(raw))
}

let sent = 0

/** A mail that the relay has taken. */
async function deliver (fields: Record<string, unknown> = {}): Promise<ReportedMail & { id: string }> {
  const to = `ada${++sent}@example.com`
  const { body: { id } } = await app.send({ to, ...fields })
  await app.settled(id, 'delivered')
  const { from, messageId } = mail.received.find(message => message.to === to)!
  return { id, name: `${id}.0`, to, from, messageId: messageId! }
}

/** The same mail as a relay that changes the envelope and keeps no token has it. */
const withoutToken = <M extends ReportedMail>(mail: M): M => ({ ...mail, from: 'bounce@relay.example' })

const events = (id: string) =>
  hooks.requests.map(request => JSON.parse(request.body.toString())).filter(event => event.data.email_id === id)

async function facts (id: string): Promise<string[]> {
  const found = await Promise.all(
    [subjects.recipient, subjects.engagement].map(subject => readFacts(bus, 'EMAILS', subject(FIRST_ACCOUNT, id, 0)))
  )
  return found.flat().map(({ fact }) => fact.type)
}

const SETTLED = ['email.attempted', 'email.delivered']

async function counted (provider: string, outcome: string): Promise<number> {
  const { body } = await app.request('GET', '/metrics', { key: null })
  const line = new RegExp(
    `jetpost_relay_reports_total\\{provider="${provider}",kind="[a-z-]+",outcome="${outcome}"\\} (\\d+)`,
    'g'
  )
  return [...(body as string).matchAll(line)].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** Tells it, and waits until one more report of that provider had this outcome. */
async function comesTo (t: Test, provider: Provider, outcome: string, report: unknown): Promise<void> {
  const before = await counted(provider, outcome)
  t.match(await tell(provider, report), { status: 200, body: { received: 1 } })
  await until(async () => await counted(provider, outcome) === before + 1)
}

t.test('accepted by the relay is delivered; its bounce is a bounce, with its webhook and its suppression', async t => {
  const mail = await deliver()
  t.match(await tell('ses', sesBounce(mail)), { status: 200 })
  const email = await app.settled(mail.id, 'bounced')
  t.match(email.recipients, [{ status: 'bounced', last_response: { smtp_code: 550, enhanced_code: '5.1.1' } }])
  await hooks.waitFor(() => events(mail.id).some(({ type }) => type === 'email.bounced'))
  t.match(events(mail.id).map(({ type }) => type), ['email.delivered', 'email.bounced'])
  t.match(events(mail.id)[1].data, {
    to: mail.to,
    smtp_response: /user unknown/,
    bounce: { type: 'hard', class: 'userunknown', code: 550, enhanced_code: '5.1.1', final: true }
  })
  await until(async () => (await app.request('GET', `/api/suppressions/${mail.to}`)).status === 200)
  const { body: { id } } = await app.send({ to: mail.to })
  await app.settled(id, 'suppressed')
})

/** What each relay may say of a mail that it has taken, and what comes of it. */
const TABLE: Array<[Provider, string, (mail: ReportedMail) => unknown, outcome: string, why?: string]> = [
  ['ses', 'a permanent bounce', mail => sesBounce(mail), 'bounced', 'userunknown'],
  [
    'ses',
    'a full mailbox, without a word of the server',
    mail =>
      sesBounce(mail, { status: undefined, diagnosticCode: undefined, action: undefined }, {
        bounceType: 'Transient',
        bounceSubType: 'MailboxFull'
      }),
    'bounced',
    'mailboxfull'
  ],
  [
    'ses',
    'a complaint',
    mail => sesEvent('Complaint', { complainedRecipients: [{ emailAddress: mail.to }], feedbackId: 'f' }, mail),
    'complained'
  ],
  [
    'ses',
    'a complaint that is none',
    mail =>
      sesEvent('Complaint', {
        complainedRecipients: [{ emailAddress: mail.to }],
        complaintFeedbackType: 'not-spam'
      }, mail),
    ''
  ],
  [
    'ses',
    'a delivery',
    mail => sesEvent('Delivery', { recipients: [mail.to], smtpResponse: '250 ok' }, mail),
    'nothing_new'
  ],
  [
    'ses',
    'a delay',
    mail =>
      sesEvent('DeliveryDelay', { delayType: 'MailboxFull', delayedRecipients: [{ emailAddress: mail.to }] }, mail),
    'nothing'
  ],
  ['ses', 'a rejection', mail => sesEvent('Reject', { reason: 'Bad content' }, mail), 'bounced', 'virusdetected'],
  [
    'ses',
    'a rendering failure',
    mail => sesEvent('Rendering Failure', { templateName: 'T', errorMessage: "Attribute 'x' is not there" }, mail),
    'bounced',
    'contenterror'
  ],
  [
    'mailgun',
    'a permanent failure',
    mail =>
      mailgunEvent('failed', mail, {
        severity: 'permanent',
        reason: 'bounce',
        'delivery-status': { code: 550, message: '5.1.1 The email account that you tried to reach does not exist.' }
      }),
    'bounced',
    'userunknown'
  ],
  [
    'mailgun',
    'a temporary failure',
    mail =>
      mailgunEvent('failed', mail, { severity: 'temporary', reason: 'generic', 'delivery-status': { code: 451 } }),
    'nothing'
  ],
  [
    'mailgun',
    'a failure by age',
    mail => mailgunEvent('failed', mail, { severity: 'permanent', reason: 'old' }),
    'bounced',
    'expired'
  ],
  ['mailgun', 'a rejection', mail => mailgunEvent('rejected', mail, { reject: { reason: 'Sandbox' } }), 'bounced'],
  ['mailgun', 'a complaint', mail => mailgunEvent('complained', mail), 'complained'],
  ['mailgun', 'an unsubscription', mail => mailgunEvent('unsubscribed', mail), 'unsubscribed'],
  ['mailgun', 'a delivery', mail => mailgunEvent('delivered', mail), 'nothing_new'],
  ['postmark', 'a hard bounce', mail => postmarkRecord('Bounce', mail), 'bounced', 'userunknown'],
  [
    'postmark',
    'a soft bounce with the words of the server',
    mail => postmarkRecord('Bounce', mail, { Type: 'SoftBounce', Details: 'smtp;552 5.2.2 Mailbox full' }),
    'bounced',
    'mailboxfull'
  ],
  ['postmark', 'a delay', mail => postmarkRecord('Bounce', mail, { Type: 'Transient' }), 'nothing'],
  ['postmark', 'an answering machine', mail => postmarkRecord('Bounce', mail, { Type: 'AutoResponder' }), ''],
  ['postmark', 'a complaint', mail => postmarkRecord('SpamComplaint', mail), 'complained'],
  ['postmark', 'an unsubscription', mail => postmarkRecord('SubscriptionChange', mail), 'unsubscribed'],
  [
    'postmark',
    'a reactivation',
    mail => postmarkRecord('SubscriptionChange', mail, { SuppressSending: false, SuppressionReason: null }),
    ''
  ],
  ['postmark', 'a delivery', mail => postmarkRecord('Delivery', mail), 'nothing_new'],
  [
    'sendgrid',
    'a bounce',
    mail => sendgridEvent('bounce', mail, { type: 'bounce', status: '5.1.1', reason: '550 5.1.1 User unknown' }),
    'bounced',
    'userunknown'
  ],
  [
    'sendgrid',
    'a block',
    mail => sendgridEvent('bounce', mail, { type: 'blocked', status: '5.0.0', bounce_classification: 'Reputation' }),
    'bounced',
    'badreputation'
  ],
  [
    'sendgrid',
    'a drop',
    mail => sendgridEvent('dropped', mail, { reason: 'Bounced Address' }),
    'bounced',
    'userunknown'
  ],
  ['sendgrid', 'a deferral', mail => sendgridEvent('deferred', mail, { response: '400 try again later' }), 'nothing'],
  ['sendgrid', 'a complaint', mail => sendgridEvent('spamreport', mail), 'complained'],
  ['sendgrid', 'an open', mail => sendgridEvent('open', mail), ''],
  ['sendgrid', 'a delivery', mail => sendgridEvent('delivered', mail, { response: '250 OK' }), 'nothing_new'],
  [
    'sendgrid',
    'a bounce of a mail whose Message-ID is not told, by what the sender adds',
    mail => sendgridEvent('bounce', mail, { 'smtp-id': '<x@ismtpd-1>', jetpost: mail.name, reason: '550 5.1.1 gone' }),
    'bounced'
  ],
  ['brevo', 'a hard bounce', mail => brevoEvent('hard_bounce', mail, { reason: '' }), 'bounced', 'userunknown'],
  [
    'brevo',
    'a soft bounce',
    mail => brevoEvent('soft_bounce', mail, { reason: '452 4.2.2 over quota' }),
    'bounced',
    'mailboxfull'
  ],
  ['brevo', 'a block', mail => brevoEvent('blocked', mail), 'bounced', 'policyviolation'],
  ['brevo', 'a deferral', mail => brevoEvent('deferred', mail, { reason: '451 greylisted' }), 'nothing'],
  ['brevo', 'a complaint', mail => brevoEvent('spam', mail), 'complained'],
  ['brevo', 'a delivery', mail => brevoEvent('delivered', mail), 'nothing_new'],
  [
    'brevo',
    'a bounce of a mail whose Message-ID is another, by what the sender adds',
    mail => brevoEvent('hard_bounce', mail, { 'message-id': '<1@relay.brevo>', 'X-Mailin-custom': mail.name }),
    'bounced'
  ],
  [
    'generic',
    'a failure',
    mail => ({
      mail: { id: mail.messageId },
      to: mail.to,
      what: 'lost',
      reply: '550 5.1.1 no such user',
      at: 1764000000
    }),
    'bounced',
    'userunknown'
  ],
  ['generic', 'a failure that says no more', mail => ({ mail: { id: mail.messageId }, what: 'lost' }), 'bounced'],
  ['generic', 'a delay', mail => ({ mail: { id: mail.messageId }, to: mail.to, what: 'late' }), 'nothing'],
  ['generic', 'a complaint', mail => ({ mail: { id: mail.messageId }, to: mail.to, what: 'spam' }), 'complained'],
  [
    'generic',
    'an unsubscription',
    mail => ({ mail: { id: mail.messageId }, to: mail.to, what: 'stop' }),
    'unsubscribed'
  ],
  [
    'generic',
    'a word that is not mapped',
    mail => ({ mail: { id: mail.messageId }, to: mail.to, what: 'toString' }),
    ''
  ]
]

const FACTS: Record<string, string[]> = {
  bounced: ['email.bounced'],
  complained: ['email.complained'],
  unsubscribed: ['email.unsubscribed']
}

for (const [provider, what, reportOf, outcome, why] of TABLE) {
  t.test(`${provider}: ${what} is ${outcome === '' ? 'left out' : outcome}`, async t => {
    const mail = withoutToken(await deliver())
    const report = reportOf(mail)
    if (outcome === '') t.match(await tell(provider, report), { status: 200, body: { received: 0 } })
    else await comesTo(t, provider, outcome, report)
    t.strictSame(await facts(mail.id), [...SETTLED, ...FACTS[outcome] ?? []])
    if (outcome !== 'bounced') return
    const bounced = await getFact(bus, 'EMAILS', { last_by_subj: subjects.recipient(FIRST_ACCOUNT, mail.id, 0) })
    t.match(bounced!.fact.data, why === undefined ? {} : { class: why })
    await comesTo(t, provider, 'nothing_new', reportOf(mail))
    t.strictSame(await facts(mail.id), [...SETTLED, 'email.bounced'], 'told again, it happened once')
  })
}

t.test('a report names its mail by the return path where the Message-ID is not told', async t => {
  const mail = await deliver()
  await comesTo(t, 'ses', 'bounced', sesBounce({ ...mail, messageId: '<0107@eu-central-1.amazonses.com>' }))
  t.strictSame(await facts(mail.id), [...SETTLED, 'email.bounced'])
})

t.test('both versions of the SNS signature count', async t => {
  for (const version of ['1', '2'] as const) {
    const mail = await deliver()
    const told = sns.sign(sns.notification(sesBounce(mail)), version)
    t.match(await post(sources.ses.path, told), { status: 200, body: { received: 1 } })
    await app.settled(mail.id, 'bounced')
  }
})

t.test('a forged SNS message changes nothing', async t => {
  const mail = await deliver()
  const genuine = sns.notification(sesBounce(mail))
  const other = createTestSns()
  const before = await lastSequence(bus, 'INBOUND')
  const fetched = sns.fetched.length
  const forged: Record<string, object> = {
    'without a signature': { ...genuine, Signature: '' },
    'with another message under its signature': { ...genuine, Message: JSON.stringify(sesBounce(await deliver())) },
    'signed by another key': other.sign(genuine),
    'of a topic of somebody else': sns.notification(sesBounce(mail), { TopicArn: `${TOPIC}-of-others` }),
    'of a version that there is not': { ...genuine, SignatureVersion: '3' },
    ...Object.fromEntries(
      [
        'https://sns.eu-central-1.amazonaws.com.evil.example/x.pem',
        'https://evil.example/sns.eu-central-1.amazonaws.com/x.pem',
        'http://sns.eu-central-1.amazonaws.com/x.pem',
        'https://sns.eu-central-1.amazonaws.com:8443/x.pem',
        'https://x@sns.eu-central-1.amazonaws.com/x.pem',
        'https://sns.eu-central-1.amazonaws.com/?x.pem',
        'https://evil.s3.amazonaws.com/x.pem',
        'nonsense'
      ].map(url => [`with a certificate at ${url}`, sns.notification(sesBounce(mail), { SigningCertURL: url })])
    )
  }
  for (const [how, body] of Object.entries(forged)) {
    t.match(await post(sources.ses.path, body), { status: 401, body: { error: /signature/ } }, how)
  }
  t.equal(sns.fetched.length, fetched, 'nobody was asked for a certificate but Amazon, once')
  t.equal(await lastSequence(bus, 'INBOUND'), before)
  t.strictSame(await facts(mail.id), SETTLED)
})

t.test("the subscription of a source's own topic is confirmed, and no other", async t => {
  const confirmation = sns.confirmation()
  t.match(await post(sources.ses.path, confirmation), { status: 200, body: { received: 0 } })
  t.equal(sns.fetched.at(-1), new URL(confirmation['SubscribeURL']!).href)
  const fetched = sns.fetched.length
  for (
    const url of [
      'https://evil.example/?Action=ConfirmSubscription',
      `https://sns.eu-central-1.amazonaws.com/?Action=DeleteTopic&TopicArn=${TOPIC}`,
      `https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=${TOPIC}-of-others`
    ]
  ) t.match(await post(sources.ses.path, sns.confirmation({ SubscribeURL: url })), { status: 401 })
  t.equal(sns.fetched.length, fetched)
  t.match(await post(sources.ses.path, sns.confirmation({ SubscribeURL: `${confirmation['SubscribeURL']}&x=1` })), {
    status: 200
  })
})

t.test('what a topic says to people is taken and left', async t => {
  t.match(await post(sources.ses.path, sns.notification('Successfully validated SNS topic for Amazon SES event.')), {
    status: 200,
    body: { received: 0 }
  })
})

t.test('Mailgun: a forged, an old and a repeated request are refused', async t => {
  const mail = await deliver()
  const { path } = sources.mailgun
  const failed = { severity: 'permanent', reason: 'bounce' }
  const nowS = Math.floor(Date.now() / 1000)
  const before = await lastSequence(bus, 'INBOUND')
  t.equal((await post(path, mailgunEvent('failed', mail, failed, { key: 'another' }))).status, 401)
  t.equal((await post(path, mailgunEvent('failed', mail, failed, { timestamp: nowS - 26 * 3600 }))).status, 401)
  t.equal((await post(path, mailgunEvent('failed', mail, failed, { timestamp: nowS + 3600 }))).status, 401)
  t.equal((await post(path, { 'event-data': { event: 'failed' } })).status, 401)
  t.equal(await lastSequence(bus, 'INBOUND'), before)
  const told = mailgunEvent('failed', mail, failed)
  t.equal((await post(path, told)).status, 200)
  t.equal((await post(path, told)).status, 406, 'which tells Mailgun that it need not come again')
})

t.test('SendGrid: a forged and an old request are refused', async t => {
  const body = JSON.stringify([sendgridEvent('spamreport', await deliver())])
  const { path } = sources.sendgrid
  const before = await lastSequence(bus, 'INBOUND')
  t.equal((await post(path, body)).status, 401)
  t.equal((await post(path, `${body} `, sendgridHeaders(body))).status, 401)
  const old = String(Math.floor(Date.now() / 1000) - 26 * 3600)
  t.equal((await post(path, body, sendgridHeaders(body, old))).status, 401)
  t.equal(await lastSequence(bus, 'INBOUND'), before)
  t.equal((await post(path, body, sendgridHeaders(body))).status, 200)
})

t.test('a delivery ends a doubt, held or not; what comes out of order adds nothing', async t => {
  const to = 'doubt@example.com'
  mail.replies(to, { dot: 'reset' })
  const { body: { id } } = await app.send({ to, on_doubt: 'hold' })
  await app.settled(id, 'in_doubt')
  const { from, messageId } = mail.received.find(message => message.to === to)!
  const doubted = { name: `${id}.0`, to, from, messageId: messageId! }
  await comesTo(t, 'postmark', 'delivered', postmarkRecord('Delivery', doubted))
  await app.settled(id, 'delivered')
  t.strictSame(await facts(id), ['email.attempted', 'email.in_doubt', 'email.delivered'])
  await comesTo(t, 'postmark', 'bounced', postmarkRecord('Bounce', doubted))
  await comesTo(t, 'postmark', 'nothing_new', postmarkRecord('Delivery', doubted))
  await comesTo(t, 'postmark', 'nothing', postmarkRecord('Bounce', doubted, { Type: 'Transient' }))
  t.strictSame(await facts(id), ['email.attempted', 'email.in_doubt', 'email.delivered', 'email.bounced'])
})

t.test('a report told again after a retry says nothing of the new attempt', async t => {
  const mail = await deliver()
  const report = postmarkRecord('Bounce', mail, { Type: 'SoftBounce', Details: 'smtp;552 5.2.2 Mailbox full' })
  await comesTo(t, 'postmark', 'bounced', report)
  t.equal((await app.request('POST', `/api/emails/${mail.id}/retry`)).status, 202)
  await app.settled(mail.id, 'delivered')
  await comesTo(t, 'postmark', 'nothing_new', report)
  t.equal((await app.request('GET', `/api/emails/${mail.id}`)).body.status, 'delivered')
})

t.test('what names no mail of ours is counted, and no fault of the relay', async t => {
  const stranger = { name: 'em_0.0', to: 'ada@example.com', from: 'x@relay.example', messageId: '<x@relay.example>' }
  await comesTo(t, 'postmark', 'unmatched', postmarkRecord('Bounce', stranger))
  const mail = withoutToken(await deliver())
  await comesTo(t, 'brevo', 'unmatched', brevoEvent('spam', { ...mail, messageId: `<${mail.name}@another.example>` }))
  await comesTo(t, 'brevo', 'unmatched', brevoEvent('spam', { ...mail, to: 'another@example.com' }))
  t.strictSame(await facts(mail.id), SETTLED)
})

t.test("a source of one account does not touch another's mail", async t => {
  const { body: account } = await app.request('POST', '/api/accounts', { body: { name: 'Second' } })
  const { path } = await newSource({ provider: 'brevo', only_account: account.id })
  const mail = await deliver()
  const before = await counted('brevo', 'unmatched')
  t.equal((await post(path, brevoEvent('hard_bounce', mail))).status, 200)
  await until(async () => await counted('brevo', 'unmatched') === before + 1)
  t.strictSame(await facts(mail.id), SETTLED)
})

t.test('only the URL of a source that is there opens it; the body of a stranger is not read', async t => {
  const { id, path } = await newSource({ provider: 'postmark' })
  const body = postmarkRecord('SpamComplaint', await deliver())
  for (const wrong of [`${path}x`, `/feedback/${id}/`, `/feedback/fs_0/${path.split('/').at(-1)}`, `/feedback/${id}`]) {
    t.match(await post(wrong, body), { status: 404 }, wrong)
  }
  const rotated = await app.request('POST', `/api/feedback-sources/${id}/rotate`)
  const next = new URL(rotated.body.url).pathname
  t.not(next, path)
  t.equal((await post(path, body)).status, 200, 'the URL before works for a day')
  t.equal((await post(next, body)).status, 200)
  await app.request('POST', `/api/feedback-sources/${id}/rotate`)
  t.equal((await post(path, body)).status, 404, 'of two rotations it does not')
  t.equal((await app.request('DELETE', `/api/feedback-sources/${id}`)).status, 204)
  t.equal((await post(next, body)).status, 404)
})

t.test('a body that is no JSON, or too large, is refused and not kept', async t => {
  const before = await lastSequence(bus, 'INBOUND')
  t.equal((await post(sources.brevo.path, 'event=spam')).status, 400)
  t.equal((await post(sources.brevo.path, JSON.stringify({ reason: 'x'.repeat(1024 * 1024) }))).status, 413)
  t.equal(await lastSequence(bus, 'INBOUND'), before)
})

t.test('a report is kept with bounds, and without what others wrote beside it', async t => {
  const mail = await deliver()
  const report = brevoEvent('hard_bounce', mail, { reason: `550 \u0000${'x'.repeat(5000)}`, secret: 'not kept' })
  await comesTo(t, 'brevo', 'bounced', report)
  const kept = await getFact(bus, 'INBOUND', { last_by_subj: subjects.inboundReport })
  const { data } = kept!.fact as InboundReported
  t.match(data, { provider: 'brevo', kind: 'failed', address: mail.to, source: sources.brevo.id })
  t.ok(data.diagnostic!.length <= 1000)
  t.notMatch(JSON.stringify(data), 'not kept')
})

t.test('erasing a person takes out what relays have said about them, and leaves the rest', async t => {
  const [gone, stays] = [await deliver(), await deliver()]
  for (const mail of [gone, stays]) await comesTo(t, 'brevo', 'bounced', brevoEvent('hard_bounce', mail))
  await receipt(app, (await erase(app, gone.to)).id)
  let left = ''
  for await (const page of readRange(bus, { stream: 'INBOUND', filters: ['inbound.>'], afterSeq: 0 })) {
    left += page.map(message => JSON.stringify(decodeStored(message).fact)).join('')
  }
  t.notMatch(left, gone.to)
  t.notMatch(left, gone.name)
  t.match(left, stays.name)
})
