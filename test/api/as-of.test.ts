import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { sleep } from '#src/base/backoff.ts'
import { api } from '#src/nats/api.ts'
import { lastSequence } from '#src/nats/get.ts'
import { attempted, delivered } from '../support/facts.ts'
import { startTestApp } from '../support/app.ts'
import { arf, dsn, handIn } from '../support/inbound-peer.ts'
import { openChance } from '../support/random.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink, type Received } from '../support/smtp-sink.ts'
import { nextMs, until } from '../support/wait.ts'

const sink = await startSink()
t.teardown(() => sink.stop())
const { natsUrl } = freshAccount()
const app = await startTestApp(t, {
  natsUrl,
  env: { SMTP_URL: sink.url, JETPOST_INBOUND_PORT: '0', JETPOST_BOUNCE_DOMAIN: 'bounces.shop.example' }
})
const { factLog } = await openSecondServices(t, natsUrl)
const { bus } = factLog

const MOMENTS = 20
const HTML = '<p>Hello</p><a href="https://shop.example/">shop</a>'
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString()
const get = async (id: string, asOf?: string) =>
  await app.request('GET', `/api/emails/${id}${asOf === undefined ? '' : `?as_of=${encodeURIComponent(asOf)}`}`)

/** One answer of the API, and the time right before it was asked. */
interface Moment {
  id: string
  at: string
  body: unknown
}

/** Asks while nothing is being recorded; null when something came between. */
async function look (id: string): Promise<Moment | null> {
  const before = await lastSequence(bus, 'EMAILS')
  const at = new Date(await nextMs()).toISOString()
  const { status, body } = await get(id)
  await nextMs()
  return status === 200 && await lastSequence(bus, 'EMAILS') === before ? { id, at, body } : null
}

t.test('as_of gives the answers that the API gave at 20 moments of random histories, and the latest', async t => {
  const chance = openChance(t)
  const ids: string[] = []
  const planned: string[] = []
  const moments: Moment[] = []
  const over = new AbortController()

  const recording = (async () => {
    while (!over.signal.aborted || moments.length < MOMENTS) {
      const moment = ids.length === 0 ? null : await look(chance.of(ids))
      if (moment !== null) moments.push(moment)
      await sleep(chance.int(1, 80))
    }
  })()

  const one = () => chance.of(sink.received.filter(({ accepted, raw }) => accepted && raw.includes('shop')))
  const acts: Record<string, () => Promise<unknown>> = {
    async send () {
      const to = Array.from({ length: chance.int(1, 3) }, (_, n) => `r${ids.length}-${n}@example.com`)
      for (const address of to) {
        const rcpt = chance.of([null, null, '451 4.7.1 come back later', '550 5.1.1 no such user'])
        if (rcpt !== null) sink.replies(address, { rcpt })
      }
      ids.push((await app.send({ to, html: HTML })).body.id)
    },
    async plan () {
      const { body: { id } } = await app.send({
        to: [`p${ids.length}-0@example.com`, `p${ids.length}-1@example.com`],
        scheduled_at: inHours(chance.int(1, 5))
      })
      ids.push(id)
      planned.push(id)
    },
    reschedule: async () =>
      await app.request('PATCH', `/api/emails/${chance.of(planned)}`, {
        body: { scheduled_at: inHours(chance.int(1, 5)) }
      }),
    cancel: async () => await app.request('POST', `/api/emails/${chance.of([...ids, ...planned])}/cancel`),
    retry: async () => await app.request('POST', `/api/emails/${chance.of(ids)}/retry`),
    open: async () => await visit(one(), 'o', chance.of(['curl/8', BROWSER])),
    click: async () => await visit(one(), 'c', chance.of(['curl/8', BROWSER])),
    report: async () => await (chance.next() < 0.5 ? returned : complained)(one())
  }
  await wholeLife(ids)
  for (const name of ['send', 'plan', 'reschedule']) await acts[name]!()
  for (let i = 0; i < 30; i++) {
    await acts[chance.of(['send', 'send', 'plan', 'reschedule', 'cancel', 'retry', 'open', 'click', 'report'])]!()
    await sleep(chance.int(0, 40))
  }
  over.abort()
  await recording

  for (const { id, at, body } of moments) {
    const then = await get(id, at)
    t.equal(then.status, 200)
    t.same(then.body, body, `${id} at ${at}`)
  }
  const types = new Set<string>()
  for (const id of ids) {
    let now: Moment | null = null
    await until(async () => (now = await look(id)) !== null)
    const { at, body } = now as unknown as Moment
    t.same((await get(id, at)).body, body, `${id} now`)
    for (const { type } of (body as { timeline: Array<{ type: string }> }).timeline) types.add(type)
  }
  t.comment(`${moments.length} moments of ${ids.length} emails: ${[...types].sort().join(', ')}`)
  t.ok(moments.length >= MOMENTS)
  for (
    const type of ['rescheduled', 'deferred', 'delivered', 'opened', 'clicked', 'complained', 'bounced', 'canceled']
  ) t.ok(types.has(`email.${type}`), type)
})

/** One email to three, with most of what can happen; the others get what chance has for them. */
async function wholeLife (ids: string[]): Promise<void> {
  const address = 'life-0@example.com'
  sink.replies(address, { rcpt: '451 4.7.1 come back later' })
  const { body: { id } } = await app.send({ to: [address, 'life-1@example.com'], html: HTML })
  ids.push(id)
  const has = async (n: number, type: string) =>
    await until(async () =>
      (await get(id)).body.timeline.some((entry: { n: number, type: string }) => entry.n === n && entry.type === type)
    )
  await has(0, 'email.deferred')
  await has(1, 'email.delivered')
  await again(id, 0, address)
  const mail = sink.received.find(({ to, accepted }) => to === 'life-1@example.com' && accepted)!
  await visit(mail, 'o', BROWSER)
  await has(1, 'email.opened')
  await visit(mail, 'c', BROWSER)
  await has(1, 'email.clicked')
  await complained(mail)
  await has(1, 'email.complained')
  await returned(mail)
  await has(1, 'email.bounced')
  const { body: later } = await app.send({ to: 'life-2@example.com', scheduled_at: inHours(1) })
  ids.push(later.id)
  await app.request('POST', `/api/emails/${later.id}/cancel`)
}

/** The next attempt, which a sender would make in five minutes. */
async function again (email: string, n: number, to: string): Promise<void> {
  for (const make of [attempted, delivered]) {
    const fact = {
      ...make({ email, n, to, attempt: 2, sequence: make === attempted ? 3 : 4 }),
      account: FIRST_ACCOUNT,
      time: new Date().toISOString()
    }
    await factLog.append([{ fact }])
    await sleep(100)
  }
}

async function visit ({ raw }: Received, path: 'c' | 'o', program: string): Promise<void> {
  const link = new RegExp(`https://links.example.com(/${path}/[\\w.-]+)`).exec(
    raw.toString().replaceAll('=\r\n', '').replaceAll('=3D', '=')
  )![1]!
  await fetch(app.url + link, { redirect: 'manual', headers: { 'user-agent': program } })
}

const returned = async ({ from, to }: Received) => await handIn(app.inboundPort!, { to: from, raw: dsn({ to }) })
const complained = async ({ raw }: Received) =>
  await handIn(app.inboundPort!, {
    to: 'fbl@bounces.shop.example',
    raw: arf({ returned: raw.toString().split('\r\n\r\n')[0]! })
  })

t.test('an email that every recipient of was moved is scheduled for its first time before that', async t => {
  const first = inHours(2)
  const { body: { id, created_at: at } } = await app.send({ scheduled_at: first })
  t.equal((await app.request('PATCH', `/api/emails/${id}`, { body: { scheduled_at: inHours(3) } })).status, 200)
  t.not((await get(id)).body.scheduled_at, first)
  t.match((await get(id, at)).body, {
    status: 'scheduled',
    scheduled_at: first,
    recipients: [{ status: 'scheduled', next_attempt_at: first }],
    timeline: [{ type: 'email.requested' }]
  })
})

t.test('a moment may be written in any offset, and with more digits than are looked at', async t => {
  const { body: { id, created_at: at } } = await app.send({ scheduled_at: inHours(2) })
  const east = new Date(Date.parse(at) + 7_200_000).toISOString().replace('Z', '+02:00')
  const { status, body } = await get(id, at)
  t.equal(status, 200)
  t.match(body, { id, status: 'scheduled', created_at: at })
  t.same((await get(id, east)).body, body)
  t.same((await get(id, at.replace('Z', '999Z'))).body, body)
})

t.test('before it was asked for there was none, nor is there one of another account', async t => {
  const { body: { id, created_at: at } } = await app.send()
  const before = new Date(Date.parse(at) - 1).toISOString()
  t.match(await get(id, before), { status: 404, body: { error: 'Not found' } })
  t.match(await get(id, '0001-01-01T00:00:00Z'), { status: 404 })
  t.match(await get('em_none', at), { status: 404 })
  t.match(await get('nothing.*.>', at), { status: 404 })
  const key = await app.newAccountKey()
  t.match(await app.request('GET', `/api/emails/${id}?as_of=${at}`, { key }), { status: 404 })
})

t.test('what is no moment of the past is refused', async t => {
  const { body: { id, created_at: at } } = await app.send()
  const faultsOf = async (query: string) => {
    const { status, body } = await app.request('GET', `/api/emails/${id}?${query}`)
    t.equal(status, 422, query)
    return body.details.map(({ field, code }: { field: string, code: string }) => `${field} ${code}`)
  }
  const bad = ['', 'yesterday', '2026-02-30T12:00:00Z', '2026-11-21T12:00:00', '2026-11-21', '%00', 'x'.repeat(1000)]
  for (const text of bad) t.match(await faultsOf(`as_of=${text}`), [/^as_of (invalid_value|too_long)$/])
  for (const text of [inHours(1), '9999-12-31T23:59:59Z']) {
    t.same(await faultsOf(`as_of=${text}`), ['as_of invalid_value'], text)
  }
  t.same(await faultsOf(`as_of=${at}&as_of=${at}`), ['as_of invalid_value'])
  t.same(await faultsOf(`as_of=${at}&asof=1`), ['asof unknown_field'])
})

t.test('without an answer from NATS there is none of ours', async t => {
  const { body: { id, created_at: at } } = await app.send()
  await app.settled(id, 'delivered')
  // The stream is there, and nobody reads it.
  const { config } = await api<{ config: Record<string, unknown> }>(bus, 'STREAM.INFO.EMAILS', undefined)
  await api(bus, 'STREAM.UPDATE.EMAILS', { ...config, allow_direct: false })
  t.teardown(async () => void await api(bus, 'STREAM.UPDATE.EMAILS', config))
  t.match(await get(id, at), { status: 503, body: { code: 'log_unavailable' } })
  t.equal((await get(id)).status, 200, 'the answer of now needs no facts')
})
