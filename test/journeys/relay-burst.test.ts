import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Agent, request } from 'undici'
import { decodeStored } from '#src/nats/message.ts'
import { readRange } from '#src/nats/range.ts'
import { startTestApp } from '../support/app.ts'
import { openBus } from '../support/bus.ts'
import { LONG } from '../support/long.ts'
import { brevoEvent } from '../support/relay-reports.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const COUNT = LONG ? 10_000 : 1000
const RECIPIENTS = 50
/** Beside what a report says, so that all bodies together are many times what may be held: 1.25 GB of 10,000. */
const PADDING = Buffer.from(`"${'x'.repeat(128 * 1024)}"}`)
const MB = 1024 * 1024

const { natsUrl } = freshAccount()
const mail = await startSink()
t.teardown(() => mail.stop())
const app = await startTestApp(t, { natsUrl, env: { SMTP_URL: mail.url } })
const { bus } = await openBus(t, natsUrl)

/** Recipients by the facts of this type about them. */
async function told (type: string): Promise<{ recipients: number, facts: number }> {
  const seen = new Set<string>()
  let facts = 0
  for await (const page of readRange(bus, { stream: 'EMAILS', filters: ['email.>'], afterSeq: 0 })) {
    for (const { subject } of page.map(decodeStored).filter(({ fact }) => fact.type === type)) {
      facts++
      seen.add(subject)
    }
  }
  return { recipients: seen.size, facts }
}

/** The figure of the first series of /metrics that begins so. */
async function figure (series: RegExp): Promise<number> {
  const { body } = await app.request('GET', '/metrics', { key: null })
  return Number(new RegExp(`^${series.source}\\S* (\\d+)$`, 'm').exec(body)?.[1] ?? 0)
}

t.test(`${COUNT} notifications at once: none is lost, and memory does not grow with them`, async t => {
  const { body: source } = await app.request('POST', '/api/feedback-sources', {
    body: { provider: 'brevo', name: 'A relay' }
  })
  for (let i = 0; i < COUNT / RECIPIENTS; i++) {
    const to = Array.from({ length: RECIPIENTS }, (_, n) => `r${i}.${n}@example.com`)
    t.equal((await app.send({ to })).status, 202)
  }
  await mail.dots(COUNT, 300_000)
  await until(async () => await figure(/jetpost_smtp_attempts_total\{result="delivered"\}/) === COUNT, 120_000)
  const path = new URL(source.url).pathname
  const agent = new Agent({ connections: 100, pipelining: 1 })
  t.teardown(() => agent.close())
  const before = process.memoryUsage()
  let [peak, waited] = [0, 0]

  /** As a provider does: again, until it is taken. */
  async function tell (report: object): Promise<void> {
    const head = Buffer.from(`${JSON.stringify(report).slice(0, -1)},"padding":`)
    for (;;) {
      const { statusCode, body } = await request(app.url + path, {
        method: 'POST',
        dispatcher: agent,
        body: Readable.from([head, PADDING]),
        headersTimeout: 120_000
      })
      await body.dump()
      peak = Math.max(peak, process.memoryUsage().rss - before.rss)
      if (statusCode === 200) return
      if (statusCode !== 503) throw new Error(`answered ${statusCode}`)
      waited++
      await wait(100)
    }
  }

  await Promise.all(
    mail.received.map(({ to, from, messageId }) =>
      tell(brevoEvent('hard_bounce', { name: '', to, from, messageId: messageId! }, { reason: '550 5.1.1 gone' }))
    )
  )
  await until(async () => await figure(/jetpost_relay_reports_total\{.+outcome="bounced"\}/) === COUNT, 300_000)
  t.strictSame(await told('email.bounced'), { recipients: COUNT, facts: COUNT })
  t.comment(`${waited} were told to come again; memory grew by ${Math.round(peak / MB)} MB at most`)
  t.ok(peak < 400 * MB, 'while 48 are held at once')
})
