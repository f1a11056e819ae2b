import { DeliverPolicy, type ConsumerMessages, type JsMsg } from 'nats'
import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'

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
  onTrouble: (error: Error) => void
  /** Told whenever following has begun, at first and after an interruption. */
  onFollowing?: () => void
}

/** The facts of a stream in order, from a place on and for ever, in batches; ends when `signal` is aborted.
 *  The consumer on the server is throw-away: the cursor is the caller's. Throws when a fact does not fit its schema. */
export async function * follow (bus: Bus, options: FollowOptions): AsyncGenerator<Recorded<AnyFact>[]> {
  let after = options.afterSeq
  while (!options.signal.aborted) {
    const messages = await open(bus, options, after).catch(error => {
      options.onTrouble(asError(error))
      return null
    })
    if (messages === null) {
      await sleep(250, options.signal)
      continue
    }
    try {
      for await (const batch of batches(messages, options)) {
        after = batch.at(-1)!.seq
        yield batch.map(read)
      }
    } finally {
      // Who leaves early, or meets a fact that does not fit, must not leave a consumer behind that goes on pulling.
      messages.stop()
    }
  }
}

async function open (bus: Bus, options: FollowOptions, after: number): Promise<ConsumerMessages> {
  const consumer = await bus.js.consumers.get(options.stream, {
    filterSubjects: options.filter,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: after + 1
  })
  const messages = await consumer.consume({ max_messages: 2 * options.batchMax, expires: 10_000, abort_on_missing_resource: true })
  const stop = () => messages.stop()
  options.signal.addEventListener('abort', stop, { once: true })
  void messages.closed().then(error => {
    options.signal.removeEventListener('abort', stop)
    if (error instanceof Error) options.onTrouble(error)
  })
  if (options.signal.aborted) stop()
  options.onFollowing?.()
  return messages
}

/** Gathers what comes close together. A message that is still awaited when the time is up opens the next batch. */
async function * batches (messages: ConsumerMessages, options: FollowOptions): AsyncGenerator<JsMsg[]> {
  const iterator = messages[Symbol.asyncIterator]()
  let next = iterator.next()
  for (;;) {
    const first = await next
    if (first.done === true) return
    const batch = [first.value]
    next = iterator.next()
    const timeUp = sleep(options.gatherMs).then(() => null)
    while (batch.length < options.batchMax) {
      const more = await Promise.race([next, timeUp])
      if (more === null || more.done === true) break
      batch.push(more.value)
      next = iterator.next()
    }
    yield batch
  }
}

function read (message: JsMsg): Recorded<AnyFact> {
  return { fact: decodeFact(message.data), seq: message.seq, subject: message.subject }
}
