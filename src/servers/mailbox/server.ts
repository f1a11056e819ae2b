import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server'
import { domainOf } from '#streams/address.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import type { InboundMail } from '#src/actions/inbound.ts'
import { timestamp } from '#src/base/clock.ts'
import { deadline } from '#src/base/errors.ts'
import { newId } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import type { CaughtMail, CaughtMailbox } from '#src/operations/caught-mail.ts'

/** What a test address does with its mail; other addresses, and `delivered@`, accept it. Source: contract, "Test
 *  addresses". */
type SandboxOutcome = 'bounced' | 'softbounced' | 'complained' | 'indoubt' | 'delivered'

const OUTCOMES: readonly string[] = ['bounced', 'softbounced', 'complained', 'indoubt'] satisfies SandboxOutcome[]

/** Of an envelope's address, with any label: `bounced+7@…`. */
function outcomeOf (address: string): SandboxOutcome {
  const [name = ''] = address.toLowerCase().split(/[+@]/)
  return domainOf(address).toLowerCase() === SANDBOX_DOMAIN && OUTCOMES.includes(name)
    ? name as SandboxOutcome
    : 'delivered'
}

/** The reply to RCPT, for smtp-server; null = the recipient is accepted. */
function rejectionOf (manner: SandboxOutcome): { responseCode: number, message: string } | null {
  switch (manner) {
    case 'bounced':
      return { responseCode: 550, message: '5.1.1 No such user here (test address)' }
    case 'softbounced':
      return { responseCode: 452, message: '4.2.2 The mailbox is full (test address)' }
    default:
      return null
  }
}

/** The complaint about a mail, as a feedback loop sends it. Source: RFC 5965. */
function complaintAbout (mail: { from: string, to: string, raw: Buffer, date: string }): Buffer {
  const boundary = 'jetpost-sandbox-report'
  const head = [
    `From: <fbl@${SANDBOX_DOMAIN}>`,
    `To: <fbl@${SANDBOX_DOMAIN}>`,
    'Subject: Complaint about a mail',
    `Date: ${new Date(mail.date).toUTCString().replace('GMT', '+0000')}`,
    'MIME-Version: 1.0',
    `Content-Type: multipart/report; report-type=feedback-report; boundary="${boundary}"`,
    '',
    `--${boundary}`,
    'Content-Type: text/plain; charset=us-ascii',
    '',
    'This is a complaint about a mail to a test address.',
    '',
    `--${boundary}`,
    'Content-Type: message/feedback-report',
    '',
    'Feedback-Type: abuse',
    'User-Agent: Jetpost-Sandbox/1.0',
    'Version: 1',
    `Original-Mail-From: <${mail.from}>`,
    `Original-Rcpt-To: <${mail.to}>`,
    '',
    `--${boundary}`,
    'Content-Type: message/rfc822',
    '',
    ''
  ]
  return Buffer.concat([Buffer.from(head.join('\r\n')), mail.raw, Buffer.from(`\r\n--${boundary}--\r\n`)])
}

/** The built-in mail catcher: accepts any mail, delivers none, and drops the oldest. */
export interface Catcher extends CaughtMailbox {
  /** `smtp://127.0.0.1:port` */
  url: string
  stop(): Promise<void>
}

export interface CatcherOptions {
  /** null = a free port. */
  port: number | null
  host: string
  /** Mails that are kept. */
  keepMax: number
  /** Takes the complaint of a test address, as if it had come by SMTP. */
  comeBack: (mail: InboundMail) => Promise<unknown>
  log: Log
}

const MESSAGE_BYTES_MAX = 25 * 1024 * 1024
const KEPT_BYTES_MAX = 200 * 1024 * 1024
const CLIENTS_MAX = 1200
const RECIPIENTS_MAX = 100
const CLIENT_TIMEOUT_MS = 120_000
const STOP_MS = 2000

type Callback = (error?: Error | null, text?: string) => void

/** Listens for SMTP without TLS or authentication, so on a loopback host only. Keeps the newest `keepMax` mails, and
 *  200 MB, in memory. Rejects when the port is taken. */
export async function startCatcher (options: CatcherOptions): Promise<Catcher> {
  const server = new CatcherServer(options)
  await server.listen(options.port ?? 0, options.host)
  return server
}

class CatcherServer implements Catcher {
  url = ''
  private readonly options: CatcherOptions
  private readonly server: SMTPServer
  private readonly mails: CaughtMail[] = []
  private bytes = 0

  constructor (options: CatcherOptions) {
    this.options = options
    this.server = new SMTPServer({
      name: 'catcher',
      banner: 'Jetpost mail catcher',
      disabledCommands: ['AUTH', 'STARTTLS'],
      authOptional: true,
      disableReverseLookup: true,
      size: MESSAGE_BYTES_MAX,
      maxClients: CLIENTS_MAX,
      socketTimeout: CLIENT_TIMEOUT_MS,
      closeTimeout: STOP_MS,
      logger: false,
      onRcptTo: ({ address }, session, callback) => {
        if (session.envelope.rcptTo.length >= RECIPIENTS_MAX) {
          return callback(rejection(452, '4.5.3 Too many recipients'))
        }
        const rejected = rejectionOf(outcomeOf(address))
        callback(rejected === null ? null : rejection(rejected.responseCode, rejected.message))
      },
      onData: (stream, session, callback) => this.receive(stream, session, callback)
    })
    this.server.on('error', error => options.log.debug({ err: error }, 'mail catcher lost a client'))
  }

  async listen (port: number, host: string): Promise<void> {
    const listening = once(this.server.server, 'listening')
    this.server.listen(port, host)
    await listening
    this.url = `smtp://${host}:${(this.server.server.address() as AddressInfo).port}`
  }

  messages (): CaughtMail[] {
    return this.mails.toReversed()
  }

  message (id: string): CaughtMail | null {
    return this.mails.find(mail => mail.id === id) ?? null
  }

  async stop (): Promise<void> {
    const closed = new Promise<void>(resolve => this.server.close(resolve))
    await deadline(closed, STOP_MS + 1000, 'the mail catcher did not stop').catch(() => {})
  }

  private receive (stream: SMTPServerDataStream, session: SMTPServerSession, callback: Callback): void {
    const chunks: Buffer[] = []
    let bytes = 0
    stream.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= MESSAGE_BYTES_MAX) chunks.push(chunk)
    })
    stream.on('end', () => {
      if (bytes > MESSAGE_BYTES_MAX) return callback(rejection(552, '5.3.4 The message is too big'))
      const { mailFrom, rcptTo } = session.envelope
      const receivedMs = Date.now()
      const id = newId('msg', receivedMs)
      const from = mailFrom === false ? '' : mailFrom.address
      const mail = { id, receivedMs, from, to: rcptTo.map(({ address }) => address), raw: Buffer.concat(chunks) }
      this.keep(mail)
      this.reply(mail, session, callback)
    })
  }

  private keep (mail: CaughtMail): void {
    this.mails.push(mail)
    this.bytes += mail.raw.length
    while (this.mails.length > this.options.keepMax || this.bytes > KEPT_BYTES_MAX) {
      this.bytes -= this.mails.shift()!.raw.length
    }
  }

  private reply (mail: CaughtMail, session: SMTPServerSession, callback: Callback): void {
    const outcomes = new Set<SandboxOutcome>(mail.to.map(outcomeOf))
    if (outcomes.has('indoubt')) return this.hangUp(session)
    const done = outcomes.has('complained') ? this.complain(mail) : Promise.resolve()
    done.then(
      () => callback(null, `2.0.0 caught as ${mail.id}`),
      () => callback(rejection(451, '4.3.0 The complaint could not be stored'))
    )
  }

  private async complain ({ from, to, raw, receivedMs }: CaughtMail): Promise<void> {
    const address = to.find(address => outcomeOf(address) === 'complained')!
    const report = complaintAbout({ from, to: address, raw, date: timestamp(receivedMs) })
    await this.options.comeBack({
      from: '',
      to: [`fbl@${SANDBOX_DOMAIN}`],
      remote: '127.0.0.1',
      raw: report,
      sizeBytes: report.length
    })
  }

  /** Closes the connection after the final dot without a reply: the sender is left in doubt. */
  private hangUp ({ id }: SMTPServerSession): void {
    for (const connection of this.server.connections) if (connection.session.id === id) connection.close()
  }
}

function rejection (responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode })
}
