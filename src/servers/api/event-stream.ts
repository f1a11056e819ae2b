import { once } from 'node:events'
import { Readable, type Writable } from 'node:stream'
import { sleep } from '#src/base/backoff.ts'
import type { Log } from '#src/base/log.ts'
import { createChangeNotifier } from '#src/nats/change-notifier.ts'
import { isUnanswered, JetStreamError } from '#src/nats/errors.ts'
import { unavailable } from './errors.ts'
import { cursorsOf } from './event-cursors.ts'
import { looksAfter, STREAM, type FeedServices, type FeedEvent, type Wanted } from './feed.ts'

/** How patient streams are, and how many there may be. */
export interface StreamLimits {
  /** A line that says nothing for longer looks dead to what lies between. */
  heartbeatMs: number
  /** A reader that takes nothing for as long is cut off. */
  stallMs: number
  accountMax: number
  processMax: number
}

const LIMITS: StreamLimits = { heartbeatMs: 15_000, stallMs: 60_000, accountMax: 20, processMax: 500 }
/** How often each stream's key and reader are looked at: a revoked key's streams end within a second. */
const WATCH_MS = 250
const AGAIN_MS = 1000
/** Clients wait as long before they come again. */
const RETRY_MS = 2000
const BUSY_S = 10

export interface Listening {
  wanted: Wanted
  /** Everything up to here it has, or does not want. */
  afterSeq: number
  /** False once its key no longer allows it. */
  stands(): boolean
}

/** The streams of this process: what is written follows the log, for as long as somebody reads it. */
export interface EventStreams {
  /** Server-sent events, from a place on and for ever, to be written to `line`: ended by the end of its key, by `stop`,
   *  and by a reader that takes nothing. Throws a Problem when there are too many. Source:
   *  https://html.spec.whatwg.org/multipage/server-sent-events.html */
  open(listening: Listening, line: Writable): Readable
  stop(): Promise<void>
}

interface Listener extends Listening {
  ending: AbortController
  /** Something happened in its account since it looked last. */
  rung: boolean
  wake: () => void
  /** On the steady clock: since when its reader has been given something that it has not taken; null = it has taken
   *  all. */
  offeredMs: number | null
}

export function createEventStreams (
  services: FeedServices,
  log: Log,
  limits: Partial<StreamLimits> = {}
): EventStreams {
  const { heartbeatMs, stallMs, accountMax, processMax } = { ...LIMITS, ...limits }
  const listeners = new Map<Listener, Writable>()
  const notifier = createChangeNotifier(services.appenders.bus, { stream: STREAM, filter: 'email.>' }, log)
  let watch: NodeJS.Timeout | undefined
  let stopped = false

  function open (listening: Listening, line: Writable): Readable {
    const { account } = listening.wanted
    if (stopped || listeners.size >= processMax) {
      throw unavailable('too_many_streams', 'This process cannot hold another stream', BUSY_S)
    }
    const own = [...listeners.keys()].filter(({ wanted }) => wanted.account === account).length
    if (own >= accountMax) {
      throw unavailable(
        'too_many_streams',
        `This account has ${own} streams here, the most it can have: one must end first`,
        BUSY_S
      )
    }
    if (line.destroyed) return Readable.from([])
    const listener: Listener = {
      ...listening,
      ending: new AbortController(),
      rung: false,
      wake: () => {},
      offeredMs: null
    }
    listener.ending.signal.addEventListener('abort', () => listener.wake())
    join(listener, line)
    return Readable.from(written(listener), { objectMode: false, highWaterMark: 0 })
  }

  /** The first one begins to watch, the last one ends that. */
  function join (listener: Listener, line: Writable): void {
    if (listeners.size === 0) watch = setInterval(look, WATCH_MS)
    listeners.set(listener, line)
    const leave = notifier.listen(listener.wanted.account, () => {
      listener.rung = true
      listener.wake()
    })
    line.once('close', () => {
      leave()
      listener.ending.abort()
      listeners.delete(listener)
      if (listeners.size === 0) clearInterval(watch)
    })
  }

  function look (): void {
    for (const [{ ending, offeredMs, stands }, line] of listeners) {
      // Who was told to end and is still there does not take what is left.
      if (ending.signal.aborted || (offeredMs !== null && performance.now() - offeredMs > stallMs)) line.destroy()
      else if (!stands()) ending.abort()
    }
  }

  /** Asked for more only once the last piece is taken, so no reader makes this wait with more in its hands than one
   *  answer of NATS. */
  async function* written (listener: Listener): AsyncGenerator<string> {
    let toldMs = performance.now()
    for await (const piece of pieces(listener, () => Math.max(0, toldMs + heartbeatMs - performance.now()))) {
      listener.offeredMs = performance.now()
      yield piece
      listener.offeredMs = null
      toldMs = performance.now()
    }
  }

  /** `untilBeatMs` = how long it may still be silent. */
  async function* pieces (listener: Listener, untilBeatMs: () => number): AsyncGenerator<string> {
    const { wanted, ending: { signal } } = listener
    const { cursorOf } = cursorsOf(services.tokens, wanted.account)
    let { afterSeq } = listener
    // An id before all events: also who hears of none comes back to this place.
    yield `retry: ${RETRY_MS}\nid: ${cursorOf(afterSeq)}\n\n`
    while (!signal.aborted) {
      listener.rung = false
      try {
        for await (const { events, seq } of looksAfter(services, wanted, afterSeq)) {
          for (const event of events) {
            if (signal.aborted) return
            yield textOf(event, cursorOf(event.seq))
          }
          afterSeq = seq
          if (untilBeatMs() === 0) yield beatOf(cursorOf(afterSeq))
        }
        if (!listener.rung) await rest(listener, untilBeatMs())
      } catch (error) {
        await beforeAgain(error, signal)
      }
      if (untilBeatMs() === 0 && !signal.aborted) yield beatOf(cursorOf(afterSeq))
    }
  }

  /** NATS is away: the line stays, and catches up. Throws what no other try would heal. */
  async function beforeAgain (error: unknown, signal: AbortSignal): Promise<void> {
    if (isUnanswered(error) || error instanceof JetStreamError) return await sleep(AGAIN_MS, signal)
    log.error({ err: error }, 'a stream of events cannot go on')
    throw error
  }

  async function stop (): Promise<void> {
    stopped = true
    const lines = [...listeners.values()]
    for (const { ending } of listeners.keys()) ending.abort()
    await Promise.all(lines.map(line => once(line, 'close').catch(() => {})))
    await notifier.stop()
  }

  return { open, stop }
}

/** Until it is rung or ended, or `ms` are over. */
async function rest (listener: Listener, ms: number): Promise<void> {
  const waking = new AbortController()
  listener.wake = () => waking.abort()
  if (!listener.ending.signal.aborted) await sleep(ms, waking.signal)
}

/** A comment. With the place it has come to: who wants little of much need not look through it again. */
function beatOf (cursor: string): string {
  return `: nothing new\nid: ${cursor}\n\n`
}

/** The body has no line breaks of its own: it is JSON on one line. */
function textOf ({ type, body }: FeedEvent, cursor: string): string {
  return `id: ${cursor}\nevent: ${type}\ndata: ${body}\n\n`
}
