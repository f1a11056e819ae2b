import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server'
import { isReturnPath, returnPathDomain } from '#streams/domain/records.ts'
import { INBOUND_BYTES_MAX, INBOUND_RECIPIENTS_MAX } from '#streams/inbound/facts.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import { keepInbound } from '#src/actions/inbound.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { Complaint, deadline, errorCode } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { networkOf } from '#src/base/network.ts'
import type { Tokens } from '#src/content/token.ts'
import { createAllowance, ReceiveSlots, type Allowance } from '#src/base/allowance.ts'
import { openCertificate, type Certificate } from '#src/base/certificate.ts'
import { decideRecipient, tokenIn } from './recipient.ts'
import { StreamUsage } from './usage.ts'

export interface InboundOptions {
  /** 0 = a free one. */
  port: number
  host: string
  /** Its name in the greeting. */
  hostname: string
  /** The host that bounces go to; null = only the hosts of domains that have one of their own. */
  bounceDomain: string | null
  tlsCert: string | null
  tlsKey: string | null
  directory: { now: Pick<LiveDirectory['now'], 'domainsByName'> }
  tokens: Pick<Tokens, 'read'>
  factLog: FactLog
  log: Log
  limits?: Partial<InboundLimits>
}

/** The limits of one network, of all networks, and of one session. */
export interface InboundLimits {
  clientsMax: number
  clientsOfNetworkMax: number
  /** Mails on their way in at once: each may hold INBOUND_BYTES_MAX, and some times that while it is stored. */
  mailsAtOnceMax: number
  mailsAtOnceOfNetworkMax: number
  /** When over half of them are taken. */
  mailsAtOnceOfNetworkBusyMax: number
  /** Announced (RFC 1870); of what is longer than INBOUND_BYTES_MAX the rest is counted and dropped. */
  sizeBytesMax: number
  /** Of a network, a minute. */
  mailsMax: number
  /** Of a network, a minute, to addresses that need no token: anybody who finds the host can write to them. */
  roleMailsMax: number
  /** Of all networks, an hour, to such addresses. */
  roleMailsOfAllMax: number
  /** An hour to one token: a mail has one bounce, and some delays and complaints. */
  tokenMailsMax: number
  /** In INBOUND, in base64. */
  storedBytesMax: number
  usagePollMs: number
  /** Of a session, then it ends. */
  refusalsMax: number
  idleMs: number
  /** However busy: a client that sends an octet a minute must not stay for ever. */
  sessionMs: number
  /** The same for one mail: there are fewer slots for those. */
  dataMs: number
  stopMs: number
}

const LIMITS: InboundLimits = {
  clientsMax: 500,
  clientsOfNetworkMax: 20,
  mailsAtOnceMax: 64,
  mailsAtOnceOfNetworkMax: 16,
  mailsAtOnceOfNetworkBusyMax: 4,
  sizeBytesMax: 25 * 1024 * 1024,
  mailsMax: 1200,
  roleMailsMax: 60,
  roleMailsOfAllMax: 2000,
  tokenMailsMax: 20,
  storedBytesMax: 2e9,
  usagePollMs: 5000,
  refusalsMax: 20,
  idleMs: 120_000,
  sessionMs: 900_000,
  dataMs: 180_000,
  stopMs: 5000
}
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const NETWORKS_MAX = 10_000
const TOKENS_MAX = 50_000
/** The part of INBOUND that mail without a token may fill. */
const ROLE_SHARE_MAX = 1 / 2
/** The key of the allowance that all networks share. */
const ALL_NETWORKS = ''
const BASE64_GROWTH = 4 / 3
const TOO_MANY = reply(450, '4.7.0 Too many mails from you, come back later')
const TOO_MANY_AT_ONCE = reply(450, '4.7.0 Too many mails from you at once, come back in a moment')
const TOO_MANY_TO_IT = reply(450, '4.2.1 Too many mails to this address, come back later')
const BUSY = reply(451, '4.3.2 Busy, come back in a moment')
const FULL = reply(452, '4.3.1 No space for more mail, come back later')
/** RFC 5321 4.5.3.1.4 asks for 512, its extensions for some more. */
const COMMAND_OCTETS_MAX = 2048

/** Starts to listen. Throws Complaint for a certificate or port that cannot be used. */
export async function startInbound ({ limits = {}, ...options }: InboundOptions): Promise<InboundServer> {
  const allLimits = { ...LIMITS, ...limits }
  const certificate = await openCertificate(options)
  const usage = await StreamUsage.open({
    bus: options.factLog.bus,
    bytesMax: allLimits.storedBytesMax,
    pollMs: allLimits.usagePollMs,
    log: options.log
  })
  try {
    const server = new InboundServer(options, allLimits, certificate, usage)
    await server.listen()
    return server
  } catch (error) {
    await usage.stop()
    throw error
  }
}

/** One SMTP session. */
interface Client {
  network: string
  sinceMs: number
  refusals: number
}

type DataCallback = (error?: Error | null, text?: string) => void

/** Accepts bounces, complaints and unsubscribes, and stores each as it came: 250 means durable. It relays nothing,
 *  never sends mail, and knows no recipients but our tokens and the mailboxes that every host has. */
export class InboundServer {
  /** Where it listens. */
  port = 0
  private readonly options: Omit<InboundOptions, 'limits'>
  private readonly limits: InboundLimits
  private readonly usage: StreamUsage
  private readonly server: SMTPServer
  private readonly clients = new Map<string, Client>()
  private readonly slots: ReceiveSlots
  private readonly mails: Allowance
  private readonly roleMails: Allowance
  private readonly storedForRoles: Allowance
  private readonly storedForTokens: Allowance
  private sessionTimer: NodeJS.Timeout | undefined

  constructor (
    options: Omit<InboundOptions, 'limits'>,
    limits: InboundLimits,
    certificate: Certificate,
    usage: StreamUsage
  ) {
    const nowMs = Date.now
    this.options = options
    this.limits = limits
    this.usage = usage
    this.slots = new ReceiveSlots({
      max: limits.mailsAtOnceMax,
      maxPerNetwork: limits.mailsAtOnceOfNetworkMax,
      maxPerNetworkBusy: limits.mailsAtOnceOfNetworkBusyMax,
      timeoutMs: limits.dataMs,
      nowMs
    })
    const perMinute = { windowMs: MINUTE_MS, namesMax: NETWORKS_MAX, nowMs }
    this.mails = createAllowance({ ...perMinute, max: limits.mailsMax })
    this.roleMails = createAllowance({ ...perMinute, max: limits.roleMailsMax })
    const perHour = { windowMs: HOUR_MS, nowMs }
    this.storedForRoles = createAllowance({ ...perHour, max: limits.roleMailsOfAllMax, namesMax: 1 })
    this.storedForTokens = createAllowance({ ...perHour, max: limits.tokenMailsMax, namesMax: TOKENS_MAX })
    this.server = this.createServer(certificate)
  }

  async listen (): Promise<void> {
    const { port, host } = this.options
    const { sessionMs, dataMs } = this.limits
    const listening = once(this.server.server, 'listening')
    this.server.listen(port, host)
    await listening.catch((error: unknown) => {
      const code = errorCode(error)
      if (code === 'EADDRINUSE') throw new Complaint(`Port ${port} is taken: set JETPOST_INBOUND_PORT to a free one.`)
      throw new Complaint(`JETPOST_INBOUND_PORT ${port} on ${host} cannot be listened on: ${code}.`)
    })
    this.port = (this.server.server.address() as AddressInfo).port
    this.sessionTimer = setInterval(() => this.endLateSessions(), Math.min(sessionMs, dataMs) / 20)
  }

  /** Accepts no new mail, finishes what is on its way, ends the other sessions. */
  async stop (): Promise<void> {
    clearInterval(this.sessionTimer)
    const measured = this.usage.stop()
    const closed = new Promise<void>(resolve => this.server.close(resolve))
    this.endSessions('4.3.2 Shutting down', session => !this.slots.has(session))
    await deadline(closed, this.limits.stopMs + 1000, 'the inbound listener did not stop').catch(() => {})
    await measured
  }

  private createServer (certificate: Certificate): SMTPServer {
    const { limits } = this
    const server = new SMTPServer({
      ...certificate,
      name: this.options.hostname,
      banner: 'Jetpost',
      // Oddities of old servers, and an address book for spammers.
      disabledCommands: ['AUTH', 'VRFY', 'WIZ', 'SHELL', 'KILL'],
      authOptional: true,
      disableReverseLookup: true,
      size: limits.sizeBytesMax,
      maxCommandLength: COMMAND_OCTETS_MAX,
      maxClients: limits.clientsMax,
      socketTimeout: limits.idleMs,
      closeTimeout: limits.stopMs,
      logger: false,
      onConnect: (session, callback) => callback(this.connected(session)),
      onMailFrom: (_address, { remoteAddress }, callback) =>
        callback(this.mails.take(networkOf(remoteAddress)) ? null : TOO_MANY),
      onRcptTo: ({ address }, session, callback) => callback(this.refusalOf(address, session)),
      onData: (stream, session, callback) => this.receive(stream, session, callback),
      onClose: session => void this.clients.delete(session.id)
    })
    server.on('error', error => this.options.log.debug({ err: error }, 'the inbound listener lost a client'))
    return server
  }

  /** The refusal, or null. */
  private connected ({ id, remoteAddress }: SMTPServerSession): Error | null {
    const network = networkOf(remoteAddress)
    const others = [...this.clients.values()].filter(client => client.network === network).length
    if (others >= this.limits.clientsOfNetworkMax) return reply(421, '4.7.0 Too many connections from you')
    this.clients.set(id, { network, sinceMs: Date.now(), refusals: 0 })
    return null
  }

  private refusalOf (address: string, session: SMTPServerSession): Error | null {
    const { rcptTo } = session.envelope
    if (rcptTo.length >= INBOUND_RECIPIENTS_MAX) return reply(452, '4.5.3 Too many recipients')
    const decision = decideRecipient(address, this.options.tokens, host => this.isOurs(host))
    if (decision === 'token') return this.refusalOfToken(tokenIn(address)!)
    if (decision === 'role') return this.refusalOfRole(networkOf(session.remoteAddress))
    const client = this.clients.get(session.id)
    if (client !== undefined && ++client.refusals > this.limits.refusalsMax) {
      return reply(421, '4.7.0 Too many refused recipients')
    }
    return reply(decision.code, decision.text)
  }

  private isOurs (host: string): boolean {
    const { bounceDomain, directory } = this.options
    return host === bounceDomain || (isReturnPath(host) && directory.now.domainsByName.has(returnPathDomain(host)))
  }

  private refusalOfToken (token: string): Error | null {
    if (this.usage.share() >= 1) return FULL
    return this.storedForTokens.has(token) ? null : TOO_MANY_TO_IT
  }

  private refusalOfRole (network: string): Error | null {
    if (this.usage.share() >= ROLE_SHARE_MAX) return FULL
    if (!this.roleMails.take(network)) return TOO_MANY
    return this.storedForRoles.has(ALL_NETWORKS) ? null : TOO_MANY_TO_IT
  }

  private receive (stream: SMTPServerDataStream, session: SMTPServerSession, callback: DataCallback): void {
    const slot = this.slots.acquire(session.id, networkOf(session.remoteAddress))
    if (slot !== 'acquired') return callback(slot === 'busy' ? BUSY : TOO_MANY_AT_ONCE)
    const head = createHead(INBOUND_BYTES_MAX)
    let sizeBytes = 0
    let isWhole = false
    stream.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length
      head.add(chunk)
    })
    // A client that leaves in the middle has sent nothing to store.
    stream.on('error', () => {})
    stream.on('close', () => {
      if (!isWhole) this.slots.release(session.id)
    })
    stream.on('end', () => {
      isWhole = true
      this.slots.received(session.id)
      void this.store(session, head.bytes(), sizeBytes).then(stored => {
        // Before the reply: a client that has pipelined the next mail begins it with that.
        this.slots.release(session.id)
        if (typeof stored === 'string') callback(null, stored)
        else callback(stored)
      })
    })
  }

  /** Resolves to the reply. */
  private async store (
    { envelope, remoteAddress: remote }: SMTPServerSession,
    raw: Buffer,
    sizeBytes: number
  ): Promise<string | Error> {
    if (sizeBytes > this.limits.sizeBytesMax) return reply(552, '5.3.4 The message is too big')
    const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address
    const to = envelope.rcptTo.map(({ address }) => address)
    try {
      const id = await keepInbound(this.options.factLog, { from, to, remote, raw, sizeBytes })
      this.count(to, raw)
      return `2.0.0 kept as ${id}`
    } catch (error) {
      this.options.log.warn({ err: error, remote }, 'inbound mail cannot be stored; the client is to retry')
      return reply(451, '4.3.0 It could not be kept, come back later')
    }
  }

  /** Only what was stored counts: a client that is refused, or retries while NATS is away, has used up nothing. */
  private count (to: string[], raw: Buffer): void {
    this.usage.add(raw.length * BASE64_GROWTH)
    for (const token of to.map(tokenIn)) {
      if (token === null) this.storedForRoles.take(ALL_NETWORKS)
      else this.storedForTokens.take(token)
    }
  }

  private endLateSessions (): void {
    const { sessionMs } = this.limits
    const isLate = (session: string) =>
      this.slots.isLate(session) || Date.now() - (this.clients.get(session)?.sinceMs ?? Infinity) > sessionMs
    this.endSessions('4.4.2 This has taken too long', isLate)
  }

  private endSessions (text: string, which: (session: string) => boolean): void {
    for (const connection of this.server.connections) {
      if (!which(connection.session.id)) continue
      // Now, and not when the client reacts.
      this.slots.release(connection.session.id)
      connection.send(421, text, false)
    }
  }
}

function reply (responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode })
}

/** The first `max` bytes of a stream in one piece, however small its chunks are. */
function createHead (max: number): { add(chunk: Buffer): void, bytes(): Buffer } {
  let buffer = Buffer.alloc(0)
  let used = 0
  return {
    add (chunk) {
      const part = chunk.subarray(0, max - used)
      const needed = used + part.length
      if (needed > buffer.length) {
        buffer = Buffer.concat([buffer.subarray(0, used)], Math.min(max, Math.max(needed, buffer.length * 2)))
      }
      used += part.copy(buffer, used)
    },
    bytes: () => buffer.subarray(0, used)
  }
}
