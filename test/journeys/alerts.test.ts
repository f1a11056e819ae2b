import t from 'tap'
import PostalMime from 'postal-mime'
import pg from 'pg'
import { stats } from '#projections/stats/project.ts'
import { verifyWebhook } from '#src/client/webhook.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { FROM, startTestApp } from '../support/app.ts'
import { startHookSink, type HookSink } from '../support/hook-sink.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink, type Sink } from '../support/smtp-sink.ts'
import { startTree } from '../support/tree.ts'
import { until } from '../support/wait.ts'

t.setTimeout(180_000)
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
/** Two rounds, and a machine that is busy. */
const ROUNDS_MS = 90_000

const settingsOf = (mail: Sink, hook: HookSink) => ({
  SMTP_URL: mail.url,
  JETPOST_ALERT_TO: 'ops@example.net',
  JETPOST_ALERT_FROM: FROM,
  JETPOST_ALERT_URL: `${hook.url}/alerts`,
  JETPOST_ALERT_SECRET: SECRET
})

// They wait more than they work.
t.jobs = 3

async function openPeers (t: { teardown(end: () => Promise<void>): void }) {
  const [mail, hook, endpoint] = await Promise.all([startSink(), startHookSink(), startHookSink()])
  endpoint.answers(() => ({ status: 410 }))
  t.teardown(async () => {
    await Promise.all([mail.stop(), hook.stop(), endpoint.stop()])
  })
  return { mail, hook, endpoint }
}

/** Each POST in a line: its type, kind and thing. */
const linesOf = ({ requests }: HookSink) =>
  requests.map(({ body }) => {
    const { type, data } = JSON.parse(body.toString())
    return `${type} ${data.kind} ${data.about}`
  })

const subjectsOf = async ({ received }: Sink) =>
  await Promise.all(
    received.filter(({ to, dot }) => dot && to === 'ops@example.net').map(async ({ raw }) =>
      (await PostalMime.parse(raw)).subject
    )
  )

t.test('an operator is told by mail and by a signed POST, once by two processes, and when it is over', {
  buffered: true
}, async t => {
  const { mail, hook, endpoint } = await openPeers(t)
  const shared = {
    natsUrl: freshAccount().natsUrl,
    databaseUrl: await freshDatabase(t),
    env: { ...settingsOf(mail, hook), JETPOST_DOMAINS: 'shop.example' }
  }
  const app = await startTestApp(t, shared)
  await startTestApp(t, shared)

  const { body: { id } } = await app.request('POST', '/api/webhooks', {
    body: { url: endpoint.url, events: ['email.delivered'] }
  })
  await app.settled((await app.send()).body.id, 'delivered')
  await hook.waitFor(requests => requests.length >= 1, ROUNDS_MS)
  const [first] = hook.requests
  const { headers, body } = first!
  t.match(await verifyWebhook({ body, headers, secret: SECRET }), {
    type: 'alert.raised',
    data: { kind: 'endpoint_disabled', about: id, ended_at: null, url: new RegExp(`/dashboard/webhooks/${id}$`) }
  })
  t.equal(headers['webhook-id'], JSON.parse(body.toString()).id)
  await t.rejects(verifyWebhook({ body, headers, secret: `whsec_${Buffer.alloc(32, 8).toString('base64')}` }))
  await until(async () => (await subjectsOf(mail)).length >= 1)

  endpoint.answers(() => ({}))
  await app.request('PATCH', `/api/webhooks/${id}`, { body: { status: 'enabled' } })
  await hook.waitFor(requests => requests.length >= 2, ROUNDS_MS)
  await until(async () => (await subjectsOf(mail)).length >= 2)
  t.strictSame(linesOf(hook), [`alert.raised endpoint_disabled ${id}`, `alert.ended endpoint_disabled ${id}`])
  const what = `Endpoint ${id} at ${new URL(endpoint.url).host} is disabled`
  t.strictSame(await subjectsOf(mail), [`[Jetpost] ${what}`, `[Jetpost] Over: ${what}`])

  const recipients = Array.from({ length: 50 }, (_, i) => `r${i}@example.com`)
  for (const recipient of recipients.slice(0, 5)) mail.replies(recipient, { rcpt: '550 5.1.1 no such user' }, 2)
  for (let i = 0; i < 2; i++) {
    // The second time those who bounced are suppressed: others bounce.
    const to = i === 0 ? recipients : recipients.map(recipient => `again-${recipient}`)
    for (const recipient of to.slice(0, 5)) mail.replies(recipient, { rcpt: '550 5.1.1 no such user' })
    t.equal((await app.send({ from: 'a@shop.example', to })).status, 202)
  }
  const client = new pg.Client({ connectionString: shared.databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  const { schema } = liveSet(stats)
  await client.query(
    `insert into ${schema}.dead_letters (stream, seq, subject, reason) values ('EMAILS', 1, 'email.x', 'a test')`
  )
  const wanted = ['alert.raised bounce_rate shop.example', 'alert.raised dead_letters stats']
  await hook.waitFor(() => wanted.every(line => linesOf(hook).includes(line)), ROUNDS_MS)
  await client.query(`delete from ${schema}.dead_letters`)
  await hook.waitFor(() => linesOf(hook).includes('alert.ended dead_letters stats'), ROUNDS_MS)
  const lines = linesOf(hook)
  t.equal(new Set(lines).size, lines.length, `each once: ${lines.join(', ')}`)
  t.equal(new Set(hook.requests.map(({ headers }) => headers['webhook-id'])).size, hook.requests.length)
  await until(async () => (await subjectsOf(mail)).length >= lines.length)
  t.equal((await subjectsOf(mail)).length, lines.length, 'as many mails')

  // The other process may have been the one that ended it: this one learns of it in its next round.
  const open = [/^jetpost_alerts_open\{kind="bounce_rate"\} 1$/m, /^jetpost_alerts_open\{kind="dead_letters"\} 0$/m]
  await until(async () => {
    const metrics = (await app.request('GET', '/metrics')).body
    return open.every(line => line.test(metrics))
  }, ROUNDS_MS)
  t.equal(new Set(linesOf(hook)).size, lines.length, 'and tells nothing of it')
})

t.test('kill -9: what was told is not told again, and what follows is', { buffered: true }, async t => {
  const { mail, hook, endpoint } = await openPeers(t)
  const tree = await startTree({ env: settingsOf(mail, hook) })
  t.teardown(() => tree.dispose())
  const disableOne = async () => {
    const { body: { id } } = await tree.request('POST', '/api/webhooks', {
      url: endpoint.url,
      events: ['email.delivered']
    })
    await tree.request('POST', '/api/emails', { from: FROM, to: 'ada@example.com', subject: 'x', text: 'x' })
    return id as string
  }
  const one = await disableOne()
  await hook.waitFor(() => linesOf(hook).length >= 1, ROUNDS_MS)
  await until(async () => (await subjectsOf(mail)).length >= 1)
  // It is in the log that it was told once the metric counts it.
  await until(async () =>
    /alert_notices_total\{channel="webhook",result="told"\} 1/.test((await tree.request('GET', '/metrics')).body)
  )
  t.match(await tree.cli('verify', 'log'), 'Everything is correct')
  await tree.kill9()
  await tree.start()
  const other = await disableOne()
  await hook.waitFor(() => linesOf(hook).includes(`alert.raised endpoint_disabled ${other}`), ROUNDS_MS)
  await until(async () => (await subjectsOf(mail)).length >= 2)
  // The alert's own mail is an event for it, too: another 410 would disable it again.
  endpoint.answers(() => ({}))
  await tree.request('PATCH', `/api/webhooks/${one}`, { status: 'enabled' })
  await hook.waitFor(() => linesOf(hook).includes(`alert.ended endpoint_disabled ${one}`), ROUNDS_MS)
  t.strictSame(linesOf(hook), [
    `alert.raised endpoint_disabled ${one}`,
    `alert.raised endpoint_disabled ${other}`,
    `alert.ended endpoint_disabled ${one}`
  ])
  await until(async () => (await subjectsOf(mail)).length >= 3)
  t.equal((await subjectsOf(mail)).length, 3)
})

t.test(
  'a notice that could not be given is given by the next process, under the same id',
  { buffered: true },
  async t => {
    const { mail, hook, endpoint } = await openPeers(t)
    const shared = { natsUrl: freshAccount().natsUrl, databaseUrl: await freshDatabase(t), env: settingsOf(mail, hook) }
    hook.answers(() => ({ status: 500 }))
    const app = await startTestApp(t, shared)
    await app.request('POST', '/api/webhooks', { body: { url: endpoint.url, events: ['email.delivered'] } })
    await app.settled((await app.send()).body.id, 'delivered')
    const [failed] = await hook.waitFor(requests => requests.length >= 1, ROUNDS_MS)
    await until(async () => (await subjectsOf(mail)).length >= 1)
    await app.stop()
    hook.answers(() => ({}))
    const before = hook.requests.length
    // The time of the process that was to tell it is over.
    await startTestApp(t, { ...shared, clock: { nowMs: () => Date.now() + 180_000 } })
    await hook.waitFor(requests => requests.length > before, ROUNDS_MS)
    const given = hook.requests.at(-1)!
    t.equal(given.headers['webhook-id'], failed!.headers['webhook-id'])
    t.strictSame(given.body, failed!.body)
    t.equal((await subjectsOf(mail)).length, 1, 'the mail is not sent twice')
  }
)
