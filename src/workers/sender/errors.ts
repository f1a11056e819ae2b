import type { SmtpReply, SmtpStage } from '#streams/email/decide.ts'

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

/** The hosts are suspended, so nothing was tried now; `downForMs` since the first failure. */
export class Suspended extends Error {
  override name = 'Suspended'
  readonly failure: HostFailure
  readonly retryInMs: number
  readonly downForMs: number
  constructor (failure: HostFailure, retryInMs: number, downForMs: number) {
    super(failure.message)
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
