import type { JsMsg } from 'nats'
import { deadline } from '#src/base/errors.ts'
import { sleep } from '#src/base/backoff.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { lastSequence } from './load.ts'

/** A message as it lies in a stream, whatever it holds. */
export interface Message { subject: string, seq: number, bytes: Uint8Array, storedMs: number }

export interface ScanOptions {
  stream: string
  /** Subject filters, wildcards allowed; none of them may hold what another does. */
  filters: string[]
  afterSeq: number
  /** Only where and when, not what: `bytes` is empty. */
  headersOnly?: boolean
  signal?: AbortSignal
}

/** Above the biggest message there can be, below what a pull may ask for. */
const PULL_BYTES = 16 * 1024 * 1024
const MADE_MS = 30_000
const SILENCE_MS = 15_000
const TRIES = 5
const PAUSE_MS = 500
const INACTIVE_NS = 30e9

/** Shows everything under the filters that is in a stream now, once and in order; `each` holds the rest back while it is at work. Resolves to the place up to
 *  which it looked: what is after it was not there, or not on the replica that answered. Interruptions are gone over, five without a message between them
 *  are thrown. */
export async function scan (bus: Bus, options: ScanOptions, each: (message: Message) => void | Promise<void>): Promise<number> {
  const endSeq = await lastSequence(bus, options.stream)
  let after = options.afterSeq
  for (let failures = 0; after < endSeq && options.signal?.aborted !== true;) {
    const before = after
    try {
      await pass(bus, { ...options, afterSeq: after }, endSeq, async message => {
        await each(message)
        after = message.seq
      })
      return after
    } catch (error) {
      failures = after > before ? 1 : failures + 1
      if (failures >= TRIES) throw error
      await sleep(PAUSE_MS)
    }
  }
  return after
}

/** As far as one consumer gets. */
async function pass (bus: Bus, options: ScanOptions, endSeq: number, each: (message: Message) => Promise<void>): Promise<void> {
  const { name, num_pending: pending } = await makeConsumer(bus, options)
  if (pending === 0) return
  const consumer = await bus.js.consumers.get(options.stream, name)
  const messages = await consumer.consume({ max_bytes: PULL_BYTES, expires: 10_000, abort_on_missing_resource: true })
  const iterator = messages[Symbol.asyncIterator]()
  try {
    for (let delivered = 1; options.signal?.aborted !== true; delivered++) {
      const message = await nextOf(iterator)
      if (message.info.deliverySequence !== delivered) throw new Error(`message ${delivered} of this consumer is missing`)
      await each({ subject: message.subject, seq: message.seq, bytes: message.data, storedMs: message.info.timestampNanos / 1e6 })
      if (message.info.pending === 0 || message.seq >= endSeq) return
    }
  } finally {
    messages.stop()
  }
}

async function makeConsumer (bus: Bus, { stream, filters, afterSeq, headersOnly = false }: ScanOptions): Promise<{ name: string, num_pending: number }> {
  return await api(bus, `CONSUMER.CREATE.${stream}`, {
    stream_name: stream,
    config: {
      ack_policy: 'none',
      deliver_policy: 'by_start_sequence',
      opt_start_seq: afterSeq + 1,
      filter_subjects: filters,
      headers_only: headersOnly,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: INACTIVE_NS
    }
  }, MADE_MS)
}

async function nextOf (iterator: AsyncIterator<JsMsg>): Promise<JsMsg> {
  const { done, value } = await deadline(iterator.next(), SILENCE_MS, 'the stream says nothing')
  if (done === true) throw new Error('the consumer has ended')
  return value as JsMsg
}
