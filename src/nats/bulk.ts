import { createInbox, type Msg } from 'nats'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { JetStreamError, NO_MESSAGE } from './errors.ts'

export interface BulkOptions {
  stream: string
  /** Subject filter, wildcards allowed. One: a consumer with several finds its messages ten times slower. */
  filter: string
  /** Messages after the one, up to the other. */
  afterSeq: number
  upToSeq: number
  signal: AbortSignal
  /** Told of each interruption; reading goes on by itself. */
  onError: (error: Error) => void
}

/** A message as it lies in a stream. */
export interface Stored {
  stream: string
  seq: number
  /** Unix ms. */
  storedMs: number
  subject: string
  data: Uint8Array
}

/** `place` among those of its consumer, from 1; how many more there were `behind` it. */
interface Given extends Stored {
  place: number
  behind: number
}

const PULL_MESSAGES = 1000
/** Beyond the largest message there can be, or none would come. */
const PULL_BYTES_SPARE = 64 * 1024
const PULL_NS = 5e9
const PULL_ENDS = /^(Batch Completed|Message Size Exceeds MaxBytes)$/i
const SILENCE_MS = 10_000
const LOOK_MS = 250
/** An unused consumer leaves the server by itself after this: longer than one chunk is ever written. */
const INACTIVE_NS = 120e9
const REOPEN_MS = 200

/** A part of a stream in order, as fast as it can be taken and no faster: in arrays of what has come, and no promise a
 *  message. Ends at `upToSeq`, or when `signal` is aborted. Interruptions are told and gone over. */
export async function* readBulk (bus: Bus, options: BulkOptions): AsyncGenerator<Stored[]> {
  let after = options.afterSeq
  while (!options.signal.aborted && after < options.upToSeq) {
    let pull: Pull | null = null
    try {
      pull = await openPull(bus, options, after)
      for (;;) {
        if (pull.exhausted() && await isAll(bus, options, after)) return
        const messages = await pull.take()
        const wanted = messages.filter(({ seq }) => seq <= options.upToSeq)
        if (wanted.length > 0) {
          after = wanted.at(-1)!.seq
          yield wanted
        }
        if (options.signal.aborted || wanted.length < messages.length || after >= options.upToSeq) return
      }
    } catch (error) {
      if (options.signal.aborted) return
      options.onError(asError(error))
    } finally {
      pull?.close()
    }
    await sleep(REOPEN_MS, options.signal)
  }
}

/** How many messages there are under a filter after a sequence, as NATS counts them. */
export async function countAfter (bus: Bus, stream: string, filter: string, afterSeq: number): Promise<number> {
  const { name, num_pending: pending } = await createConsumer(bus, { stream, filter }, afterSeq)
  forget(bus, stream, name)
  return pending
}

/** Whether there is nothing more to come, by the word of the stream's leader: the consumer may stand on a replica that
 *  has not heard of the newest. */
async function isAll (bus: Bus, { stream, filter, upToSeq }: BulkOptions, after: number): Promise<boolean> {
  try {
    const { message } = await api<{ message: { seq: number } }>(bus, `STREAM.MSG.GET.${stream}`, {
      seq: after + 1,
      next_by_subj: filter
    })
    return message.seq > upToSeq
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return true
    throw error
  }
}

interface Pull {
  /** What has come, at least one message; or none, when there was nothing for a while. Throws when one is missing, or
   *  the server falls silent or refuses. */
  take(): Promise<Stored[]>
  /** The consumer has given all there was. */
  exhausted(): boolean
  close(): void
}

async function createConsumer (
  bus: Bus,
  { stream, filter }: Pick<BulkOptions, 'stream' | 'filter'>,
  after: number
): Promise<{ name: string, num_pending: number }> {
  return await api(bus, `CONSUMER.CREATE.${stream}`, {
    stream_name: stream,
    config: {
      ack_policy: 'none',
      deliver_policy: 'by_start_sequence',
      opt_start_seq: after + 1,
      filter_subject: filter,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: INACTIVE_NS
    }
  })
}

function forget (bus: Bus, stream: string, consumer: string): void {
  bus.nc.publish(`$JS.API.CONSUMER.DELETE.${stream}.${consumer}`)
}

async function openPull (bus: Bus, { stream, filter, signal }: BulkOptions, after: number): Promise<Pull> {
  const upSinceMs = bus.upSinceMs()
  const { name, num_pending: pending } = await createConsumer(bus, { stream, filter }, after)
  const bytes = (bus.nc.info?.max_payload ?? 0) + PULL_BYTES_SPARE
  const inbox = createInbox()
  let arrived: Stored[] = []
  let [asked, delivered, behind] = [0, 0, pending]
  let fault: Error | null = null
  let wake: (() => void) | null = null

  const subscription = bus.nc.subscribe(inbox, {
    callback: (error, message) => {
      if (error !== null) fault = error
      // Only what lies in the stream can be answered. Its headers are not looked at: reading them takes as long as
      // reading the rest.
      else if (message.reply) onMessage(message)
      else onStatus(message)
      wake?.()
    }
  })

  function onMessage (message: Msg): void {
    const stored = givenIn(stream, message)
    asked--
    behind = stored.behind
    if (stored.place === ++delivered) arrived.push(stored)
    else fault ??= new Error(`message ${delivered} of this consumer is missing`)
  }

  /** The end of a pull: it is filled, by count or bytes, its time is over, or the consumer is gone. */
  function onStatus ({ headers }: Msg): void {
    const { code, description } = headers!
    asked -= Number(headers!.get('Nats-Pending-Messages'))
    if (code !== 404 && code !== 408 && !PULL_ENDS.test(description)) {
      fault = new Error(`the stream cannot be read: ${code} ${description}`)
    }
  }

  /** The next messages are on their way while the last ones are worked on, and never more than two pulls. */
  function pull (): void {
    if (asked > PULL_MESSAGES / 2 || arrived.length > PULL_MESSAGES / 2) return
    asked += PULL_MESSAGES
    bus.nc.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${stream}.${name}`,
      JSON.stringify({ batch: PULL_MESSAGES, max_bytes: bytes, expires: PULL_NS }),
      { reply: inbox }
    )
  }

  /** A line that broke takes what was asked for with it, and nobody says so. */
  async function wait (): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const endMs = performance.now() + SILENCE_MS
    const look = () => {
      if (bus.upSinceMs() !== upSinceMs) fault = new Error('the connection broke')
      else if (performance.now() > endMs) fault = new Error(`nothing came within ${SILENCE_MS / 1000} s`)
      if (fault !== null) resolve()
    }
    const timer = setInterval(look, LOOK_MS)
    wake = () => resolve()
    signal.addEventListener('abort', wake, { once: true })
    await promise
    signal.removeEventListener('abort', wake)
    wake = null
    clearInterval(timer)
  }

  return {
    async take () {
      pull()
      if (arrived.length === 0 && fault === null && !signal.aborted) await wait()
      if (fault !== null && arrived.length === 0) throw fault
      const taken = arrived
      arrived = []
      pull()
      return taken
    },
    exhausted: () => behind === 0 && arrived.length === 0,
    close () {
      subscription.unsubscribe()
      if (!bus.nc.isClosed()) forget(bus, stream, name)
    }
  }
}

/** What the server says of a message in its reply subject:
 *  `$JS.ACK.<stream>.<consumer>.<tries>.<sequence>.<place>.<ns>.<behind>`, or with domain and account before the stream
 *  and one word more at the end. Source: nats-server ADR-15. */
function givenIn (stream: string, { subject, reply, data }: Msg): Given {
  const words = reply!.split('.')
  const at = words.length === 9 ? 5 : 7
  return {
    stream,
    seq: Number(words[at]),
    place: Number(words[at + 1]),
    storedMs: Math.floor(Number(words[at + 2]) / 1e6),
    behind: Number(words[at + 3]),
    subject,
    data
  }
}
