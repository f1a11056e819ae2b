import type { ConsumerMessages, JsMsg } from 'nats'
import type { ConsumerPlan } from '#streams/topology.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from './connect.ts'
import { consume } from './consumer.ts'

/** One message to work on. A crash may lose its acknowledgement: read the facts before you act on a redelivered one. */
export interface Job {
  subject: string
  seq: number
  bytes: Uint8Array
  redelivered: boolean
  /** How often it was delivered, to any worker: from 1. */
  deliveryCount: number
  /** Done for good. Only after what it led to is durable. */
  ack(): void
  /** Redelivers it after so many ms. It counts as pending meanwhile, so only for short waits. */
  retryAfter(delayMs: number): void
}

export interface WorkOptions {
  plan: ConsumerPlan
  name: string
  /** Jobs in progress at once; more wait on the server. */
  concurrency: number
  /** Resolves when the job is settled. When it rejects, the job is redelivered after 5 s. */
  handle(job: Job): Promise<void>
  /** Recreates the consumer when it is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
  onError(error: Error): void
}

/** On stop, messages that were fetched and not begun are handed back for so long, or they would wait out their
 *  ack_wait. */
const HANDBACK_MS = 100
/** Longer than that, so that they are not redelivered here. */
const NOT_HERE_MS = 1000
const ERROR_RETRY_MS = 5000
const REOPEN_MS = 250

interface InProgress {
  message: JsMsg
  settled: boolean
}

/** Works on a durable consumer's messages, shared with every process that does the same. */
export function work (bus: Bus, options: WorkOptions): Role {
  const worker = new Worker(bus, options)
  return { name: options.name, unhealthyReason: () => worker.unhealthyReason(), stop: () => worker.stop() }
}

class Worker {
  private readonly bus: Bus
  private readonly options: WorkOptions
  private readonly inProgress = new Map<number, InProgress>()
  private readonly stopping = new AbortController()
  private readonly keepAlive: NodeJS.Timeout
  private readonly running: Promise<void>
  private problem: string | null = 'starting'
  private free: (() => void) | null = null

  constructor (bus: Bus, options: WorkOptions) {
    this.bus = bus
    this.options = options
    // Three times within ack_wait: a job that takes long is not redelivered to another worker.
    this.keepAlive = setInterval(() => {
      for (const { message } of this.inProgress.values()) this.respond(message, '+WPI')
    }, options.plan.ack_wait / 3e6)
    this.running = this.run()
  }

  unhealthyReason (): string | null {
    return this.problem
  }

  async stop (): Promise<void> {
    this.stopping.abort()
    await this.running
    while (this.inProgress.size > 0) await sleep(20)
    clearInterval(this.keepAlive)
  }

  private async run (): Promise<void> {
    while (!this.stopping.signal.aborted) {
      await this.bus.whenUp(REOPEN_MS)
      if (this.bus.upSinceMs() === null) continue
      try {
        await this.consume(await this.open())
      } catch (error) {
        this.report(asError(error))
      }
      await sleep(REOPEN_MS, this.stopping.signal)
    }
  }

  private report (error: Error): void {
    this.problem = `${this.options.name}: ${error.message}`
    this.options.onError(error)
  }

  private async open (): Promise<ConsumerMessages> {
    const { plan, concurrency, repair } = this.options
    await repair(plan)
    const source = { stream: plan.stream, name: plan.durable_name, prefetch: Math.max(2, concurrency) }
    const messages = await consume(this.bus, source, this.stopping.signal, messages => {
      this.free?.()
      setTimeout(() => messages.stop(), HANDBACK_MS)
    })
    this.problem = null
    return messages
  }

  private async consume (messages: ConsumerMessages): Promise<void> {
    for await (const message of messages) {
      const known = this.inProgress.get(message.seq)
      // Redelivered while it is in progress (the server restarted): the newest message is the one to acknowledge.
      if (known !== undefined) known.message = message
      else if (this.stopping.signal.aborted) this.respond(message, laterBy(NOT_HERE_MS))
      else void this.start(message)
      if (this.inProgress.size >= this.options.concurrency && !this.stopping.signal.aborted) {
        await new Promise<void>(resolve => {
          this.free = resolve
        })
      }
    }
    const reason = await messages.closed()
    if (reason instanceof Error && !this.stopping.signal.aborted) this.report(reason)
  }

  /** On the connection of this moment: the one that brought the message may be gone. Source: nats-server ADR-15. */
  private respond (message: JsMsg, word: string): void {
    // The client's type does not name it.
    const { reply } = message as JsMsg & { reply: string }
    if (this.bus.upSinceMs() !== null) this.bus.nc.publish(reply, word)
  }

  private async start (message: JsMsg): Promise<void> {
    const entry: InProgress = { message, settled: false }
    this.inProgress.set(message.seq, entry)
    const job = jobOf(entry, (message, word) => this.respond(message, word))
    try {
      await this.options.handle(job)
    } catch (error) {
      this.options.onError(asError(error))
      job.retryAfter(ERROR_RETRY_MS)
    }
    this.inProgress.delete(message.seq)
    this.free?.()
    this.free = null
  }
}

/** Redelivered after so many ms. The server takes whole nanoseconds only, and a fraction of one as no delay at all. */
function laterBy (delayMs: number): string {
  return `-NAK ${JSON.stringify({ delay: Math.ceil(delayMs) * 1e6 })}`
}

/** Settled once: what comes later does nothing. */
function jobOf (entry: InProgress, respond: (message: JsMsg, word: string) => void): Job {
  const { message } = entry
  const settle = (word: string) => {
    if (entry.settled) return
    entry.settled = true
    respond(entry.message, word)
  }
  return {
    subject: message.subject,
    seq: message.seq,
    bytes: message.data,
    redelivered: message.redelivered,
    deliveryCount: message.info.deliveryCount,
    ack: () => settle('+ACK'),
    retryAfter: delayMs => settle(laterBy(delayMs))
  }
}
