import type { ConsumerMessages, JsMsg } from 'nats'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import { createConsumer } from './consumer.ts'
import { decodeMessage, type StoredMessage } from './message.ts'

export interface FollowOptions {
  stream: string
  /** Subject filter, wildcards allowed. */
  filter: string
  /** Facts after this sequence. */
  afterSeq: number
  /** At most so many facts in one batch, gathered for at most so long after the first. */
  batchMax: number
  gatherMs: number
  signal: AbortSignal
  /** Told of each interruption; following goes on by itself. */
  onError: (error: Error) => void
  /** Told whenever following has begun, at first and after an interruption: by which consumer. */
  onFollowing?: (consumer: string) => void
}

/** An unused consumer leaves the server by itself after this. */
const INACTIVE_MS = 30_000
const REOPEN_MS = 100

type Decode<T> = (message: Pick<StoredMessage, 'seq' | 'subject' | 'data'>) => T

/** The facts of a stream in order, from a position on and for ever, in batches; ends when `signal` is aborted. After an
 *  interruption it goes on after the last fact it gave. The consumer on the server is ephemeral: the cursor is the
 *  caller's. Throws only what `decode` throws, which is `decodeMessage` unless given. */
export function follow (bus: Bus, options: FollowOptions): AsyncGenerator<Recorded<AnyFact>[]>
export function follow<T extends { seq: number }> (
  bus: Bus,
  options: FollowOptions,
  decode: Decode<T>
): AsyncGenerator<T[]>
export async function* follow (
  bus: Bus,
  options: FollowOptions,
  decode: Decode<{ seq: number }> = decodeMessage
): AsyncGenerator<Array<{ seq: number }>> {
  let after = options.afterSeq
  while (!options.signal.aborted) {
    const messages = await open(bus, options, after).catch(error => {
      options.onError(asError(error))
      return null
    })
    if (messages !== null) {
      try {
        for await (const batch of batches(messages, options)) {
          after = batch.at(-1)!.seq
          yield batch.map(decode)
        }
      } finally {
        // Who leaves early, or meets a fact that does not fit, must not leave a consumer behind that goes on pulling.
        messages.stop()
      }
    }
    await sleep(REOPEN_MS, options.signal)
  }
}

/** A consumer of our own making, not the client's ordered one: that one, when its consumer is lost, makes itself
 *  another which nobody can stop. */
async function open (bus: Bus, options: FollowOptions, after: number): Promise<ConsumerMessages> {
  const { stream, filter } = options
  const { name } = await createConsumer(bus, { stream, filters: [filter], afterSeq: after }, INACTIVE_MS)
  const consumer = await bus.js.consumers.get(stream, name)
  const messages = await consumer.consume({
    max_messages: 2 * options.batchMax,
    expires: 10_000,
    abort_on_missing_resource: true
  })
  const stop = () => messages.stop()
  options.signal.addEventListener('abort', stop, { once: true })
  void messages.closed().then(() => options.signal.removeEventListener('abort', stop))
  if (options.signal.aborted) stop()
  options.onFollowing?.(name)
  return messages
}

/** Gathers what comes close together. A message that is still awaited when the time is up opens the next batch. Ends
 *  with the consumer. */
async function* batches (messages: ConsumerMessages, options: FollowOptions): AsyncGenerator<JsMsg[]> {
  const pull = inOrder(messages, options.onError)
  let next = pull()
  for (;;) {
    const first = await next
    if (first === null) return
    const batch = [first]
    next = pull()
    const timeUp = sleep(options.gatherMs).then(() => null)
    while (batch.length < options.batchMax) {
      const more = await Promise.race([next, timeUp])
      if (more === null) break
      batch.push(more)
      next = pull()
    }
    yield batch
  }
}

/** One message after the other; null at the end, at an error, and where one is missing. Never rejects: nobody may be
 *  waiting when it does. */
function inOrder (messages: ConsumerMessages, onError: (error: Error) => void): () => Promise<JsMsg | null> {
  const iterator = messages[Symbol.asyncIterator]()
  let delivered = 0
  return async () => {
    try {
      const { done, value } = await iterator.next()
      if (done === true) return null
      if (value.info.deliverySequence === ++delivered) return value
      onError(new Error(`message ${delivered} of this consumer is missing`))
    } catch (error) {
      onError(asError(error))
    }
    return null
  }
}
