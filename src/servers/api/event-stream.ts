import { createCipheriv, createDecipheriv } from 'node:crypto'
import { once } from 'node:events'
import { Readable, type Writable } from 'node:stream'
import { sleep } from '#src/base/backoff.ts'
import type { Log } from '#src/base/log.ts'
import type { Tokens } from '#src/content/token.ts'
import { createChangeNotifier, type ChangeNotifier } from '#src/nats/change-notifier.ts'
import { isUnanswered, JetStreamError } from '#src/nats/errors.ts'
import { unavailable } from './errors.ts'
import { readsAfter, STREAM, type FeedServices, type FeedEvent, type Wanted } from './feed.ts'

/** The places of an account's feed as it sees them. */
export interface Cursors {
  /** 22 characters of base64url; the same for the same sequence on every node, until JETPOST_SECRET changes. */
  cursorOf(seq: number): string
  /** The sequence that a cursor names; null when it is none of this account's. */
  parseCursor(cursor: string): number | null
}

const BLOCK_BYTES = 16

/** A sequence of EMAILS counts what happens to all accounts, which is none of their business: so it goes out as one
 *  block of AES, in whose other half zeros say that it was ours. The key follows from JETPOST_SECRET and the account;
 *  cursors that older secrets of the ring made are read too. */
export function cursorsOf (tokens: Tokens, account: string): Cursors {
  const keys = tokens.keysFor(`cursors of ${account}`)
  const cipher = createCipheriv('aes-256-ecb', keys[0]!, null).setAutoPadding(false)
  const deciphers = keys.map(key => createDecipheriv('aes-256-ecb', key, null).setAutoPadding(false))
  return {
    cursorOf (seq) {
      const block = Buffer.alloc(BLOCK_BYTES)
      block.writeBigUInt64BE(BigInt(seq), 8)
      return cipher.update(block).toString('base64url')
    },
    parseCursor (cursor) {
      const bytes = Buffer.from(cursor, 'base64url')
      if (bytes.length !== BLOCK_BYTES || bytes.toString('base64url') !== cursor) return null
      const block = deciphers.map(decipher => decipher.update(bytes)).find(one => one.readBigUInt64BE(0) === 0n)
      return block === undefined ? null : Number(block.readBigUInt64BE(8))
    }
  }
}

/** How patient streams are, and how many there may be. */
export interface StreamLimits {
  /** A connection that is silent for longer looks dead to proxies. */
  heartbeatMs: number
  /** A client that reads nothing for as long is disconnected. */
  stallMs: number
  accountMax: number
  processMax: number
}

const LIMITS: StreamLimits = { heartbeatMs: 15_000, stallMs: 60_000, accountMax: 20, processMax: 500 }
/** How often each stream's key and client are checked: a revoked key's streams end within a second. */
const CHECK_MS = 250
const RESUME_MS = 1000
/** Clients wait as long before they reconnect. */
const RECONNECT_MS = 2000
const RETRY_AFTER_S = 10

/** What a stream is about. */
export interface StreamRequest {
  wanted: Wanted
  /** The client has everything up to here, or does not want it. */
  afterSeq: number
  /** False once its key no longer allows it. */
  isAllowed(): boolean
}

interface Listener extends StreamRequest {
  ending: AbortController
  /** Something happened in its account since it read last. */
  isNotified: boolean
  wake: () => void
  /** On the steady clock: since when the client has been offered something that it has not read; null = it has read
   *  all. */
  offeredMs: number | null
}

/** The server-sent events of this process: each stream follows the log for as long as its client reads it. */
export class EventStreams {
  private readonly services: FeedServices
  private readonly log: Log
  private readonly limits: StreamLimits
  private readonly notifier: ChangeNotifier
  private readonly listeners = new Map<Listener, Writable>()
  private checking: NodeJS.Timeout | undefined
  private isStopped = false

  constructor (services: FeedServices, log: Log, limits: Partial<StreamLimits> = {}) {
    this.services = services
    this.log = log
    this.limits = { ...LIMITS, ...limits }
    this.notifier = createChangeNotifier(services.factLog.bus, { stream: STREAM, filter: 'email.>' }, log)
  }

  /** An endless stream of server-sent events, to be written to `connection`: ended by the end of its key, by `stop`,
   *  and by a client that reads nothing. Throws 503 when there are too many. Source:
   *  https://html.spec.whatwg.org/multipage/server-sent-events.html */
  open (request: StreamRequest, connection: Writable): Readable {
    this.refuseTooMany(request.wanted.account)
    if (connection.destroyed) return Readable.from([])
    const listener: Listener = {
      ...request,
      ending: new AbortController(),
      isNotified: false,
      wake: () => {},
      offeredMs: null
    }
    listener.ending.signal.addEventListener('abort', () => listener.wake())
    this.add(listener, connection)
    return Readable.from(this.write(listener), { objectMode: false, highWaterMark: 0 })
  }

  async stop (): Promise<void> {
    this.isStopped = true
    const connections = [...this.listeners.values()]
    for (const { ending } of this.listeners.keys()) ending.abort()
    await Promise.all(connections.map(connection => once(connection, 'close').catch(() => {})))
    await this.notifier.stop()
  }

  private refuseTooMany (account: string): void {
    const { processMax, accountMax } = this.limits
    if (this.isStopped || this.listeners.size >= processMax) {
      throw unavailable('too_many_streams', 'This server has no room for another stream: try again.', RETRY_AFTER_S)
    }
    const own = [...this.listeners.keys()].filter(({ wanted }) => wanted.account === account).length
    if (own < accountMax) return
    const sentence = `An account can have at most ${accountMax} streams on one server: end one first.`
    throw unavailable('too_many_streams', sentence, RETRY_AFTER_S)
  }

  /** The first one begins the checks, the last one ends them. */
  private add (listener: Listener, connection: Writable): void {
    if (this.listeners.size === 0) this.checking = setInterval(() => this.check(), CHECK_MS)
    this.listeners.set(listener, connection)
    const leave = this.notifier.listen(listener.wanted.account, () => {
      listener.isNotified = true
      listener.wake()
    })
    connection.once('close', () => {
      leave()
      listener.ending.abort()
      this.listeners.delete(listener)
      if (this.listeners.size === 0) clearInterval(this.checking)
    })
  }

  private check (): void {
    for (const [{ ending, offeredMs, isAllowed }, connection] of this.listeners) {
      const isStalled = offeredMs !== null && performance.now() - offeredMs > this.limits.stallMs
      // A stream that was ended a check ago and is still there has a client that does not read what is left.
      if (ending.signal.aborted || isStalled) connection.destroy()
      else if (!isAllowed()) ending.abort()
    }
  }

  /** Goes on only once the last chunk is read: no client makes this hold more than one answer of NATS. */
  private async *write (listener: Listener): AsyncGenerator<string> {
    const { heartbeatMs } = this.limits
    let writtenMs = performance.now()
    for await (const chunk of this.chunks(listener, () => Math.max(0, writtenMs + heartbeatMs - performance.now()))) {
      listener.offeredMs = performance.now()
      yield chunk
      listener.offeredMs = null
      writtenMs = performance.now()
    }
  }

  /** `untilBeatMs` = how long it may still be silent. */
  private async *chunks (listener: Listener, untilBeatMs: () => number): AsyncGenerator<string> {
    const { wanted, ending: { signal } } = listener
    const { cursorOf } = cursorsOf(this.services.tokens, wanted.account)
    let { afterSeq } = listener
    // An id before all events: a client that gets none comes back to this cursor too.
    yield `retry: ${RECONNECT_MS}\nid: ${cursorOf(afterSeq)}\n\n`
    while (!signal.aborted) {
      listener.isNotified = false
      try {
        for await (const { events, seq } of readsAfter(this.services, wanted, afterSeq)) {
          for (const event of events) {
            if (signal.aborted) return
            yield eventText(event, cursorOf(event.seq))
          }
          afterSeq = seq
          if (untilBeatMs() === 0) yield beatText(cursorOf(afterSeq))
        }
        if (!listener.isNotified) await rest(listener, untilBeatMs())
      } catch (error) {
        await this.pause(error, signal)
      }
      if (untilBeatMs() === 0 && !signal.aborted) yield beatText(cursorOf(afterSeq))
    }
  }

  /** While NATS is unavailable the stream stays, and catches up later. Throws other errors. */
  private async pause (error: unknown, signal: AbortSignal): Promise<void> {
    if (isUnanswered(error) || error instanceof JetStreamError) return await sleep(RESUME_MS, signal)
    this.log.error({ err: error }, 'event stream failed; ending it')
    throw error
  }
}

/** Until it is notified or ended, or `ms` are over. */
async function rest (listener: Listener, ms: number): Promise<void> {
  const waking = new AbortController()
  listener.wake = () => waking.abort()
  if (!listener.ending.signal.aborted) await sleep(ms, waking.signal)
}

/** A comment with the cursor it has come to: a client that wants few of many events need not skip the rest again. */
function beatText (cursor: string): string {
  return `: nothing new\nid: ${cursor}\n\n`
}

/** The body has no line breaks of its own: it is JSON on one line. */
function eventText ({ type, body }: FeedEvent, cursor: string): string {
  return `id: ${cursor}\nevent: ${type}\ndata: ${body}\n\n`
}
