import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import { decodeMessage, type EncodedFact } from './message.ts'
import { openOrdered, type OrderedMessages } from './ordered.ts'
import { joinTail, type Tail } from './tail.ts'

export interface FollowOptions {
  stream: string
  /** Subject filter, wildcards allowed. */
  filter: string
  /** Facts after this sequence. */
  afterSeq: number
  /** At most so many facts in one batch, gathered from the first on until the promise resolves. */
  batchMax: number
  gather(): Promise<void>
  signal: AbortSignal
  /** Told of each interruption; following goes on by itself. */
  onError: (error: Error) => void
  /** Told whenever following has begun, at first and after an interruption. */
  onFollowing?: () => void
  /** Reads the end of the stream together with others of this connection: for roles that follow for good. */
  shared?: boolean
}

const REOPEN_MS = 100

type Decode<T> = (message: EncodedFact) => T

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
  const ending = new AbortController()
  const signal = AbortSignal.any([options.signal, ending.signal])
  // Who reads no further may never end this generator, but aborts the signal.
  const tail = options.shared === true ? joinTail(bus, options.stream, signal) : null
  try {
    await tail?.begun
    for (let after = options.afterSeq; !signal.aborted;) {
      const isTail = tail?.covers(after) === true
      const read = { ...options, signal }
      for await (const batch of isTail ? ofTail(tail, read, after) : ofConsumer(bus, read, after)) {
        after = batch.at(-1)!.seq
        yield batch.map(decode)
        if (!isTail && tail?.covers(after) === true) break
      }
      if (tail?.covers(after) !== true) await sleep(REOPEN_MS, signal)
    }
  } finally {
    ending.abort()
  }
}

/** Ends when the reader has left too much lying, and when the stream turns out to be another one. */
async function* ofTail (tail: Tail, options: FollowOptions, afterSeq: number): AsyncGenerator<EncodedFact[]> {
  const { filter, signal, onError, onFollowing = () => {} } = options
  const reader = tail.read({ filter, afterSeq, onError, onFollowing }, signal)
  try {
    for (;;) {
      const batch = await reader.batch(options)
      if (batch.length === 0) return
      yield batch
    }
  } finally {
    reader.close()
  }
}

/** Ends with its consumer. */
async function* ofConsumer (bus: Bus, options: FollowOptions, after: number): AsyncGenerator<EncodedFact[]> {
  const { stream, filter, batchMax, signal, onError, onFollowing } = options
  const range = { stream, filters: [filter], afterSeq: after }
  const messages = await openOrdered(bus, range, 2 * batchMax, signal).catch(error => {
    onError(asError(error))
    return null
  })
  if (messages === null) return
  onFollowing?.()
  try {
    yield* batches(messages, options)
  } finally {
    // Who leaves early, or meets a fact that does not fit, must not leave a consumer behind that goes on pulling.
    messages.stop()
  }
  const fault = messages.fault()
  if (fault !== null) onError(fault)
}

/** Gathers what comes close together. A message that is still awaited when the time is up opens the next batch. */
async function* batches (messages: OrderedMessages, options: FollowOptions): AsyncGenerator<EncodedFact[]> {
  let next = messages.next()
  for (;;) {
    const first = await next
    if (first === null) return
    const batch: EncodedFact[] = [first]
    next = messages.next()
    const timeUp = options.gather().then(() => null)
    while (batch.length < options.batchMax) {
      const more = await Promise.race([next, timeUp])
      if (more === null) break
      batch.push(more)
      next = messages.next()
    }
    yield batch
  }
}
