import { once } from 'node:events'
import { pino } from 'pino'
import { SMTPServer } from 'smtp-server'
import t from 'tap'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { repair } from '#src/nats/ensure.ts'
import type { Heartbeats } from '#src/nats/heartbeats.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { startReconciler } from '#src/workers/scheduler/reconcile.ts'
import { closeSession, openSession } from '#src/workers/sender/session.ts'
import { parseTarget } from '#src/workers/sender/target.ts'
import { createPool } from '#src/postgres/pool.ts'
import { projections } from '#projections/list.ts'
import { claimOf, cuttableLine, eventOf, log, openRig, SMTP_QUICK, topology, transact } from '../support/sender-rig.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink, type Act } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

// They wait more than they work, and share nothing: some run beside each other.
t.jobs = 2

t.test('a mail is claimed, sent and delivered', async t => {
  const { ask, told, sink } = await openRig(t)
  const email = await ask('a@example.net')
  const [claim, delivered] = await told(email, ['attempted', 'delivered'])
  const [copy] = await sink.dots(1)
  t.equal(copy!.messageId, `<${email}.0@example.com>`)
  t.equal(copy!.from, 'shop@example.com')
  t.match(claim!.data, { attempt: 1, sequence: 1, messageId: copy!.messageId, to: 'a@example.net' })
  t.match(delivered!.data, {
    attempt: 1,
    sequence: 2,
    via: 'relay',
    host: '127.0.0.1',
    tls: null,
    reply: { code: 250, enhanced: '2.0.0' }
  })
  const event = eventOf(delivered)
  t.same(Object.keys(event), ['id', 'type', 'created_at', 'data'])
  t.equal(event.id, delivered!.id)
  t.equal(event.created_at, delivered!.time)
  t.match(event, {
    type: 'email.delivered',
    data: {
      email_id: email,
      from: 'shop@example.com',
      to: 'a@example.net',
      subject: 'Your order',
      smtp_response: '250 2.0.0 queued',
      tags: ['a'],
      metadata: { order: 7 },
      message_id: copy!.messageId,
      sequence: 2,
      via: 'relay'
    }
  })
})

t.test('each of many recipients has a transaction and facts of its own', async t => {
  const { ask, told, sink } = await openRig(t, { connections: 4 })
  const to = Array.from({ length: 50 }, (_, i) => `r${i}@example.net`)
  sink.replies('r7@example.net', { rcpt: '550 5.1.1 no such user' })
  const email = await ask(to)
  await sink.dots(49)
  t.ok(sink.connections() <= 4, 'within the limit of connections')
  for (const n of to.keys()) await told(email, n === 7 ? ['bounced'] : ['attempted', 'delivered'], n)
  t.equal(new Set(sink.received.map(({ messageId }) => messageId)).size, 49)
})

t.test('550 at RCPT is a bounce, without a claim, and the connection goes on', async t => {
  const { ask, told, sink } = await openRig(t, { connections: 1 })
  sink.replies('gone@example.net', { rcpt: '550 5.1.1 no such user' })
  const [bounced] = await told(await ask('gone@example.net'), ['bounced'])
  t.match(bounced!.data, { stage: 'rcpt', class: 'userunknown', attempt: 1, reply: { code: 550, enhanced: '5.1.1' } })
  t.match(eventOf(bounced), {
    type: 'email.bounced',
    data: {
      smtp_response: '550 5.1.1 no such user',
      bounce: {
        type: 'hard',
        class: 'userunknown',
        code: 550,
        enhanced_code: '5.1.1',
        final: true,
        next_attempt_at: null
      }
    }
  })
  await told(await ask('next@example.net'), ['attempted', 'delivered'])
  t.equal(sink.connections(), 1)
})

t.test('550 after the dot is a bounce', async t => {
  const { ask, told, sink } = await openRig(t)
  sink.replies('spam@example.net', { dot: '550 5.7.1 looks like spam' })
  const [, bounced] = await told(await ask('spam@example.net'), ['attempted', 'bounced'])
  t.match(bounced!.data, { stage: 'data', class: 'spamdetected' })
})

t.test('451 is deferred, and delivered when due', async t => {
  const { ask, told, sink } = await openRig(t)
  sink.replies('grey@example.net', { rcpt: '451 4.7.1 greylisted, try again later' })
  const email = await ask('grey@example.net')
  const [deferred] = await told(email, ['deferred', 'attempted', 'delivered'])
  t.match(deferred!.data, { stage: 'rcpt', first: true, class: 'speeding', error: null, reply: { code: 451 } })
  t.match(eventOf(deferred).data.bounce, {
    type: 'soft',
    final: false,
    code: 451,
    next_attempt_at: (deferred!.data as { nextAttemptAt: string }).nextAttemptAt
  })
  t.equal(sink.attempts('grey@example.net'), 2)
})

t.test('a server that hangs is left after its time, and the mail deferred', async t => {
  const { ask, told, sink } = await openRig(t)
  sink.replies('slow@example.net', { rcpt: 'hang' })
  const [deferred] = await told(await ask('slow@example.net'), ['deferred', 'attempted', 'delivered'])
  t.match(deferred!.data, { stage: 'mail', reply: null, error: /in time/ })
})

t.test('a server that is slow at the dot is waited for', async t => {
  const { ask, told, sink } = await openRig(t)
  sink.replies('slow@example.net', { dot: { afterMs: 900, reply: '250 2.0.0 at last' } })
  await told(await ask('slow@example.net'), ['attempted', 'delivered'])
  t.equal(sink.attempts('slow@example.net'), 1)
})

t.test('a line that dies after the dot is a doubt, and one more copy goes out, the same to the receiver', async t => {
  const { ask, told, sink } = await openRig(t)
  sink.replies('doubt@example.net', { dot: 'reset' })
  const [, doubt] = await told(await ask('doubt@example.net'), ['attempted', 'in_doubt', 'attempted', 'delivered'])
  t.match(doubt!.data, { cause: 'line', held: false, attempt: 1 })
  const [first, second] = await sink.dots(2)
  t.same([first!.messageId, first!.date], [second!.messageId, second!.date])
  t.same(first!.raw, second!.raw, 'byte for byte')
})

t.test('with on_doubt hold no second copy goes out', async t => {
  const { ask, told, sink, idle, scheduled } = await openRig(t)
  sink.replies('doubt@example.net', { dot: 'reset' })
  const [, doubt] = await told(await ask('doubt@example.net', { onDoubt: 'hold' }), ['attempted', 'in_doubt'])
  t.match(doubt!.data, { held: true, nextAttemptAt: null })
  await told(await ask('next@example.net'), ['attempted', 'delivered'])
  await idle()
  t.equal(await scheduled(), 0)
  t.equal(sink.attempts('doubt@example.net'), 1)
})

t.test('a server that always resets after the dot gets two copies, no more', async t => {
  const { ask, told, sink, idle, scheduled } = await openRig(t)
  sink.replies('never@example.net', { dot: 'reset' }, 9)
  const facts = await told(await ask('never@example.net'), ['attempted', 'in_doubt', 'attempted', 'in_doubt'])
  t.match(facts.at(-1)!.data, { held: true })
  await idle()
  t.equal(await scheduled(), 0)
  t.equal(sink.attempts('never@example.net'), 2)
})

t.test('a line that dies before the dot is no doubt', async t => {
  const { ask, told, sink } = await openRig(t)
  sink.replies('cut@example.net', { data: { reply: '354 go ahead', thenReset: true } })
  const [deferred] = await told(await ask('cut@example.net'), ['deferred', 'attempted', 'delivered'])
  t.match(deferred!.data, { attempt: 1, reply: null })
})

t.test('a server with DSN (RFC 3461) gets RET, ENVID and NOTIFY, another gets none of them', async t => {
  for (
    const [extensions, mail, rcpt] of [
      [
        ['PIPELINING', 'DSN'],
        'MAIL FROM:<shop@example.com> RET=HDRS ENVID=e1',
        'RCPT TO:<ada@example.net> NOTIFY=FAILURE,DELAY'
      ],
      [[], 'MAIL FROM:<shop@example.com>', 'RCPT TO:<ada@example.net>']
    ] as const
  ) {
    const { ask, told, sink } = await openRig(t, { sink: { extensions: [...extensions] } })
    await told(await ask('ada@example.net'), ['attempted', 'delivered'])
    t.strictSame(sink.received[0]!.commands, [mail, rcpt])
  }
})

t.test('SMTPUTF8 is asked for where only a header needs it, once where the envelope does, else not at all', async t => {
  const sink = await startSink({ extensions: ['SMTPUTF8', '8BITMIME'] })
  const old = await startSink({ extensions: ['8BITMIME'] })
  t.teardown(async () => {
    await sink.stop()
    await old.stop()
  })
  const mail = { from: 'b+1@example.com', to: 'b@example.net', envelopeId: 'e1', message: Buffer.from('a: b\r\n\r\n') }
  const session = await openSession(parseTarget(sink.url), 'sender.test', SMTP_QUICK)
  await transact(session, { ...mail, utf8: true })
  await transact(session, { ...mail, from: 'jürgen@example.com', utf8: true })
  await transact(session, { ...mail, utf8: false })
  t.strictSame(sink.received.map(({ commands }) => commands[0]), [
    'MAIL FROM:<b+1@example.com> BODY=8BITMIME SMTPUTF8',
    'MAIL FROM:<jürgen@example.com> SMTPUTF8 BODY=8BITMIME',
    'MAIL FROM:<b+1@example.com>'
  ])
  const result = await transact(await openSession(parseTarget(old.url), 'sender.test', SMTP_QUICK), {
    ...mail,
    utf8: true
  })
  t.match(result, { kind: 'unsendable', detail: /^5\.6\.7 / })
  t.equal(old.received.length, 0)
})

t.test('the claim before the dot', async t => {
  const sink = await startSink()
  t.teardown(() => sink.stop())
  const target = parseTarget(sink.url)
  const mail = {
    from: 'a@example.com',
    to: 'b@example.net',
    envelopeId: 'e1',
    message: Buffer.from('Subject: x\r\n\r\n.x\r\n'),
    utf8: false
  }
  /** The claim is granted or not once the server has answered the body, where it does. */
  const send = async (granted: boolean, { mayFinish = true, body }: { mayFinish?: boolean, body?: Act } = {}) => {
    if (body !== undefined) sink.replies('b@example.net', { body })
    const before = sink.received.length
    const session = await openSession(target, 'sender.test', SMTP_QUICK)
    const { connection } = session
    const claim = async () => {
      if (body !== undefined) await until(() => !session.usable || connection.lastServerResponse === body)
      return granted
    }
    const ending = await transact(session, mail, SMTP_QUICK, { claim, mayFinish: () => mayFinish })
    t.teardown(() => closeSession(session))
    await until(() => sink.received.length > before)
    return { ending, usable: session.usable, last: sink.received.at(-1)! }
  }
  t.match(await send(true), { ending: { kind: 'reply', reply: { code: 250 } }, usable: true, last: { dot: true } })
  t.match(await send(false), { ending: { kind: 'dropped' }, usable: false, last: { dot: false } })
  t.match(
    await send(true, { mayFinish: false }),
    { ending: { kind: 'dropped' }, usable: false, last: { dot: false } },
    'an old claim'
  )
  t.match(await send(true, { body: 'reset' }), {
    ending: { kind: 'broken', stage: 'data', dotSent: false },
    usable: false,
    last: { dot: false }
  })
  t.match(await send(true, { body: '451 4.3.0 changed my mind' }), {
    ending: { kind: 'reply', reply: { code: 451 } },
    usable: false,
    last: { dot: false }
  })
  t.match(await send(true, { body: '250 2.0.0 before its time' }), {
    ending: { kind: 'broken', dotSent: false },
    usable: false,
    last: { dot: false }
  })
  t.equal(sink.received.filter(({ dot }) => dot).length, 1)
})

t.test('a refusal in the middle of the body is taken at its word', async t => {
  const { bus, ask, told, sink } = await openRig(t)
  sink.replies('full@example.net', { body: '552 5.2.2 mailbox full' })
  const email = newId('em', Date.now())
  await (await openBlobs(bus)).put(email, Buffer.from(JSON.stringify({ html: 'x'.repeat(12_000_000), text: null })))
  const facts = await told(await ask('full@example.net', { email, content: null }), ['bounced'])
  t.match(facts[0]!.data, { stage: 'data', class: 'mailboxfull' })
  await until(() => sink.received.length > 0)
  t.notOk(sink.received[0]!.dot, 'no dot follows')
})

t.test('garbage counts as a broken line where it comes', async t => {
  const { ask, told, sink } = await openRig(t)
  sink.replies('early@example.net', { rcpt: 'what?' })
  sink.replies('late@example.net', { dot: '2 what?' })
  await told(await ask('early@example.net'), ['deferred', 'attempted', 'delivered'])
  await told(await ask('late@example.net'), ['attempted', 'in_doubt', 'attempted', 'delivered'])
})

t.test('421 defers, and the target is left alone for a while', async t => {
  const { ask, told, sink } = await openRig(t)
  sink.replies('busy@example.net', { rcpt: '421 4.3.2 closing' })
  const [deferred] = await told(await ask('busy@example.net'), ['deferred'])
  t.match(deferred!.data, { reply: { code: 421 } })
})

t.test('a 421 is of the command that it answers, with PIPELINING and without', async t => {
  for (const extensions of [['PIPELINING'], []]) {
    for (const stage of ['mail', 'rcpt', 'data'] as const) {
      const { ask, told, sink } = await openRig(t, { sink: { extensions }, timings: { patienceMs: 0 } })
      sink.replies(stage === 'mail' ? 'shop@example.com' : 'busy@example.net', { [stage]: '421 4.3.2 closing' })
      const [deferred] = await told(await ask('busy@example.net'), ['deferred', 'attempted', 'delivered'])
      t.match(deferred!.data, { stage, reply: { code: 421 } }, `${stage}, ${extensions}`)
    }
  }
})

t.test('a relay that is down costs no attempt at first, and a deferral by schedule later', async t => {
  const down = await startSink()
  await down.stop()
  let asked = 0
  const heartbeats = (real: Heartbeats): Heartbeats => ({
    ...real,
    heardForMs: () => {
      asked++
      return real.heardForMs()
    }
  })
  const { ask, told, facts, idle } = await openRig(t, {
    smtpUrl: down.url,
    timings: { patienceMs: 60_000 },
    heartbeats
  })
  const email = await ask('a@example.net')
  await until(() => asked > 0)
  await idle()
  t.same(await facts(email), [], 'waits in the queue')
  const up = await startSink({ port: down.port })
  t.teardown(() => up.stop())
  await told(email, ['attempted', 'delivered'])
})

t.test('a relay that stays down has its mail deferred', async t => {
  const down = await startSink()
  await down.stop()
  const { ask, told } = await openRig(t, {
    smtpUrl: down.url,
    timings: { patienceMs: 0, retry: { firstS: 600, maxS: 600 } }
  })
  const emails = await Promise.all(Array.from({ length: 50 }, (_, i) => ask(`r${i}@example.net`)))
  for (const email of emails) {
    const [deferred] = await told(email, ['deferred'])
    t.match(deferred!.data, { stage: 'connect', reply: null, error: /ECONNREFUSED/, class: 'networkerror' })
  }
})

t.test('mail goes in plain where SMTP_URL turns TLS off, and its fact says so', async t => {
  const sink = await startSink({ tls: 'refused' })
  t.teardown(() => sink.stop())
  const { ask, told } = await openRig(t, { smtpUrl: `${sink.url}?tls=off` })
  const [, delivered] = await told(await ask('a@example.net'), ['attempted', 'delivered'])
  t.match(delivered!.data, { tls: null, plain: 'policy', address: '127.0.0.1' })
})

t.test('the mail of a test key goes to the catcher, whatever the relay', async t => {
  const elsewhere = await startSink()
  t.teardown(() => elsewhere.stop())
  const { ask, told, sink } = await openRig(t, { smtpUrl: elsewhere.url })
  await told(await ask('a@example.net', { test: true }), ['attempted', 'delivered'])
  t.equal(sink.received.length, 1)
  t.equal(elsewhere.received.length, 0)
})

t.test('when the budget ends, the recipient has failed', async t => {
  const { ask, told, sink } = await openRig(t, { timings: { retry: { firstS: 60, maxS: 60 } } })
  sink.replies('grey@example.net', { rcpt: '451 4.7.1 not yet' })
  const email = await ask('grey@example.net', { expiresAt: timestamp(Date.now() + 600) })
  const failed = (await told(email, ['deferred', 'failed'])).at(-1)
  t.match(failed!.data, { reason: 'expired' })
  t.match(eventOf(failed), { type: 'email.bounced', data: { bounce: { type: 'soft', class: 'expired', final: true } } })
})

t.test('content in the object store is sent, and content that is gone is said so', async t => {
  const { bus, ask, told, sink } = await openRig(t)
  await told(await ask('lost@example.net', { content: null }), ['failed'])
  const blobs = await openBlobs(bus)
  const email = newId('em', Date.now())
  await blobs.put(email, Buffer.from(JSON.stringify({ html: null, text: 'from the store' })))
  await told(await ask('a@example.net', { email, content: null }), ['attempted', 'delivered'])
  t.match(sink.received.at(-1)!.raw.toString(), 'from the store')
})

t.test('a claim that somebody else holds: no dot', async t => {
  const { factLog, ask, facts, sink, idle } = await openRig(t)
  const held = Promise.withResolvers<void>()
  sink.replies('a@example.net', { data: { reply: '354 go ahead', after: held.promise } })
  const email = await ask('a@example.net')
  await factLog.append([{ fact: claimOf(email, 'w_other', 60_000), expectedSeq: 0 }])
  held.resolve()
  await until(() => sink.received.length > 0)
  await idle()
  t.equal(sink.received.filter(({ dot }) => dot).length, 0)
  t.same((await facts(email)).map(({ type }) => type), ['email.attempted'], 'the other is waited for')
})

t.test('a claim whose lease is over is a doubt of the sender, and sent again with its Date', async t => {
  const { factLog, ask, told, sink } = await openRig(t)
  const email = newId('em', Date.now())
  const other = claimOf(email, 'w_other', 300)
  await factLog.append([{ fact: other, expectedSeq: 0 }])
  await ask('a@example.net', { email })
  const [, doubt, again] = await told(email, ['attempted', 'in_doubt', 'attempted', 'delivered'])
  t.match(doubt!.data, { cause: 'sender', held: false, attempt: 1 })
  t.match(again!.data, { attempt: 2, date: (other.data as { date: string }).date })
  t.equal(sink.received.at(-1)!.date, 'Sat, 21 Nov 2026 06:20:00 +0000')
})

t.test('NATS unreachable between body and claim: no dot; back again, the mail goes out once', async t => {
  const line = await cuttableLine(t, freshAccount().natsUrl)
  const { ask, told, sink } = await openRig(t, { natsUrl: line.url, timings: { claimMs: 1500 } })
  const held = Promise.withResolvers<void>()
  sink.replies('a@example.net', { data: { reply: '354 go ahead', after: held.promise } })
  const email = await ask('a@example.net')
  await until(() => sink.attempts('a@example.net') > 0)
  line.cut()
  held.resolve()
  await until(() => sink.received.length > 0)
  t.equal(sink.received.filter(({ dot }) => dot).length, 0, 'no dot while nobody could write the claim down')
  line.mend()
  const facts = await told(email, ['attempted', 'delivered'])
  t.equal(facts.at(-1)!.type, 'email.delivered')
  t.equal(sink.received.filter(({ dot }) => dot).length, 1)
})

t.test('NATS unreachable between dot and outcome: kept in memory, no second copy', async t => {
  const line = await cuttableLine(t, freshAccount().natsUrl)
  const warnings: string[] = []
  const noted = pino({ level: 'warn' }, { write: text => void warnings.push(text) })
  const { ask, told, sink } = await openRig(t, { natsUrl: line.url, direct: { log: noted } })
  const held = Promise.withResolvers<void>()
  sink.replies('a@example.net', { dot: { reply: '250 ok', after: held.promise } })
  const email = await ask('a@example.net')
  await sink.dots(1)
  line.cut()
  held.resolve()
  await until(() => warnings.some(text => text.includes('outcome waits to be stored')))
  line.mend()
  await told(email, ['attempted', 'delivered'])
  t.equal(sink.attempts('a@example.net'), 1)
})

t.test('TLS when offered, and a login; refused, it is the host that is in trouble', async t => {
  const server = new SMTPServer({
    logger: false,
    onAuth: ({ username, password }, _session, callback) => {
      const error = Object.assign(new Error('5.7.8 no'), { responseCode: 535 })
      callback(username === 'me' && password === 'right' ? null : error, { user: 'me' })
    },
    onData: (stream, _session, callback) => {
      stream.resume().on('end', () => callback(null, '2.0.0 taken'))
    }
  })
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  t.teardown(() => new Promise<void>(resolve => server.close(() => resolve())))
  const { port } = server.server.address() as { port: number }

  const right = await openRig(t, { smtpUrl: `smtp://me:right@127.0.0.1:${port}?tls=unverified` })
  const [, delivered] = await right.told(await right.ask('a@example.net'), ['attempted', 'delivered'])
  t.match(delivered!.data, { tls: { version: /^TLSv1/, verified: false }, reply: { text: '250 2.0.0 taken' } })

  const wrong = await openRig(t, {
    smtpUrl: `smtp://me:wrong@127.0.0.1:${port}?tls=unverified`,
    timings: { patienceMs: 0, retry: { firstS: 600, maxS: 600 } }
  })
  const [refused] = await wrong.told(await wrong.ask('a@example.net'), ['deferred'])
  t.match(refused!.data, { stage: 'ehlo', class: 'securityerror', reply: { code: 535 } })

  const strict = await openRig(t, {
    smtpUrl: `smtp://me:right@127.0.0.1:${port}`,
    timings: { patienceMs: 0, retry: { firstS: 600, maxS: 600 } }
  })
  const [distrusted] = await strict.told(await strict.ask('a@example.net'), ['deferred'])
  t.match(
    distrusted!.data,
    { stage: 'ehlo', reply: null, error: /certificate/ },
    'no password goes to a server that is not who it says'
  )
})

t.test('the stream of schedules is deleted: what waited goes out all the same', async t => {
  const pool = createPool(await freshDatabase(t), log)
  t.teardown(() => pool.end())
  let soon = () => {}
  const { bus, ask, told, sink } = await openRig(t, {
    onRepair: () => soon(),
    timings: { retry: { firstS: 4, maxS: 4 } }
  })
  const projectors = createProjectors({
    bus,
    pool,
    log,
    projections,
    rebuild: openRebuilder({ bus, pool, log }).rebuild
  })
  const reconcile = startReconciler({
    bus,
    pool,
    blobs: await openBlobs(bus),
    repair: plan => repair(bus, plan, topology),
    log
  })
  t.teardown(async () => {
    await reconcile.stop()
    await Promise.all(projectors.map(projector => projector.stop()))
  })
  soon = () => reconcile.afterLoss()
  const to = Array.from({ length: 20 }, (_, i) => `r${i}@example.net`)
  for (const address of to) sink.replies(address, { rcpt: '451 4.7.1 later' })
  const email = await ask(to)
  for (const n of to.keys()) await told(email, ['deferred'], n)
  await bus.nc.request('$JS.API.STREAM.DELETE.SCHEDULE')
  await sink.dots(20, 60_000)
  for (const n of to.keys()) await told(email, ['deferred', 'attempted', 'delivered'], n)
})

t.test('told to stop, it finishes what it has begun and begins nothing', async t => {
  const { ask, facts, sink, sender } = await openRig(t, { connections: 2 })
  for (let i = 0; i < 8; i++) sink.replies(`r${i}@example.net`, { dot: { afterMs: 400, reply: '250 ok' } })
  const emails = await Promise.all(Array.from({ length: 8 }, (_, i) => ask(`r${i}@example.net`)))
  await sink.dots(2)
  await sender.stop()
  const states = await Promise.all(emails.map(async email => (await facts(email)).map(({ type }) => type).join()))
  t.ok(states.every(state => state === '' || state === 'email.attempted,email.delivered'), 'nothing is left half done')
  t.ok(states.includes(''), 'the rest is left to others')
})
