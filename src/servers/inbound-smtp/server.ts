import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerAddress, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server'
import { isReturnPath, returnPathDomain } from '#streams/domain/records.ts'
import { INBOUND_BYTES_MAX, INBOUND_RECIPIENTS_MAX } from '#streams/inbound/facts.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import { keepInbound } from '#src/actions/inbound.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { Complaint, deadline, errorCode } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Tokens } from '#src/content/token.ts'
import { createAllowance, networkOf } from './allowance.ts'
import { openCertificate } from './certificate.ts'
import { watchFullness } from './fullness.ts'
import { createPlaces } from './places.ts'
import { answerFor, tokenIn } from './recipient.ts'

/** Listens for what comes back. */
export interface Inbound {
  port: number
  /** Takes no new mail, finishes what is on its way, says goodbye to the rest. */
  stop(): Promise<void>
}

export interface InboundOptions {
  /** 0 = a free one. */
  port: number
  host: string
  /** What it calls itself. */
  hostname: string
  /** Host that bounces come back to; null = only the hosts of domains that have one of their own. */
  bounceDomain: string | null
  tlsCert: string | null
  tlsKey: string | null
  directory: { now: Pick<LiveDirectory['now'], 'domains'> }
  tokens: Pick<Tokens, 'read'>
  appenders: Appenders
  log: Log
  limits?: Partial<InboundLimits>
}

/** What one remote host, all of them, and one session may take. */
export interface InboundLimits {
  clientsMax: number
  clientsOfNetworkMax: number
  /** Mails on their way in at once: each may hold INBOUND_BYTES_MAX, and some times that while it is kept. */
  mailsAtOnceMax: number
  mailsAtOnceOfNetworkMax: number
  /** When over half the places are taken. */
  mailsAtOnceOfNetworkCrowdedMax: number
  /** Announced (RFC 1870); of what is longer than INBOUND_BYTES_MAX the rest is counted and dropped. */
  sizeBytesMax: number
  /** Of a network, a minute. */
  mailsMax: number
  /** Of a network, a minute, to addresses that need no token: whoever finds the host can write to them. */
  roleMailsMax: number
  /** Of everybody, an hour, to such addresses. */
  roleMailsOfAllMax: number
  /** An hour to one token: there is one bounce to a mail, and some delays and complaints. */
  tokenMailsMax: number
  /** In INBOUND, base64 and all. */
  keptBytesMax: number
  lookMs: number
  /** Refused recipients of a session, then it ends. */
  refusalsMax: number
  idleMs: number
  /** However busy: who sends an octet a minute must not stay for ever. */
  sessionMs: number
  /** The same for one mail: there are fewer places for those. */
  dataMs: number
  stopMs: number
}

const LIMITS: InboundLimits = {
  clientsMax: 500,
  clientsOfNetworkMax: 20,
  mailsAtOnceMax: 64,
  mailsAtOnceOfNetworkMax: 16,
  mailsAtOnceOfNetworkCrowdedMax: 4,
  sizeBytesMax: 25 * 1024 * 1024,
  mailsMax: 1200,
  roleMailsMax: 60,
  roleMailsOfAllMax: 2000,
  tokenMailsMax: 20,
  keptBytesMax: 2e9,
  lookMs: 5000,
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
/** Of INBOUND, what strangers may fill: the rest is for holders of a token. */
const ROLE_SHARE_MAX = 1 / 2
/** Of whoever the host's own mailboxes hear from. */
const EVERYBODY = ''
const BASE64_GROWTH = 4 / 3
const TOO_MANY = reply(450, '4.7.0 Too many mails from you, come back later')
const TOO_MANY_AT_ONCE = reply(450, '4.7.0 Too many mails from you at once, come back in a moment')
const TOO_MANY_TO_IT = reply(450, '4.2.1 Too many mails to this address, come back later')
const BUSY = reply(451, '4.3.2 Busy, come back in a moment')
const FULL = reply(452, '4.3.1 No module for more mail, come back later')
/** RFC 5321 4.5.3.1.4 asks for 512, its extensions for some more. */
const COMMAND_OCTETS_MAX = 2048

/** Listens for bounces, complaints and unsubscribes, and keeps each as it came: 250 means durable. It relays nothing,
 *  answers nothing by mail, and knows nobody but the holders of our tokens and the mailboxes every host has. Throws
 *  Complaint for a certificate or port that cannot be used. */
export async function startInbound ({ limits: wished = {}, ...options }: InboundOptions): Promise<Inbound> {
  const { directory, tokens, appenders, log } = options
  const limits = { ...LIMITS, ...wished }
  const certificate = await openCertificate(options)
  const perMinute = (max: number) =>
    createAllowance({ max, windowMs: MINUTE_MS, namesMax: NETWORKS_MAX, nowMs: Date.now })
  const perHour = (max: number, namesMax: number) =>
    createAllowance({ max, windowMs: HOUR_MS, namesMax, nowMs: Date.now })
  const mails = perMinute(limits.mailsMax)
  const roleMails = perMinute(limits.roleMailsMax)
  const keptOfRoles = perHour(limits.roleMailsOfAllMax, 1)
  const keptOfTokens = perHour(limits.tokenMailsMax, TOKENS_MAX)
  const fullness = await watchFullness({
    bus: appenders.bus,
    bytesMax: limits.keptBytesMax,
    lookMs: limits.lookMs,
    log
  })
  const guests = new Map<string, { network: string, sinceMs: number, refusals: number }>()
  const receiving = createPlaces({
    max: limits.mailsAtOnceMax,
    ofNetworkMax: limits.mailsAtOnceOfNetworkMax,
    ofNetworkCrowdedMax: limits.mailsAtOnceOfNetworkCrowdedMax,
    ms: limits.dataMs,
    nowMs: Date.now
  })

  function isOurs (host: string): boolean {
    return host === options.bounceDomain || (isReturnPath(host) && directory.now.domains.has(returnPathDomain(host)))
  }

  function onConnect (session: SMTPServerSession, callback: Callback): void {
    const network = networkOf(session.remoteAddress)
    const others = [...guests.values()].filter(guest => guest.network === network).length
    if (others >= limits.clientsOfNetworkMax) return callback(reply(421, '4.7.0 Too many connections from you'))
    guests.set(session.id, { network, sinceMs: Date.now(), refusals: 0 })
    callback()
  }

  function onMailFrom (_address: SMTPServerAddress, session: SMTPServerSession, callback: Callback): void {
    callback(mails.take(networkOf(session.remoteAddress)) ? null : TOO_MANY)
  }

  function onRcptTo ({ address }: SMTPServerAddress, session: SMTPServerSession, callback: Callback): void {
    if (session.envelope.rcptTo.length >= INBOUND_RECIPIENTS_MAX) {
      return callback(reply(452, '4.5.3 Too many recipients'))
    }
    const answer = answerFor(address, tokens, isOurs)
    if (answer === 'token') return callback(refusalOfToken(tokenIn(address)!))
    if (answer === 'role') return callback(refusalOfRole(networkOf(session.remoteAddress)))
    const guest = guests.get(session.id)
    if (guest !== undefined && ++guest.refusals > limits.refusalsMax) {
      return callback(reply(421, '4.7.0 Too many refused recipients'))
    }
    callback(reply(answer.code, answer.text))
  }

  function refusalOfToken (token: string): Error | null {
    if (fullness.share() >= 1) return FULL
    return keptOfTokens.has(token) ? null : TOO_MANY_TO_IT
  }

  function refusalOfRole (network: string): Error | null {
    if (fullness.share() >= ROLE_SHARE_MAX) return FULL
    if (!roleMails.take(network)) return TOO_MANY
    return keptOfRoles.has(EVERYBODY) ? null : TOO_MANY_TO_IT
  }

  function onData (stream: SMTPServerDataStream, session: SMTPServerSession, callback: DataCallback): void {
    const place = receiving.take(session.id, networkOf(session.remoteAddress))
    if (place !== 'taken') return callback(place === 'all taken' ? BUSY : TOO_MANY_AT_ONCE)
    const head = createHead(INBOUND_BYTES_MAX)
    let sizeBytes = 0
    let whole = false
    stream.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length
      head.add(chunk)
    })
    // Who leaves in the middle has left nothing to keep.
    stream.on('error', () => {})
    stream.on('close', () => {
      if (!whole) receiving.leave(session.id)
    })
    stream.on('end', () => {
      whole = true
      receiving.received(session.id)
      void keep(session, head.bytes(), sizeBytes).then(kept => {
        // Before the reply: who has sent the next mail along with this one begins it with that.
        receiving.leave(session.id)
        if (typeof kept === 'string') callback(null, kept)
        else callback(kept)
      })
    })
  }

  /** Resolves to the reply. */
  async function keep (
    { envelope, remoteAddress: remote }: SMTPServerSession,
    raw: Buffer,
    sizeBytes: number
  ): Promise<string | Error> {
    if (sizeBytes > limits.sizeBytesMax) return reply(552, '5.3.4 The message is too big')
    const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address
    const to = envelope.rcptTo.map(({ address }) => address)
    try {
      const id = await keepInbound(appenders, { from, to, remote, raw, sizeBytes })
      count(to, raw)
      return `2.0.0 kept as ${id}`
    } catch (error) {
      log.warn({ err: error, remote }, 'inbound mail could not be kept')
      return reply(451, '4.3.0 It could not be kept, come back later')
    }
  }

  /** Only what was kept: who is refused, or tries again while NATS is away, has used up nothing. */
  function count (to: string[], raw: Buffer): void {
    fullness.add(raw.length * BASE64_GROWTH)
    for (const token of to.map(tokenIn)) {
      if (token === null) keptOfRoles.take(EVERYBODY)
      else keptOfTokens.take(token)
    }
  }

  const server = new SMTPServer({
    ...certificate,
    name: options.hostname,
    banner: 'Jetpost',
    // An oddity of old servers each, or an address book for strangers.
    disabledCommands: ['AUTH', 'VRFY', 'WIZ', 'SHELL', 'KILL'],
    authOptional: true,
    disableReverseLookup: true,
    size: limits.sizeBytesMax,
    maxCommandLength: COMMAND_OCTETS_MAX,
    maxClients: limits.clientsMax,
    socketTimeout: limits.idleMs,
    closeTimeout: limits.stopMs,
    logger: false,
    onConnect,
    onMailFrom,
    onRcptTo,
    onData,
    onClose: session => void guests.delete(session.id)
  })
  server.on('error', error => log.debug({ err: error }, 'inbound listener lost a client'))
  const port = await listen(server, options).catch(error => {
    fullness.stop()
    throw error
  })
  const hasOverstayed = (session: string) =>
    receiving.isLate(session) || Date.now() - (guests.get(session)?.sinceMs ?? Infinity) > limits.sessionMs
  const overstays = setInterval(
    () => endSessions('4.4.2 This has taken too long', hasOverstayed),
    Math.min(limits.sessionMs, limits.dataMs) / 20
  )

  function endSessions (text: string, which: (session: string) => boolean): void {
    for (const connection of server.connections) {
      if (!which(connection.session.id)) continue
      // Now, and not when the other side hears of it at last.
      receiving.leave(connection.session.id)
      connection.send(421, text, false)
    }
  }

  async function stop (): Promise<void> {
    clearInterval(overstays)
    fullness.stop()
    const closed = new Promise<void>(resolve => server.close(resolve))
    endSessions('4.3.2 Shutting down', id => !receiving.has(id))
    await deadline(closed, limits.stopMs + 1000, 'the inbound listener did not stop').catch(() => {})
  }

  return { port, stop }
}

type Callback = (error?: Error | null) => void
type DataCallback = (error?: Error | null, text?: string) => void

function reply (responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode })
}

async function listen (server: SMTPServer, { port, host }: InboundOptions): Promise<number> {
  const listening = once(server.server, 'listening')
  server.listen(port, host)
  await listening.catch((error: unknown) => {
    const code = errorCode(error)
    if (code === 'EADDRINUSE') throw new Complaint(`Port ${port} is taken: set JETPOST_INBOUND_PORT to a free one.`)
    throw new Complaint(`JETPOST_INBOUND_PORT ${port} on ${host} cannot be listened on: ${code}.`)
  })
  return (server.server.address() as AddressInfo).port
}

/** The first `max` bytes of a stream in one piece, however small the pieces it comes in. */
function createHead (max: number): { add(chunk: Buffer): void, bytes(): Buffer } {
  let module = Buffer.alloc(0)
  let used = 0
  return {
    add (chunk) {
      const part = chunk.subarray(0, max - used)
      const wanted = used + part.length
      if (wanted > module.length) {
        module = Buffer.concat([module.subarray(0, used)], Math.min(max, Math.max(wanted, module.length * 2)))
      }
      used += part.copy(module, used)
    },
    bytes: () => module.subarray(0, used)
  }
}
