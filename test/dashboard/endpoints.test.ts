import t from 'tap'
import { endpointAnswers } from '#projections/deliveries/health.ts'
import { judgeWebhook } from '#src/actions/webhook.ts'
import { createLog } from '#src/base/log.ts'
import { createPool } from '#src/postgres/pool.ts'
import { visit } from '../support/dashboard.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { startTestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const sink = await startHookSink()
t.teardown(() => sink.stop())
const me = await visit(app)

t.test('an endpoint shows how it answers: its share of success, its last answer, and since when it fails', async t => {
  const hook = async (path: string) =>
    (await app.request('POST', '/api/webhooks', { body: { url: sink.url + path, events: ['email.delivered'] } })).body
  sink.answers(({ path }) => (path === '/down' ? { status: 503 } : {}))
  const [fine, down] = [await hook('/fine'), await hook('/down')]
  await app.settled((await app.send()).body.id, 'delivered')
  await sink.waitFor(requests => ['/fine', '/down'].every(path => requests.some(request => request.path === path)))
  const cause = { account: 'acc_first', correlation: 'test', causation: null }
  await judgeWebhook(await openSecondServices(t, natsUrl), cause, down, { failingSinceMs: Date.now() - 3_600_000 })
  const rowOf = async (id: string) =>
    (await me.get('/dashboard/webhooks')).html.split('<tr>').find(row => row.includes(`/dashboard/webhooks/${id}"`)) ??
      ''
  await until(async () => (await rowOf(fine.id)).includes('HTTP 200'))
  t.match(await rowOf(fine.id), /100\.0 %<\/span> <svg class="spark"[^]*<rect class="good"/)
  await until(async () => (await rowOf(down.id)).includes('Failing: HTTP 503, last success never'))
  t.match(await rowOf(down.id), /class="fault">Failing[^]*0\.0 %<\/span> <svg class="spark"[^]*<rect class="bad"/)
  t.match((await me.get(`/dashboard/webhooks/${down.id}`)).html, /box bad"><span class="fault">Failing: HTTP 503/)
  t.match((await me.get('/dashboard/webhooks/deliveries')).html, /\/down<\/a> <span class="badge bad">failing</)
  const stranger = await visit(app, await app.newAccountKey())
  t.notMatch((await stranger.get('/dashboard/webhooks')).html, '/down')
})

t.test('a delivery is found by its id, and by that of its event or its email', async t => {
  const [, id] = /\/dashboard\/webhooks\/deliveries\/(whd_\w+)"/.exec(
    (await me.get('/dashboard/webhooks/deliveries')).html
  )!
  const { html } = await me.get(`/dashboard/webhooks/deliveries/${id}`)
  const [event, email] = [/ev_\w+/.exec(html)![0], /\/emails\/(em_\w+)/.exec(html)![1]!]
  const find = async (text: string) => await me.get(`/dashboard/webhooks/deliveries?q=${text}`)
  t.equal((await find(id!)).to, `/dashboard/webhooks/deliveries/${id}`)
  t.equal((await find(event)).to, `/dashboard/webhooks/deliveries?event=${event}`)
  t.equal((await find(email)).to, `/dashboard/webhooks/deliveries?email=${email}`)
  t.match(await find('whd_none'), { status: 200, html: /No delivery has this id/ })
})

t.test('how endpoints answer is read from an index, however many deliveries there are', async t => {
  const pool = createPool(databaseUrl, createLog('silent'))
  t.teardown(async () => await pool.end())
  await pool.query(`insert into deliveries (id, account, webhook, first_seq, requested_at, replay, batch, test, state,
      state_seq, state_at, attempts, attempt_seq)
    select 'whd_' || i, 'acc_many', 'wh_1', i, now(), '', false, false, 'delivered', i, now(), 1, i
    from generate_series(1, 20000) i`)
  await pool.query('analyze deliveries')
  const query = { account: 'acc_many', webhooks: ['wh_1'], sinceMs: Date.now() - 1000, nowMs: Date.now(), stretches: 2 }
  const { sql, read } = endpointAnswers(query)
  const { rows } = await pool.query<{ 'QUERY PLAN': string }>(`explain ${sql.text}`, [...sql.values])
  t.notMatch(rows.map(row => row['QUERY PLAN']).join('\n'), /Seq Scan/)
  const found = read((await pool.query(sql.text, [...sql.values])).rows)
  t.equal(found.get('wh_1')!.stretches.length, 2)
})
