import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect as connectTcp, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import type { AppContext } from '#src/app/context.ts'
import { openSubmission } from '#src/app/submission.ts'
import { readConfig } from '#src/base/config.ts'
import { createLog, type Log } from '#src/base/log.ts'
import { createCounters, createQuotas } from '#src/nats/counters.ts'
import { lastSequence } from '#src/nats/get.ts'
import { startSubmission, type SubmissionOptions, type SubmissionServer } from '#src/servers/submission/server.ts'
import type { SubmissionLimits } from '#src/servers/submission/limits.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { createAuthority } from '../support/certificates.ts'
import { dial, speakOver, type Peer } from '../support/inbound-peer.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { openSecondServices } from '../support/second-services.ts'
import { dialFrom, dialSecurely, logIn, submit } from '../support/submission-peer.ts'
import { until } from '../support/wait.ts'

const nats = await openOwnNats(t)
const app = await startTestApp(t, { natsUrl: nats.natsUrl })
const services = await openSecondServices(t, nats.natsUrl)
const { bus } = services.factLog
const folder = mkdtempSync(join(tmpdir(), 'jetpost-submission-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const FROM = 'hello@sandbox.jetpost.test'
const TO = ['ada@example.net']
const LETTER = `From: ${FROM}\r\nTo: ada@example.net\r\nSubject: Hi\r\n\r\nHello\r\n`
const QUEUED = /^250 2\.0\.0 queued as em_\w+$/

async function open (
  t: Test,
  limits: Partial<SubmissionLimits> = {},
  options: Partial<SubmissionOptions> = {}
): Promise<SubmissionServer> {
  const server = await startSubmission({
    services,
    counters: createCounters(bus),
    quotas: createQuotas(bus),
    once: false,
    port: 0,
    tlsPort: null,
    host: '127.0.0.1',
    hostname: 'mail.jetpost.test',
    dataDir: folder,
    tlsCert: null,
    tlsKey: null,
    plainNetworks: [],
    log: createLog('silent'),
    limits,
    ...options
  })
  t.teardown(() => server.stop())
  return server
}

const requests = async () => await lastSequence(bus, 'REQUESTS')

/** Lines up to DATA. */
async function beginData (peer: Peer): Promise<void> {
  for (const line of [`MAIL FROM:<${FROM}>`, `RCPT TO:<${TO[0]}>`, 'DATA']) {
    t.match(await peer.say(line), /^[23]/)
  }
}

const gone = async ({ socket }: Peer) => await until(() => socket.destroyed || socket.readableEnded)

t.test('what is said before TLS is forgotten with it', async t => {
  const { port } = await open(t)
  const peer = await dial(port!)
  await peer.say('EHLO client.example')
  peer.socket.removeAllListeners('data')
  const auth = Buffer.from(`\0any\0${API_KEY}`).toString('base64')
  peer.socket.write(`STARTTLS\r\nEHLO injected.example\r\nAUTH PLAIN ${auth}\r\nMAIL FROM:<${FROM}>\r\n`)
  await once(peer.socket, 'data')
  const socket = connectTls({ socket: peer.socket, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const secure = await speakOver(socket, true)
  t.match(await secure.say('NOOP'), /^250 /, 'the first reply is to the first command')
  t.match(await secure.say(`MAIL FROM:<${FROM}>`), /^503 /, 'nobody has said EHLO, or logged in')
  secure.close()
})

t.test('a second mail cannot hide behind a line end that only some take for one', async t => {
  const { port } = await open(t)
  const before = await requests()
  for (const end of ['\n.\n', '\n.\r\n', '\r\n.\n', '\r.\r', '\r\n.\r', '\r.\r\n']) {
    const peer = await logIn(port!, API_KEY)
    await beginData(peer)
    const hidden = `MAIL FROM:<${FROM}>\r\nRCPT TO:<eve@example.net>\r\nDATA\r\n${LETTER}`
    peer.socket.write(`${LETTER}${end}${hidden}`)
    t.match(await peer.say('.'), /^550 5\.5\.2 Lines must end in CRLF/, JSON.stringify(end))
    t.match(await peer.say('NOOP'), /^250 /, 'and that was one mail')
    peer.close()
  }
  t.equal(await requests(), before, 'none of them was accepted')
})

t.test('ten commands without a login are enough', async t => {
  const { port } = await open(t)
  const peer = await dial(port!)
  let reply = ''
  for (let i = 0; i < 10; i++) reply = await peer.say('EHLO client.example')
  t.match(reply, /^421 /)
  await gone(peer)
})

t.test('who guesses is shut out', async t => {
  const { port } = await open(t, { failedLoginsMax: 4 })
  const guess = `AUTH PLAIN ${Buffer.from('\0any\0jp_live_guess').toString('base64')}`
  const first = await dialSecurely(port!)
  for (let i = 0; i < 3; i++) t.match(await first.say(guess), /^535 5\.7\.8 /)
  t.match(await first.hear(), /^421 4\.7\.0 Too many failed logins/, 'a session has three')
  await gone(first)
  const second = await dialSecurely(port!)
  t.match(await second.say(guess), /^535 /)
  t.match(await second.say(guess), /^454 4\.7\.0 Too many failed logins from your address/)
  const neighbour = await logIn(port!, API_KEY, '127.0.0.2')
  t.match(await submit(neighbour, FROM, TO, LETTER), QUEUED, 'another address logs in')
  for (const peer of [second, neighbour]) peer.close()
})

t.test('200 that say nothing hold what one network may, for as long as it may', async t => {
  const { port } = await open(t, { clientsOfNetworkMax: 150, authMs: 4000 })
  const neighbour = await logIn(port!, API_KEY, '127.0.0.2')
  const sockets = Array.from({ length: 200 }, () => connectTcp({ port: port!, host: '127.0.0.1' }))
  const heard = sockets.map(socket => {
    let text = ''
    socket.setEncoding('latin1').on('error', () => {}).on('data', chunk => {
      text += String(chunk)
    })
    return () => text
  })
  t.match(await submit(neighbour, FROM, TO, LETTER), QUEUED, 'another address sends')
  await until(() => heard.every(text => text() !== ''))
  t.equal(heard.filter(text => text().startsWith('421 4.7.0 Too many connections')).length, 50, 'no more than 150 stay')
  await until(() => heard.every(text => text().includes('421 ')))
  t.equal(heard.filter(text => /^220 [^]*421 4\.4\.2 This has taken too long/.test(text())).length, 150)
  t.match(await submit(neighbour, FROM, TO, LETTER), QUEUED, 'it still does')
  neighbour.close()
  for (const socket of sockets) socket.destroy()
})

t.test('a client that stops in the middle of a mail loses its place, and holds up nobody', async t => {
  const { port } = await open(t, { dataMs: 5000, mailsAtOnceMax: 2 })
  const stuck = await logIn(port!, API_KEY)
  await beginData(stuck)
  stuck.socket.write(LETTER)
  const other = await logIn(port!, API_KEY)
  t.match(await submit(other, FROM, TO, LETTER), QUEUED)
  t.match(await stuck.hear(), /^421 4\.4\.2 This has taken too long/)
  await gone(stuck)
  other.close()
})

t.test('mails on their way in have a bound in number and in size', async t => {
  const { port } = await open(t, { bytesAtOnceMax: 1_000_000, mailsAtOnceMax: 2 })
  const [first, second, third] = await Promise.all([1, 2, 3].map(() => logIn(port!, API_KEY)))
  const big = `${LETTER}${`${'x'.repeat(70)}\r\n`.repeat(10_000)}`
  await beginData(first!)
  first!.socket.write(big)
  await beginData(second!)
  await beginData(third!)
  t.match(await third!.say('.'), /^451 4\.3\.2 Too much mail arrives at once/, 'two are the most')
  second!.socket.write(big)
  t.match(await second!.say('.'), /^451 4\.3\.2 Too much mail arrives at once/, 'and together 1 MB')
  t.match(await first!.say('.'), QUEUED)
  t.match(await submit(second!, FROM, TO, big), QUEUED, 'its room is free again')
  for (const peer of [first, second, third]) peer!.close()
})

t.test('one account holds a part of that memory, and another one finds room', async t => {
  const { port } = await open(t, { bytesAtOnceMax: 2_000_000, bytesAtOnceOfAccountMax: 1_000_000 })
  const keys = services.directory.now.keys.size
  const otherKey = await app.newAccountKey()
  await until(() => services.directory.now.keys.size > keys)
  const [first, second] = await Promise.all([1, 2].map(() => logIn(port!, API_KEY)))
  const other = await logIn(port!, otherKey)
  const sized = (bytes: number) => `${LETTER}${`${'x'.repeat(70)}\r\n`.repeat(bytes / 72)}`
  const big = sized(900_000)
  await beginData(first!)
  // It is there long before the big one.
  first!.socket.write(sized(180_000))
  t.match(await submit(second!, FROM, TO, big), /^451 4\.3\.2 Too much mail arrives at once/, 'more than its part')
  t.match(await submit(other, FROM, TO, big), QUEUED, 'another account has its own')
  t.match(await first!.say('.'), QUEUED)
  t.match(await submit(second!, FROM, TO, big), QUEUED, 'its room is free again')
  for (const peer of [first!, second!, other]) peer.close()
})

t.test('while the log is away a mail is put off, and a stop answers what is being accepted', async t => {
  const server = await open(t)
  const peer = await logIn(server.port!, API_KEY)
  const other = await logIn(server.port!, API_KEY)
  await beginData(other)
  other.socket.write(LETTER)
  await beginData(peer)
  nats.freeze()
  peer.socket.write(`${LETTER}.\r\n`)
  const answer = peer.hear()
  await until(() => server.isAnswering())
  const stopped = server.stop()
  t.match(await other.hear(), /^421 4\.3\.2 Shutting down/, 'its mail was not whole')
  nats.thaw()
  t.match(await answer, QUEUED)
  await stopped
  await gone(peer)
  const again = await open(t)
  const late = await logIn(again.port!, API_KEY)
  await beginData(late)
  nats.freeze()
  late.socket.write(`${LETTER}.\r\n`)
  t.match(await late.hear(), /^451 4\.3\.0 The (log is unavailable|mail may have been accepted)/)
  nats.thaw()
  late.close()
})

t.test('a stop ends submission while a request of HTTP is still on its way', async t => {
  const stopping = await startTestApp(t, { env: { JETPOST_SUBMISSION_PORT: '0' } })
  const peer = await logIn(stopping.submissionPort!, API_KEY)
  const http = connectTcp({ port: Number(new URL(stopping.url).port), host: '127.0.0.1' })
  let heard = ''
  http.setEncoding('latin1').on('data', chunk => {
    heard += String(chunk)
  })
  const body = JSON.stringify({ from: FROM, to: TO, subject: 'Hi', text: 'Hello' })
  const head = [
    'POST /api/emails HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${API_KEY}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    'Expect: 100-continue'
  ]
  http.write(`${head.join('\r\n')}\r\n\r\n`)
  await until(() => heard.includes('100 Continue'))
  const stopped = stopping.stop()
  t.match(await peer.hear(), /^421 4\.3\.2 Shutting down/)
  http.write(body)
  await until(() => http.readableEnded)
  t.match(heard, /HTTP\/1\.1 202 /, 'and the request has its answer')
  await stopped
})

t.test('those who may log in without TLS', async t => {
  const { port } = await open(t, {}, { plainNetworks: ['127.0.0.3/32'] })
  const auth = `AUTH PLAIN ${Buffer.from(`\0any\0${API_KEY}`).toString('base64')}`
  const excused = await dialFrom(port!, '127.0.0.3')
  t.match(await excused.say('EHLO client.example'), /AUTH PLAIN LOGIN/)
  t.match(await excused.say(auth), /^235 /)
  t.match(await submit(excused, FROM, TO, LETTER), QUEUED)
  const other = await dialFrom(port!, '127.0.0.4')
  t.notMatch(await other.say('EHLO client.example'), /AUTH/)
  t.match(await other.say(auth), /^538 5\.7\.0 TLS must come first/)
  for (const peer of [excused, other]) peer.close()
})

t.test('AUTH LOGIN, as old programs do it', async t => {
  const { port } = await open(t)
  const peer = await dialSecurely(port!)
  t.match(await peer.say('AUTH LOGIN'), /^334 /)
  t.match(await peer.say(Buffer.from('any').toString('base64')), /^334 /)
  t.match(await peer.say(Buffer.from(API_KEY).toString('base64')), /^235 /)
  peer.close()
})

t.test('a renewed certificate is shown without a restart; one of our own stays the same', async t => {
  const authority = createAuthority()
  const [tlsCert, tlsKey] = ['cert.pem', 'key.pem'].map(name => join(folder, name)) as [string, string]
  const put = (name: string) => {
    const { cert, key } = authority.certify(name)
    writeFileSync(tlsKey, key)
    writeFileSync(tlsCert, cert)
  }
  put('first.example')
  const { tlsPort } = await open(t, { reloadMs: 50 }, { port: null, tlsPort: 0, tlsCert, tlsKey })
  const subject = async (port: number) => {
    const socket: TLSSocket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    const { subject: { CN }, fingerprint256 } = socket.getPeerCertificate()
    socket.destroy()
    return { CN, fingerprint256 }
  }
  t.match(await subject(tlsPort!), { CN: 'first.example' })
  put('second.example')
  await until(async () => (await subject(tlsPort!)).CN === 'second.example')
  const own = [await open(t, {}, { port: null, tlsPort: 0 }), await open(t, {}, { port: null, tlsPort: 0 })]
  t.strictSame(await subject(own[0]!.tlsPort!), await subject(own[1]!.tlsPort!))
})

t.test('where its port is taken, a first try of Jetpost starts without it, and anybody else is told', async t => {
  const other = createServer()
  // Another program of this machine may have it: that is as good.
  other.on('error', () => {})
  await new Promise<void>(resolve => void other.once('error', () => resolve()).listen(2525, '127.0.0.1', resolve))
  t.teardown(() => void other.close())
  const warnings: string[] = []
  const log = { child: () => ({ ...createLog('silent'), warn: (text: string) => void warnings.push(text) }) }
  const start = async (env: Record<string, string>) => {
    const config = { ...readConfig(env), dataDir: folder }
    const context = {
      config,
      services,
      counters: createCounters(bus),
      quotas: createQuotas(bus),
      log: log as unknown as Log,
      stack: new AsyncDisposableStack(),
      submission: null,
      roles: []
    }
    await openSubmission(context as unknown as AppContext)
    await context.stack.disposeAsync()
    return context.submission
  }
  t.equal(await start({}), null)
  t.strictSame(warnings, [
    'Port 2525 is taken: set JETPOST_SUBMISSION_PORT to a free one. Jetpost runs without SMTP submission.'
  ])
  const shared = { NATS_URL: nats.natsUrl, JETPOST_SECRET: 'x'.repeat(40), JETPOST_SUBMISSION_PORT: '2525' }
  await t.rejects(start(shared), { message: 'Port 2525 is taken: set JETPOST_SUBMISSION_PORT to a free one.' })
})
