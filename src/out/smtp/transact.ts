import { Readable } from 'node:stream'
import type { SMTPConnectionSendInfo, SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import type { SmtpReply, SmtpStage } from '#streams/email/decide.ts'
import { sleep } from '#src/base/backoff.ts'
import { closeSession, type Session, type SmtpTimeouts } from './session.ts'
import { parseReply, printable } from './verdict.ts'

export interface Mail {
  from: string
  to: string
  message: Buffer
  /** It has raw UTF-8 in an address. */
  utf8: boolean
}

/** The right to send the final dot. */
export interface Gate {
  /** Asked once, when the body is out: true = the claim is stored. Must not reject. */
  claim (): Promise<boolean>
  /** Asked at the very last: true while the claim is surely still ours. */
  mayFinish (): boolean
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

interface Result { error: SendError | null, info?: SMTPConnectionSendInfo }

type SendError = Error & { code?: string, command?: string, response?: string }

const CHUNK_BYTES = 64 * 1024
const DRAIN_LOOK_MS = 10

/** Sends one mail. Before the final dot it asks `gate`; without its yes, no dot goes out and the line is dropped. Never rejects.
 *  The session is good for another transaction afterwards when it is still `usable`. */
export async function transact (session: Session, mail: Mail, gate: Gate, timeouts: SmtpTimeouts): Promise<Ending> {
  if (mail.utf8 && !session.smtpUtf8) return { kind: 'unsendable', detail: '5.6.7 The server takes no addresses beyond ASCII' }
  session.messages++
  const sending = new Sending(session, mail, gate, timeouts)
  const ending = await sending.run()
  // A server that answered before it had all would take what follows for the rest of the message.
  const whole = ending.kind === 'reply' && (sending.dotSent || !sending.bodyBegun) && ending.reply.code !== 421
  if (!whole && ending.kind !== 'unsendable') closeSession(session)
  session.dirty = whole && !sending.dotSent
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
    this.limit(this.timeouts.commandMs, 'no reply to MAIL, RCPT or DATA in time')
    const { error, info } = await this.send()
    clearTimeout(this.timer)
    // The claim may be on its way while the line dies: what follows must know whether it is stored.
    await this.claiming
    return error === null ? this.accepted(info!) : this.failed(error)
  }

  private async send (): Promise<Result> {
    const { connection } = this.session
    const { from, to, message, utf8 } = this.mail
    const envelope: SMTPEnvelope = { from, to: [to], size: message.length, use8BitMime: utf8 }
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

  /** The message as a stream that gives everything but its end, which is the dot: that waits for the gate. Source: nodemailer's DataStream
   *  writes the dot when its input ends, and nothing when it is destroyed. */
  private body (): Readable {
    const { message } = this.mail
    let at = 0
    let asked = false
    const body = new Readable({
      highWaterMark: CHUNK_BYTES,
      read: () => {
        if (!this.bodyBegun) {
          this.bodyBegun = true
          this.limit(this.timeouts.bodyMs, 'the body was not taken in time')
        }
        if (at < message.length) {
          body.push(message.subarray(at, at += CHUNK_BYTES))
        } else if (!asked) {
          asked = true
          this.claiming = this.pass(body)
        }
      }
    })
    return body
  }

  /** Through the gate: the dot, or the end of the line. */
  private async pass (body: Readable): Promise<void> {
    const claimed = await this.gate.claim()
    // A dot behind a body that the server is slow to take would go out at a time nobody knows.
    while (claimed && !this.over && this.unwritten(body) > 0) await sleep(DRAIN_LOOK_MS)
    if (this.over) return
    if (claimed && this.gate.mayFinish()) {
      this.dotSent = true
      this.limit(this.timeouts.dotMs, 'no reply to the final dot in time')
      body.push(null)
    } else {
      this.dropped = true
      body.destroy(new Error('no claim, no dot'))
    }
  }

  private unwritten (body: Readable): number {
    const socket = this.session.connection._socket
    return body.readableLength + (socket ? socket.writableLength : 0)
  }

  /** One deadline at a time; when it passes the line is dropped. */
  private limit (ms: number, words: string): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      this.timedOut = words
      const socket = this.session.connection._socket
      if (socket) socket.destroy()
      this.end({ error: new Error(words) })
    }, ms)
  }

  private accepted (info: SMTPConnectionSendInfo): Ending {
    const reply = parseReply(info.response)
    if (reply !== null && reply.code < 300 && this.dotSent) return { kind: 'reply', stage: 'data', reply }
    return this.broken(`not a reply to the final dot: ${info.response}`)
  }

  private failed (error: SendError): Ending {
    if (this.dropped) return { kind: 'dropped' }
    const reply = parseReply(error.response ?? '')
    if (reply !== null && reply.code >= 400 && error.code !== 'EPROTOCOL') return { kind: 'reply', stage: this.stageOf(error), reply }
    // nodemailer's own no, before it said a word: too large for the server's SIZE.
    if (error.code === 'EMESSAGE' && error.command === 'MAIL FROM') return { kind: 'unsendable', detail: printable(error.message) }
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
