import type { SmtpReply, SmtpStage } from '#streams/email/decide.ts'
import { printable, verdictOf } from '#src/feedback/reply.ts'

/** What is known of a failure beside the server's words. */
interface FailureContext {
  /** The server's name, where it is one of several. */
  host?: string | null
  /** The TLS handshake had begun and failed. */
  inTls?: boolean
  /** The server offers no TLS, which is required. */
  noTls?: boolean
  /** The bounce class when the server sent no reply. */
  class?: string
}

/** The server cannot be reached, or refuses us whatever the message is. */
export class HostFailure extends Error {
  override name = 'HostFailure'
  readonly stage: SmtpStage
  readonly reply: SmtpReply | null
  readonly host: string | null
  readonly inTls: boolean
  readonly noTls: boolean
  readonly class: string
  constructor (
    message: string,
    stage: SmtpStage,
    reply: SmtpReply | null,
    { host = null, inTls = false, noTls = false, class: bounceClass = 'networkerror' }: FailureContext = {}
  ) {
    super(message)
    this.stage = stage
    this.reply = reply
    this.host = host
    this.inTls = inTls
    this.noTls = noTls
    this.class = bounceClass
  }
}

/** Why hosts are left alone, as every mail for them may be told. A reply may name whom it is about, and was given to
 *  another mail: of its words nothing is here. */
export interface HostTrouble {
  host: string | null
  stage: SmtpStage
  /** Of the reply; null = there was none. */
  code: number | null
  enhanced: string | null
  class: string
  /** A sentence of ours. */
  sentence: string
}

export function troubleOf ({ message, stage, reply, host, class: unanswered }: HostFailure): HostTrouble {
  const name = host ?? 'The server'
  if (reply === null) {
    // There was no connection yet on which anybody could have been named.
    const sentence = printable(`Not tried: ${name} could not be used for another email: ${message}`)
    return { host, stage, code: null, enhanced: null, class: unanswered, sentence }
  }
  const { code, enhanced } = reply
  const status = enhanced === null ? `${code}` : `${code} ${enhanced}`
  const sentence = `Not tried: ${name} answered another email with ${status} and is left alone for now.`
  return { host, stage, code, enhanced, class: verdictOf(reply, stage).class, sentence }
}

/** The hosts are suspended; `downForMs` since the first failure. */
export class Suspended extends Error {
  override name = 'Suspended'
  readonly trouble: HostTrouble
  /** How this mail's own connection failed; null = it was not tried. */
  readonly failure: HostFailure | null
  readonly retryInMs: number
  readonly downForMs: number
  constructor (trouble: HostTrouble, failure: HostFailure | null, retryInMs: number, downForMs: number) {
    super(trouble.sentence)
    this.trouble = trouble
    this.failure = failure
    this.retryInMs = retryInMs
    this.downForMs = downForMs
  }
}

/** There is no capacity now: the mail gets a schedule and comes back. Nothing has failed. */
export class RetryLater extends Error {
  override name = 'RetryLater'
  readonly retryInMs: number
  constructor (retryInMs: number) {
    super('there is no capacity now')
    this.retryInMs = retryInMs
  }
}

/** The pool is stopped: another sender continues the work. */
export class PoolStopped extends Error {
  override name = 'PoolStopped'
  constructor () {
    super('the pool is stopped')
  }
}
