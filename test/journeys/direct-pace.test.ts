import t, { type Test } from 'tap'
import { subjects } from '#streams/subjects.ts'
import { deadline } from '#src/base/errors.ts'
import { lastSequencesOf } from '#src/nats/lookup.ts'
import { HostFailure, RetryLater } from '#src/workers/sender/errors.ts'
import { SessionPool } from '#src/workers/sender/session-pool.ts'
import { forUnproven, openSession, type SmtpSession } from '#src/workers/sender/session.ts'
import { siteOf } from '#src/workers/sender/shaping.ts'
import type { Dial, NextHop } from '#src/workers/sender/site.ts'
import { parseTarget } from '#src/workers/sender/target.ts'
import { openDirect } from '../support/direct-rig.ts'
import { ACCOUNT, SMTP_QUICK, transact } from '../support/sender-rig.ts'
import { startSink, type Sink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const LONG = { retry: { firstS: 100, maxS: 100 } }

/** A site on the internet as the pool sees it, which is a sink in truth: one that takes its time with each mail, and is
 *  sent as many as it takes. */
async function openSite (t: Test, name: string, dotMs = 0): Promise<{ hop: NextHop, sink: Sink }> {
  const sink = await startSink()
  t.teardown(() => sink.stop())
  if (dotMs > 0) sink.replies('b@example.net', { dot: { reply: '250 ok', afterMs: dotMs } }, 5000)
  const open = () => openSession(parseTarget(sink.url), 'sender.test', SMTP_QUICK)
  return {
    hop: {
      via: 'mx',
      site: name,
      shape: { ...siteOf([name]).shape, messagesPerSecond: 10_000 },
      hosts: name,
      domain: name,
      accepts: () => true,
      open
    },
    sink
  }
}

function openPool (t: Test, connections: number): SessionPool {
  const pool = new SessionPool({ connections, hostname: 'sender.test', timeouts: SMTP_QUICK })
  t.teardown(() => pool.stop())
  return pool
}

/** A site of which nothing is known. */
function hop (name: string): Omit<NextHop, 'open'> {
  return { via: 'mx', site: name, shape: siteOf([name]).shape, hosts: name, domain: name, accepts: () => true }
}

async function send (session: SmtpSession): Promise<void> {
  await transact(
    session,
    {
      from: 'a@example.com',
      to: 'b@example.net',
      message: Buffer.from('Subject: x\r\n\r\nx\r\n'),
      envelopeId: 'e1',
      utf8: false
    }
  )
}

/** Sends without a pause over `lanes` lines until told to stop; who is turned away comes back at once. */
function flood (t: Test, pool: SessionPool, hop: NextHop, lanes: number): { stop(): Promise<void> } {
  let on = true
  const lane = async () => {
    while (on) await pool.use(hop, send).catch(() => new Promise(resolve => setTimeout(resolve, 5)))
  }
  const running = Array.from({ length: lanes }, lane)
  const stop = async () => {
    on = false
    await Promise.all(running)
  }
  t.teardown(stop)
  return { stop }
}

t.test('domains with the same MX hosts share sessions', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  const sinks = [await mxHost('mx1.example.net', 2), await mxHost('mx2.example.net', 3)]
  for (let i = 0; i < 12; i++) {
    dns.mx(`d${i}.example`, [10, 'mx1.example.net'], [20, 'mx2.example.net'])
    await told(await ask(`a@d${i}.example`), ['attempted', 'delivered'])
  }
  t.same(sinks.map(sink => [sink.sessions().made, sink.received.length]), [[1, 12], [0, 0]])
})

t.test('the domains of a great receiver are one site, but each goes to its own hosts', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  const one = await mxHost('one.mail.protection.outlook.com', 2)
  const other = await mxHost('other.mail.protection.outlook.com', 3)
  dns.mx('one.example', [0, 'one.mail.protection.outlook.com'])
  dns.mx('other.example', [0, 'other.mail.protection.outlook.com'])
  for (let i = 0; i < 3; i++) {
    for (const name of ['one', 'other']) await told(await ask(`r${i}@${name}.example`), ['attempted', 'delivered'])
  }
  t.same([one, other].map(sink => sink.received.length), [3, 3])
  other.greet('421 4.3.2 not now')
  await other.stop()
  await told(await ask('last@one.example'), ['attempted', 'delivered'])
})

t.test('a site that hangs does not delay another, nor does it keep its mail in the queue', async t => {
  const timings = { ...LONG, patienceMs: 0 }
  const { ask, told, dns, mxHost, sender } = await openDirect(t, { connections: 4, timings })
  const dead = await mxHost('mx.dead.example', 2)
  dead.greet('hang')
  await mxHost('mx.live.example', 3)
  for (const name of ['dead', 'live']) dns.mx(`${name}.example`, [10, `mx.${name}.example`])
  const waiting = await Promise.all(Array.from({ length: 60 }, (_, i) => ask(`r${i}@dead.example`)))
  const quick = await Promise.all(Array.from({ length: 10 }, (_, i) => ask(`r${i}@live.example`)))
  for (const email of quick) await told(email, ['attempted', 'delivered'])
  for (const email of waiting) await told(email, ['deferred'])
  t.ok(dead.sessions().made <= 4, `${dead.sessions().made} connections for 60 mails`)
  await until(() => sender.inFlight() === 0)
})

t.test('a slow site does not keep the others’ mail waiting, and its own arrives without a word of delay', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t, { connections: 6 })
  const [slow, quick] = [await mxHost('mx.slow.example', 2), await mxHost('mx.quick.example', 3)]
  for (const name of ['slow', 'quick']) dns.mx(`${name}.example`, [10, `mx.${name}.example`])
  for (let i = 0; i < 40; i++) slow.replies(`r${i}@slow.example`, { dot: { reply: '250 ok', afterMs: 500 } })
  const slowly = await Promise.all(Array.from({ length: 40 }, (_, i) => ask(`r${i}@slow.example`)))
  const quickly = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(`r${i}@quick.example`)))
  for (const email of quickly) await told(email, ['attempted', 'delivered'])
  t.ok(slow.received.length < 40, `${slow.received.length} of 40 slow ones had been sent by then`)
  t.equal(quick.received.length, 20)
  for (const email of slowly) await told(email, ['attempted', 'delivered'])
})

t.test('a site gets two connections at first, more when it bears them, and half as many after a failure', async t => {
  const pool = openPool(t, 50)
  const { hop, sink } = await openSite(t, 'mx.example.net', 30)
  await Promise.all(Array.from({ length: 5 }, () => pool.use(hop, send).catch(() => null)))
  t.ok(sink.sessions().most <= 2, 'few at first')
  const flooding = flood(t, pool, hop, 30)
  await until(() => sink.sessions().most === 10)
  await until(() => sink.received.length > 500)
  t.equal(sink.sessions().most, 10, 'no more than the table allows')
  pool.hostFailed(hop, new HostFailure('421 too much', 'mail', null))
  await until(() => sink.connections() <= 5)
  await flooding.stop()
})

t.test('one domain’s dead hosts do not slow a great receiver’s others', async t => {
  const pool = openPool(t, 50)
  const { hop, sink } = await openSite(t, 'mx.example.net', 30)
  const flooding = flood(t, pool, hop, 30)
  await until(() => sink.sessions().most === 10)
  const dead = {
    ...hop,
    hosts: 'another',
    accepts: () => false,
    open: async () => {
      throw new HostFailure('connection refused', 'connect', null)
    }
  }
  for (let i = 0; i < 3; i++) await t.rejects(pool.use(dead, send))
  const mails = sink.received.length
  await until(() => sink.received.length > mails + 200)
  t.equal(sink.connections(), 10)
  await flooding.stop()
})

t.test('two at once fail for one reason: it is halved once', async t => {
  const pool = openPool(t, 50)
  const { hop, sink } = await openSite(t, 'mx.example.net', 30)
  const flooding = flood(t, pool, hop, 30)
  await until(() => sink.sessions().most === 10)
  for (let i = 0; i < 5; i++) pool.hostFailed(hop, new HostFailure('421 too much', 'mail', null))
  await flooding.stop()
  await until(() => sink.connections() <= 5)
  t.equal(sink.connections(), 5)
})

for (const connections of [1, 2, 6]) {
  t.test(`with ${connections} connections in all, a flooded site leaves some for the next and for a relay`, async t => {
    const pool = openPool(t, connections)
    const [one, other] = [await openSite(t, 'mx.one.example'), await openSite(t, 'mx.other.example')]
    const flooding = flood(t, pool, one.hop, 20)
    await until(() => one.sink.received.length > 100)
    await pool.use(other.hop, send)
    await pool.use(parseTarget(other.sink.url), send)
    t.equal(other.sink.received.length, 2)
    t.ok(one.sink.connections() + other.sink.connections() <= connections + 2, 'QUIT may be on its way')
    await flooding.stop()
  })
}

t.test('a relay under flood leaves room too', async t => {
  const pool = openPool(t, 3)
  const [relay, site] = [await startSink(), await openSite(t, 'mx.example.net')]
  t.teardown(() => relay.stop())
  let on = true
  const target = parseTarget(relay.url)
  const lanes = Array.from({ length: 20 }, async () => {
    while (on) await pool.use(target, send)
  })
  await until(() => relay.received.length > 100)
  await pool.use(site.hop, send)
  t.equal(site.sink.received.length, 1)
  on = false
  await Promise.all(lanes)
})

t.test('words that suspend a site: its other mail is deferred unasked, once, and waits for the end of it', async t => {
  const { ask, told, facts, dns, mxHost } = await openDirect(t)
  const mx = await mxHost('mta5.am0.yahoodns.net', 2)
  const other = await mxHost('mx.example.net', 3)
  for (const domain of ['yahoo.example', 'aol.example']) dns.mx(domain, [1, 'mta5.am0.yahoodns.net'])
  dns.mx('else.example', [1, 'mx.example.net'])
  mx.replies('a@yahoo.example', {
    rcpt: '451 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to user complaints'
  })
  const first = await ask('a@yahoo.example')
  await told(first, ['deferred'])
  const second = await ask('b@aol.example')
  t.match((await told(second, ['deferred']))[0]!.data, {
    reply: null,
    untried: { code: 451, enhanced: '4.7.0' },
    host: 'mta5.am0.yahoodns.net'
  })
  // Twice as long as its retry takes.
  for (const address of ['r0@else.example', 'r1@else.example']) {
    other.replies(address, { rcpt: '450 4.2.0 not now' })
    await told(await ask(address), ['deferred', 'attempted', 'delivered'])
  }
  t.same([(await facts(first)).length, (await facts(second)).length], [1, 1])
  t.equal(mx.attempts('b@aol.example'), 0)
})

t.test('words about our reputation slow a site down: that mail is deferred, the rest waits', async t => {
  const { ask, told, facts, dns, mxHost, sender } = await openDirect(t, { timings: LONG })
  const mx = await mxHost('mx.example.net', 2)
  dns.mx('example.net', [1, 'mx.example.net'])
  await told(await ask('warm@example.net'), ['attempted', 'delivered'])
  mx.replies('a@example.net', {
    rcpt: '451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation'
  })
  await told(await ask('a@example.net'), ['deferred'])
  const others = await Promise.all(Array.from({ length: 8 }, (_, i) => ask(`r${i}@example.net`)))
  await until(() => sender.inFlight() === 0)
  const states = await Promise.all(others.map(async email => (await facts(email)).length))
  t.same(states, Array(8).fill(0), 'neither sent nor deferred')
  t.equal(mx.received.length, 1)
})

t.test('one tenant of a great receiver does not slow the others’ mail, two of them do', async t => {
  const { ask, told, dns, mxHost, facts, bus } = await openDirect(t, { timings: LONG })
  const mx = await mxHost('one.mail.protection.outlook.com', 2)
  for (const domain of ['evil', 'odd', 'good']) dns.mx(`${domain}.example`, [0, 'one.mail.protection.outlook.com'])
  await told(await ask('a@good.example'), ['attempted', 'delivered'])
  for (
    const dot of [
      '550 5.7.1 Our own rule says: temporarily deferred',
      '451 4.7.1 Our own rule says: temporarily deferred'
    ]
  ) {
    mx.replies('r@evil.example', { dot })
    await told(await ask('r@evil.example'), ['attempted', dot.startsWith('5') ? 'bounced' : 'deferred'])
  }
  for (let i = 0; i < 5; i++) await told(await ask(`b${i}@good.example`), ['attempted', 'delivered'])
  mx.replies('r@odd.example', { dot: '451 4.7.1 messages from 192.0.2.1 are temporarily deferred' })
  await told(await ask('r@odd.example'), ['attempted', 'deferred'])
  const waiting = await ask('c@good.example')
  await until(async () =>
    (await lastSequencesOf(bus, 'SCHEDULE', [subjects.scheduleSend(ACCOUNT, waiting, 0)])).size === 1
  )
  t.same(await facts(waiting), [], 'said by two')
})

t.test('hosts that never greet have at most half of all connections; mail to a new domain gets through', async t => {
  const slowly = { smtp: { ...SMTP_QUICK, greetingMs: 60_000, unprovenMs: 60_000 } }
  const { ask, told, dns, mxHost } = await openDirect(t, { connections: 10, timings: slowly })
  const traps = await Promise.all(Array.from({ length: 10 }, async (_, i) => {
    const trap = await mxHost(`mx${i}.evil.example`, 10 + i)
    trap.greet('hang')
    dns.mx(`x${i}.evil.example`, [10, `mx${i}.evil.example`])
    return trap
  }))
  const known = await mxHost('mx.live.example', 3, { closesAfterMail: true })
  dns.mx('live.example', [10, 'mx.live.example'])
  await told(await ask('first@live.example'), ['attempted', 'delivered'])
  for (let i = 0; i < 10; i++) await ask(`r@x${i}.evil.example`)
  const held = () => traps.reduce((sum, trap) => sum + trap.connections(), 0)
  await until(() => held() === 5)
  for (let i = 0; i < 5; i++) await told(await ask(`r${i}@live.example`), ['attempted', 'delivered'])
  t.equal(held(), 5)
  t.equal(known.received.length, 6)
})

t.test('many domains with one address hold only a few connections until they have answered a mail', async t => {
  const pool = openPool(t, 20)
  const dials: Dial[] = []
  const trap = (i: number): NextHop => ({
    ...hop(`mx${i}.evil.example`),
    open: dial => {
      dial.at('192.0.2.1')
      dials.push(dial)
      return new Promise(() => {})
    }
  })
  const held = Array.from({ length: 5 }, (_, i) => pool.use(trap(i), send).catch((error: unknown) => error))
  const turnedAway = await deadline(Promise.all(held.slice(3)), 1000, 'they wait')
  t.ok(turnedAway.every(error => error instanceof RetryLater))
  t.equal(dials.length, 3)
})

t.test('an address is free again once those who held it have been answered, or have failed', async t => {
  const pool = openPool(t, 20)
  const { sink } = await openSite(t, 'mx.example.net')
  for (let i = 0; i < 8; i++) {
    const one = {
      ...hop(`mx${i}.example`),
      open: async (dial: Dial) => {
        dial.at('192.0.2.1')
        return await openSession(parseTarget(sink.url), 'sender.test', SMTP_QUICK)
      }
    }
    const other = {
      ...hop(`mx${i}.dead.example`),
      open: async (dial: Dial) => {
        dial.at('192.0.2.1')
        throw new HostFailure('connection refused', 'connect', null)
      }
    }
    await pool.use(one, send)
    await t.rejects(pool.use(other, send), { name: 'Suspended' })
  }
  t.equal(sink.received.length, 8)
})

t.test('a site is unproven until it has answered a mail, or been tried three times', async t => {
  const pool = openPool(t, 20)
  const { hop: site } = await openSite(t, 'mx.example.net')
  const seen: boolean[] = []
  const telling = (name: string, open: NextHop['open']): NextHop => ({
    ...hop(name),
    hosts: `${name} ${seen.length}`,
    accepts: () => false,
    open: dial => {
      seen.push(dial.unproven)
      return open(dial)
    }
  })
  for (let i = 0; i < 2; i++) await pool.use(telling('mx.live.example', site.open), send)
  t.same(seen, [true, false])
  for (let i = 0; i < 4; i++) {
    await t.rejects(pool.use(
      telling('mx.slow.example', async () => {
        throw new HostFailure('timeout', 'connect', null)
      }),
      send
    ))
  }
  t.same(seen.slice(2), [true, true, true, false])
})

t.test('a late greeting or reply to MAIL ends the session; after it the usual timeouts hold', async t => {
  const timeouts = { ...SMTP_QUICK, greetingMs: 60_000, commandMs: 60_000, unprovenMs: 400 }
  const sink = await startSink({ extensions: [] })
  t.teardown(() => sink.stop())
  const open = () => openSession(parseTarget(sink.url), 'sender.test', forUnproven(timeouts))
  const mail = {
    from: 'a@example.com',
    to: 'b@example.net',
    message: Buffer.from('Subject: x\r\n\r\nx\r\n'),
    envelopeId: 'e1',
    utf8: false
  }
  sink.replies('b@example.net', {
    data: { reply: '354 go ahead', afterMs: 1000 },
    dot: { reply: '250 ok', afterMs: 1000 }
  })
  t.match(await transact(await open(), mail, timeouts), { kind: 'reply', reply: { code: 250 } })
  sink.replies('a@example.com', { mail: 'hang' })
  t.match(await deadline(transact(await open(), mail, timeouts), 5000, 'it waits'), {
    kind: 'broken',
    stage: 'mail'
  })
  sink.greet('hang')
  await t.rejects(deadline(open(), 5000, 'it waits'), { name: 'HostFailure', stage: 'connect' })
})

t.test('only what is dialled counts as a connection', async t => {
  const pool = openPool(t, 20)
  const { hop: site } = await openSite(t, 'mx.example.net')
  const shape = { ...site.shape, connectionsPerMinute: 2 }
  const nowhere = (i: number): NextHop => ({
    ...site,
    shape,
    hosts: `gone ${i}`,
    accepts: () => false,
    open: async () => {
      throw new HostFailure('has no address', 'connect', null)
    }
  })
  for (let i = 0; i < 5; i++) {
    await t.rejects(deadline(pool.use(nowhere(i), send), 1000, 'it waits for its turn'), { name: 'Suspended' })
  }
})

t.test('in direct mode too a connection that breaks after the dot is a doubt; the same copy goes again', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  const mx = await mxHost('mx.example.net', 2)
  dns.mx('example.net', [1, 'mx.example.net'])
  mx.replies('doubt@example.net', { dot: 'reset' })
  await told(await ask('doubt@example.net'), ['attempted', 'in_doubt', 'attempted', 'delivered'])
  const [first, second] = await mx.dots(2)
  t.same(first!.raw, second!.raw, 'byte for byte')
})
