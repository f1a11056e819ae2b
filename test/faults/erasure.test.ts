import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createLog } from '#src/base/log.ts'
import { createPool } from '#src/postgres/pool.ts'
import { erase, filesWith, needles, receipt, rowsAnew, servers, tablesWith } from '../support/erasure-rig.ts'
import { startTestApp } from '../support/app.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { startSink } from '../support/smtp-sink.ts'
import { openBus } from '../support/bus.ts'
import { until } from '../support/wait.ts'

const ADA = 'Ada.Lovelace-7f3a@erase-me.example'
const BOB = 'bob-2c44@stays.example'
const CAROL = 'carol-88d1@stays.example'
const CONTENT = 'what-was-said-5d1c9e'
const CHILD = fileURLToPath(new URL('../support/eraser-child.ts', import.meta.url))

t.test('killed again and again, it is finished all the same, and counts everything once', LONG_ONLY, async t => {
  const { natsUrl, databaseUrl, folder } = await servers(t)
  const app = await startTestApp(t, {
    natsUrl: natsUrl!,
    databaseUrl: databaseUrl!,
    env: { JETPOST_ROLES: 'api,sender,projector' }
  })
  const mails = LONG ? 60 : 12
  for (let i = 0; i < mails; i++) {
    await app.send({
      to: i % 3 === 0 ? [ADA, BOB, CAROL] : ADA,
      subject: CONTENT,
      html: i % 10 === 1 ? `<p>${'y'.repeat(270_000)}</p>` : '<p>Hello</p>'
    })
  }
  await until(
    async () => (await app.request('GET', `/api/emails?status=delivered&limit=${mails}`)).body.data?.length === mails,
    30_000
  )
  const { id } = await erase(app, ADA)
  let kills = 0
  for (
    let ms = 150;
    ((await app.request('GET', `/api/erasures/${id}`)).body.counts?.messages ?? 0) === 0 || kills < (LONG ? 6 : 1);
    ms += 60
  ) {
    const child = fork(CHILD, [natsUrl!, databaseUrl!], { stdio: 'inherit' })
    await once(child, 'message')
    await new Promise(resolve => setTimeout(resolve, ms))
    child.kill('SIGKILL')
    await once(child, 'exit')
    kills++
  }
  const halfway = (await app.request('GET', `/api/erasures/${id}`)).body
  t.comment(`after ${kills} kills`, JSON.stringify(halfway.counts))
  const child = fork(CHILD, [natsUrl!, databaseUrl!], { stdio: 'inherit' })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const { counts } = await receipt(app, id)
  t.match(counts, { emails: mails, recipients: mails, canceled: 0 })
  t.same(filesWith(join(folder, 'nats'), needles(ADA)), [])
  const pool = createPool(databaseUrl!, createLog('silent'))
  t.teardown(() => pool.end())
  t.same(await tablesWith(pool, [ADA]), [])
  t.equal((await app.request('GET', `/api/emails?to=${BOB}&limit=100`)).body.data.length, mails / 3)
  await rowsAnew(t, { natsUrl: natsUrl!, databaseUrl: databaseUrl!, pool })
})

t.test('two people of the same emails are forgotten at the same time, by two workers each', LONG_ONLY, async t => {
  const { natsUrl, databaseUrl, folder } = await servers(t)
  const mail = await startSink()
  t.teardown(() => mail.stop())
  const app = await startTestApp(t, { natsUrl: natsUrl!, databaseUrl: databaseUrl!, env: { SMTP_URL: mail.url } })
  const { bus } = await openBus(t, natsUrl!)
  const mails = LONG ? 20 : 10
  const ids: string[] = []
  for (let i = 0; i < mails; i++) {
    ids.push(
      (await app.send({
        to: [ADA, BOB, CAROL],
        subject: `Number ${i}`,
        html: i === 1 ? `<p>${'z'.repeat(270_000)}</p>` : '<p>Hello</p>'
      })).body.id
    )
  }
  for (const id of ids) await app.settled(id, 'delivered')
  const early = (await app.send({ to: ADA })).body.id
  await app.settled(early, 'delivered')
  const { state } = await (await bus.nc.jetstreamManager()).streams.info('REQUESTS')
  await until(async () => (await app.request('GET', '/api/stats')).body.totals.accepted === 3 * mails + 1, 10_000)
  await (await bus.nc.jetstreamManager()).streams.deleteMessage('REQUESTS', state.last_seq)
  mail.replies(ADA, { dot: { reply: '250 2.0.0 at last', afterMs: 6000 } })
  const slow = (await app.send({ to: ADA })).body.id
  await until(async () => (await app.request('GET', `/api/emails/${slow}`)).body.status === 'sending', 10_000)

  const child = fork(CHILD, [natsUrl!, databaseUrl!], { stdio: 'inherit' })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const [ada, bob] = await Promise.all([erase(app, ADA), erase(app, BOB)])
  const receipts = [await receipt(app, ada.id), await receipt(app, bob.id)]
  t.match(receipts.map(({ counts }) => counts), [{ emails: mails + 2, recipients: mails + 2, canceled: 0 }, {
    emails: mails,
    recipients: mails,
    canceled: 0
  }])
  t.same(filesWith(join(folder, 'nats'), needles(ADA, BOB)), [])
  const pool = createPool(databaseUrl!, createLog('silent'))
  t.teardown(() => pool.end())
  t.same(await tablesWith(pool, [ADA, BOB]), [])
  const nobody = 'erased@erased.invalid'
  for (const [i, id] of ids.entries()) {
    const { body } = await app.request('GET', `/api/emails/${id}`)
    t.match(body, { subject: `Number ${i}`, status: 'delivered', to: [nobody, nobody, CAROL] })
    t.equal((await app.request('GET', `/api/emails/${id}/content`)).status, 200, 'the third has its content')
  }
  t.match(
    (await app.request('GET', `/api/emails/${slow}`)).body,
    { status: 'delivered', to: [nobody] },
    'the outcome of a transaction under way came first'
  )
  t.match(
    (await app.request('GET', `/api/emails/${early}`)).body,
    { status: 'delivered', to: [nobody], subject: '' },
    'also where the request had left the log before'
  )
  await rowsAnew(t, { natsUrl: natsUrl!, databaseUrl: databaseUrl!, pool })
})
