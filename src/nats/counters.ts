import { headers } from 'nats'
import { subjects } from '#streams/subjects.ts'
import type { Bus } from './connect.ts'

/** Where one request stands in its window. */
export interface WindowPosition {
  /** This request's number in the window, from 1, over all nodes. */
  position: number
  /** False when NATS did not answer and this node decided by what it has seen itself. */
  exact: boolean
}

export interface Counters {
  /** Counts one request of `key` in `limitClass` and window (minutes since 1970). Never rejects; resolves within 500
   *  ms: the increment on its way, and the next one. */
  count(key: string, limitClass: string, window: number, limit: number): Promise<WindowPosition>
  /** Requests decided without NATS so far. */
  inexact(): number
}

interface Window {
  window: number
  /** The highest total seen, own unanswered ones included. */
  seen: number
  waiting: Array<(position: WindowPosition) => void>
  isCounting: boolean
}

const ANSWER_MS = 250
const WINDOWS_MAX = 100_000

/** Fixed windows counted in the stream LIMITS. */
export function createCounters (bus: Bus): Counters {
  const counters = new StreamCounters(bus)
  return {
    count: (key, limitClass, window, limit) => counters.count(key, limitClass, window, limit),
    inexact: () => counters.inexact()
  }
}

/** One increment of a key is on its way at a time, and those who come meanwhile are added together as the next `+n`. So
 *  a key costs one round trip however hard it is used. */
class StreamCounters {
  private readonly bus: Bus
  private readonly windows = new Map<string, Window>()
  private inexactRequests = 0

  constructor (bus: Bus) {
    this.bus = bus
  }

  inexact (): number {
    return this.inexactRequests
  }

  count (key: string, limitClass: string, window: number, limit: number): Promise<WindowPosition> {
    const name = `${key} ${limitClass}`
    let entry = this.windows.get(name)
    if (entry === undefined || entry.window !== window) {
      if (this.windows.size >= WINDOWS_MAX) this.evict(window)
      entry = { window, seen: 0, waiting: [], isCounting: false }
      this.windows.set(name, entry)
    }
    // Past the limit nothing can change till the window ends: no traffic for a flood.
    if (entry.seen >= limit) return Promise.resolve({ position: ++entry.seen, exact: true })
    const current = entry
    return new Promise(resolve => {
      current.waiting.push(resolve)
      if (!current.isCounting) void this.countWaiting(current, subjects.limit(window, key, limitClass))
    })
  }

  private async countWaiting (entry: Window, subject: string): Promise<void> {
    entry.isCounting = true
    while (entry.waiting.length > 0) {
      const waiting = entry.waiting.splice(0)
      const total = await this.increment(subject, waiting.length)
      if (total === null) this.inexactRequests += waiting.length
      // A server that lost its memory counts from zero: what this node has seen still counts here.
      const last = Math.max(total ?? 0, entry.seen + waiting.length)
      entry.seen = last
      waiting.forEach((resolve, i) => resolve({ position: last - waiting.length + 1 + i, exact: total !== null }))
    }
    entry.isCounting = false
  }

  /** The total after adding `n`, or null when no answer came in time. */
  private async increment (subject: string, n: number): Promise<number | null> {
    const silence = Promise.withResolvers<null>()
    // A busy process comes to its timers before it reads what has long arrived: it reads once more before it calls NATS
    // silent.
    const timer = setTimeout(() => setImmediate(() => silence.resolve(null)), ANSWER_MS)
    const total = await Promise.race([this.requestIncrement(subject, n), silence.promise])
    clearTimeout(timer)
    return total
  }

  private async requestIncrement (subject: string, n: number): Promise<number | null> {
    const head = headers()
    head.set('Nats-Incr', `+${n}`)
    try {
      const answer = await this.bus.nc.request(subject, undefined, { headers: head, timeout: 2 * ANSWER_MS })
      const { val } = answer.json<{ val?: string }>()
      return val === undefined ? null : Number(val)
    } catch {
      return null
    }
  }

  private evict (window: number): void {
    for (const [name, entry] of this.windows) if (entry.window !== window) this.windows.delete(name)
    // All of them in use within one minute: the oldest go, and count on from NATS.
    for (const name of this.windows.keys()) {
      if (this.windows.size < WINDOWS_MAX) break
      this.windows.delete(name)
    }
  }
}
