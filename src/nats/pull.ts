import { createInbox, type Msg, type Subscription } from 'nats'
import type { Bus } from './connect.ts'
import { createConsumer, deleteConsumer, type ConsumerRange } from './consumer.ts'
import type { StoredMessage } from './message.ts'

const PULL_MESSAGES = 1000
/** Added to the largest message there can be, or none that large would come. */
const PULL_BYTES_SPARE = 64 * 1024
const PULL_NS = 5e9
const PULL_ENDS = /^(Batch Completed|Message Size Exceeds MaxBytes)$/i
const SILENCE_MS = 15_000
const CHECK_MS = 250
/** Longer than writing one chunk ever takes. */
const INACTIVE_MS = 120_000
/** A filter that matches much takes the server long to count. */
const CREATE_MS = 30_000

/** Pulls messages from an ephemeral consumer as fast as they are taken, and no faster: in arrays of what has come, with
 *  no promise per message. */
export class PullConsumer {
  private readonly bus: Bus
  private readonly stream: string
  private readonly name: string
  private readonly signal: AbortSignal | undefined
  private readonly upSinceMs: number | null
  private readonly inbox = createInbox()
  private readonly bytesMax: number
  private readonly subscription: Subscription
  private arrived: PulledMessage[] = []
  private requested = 0
  private delivered = 0
  private pending: number
  private fault: Error | null = null
  private wake: (() => void) | null = null

  private constructor (
    bus: Bus,
    stream: string,
    { name, pending }: { name: string, pending: number },
    upSinceMs: number | null,
    signal: AbortSignal | undefined
  ) {
    this.bus = bus
    this.stream = stream
    this.name = name
    this.pending = pending
    this.upSinceMs = upSinceMs
    this.signal = signal
    this.bytesMax = (bus.nc.info?.max_payload ?? 0) + PULL_BYTES_SPARE
    this.subscription = bus.nc.subscribe(this.inbox, { callback: (error, message) => this.receive(error, message) })
  }

  static async open (bus: Bus, range: ConsumerRange, signal: AbortSignal | undefined): Promise<PullConsumer> {
    const upSinceMs = bus.upSinceMs()
    const consumer = await createConsumer(bus, range, INACTIVE_MS, CREATE_MS)
    return new PullConsumer(bus, range.stream, consumer, upSinceMs, signal)
  }

  /** What has come, at least one message; none when nothing came for a while, or when the signal is aborted. Throws
   *  when one is missing, or the server falls silent or refuses. */
  async take (): Promise<StoredMessage[]> {
    this.pull()
    if (this.arrived.length === 0 && this.fault === null && this.signal?.aborted !== true) await this.wait()
    if (this.fault !== null && this.arrived.length === 0) throw this.fault
    const taken = this.arrived
    this.arrived = []
    this.pull()
    return taken
  }

  /** The consumer has delivered all it had. */
  isDrained (): boolean {
    return this.pending === 0 && this.arrived.length === 0
  }

  close (): void {
    this.subscription.unsubscribe()
    deleteConsumer(this.bus, this.stream, this.name)
  }

  /** The next messages are on their way while the last ones are worked on, and never more than two pulls. */
  private pull (): void {
    if (this.requested > PULL_MESSAGES / 2 || this.arrived.length > PULL_MESSAGES / 2) return
    this.requested += PULL_MESSAGES
    this.bus.nc.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${this.stream}.${this.name}`,
      JSON.stringify({ batch: PULL_MESSAGES, max_bytes: this.bytesMax, expires: PULL_NS }),
      { reply: this.inbox }
    )
  }

  private receive (error: Error | null, message: Msg): void {
    if (error !== null) this.fault = error
    // Only a stored message can be replied to. Its headers are not parsed here: that takes as long as all the rest.
    else if (message.reply) this.receiveMessage(new PulledMessage(this.stream, message))
    else this.receiveStatus(message)
    this.wake?.()
  }

  private receiveMessage (message: PulledMessage): void {
    this.requested--
    this.pending = message.pending
    if (message.deliverySequence === ++this.delivered) this.arrived.push(message)
    else this.fault ??= new Error(`message ${this.delivered} of this consumer is missing`)
  }

  /** The end of a pull: it is filled, by count or bytes, its time is over, or the consumer is gone. */
  private receiveStatus ({ headers }: Msg): void {
    const { code, description } = headers!
    this.requested -= Number(headers!.get('Nats-Pending-Messages'))
    if (code !== 404 && code !== 408 && !PULL_ENDS.test(description)) {
      this.fault = new Error(`${this.stream} cannot be read: ${code} ${description}`)
    }
  }

  /** A connection that breaks takes what was requested with it, and nobody says so. */
  private async wait (): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const endMs = performance.now() + SILENCE_MS
    const timer = setInterval(() => {
      if (this.bus.upSinceMs() !== this.upSinceMs) this.fault = new Error('the connection broke')
      else if (performance.now() > endMs) {
        this.fault = new Error(`${this.stream} cannot be read: nothing came within ${SILENCE_MS / 1000} s`)
      }
      if (this.fault !== null) resolve()
    }, CHECK_MS)
    const wake = () => resolve()
    this.wake = wake
    this.signal?.addEventListener('abort', wake, { once: true })
    await promise
    this.signal?.removeEventListener('abort', wake)
    this.wake = null
    clearInterval(timer)
  }
}

/** What the server says of a message in its reply subject:
 *  `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<ns>.<pending>`, or with domain and account
 *  before the stream and one token more at the end. Source: nats-server ADR-15. */
class PulledMessage implements StoredMessage {
  readonly stream: string
  readonly seq: number
  readonly subject: string
  readonly storedMs: number
  readonly data: Uint8Array
  /** Its number among the messages of the consumer, from 1. */
  readonly deliverySequence: number
  /** How many the consumer had left after it. */
  readonly pending: number
  private readonly message: Msg

  constructor (stream: string, message: Msg) {
    const tokens = message.reply!.split('.')
    const at = tokens.length === 9 ? 5 : 7
    this.stream = stream
    this.seq = Number(tokens[at])
    this.subject = message.subject
    this.storedMs = Math.floor(Number(tokens[at + 2]) / 1e6)
    this.data = message.data
    this.deliverySequence = Number(tokens[at + 1])
    this.pending = Number(tokens[at + 3])
    this.message = message
  }

  header (name: string): string {
    return this.message.headers?.get(name) ?? ''
  }
}
