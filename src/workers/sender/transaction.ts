import type { Readable, Transform } from 'node:stream'
import type { SMTPConnectionSendInfo, SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import type { SmtpReply, SmtpStage } from '#streams/email/decide.ts'
import { sleep } from '#src/base/backoff.ts'
import { parseReply, printable } from '#src/feedback/reply.ts'
import { closeSession, type SmtpSession, type SmtpTimeouts } from './session.ts'

/** One message as it goes out, and its envelope. */
export interface OutgoingMail {
  from: string
  to: string
  message: Buffer
  envelopeId: string
  /** An address, in the envelope or in a header, contains raw UTF-8: the server must take that (RFC 6531). */
  utf8: boolean
  /** Where it has bytes above ASCII; none when left out. A server that does not say that it takes them gets them all
   *  the same: hardly one is left that minds, and there is no other way to send what was signed. */
  eightBit?: 'head' | 'body'
}

export type TransactionResult =
  /** A reply that settles it. */
  | { kind: 'reply', stage: SmtpStage, reply: SmtpReply }
  /** The connection broke, timed out or spoke no SMTP. `dotSent` = the server may have the message. */
  | { kind: 'broken', stage: SmtpStage, error: string, dotSent: boolean }
  /** We closed the connection before the final dot. */
  | { kind: 'dropped' }
  /** This server can never take this message. */
  | { kind: 'unsendable', detail: string }

interface SendResult {
  error: SendError | null
  info?: SMTPConnectionSendInfo
}

type SendError = Error & { code?: string, command?: string, response?: string }

/** nodemailer's, on its way to the socket; `lastByte` = the last that went through it. */
type DataStream = Transform & { lastByte: number }

const LF = 0x0a
const DOT = Buffer.from('.')
const LINE_DOT = Buffer.from('\r\n.')
/** The body counts as sent when no more than this is unwritten: the claim is stored while the rest is on its way. */
const UNWRITTEN_BYTES_MAX = 64 * 1024
const DRAIN_POLL_MS = 10
const NO_UTF8 = '5.6.7 The server takes no addresses beyond ASCII'

/** One SMTP transaction, in steps: `sendBody`, `drain`, then `finish` (the final dot) or `drop`, and `result`. No step
 *  rejects. Without `finish` the server never gets the whole message. */
export class SmtpTransaction {
  private readonly session: SmtpSession
  private readonly mail: OutgoingMail
  private readonly timeouts: SmtpTimeouts
  private readonly sent = Promise.withResolvers<SendResult>()
  /** Resolved once the body is on its way, or the transaction has ended. */
  private readonly begun = Promise.withResolvers<void>()
  private line: DataStream | null = null
  private dotSent = false
  private dropped = false
  /** The server or the connection has ended it: nothing more is sent. */
  private over = false
  private timedOut: string | null = null
  private unsendable: string | null = null
  private timer: NodeJS.Timeout | undefined

  constructor (session: SmtpSession, mail: OutgoingMail, timeouts: SmtpTimeouts) {
    this.session = session
    this.mail = mail
    this.timeouts = timeouts
  }

  /** Sends MAIL, RCPT, DATA and the body. True = only the final dot is missing; false = it has ended. */
  async sendBody (): Promise<boolean> {
    const { connection, smtpUtf8 } = this.session
    if (this.mail.utf8 && !smtpUtf8) {
      this.unsendable = NO_UTF8
      this.end({ error: new Error(NO_UTF8) })
      return false
    }
    this.session.messages++
    connection.needsUtf8 = this.mail.utf8 || (this.mail.eightBit === 'head' && smtpUtf8)
    this.limitCommands()
    connection.once('end', this.onConnectionEnd)
    connection.send(this.envelope(), this.body(), (error, info) => this.end({ error, info }))
    await this.begun.promise
    // A server may refuse in the middle of a big mail: then nothing was attempted that could be in doubt.
    return await this.written(UNWRITTEN_BYTES_MAX)
  }

  /** Waits until the whole body is written: a dot behind a body that the server is slow to take would go out at an
   *  unknown time. False = it has ended. */
  async drain (): Promise<boolean> {
    return await this.written(0)
  }

  /** Sends the final dot, unless it has ended. */
  finish (): void {
    if (this.over) return
    this.dotSent = true
    this.limit(this.timeouts.dotMs, 'no reply to the final dot in time')
    this.line!.end()
  }

  /** Ends it without the final dot: what the server has is no message. */
  drop (): void {
    if (this.over) return
    this.dropped = true
    this.end({ error: new Error('dropped before the final dot') })
  }

  /** How it ended. The session is good for another transaction when it is still `usable`. */
  async result (): Promise<TransactionResult> {
    const { error, info } = await this.sent.promise
    const result = error === null ? this.accepted(info!) : this.failed(error)
    // A server that answered before it had all would take what follows for the rest of the message.
    const whole = result.kind === 'reply' && (this.dotSent || this.line === null) && result.reply.code !== 421
    if (!whole && result.kind !== 'unsendable') closeSession(this.session)
    this.session.dirty = whole && !this.dotSent
    if (whole) this.session.replies++
    return result
  }

  private envelope (): SMTPEnvelope {
    const { from, to, message, envelopeId, utf8, eightBit } = this.mail
    // DSN is only used where the server offers it (RFC 3461): the returned headers name the mail as well as the whole
    // of it would.
    const dsn: SMTPEnvelope['dsn'] = { envid: envelopeId, ret: 'HDRS', notify: ['FAILURE', 'DELAY'] }
    return { from, to: [to], size: message.length, use8BitMime: utf8 || eightBit !== undefined, dsn }
  }

  /** What nodemailer takes for a stream: asked to pour the message into its own, which writes the dot when it ends, and
   *  nothing when it does not. The message bypasses its check of every byte (a tenth of a mail's cost), for it has its
   *  line ends and its dots already. Source: nodemailer's DataStream. */
  private body (): Readable {
    const pipe = (line: DataStream) => {
      this.line = line
      this.limit(this.timeouts.bodyMs, 'the body was not taken in time')
      line.push(dotStuffed(this.mail.message))
      line.lastByte = LF
      this.begun.resolve()
    }
    return { pipe } as unknown as Readable
  }

  /** Waits until at most `bytes` of the body are unwritten. False = the transaction has ended. */
  private async written (bytes: number): Promise<boolean> {
    while (!this.over && this.unwritten() > bytes) await sleep(DRAIN_POLL_MS)
    return !this.over
  }

  private unwritten (): number {
    const socket = this.session.connection._socket
    return this.line!.readableLength + (socket ? socket.writableLength : 0)
  }

  /** MAIL, RCPT and DATA may be on their way together, but an unproven server must answer the first of them soon. */
  private limitCommands (): void {
    const { connection, replies, mailMs } = this.session
    const { commandMs } = this.timeouts
    const reason = 'no reply to MAIL, RCPT or DATA in time'
    if (replies > 0 || mailMs >= commandMs) return this.limit(commandMs, reason)
    const before = connection.lastServerResponse
    this.timer = setTimeout(() => {
      if (connection.lastServerResponse === before) this.expire(reason)
      else this.limit(commandMs - mailMs, reason)
    }, mailMs)
  }

  /** One deadline at a time; when it passes the connection is closed. */
  private limit (ms: number, reason: string): void {
    clearTimeout(this.timer)
    if (!this.over) this.timer = setTimeout(() => this.expire(reason), ms)
  }

  private expire (reason: string): void {
    this.timedOut = reason
    const socket = this.session.connection._socket
    if (socket) socket.destroy()
    this.end({ error: new Error(reason) })
  }

  private end (result: SendResult): void {
    this.over = true
    clearTimeout(this.timer)
    this.session.connection.off('end', this.onConnectionEnd)
    this.begun.resolve()
    this.sent.resolve(result)
  }

  /** nodemailer forgets its callback when it finds the socket gone as it is about to write: then its end is the sign.
   */
  private readonly onConnectionEnd = (): void => {
    setImmediate(() => this.end({ error: new Error('Connection closed') }))
  }

  private accepted (info: SMTPConnectionSendInfo): TransactionResult {
    const reply = parseReply(info.response)
    if (reply !== null && reply.code < 300 && this.dotSent) return { kind: 'reply', stage: 'data', reply }
    return this.broken(`not a reply to the final dot: ${info.response}`)
  }

  private failed (error: SendError): TransactionResult {
    if (this.dropped) return { kind: 'dropped' }
    if (this.unsendable !== null) return { kind: 'unsendable', detail: this.unsendable }
    const reply = parseReply(error.response ?? '')
    if (reply !== null && reply.code >= 400 && error.code !== 'EPROTOCOL') {
      return { kind: 'reply', stage: this.stageOf(error), reply }
    }
    // nodemailer's own refusal, before it sent anything: too large for the server's SIZE.
    if (error.code === 'EMESSAGE' && error.command === 'MAIL FROM') {
      return { kind: 'unsendable', detail: printable(error.message) }
    }
    return this.broken(this.timedOut ?? error.message)
  }

  private broken (error: string): TransactionResult {
    const stage = this.line === null ? 'mail' : 'data'
    return { kind: 'broken', stage, error: printable(error), dotSent: this.dotSent }
  }

  private stageOf ({ command }: SendError): SmtpStage {
    if (this.line !== null || command === 'DATA') return 'data'
    return command === 'RCPT TO' || this.isRcptRefused() ? 'rcpt' : 'mail'
  }

  /** With PIPELINING nodemailer calls a 421 the connection's, whichever command it answers. */
  private isRcptRefused (): boolean {
    const { _envelope } = this.session.connection as unknown as { _envelope?: { rejected?: string[] } }
    return (_envelope?.rejected ?? []).length > 0
  }
}

/** A line that begins with a dot gets one more. `message` has CRLF line ends only, and ends with one. Source: RFC 5321
 *  4.5.2. */
function dotStuffed (message: Buffer): Buffer {
  const parts: Buffer[] = message[0] === DOT[0] ? [DOT] : []
  let from = 0
  for (let at = message.indexOf(LINE_DOT); at !== -1; at = message.indexOf(LINE_DOT, from)) {
    parts.push(message.subarray(from, at + LINE_DOT.length), DOT)
    from = at + LINE_DOT.length
  }
  return parts.length === 0 ? message : Buffer.concat([...parts, message.subarray(from)])
}
