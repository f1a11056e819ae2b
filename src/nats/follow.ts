import type { ConsumerMessages, JsMsg } from 'nats'
import { decodeFact, Newer, type AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import { api } from './api.ts'
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
  onError: (error: Error) => void
  /** Told whenever following has begun, at first and after an interruption: by which consumer. */
  onFollowing?: (consumer: string) => void
}

/** What lies at a place of a stream: a fact, or why it cannot be read as one. */
export interface Found {
  seq: number
  subject: string
  fact: AnyFact | null
  /** '' = it can. */
  reason: string
  /** A newer Jetpost can. */
  newer: boolean
}

/** An unused consumer leaves the server by itself after this. */
const INACTIVE_NS = 30e9
const REOPEN_MS = 100

/** The facts of a stream in order, from a place on and for ever, in batches; ends when `signal` is aborted.
 *  Interruptions are told and gone over: it goes on after the last fact it gave. The consumer on the server is
 *  throw-away: the cursor is the caller's. Throws only when a fact does not fit its schema. */
export function follow (bus: Bus, options: FollowOptions): AsyncGenerator<Recorded<AnyFact>[]> {
  return followAs(
    bus,
    options,
    message => ({ fact: decodeFact(message.data), seq: message.seq, subject: message.subject })
  )
}

/** The same, and what cannot be read as a fact comes along. */
export function followAll (bus: Bus, options: FollowOptions): AsyncGenerator<Found[]> {
  return followAs(bus, options, find)
}

async function* followAs<T extends { seq: number }> (
  bus: Bus,
  options: FollowOptions,
  read: (message: JsMsg) => T
): AsyncGenerator<T[]> {
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
          yield batch.map(read)
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
  const { name } = await api<{ name: string }>(bus, `CONSUMER.CREATE.${options.stream}`, {
    stream_name: options.stream,
    config: {
      ack_policy: 'none',
      deliver_policy: 'by_start_sequence',
      opt_start_seq: after + 1,
      filter_subject: options.filter,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: INACTIVE_NS
    }
  })
  const consumer = await bus.js.consumers.get(options.stream, name)
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

/** Reads a message as a fact, or says why it is none. */
export function find ({ seq, subject, data }: Pick<JsMsg, 'seq' | 'subject' | 'data'>): Found {
  try {
    return { seq, subject, fact: decodeFact(data), reason: '', newer: false }
  } catch (error) {
    return { seq, subject, fact: null, reason: asError(error).message, newer: error instanceof Newer }
  }
}
