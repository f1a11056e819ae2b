import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'
import { pino } from 'pino'
import type { Test } from 'tap'
import { createFactLog, stamp, type FactLog } from '#src/actions/fact-log.ts'
import { openSuppressionStore } from '#src/actions/suppression-store.ts'
import { sleep } from '#src/base/backoff.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { composeMessage, isBeyondAscii } from '#src/content/mime.ts'
import { openDns } from '#src/dns/resolve.ts'
import { api } from '#src/nats/api.ts'
import { openBlobs, type Blobs } from '#src/nats/blobs.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { ensureTopology, repair } from '#src/nats/ensure.ts'
import { startHeartbeats, type Heartbeats } from '#src/nats/heartbeats.ts'
import { readFacts } from '#src/nats/range.ts'
import type { AttemptReport } from '#src/workers/sender/recorder.ts'
import { startSender, type Sender, type SenderOptions, type SenderTimings } from '#src/workers/sender/sender.ts'
import type { SmtpSession, SmtpTimeouts } from '#src/workers/sender/session.ts'
import { SmtpTransaction, type OutgoingMail, type TransactionResult } from '#src/workers/sender/transaction.ts'
import { EmailAttempted, EmailRequested, type RecipientFact } from '#streams/email/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { subjects } from '#streams/subjects.ts'
import { PLAIN } from './facts.ts'
import { freshAccount } from './servers.ts'
import { startSink, type Sink, type SinkOptions } from './smtp-sink.ts'
import { until } from './wait.ts'

export const ACCOUNT = 'acc_1'
export const log = pino({ level: process.env.JETPOST_LOG_LEVEL ?? 'silent' }, pino.destination(2))
export const topology = { retention: { factsMs: 90 * 86_400_000, contentMs: 30 * 86_400_000 }, replicas: 1, log }
/** Short, but not so short that a machine which does other things as well runs into them. */
export const SMTP_QUICK = {
  connectMs: 2000,
  greetingMs: 2000,
  commandMs: 2000,
  bodyMs: 2500,
  dotMs: 2500,
  unprovenMs: 2000
}

type Ask = Partial<EmailRequested['data']>

/** A sender on NATS and a sink, with short times, and hands to see what it does. */
export interface Rig {
  bus: Bus
  factLog: FactLog
  sink: Sink
  sender: Sender
  /** What the sender has reported of its attempts. */
  reports: AttemptReport[]
  ask(to: string | string[], ask?: Ask): Promise<string>
  facts(email: string, n?: number): Promise<RecipientFact[]>
  /** Waits until the recipient's facts are of these types, in this order. */
  told(email: string, types: string[], n?: number): Promise<RecipientFact[]>
  /** Waits until the sender is at work on nothing. */
  idle(): Promise<void>
  /** How many recipients wait for their time. */
  scheduled(): Promise<number>
}

export interface RigOptions {
  timings?: Partial<SenderTimings>
  natsUrl?: string
  connections?: number
  sink?: SinkOptions
  smtpUrl?: string
  onRepair?: () => void
  /** Puts something between the sender and its heart, or its store. */
  heartbeats?: (real: Heartbeats) => Heartbeats
  blobs?: (real: Blobs) => Blobs
  isSuspended?: SenderOptions['isSuspended']
  /** What the rig's sender knows of routes now. */
  routes?: RouteEntry[]
  /** Direct mode: `host:port` of the resolver, and what else is not as usual. */
  dns?: string
  direct?: Partial<Pick<SenderOptions, 'mxPort' | 'mxAllowPrivate' | 'trust' | 'onPolicyFault' | 'log'>>
}

/** The message without what the app adds to it: no tracking, no signature, bounces to its sender. */
export const composePlainly: SenderOptions['compose'] = async ({ request: { fact: { data } }, n }, content, copy) => {
  const { from, recipients, replyTo, subject, headers } = data
  const utf8 = isBeyondAscii(from.address) || isBeyondAscii(recipients[n]!.address)
  return {
    from: from.address,
    envelopeId: 'e1',
    utf8,
    message: composeMessage({
      ...copy,
      from,
      recipients,
      replyTo,
      subject,
      headers,
      attachments: [],
      html: content.html,
      text: content.text,
      utf8
    })
  }
}

export async function openRig (t: Test, options: RigOptions = {}): Promise<Rig> {
  const natsUrl = options.natsUrl ?? freshAccount().natsUrl
  const sink = await startSink(options.sink)
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'test', log })
  await ensureTopology(bus, topology)
  const factLog = createFactLog(bus, systemClock)
  const worker = newId('w', Date.now())
  const heartbeats = startHeartbeats(bus, worker)
  const blobs = await openBlobs(bus)
  const reports: AttemptReport[] = []
  const sender = startSender({
    factLog,
    blobs: options.blobs?.(blobs) ?? blobs,
    suppressions: openSuppressionStore(bus),
    hasDomain: async () => true,
    isSuspended: options.isSuspended ?? (() => false),
    compose: composePlainly,
    heartbeats: options.heartbeats?.(heartbeats) ?? heartbeats,
    worker,
    repair: async plan => {
      const missing = await repair(bus, plan, topology)
      if (missing) options.onRepair?.()
      return missing
    },
    smtpUrl: options.smtpUrl ?? sink.url,
    routes: { all: () => options.routes ?? [], urlOf: ({ url }) => url },
    catcherUrl: sink.url,
    dns: openDns(options.dns ?? null),
    mxPort: sink.port,
    mxAllowPrivate: true,
    connections: options.connections ?? 10,
    hostname: 'sender.test',
    log,
    onAttempt: report => reports.push(report),
    timings: { retry: { firstS: 0.5, maxS: 2 }, smtp: SMTP_QUICK, claimMs: 2000, ...options.timings },
    ...options.direct
  })
  t.teardown(async () => {
    await sender.stop()
    heartbeats.stop()
    await bus.close()
    await sink.stop()
  })

  async function ask (to: string | string[], more: Ask = {}): Promise<string> {
    const email = more.email ?? newId('em', Date.now())
    const recipients = [to].flat().map(address => ({ address, name: null, kind: 'to' as const }))
    const fact = stamp(EmailRequested, { account: ACCOUNT, correlation: 'test', causation: null }, {
      email,
      key: 'key_1',
      test: false,
      from: { address: 'shop@example.com', name: 'Shop' },
      recipients,
      subject: 'Your order',
      ...PLAIN,
      content: { html: '<p>Hello\n.dot\n</p>', text: null, files: [] },
      tags: ['a'],
      metadata: { order: 7 },
      expiresAt: timestamp(Date.now() + 3_600_000),
      onDoubt: 'retry',
      ...more
    }, Date.now())
    await factLog.append([{ fact }])
    return email
  }

  async function facts (email: string, n = 0): Promise<RecipientFact[]> {
    return (await readFacts(bus, 'EMAILS', subjects.recipient(ACCOUNT, email, n))).map(({ fact }) =>
      fact as RecipientFact
    )
  }

  async function told (email: string, types: string[], n = 0): Promise<RecipientFact[]> {
    for (const endMs = Date.now() + 30_000;;) {
      const found = await facts(email, n).catch(() => [])
      if (found.length >= types.length || Date.now() > endMs) {
        t.same(found.map(fact => fact.type), types.map(type => `email.${type}`))
        return found
      }
      await sleep(20)
    }
  }

  async function scheduled (): Promise<number> {
    const { state } = await api<{ state: { subjects?: object } }>(bus, 'STREAM.INFO.SCHEDULE', {
      subjects_filter: 'schedule.send.>'
    })
    return Object.keys(state.subjects ?? {}).length
  }

  const idle = (): Promise<void> => until(() => sender.inFlight() === 0)

  return { bus, factLog, sink, sender, reports, ask, facts, told, idle, scheduled }
}

/** One transaction as an attempt does it, with a claim that is granted at once unless the test says otherwise. */
export async function transact (
  session: SmtpSession,
  mail: OutgoingMail,
  timeouts: SmtpTimeouts = SMTP_QUICK,
  { claim, mayFinish }: { claim: () => Promise<boolean>, mayFinish: () => boolean } = {
    claim: async () => true,
    mayFinish: () => true
  }
): Promise<TransactionResult> {
  const transaction = new SmtpTransaction(session, mail, timeouts)
  if (await transaction.sendBody() && await claim() && await transaction.drain() && mayFinish()) transaction.finish()
  else transaction.drop()
  return await transaction.result()
}

/** The webhook event that a fact carries. */
export function eventOf (
  fact: RecipientFact | undefined
): { id: string, type: string, created_at: string, data: Record<string, any> } {
  return JSON.parse((fact!.data as { event: string }).event)
}

/** A claim by another worker whose lease ends in `leaseMs`. */
export function claimOf (email: string, worker: string, leaseMs: number): RecipientFact {
  const nowMs = Date.now()
  return stamp(EmailAttempted, { account: ACCOUNT, correlation: 'test', causation: null }, {
    email,
    n: 0,
    request: 1,
    to: 'a@example.net',
    sequence: 1,
    attempt: 1,
    worker,
    leaseUntil: timestamp(nowMs + leaseMs),
    messageId: `<${email}.0@example.com>`,
    date: '2026-11-21T06:20:00.000Z',
    renderer: '1',
    digest: '',
    due: false
  }, nowMs)
}

/** A line to NATS that can be cut: those who connect meanwhile find nobody. */
export async function cuttableLine (t: Test, natsUrl: string): Promise<{ url: string, cut(): void, mend(): void }> {
  const { hostname, port } = new URL(natsUrl)
  const ends = new Set<Socket>()
  let open = true
  const server = createServer(near => {
    if (!open) return void near.destroy()
    const far = createConnection(Number(port), hostname)
    for (const [one, other] of [[near, far], [far, near]] as const) {
      ends.add(one)
      one.on('error', () => {}).on('close', () => {
        ends.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const url = natsUrl.replace(`${hostname}:${port}`, `127.0.0.1:${(server.address() as { port: number }).port}`)
  return {
    url,
    cut () {
      open = false
      for (const end of ends) end.destroy()
    },
    mend () {
      open = true
    }
  }
}
