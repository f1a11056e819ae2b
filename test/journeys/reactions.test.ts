import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { consumerPlans } from '#streams/topology.ts'
import { createLog } from '#src/base/log.ts'
import { api } from '#src/nats/api.ts'
import { connectBus } from '#src/nats/connect.ts'
import { startTestApp } from '../support/app.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'

const mail = await startSink()
t.teardown(() => mail.stop())
const { natsUrl } = freshAccount()
const app = await startTestApp(t, { natsUrl, env: { SMTP_URL: mail.url } })

async function until (address: string, status: number): Promise<void> {
  for (
    const endMs = Date.now() + 15_000;
    (await app.request('GET', `/api/suppressions/${address}`)).status !== status;
    await wait(50)
  ) {
    if (Date.now() > endMs) throw new Error(`${address} is not ${status}`)
  }
}

/** Sends to an address that is gone. */
async function bounce (address: string): Promise<void> {
  mail.replies(address, { rcpt: '550 5.1.1 no such user here' })
  await app.settled((await app.send({ to: address })).body.id, 'bounced')
  await until(address, 200)
}

t.test('only an address that does not exist is suppressed, not one whose server rejects us or fails', async t => {
  const replies: Record<string, [string, string]> = {
    'policy@example.net': ['550 5.7.1 rejected by our policy', 'bounced'],
    'listed@example.net': ['554 5.7.1 your host is listed by zen.spamhaus.org', 'bounced'],
    'full@example.net': ['552 5.2.2 mailbox is full', 'bounced'],
    'passing@example.net': ['450 4.1.1 no such user yet', 'deferred']
  }
  for (const [to, [rcpt, status]] of Object.entries(replies)) {
    mail.replies(to, { rcpt })
    await app.settled((await app.send({ to })).body.id, status)
  }
  await bounce('gone@example.net')
  for (const to of Object.keys(replies)) t.equal((await app.request('GET', `/api/suppressions/${to}`)).status, 404, to)
})

t.test('what happens to the mail of a test key says nothing about the address', async t => {
  const key = await app.newKey({ test: true })
  const { body: { id } } = await app.send({ to: 'real@example.com' }, key.secret)
  await app.settled(id, 'delivered')
  const raw = (await app.request('GET', `/api/emails/${id}/raw`)).body as string
  const path = /<https:\/\/links\.example\.com(\/u\/\w+)>/.exec(raw.replaceAll(/\r\n(?=[ \t])/g, ''))![1]!
  t.equal((await fetch(app.url + path, { method: 'POST' })).status, 200)
  await bounce('gone-too@example.net')
  t.equal((await app.request('GET', '/api/suppressions/real@example.com')).status, 404)
})

t.test('what was lifted stays lifted, also when all facts are read again', async t => {
  await bounce('back@example.net')
  t.equal((await app.request('DELETE', '/api/suppressions/back@example.net')).status, 204)
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'test', log: createLog('silent') })
  t.teardown(() => bus.close())
  const { stream, durable_name: name } = consumerPlans.reactions
  await api(bus, `CONSUMER.DELETE.${stream}.${name}`, undefined, 2000)
  // Told after all the others, since they are read in order.
  await bounce('last@example.net')
  t.equal((await app.request('GET', '/api/suppressions/back@example.net')).status, 404)
  mail.replies('back@example.net', { rcpt: '550 5.1.1 no such user here' })
  await app.settled((await app.send({ to: 'back@example.net' })).body.id, 'bounced')
  await until('back@example.net', 200)
})
