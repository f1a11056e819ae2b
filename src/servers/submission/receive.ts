import type { SMTPServerDataStream, SMTPServerSession } from 'smtp-server'
import { ReceiveSlots } from '#src/base/allowance.ts'
import { networkOf } from '#src/base/network.ts'
import type { SubmissionLimits } from './limits.ts'
import { BUSY } from './replies.ts'

type DataCallback = (error?: Error | null, text?: string) => void

/** Answers a mail; `raw` null = there was no room for it. */
type Submit = (session: SMTPServerSession, raw: Buffer | null) => Promise<string>

/** Mails on their way in: how many at once, and how much memory they take together, and those of one account. */
export class ReceivedMails {
  private readonly limits: SubmissionLimits
  private readonly slots: ReceiveSlots
  /** Those that are whole, by session. */
  private readonly answering = new Map<string, Promise<void>>()
  private readonly accountOf: (session: SMTPServerSession) => string
  private bytes = 0
  private readonly bytesByAccount = new Map<string, number>()

  constructor (limits: SubmissionLimits, accountOf: (session: SMTPServerSession) => string) {
    this.limits = limits
    this.accountOf = accountOf
    this.slots = new ReceiveSlots({
      max: limits.mailsAtOnceMax,
      maxPerNetwork: limits.mailsAtOnceOfNetworkMax,
      maxPerNetworkBusy: limits.mailsAtOnceOfNetworkBusyMax,
      timeoutMs: limits.dataMs,
      nowMs: Date.now
    })
  }

  has (session: string): boolean {
    return this.slots.has(session)
  }

  /** Its mail has taken too long to arrive. */
  isLate (session: string): boolean {
    return this.slots.isLate(session)
  }

  release (session: string): void {
    this.slots.release(session)
  }

  /** Its mail is whole, and its answer on the way. */
  isAnswering (session: string): boolean {
    return this.answering.has(session)
  }

  /** Resolves once all that are whole have their answer. */
  async answered (): Promise<void> {
    await Promise.all(this.answering.values())
  }

  receive (stream: SMTPServerDataStream, session: SMTPServerSession, submit: Submit, callback: DataCallback): void {
    const { id, remoteAddress } = session
    if (this.slots.acquire(id, networkOf(remoteAddress)) !== 'acquired') return callback(BUSY)
    const account = this.accountOf(session)
    const parts: Buffer[] = []
    let held = 0
    let fits = true
    let isWhole = false
    const giveBack = () => {
      this.hold(account, -held)
      held = 0
      parts.length = 0
    }
    stream.on('data', (chunk: Buffer) => {
      // The listener refuses what is too big by itself.
      if (stream.sizeExceeded || !this.hasRoom(account, chunk.length)) fits = false
      if (!fits) return giveBack()
      parts.push(chunk)
      held += chunk.length
      this.hold(account, chunk.length)
    })
    // A client that leaves in the middle has sent nothing to accept.
    stream.on('error', () => {})
    stream.on('close', () => {
      if (isWhole) return
      giveBack()
      this.slots.release(id)
    })
    stream.on('end', () => {
      isWhole = true
      this.slots.received(id)
      const answered = submit(session, fits ? Buffer.concat(parts) : null)
      parts.length = 0
      const done = answered.then(text => ({ error: null, text }), (error: Error) => ({ error, text: undefined }))
        .then(({ error, text }) => {
          giveBack()
          // Before the reply: a client that has pipelined the next mail begins it with that.
          this.slots.release(id)
          this.answering.delete(id)
          callback(error, text)
        })
      this.answering.set(id, done)
    })
  }

  private hasRoom (account: string, bytes: number): boolean {
    const { bytesAtOnceMax, bytesAtOnceOfAccountMax } = this.limits
    return this.bytes + bytes <= bytesAtOnceMax && this.bytesOf(account) + bytes <= bytesAtOnceOfAccountMax
  }

  private hold (account: string, bytes: number): void {
    this.bytes += bytes
    const ofAccount = this.bytesOf(account) + bytes
    if (ofAccount === 0) this.bytesByAccount.delete(account)
    else this.bytesByAccount.set(account, ofAccount)
  }

  private bytesOf (account: string): number {
    return this.bytesByAccount.get(account) ?? 0
  }
}
