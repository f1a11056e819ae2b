import t from 'tap'
import type { QueryResult } from 'pg'
import { createLog } from '#src/base/log.ts'
import { resumeAccount } from '#src/actions/account.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { startSuspensions } from '#src/workers/scheduler/suspensions.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

t.setTimeout(120_000)
const sink = await startSink()
t.teardown(() => sink.stop())
const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
// The house's own rounds are too far apart to be waited for.
const env = { SMTP_URL: sink.url, JETPOST_SUSPEND_BOUNCES: '0', JETPOST_SUSPEND_COMPLAINTS: '0' }
const app = await startTestApp(t, { natsUrl, databaseUrl, env })
const services = await openSecondServices(t, natsUrl)
const log = createLog('silent')
const pool = createPool(databaseUrl, log)
t.teardown(() => pool.end())
const options = { services, pool, rates: { bounces: 0.1, complaints: 0.005 }, log, everyMs: 100 }

/** Sends one email to `count`, of whom some bounce; resolves once all of them are settled. */
async function sendTo (key: string, name: string, count: number, bouncing: number): Promise<void> {
  const to = Array.from({ length: count }, (_, i) => `${name}-${i}@example.com`)
  for (const address of to.slice(0, bouncing)) sink.replies(address, { rcpt: '550 5.1.1 no such user' })
  for (let i = 0; i < to.length; i += 50) {
    const body = { from: FROM, to: to.slice(i, i + 50), subject: 'x', text: 'x' }
    const { body: { id } } = await app.request('POST', '/api/emails', { key, body })
    await until(async () => {
      const { body: { recipients } } = await app.request('GET', `/api/emails/${id}`, { key })
      return recipients.every(({ status }: { status: string }) => /^(delivered|bounced)$/.test(status))
    })
  }
}

const stateOf = async (id: string) => (await app.request('GET', `/api/accounts/${id}`)).body.suspended
const accountOf = async (key: string) => (await app.request('GET', '/api/me', { key })).body.account.id

t.test('an account whose mail bounces too often is suspended, once; others, and the first, are not', async t => {
  const [bad, good, small] = [await app.newAccountKey(), await app.newAccountKey(), await app.newAccountKey()]
  await Promise.all([
    sendTo(bad, 'bad', 100, 11),
    sendTo(good, 'good', 100, 9),
    sendTo(small, 'small', 20, 15),
    sendTo(API_KEY, 'own', 100, 50)
  ])
  const two = [startSuspensions(options), startSuspensions(options)]
  const id = await accountOf(bad)
  await until(async () => await stateOf(id) !== null)
  t.match(await stateOf(id), {
    reason: 'bounces',
    note: '11 of 100 recipients bounced, more than 10 %',
    automatic: true
  })
  t.match(await app.send({}, bad), { status: 403, body: { code: 'account_suspended', reason: 'bounces' } })
  for (const key of [good, small, API_KEY]) t.equal((await app.send({}, key)).status, 202)
  const { body: { data } } = await app.request('GET', '/api/audit?action=account.suspended', { key: bad })
  t.match(data, [{ actor: { kind: 'role', id: 'suspensions' } }])
  t.equal(data.length, 1)

  await resumeAccount(services, { correlation: 'test', actor: roleActor('test') }, id)
  await until(async () => (await app.send({}, bad)).status === 202)
  for (const rounds of two) await rounds.stop()
  // Not before all is sent: the first half alone is enough to suspend it, and the second would be refused.
  await sendTo(good, 'better', 100, 20)
  const again = startSuspensions(options)
  await until(async () => await stateOf(await accountOf(good)) !== null)
  t.equal(await stateOf(id), null, 'what was known when it was resumed counts no more')
  await again.stop()
})

t.test('who resumes an account while its rates are read is not overruled', async t => {
  const key = await app.newAccountKey()
  await sendTo(key, 'freed', 100, 11)
  const id = await accountOf(key)
  t.equal((await app.request('POST', `/api/accounts/${id}/suspend`, { body: { reason: 'other' } })).status, 200)
  await until(() => services.directory.now.accounts.get(id)!.suspended !== null)
  let rounds = 0
  let counted = 0
  const slow = Object.create(pool) as Pool
  slow.query = (async (...asked: Parameters<Pool['query']>) => {
    const answer = await (pool.query as (...all: unknown[]) => Promise<QueryResult>)(...asked)
    if (answer.rows.some(({ account }) => account === id)) counted++
    if (rounds === 0) {
      await resumeAccount(services, { correlation: 'test', actor: roleActor('test') }, id)
      await until(() => services.directory.now.accounts.get(id)!.suspended === null)
    }
    rounds++
    return answer
  }) as Pool['query']
  const role = startSuspensions({ ...options, pool: slow })
  await until(() => rounds >= 3)
  await role.stop()
  t.ok(counted > 0, 'its rate was read')
  t.equal(await stateOf(id), null)
})
