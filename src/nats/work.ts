import type { ConsumerMessages, JsMsg } from 'nats'
import type { ConsumerPlan } from '#streams/topology.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from './connect.ts'

/** One message to work on. Its acknowledgement may be forgotten by a crash: look at the facts before acting on a
 *  redelivered one. */
export interface Job {
  subject: string
  seq: number
  bytes: Uint8Array
  redelivered: boolean
  /** How often it was handed out, to anybody: from 1. */
  turn: number
  /** Done, never again. Only after what it led to is durable. */
  ack(): void
  /** Again after so many ms; holds a pending place meanwhile, so only for short waits. */
  again(delayMs: number): void
}

export interface WorkOptions {
  plan: ConsumerPlan
  name: string
  /** Jobs under way at once; more wait on the server. */
  concurrency: number
  /** Ends when the job is settled. What it throws sends the job round again in 5 s. */
  handle(job: Job): Promise<void>
  /** Makes the consumer again when it is missing on the server. */
  repair(plan: ConsumerPlan): Promise<boolean>
  onError(error: Error): void
}

/** When told to stop, what was fetched and not begun is handed back for so long, or it would wait out its ack_wait. */
const HANDBACK_MS = 100
/** Longer than that, so that it does not come back here. */
const NOT_HERE_MS = 1000

interface Held {
  message: JsMsg
  settled: boolean
}

/** Works on a durable consumer's messages, shared with every process that does the same. */
export function work (bus: Bus, options: WorkOptions): Role {
  const held = new Map<number, Held>()
  const stopping = new AbortController()
  let unhealthyReason: string | null = 'starting'
  let free: (() => void) | null = null
  // Thrice within ack_wait: a job that takes long is not given to a second worker.
  const alive = setInterval(() => {
    for (const { message } of held.values()) message.working()
  }, options.plan.ack_wait / 3e6)

  async function loop (): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await consume(await open())
      } catch (error) {
        tell(asError(error))
      }
      await sleep(250, stopping.signal)
    }
  }

  function tell (error: Error): void {
    unhealthyReason = `${options.name}: ${error.message}`
    options.onError(error)
  }

  async function open (): Promise<ConsumerMessages> {
    await options.repair(options.plan)
    const consumer = await bus.js.consumers.get(options.plan.stream, options.plan.durable_name)
    const messages = await consumer.consume({
      max_messages: Math.max(2, options.concurrency),
      expires: 10_000,
      abort_on_missing_resource: true
    })
    const stop = () => {
      free?.()
      setTimeout(() => messages.stop(), HANDBACK_MS)
    }
    stopping.signal.addEventListener('abort', stop, { once: true })
    void messages.closed().then(() => stopping.signal.removeEventListener('abort', stop))
    if (stopping.signal.aborted) stop()
    unhealthyReason = null
    return messages
  }

  async function consume (messages: ConsumerMessages): Promise<void> {
    for await (const message of messages) {
      const known = held.get(message.seq)
      // It came again while we are at it (the server restarted): the newest handle is the one to acknowledge.
      if (known !== undefined) known.message = message
      else if (stopping.signal.aborted) message.nak(NOT_HERE_MS)
      else void start(message)
      if (held.size >= options.concurrency && !stopping.signal.aborted) {
        await new Promise<void>(resolve => {
          free = resolve
        })
      }
    }
    const reason = await messages.closed()
    if (reason instanceof Error && !stopping.signal.aborted) tell(reason)
  }

  async function start (message: JsMsg): Promise<void> {
    const entry: Held = { message, settled: false }
    held.set(message.seq, entry)
    const settle = (how: (message: JsMsg) => void) => {
      if (entry.settled) return
      entry.settled = true
      how(entry.message)
    }
    const job: Job = {
      subject: message.subject,
      seq: message.seq,
      bytes: message.data,
      redelivered: message.redelivered,
      turn: message.info.deliveryCount,
      ack: () => settle(latest => latest.ack()),
      // The server takes whole nanoseconds only, and a fraction of one as no delay at all.
      again: delayMs => settle(latest => latest.nak(Math.ceil(delayMs)))
    }
    try {
      await options.handle(job)
    } catch (error) {
      options.onError(asError(error))
      job.again(5000)
    }
    held.delete(message.seq)
    free?.()
    free = null
  }

  const running = loop()
  return {
    name: options.name,
    unhealthyReason: () => unhealthyReason,
    async stop () {
      stopping.abort()
      await running
      while (held.size > 0) await sleep(20)
      clearInterval(alive)
    }
  }
}
