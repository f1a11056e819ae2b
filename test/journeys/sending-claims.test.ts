import { once } from 'node:events'
import { createServer } from 'node:net'
import t from 'tap'
import { scheduleSend } from '#src/actions/due-send.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { newId } from '#src/base/id.ts'
import { api } from '#src/nats/api.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import type { Heartbeats } from '#src/nats/heartbeats.ts'
import { startSender, type SenderOptions } from '#src/workers/sender/sender.ts'
import { EmailDelivered, type RecipientFact } from '#streams/email/facts.ts'
import { ACCOUNT, claimOf, eventOf, openRig, SMTP_QUICK, type Rig } from '../support/sender-rig.ts'
import { until } from '../support/wait.ts'

// They wait more than they work, and share nothing: some run beside each other.
t.jobs = 2

const types = (facts: RecipientFact[]) => facts.map(({ type }) => type)

async function claimed ({ factLog }: Rig, email: string, worker = 'w_other'): Promise<void> {
  const fact = claimOf(email, worker, 60_000)
  await factLog.append([{ fact, expectedSeq: 0 }])
}

async function attempted ({ sink }: Rig, address: string): Promise<void> {
  await until(() => sink.attempts(address) > 0)
}

/** Heartbeats that between `begin` and `end` were heard for no longer than `heardMs`; `asked` = how often asked. */
function beDeaf (heardMs = 0) {
  let [deaf, asked] = [false, 0]
  const heartbeats = (real: Heartbeats): Heartbeats => ({
    ...real,
    heardForMs () {
      if (!deaf) return real.heardForMs()
      asked++
      return Math.min(real.heardForMs(), heardMs)
    }
  })
  return {
    heartbeats,
    begin: () => {
      deaf = true
    },
    end: () => {
      deaf = false
    },
    asked: () => asked
  }
}

for (const reply of ['450 4.2.0 not now', '550 5.1.1 no such user']) {
  t.test(`${reply.slice(0, 3)} at RCPT while another holds the claim: the other goes on`, async t => {
    const rig = await openRig(t)
    const held = Promise.withResolvers<void>()
    rig.sink.replies('a@example.net', { rcpt: { reply, after: held.promise } })
    const email = await rig.ask('a@example.net')
    await attempted(rig, 'a@example.net')
    await claimed(rig, email)
    held.resolve()
    await rig.idle()
    t.same(types(await rig.facts(email)), ['email.attempted'])
    t.same(rig.reports, [], 'what was not recorded is not reported')
  })
}

t.test('a claim of ours without a dot is no doubt, however long NATS does not hear us after it', async t => {
  const deafness = beDeaf()
  const rig = await openRig(t, { heartbeats: deafness.heartbeats })
  const held = Promise.withResolvers<void>()
  rig.sink.replies('a@example.net', { data: { reply: '354 go ahead', after: held.promise } })
  const email = await rig.ask('a@example.net', { onDoubt: 'hold' })
  await attempted(rig, 'a@example.net')
  deafness.begin()
  held.resolve()
  await until(() => deafness.asked() >= 6)
  t.same(types(await rig.facts(email)), ['email.attempted'])
  t.equal(rig.sink.received.filter(({ dot }) => dot).length, 0)
  deafness.end()
  await rig.told(email, ['attempted', 'attempted', 'delivered'])
})

t.test('a claim of ours without a dot is no doubt, though the content cannot be read at the next try', async t => {
  let gets = 0
  const deafness = beDeaf()
  const rig = await openRig(t, {
    heartbeats: deafness.heartbeats,
    blobs: real => ({
      ...real,
      get: async name => {
        if (++gets === 2) throw new Error('not now')
        return await real.get(name)
      }
    })
  })
  const held = Promise.withResolvers<void>()
  rig.sink.replies('a@example.net', { data: { reply: '354 go ahead', after: held.promise } })
  const email = newId('em', Date.now())
  await (await openBlobs(rig.bus)).put(email, Buffer.from(JSON.stringify({ html: null, text: 'from the store' })))
  await rig.ask('a@example.net', { email, content: null })
  await attempted(rig, 'a@example.net')
  deafness.begin()
  held.resolve()
  await until(() => deafness.asked() > 0)
  deafness.end()
  await rig.told(email, ['attempted', 'attempted', 'delivered'])
  t.equal(gets, 3)
})

t.test('a sender that was paused since its claim sends no dot, though its newest beat is heard', async t => {
  const pause = beDeaf(0.001)
  const rig = await openRig(t, { heartbeats: pause.heartbeats })
  const held = Promise.withResolvers<void>()
  rig.sink.replies('a@example.net', { data: { reply: '354 go ahead', after: held.promise } })
  const email = await rig.ask('a@example.net')
  await attempted(rig, 'a@example.net')
  pause.begin()
  held.resolve()
  await until(() => pause.asked() >= 3)
  t.equal(rig.sink.received.filter(({ dot }) => dot).length, 0)
  pause.end()
  await rig.sink.dots(1)
  await rig.idle()
  const all = types(await rig.facts(email))
  t.equal(all.at(-1), 'email.delivered')
  t.notOk(all.includes('email.in_doubt'))
})

t.test('half a lease must outlive the wait for the reply to the dot', async t => {
  const options = { timings: { leaseMs: 2 * SMTP_QUICK.dotMs, smtp: SMTP_QUICK } } as SenderOptions
  t.throws(() => startSender(options), /half a lease/)
})

t.test('a delivery that is void by then is not reported', async t => {
  const rig = await openRig(t)
  const held = Promise.withResolvers<void>()
  rig.sink.replies('a@example.net', { dot: { reply: '250 ok', after: held.promise } })
  const email = await rig.ask('a@example.net')
  const [claim] = await rig.told(email, ['attempted'])
  const { email: _email, n, request, to } = claim!.data
  const other = stamp(EmailDelivered, { account: ACCOUNT, correlation: 'test', causation: null }, {
    email,
    n,
    request,
    to,
    sequence: 2,
    attempt: 1,
    host: null,
    tls: null,
    via: 'relay',
    ms: 1,
    reply: { code: 250, enhanced: null, text: '250 ok' },
    event: '{}'
  }, Date.now())
  await rig.factLog.append([{ fact: other }])
  held.resolve()
  await rig.idle()
  t.same(types(await rig.facts(email)), ['email.attempted', 'email.delivered'])
  t.same(rig.reports, [])
})

t.test('what is put off without a try is no attempt', async t => {
  const rig = await openRig(t, {
    smtpUrl: 'smtp://127.0.0.1:1',
    timings: { patienceMs: 0, retry: { firstS: 600, maxS: 600 } }
  })
  await rig.told(await rig.ask('a@example.net'), ['deferred'])
  t.same(rig.reports, [])
})

t.test('due, but its request is gone: the recipient has failed, and the event says what is known', async t => {
  const rig = await openRig(t, { timings: { retry: { firstS: 2, maxS: 2 } } })
  rig.sink.replies('a@example.net', { rcpt: '451 4.7.1 later' })
  const email = await rig.ask('a@example.net')
  const [deferred] = await rig.told(email, ['deferred'])
  await api(rig.bus, 'STREAM.MSG.DELETE.REQUESTS', { seq: deferred!.data.request })
  const failed = (await rig.told(email, ['deferred', 'failed'])).at(-1)
  t.match(failed!.data, { to: 'a@example.net', reason: 'unsendable', detail: 'the request is gone', sequence: 2 })
  t.equal(failed!.causation, deferred!.causation)
  const known = {
    from: 'shop@example.com',
    to: 'a@example.net',
    subject: 'Your order',
    tags: ['a'],
    metadata: { order: 7 },
    message_id: `<${email}.0@example.com>`
  }
  t.match(eventOf(failed), { type: 'email.bounced', data: known })
  const never = newId('em', Date.now())
  await scheduleSend(rig.bus, { account: ACCOUNT, email: never, n: 3, request: 999 }, Date.now())
  const [lost] = await rig.told(never, ['failed'], 3)
  t.match(eventOf(lost), { data: { to: '', subject: '', tags: [], metadata: {} } })
  t.equal(lost!.causation, null, 'it names no fact that is nowhere')
})

t.test('mail of a suspended account waits without a fact, new and due, and goes out once it is resumed', async t => {
  let [isSuspended, asked] = [true, 0]
  const rig = await openRig(t, {
    isSuspended: account => {
      if (isSuspended && account === ACCOUNT) asked++
      return isSuspended && account === ACCOUNT
    }
  })
  const email = await rig.ask(['a@example.net', 'b@example.net'])
  const due = (n: number) => scheduleSend(rig.bus, { account: ACCOUNT, email, n, request: 1 }, Date.now())
  const waits = async () => await rig.scheduled() === 2
  await until(waits)
  t.equal(asked, 2)
  await due(0)
  await until(() => asked === 3)
  await until(waits)
  for (const n of [0, 1]) t.same(await rig.facts(email, n), [])
  t.equal(rig.sink.received.length, 0)
  isSuspended = false
  await Promise.all([due(0), due(1)])
  for (const n of [0, 1]) await rig.told(email, ['attempted', 'delivered'], n)
})

t.test('content is fetched once a connection is there for it', async t => {
  let gets = 0
  const rig = await openRig(t, {
    connections: 1,
    blobs: real => ({
      ...real,
      get: async name => {
        gets++
        return await real.get(name)
      }
    })
  })
  const store = await openBlobs(rig.bus)
  for (const address of ['a@example.net', 'b@example.net', 'c@example.net']) {
    rig.sink.replies(address, { dot: { reply: '250 ok', afterMs: 400 } })
    const email = newId('em', Date.now())
    await store.put(email, Buffer.from(JSON.stringify({ html: null, text: 'from the store' })))
    await rig.ask(address, { email, content: null })
  }
  await rig.sink.dots(1)
  t.equal(gets, 1)
  await rig.sink.dots(3)
  t.equal(gets, 3)
})

t.test('a server without SMTPUTF8 takes mail for an address in ASCII, no matter who else it is to', async t => {
  const rig = await openRig(t, { sink: { extensions: ['PIPELINING', '8BITMIME'] } })
  const email = await rig.ask(['jörg@example.net', 'b@example.net'])
  await rig.told(email, ['attempted', 'delivered'], 1)
  const [failed] = await rig.told(email, ['failed'], 0)
  t.match(failed!.data, { reason: 'unsendable', detail: /5\.6\.7/ })
  const head = rig.sink.received[0]!.raw.toString().split('\r\n\r\n')[0]!
  t.notMatch(head, /\P{ASCII}/u)
  t.match(head, /^To: =\?UTF-8\?[BQ]\?\S+\?= :;, b@example\.net\r$/m)
})

t.test('no TLS offered: no password goes out, and the mail waits', async t => {
  let said = ''
  const server = createServer(socket => {
    socket.on('error', () => {}).write('220 plain ready\r\n')
    socket.on('data', bytes => {
      said += bytes.toString()
      socket.write(/^EHLO/i.test(bytes.toString()) ? '250-plain\r\n250 AUTH PLAIN LOGIN\r\n' : '502 5.5.1 not here\r\n')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as { port: number }
  const rig = await openRig(t, {
    smtpUrl: `smtp://me:secret@127.0.0.1:${port}`,
    timings: { patienceMs: 0, retry: { firstS: 600, maxS: 600 } }
  })
  const [deferred] = await rig.told(await rig.ask('a@example.net'), ['deferred'])
  t.match(deferred!.data, { stage: 'ehlo', reply: null, error: /gives no TLS, which is required: 502/ })
  t.match(said, /STARTTLS/)
  t.notMatch(said, /AUTH/i)
})
