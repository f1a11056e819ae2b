import type { TrafficShape } from './shaping.ts'

/** Connections that a site begins with while its limits are unknown. */
const LIMIT_FIRST = 2
/** Transactions per connection of the limit that make a window. */
const WINDOW = 5
/** How long a site is slowed down; then the rate doubles with every step until it is the usual one. */
const SLOW_MS = 90 * 60_000
const SLOW_STEP_MS = 10 * 60_000
/** Rates hold over these spans: within one, mail may come in a burst. */
const MESSAGES_BURST_MS = 1000
const CONNECTIONS_BURST_MS = 60_000
/** Reservations this near follow the recent pace, one by one: schedules fire by the second, so all of one second come
 *  together. */
const NEAR_MS = 1000
/** A reservation is at most this far away: by then the site may have changed. */
const RESERVE_MS_MAX = 15 * 60_000

/** How fast one site is sent to: connections at once, new ones a minute, mails a second. Grows with what goes well,
 *  shrinks with what does not. Times are `nowMs` of one clock. */
export class Pace {
  private readonly shape: TrafficShape
  private readonly adaptive: boolean
  private limit: number
  private successes = 0
  /** When the next would be due if they came evenly. */
  private messageMs = 0
  private connectionMs = 0
  private slowSinceMs: number | null = null
  private nearMs = 0
  private reservedMs = 0
  /** The recent average of a transaction's duration; null = unknown. */
  private tookMs: number | null = null

  /** `adaptive` = it begins with few connections; else all that the shape allows are there from the start, and stay. */
  constructor (shape: TrafficShape, adaptive: boolean) {
    this.shape = shape
    this.adaptive = adaptive
    this.limit = adaptive ? Math.min(LIMIT_FIRST, shape.connections) : shape.connections
  }

  /** Connections at once, now. */
  connections (): number {
    return this.limit
  }

  /** How long until a mail may begin; 0 = now. */
  messageWaitMs (nowMs: number): number {
    return Math.max(0, this.messageMs - this.burstMs(nowMs) - nowMs)
  }

  messageBegun (nowMs: number): void {
    this.messageMs = Math.max(this.messageMs, nowMs) + this.messageGapMs(nowMs)
  }

  /** How long until a connection may begin; 0 = now. */
  connectionWaitMs (nowMs: number): number {
    return Math.max(0, this.connectionMs - CONNECTIONS_BURST_MS + this.connectionGapMs() - nowMs)
  }

  connectionBegun (nowMs: number): void {
    this.connectionMs = Math.max(this.connectionMs, nowMs) + this.connectionGapMs()
  }

  /** A transaction ended with a reply, whichever. `full` = all allowed connections were open: only then does it show
   *  that the site would bear more. */
  succeeded (nowMs: number, tookMs: number, full: boolean): void {
    this.tookMs = this.tookMs === null ? tookMs : this.tookMs + (tookMs - this.tookMs) / 10
    if (!full || !this.adaptive || this.limit >= this.shape.connections || this.isHeldDown(nowMs)) return
    if (++this.successes < this.limit * WINDOW) return
    this.successes = 0
    this.limit++
  }

  /** No connection, or sent away. */
  failed (): void {
    this.successes = 0
    if (this.adaptive) this.limit = Math.max(1, Math.floor(this.limit / 2))
  }

  /** The site complains about our reputation: one connection, one mail a minute. Every complaint starts this again. */
  slowDown (nowMs: number): void {
    if (!this.adaptive) return
    this.slowSinceMs = nowMs
    this.limit = 1
    this.messageMs = nowMs + this.messageGapMs(nowMs)
  }

  /** Reserves a time for one more mail that found no capacity: in how many ms it comes back. Reservations are spread at
   *  the recent pace; `guessMs` = what a transaction takes as long as none has been answered. */
  reserve (nowMs: number, random: () => number, guessMs = 0): number {
    const [tookMs, leastMs] = [this.tookMs ?? guessMs, this.messageGapMs(nowMs)]
    const nearMs = Math.max(this.nearMs, nowMs) + Math.max(tookMs / this.limit, leastMs)
    if (nearMs - nowMs <= NEAR_MS) {
      this.nearMs = nearMs
      return nearMs - nowMs
    }
    // At the full limit: fewer reservations would keep the site from ever showing that it bears more.
    this.reservedMs = Math.max(this.reservedMs, nowMs + NEAR_MS) + Math.max(tookMs / this.shape.connections, leastMs)
    if (this.reservedMs - nowMs < RESERVE_MS_MAX) return this.reservedMs - nowMs
    this.reservedMs = nowMs + RESERVE_MS_MAX
    return RESERVE_MS_MAX * (1 + random()) / 2
  }

  private isHeldDown (nowMs: number): boolean {
    return this.slowSinceMs !== null && nowMs - this.slowSinceMs < SLOW_MS
  }

  private burstMs (nowMs: number): number {
    return this.slowGapMs(nowMs) === null ? MESSAGES_BURST_MS : 0
  }

  private messageGapMs (nowMs: number): number {
    return this.slowGapMs(nowMs) ?? 1000 / this.shape.messagesPerSecond
  }

  private connectionGapMs (): number {
    return 60_000 / this.shape.connectionsPerMinute
  }

  /** Milliseconds between mails while it is sent to slowly, or null. */
  private slowGapMs (nowMs: number): number | null {
    if (this.slowSinceMs === null) return null
    const steps = Math.max(0, Math.floor((nowMs - this.slowSinceMs - SLOW_MS) / SLOW_STEP_MS) + 1)
    const gapMs = 60_000 / 2 ** steps
    if (gapMs > 1000 / this.shape.messagesPerSecond) return gapMs
    this.slowSinceMs = null
    return null
  }
}
