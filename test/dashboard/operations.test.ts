import t from 'tap'
import { Client } from 'pg'
import { createFactLog } from '#src/actions/fact-log.ts'
import { keepInbound } from '#src/actions/inbound.ts'
import { systemClock } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import { consumerState } from '#src/operations/consumer-state.ts'
import { createPool } from '#src/postgres/pool.ts'
import { loadMail } from '../bench/rebuild-facts.ts'
import { openPage, signIn } from '../support/browser.ts'
import { openBus } from '../support/bus.ts'
import { jetpostHere } from '../support/command.ts'
import { visit, type Shown } from '../support/dashboard.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { openLine } from '../support/line.ts'
import { SECRET } from '../support/secret.ts'
import { freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

t.setTimeout(180_000)
const MAILS = 1000
const AT = '/dashboard/operations'

/** An app with some mail in its log, at the end of wires that can be cut; `bus` and `pool` are at its servers by
 *  others. */
const { bus, natsUrl } = await openBus(t)
const facts = await loadMail(bus, MAILS)
const databaseUrl = await freshDatabase(t)
const pool = createPool(databaseUrl, createLog('silent'))
t.teardown(() => pool.end())
const [natsLine, postgresLine] = await Promise.all(
  [natsUrl, databaseUrl].map(async url => await openLine(t, new URL(url).hostname, Number(new URL(url).port)))
)
const app = await startTestApp(t, {
  natsUrl: through(natsUrl, natsLine!.port),
  databaseUrl: through(databaseUrl, postgresLine!.port)
})
const operator = await visit(app)
const ready = async () => (await app.request('GET', '/readyz')).status === 200
await until(ready)
await until(async () => (await pool.query('select from jetpost_emails_1.timeline')).rowCount === facts - MAILS)

function through (url: string, port: number): string {
  const other = new URL(url)
  other.host = `127.0.0.1:${port}`
  return other.href
}

/** What a page says, without its marks. */
function textOf ({ html }: Pick<Shown, 'html'>): string {
  const main = html.slice(html.indexOf('<main'), html.indexOf('</main>'))
  return main.replaceAll(/<[^>]+>/g, ' ').replaceAll('&#39;', "'").replaceAll('&lt;', '<').replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"').replaceAll(/\s+/g, ' ')
}

const textAt = async (path: string) => textOf(await operator.get(AT + path))

/** All rows of the view `emails`, as one number. */
async function sumOfRows (): Promise<string> {
  const sums = await Promise.all(['emails', 'email_states', 'recipients', 'timeline'].map(async table => {
    const { rows: [row] } = await pool.query<{ sum: string }>(
      `select count(*) || ' ' || sum(hashtextextended(to_jsonb(r)::text, 0)) as sum from jetpost_emails_1.${table} r`
    )
    return `${table} ${row!.sum}`
  }))
  return sums.join(', ')
}

/** Keeps the views from changing places until it is let go. */
async function holdTheView (): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: databaseUrl })
  client.on('error', () => {})
  await client.connect()
  await client.query(`begin;
    lock table jetpost_emails_1.checkpoints in access share mode;
    lock table jetpost_emails_1.checkpoints in row share mode`)
  return async () => await client.end()
}

t.test('only the operator finds it', async t => {
  const stranger = await visit(app, await app.newAccountKey())
  for (
    const path of [
      '',
      '/streams',
      '/projections',
      '/dead-letters',
      '/reputation',
      '/accounts',
      '/mail',
      '/mail/1',
      '/mail/1/source'
    ]
  ) {
    t.match(await stranger.get(AT + path), { status: 404, html: /This page does not exist/ }, path)
  }
  for (const path of ['/projections/emails/rebuild', '/projections/emails/stop', '/dead-letters/emails/retry']) {
    t.equal((await stranger.post(AT + path)).status, 404, path)
  }
  t.notMatch((await stranger.get('/dashboard/emails')).html, /Operations/)
})

t.test('sending domains over the usual limits are named', async t => {
  const hours = (domain: string, agoH: number, delivered: number, bounced: number, complained: number) =>
    pool.query(
      `insert into jetpost_stats_3.stats_hours
        select 'acc_x', '', date_trunc('hour', now()) - $1::int * interval '1 hour', $2,
          $3::int + $4::int, 0, 0, $3, 0, $4, 0, 0, 0, $5, 0`,
      [agoH, domain, delivered, bounced, complained]
    )
  await hours('old-list.example', 2, 90, 10, 0)
  await hours('spam.example', 50, 1000, 0, 5)
  await hours('few.example', 2, 5, 5, 1)
  const text = await textAt('/reputation')
  t.match(text, /old-list.example acc_x 10.0 % 10 of 100 too many 10.0 % 10 of 100 too many 0.0 % 0 of 90/)
  t.match(text, /spam.example acc_x – 0.0 % 0 of 1,000 – 0.50 % 5 of 1,000 too many/)
  t.match(text, /few.example acc_x 50.0 % 5 of 10 50.0 % 5 of 10 20.0 % 1 of 5/)
  const bounces = '10.0 % of emails from old-list.example bounced in the last 24 hours'
  const complaints = '0.50 % of emails from spam.example were marked as spam in the last 7 days'
  t.match(await textAt(''), new RegExp(`${bounces}.*${complaints}`))
  await pool.query("delete from jetpost_stats_3.stats_hours where account = 'acc_x'")
})

t.test('pending messages of a consumer are explained', async t => {
  const consumer = {
    name: 'sender',
    stream: 'REQUESTS',
    pending: 0,
    ackPending: 0,
    ackPendingMax: 4000,
    redelivered: 0,
    waiting: 1
  }
  const states = [{}, { ackPending: 3 }, { pending: 5 }, { pending: 5000 }, { pending: 5000, ackPending: 4000 }, {
    pending: 5,
    waiting: 0
  }].map(some => consumerState({ ...consumer, ...some }))
  t.strictSame(states.map(({ state }) => state), ['idle', 'working', 'working', 'behind', 'behind', 'stalled'])
  t.match(states.at(-1), {
    text: '5 messages pending and no worker fetches them: accepted emails wait to be sent. ' +
      'Check that a process with the role sender runs.'
  })
})

t.test('the pages show the state of roles, streams, consumers and projections', async t => {
  t.match(
    await textAt(''),
    /Roles api, submission, sender, projector.*sender ready Sends emails.*projection emails ready/
  )
  t.match(
    await textAt('/streams'),
    new RegExp(
      `REQUESTS .* ${
        MAILS.toLocaleString('en-GB')
      } .*CONTROL .* for ever 1, on disk.*batch-members of WEBHOOKS 0 0 0 Nothing pending.`
    )
  )
  t.match(await textAt('/projections'), /emails version 1 .* up to date 0 .*Rebuild .*erasures version 1/)
  t.match(
    await textAt('/accounts'),
    /First account your account: the operator's acc_first Copy 1 0 0 .* Another acc_/
  )
  t.match(await textAt('/dead-letters'), /No dead-lettered facts/)
  t.equal((await operator.post(`${AT}/projections/nothing/rebuild`)).status, 404)
})

t.test('a projection is rebuilt from the page, which shows the progress; two rebuilds exclude each other', async t => {
  const before = await sumOfRows()
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto(`${AT}/projections`)
  const letGo = await holdTheView()
  await page.getByRole('row', { name: /emails version/ }).getByRole('button', { name: 'Rebuild' }).click()
  t.match(
    await page.getByRole('dialog').textContent(),
    /Rebuild emails\? It reads up to [\d,]+ facts and writes about .* to new tables, .* Everything else works meanwhile/
  )
  await page.getByRole('button', { name: 'Rebuild emails' }).click()
  await until(
    async () => /emails version 1 .* \d+ %, [\d,]+ of [\d,]+ facts/.test(await textAt('/projections')),
    10_000
  )
  await page.getByText('Rebuild of emails started.').waitFor()
  await page.getByRole('progressbar', { name: 'Rebuild of emails' }).waitFor()
  await page.getByText('Catching up with new facts.').waitFor()
  t.match(await operator.post(`${AT}/projections/emails/rebuild`), {
    status: 422,
    html: /The projection emails is already being rebuilt/
  })
  const env = {
    NATS_URL: natsUrl,
    DATABASE_URL: databaseUrl,
    JETPOST_SECRET: SECRET
  }
  t.match(await jetpostHere(['rebuild', 'emails'], env), {
    code: 1,
    err: /Another process is rebuilding the projection emails/
  })
  t.equal((await app.request('GET', '/api/emails')).status, 200, 'reading goes on')
  await letGo()
  await page.locator('#projections').getByText(/: [\d,]+ facts in \d+\.\d s/).waitFor()
  t.equal(await page.getByRole('progressbar').count(), 0)
  t.equal(await sumOfRows(), before)
  t.strictSame(complaints, [])
})

t.test('what another process rebuilds is not rebuilt here, and a rebuild can be stopped', async t => {
  const other = new Client({ connectionString: databaseUrl })
  // Where this test fails, its database is dropped under the connection.
  other.on('error', () => {})
  await other.connect()
  await other.query("select pg_advisory_lock(hashtextextended('jetpost_stats_3_rebuild', 1))")
  await until(async () => /stats version 3 .* rebuilding in another process/.test(await textAt('/projections')))
  t.match(await operator.post(`${AT}/projections/stats/rebuild`), {
    status: 422,
    html: /Another process is rebuilding the projection stats: wait until it is done/
  })
  await other.end()
  const letGo = await holdTheView()
  const before = await sumOfRows()
  t.match(await operator.post(`${AT}/projections/emails/rebuild`), { status: 303 })
  t.match(await operator.post(`${AT}/projections/emails/stop`), { status: 303 })
  await until(async () => /stopped .* the next one continues from there/.test(await textAt('/projections')))
  t.match(await operator.post(`${AT}/projections/emails/rebuild`), { status: 303 })
  await until(async () => /Catching up/.test(await textAt('/projections')))
  await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'jetpost rebuild' and datname = current_database()`)
  await until(async () =>
    /emails version 1 .* failed .*: PostgreSQL does not answer: .* Rebuild deliveries/.test(
      await textAt('/projections')
    )
  )
  await letGo()
  t.equal(await sumOfRows(), before)
})

t.test('a dead-lettered fact is shown with its reason, and retried', async t => {
  await bus.js.publish('suppression.acc_x.0123', JSON.stringify({ type: 'suppression.<b>unheard</b>' }))
  await until(async () => /suppressions: 1 dead-lettered fact/.test(await textAt('/dead-letters')))
  const { html } = await operator.get(`${AT}/dead-letters`)
  t.match(textOf({ html }), /CONTROL \d+ suppression.acc_x.0123 unknown fact type "suppression.<b>unheard<\/b>" /)
  t.notMatch(html, '<b>unheard')
  for (const path of [AT, '/dashboard/overview']) {
    t.match(
      textOf(await operator.get(path)),
      /Projection suppressions has 1 dead-lettered fact It could not write them/,
      path
    )
  }
  const again = await operator.post(`${AT}/dead-letters/suppressions/retry`)
  t.match(again, { status: 303, to: `${AT}/dead-letters` })
  t.match(noticeOf(again), /suppressions wrote 0 facts and could not write 1/)
  await (await bus.nc.jetstreamManager()).streams.deleteMessage('CONTROL', await deadLetterSeq())
  t.match(
    noticeOf(await operator.post(`${AT}/dead-letters/suppressions/retry`)),
    /No dead-lettered facts left in suppressions/
  )
  // The audit log reads all of CONTROL.
  await operator.post(`${AT}/dead-letters/audit/retry`)
  t.match(await textAt('/dead-letters'), /No dead-lettered facts/)
  t.equal((await operator.post(`${AT}/dead-letters/suppressions/retry`)).status, 404)
  await until(async () => /No problems found/.test(await textAt('')))
})

/** What the next page would say. */
function noticeOf ({ headers }: Shown): string {
  const cookie = headers.getSetCookie().find(line => /notice/i.test(line)) ?? ''
  return Buffer.from(/=([^;]*)/.exec(cookie)?.[1] ?? '', 'base64url').toString()
}

async function deadLetterSeq (): Promise<number> {
  return (await pool.query<{ seq: number }>('select seq from jetpost_suppressions_1.dead_letters')).rows[0]!.seq
}

t.test('mail to postmaster and abuse can be read, as text alone', async t => {
  t.match(await textAt('/mail'), /No inbound mail/)
  const factLog = createFactLog(bus, systemClock)
  const keep = async (to: string, raw: string) =>
    await keepInbound(factLog, {
      from: 'ada@example.org',
      to: [to],
      remote: '192.0.2.1',
      raw: Buffer.from(raw),
      sizeBytes: raw.length
    })
  const id = await keep('Abuse@bounces.example', 'Subject: <script>alert(1)</script>\r\n and more\r\n\r\nStop it\r\n')
  for (let i = 0; i < 60; i++) await keep('b+0123@bounces.example', 'Subject: a bounce\r\n\r\nx\r\n')
  const { html } = await operator.get(`${AT}/mail`)
  t.match(textOf({ html }), /<script>alert\(1\)<\/script> and more from ada@example.org to Abuse@bounces.example/)
  t.notMatch(html, '<script>alert')
  t.notMatch(html, 'a bounce')
  const [, href] = /href="(\/dashboard\/operations\/mail\/\d+)"/.exec(html)!
  t.match(textOf(await operator.get(href!)), /Stop it/)
  t.match(await operator.get(`${href}/source`), { status: 200, html: /^Subject: </ })
  t.match((await operator.get(`${href}/source`)).headers.get('content-disposition'), `attachment; filename="${id}.eml"`)
  const [, next] = /rel="next" href="([^"]+)"/.exec((await operator.get(`${AT}/mail?show=all`)).html)!
  t.match(textOf(await operator.get(next!.replaceAll('&amp;', '&'))), /a bounce/)
  t.equal((await operator.get(`${AT}/mail/999999`)).status, 404)
})

t.test('mail that a newer version stored is left out, and the page says so', async t => {
  const { seq } = await bus.js.publish('inbound.mail', JSON.stringify({ type: 'inbound.received', version: 99 }))
  const page = textOf(await operator.get(`${AT}/mail?show=all`))
  t.match(page, /This version of Jetpost cannot read 1 of the mails.* a bounce/)
  t.match(await operator.get(`${AT}/mail/${seq}`), { status: 404, html: /stored by a newer version of Jetpost/ })
})

t.test('while NATS or PostgreSQL is away, the pages say which', async t => {
  natsLine!.cut()
  await until(async () =>
    /Health check nats fails not connected.*A server does not answer NATS does not answer/.test(await textAt(''))
  )
  // A page may show for a second what was read before.
  await until(async () => /NATS does not answer: this process is not connected to it/.test(await textAt('/streams')))
  await until(async () => /NATS does not answer.*emails version 1 .* unknown 0/.test(await textAt('/projections')))
  t.match(await textAt('/mail'), /NATS does not answer/)
  natsLine!.mend()
  await until(ready)
  postgresLine!.cut()
  await until(async () => /PostgreSQL does not answer.*emails version 1 .* unknown/.test(await textAt('/projections')))
  for (const path of ['', '/dead-letters']) t.match(await textAt(path), /PostgreSQL does not answer/, path)
  await until(async () => /REQUESTS .* 1,000 /.test(await textAt('/streams')))
  for (const path of ['/projections/emails/rebuild', '/dead-letters/emails/retry']) {
    t.match(await operator.post(AT + path), { status: 422, html: /PostgreSQL does not answer/ }, path)
  }
  postgresLine!.mend()
  await until(ready)
})

t.test('a process that stops ends its rebuilds', async t => {
  const letGo = await holdTheView()
  t.match(await operator.post(`${AT}/projections/emails/rebuild`), { status: 303 })
  const beginMs = performance.now()
  await app.stop()
  t.ok(performance.now() - beginMs < 30_000, `after ${Math.round(performance.now() - beginMs)} ms`)
  const builders = await pool.query(
    "select from pg_stat_activity where application_name = 'jetpost rebuild' and datname = current_database()"
  )
  t.equal(builders.rowCount, 0)
  await letGo()
})
