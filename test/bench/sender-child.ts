// One way to send many mails: the sender role with its log, or nodemailer's pool. Answers what a mail cost this
// process.
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createTransport } from 'nodemailer'
import { createFactLog, stamp } from '#src/actions/fact-log.ts'
import { openSuppressionStore } from '#src/actions/suppression-store.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import { composeFor, type Outfit } from '#src/content/compose.ts'
import type { DkimSigner } from '#src/content/dkim.ts'
import { textFromHtml } from '#src/content/text.ts'
import { createTokens } from '#src/content/token.ts'
import { openDns } from '#src/dns/resolve.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { connectBus } from '#src/nats/connect.ts'
import { ensureTopology, repair } from '#src/nats/ensure.ts'
import { startHeartbeats } from '#src/nats/heartbeats.ts'
import { startSender } from '#src/workers/sender/sender.ts'
import { EmailRequested } from '#streams/email/facts.ts'
import { answerWith } from './child.ts'
import { newsletter } from './mail.ts'

export interface SenderQuestion {
  natsUrl: string
  smtpUrl: string
  how: 'jetpost' | 'nodemailer'
  /** Signatures: RSA, or RSA and Ed25519. */
  keys: 1 | 2
  /** Mails that are not counted, then those that are. */
  warm: number
  mails: number
  connections: number
}

/** A mail's CPU time in this process, and mails a second. */
export interface SenderSpeed {
  cpuMs: number
  perS: number
}

const ACCOUNT = 'acc_bench'
const TOPOLOGY = {
  retention: { factsMs: 90 * 86_400_000, contentMs: 30 * 86_400_000 },
  replicas: 1,
  log: createLog('error')
}
const OUTFIT: Omit<Outfit, 'signers'> = {
  tokens: createTokens('a secret of the bench, at least 32 characters'),
  trackingUrl: 'https://t.example.com',
  returnPathHost: 'bounces.example.com'
}

answerWith<SenderQuestion>(async question =>
  question.how === 'jetpost' ? await sendByLog(question) : await sendByPool(question)
)

/** Counts mails and tells what the later ones cost. */
function meter ({ warm, mails }: SenderQuestion): { one: () => void, done: Promise<SenderSpeed> } {
  let count = 0
  let from = { cpu: process.cpuUsage(), ms: performance.now() }
  const { promise, resolve } = Promise.withResolvers<SenderSpeed>()
  const one = () => {
    count++
    if (count === warm) from = { cpu: process.cpuUsage(), ms: performance.now() }
    if (count !== warm + mails) return
    const { user, system } = process.cpuUsage(from.cpu)
    resolve({ cpuMs: (user + system) / 1000 / mails, perS: mails / (performance.now() - from.ms) * 1000 })
  }
  return { one, done: promise }
}

async function sendByLog (question: SenderQuestion): Promise<SenderSpeed> {
  const { natsUrl, smtpUrl, warm, mails, connections, keys } = question
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'bench', log: TOPOLOGY.log })
  await ensureTopology(bus, TOPOLOGY)
  const factLog = createFactLog(bus, systemClock)
  const worker = newId('w', Date.now())
  const { one, done } = meter(question)
  await requestAll(factLog, warm + mails)
  const signers = makeSigners().slice(0, keys)
  const sender = startSender({
    factLog,
    blobs: await openBlobs(bus),
    suppressions: openSuppressionStore(bus),
    hasDomain: async () => true,
    isSuspended: () => false,
    compose: ({ request: { fact, seq }, n }, content, copy) =>
      composeFor(fact.data, { email: fact.data.email, n, request: seq }, content, copy, { ...OUTFIT, signers }),
    heartbeats: startHeartbeats(bus, worker),
    worker,
    repair: plan => repair(bus, plan, TOPOLOGY),
    smtpUrl: `${smtpUrl}?tls=off`,
    dns: openDns(null),
    mxPort: 25,
    mxAllowPrivate: false,
    catcherUrl: smtpUrl,
    connections,
    hostname: 'bench.example.com',
    log: TOPOLOGY.log,
    onAttempt: one
  })
  const speed = await done
  await sender.stop()
  return speed
}

/** More would be refused at once. */
const APPENDS_AT_ONCE = 250

async function requestAll (factLog: ReturnType<typeof createFactLog>, count: number): Promise<void> {
  const html = newsletter()
  const numbers = Array.from({ length: count }, (_, i) => i)
  while (numbers.length > 0) await Promise.all(numbers.splice(0, APPENDS_AT_ONCE).map(i => request(factLog, html, i)))
}

async function request (factLog: ReturnType<typeof createFactLog>, html: string, i: number): Promise<void> {
  const email = newId('em', Date.now())
  const fact = stamp(EmailRequested, { account: ACCOUNT, correlation: 'bench', causation: null }, {
    email,
    key: 'key_bench',
    test: false,
    from: { address: 'news@example.com', name: 'News' },
    recipients: [{ address: `user${i}@example.net`, name: null, kind: 'to' }],
    replyTo: [],
    subject: `Our news ${i}`,
    headers: [],
    attachments: [],
    content: { html, text: null, files: [] },
    template: null,
    track: { opens: true, clicks: true },
    unsubscribe: true,
    tags: [],
    metadata: {},
    scheduledAt: null,
    expiresAt: timestamp(Date.now() + 3_600_000),
    onDoubt: 'retry'
  }, Date.now())
  await factLog.append([{ fact }], 60_000)
}

function makeSigners (): DkimSigner[] {
  const make = (selector: string, algorithm: DkimSigner['algorithm'], key: KeyObject): DkimSigner => ({
    domain: 'example.com',
    selector,
    algorithm,
    key
  })
  return [
    make('r1', 'rsa-sha256', generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey),
    make('e1', 'ed25519-sha256', generateKeyPairSync('ed25519').privateKey)
  ]
}

async function sendByPool (question: SenderQuestion): Promise<SenderSpeed> {
  const { hostname, port } = new URL(question.smtpUrl)
  const privateKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
    type: 'pkcs8',
    format: 'pem'
  }) as string
  const transport = createTransport({
    pool: true,
    host: hostname,
    port: Number(port),
    maxConnections: question.connections,
    maxMessages: Infinity,
    ignoreTLS: true,
    dkim: { domainName: 'example.com', keySelector: 'r1', privateKey }
  })
  const { one, done } = meter(question)
  const html = newsletter().replaceAll('href="https://shop', `href="https://t.example.com/c/${'x'.repeat(110)}`)
  const text = textFromHtml(newsletter())
  let next = 0
  const total = question.warm + question.mails
  const worker = async () => {
    while (next < total) {
      const i = next++
      const list = { unsubscribe: { url: `https://t.example.com/u/${'x'.repeat(54)}` } }
      await transport.sendMail({
        from: 'News <news@example.com>',
        to: `user${i}@example.net`,
        subject: `Our news ${i}`,
        html,
        text,
        list,
        headers: { 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' }
      })
      one()
    }
  }
  await Promise.all(Array.from({ length: question.connections * 2 }, worker))
  transport.close()
  return await done
}
