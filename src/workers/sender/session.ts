import { isIP, Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import SMTPConnection from 'nodemailer/lib/smtp-connection'
import type { Transaction } from '#streams/email/decide.ts'
import { asError, deadline } from '#src/base/errors.ts'
import { parseReply, printable } from '#src/feedback/reply.ts'
import { HostFailure } from './errors.ts'
import type { Target } from './target.ts'

/** How long we wait, in ms. Source: RFC 5321 4.5.3.2. */
export interface SmtpTimeouts {
  connectMs: number
  greetingMs: number
  /** EHLO, MAIL, RCPT, DATA, RSET, login, each. */
  commandMs: number
  /** The whole body, dot not included, however slowly it is taken. */
  bodyMs: number
  /** The reply to the final dot. Never shorter: the server may have the message long before it says so. */
  dotMs: number
  /** Greeting, EHLO and the reply to MAIL, each, of an unproven site. */
  unprovenMs: number
}

export const SMTP_TIMEOUTS: SmtpTimeouts = {
  connectMs: 30_000,
  greetingMs: 60_000,
  commandMs: 300_000,
  bodyMs: 900_000,
  dotMs: 600_000,
  unprovenMs: 30_000
}

/** For a site that has never answered a mail: a server that only holds connections holds them for less.
 */
export function forUnproven (timeouts: SmtpTimeouts): SmtpTimeouts {
  const { greetingMs, commandMs, unprovenMs } = timeouts
  return { ...timeouts, greetingMs: Math.min(greetingMs, unprovenMs), commandMs: Math.min(commandMs, unprovenMs) }
}

/** nodemailer's, told whether a message needs SMTPUTF8: it looks at the envelope alone, and headers may need it. */
class Connection extends SMTPConnection {
  needsUtf8 = false

  /** nodemailer's own way of writing each command. */
  _sendCommand (command: string, shown?: string): void {
    const asks = this.needsUtf8 && command.startsWith('MAIL FROM:') && !/ SMTPUTF8(?= |$)/.test(command)
    const { _sendCommand: write } = SMTPConnection.prototype as unknown as Pick<Connection, '_sendCommand'>
    write.call(this, asks ? `${command} SMTPUTF8` : command, shown)
  }
}

/** One SMTP connection, ready for MAIL. */
export interface SmtpSession {
  connection: Connection
  host: string
  tls: Transaction['tls']
  /** Its IP address, ours, and why there is no TLS, as facts have them. */
  facts: Pick<Transaction, 'address' | 'plain' | 'source'>
  /** Our address, where the target says from which to connect. */
  source: string | null
  /** Transactions begun on it. */
  messages: number
  /** Those that came to their end with a reply. */
  replies: number
  /** False once it must not be used again. */
  usable: boolean
  /** A refused transaction may still be open on it: RSET first. */
  dirty: boolean
  /** The server takes UTF-8 in addresses and headers (RFC 6531). */
  smtpUtf8: boolean
  /** How long the reply to MAIL may take, until it has answered a mail. */
  mailMs: number
}

/** Connects, says EHLO, turns on TLS and logs in, as the target asks; throws HostFailure. `hostname` is our name in
 *  EHLO. */
export async function openSession (target: Target, hostname: string, timeouts: SmtpTimeouts): Promise<SmtpSession> {
  const connection = new Connection({
    host: target.address ?? target.host,
    servername: isIP(target.host) === 0 ? target.host : undefined,
    port: target.port,
    localAddress: target.source ?? undefined,
    secure: target.secure,
    ignoreTLS: target.tls === 'off',
    // A refused STARTTLS does not end a session with an MX host.
    opportunisticTLS: target.tls === 'opportunistic' && target.address !== null,
    requireTLS: !target.secure && (target.tls === 'required' || target.tls === 'unverified'),
    tls: { rejectUnauthorized: target.verify, minVersion: 'TLSv1.2', ca: target.ca },
    name: hostname,
    // Its connection timeout spans all until the last EHLO; connecting itself is timed below.
    connectionTimeout: timeouts.connectMs + timeouts.greetingMs,
    greetingTimeout: timeouts.greetingMs,
    dnsTimeout: timeouts.connectMs,
    socketTimeout: timeouts.dotMs + 60_000,
    // A close is immediate: a half-closed connection could still carry bytes.
    socketCloseTimeout: 0,
    maxResponseSize: 64 * 1024
  })
  // It emits errors at any time, also between two messages; callers get them by other ways.
  connection.on('error', () => {})
  try {
    await deadline(
      connect(connection, timeouts.connectMs),
      timeouts.connectMs + timeouts.greetingMs + timeouts.commandMs,
      'timeout'
    )
    if (target.auth !== null) await deadline(login(connection, target.auth), timeouts.commandMs, 'timeout')
  } catch (error) {
    connection.close()
    throw asHostFailure(error, connection, target)
  }
  const smtpUtf8 = parsedEhlo(connection)._supportedExtensions.includes('SMTPUTF8')
  const session = {
    connection,
    host: target.host,
    tls: tlsOf(connection),
    facts: factsOf(connection, target),
    source: target.source,
    messages: 0,
    replies: 0,
    usable: true,
    dirty: false,
    smtpUtf8,
    mailMs: timeouts.commandMs
  }
  connection.on('end', () => {
    session.usable = false
  })
  return session
}

function connect (connection: SMTPConnection, connectMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      if (connection.stage === 'init') reject(new Error('Connection timeout'))
    }, connectMs)
    connection.once('error', reject)
    connection.once('end', () => reject(new Error('Connection closed')))
    connection.connect(error => {
      if (error === undefined) resolve()
      else reject(error)
    })
    connection.once('connect', () => clearTimeout(timer))
    connection.once('end', () => clearTimeout(timer))
  })
}

function login (connection: SMTPConnection, auth: { user: string, pass: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.once('end', () => reject(new Error('Connection closed')))
    connection.login(auth, error => {
      if (error === null) resolve()
      else reject(error)
    })
  })
}

function asHostFailure (thrown: unknown, connection: SMTPConnection, { host }: Target): HostFailure {
  const error = asError(thrown) as Error & { response?: string, command?: string }
  const { lastServerResponse } = connection
  const greeted = lastServerResponse !== false && !(error.command === 'CONN' && error.response !== undefined)
  if (error.command === 'STARTTLS' && error.response !== undefined) {
    return new HostFailure(printable(`the server gives no TLS, which is required: ${error.response}`), 'ehlo', null, {
      host,
      noTls: true,
      class: 'failedstarttls'
    })
  }
  const inTls = connection.upgrading === true
  return new HostFailure(printable(error.message), greeted ? 'ehlo' : 'connect', parseReply(error.response ?? ''), {
    host,
    inTls,
    class: inTls ? 'failedstarttls' : 'networkerror'
  })
}

function tlsOf (connection: SMTPConnection): SmtpSession['tls'] {
  const socket = connection._socket
  if (!(socket instanceof TLSSocket)) return null
  return {
    version: socket.getProtocol() ?? 'unknown',
    cipher: socket.getCipher()?.name ?? 'unknown',
    verified: socket.authorized
  }
}

function factsOf (connection: SMTPConnection, { tls, address: asked, source }: Target): SmtpSession['facts'] {
  const socket = connection._socket
  const address = socket instanceof Socket ? socket.remoteAddress : undefined
  const shown = { ...(address === undefined ? {} : { address }), ...(source === null ? {} : { source }) }
  if (socket instanceof TLSSocket) return shown
  // Of an MX host it is off because it broke; of a relay, because its URL says so.
  if (tls === 'off') return { ...shown, plain: asked === null ? 'policy' : 'broken' }
  const isOffered = parsedEhlo(connection)._ehloLines?.some(line => /^STARTTLS\b/i.test(line)) === true
  return { ...shown, plain: isOffered ? 'refused' : 'not_offered' }
}

/** nodemailer parses the EHLO answer and keeps it to itself, while it leaves some checks to us. */
function parsedEhlo (connection: SMTPConnection): { _supportedExtensions: string[], _ehloLines?: string[] } {
  return connection as unknown as ReturnType<typeof parsedEhlo>
}

/** After a refused transaction: RSET, so that the next MAIL is not nested in it. False when the connection is no longer
 *  good. */
export async function resetSession (session: SmtpSession, timeouts: SmtpTimeouts): Promise<boolean> {
  const { connection } = session
  let onEnd = () => {}
  const reset = new Promise<boolean>(resolve => {
    onEnd = () => resolve(false)
    connection.once('end', onEnd)
    connection.reset(error => resolve(error === null))
  })
  const done = await deadline(reset, timeouts.commandMs, 'timeout').catch(() => false)
  connection.off('end', onEnd)
  return done && session.usable
}

/** Closes at once, without QUIT. */
export function closeSession (session: SmtpSession): void {
  session.usable = false
  session.connection.close()
}

const QUIT_MS = 1000

/** Says QUIT before it closes; callers do not wait. */
export function quitSession (session: SmtpSession): void {
  session.usable = false
  session.connection.quit()
  setTimeout(() => session.connection.close(), QUIT_MS).unref()
}
