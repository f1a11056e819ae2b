import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { createFactLog, type FactLog } from '#src/actions/fact-log.ts'
import { systemClock } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import { createTokens } from '#src/content/token.ts'
import { openCertificate } from '#src/base/certificate.ts'
import {
  startInbound,
  type InboundServer,
  type InboundLimits,
  type InboundOptions
} from '#src/servers/inbound-smtp/server.ts'
import { getFact, lastSequence } from '#src/nats/get.ts'
import { emptyDirectory } from '#streams/directory.ts'
import { INBOUND_BYTES_MAX, type InboundReceived } from '#streams/inbound/facts.ts'
import { openBus } from '../support/bus.ts'
import { dial, handIn, speakOver, type Peer } from '../support/inbound-peer.ts'
import { SECRET } from '../support/secret.ts'
import { until } from '../support/wait.ts'

const HOST = 'bounces.jetpost.test'
const tokens = createTokens(SECRET)
const returnPath = (): string =>
  `b+${tokens.mint('return', { email: newId('em', Date.now()), n: 0, request: 1 })}@${HOST}`
const { bus } = await openBus(t)
const factLog = createFactLog(bus, systemClock)

async function open (
  t: Test,
  limits: Partial<InboundLimits> = {},
  options: Partial<InboundOptions> = {}
): Promise<InboundServer> {
  const inbound = await startInbound({
    port: 0,
    host: '127.0.0.1',
    hostname: 'mail.jetpost.test',
    bounceDomain: HOST,
    tlsCert: null,
    tlsKey: null,
    directory: { now: emptyDirectory() },
    tokens,
    factLog,
    log: createLog('silent'),
    limits: { stopMs: 1000, ...limits },
    ...options
  })
  t.teardown(() => inbound.stop())
  return inbound
}

async function keptLast (): Promise<InboundReceived['data']> {
  return (await getFact(bus, 'INBOUND', { seq: await lastSequence(bus, 'INBOUND') }))!.fact
    .data as InboundReceived['data']
}

async function greeted (port: number): Promise<Peer> {
  const peer = await dial(port)
  await peer.say('EHLO mx.example.net')
  return peer
}

/** A server of another network: any 127.x.y.z is this machine's. */
async function greetedFrom (localAddress: string, port: number): Promise<Peer> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  await once(socket, 'connect')
  const peer = await speakOver(socket)
  await peer.say('EHLO mx.example.net')
  return peer
}

/** Says lines in turn; resolves to the last reply. */
async function sayAll (peer: Peer, ...lines: string[]): Promise<string> {
  let reply = ''
  for (const line of lines) reply = await peer.say(line)
  return reply
}

t.test('a mail is kept as it came, and 250 names it', async t => {
  const { port } = await open(t)
  const to = returnPath()
  const reply = await handIn(port, {
    from: 'Ada@Example.org',
    to: [to, `postmaster@${HOST}`],
    raw: 'Subject: hi\r\n\r\n..two dots\r\n\xff'
  })
  const kept = await keptLast()
  t.equal(reply, `250 2.0.0 kept as ${kept.inbound}`)
  t.match(kept, { from: 'Ada@Example.org', to: [to, `postmaster@${HOST}`], remote: '127.0.0.1' })
  t.equal(Buffer.from(kept.raw, 'base64').toString('utf8'), 'Subject: hi\r\n\r\n.two dots\r\n\xff\r\n')
  t.equal(kept.sizeBytes, Buffer.from(kept.raw, 'base64').length)
})

t.test('nobody logs in, nothing is looked up or relayed, addresses beyond ASCII may come', async t => {
  const { port } = await open(t)
  const peer = await dial(port)
  t.match(peer.greeting, /^220 mail\.jetpost\.test /)
  const ehlo = await peer.say('EHLO mx.example.net')
  for (const word of ['STARTTLS', 'SMTPUTF8', '8BITMIME', 'SIZE 26214400']) t.match(ehlo, word)
  t.notMatch(ehlo, /AUTH|VRFY/)
  t.match(await peer.say('AUTH PLAIN AGEAYg=='), /^5/)
  t.match(await peer.say('VRFY ada'), /^5/)
  t.match(await peer.say('MAIL FROM:<jürgen@bücher.example> SMTPUTF8'), /^250/)
  t.match(await peer.say('RCPT TO:<ada@example.org>'), /^550 5\.7\.1 /)
  t.match(await peer.say(`RCPT TO:<b+${'0'.repeat(54)}@${HOST}>`), /^550 5\.1\.1 /)
  t.match(await peer.say('DATA'), /^503/, 'no recipient, no mail')
  t.match(await peer.say('RCPT TO:<postmaster>'), /^250/)
  peer.close()
})

t.test("STARTTLS offers the operator's certificate, or one of its own making whose key nobody else has", async t => {
  const [first, second] = [await open(t), await open(t)]
  const secure = await startTls(first.port)
  const { fingerprint256, subject } = secure.getPeerCertificate()
  t.equal(subject.CN, 'mail.jetpost.test')
  t.not(fingerprint256, (await startTls(second.port)).getPeerCertificate().fingerprint256, 'made again')
  const peer = await speakOver(secure, true)
  t.match(await sayAll(peer, 'EHLO mx.example.net', 'MAIL FROM:<>', `RCPT TO:<${returnPath()}>`), /^250/)
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-cert-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const own = await openCertificate({ tlsCert: null, tlsKey: null, hostname: 'mx.shop.example' })
  const [tlsCert, tlsKey] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  writeFileSync(tlsCert, own.cert)
  writeFileSync(tlsKey, own.key)
  t.equal(
    (await startTls((await open(t, {}, { tlsCert, tlsKey })).port)).getPeerCertificate().subject.CN,
    'mx.shop.example'
  )

  async function startTls (port: number): Promise<TLSSocket> {
    const peer = await greeted(port)
    t.match(await peer.say('STARTTLS'), /^220/)
    peer.socket.removeAllListeners('data')
    const secure = connectTls({ socket: peer.socket, rejectUnauthorized: false })
    await once(secure, 'secureConnect')
    t.teardown(() => void secure.destroy())
    return secure
  }
})

t.test('a certificate or port that cannot be used stops the start with a sentence that names the setting', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-cert-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'not-a.pem')
  writeFileSync(file, 'hello')
  await t.rejects(open(t, {}, { tlsCert: join(folder, 'none.pem'), tlsKey: file }), {
    name: 'Complaint',
    message: /JETPOST_TLS_CERT .*none\.pem cannot be read: ENOENT/
  })
  await t.rejects(open(t, {}, { tlsCert: file, tlsKey: join(folder, 'none.pem') }), {
    name: 'Complaint',
    message: /JETPOST_TLS_KEY .* cannot be read: ENOENT/
  })
  await t.rejects(open(t, {}, { tlsCert: file, tlsKey: file }), {
    name: 'Complaint',
    message: /JETPOST_TLS_CERT and JETPOST_TLS_KEY/
  })
  await t.rejects(open(t, {}, { tlsCert: file }), { name: 'Complaint', message: /set both, or neither/ })
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => void taken.close())
  const { port } = taken.address() as { port: number }
  await t.rejects(open(t, {}, { port }), {
    name: 'Complaint',
    message: `Port ${port} is taken: set JETPOST_INBOUND_PORT to a free one.`
  })
})

t.test('a mail that is too big is refused, announced or not; of a big one the beginning is kept', async t => {
  const { port } = await open(t, { sizeBytesMax: INBOUND_BYTES_MAX * 3 })
  const peer = await greeted(port)
  t.match(await peer.say(`MAIL FROM:<> SIZE=${INBOUND_BYTES_MAX * 3 + 1}`), /^552/)
  peer.close()
  const line = `${'x'.repeat(998)}\r\n`
  const before = await lastSequence(bus, 'INBOUND')
  t.match(await handIn(port, { to: returnPath(), raw: line.repeat(1700) }), /^552 5\.3\.4 /)
  t.equal(await lastSequence(bus, 'INBOUND'), before, 'nothing is kept of it')
  t.match(await handIn(port, { to: returnPath(), raw: `Subject: big\r\n\r\n${line.repeat(1000)}` }), /^250 /)
  const kept = await keptLast()
  t.equal(Buffer.from(kept.raw, 'base64').length, INBOUND_BYTES_MAX)
  t.equal(kept.sizeBytes, 16 + 1_000_000 + 2)
})

t.test('a hundred recipients are taken, the next is asked to come later', async t => {
  const { port } = await open(t)
  const peer = await greeted(port)
  await peer.say('MAIL FROM:<>')
  for (let i = 0; i < 100; i++) t.match(await peer.say(`RCPT TO:<${returnPath()}>`), /^250/)
  t.match(await peer.say(`RCPT TO:<${returnPath()}>`), /^452 4\.5\.3 /)
  await peer.say('DATA')
  t.match(await peer.say('Subject: all\r\n\r\n.'), /^250 2\.0\.0 kept/)
  t.equal((await keptLast()).to.length, 100)
  peer.close()
})

t.test('who guesses at names is shown out; who writes too much without a token waits', async t => {
  const { port } = await open(t, { refusalsMax: 3, roleMailsMax: 2 })
  const guesser = await greeted(port)
  await guesser.say('MAIL FROM:<>')
  for (let i = 0; i < 3; i++) t.match(await guesser.say(`RCPT TO:<name${i}@${HOST}>`), /^550/)
  t.match(await guesser.say(`RCPT TO:<name3@${HOST}>`), /^421 4\.7\.0 /)
  t.equal(await guesser.say('NOOP'), 'gone')
  const writer = await greeted(port)
  await writer.say('MAIL FROM:<>')
  for (const name of ['fbl', 'abuse']) t.match(await writer.say(`RCPT TO:<${name}@${HOST}>`), /^250/)
  t.match(await writer.say(`RCPT TO:<postmaster@${HOST}>`), /^450 4\.7\.0 /)
  t.match(await writer.say(`RCPT TO:<${returnPath()}>`), /^250/, 'a token needs no allowance')
  writer.close()
})

t.test('a network has so many connections, and so many mails a minute', async t => {
  const { port } = await open(t, { clientsOfNetworkMax: 2, mailsMax: 2 })
  const [first, second] = [await greeted(port), await greeted(port)]
  t.match((await dial(port)).greeting, /^421 4\.7\.0 /)
  first.close()
  t.match(await untilGreeted(port), /^220 /, 'a place is free again')
  for (const wanted of [/^250/, /^250/, /^450 4\.7\.0 /]) {
    t.match(await second.say('MAIL FROM:<>'), wanted)
    await second.say('RSET')
  }
  second.close()
})

t.test('mails to one token are limited per hour, in any case of letters; only stored ones count', async t => {
  let away = true
  const append: FactLog['append'] = async (...args) => {
    if (away) throw new Error('NATS is away')
    return await factLog.append(...args)
  }
  const { port } = await open(t, { tokenMailsMax: 2 }, { factLog: { ...factLog, append } })
  const [to, raw] = [returnPath(), 'Subject: x\r\n\r\n']
  for (let i = 0; i < 3; i++) t.match(await handIn(port, { to, raw }), /^451 4\.3\.0 /)
  away = false
  for (let i = 0; i < 2; i++) t.match(await handIn(port, { to, raw }), /^250 /)
  t.match(await handIn(port, { to, raw }), /^450 4\.2\.1 /)
  t.match(
    await handIn(port, { to: to.toUpperCase().replace(HOST.toUpperCase(), 'jp-bounces.shop.example'), raw }),
    /^450 4\.2\.1 /
  )
  t.match(await handIn(port, { to: returnPath(), raw }), /^250 /, 'another token')
})

t.test('everybody together gets so many mails an hour to addresses without a token', async t => {
  const { port } = await open(t, { roleMailsOfAllMax: 2 })
  for (
    const [network, wanted] of [['127.0.0.2', /^250/], ['127.0.0.3', /^250/], ['127.0.0.4', /^450 4\.2\.1 /]] as const
  ) {
    const peer = await greetedFrom(network, port)
    const reply = await sayAll(peer, 'MAIL FROM:<>', `RCPT TO:<abuse@${HOST}>`)
    t.match(reply, wanted)
    if (reply.startsWith('250')) t.match(await sayAll(peer, 'DATA', 'Subject: x\r\n\r\n.'), /^250 2\.0\.0 kept/)
    peer.close()
  }
  t.match(await handIn(port, { to: returnPath(), raw: 'Subject: x\r\n\r\n' }), /^250 /)
})

t.test('a half-full store refuses mail without a token, a full one all mail, until there is space again', async t => {
  const { bus: own } = await openBus(t)
  const options = { factLog: createFactLog(own, systemClock) }
  const [mail, stranger] = [() => ({ to: returnPath(), raw: 'x'.repeat(90).concat('\r\n').repeat(1100) }), {
    to: `postmaster@${HOST}`,
    raw: 'Subject: x\r\n\r\n'
  }]
  const first = await open(t, { storedBytesMax: 400_000, usagePollMs: 600_000 }, options)
  t.match(await handIn(first.port, stranger), /^250 /)
  for (let i = 0; i < 2; i++) t.match(await handIn(first.port, mail()), /^250 /)
  t.match(await handIn(first.port, stranger), /^452 4\.3\.1 /, 'counted without another look')
  t.match(await handIn(first.port, mail()), /^250 /)
  t.match(await handIn(first.port, mail()), /^452 4\.3\.1 /)
  const second = await open(t, { storedBytesMax: 400_000, usagePollMs: 100 }, options)
  t.match(await handIn(second.port, mail()), /^452 4\.3\.1 /, 'as it was found')
  const jsm = await own.nc.jetstreamManager()
  for (let seq = 1; seq <= 3; seq++) await jsm.streams.deleteMessage('INBOUND', seq)
  await until(async () => (await handIn(second.port, mail())).startsWith('250'), 20_000)
})

t.test('networks that let their mails trickle leave places for others', async t => {
  const { port } = await open(t, { mailsAtOnceMax: 8, mailsAtOnceOfNetworkMax: 3, mailsAtOnceOfNetworkBusyMax: 1 })
  const begin = async (network: string) => {
    const peer = await greetedFrom(network, port)
    t.teardown(peer.close)
    await sayAll(peer, 'MAIL FROM:<>', `RCPT TO:<${returnPath()}>`, 'DATA')
    return peer
  }
  for (const network of ['127.0.0.2', '127.0.0.3']) for (let i = 0; i < 8; i++) await begin(network)
  t.match(await (await begin('127.0.0.2')).say('.'), /^450 4\.7\.0 /)
  t.match(await (await begin('127.0.0.9')).say('Subject: x\r\n\r\n.'), /^250 2\.0\.0 kept/)
})

t.test('a mail that trickles is ended after a while, and its place is free; who is between mails may stay', async t => {
  const { port } = await open(t, { dataMs: 1000, mailsAtOnceMax: 1 })
  const [writer, waiter] = [await greeted(port), await greeted(port)]
  await sayAll(writer, 'MAIL FROM:<>', `RCPT TO:<${returnPath()}>`, 'DATA')
  const drip = setInterval(() => {
    if (writer.socket.writable) writer.socket.write('x')
  }, 100)
  t.teardown(() => clearInterval(drip))
  t.match(await writer.hear(), /^421 4\.4\.2 /)
  t.match(
    await sayAll(waiter, 'MAIL FROM:<>', `RCPT TO:<${returnPath()}>`, 'DATA', 'Subject: x\r\n\r\n.'),
    /^250 2\.0\.0 kept/
  )
  waiter.close()
})

t.test('who sends the next mail along with one has a place for it, and no more', async t => {
  const { port } = await open(t, { mailsAtOnceMax: 1 })
  const hasty = await greeted(port)
  await sayAll(hasty, 'MAIL FROM:<>', `RCPT TO:<${returnPath()}>`, 'DATA')
  hasty.socket.write(`Subject: 1\r\n\r\n.\r\nMAIL FROM:<>\r\nRCPT TO:<${returnPath()}>\r\nDATA\r\n`)
  for (const wanted of [/^250 2\.0\.0 kept/, /^250/, /^250/, /^354/]) t.match(await hasty.hear(), wanted)
  t.match(await handIn(port, { to: returnPath(), raw: 'Subject: 2\r\n\r\n' }), /^451 4\.3\.2 /)
  hasty.close()
})

/** The greeting once it is one: the listener hears of a goodbye a moment later. */
async function untilGreeted (port: number): Promise<string> {
  for (let tries = 0;; tries++) {
    const { greeting, close } = await dial(port)
    close()
    if (greeting.startsWith('220') || tries === 20) return greeting
  }
}

t.test('a client that sends an octet now and then is disconnected: in a command, a mail, a TLS handshake', async t => {
  const { port } = await open(t, { sessionMs: 1500 })
  const [commander, writer, shaker] = [await greeted(port), await greeted(port), await greeted(port)]
  await sayAll(writer, 'MAIL FROM:<>', `RCPT TO:<${returnPath()}>`, 'DATA')
  t.match(await shaker.say('STARTTLS'), /^220/)
  const shakerGone = once(shaker.socket, 'close')
  const drip = setInterval(() => {
    for (const { socket } of [commander, writer, shaker]) if (socket.writable) socket.write('x')
  }, 100)
  t.teardown(() => clearInterval(drip))
  t.match(await commander.hear(), /^421 4\.4\.2 /)
  t.match(await writer.hear(), /^421 4\.4\.2 /)
  await shakerGone
  t.match(await handIn(port, { to: returnPath(), raw: 'Subject: next\r\n\r\n' }), /^250 /, 'others are served')
})

t.test('who leaves in the middle leaves nothing; the place is free again', async t => {
  const { port } = await open(t, { mailsAtOnceMax: 1 })
  const before = await lastSequence(bus, 'INBOUND')
  const leaver = await greeted(port)
  await sayAll(leaver, 'MAIL FROM:<>', `RCPT TO:<${returnPath()}>`, 'DATA')
  leaver.socket.write('Subject: half\r\n')
  t.match(
    await handIn(port, { to: returnPath(), raw: 'Subject: second\r\n\r\n' }),
    /^451 4\.3\.2 /,
    'while it holds the only place'
  )
  leaver.close()
  let reply = ''
  for (let tries = 0; tries < 20 && !reply.startsWith('250'); tries++) {
    reply = await handIn(port, { to: returnPath(), raw: 'Subject: third\r\n\r\n' })
  }
  t.match(reply, /^250 /)
  t.equal(await lastSequence(bus, 'INBOUND'), before + 1)
})

t.test('told to stop it finishes the mail on its way, says goodbye to who waits, and takes nobody new', async t => {
  const [gate, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const append: FactLog['append'] = async (...args) => {
    begun.resolve()
    await gate.promise
    return await factLog.append(...args)
  }
  const slow: FactLog = { ...factLog, append }
  const inbound = await open(t, { stopMs: 10_000 }, { factLog: slow })
  const [idler, writer] = [await greeted(inbound.port), await greeted(inbound.port)]
  await sayAll(writer, 'MAIL FROM:<>', `RCPT TO:<${returnPath()}>`, 'DATA')
  const kept = writer.say('Subject: last\r\n\r\n.')
  await begun.promise
  const stopped = inbound.stop()
  t.match(await idler.hear(), /^421 4\.3\.2 /)
  await t.rejects(dial(inbound.port), { code: 'ECONNREFUSED' })
  gate.resolve()
  t.match(await kept, /^250 2\.0\.0 kept as in_/)
  writer.close()
  await stopped
})
