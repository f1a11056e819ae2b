import { Events, type JetStreamClient, type NatsConnection } from 'nats'
import { sleep } from '#src/base/backoff.ts'
import { asError, deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { connectTo, findServer, urlsOf, type DialOptions } from './dial.ts'

/** The connection to NATS, and since when it has stood without a break. */
export interface Bus {
  /** The connection of this moment. One that broke never comes back: another takes its place. */
  readonly nc: NatsConnection
  readonly js: JetStreamClient
  /** Unix ms since when the connection is up; null while it is down. */
  upSinceMs(): number | null
  /** Tells once when the connection breaks, at once when it is down; gives what takes that back. */
  onBreak(tell: () => void): () => void
  /** Tells each time when another connection is up. */
  onReconnect(tell: () => void): void
  /** Hears a subject on this connection and on all after it; gives what ends that. */
  hear(subject: string, tell: () => void): () => void
  /** Whether a stream's leader answered for a commit sent at `sentMs` of the steady clock. After 6 s without, another
   *  server is looked for: one that is cut off from its cluster answers pings, and acknowledges nothing. */
  reportCommit(sentMs: number, wasHeard: boolean): void
  /** Resolves when the connection is up, or when `timeoutMs` are over. */
  whenUp(timeoutMs: number): Promise<void>
  close(): Promise<void>
}

export interface BusOptions extends DialOptions {
  log: Log
  /** Bears a server of a cluster that is deaf for seconds, as one is that a stream is restored to. */
  isPatient?: boolean
}

/** Connects and keeps connecting for ever; rejects when the first connection takes over `timeoutMs`. */
export async function connectBus (options: BusOptions, timeoutMs = 30_000): Promise<Bus> {
  const line = new Line(options)
  await line.open(timeoutMs)
  return {
    get nc () {
      return line.nc
    },
    get js () {
      return line.js
    },
    upSinceMs: () => line.upSinceMs(),
    onBreak: tell => line.onBreak(tell),
    onReconnect: tell => line.onReconnect(tell),
    hear: (subject, tell) => line.hear(subject, tell),
    reportCommit: (sentMs, wasHeard) => line.reportCommit(sentMs, wasHeard),
    whenUp: timeoutMs => line.whenUp(timeoutMs),
    close: () => line.close()
  }
}

const AGAIN_MS = 200
/** Three unanswered, and the server is left: within 4 s where there are others, within 16 s where there are none, since
 *  to leave it would change nothing. */
const PING_MS = 1000
const ALONE_PING_MS = 4000
const MISSED_MAX = 3
/** Most elections are over by then. */
const UNHEARD_MS = 6000
/** In an election nobody acknowledges, and to go from server to server then does not help. */
const STAY_MS = 10_000

/** A subject that is heard on each connection. */
interface Heard {
  subject: string
  tell: () => void
  end: () => void
}

/** One connection after the other. The client's own way back is not used (2.29.3): it dials the server first that it
 *  has just left, and never leaves one that takes no more bytes. */
class Line {
  nc!: NatsConnection
  js!: JetStreamClient
  private readonly options: BusOptions
  private readonly closing = new AbortController()
  private readonly heard = new Set<Heard>()
  private readonly reconnected: Array<() => void> = []
  /** Told once: while the connection is up it will break, while it is down it will be up. */
  private readonly waiting = new Set<() => void>()
  private server: string | null = null
  private sinceMs: number | null = null
  /** Since when no commit was heard, on the steady clock. */
  private unheardSinceMs: number | null = null

  constructor (options: BusOptions) {
    this.options = options
  }

  async open (timeoutMs: number): Promise<void> {
    let why = ''
    const dialing = this.dialUntilUp(error => {
      why = `: ${error.message}`
    })
    await deadline(dialing, timeoutMs, '').catch(async () => {
      await this.close()
      throw new Error(`NATS did not answer within ${timeoutMs / 1000} s${why}`)
    })
  }

  upSinceMs (): number | null {
    // The client knows first.
    if (this.sinceMs !== null && this.nc.isClosed()) this.leave(this.nc)
    return this.sinceMs
  }

  onBreak (tell: () => void): () => void {
    if (this.upSinceMs() === null) tell()
    else this.waiting.add(tell)
    return () => void this.waiting.delete(tell)
  }

  onReconnect (tell: () => void): void {
    this.reconnected.push(tell)
  }

  hear (subject: string, tell: () => void): () => void {
    const heard: Heard = { subject, tell, end: () => {} }
    this.heard.add(heard)
    if (this.upSinceMs() !== null) this.subscribe(heard)
    return () => {
      this.heard.delete(heard)
      heard.end()
    }
  }

  async whenUp (timeoutMs: number): Promise<void> {
    if (this.upSinceMs() !== null) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, timeoutMs)
    this.waiting.add(resolve)
    await promise
    this.waiting.delete(resolve)
    clearTimeout(timer)
  }

  reportCommit (sentMs: number, wasHeard: boolean): void {
    if (wasHeard) {
      this.unheardSinceMs = null
      return
    }
    this.unheardSinceMs ??= sentMs
    if (performance.now() - this.unheardSinceMs < UNHEARD_MS || this.isAlone()) return
    if (this.sinceMs === null || Date.now() - this.sinceMs < STAY_MS) return
    this.options.log.warn({ server: this.server }, 'nats acknowledges nothing: another server is looked for')
    this.leave(this.nc)
  }

  /** Flushes what is on its way for at most 2 s, then closes. */
  async close (): Promise<void> {
    this.closing.abort()
    if (this.sinceMs === null) return
    this.sinceMs = null
    if (this.nc.isClosed()) return
    await deadline(this.nc.flush(), 2000, 'flush took too long').catch(() => {})
    await this.nc.close()
  }

  private async dialUntilUp (onError: (error: Error) => void): Promise<void> {
    const { signal } = this.closing
    for (let avoid = this.server; !signal.aborted; await sleep(AGAIN_MS, signal)) {
      try {
        const server = await findServer(this.options, this.told(), avoid, signal)
        avoid = server.name
        return this.adopt(await connectTo(server, this.options), server.name)
      } catch (error) {
        onError(asError(error))
      }
    }
  }

  private adopt (nc: NatsConnection, server: string): void {
    if (this.closing.signal.aborted) return void nc.close()
    this.nc = nc
    this.js = nc.jetstream({ timeout: 5000 })
    this.server = server
    this.sinceMs = Date.now()
    this.unheardSinceMs = null
    for (const heard of this.heard) this.subscribe(heard)
    void nc.closed().then(() => this.leave(nc))
    void this.logErrors(nc)
    void this.listenFor(nc)
    this.tellAll()
  }

  /** Throws a connection away, with all that is still to be written to it, and looks for another. */
  private leave (nc: NatsConnection): void {
    if (nc !== this.nc || this.sinceMs === null) return
    this.sinceMs = null
    this.options.log.warn('nats disconnected')
    this.tellAll()
    void nc.close()
    void this.reconnect()
  }

  private async reconnect (): Promise<void> {
    const { log } = this.options
    await this.dialUntilUp(error => log.debug({ reason: error.message }, 'nats does not answer'))
    if (this.sinceMs === null) return
    log.info('nats connected again')
    for (const tell of this.reconnected) tell()
  }

  private tellAll (): void {
    const told = [...this.waiting]
    this.waiting.clear()
    for (const tell of told) tell()
  }

  private subscribe (heard: Heard): void {
    const subscription = this.nc.subscribe(heard.subject, { callback: () => heard.tell() })
    heard.end = () => subscription.unsubscribe()
  }

  /** By turns, not by the clock: after a stall of our own the answers lie there unread. */
  private async listenFor (nc: NatsConnection): Promise<void> {
    const answered = () => {
      missed = 0
    }
    let missed = 0
    for (; !nc.isClosed() && missed < MISSED_MAX; missed++) {
      nc.flush().then(answered, () => {})
      await sleep(this.isAlone() || this.options.isPatient === true ? ALONE_PING_MS : PING_MS, this.closing.signal)
      if (this.closing.signal.aborted) return
    }
    this.leave(nc)
  }

  private async logErrors (nc: NatsConnection): Promise<void> {
    for await (const { type, data } of nc.status()) {
      if (type === Events.Error) this.options.log.warn({ error: String(data) }, 'nats reports an error')
    }
  }

  /** The servers of the cluster, by the word of the one we are or were connected to. */
  private told (): readonly string[] {
    return (this.nc as NatsConnection | undefined)?.info?.connect_urls ?? []
  }

  private isAlone (): boolean {
    return urlsOf(this.options.url).length === 1 && this.told().length < 2
  }
}
