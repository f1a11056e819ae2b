import type { ConsumerMessages } from 'nats'
import { api } from './api.ts'
import type { Bus } from './connect.ts'

/** What an ephemeral consumer delivers. */
export interface ConsumerRange {
  stream: string
  /** Subject filters, wildcards allowed; none may match what another matches. A consumer with several finds its
   *  messages ten times slower. Left out = every message, and the server counts nothing. */
  filters?: string[]
  /** Messages after this sequence. */
  afterSeq: number
  /** Without their bodies: `data` is empty. */
  headersOnly?: boolean
}

/** Creates a consumer that nobody acknowledges to; unused, it leaves the server after `inactiveMs`. */
export async function createConsumer (
  bus: Bus,
  { stream, filters, afterSeq, headersOnly = false }: ConsumerRange,
  inactiveMs: number,
  timeoutMs?: number
): Promise<{ name: string, pending: number }> {
  const config = {
    ack_policy: 'none',
    deliver_policy: 'by_start_sequence',
    opt_start_seq: afterSeq + 1,
    ...(filters?.length === 1 ? { filter_subject: filters[0] } : { filter_subjects: filters }),
    headers_only: headersOnly,
    mem_storage: true,
    num_replicas: 1,
    inactive_threshold: inactiveMs * 1e6
  }
  const info = await api<{ name: string, num_pending: number }>(
    bus,
    `CONSUMER.CREATE.${stream}`,
    { stream_name: stream, config },
    timeoutMs
  )
  return { name: info.name, pending: info.num_pending }
}

/** Messages of a consumer, at most `prefetch` of them before they are asked for. Stops with `stopping`, by `stop` when
 *  that is given; and with its connection, since the client would wait on it for ever. */
export async function consume (
  bus: Bus,
  { stream, name, prefetch }: { stream: string, name: string, prefetch: number },
  stopping: AbortSignal,
  stop = (messages: ConsumerMessages) => messages.stop()
): Promise<ConsumerMessages> {
  const { nc, js } = bus
  const consumer = await js.consumers.get(stream, name)
  const messages = await consumer.consume({ max_messages: prefetch, expires: 10_000, abort_on_missing_resource: true })
  const onAbort = () => stop(messages)
  stopping.addEventListener('abort', onAbort, { once: true })
  const forget = bus.onBreak(() => messages.stop())
  void messages.closed().then(() => {
    stopping.removeEventListener('abort', onAbort)
    forget()
  })
  if (stopping.aborted) onAbort()
  // It broke before we could hear of it.
  if (nc.isClosed()) messages.stop()
  return messages
}

/** Does not wait for an answer. */
export function deleteConsumer (bus: Bus, stream: string, name: string): void {
  if (!bus.nc.isClosed()) bus.nc.publish(`$JS.API.CONSUMER.DELETE.${stream}.${name}`)
}

const COUNTED_MS = 5000

/** How many messages there are under a filter after a sequence, as NATS counts them. */
export async function countAfter (bus: Bus, stream: string, filter: string, afterSeq: number): Promise<number> {
  const { name, pending } = await createConsumer(bus, { stream, filters: [filter], afterSeq }, COUNTED_MS)
  deleteConsumer(bus, stream, name)
  return pending
}
