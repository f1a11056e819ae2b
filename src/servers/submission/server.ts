import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerSession } from 'smtp-server'
import { createAllowance, type Allowance } from '#src/base/allowance.ts'
import type { Certificate, CertificateOptions } from '#src/base/certificate.ts'
import { addressRanges, isInRanges, type AddressRanges } from '#src/base/config-values.ts'
import { Complaint, deadline, errorCode } from '#src/base/errors.ts'
import { networkOf } from '#src/base/network.ts'
import { repeat, type Repeated } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import { keptCertificate } from './certificate.ts'
import { LIMITS, type SubmissionLimits } from './limits.ts'
import { ReceivedMails } from './receive.ts'
import { BUSY, errorReply, NEEDS_TLS, NOT_AN_ADDRESS, SmtpRefusal, TOO_MANY_LOGINS } from './replies.ts'
import { Submitter, type SubmitterOptions } from './submitter.ts'

export interface SubmissionOptions extends SubmitterOptions, CertificateOptions {
  /** Where STARTTLS is offered, and where TLS comes first; 0 = a free port, null = nowhere. */
  port: number | null
  tlsPort: number | null
  host: string
  dataDir: string
  /** Addresses and ranges that may log in without TLS. */
  plainNetworks: string[]
  /** The end of each mail that came as far as DATA: the code of its answer. */
  onMail?(code: number, seconds: number): void
  limits?: Partial<SubmissionLimits>
}

/** One SMTP session. */
interface Client {
  network: string
  sinceMs: number
  failures: number
  /** Logged in. */
  key: string | null
}

const STOPPING = '4.3.2 Shutting down: try again in a moment'
/** For clients to take their 421. */
const CLOSE_MS = 1000

type Callback = (error?: Error | null) => void
type Connection = SMTPServer['connections'] extends Set<infer Item> ? Item : never

/** Starts to listen. Throws Complaint for a certificate or port that cannot be used. */
export async function startSubmission ({ limits = {}, ...options }: SubmissionOptions): Promise<SubmissionServer> {
  const server = new SubmissionServer(options, { ...LIMITS, ...limits }, await keptCertificate(options, options.log))
  try {
    await server.listen()
    return server
  } catch (error) {
    await server.stop()
    throw error
  }
}

/** Takes mail from programs that hold an API key and speak SMTP alone: RFC 6409. 250 means that it is in the log. */
export class SubmissionServer implements Role {
  readonly name = 'submission'
  /** Where it listens; null = nowhere. */
  port: number | null = null
  tlsPort: number | null = null
  private readonly options: Omit<SubmissionOptions, 'limits'>
  private readonly limits: SubmissionLimits
  private readonly submitter: Submitter
  private readonly clients = new Map<string, Client>()
  private readonly mails: ReceivedMails
  private readonly failedLogins: Allowance
  private readonly plain: AddressRanges
  private readonly servers: Array<{ server: SMTPServer, port: number, isTls: boolean }>
  private certificate: Certificate
  private reload: Repeated | null = null
  private sessionTimer: NodeJS.Timeout | undefined
  private stopped: Promise<void> | null = null

  constructor (options: Omit<SubmissionOptions, 'limits'>, limits: SubmissionLimits, certificate: Certificate) {
    const nowMs = Date.now
    this.options = options
    this.limits = limits
    this.certificate = certificate
    this.submitter = new Submitter(options)
    this.plain = addressRanges(options.plainNetworks)
    this.mails = new ReceivedMails(limits, session => this.submitter.accountOf(String(session.user)))
    this.failedLogins = createAllowance({ max: limits.failedLoginsMax, windowMs: 60_000, namesMax: 10_000, nowMs })
    const { port, tlsPort } = options
    this.servers = [
      ...(port === null ? [] : [{ server: this.createServer(certificate, false), port, isTls: false }]),
      ...(tlsPort === null ? [] : [{ server: this.createServer(certificate, true), port: tlsPort, isTls: true }])
    ]
  }

  async listen (): Promise<void> {
    for (const { server, port, isTls } of this.servers) {
      const name = isTls ? 'JETPOST_SUBMISSION_TLS_PORT' : 'JETPOST_SUBMISSION_PORT'
      const bound = await listenOn(server, port, this.options.host, name)
      if (isTls) this.tlsPort = bound
      else this.port = bound
    }
    const { authMs, dataMs, reloadMs } = this.limits
    this.sessionTimer = setInterval(() => this.endLateSessions(), Math.min(authMs, dataMs) / 20)
    this.reload = repeat({
      name: 'the certificate',
      firstInMs: reloadMs,
      againMs: reloadMs,
      round: () => this.renewCertificate(),
      onError: error => this.options.log.warn({ err: error }, 'the certificate cannot be read: the one before stays')
    })
  }

  /** Accepts no new mail, answers what is being appended, ends the other sessions. Asked again, it is the same stop. */
  async stop (): Promise<void> {
    this.stopped ??= this.end()
    await this.stopped
  }

  private async end (): Promise<void> {
    clearInterval(this.sessionTimer)
    const closed = this.servers.map(({ server }) => new Promise<void>(resolve => server.close(resolve)))
    this.endSessions(STOPPING, session => !this.mails.isAnswering(session))
    await deadline(this.mails.answered(), this.limits.stopMs, 'mail is still being accepted').catch(() => {})
    this.endSessions(STOPPING, () => true)
    await deadline(Promise.all(closed), CLOSE_MS, 'the submission listener did not stop').catch(() => {})
    await this.reload?.stop()
  }

  unhealthyReason (): string | null {
    return this.servers.every(({ server }) => server.server.listening) ? null : 'it does not listen'
  }

  /** Mail is whole, and its answer on the way. */
  isAnswering (): boolean {
    return [...this.clients.keys()].some(session => this.mails.isAnswering(session))
  }

  connections (): number {
    return this.clients.size
  }

  private createServer (certificate: Certificate, isTls: boolean): SMTPServer {
    const { limits } = this
    const server = new SMTPServer({
      ...certificate,
      secure: isTls,
      name: this.options.hostname,
      banner: 'Jetpost',
      disabledCommands: ['VRFY', 'WIZ', 'SHELL', 'KILL'],
      authMethods: ['PLAIN', 'LOGIN'],
      // Whom that is not for: see logIn.
      allowInsecureAuth: this.plain.length > 0,
      authRequiredMessage: 'Log in first: the password is a Jetpost API key, the user name may be anything',
      hideENHANCEDSTATUSCODES: false,
      maxAllowedUnauthenticatedCommands: limits.commandsBeforeAuthMax,
      disableReverseLookup: true,
      size: limits.sizeBytesMax,
      rejectOversized: true,
      maxRecipients: limits.recipientsMax,
      maxCommandLength: limits.commandOctetsMax,
      maxClients: limits.clientsMax,
      socketTimeout: limits.idleMs,
      closeTimeout: limits.stopMs,
      logger: false,
      onConnect: (session, callback) => callback(this.connected(server, session)),
      onAuth: ({ password }, session, callback) => {
        void this.logIn(session, password ?? '').then(user => callback(null, { user }), callback)
      },
      onMailFrom: ({ address }, session, callback) => settle(this.begin(session, address ?? ''), callback),
      onRcptTo: (recipient, _session, callback) => settle(this.rename(recipient), callback),
      onData: (stream, session, callback) => this.mails.receive(stream, session, this.submit, callback),
      onClose: session => void this.clients.delete(session.id)
    })
    server.on('error', error => this.options.log.debug({ err: error }, 'the submission listener lost a client'))
    return server
  }

  /** The refusal, or null. */
  private connected (server: SMTPServer, session: SMTPServerSession): Error | null {
    const { id, remoteAddress } = session
    const network = networkOf(remoteAddress)
    const others = [...this.clients.values()].filter(client => client.network === network).length
    if (this.clients.size >= this.limits.clientsMax || others >= this.limits.clientsOfNetworkMax) {
      return new SmtpRefusal(421, '4.7.0 Too many connections: close some, or try again later')
    }
    this.clients.set(id, { network, sinceMs: Date.now(), failures: 0, key: null })
    for (const connection of server.connections) {
      if (connection.session.id === id) speakPlainly(connection, () => this.mayLogIn(session))
    }
    return null
  }

  private mayLogIn ({ secure, remoteAddress }: SMTPServerSession): boolean {
    return secure || isInRanges(this.plain, remoteAddress)
  }

  /** Resolves to the id of the key. */
  private async logIn (session: SMTPServerSession, password: string): Promise<string> {
    const { id, remoteAddress } = session
    if (!this.mayLogIn(session)) throw NEEDS_TLS
    const client = this.clients.get(id)
    const network = networkOf(remoteAddress)
    if (!this.failedLogins.has(network)) throw TOO_MANY_LOGINS
    try {
      const key = await this.submitter.logIn(password, remoteAddress)
      if (client !== undefined) client.key = key
      return key
    } catch (error) {
      this.failedLogins.take(network)
      if (client !== undefined && ++client.failures >= this.limits.failedLoginsOfSessionMax) {
        // After the reply to this one.
        setImmediate(() => this.endSessions('4.7.0 Too many failed logins', session => session === id))
      }
      throw errorReply(error, this.options.log, id)
    }
  }

  private async begin ({ id, user }: SMTPServerSession, sender: string): Promise<void> {
    try {
      await this.submitter.begin(String(user), sender)
    } catch (error) {
      throw errorReply(error, this.options.log, id)
    }
  }

  private async rename (recipient: { address: string }): Promise<void> {
    recipient.address = this.submitter.recipient(recipient.address)
  }

  /** Resolves to the answer to a mail. */
  private readonly submit = async (
    { envelope, user, remoteAddress }: SMTPServerSession,
    raw: Buffer | null
  ): Promise<string> => {
    const beginMs = performance.now()
    const recipients = envelope.rcptTo.map(({ address }) => address)
    let code = 250
    try {
      if (raw === null) throw BUSY
      return await this.submitter.accept(String(user), { raw, recipients })
    } catch (error) {
      code = error instanceof SmtpRefusal ? error.responseCode : 451
      throw error
    } finally {
      const durationMs = Math.round(performance.now() - beginMs)
      this.options.onMail?.(code, durationMs / 1000)
      const line = { key: user as string, code, recipients: recipients.length, remote: remoteAddress, durationMs }
      this.options.log.debug(line, 'submission')
    }
  }

  private async renewCertificate (): Promise<number> {
    const { cert, key } = await keptCertificate(this.options, this.options.log)
    if (cert !== this.certificate.cert || key !== this.certificate.key) {
      this.certificate = { cert, key }
      for (const { server } of this.servers) server.updateSecureContext({ cert, key })
      this.options.log.info('the submission listener has a new certificate')
    }
    return this.limits.reloadMs
  }

  private endLateSessions (): void {
    const { authMs, sessionMs } = this.limits
    this.endSessions('4.4.2 This has taken too long', session => {
      if (this.mails.has(session)) return this.mails.isLate(session)
      const { sinceMs = Infinity, key = null } = this.clients.get(session) ?? {}
      return Date.now() - sinceMs > (key === null ? authMs : sessionMs)
    })
  }

  private endSessions (text: string, which: (session: string) => boolean): void {
    for (const { server } of this.servers) {
      for (const connection of server.connections) {
        const { id } = connection.session
        if (!which(id)) continue
        // Now, and not when the client reacts.
        this.mails.release(id)
        connection.send(421, text, false)
      }
    }
  }
}

/** Texts of ours begin with their own enhanced code, in the place of the one that smtp-server has for the code. A login
 *  that would be refused is not offered either: a client sends its password along with the command. */
function speakPlainly (connection: Connection, mayLogIn: () => boolean): void {
  const send = connection.send.bind(connection)
  connection.send = (code, data, context) => {
    if (Array.isArray(data) && !mayLogIn()) return send(code, data.filter(line => !isOffer(line)), context)
    const text = context === 'SENDER_SYNTAX_ERROR' ? NOT_AN_ADDRESS : data
    send(code, text, typeof text === 'string' && /^[245]\.\d{1,3}\.\d{1,3} /.test(text) ? false : context)
  }
}

function isOffer (line: unknown): boolean {
  return String(line).startsWith('AUTH ')
}

function settle (done: Promise<void>, callback: Callback): void {
  void done.then(() => callback(), callback)
}

async function listenOn (server: SMTPServer, port: number, host: string, name: string): Promise<number> {
  const listening = once(server.server, 'listening')
  server.listen(port, host)
  await listening.catch((error: unknown) => {
    const code = errorCode(error)
    if (code === 'EADDRINUSE') throw new PortTaken(`Port ${port} is taken: set ${name} to a free one.`)
    throw new Complaint(`${name} ${port} on ${host} cannot be listened on: ${code}.`)
  })
  return (server.server.address() as AddressInfo).port
}

export class PortTaken extends Complaint {}
