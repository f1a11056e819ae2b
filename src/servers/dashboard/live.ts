import { once } from 'node:events'
import { Readable, type Writable } from 'node:stream'
import type { Projection } from '#projections/define.ts'
import { deliveries } from '#projections/deliveries/project.ts'
import { emails } from '#projections/emails/project.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Log } from '#src/base/log.ts'
import { createChangeNotifier } from '#src/nats/change-notifier.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence } from '#src/nats/get.ts'
import type { Checkpoints } from '#src/postgres/checkpoint.ts'
import type { LiveTopic } from './parts.ts'
import { FormRefused } from './visit.ts'

/** Runs `run` once at a time for however many callers: those who come while it runs share the next run, since what they
 *  ask about may be later than what this one sees. Who asks about what was so at `sinceMs` (`performance.now()`) needs
 *  none where one that gave true began later. Resolves also when a run fails. */
export function coalesce (run: () => Promise<boolean>): (sinceMs?: number) => Promise<void> {
  let last = Promise.resolve()
  let next: Promise<void> | null = null
  let beganMs = -Infinity

  async function begin (): Promise<void> {
    await last
    next = null
    const nowMs = performance.now()
    if (await run().catch(() => false)) beganMs = nowMs
  }

  return async (sinceMs = Infinity) => {
    if (beganMs < sinceMs) await (next ??= last = begin())
  }
}

const SOURCES: Record<LiveTopic, { stream: string, filter: string, projection: Projection }> = {
  emails: { stream: 'EMAILS', filter: 'email.>', projection: emails },
  deliveries: { stream: 'WEBHOOKS', filter: 'webhook.>', projection: deliveries }
}
const TOPICS = Object.keys(SOURCES) as LiveTopic[]

/** At least so long between two events of a stream. */
const EVENT_INTERVAL_MS = 1000
const HEARTBEAT_MS = 15_000
/** No page waits longer to learn how far the log is. */
const SEQUENCE_MS = 500
/** A page that hears of a change reads the projection, which should have it by then. */
const CATCH_UP_MS = 2000
/** How often each stream's session and reader are checked. */
const CHECK_INTERVAL_MS = 250
const ACCOUNT_MAX = 50
const PROCESS_MAX = 500

/** How far the streams of the topics were when a page was read; a topic that is left out is not known. */
export type SeenSequences = Partial<Record<LiveTopic, number>>

interface LiveStream {
  account: string
  isSignedIn: () => boolean
  socket: Writable
  /** When it was told of each, as `performance.now()` counts. */
  pending: Map<LiveTopic, number>
  wake: () => void
  ending: AbortController
}

/** Server-sent events for open pages: which topic has changed in their account. Pages then fetch themselves. */
export class LiveStreams {
  private readonly bus: Bus
  private readonly notifiers
  /** One wait for all streams that a change wakes. */
  private readonly catchUp: Record<LiveTopic, (toldMs: number) => Promise<void>>
  private readonly streams = new Set<LiveStream>()
  private timer: NodeJS.Timeout | undefined
  private isStopped = false

  constructor (bus: Bus, checkpoints: Checkpoints, log: Log) {
    this.bus = bus
    this.notifiers = TOPICS.map(topic => ({ topic, notifier: createChangeNotifier(bus, SOURCES[topic], log) }))
    this.catchUp = Object.fromEntries(
      TOPICS.map(
        topic => [topic, coalesce(async () => await checkpoints.caughtUp(SOURCES[topic].projection, CATCH_UP_MS))]
      )
    ) as Record<LiveTopic, (toldMs: number) => Promise<void>>
  }

  /** Of a page that is read from now on: reads show all that is in the log by then. */
  async sequences (): Promise<SeenSequences> {
    const found = await Promise.all(TOPICS.map(async topic => {
      const last = await this.last(topic)
      return last === null ? [] : [[topic, last] as const]
    }))
    return Object.fromEntries(found.flat())
  }

  /** Ends once `isSignedIn` is false or the browser closes `socket`. A page that has seen all there is learns of
   *  nothing at first: it would fetch itself for the second time. Throws FormRefused when there are too many. */
  open (account: string, socket: Writable, isSignedIn: () => boolean, seen: SeenSequences = {}): Readable {
    const own = [...this.streams].filter(stream => stream.account === account).length
    if (this.isStopped || own >= ACCOUNT_MAX || this.streams.size >= PROCESS_MAX) {
      throw new FormRefused('Too many pages of the dashboard are open at the same time.')
    }
    if (socket.destroyed) return Readable.from([])
    const ending = new AbortController()
    const stream: LiveStream = { account, isSignedIn, socket, pending: new Map(), wake: () => {}, ending }
    this.add(stream, seen)
    return Readable.from(this.eventsOf(stream), { objectMode: false, highWaterMark: 0 })
  }

  async stop (): Promise<void> {
    this.isStopped = true
    const sockets = [...this.streams].map(({ socket }) => socket)
    for (const { ending } of this.streams) ending.abort()
    await Promise.all(sockets.map(async socket => await once(socket, 'close').catch(() => {})))
    await Promise.all(this.notifiers.map(async ({ notifier }) => await notifier.stop()))
  }

  private add (stream: LiveStream, seen: SeenSequences): void {
    const { account, socket, pending, ending } = stream
    if (this.streams.size === 0) this.timer = setInterval(() => this.checkAll(), CHECK_INTERVAL_MS)
    this.streams.add(stream)
    const removers = this.notifiers.map(({ topic, notifier }) => {
      const tell = () => {
        pending.set(topic, performance.now())
        stream.wake()
      }
      // The first time it only says that nothing more is missed.
      let isFirst = true
      return notifier.listen(account, () => {
        const before = isFirst ? seen[topic] : undefined
        isFirst = false
        if (before === undefined) return tell()
        void this.last(topic).then(last => {
          if (last === null || last > before) tell()
        })
      })
    })
    ending.signal.addEventListener('abort', () => stream.wake())
    socket.once('close', () => {
      this.streams.delete(stream)
      ending.abort()
      for (const remove of removers) remove()
      if (this.streams.size === 0) clearInterval(this.timer)
    })
  }

  /** null = NATS does not say. */
  private async last (topic: LiveTopic): Promise<number | null> {
    return await lastSequence(this.bus, SOURCES[topic].stream, SEQUENCE_MS).catch(() => null)
  }

  private checkAll (): void {
    for (const { ending, isSignedIn, socket } of this.streams) {
      // One that has ended and is still there does not read what is left.
      if (ending.signal.aborted) socket.destroy()
      else if (!isSignedIn()) ending.abort()
    }
  }

  private async *eventsOf (stream: LiveStream): AsyncGenerator<string> {
    const { pending, ending: { signal } } = stream
    yield 'retry: 2000\n\n'
    while (!signal.aborted) {
      if (pending.size === 0) await woken(stream, signal)
      const told = [...pending]
      const topics = told.map(([topic]) => topic)
      pending.clear()
      await Promise.all(told.map(([topic, toldMs]) => this.catchUp[topic](toldMs)))
      if (signal.aborted) return
      yield topics.length === 0 ? ': nothing new\n\n' : topics.map(topic => `event: ${topic}\ndata:\n\n`).join('')
      await sleep(EVENT_INTERVAL_MS, signal)
    }
  }
}

/** Until something changes, the stream ends, or a heartbeat is due. */
async function woken (stream: Pick<LiveStream, 'wake'>, signal: AbortSignal): Promise<void> {
  const waking = new AbortController()
  stream.wake = () => waking.abort()
  if (!signal.aborted) await sleep(HEARTBEAT_MS, waking.signal)
}
