import type { TrafficShape } from './shaping.ts'

/** Connections that a site begins with when nobody knows yet what it bears. */
const LIMIT_FIRST = 2
/** Transactions per connection of the limit that make a window. */
const WINDOW = 5
/** Sent to slowly for so long, then twice as fast with every step until it is the usual pace again. */
const SLOW_MS = 90 * 60_000
const SLOW_STEP_MS = 10 * 60_000
/** Rates are kept over such spans: within one, mail may come in a burst. */
const MESSAGES_BURST_MS = 1000
const CONNECTIONS_BURST_MS = 60_000
/** Places so near are given out at the pace of late, one by one: schedules fire no finer than that, so that all of one
 *  second come together. */
const NEAR_MS = 1000
/** A booked place is at most so far away: then the site has a new look. */
const BOOK_MS_MAX = 15 * 60_000

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
  private bookedMs = 0
  /** What a transaction takes, on average of late; null = none is known yet. */
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

  /** A transaction came to its end, however the server liked the mail. `full` = all connections that may be were open:
   *  only then does it show that the site would bear more. */
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

  /** Our reputation is the matter: one connection, one mail a minute. Said again, it begins again. */
  slowDown (nowMs: number): void {
    if (!this.adaptive) return
    this.slowSinceMs = nowMs
    this.limit = 1
    this.messageMs = nowMs + this.messageGapMs(nowMs)
  }

  /** A place for one more who found no room: in how many ms to come back. Those who book are spread at the pace of
   *  late. */
  book (nowMs: number, random: () => number): number {
    const [tookMs, leastMs] = [this.tookMs ?? 0, this.messageGapMs(nowMs)]
    const nearMs = Math.max(this.nearMs, nowMs) + Math.max(tookMs / this.limit, leastMs)
    if (nearMs - nowMs <= NEAR_MS) {
      this.nearMs = nearMs
      return nearMs - nowMs
    }
    // As if it bore all that it may: places for less would keep it from ever showing that it does.
    this.bookedMs = Math.max(this.bookedMs, nowMs + NEAR_MS) + Math.max(tookMs / this.shape.connections, leastMs)
    if (this.bookedMs - nowMs < BOOK_MS_MAX) return this.bookedMs - nowMs
    this.bookedMs = nowMs + BOOK_MS_MAX
    return BOOK_MS_MAX * (1 + random()) / 2
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
