import { setImmediate as turnOfEventLoop } from 'node:timers/promises'
import t from 'tap'
import { keepInbound } from '#src/actions/inbound.ts'
import { createFactLog } from '#src/actions/fact-log.ts'
import { systemClock } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import { createTokens } from '#src/content/token.ts'
import { ReportReader } from '#src/workers/inbound/reader.ts'
import { startInboundWorker, type InboundReport } from '#src/workers/inbound/inbound-worker.ts'
import { consumerPlans } from '#streams/topology.ts'
import { openBus } from '../support/bus.ts'
import { startTestApp } from '../support/app.ts'
import { dsn, handIn } from '../support/inbound-peer.ts'
import { SECRET } from '../support/secret.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

t.setTimeout(120_000)

t.test('a mail that spins, throws, ends or fills the reader is refused, and the next is read', async t => {
  const thread = new URL('../fixtures/inbound/spiteful-thread.ts', import.meta.url)
  // A reader that spins is ended soon; to hoard takes its time.
  const [hasty, patient] = [new ReportReader({ readMs: 2500, thread }), new ReportReader({ readMs: 20_000, thread })]
  t.teardown(() => Promise.all([hasty.stop(), patient.stop()]))
  const acts: Array<[string, RegExp]> = [
    ['spin', /takes too long/],
    ['throw', /a fault of the reader/],
    ['exit', /the reader ended/],
    ['hoard', /memory limit/]
  ]
  for (const [act, message] of acts) {
    const reader = act === 'spin' ? hasty : patient
    const read = reader.read(Buffer.from(act))
    read.catch(() => {})
    if (act === 'spin') {
      const first = await Promise.race([read.catch(() => 'the reader'), turnOfEventLoop('the event loop')])
      t.equal(first, 'the event loop', 'goes on meanwhile')
    }
    await t.rejects(read, { message }, act)
    t.match(await reader.read(Buffer.from('fine')), { subject: 'fine' }, `after ${act}`)
  }
  const both = await Promise.allSettled([hasty.read(Buffer.from('spin')), hasty.read(Buffer.from('next in turn'))])
  t.match(
    both,
    [{ status: 'rejected' }, { status: 'fulfilled', value: { subject: 'next in turn' } }],
    'who waits behind it is read too'
  )
})

t.test('a mail that cannot be read is tried twice in all, also when it is a redelivery', async t => {
  const { bus } = await openBus(t)
  const factLog = createFactLog(bus, systemClock)
  await keepInbound(factLog, {
    from: '',
    to: ['postmaster@h.example'],
    remote: '192.0.2.1',
    raw: Buffer.from('\r\nthrow'),
    sizeBytes: 7
  })
  const consumer = await bus.js.consumers.get(consumerPlans.inbound.stream, consumerPlans.inbound.durable_name)
  const taken = await consumer.next()
  t.ok(taken, 'another worker has had it')
  taken!.nak()
  const failures: boolean[] = []
  const reports: InboundReport[] = []
  const log = {
    info () {},
    warn: ({ last }: { last?: boolean }) => {
      if (last !== undefined) failures.push(last)
    }
  } as unknown as Log
  const worker = startInboundWorker({
    factLog,
    tokens: createTokens(SECRET),
    repair: async () => false,
    log,
    onMail: report => reports.push(report),
    rereadMs: 100,
    reader: { thread: new URL('../fixtures/inbound/spiteful-thread.ts', import.meta.url) }
  })
  t.teardown(() => worker.stop())
  await until(() => reports.length > 0, 60_000)
  t.strictSame(failures, [false, true])
  t.strictSame(reports, [{ kind: 'unread', class: null, outcome: 'unreadable' }])
  await until(async () => (await consumer.info()).num_ack_pending === 0)
})

t.test('hostile mail stalls nobody, ends nothing and suppresses nobody', async t => {
  const mail = await startSink()
  t.teardown(() => mail.stop())
  const app = await startTestApp(t, {
    env: { SMTP_URL: mail.url, JETPOST_INBOUND_PORT: '0', JETPOST_BOUNCE_DOMAIN: 'bounces.jetpost.test' }
  })
  const deliver = async (to: string) => {
    const { body: { id } } = await app.send({ to })
    await app.settled(id, 'delivered')
    return { id, to, returnPath: mail.received.find(message => message.to === to)!.from }
  }
  const [victim, other] = [await deliver('victim@example.com'), await deliver('other@example.com')]
  for (const raw of hostileMails()) t.match(await handIn(app.inboundPort!, { to: victim.returnPath, raw }), /^250 /)
  t.match(await handIn(app.inboundPort!, { to: other.returnPath, raw: dsn({ to: other.to }) }), /^250 /)
  let served = 0
  const read = async () => {
    const { status, body } = await app.request('GET', '/metrics', { key: null })
    if (status === 200) served++
    return [...body.matchAll(/^jetpost_inbound_mails_total\{.*\} (\d+)$/gm)].reduce(
      (sum, match) => sum + Number(match[1]),
      0
    )
  }
  await until(async () => await read() === hostileMails().length + 1, 60_000)
  t.ok(served > 0)
  await app.settled(other.id, 'bounced')
  t.equal((await app.request('GET', `/api/emails/${victim.id}`)).body.status, 'delivered')
  t.equal((await app.request('GET', '/readyz', { key: null })).status, 200)
  const { body } = await app.request('GET', '/metrics', { key: null })
  t.notMatch(body, 'outcome="unreadable"', 'each was read in time')
})

/** None says that anything failed; each asks too much of who reads it. */
function hostileMails (): Buffer[] {
  const head = 'From: MAILER-DAEMON@mx.example.net\r\nSubject: x\r\nMIME-Version: 1.0\r\n'
  const nest = (depth: number): string =>
    Array.from({ length: depth }, (_, i) => `Content-Type: multipart/mixed; boundary="b${i}"\r\n\r\n--b${i}\r\n`).join(
      ''
    )
  const texts = [
    `${head}Content-Type: multipart/report; report-type=delivery-status; boundary=a\r\n\r\n${
      '--a\r\n\r\n'.repeat(100_000)
    }--a--`,
    head + nest(10_000),
    `${head}Subject: ${'=?utf-8?B?'.repeat(40_000)}\r\n\r\n`,
    `${head}Content-Type: multipart/report${'; a="'.repeat(60_000)}\r\n\r\n`,
    `${head}${'X-Header: y\r\n'.repeat(38_000)}\r\n\r\n`,
    `${head}To: ${'<'.repeat(200_000)}${'>'.repeat(200_000)}\r\n\r\n`,
    `${head}References: ${'<a@b> '.repeat(80_000)}\r\n\r\n`,
    `${head}\r\n${'('.repeat(250_000)}${'a@'.repeat(100_000)}`,
    `${head}\r\n${'aaaaaaaa '.repeat(55_000)}`,
    `${head}Content-Type: text/plain; charset=utf-7\r\nContent-Transfer-Encoding: base64\r\n\r\n${
      'A'.repeat(500_000)
    }=`,
    `${head}Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n${'<div>='.repeat(80_000)}`,
    '',
    '\0'.repeat(500_000),
    `\r\n\r\n${' \t'.repeat(200_000)}\r\nx`
  ]
  return texts.map(text => Buffer.from(text, 'latin1'))
}
