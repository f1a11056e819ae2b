import type { JsMsg } from 'nats'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import { consume, createConsumer, type ConsumerRange } from './consumer.ts'

/** The messages of a stream, one after the other and none left out. */
export interface OrderedMessages {
  /** null at the end, at a fault, and where one is missing. Never rejects: nobody may be waiting when it would. */
  next(): Promise<JsMsg | null>
  /** Why it came to an end; null = it was stopped, or by the server in an orderly way. */
  fault(): Error | null
  stop(): void
}

/** An unused consumer leaves the server by itself after this. */
const INACTIVE_MS = 30_000

/** A consumer of our own making, not the client's ordered one: that one, when its consumer is lost, makes itself
 *  another which nobody can stop. `prefetch` messages come before they are asked for. Stops with `signal`. */
export async function openOrdered (
  bus: Bus,
  range: ConsumerRange,
  prefetch: number,
  signal: AbortSignal
): Promise<OrderedMessages> {
  const { name } = await createConsumer(bus, range, INACTIVE_MS)
  const messages = await consume(bus, { stream: range.stream, name, prefetch }, signal)
  const iterator = messages[Symbol.asyncIterator]()
  let delivered = 0
  let fault: Error | null = null
  return {
    async next () {
      try {
        const { done, value } = await iterator.next()
        if (done === true) return null
        if (value.info.deliverySequence === ++delivered) return value
        fault = new Error(`message ${delivered} of this consumer is missing`)
      } catch (error) {
        fault = asError(error)
      }
      return null
    },
    fault: () => fault,
    stop: () => messages.stop()
  }
}
