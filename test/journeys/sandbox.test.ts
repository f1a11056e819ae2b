import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startTestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { startSink } from '../support/smtp-sink.ts'

const relay = await startSink()
const hooks = await startHookSink()
const app = await startTestApp(t, { env: { SMTP_URL: relay.url } })
t.teardown(async () => {
  await hooks.stop()
  await relay.stop()
})
await app.request('POST', '/api/webhooks', {
  body: { url: hooks.url, events: ['email.delivered', 'email.bounced', 'email.complained'] }
})

const at = (name: string) => `${name}@sandbox.jetpost.test`
const send = async (name: string, fields = {}) => (await app.send({ to: at(name), ...fields })).body

async function event (id: string, type: string): Promise<any> {
  const parse = ({ body }: { body: Buffer }) => JSON.parse(body.toString())
  const isIt = (event: any) => event.type === type && event.data.email_id === id
  return (await hooks.waitFor(requests => requests.map(parse).some(isIt))).map(parse).find(isIt)
}

/** Not suppressed, also once all that has happened has been looked at: a bounce that does suppress came later. */
async function untouched (t: Test, name: string): Promise<void> {
  relay.replies('gone@example.net', { rcpt: '550 5.1.1 no such user here' })
  await app.send({ to: 'gone@example.net' })
  for (
    const endMs = Date.now() + 10_000;
    (await app.request('GET', '/api/suppressions/gone@example.net')).status !== 200;
    await wait(50)
  ) {
    if (Date.now() > endMs) throw new Error('the bounce did not suppress')
  }
  await app.request('DELETE', '/api/suppressions/gone@example.net')
  t.equal((await app.request('GET', `/api/suppressions/${at(name)}`)).status, 404)
  t.equal((await app.send({ to: at(name) })).body.status, 'queued')
}

t.test('delivered@ takes the mail, though there is a relay', async t => {
  const { id } = await send('delivered')
  await app.settled(id, 'delivered')
  t.match(await event(id, 'email.delivered'), { data: { to: at('delivered'), smtp_response: /^250 / } })
  t.equal(relay.attempts(at('delivered')), 0)
})

t.test('bounced@, with any label, refuses it, and is not suppressed', async t => {
  const { id } = await send('bounced+7')
  await app.settled(id, 'bounced')
  t.match(await event(id, 'email.bounced'), { data: { bounce: { type: 'hard', class: 'userunknown', final: true } } })
  await untouched(t, 'bounced+7')
})

t.test('softbounced@ is deferred', async t => {
  const { id } = await send('softbounced')
  await app.settled(id, 'deferred')
  t.match(await event(id, 'email.bounced'), {
    data: { bounce: { type: 'soft', class: 'mailboxfull', final: false, next_attempt_at: /Z$/ } }
  })
})

t.test('complained@ takes it and complains, and is not suppressed; also mail without an unsubscribe link', async t => {
  for (const unsubscribe of [true, false]) {
    const { id } = await send('complained', { unsubscribe })
    await app.settled(id, 'delivered')
    t.match(await event(id, 'email.complained'), { data: { to: at('complained'), complaint: { type: 'abuse' } } })
  }
  await untouched(t, 'complained')
})

t.test('indoubt@ takes the mail and says nothing', async t => {
  const { id } = await send('indoubt', { on_doubt: 'hold' })
  t.match(await app.settled(id, 'in_doubt'), {
    timeline: [{}, {}, { type: 'email.in_doubt', cause: 'line', held: true }]
  })
})

t.test('suppressed@ gets nothing', async t => {
  const { id, status } = await send('suppressed+x')
  t.equal(status, 'suppressed')
  t.match(await app.settled(id, 'suppressed'), { recipients: [{ status: 'suppressed', attempts: 0 }] })
})

t.test('any other address of the sandbox takes the mail', async () => {
  await app.settled((await send('bouncedx')).id, 'delivered')
})
