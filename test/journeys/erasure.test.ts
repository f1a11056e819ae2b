import t from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import { pastOf } from '#streams/email/erase.ts'
import { askedInLog, factsOf } from '#src/actions/email-past.ts'
import { createLog } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { readFacts } from '#src/nats/range.ts'
import { createPool } from '#src/postgres/pool.ts'
import { join } from 'node:path'
import { openBus } from '../support/bus.ts'
import { erase, filesWith, gapsIn, needles, receipt, rowsAnew, servers, tablesWith } from '../support/erasure-rig.ts'
import { startTestApp, type TestApp } from '../support/app.ts'
import { dsn, handIn } from '../support/inbound-peer.ts'
import { until } from '../support/wait.ts'

const HOST = 'bounces.jetpost.test'
const ADA = 'Ada.Lovelace-7f3a@erase-me.example'
const ZOE = 'Zoë.Größe-91cc@erase-me.example'
const BOB = 'bob-2c44@stays.example'
const CAROL = 'carol-88d1@stays.example'
const CONTENT = 'what-was-said-5d1c9e'
const FILE = 'what-was-attached-91ab03'
const MINUTE_MS = 60_000

const read = async (app: TestApp, id: string): Promise<any> => (await app.request('GET', `/api/emails/${id}`)).body

/** What stays of an email: everything but who, and what was said. */
function countable ({ status, tags, created_at, test, key_id, scheduled_at, recipients, timeline }: any): object {
  return {
    status,
    tags,
    created_at,
    test,
    key_id,
    scheduled_at,
    recipients: recipients.map(({ address: _address, name: _name, last_response: last, ...rest }: any) => ({
      ...rest,
      code: last?.smtp_code ?? null
    })),
    timeline: timeline.filter(({ type }: any) => type !== 'email.erased').map((
      { type, time, n, sequence, smtp_code }: any
    ) => ({ type, time, n, sequence, smtp_code }))
  }
}

t.test('a person is forgotten, and nobody else', async t => {
  const embedded = await servers(t)
  const { natsUrl, databaseUrl, folder } = embedded
  const env = { JETPOST_INBOUND_PORT: '0', JETPOST_BOUNCE_DOMAIN: HOST }
  const app = await startTestApp(t, { natsUrl: natsUrl!, databaseUrl: databaseUrl!, env })
  const { bus } = await openBus(t, natsUrl!)
  const pool = createPool(databaseUrl!, createLog('silent'))
  t.teardown(() => pool.end())
  const files = [{ filename: 'notes.txt', content: Buffer.from(`${FILE} and more of it`).toString('base64') }]
  const send = async (fields: Record<string, unknown>, headers: Record<string, string> = {}): Promise<string> => {
    const body = {
      from: 'hello@sandbox.jetpost.test',
      subject: CONTENT,
      html: `<p>${CONTENT} <a href="https://shop.example/for/ada">here</a></p>`,
      tags: ['kept'],
      ...fields
    }
    return (await app.request('POST', '/api/emails', { body, headers })).body.id
  }

  const template = (await app.request('POST', '/api/templates', {
    body: {
      name: 'For one',
      subject: 'For {{who}}',
      html: '<p>{{who}}</p>',
      variables: [{ name: 'who', type: 'string' }]
    }
  })).body.id
  const marked = await send({
    to: ADA,
    subject: undefined,
    html: undefined,
    template_id: template,
    variables: { who: ADA },
    tags: ['kept', ADA, `customer-${ADA.toLowerCase()}`]
  })
  await app.settled(marked, 'delivered')
  const named = await send({
    to: [ADA, BOB],
    from: `For ${ADA} <hello@sandbox.jetpost.test>`,
    reply_to: ADA,
    subject: `For ${ADA}`,
    html: '<p>For both</p>',
    tags: [ADA.toUpperCase()],
    metadata: { [ADA]: 1, who: ADA },
    headers: { 'X-For': `<https://shop.example/?who=${encodeURIComponent(ADA)}>` },
    scheduled_at: new Date(Date.now() + 3_600_000).toISOString()
  })
  const alone = await send({ to: `Ada Lovelace <${ADA}>`, metadata: { customer: ADA } })
  await app.settled(alone, 'delivered')
  const page = (await app.caught(ADA)).html!
  const shared = await send({ to: [ADA, `Bob <${BOB}>`], cc: CAROL, subject: 'For all', html: '<p>For all</p>' })
  const bigger = await send({
    to: ADA.toLowerCase(),
    html: `<p>${CONTENT} ${'x'.repeat(300_000)}</p>`,
    attachments: files
  })
  const umlauts = await send({ to: ZOE })
  for (const id of [shared, bigger, umlauts]) await app.settled(id, 'delivered')
  for (
    const path of [/src="([^"]+\.gif)"/, /href="([^"]+\/c\/[^"]+)"/].map(pattern =>
      new URL(pattern.exec(page)![1]!).pathname
    )
  ) await fetch(app.url + path, { redirect: 'manual' })
  const came = (await app.request('GET', '/catcher.json')).body.data.find((message: any) =>
    message.to.includes(ADA.toLowerCase())
  )
  t.match(
    await handIn(app.inboundPort!, {
      to: came.from,
      raw: dsn({ to: ADA, diagnostic: `smtp; 550 5.1.1 <${ADA}>: no such user` })
    }),
    /^250/
  )
  await app.settled(bigger, 'bounced')
  await until(async () => (await app.request('GET', `/api/suppressions/${ADA}`)).status === 200, 10_000)
  const later = new Date(Date.now() + 3_600_000).toISOString()
  const held = await send({ to: ADA, scheduled_at: later })
  const soon = await send({
    to: [BOB, ADA],
    subject: 'For two',
    html: '<p>For two</p>',
    scheduled_at: new Date(Date.now() + 20_000).toISOString()
  })
  const refused = await send({ to: ADA }, { 'idempotency-key': 'once' })
  await app.settled(refused, 'suppressed')
  await until(async () => (await read(app, alone)).timeline.length >= 5, 10_000)
  const ids = [alone, shared, bigger, held, soon, refused, umlauts]
  const before = new Map(await Promise.all(ids.map(async id => [id, await read(app, id)] as const)))
  const stats = async () => (await app.request('GET', '/api/stats')).body.totals
  const all = 13
  await until(async () => (await stats()).accepted === all, 10_000)
  const { delivered: _delivered, delivery_rate: _rate, bounce_rate: _bounces, ...counted } = await stats()
  const words = [ADA, ZOE, CONTENT, FILE]
  t.not(filesWith(join(folder, 'nats'), needles(ADA)).length, 0, 'what is looked for can be found')
  t.not(filesWith(join(folder, 'nats'), needles(FILE)).length, 0)

  const asked = await erase(app, ADA.toUpperCase())
  t.match(asked, { id: /^era_/, status: 'pending', completed_at: null, remains: [] })
  t.equal((await erase(app, ADA)).id, asked.id, 'asked twice, it is one')
  const ada = await receipt(app, asked.id)
  const zoe = await receipt(app, (await erase(app, ZOE)).id)
  t.match(ada.counts, { emails: 8, recipients: 8, canceled: 3, suppressions: 1, inbound: 1 })
  t.match(zoe.counts, { emails: 1, recipients: 1, canceled: 0, suppressions: 0, inbound: 0 })
  t.comment(JSON.stringify(ada))

  t.test('nothing of it is left in the log, nor on its disk', async t => {
    t.same(filesWith(join(folder, 'nats'), needles(ADA, ZOE, CONTENT, FILE)), [])
  })

  t.test('nor in any table, nor in what is known about the tables', async t => {
    t.same(await tablesWith(pool, words), [])
  })

  t.test('of what else the sender said the address is taken out', async t => {
    const gone = 'erased@erased.invalid'
    t.match(await read(app, marked), { subject: '', tags: ['kept', gone, `customer-${gone}`] })
    t.match(await read(app, named), {
      subject: `For ${gone}`,
      from: `"For ${gone}" <hello@sandbox.jetpost.test>`,
      reply_to: [],
      tags: [gone],
      metadata: { who: gone, [gone]: 1 }
    })
    t.match(ada.looked_through[0], /tags and metadata/)
    t.not(ada.address_hash, sha256Hex(ADA.toLowerCase()), 'nobody can guess whom the receipt is for')
    t.match(ada.address_hash, /^[0-9a-f]{64}$/)
  })

  t.test('what can be counted is as it was', async t => {
    for (const id of [shared, bigger, refused, umlauts]) {
      t.same(countable(await read(app, id)), countable(before.get(id)), id)
    }
    t.match(await read(app, alone), {
      subject: '',
      to: ['erased@erased.invalid'],
      metadata: {},
      tags: ['kept'],
      timeline: [{}, {}, {}, {}, {}, { type: 'email.erased' }]
    })
    t.match(await read(app, shared), { subject: 'For all', cc: [CAROL], to: ['erased@erased.invalid', `Bob <${BOB}>`] })
    const canceled = 3
    t.match(await stats(), { ...counted, canceled: counted.canceled + canceled })
    t.equal((await app.request('GET', `/api/emails/${alone}/content`)).status, 404)
    t.match((await app.request('GET', `/api/emails/${shared}/content`)).body, { html: '<p>For all</p>' })
  })

  t.test('what waited for it is called off, and what waits for others goes out without it', async t => {
    t.match(await read(app, held), { status: 'canceled' })
    await until(async () => (await read(app, soon)).recipients[0].status === 'delivered', MINUTE_MS)
    t.match((await read(app, soon)).recipients, [{ address: BOB, status: 'delivered' }, {
      address: 'erased@erased.invalid',
      status: 'canceled'
    }])
    const mail = await app.caught(BOB)
    t.equal(mail.subject, 'For two')
    t.same(mail.to?.map(({ address }) => address), [BOB])
  })

  t.test('it stays suppressed, by its hash', async t => {
    t.match((await app.request('GET', `/api/suppressions/${ADA}`)).body, {
      address: null,
      reasons: [{ reason: 'bounce' }]
    })
    const again = await app.request('POST', '/api/emails', {
      body: {
        from: 'hello@sandbox.jetpost.test',
        subject: CONTENT,
        html: `<p>${CONTENT} <a href="https://shop.example/for/ada">here</a></p>`,
        tags: ['kept'],
        to: ADA
      },
      headers: { 'idempotency-key': 'once' }
    })
    t.match(again.body, { id: refused, suppressed: ['erased@erased.invalid'] }, 'and its Idempotency-Key stays taken')
  })

  t.test('a click on an old mail of it leads nowhere, and counts no more', async t => {
    const path = new URL(/href="([^"]+\/c\/[^"]+)"/.exec(page)![1]!).pathname
    const answer = await fetch(app.url + path, { redirect: 'manual' })
    t.equal(answer.status, 410)
    t.match(await answer.text(), 'This mail is no longer on record')
    t.same(countable(await read(app, alone)), countable(before.get(alone)))
  })

  t.test('read again, the log comes out as the same rows', async t => {
    await rowsAnew(t, { natsUrl: natsUrl!, databaseUrl: databaseUrl!, pool })
  })

  t.test('every gap in the log has its reason', async t => {
    const told = (await readFacts(bus, 'CONTROL', 'erasure.>', 'leader')).flatMap((
      { fact }
    ) => (fact.type === 'erasure.advanced' ? fact.data.deletes : []))
    for (const stream of ['REQUESTS', 'EMAILS', 'CONTROL', 'INBOUND']) {
      const reasons = new Set(told.filter(deletes => deletes.stream === stream).flatMap(({ seqs }) => seqs))
      t.same((await gapsIn(bus, stream)).filter(seq => !reasons.has(seq)), [], stream)
    }
    const facts: AnyFact[] = (await readFacts(bus, 'EMAILS', 'email.>', 'leader')).map(({ fact }) => fact)
    const erased = facts.filter(fact => fact.type === 'email.erased')
    t.same(erased.filter(({ data: { past } }) => past.length > 0).length, 9)
    for (const fact of erased) t.ok(pastOf(fact).every(({ fact: { data } }) => data.to === 'erased@erased.invalid'))
  })

  t.test("what PostgreSQL's files hold of it after that is where the receipt says, and goes when it says", async t => {
    const left = () =>
      filesWith(join(folder, 'postgres'), needles(ADA, ZOE, CONTENT, FILE)).map(
        file => (file.includes('/pg_wal/') ? 'log' : 'pages')
      )
    const write = async (statements: string[]) => {
      for (const statement of statements) await pool.query(statement)
    }
    await write([
      "alter system set min_wal_size = '32MB'",
      "alter system set max_wal_size = '64MB'",
      'select pg_reload_conf()',
      'checkpoint'
    ])
    t.comment(left())
    const { rows } = await pool.query<{ name: string }>(
      "select schemaname || '.' || tablename as name from pg_tables where schemaname like 'jetpost_%'"
    )
    // As a rebuild does it: the rows in new files. The planner's own table has module of its own.
    await write([...rows.map(({ name }) => `vacuum full ${name}`), 'vacuum full pg_catalog.pg_statistic', 'checkpoint'])
    t.notOk(left().includes('pages'), 'written again, no page has it')
    for (let round = 0; round < 4; round++) {
      await write([
        'create table public.some as select repeat(md5(n::text), 30) as text from generate_series(1, 40000) as n',
        'checkpoint',
        'drop table public.some',
        'checkpoint'
      ])
    }
    t.same(left(), [], 'nor has its log, after more than max_wal_size of it')
  })

  t.test('what it was beside is known by the log alone, also when the content is no longer kept', async t => {
    const facts = await factsOf(bus, { account: '*', id: shared })
    const seq = Math.max(...facts.map(({ fact }) => (fact.type === 'email.delivered' ? fact.data.request : 0)))
    await bus.nc.request('$JS.API.STREAM.MSG.DELETE.REQUESTS', JSON.stringify({ seq }))
    t.match(await askedInLog(bus, shared, facts), {
      id: shared,
      subject: 'For all',
      recipients: [{ address: 'erased@erased.invalid' }, { address: BOB }, { address: CAROL }]
    })
  })

  t.test('nor does a new start of the servers bring anything back', async t => {
    await app.stop()
    await embedded.stop()
    await servers(t, folder)
    t.same(filesWith(join(folder, 'nats'), needles(ADA, ZOE, CONTENT, FILE)), [])
  })
})
