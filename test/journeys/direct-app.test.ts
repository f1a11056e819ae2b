import t from 'tap'
import { openDnsServer } from '../support/dns-server.ts'
import { startTestApp } from '../support/app.ts'
import { startSink } from '../support/smtp-sink.ts'

t.test('SMTP_URL=direct: mail goes to the MX host, and bounces for a domain without one', async t => {
  const dns = await openDnsServer(t)
  const mx = await startSink({ host: '127.0.0.2' })
  dns.mx('example.net', [10, 'mx.example.net'])
  dns.host('mx.example.net', ['127.0.0.2'])
  dns.mx('none.example', [0, ''])
  const app = await startTestApp(t, {
    env: {
      SMTP_URL: 'direct:',
      JETPOST_DNS: dns.address,
      JETPOST_MX_PORT: String(mx.port),
      JETPOST_MX_ALLOW_PRIVATE: 'true',
      JETPOST_HOSTNAME: 'sender.test'
    }
  })
  t.teardown(() => mx.stop())
  const delivered = await app.settled((await app.send({ to: 'ada@example.net' })).body.id, 'delivered')
  const last = delivered.timeline.find((entry: { type: string }) => entry.type === 'email.delivered')
  t.match(JSON.stringify(last), /mx\.example\.net/)
  t.equal(mx.received[0]!.to, 'ada@example.net')
  const bounced = await app.settled((await app.send({ to: 'ada@none.example' })).body.id, 'bounced')
  t.match(JSON.stringify(bounced.timeline), /notaccept/)
  t.match(JSON.stringify(bounced.timeline), /5\.1\.10/)
  const caught = await app.settled((await app.send({ to: 'delivered@sandbox.jetpost.test' })).body.id, 'delivered')
  t.notMatch(JSON.stringify(caught.timeline), /mx\.example/)
  t.equal(mx.received.length, 1)
})
