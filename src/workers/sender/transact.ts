import type { Readable, Transform } from 'node:stream'
import type { SMTPConnectionSendInfo, SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import type { SmtpReply, SmtpStage } from '#streams/email/decide.ts'
import { sleep } from '#src/base/backoff.ts'
import { closeSession, type Session, type SmtpTimeouts } from './session.ts'
import { parseReply, printable } from '#src/feedback/reply.ts'

export interface Mail {
  from: string
  to: string
  message: Buffer
  envelopeId: string
  /** It has raw UTF-8 in an address. */
  utf8: boolean
}

/** The right to send the final dot. */
export interface Gate {
  /** Asked once, when the body is out: true = the claim is stored. Must not reject. */
  claim(): Promise<boolean>
  /** Asked at the very last: true while the claim is surely still ours. */
  mayFinish(): boolean
}

/** How a transaction ended. */
export type Ending =
  /** A reply that settles it. */
  | { kind: 'reply', stage: SmtpStage, reply: SmtpReply }
  /** The line died, went silent or spoke no SMTP. `dotSent` = the server may have the message. */
  | { kind: 'broken', stage: SmtpStage, error: string, dotSent: boolean }
  /** We let go without the dot, since the claim was not granted. */
  | { kind: 'dropped' }
  /** This server can never take this message. */
  | { kind: 'unsendable', detail: string }

interface Result {
  error: SendError | null
  info?: SMTPConnectionSendInfo
}

type SendError = Error & { code?: string, command?: string, response?: string }

/** nodemailer's, on its way to the socket; `lastByte` = the last that went through it. */
type DataStream = Transform & { lastByte: number }

const LF = 0x0a
const DOT = Buffer.from('.')
const LINE_DOT = Buffer.from('\r\n.')
/** With so much of the body left the claim is asked for: both are on their way together. */
const CLAIM_BYTES = 64 * 1024
const DRAIN_LOOK_MS = 10

/** Sends one mail. Before the final dot it asks `gate`; without its yes, no dot goes out and the line is dropped. Never
 *  rejects. The session is good for another transaction afterwards when it is still `usable`. */
export async function transact (session: Session, mail: Mail, gate: Gate, timeouts: SmtpTimeouts): Promise<Ending> {
  if (mail.utf8 && !session.smtpUtf8) {
    return { kind: 'unsendable', detail: '5.6.7 The server takes no addresses beyond ASCII' }
  }
  session.messages++
  const sending = new Sending(session, mail, gate, timeouts)
  const ending = await sending.run()
  // A server that answered before it had all would take what follows for the rest of the message.
  const whole = ending.kind === 'reply' && (sending.dotSent || !sending.bodyBegun) && ending.reply.code !== 421
  if (!whole && ending.kind !== 'unsendable') closeSession(session)
  session.dirty = whole && !sending.dotSent
  if (whole) session.replies++
  return ending
}

/** One message on its way: the state that its callbacks share. */
class Sending {
  dotSent = false
  bodyBegun = false
  private dropped = false
  /** The transaction has its result: nothing more is sent, whatever the gate says. */
  private over = false
  private timedOut: string | null = null
  private claiming: Promise<void> = Promise.resolve()
  private end: (result: Result) => void = () => {}
  private timer: NodeJS.Timeout | undefined
  private readonly session: Session
  private readonly mail: Mail
  private readonly gate: Gate
  private readonly timeouts: SmtpTimeouts

  constructor (session: Session, mail: Mail, gate: Gate, timeouts: SmtpTimeouts) {
    this.session = session
    this.mail = mail
    this.gate = gate
    this.timeouts = timeouts
  }

  async run (): Promise<Ending> {
    this.limitCommands()
    const { error, info } = await this.send()
    clearTimeout(this.timer)
    // The claim may be on its way while the line dies: what follows must know whether it is stored.
    await this.claiming
    return error === null ? this.accepted(info!) : this.failed(error)
  }

  private async send (): Promise<Result> {
    const { connection } = this.session
    const { from, to, message, envelopeId, utf8 } = this.mail
    // Only of use where the server offers DSN (RFC 3461): the returned headers name the mail as well as the whole of it
    // would.
    const dsn = { envid: envelopeId, ret: 'HDRS', notify: ['FAILURE', 'DELAY'] } as const
    const envelope: SMTPEnvelope = {
      from,
      to: [to],
      size: message.length,
      use8BitMime: utf8,
      dsn: { ...dsn, notify: [...dsn.notify] }
    }
    // nodemailer forgets its callback when it finds the socket gone as it is about to write: then its end is the sign.
    const onEnd = () => setImmediate(() => this.end({ error: new Error('Connection closed') }))
    connection.once('end', onEnd)
    const result = await new Promise<Result>(resolve => {
      this.end = result => {
        this.over = true
        resolve(result)
      }
      connection.send(envelope, this.body(), (error, info) => this.end({ error, info }))
    })
    connection.off('end', onEnd)
    return result
  }

  /** What nodemailer takes for a stream: asked to pour the message into its own, which writes the dot when it ends, and
   *  nothing when it does not. The message goes past its look at every byte (a tenth of a mail's cost), for it has its
   *  line ends and its dots already. Source: nodemailer's DataStream. */
  private body (): Readable {
    const pipe = (line: DataStream) => {
      this.bodyBegun = true
      this.limit(this.timeouts.bodyMs, 'the body was not taken in time')
      line.push(dotStuffed(this.mail.message))
      line.lastByte = LF
      this.claiming = this.pass(line)
    }
    return { pipe } as unknown as Readable
  }

  /** Through the gate: the dot, or the end of the line. */
  private async pass (line: DataStream): Promise<void> {
    // A server may say no in the middle of a big mail: then nothing was attempted that could be in doubt.
    while (!this.over && this.unwritten(line) > CLAIM_BYTES) await sleep(DRAIN_LOOK_MS)
    if (this.over) return
    const claimed = await this.gate.claim()
    // A dot behind a body that the server is slow to take would go out at a time nobody knows.
    while (claimed && !this.over && this.unwritten(line) > 0) await sleep(DRAIN_LOOK_MS)
    if (this.over) return
    if (claimed && this.gate.mayFinish()) {
      this.dotSent = true
      this.limit(this.timeouts.dotMs, 'no reply to the final dot in time')
      line.end()
    } else {
      this.dropped = true
      this.end({ error: new Error('no claim, no dot') })
    }
  }

  private unwritten (line: DataStream): number {
    const socket = this.session.connection._socket
    return line.readableLength + (socket ? socket.writableLength : 0)
  }

  /** All three may be on their way together, but a stranger must answer the first of them soon. */
  private limitCommands (): void {
    const { connection, replies, mailMs } = this.session
    const { commandMs } = this.timeouts
    const words = 'no reply to MAIL, RCPT or DATA in time'
    if (replies > 0 || mailMs >= commandMs) return this.limit(commandMs, words)
    const before = connection.lastServerResponse
    this.timer = setTimeout(() => {
      if (connection.lastServerResponse === before) this.expire(words)
      else this.limit(commandMs - mailMs, words)
    }, mailMs)
  }

  /** One deadline at a time; when it passes the line is dropped. */
  private limit (ms: number, words: string): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.expire(words), ms)
  }

  private expire (words: string): void {
    this.timedOut = words
    const socket = this.session.connection._socket
    if (socket) socket.destroy()
    this.end({ error: new Error(words) })
  }

  private accepted (info: SMTPConnectionSendInfo): Ending {
    const reply = parseReply(info.response)
    if (reply !== null && reply.code < 300 && this.dotSent) return { kind: 'reply', stage: 'data', reply }
    return this.broken(`not a reply to the final dot: ${info.response}`)
  }

  private failed (error: SendError): Ending {
    if (this.dropped) return { kind: 'dropped' }
    const reply = parseReply(error.response ?? '')
    if (reply !== null && reply.code >= 400 && error.code !== 'EPROTOCOL') {
      return { kind: 'reply', stage: this.stageOf(error), reply }
    }
    // nodemailer's own no, before it said a word: too large for the server's SIZE.
    if (error.code === 'EMESSAGE' && error.command === 'MAIL FROM') {
      return { kind: 'unsendable', detail: printable(error.message) }
    }
    return this.broken(this.timedOut ?? error.message)
  }

  private broken (error: string): Ending {
    return { kind: 'broken', stage: this.bodyBegun ? 'data' : 'mail', error: printable(error), dotSent: this.dotSent }
  }

  private stageOf ({ command }: SendError): SmtpStage {
    if (this.bodyBegun || command === 'DATA') return 'data'
    return command === 'RCPT TO' ? 'rcpt' : 'mail'
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
