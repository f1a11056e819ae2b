import { headers } from 'nats'
import { subjects } from '#streams/subjects.ts'
import type { Bus } from './connect.ts'

/** What one request was told about its window. */
export interface Position {
  /** This request's number in the window, from 1, over all nodes. */
  position: number
  /** False when NATS did not answer and this node decided by what it has seen itself. */
  exact: boolean
}

export interface Counters {
  /** Counts one request of `key` in `limitClass` and window (minutes since 1970). Never rejects; answers within 500 ms:
   *  what is on its way, and its own turn. */
  count(key: string, limitClass: string, window: number, limit: number): Promise<Position>
  /** Requests decided without NATS so far. */
  inexact(): number
}

interface Window {
  window: number
  /** The highest total seen, own unanswered ones included. */
  seen: number
  waiting: Array<(position: Position) => void>
  flying: boolean
}

const ANSWER_MS = 250
const WINDOWS_MAX = 100_000

/** Fixed windows counted in the stream LIMITS: one increment of a key is on its way at a time, and who comes meanwhile
 *  rides the next as `+n`. So a key costs one round trip however hard it is used. */
export function createCounters (bus: Bus): Counters {
  const windows = new Map<string, Window>()
  let inexact = 0

  function count (key: string, limitClass: string, window: number, limit: number): Promise<Position> {
    const name = `${key} ${limitClass}`
    let entry = windows.get(name)
    if (entry === undefined || entry.window !== window) {
      if (windows.size >= WINDOWS_MAX) reconcile(window)
      entry = { window, seen: 0, waiting: [], flying: false }
      windows.set(name, entry)
    }
    // Past the limit nothing can change till the window ends: no traffic for a flood.
    if (entry.seen >= limit) return Promise.resolve({ position: ++entry.seen, exact: true })
    const current = entry
    return new Promise(resolve => {
      current.waiting.push(resolve)
      if (!current.flying) void fly(current, subjects.limit(window, key, limitClass))
    })
  }

  async function fly (entry: Window, subject: string): Promise<void> {
    entry.flying = true
    while (entry.waiting.length > 0) {
      const riders = entry.waiting.splice(0)
      const total = await increment(subject, riders.length)
      if (total === null) inexact += riders.length
      // A server that lost its memory counts anew: what this node has seen still counts here.
      const last = Math.max(total ?? 0, entry.seen + riders.length)
      entry.seen = last
      riders.forEach((resolve, i) => resolve({ position: last - riders.length + 1 + i, exact: total !== null }))
    }
    entry.flying = false
  }

  /** The total after adding `n`, or null when no answer came in time. */
  async function increment (subject: string, n: number): Promise<number | null> {
    const silence = Promise.withResolvers<null>()
    // A busy process comes to its timers before it reads what has long arrived: it reads once more before it calls NATS
    // silent.
    const timer = setTimeout(() => setImmediate(() => silence.resolve(null)), ANSWER_MS)
    const total = await Promise.race([ask(subject, n), silence.promise])
    clearTimeout(timer)
    return total
  }

  async function ask (subject: string, n: number): Promise<number | null> {
    const head = headers()
    head.set('Nats-Incr', `+${n}`)
    try {
      const answer = await bus.nc.request(subject, undefined, { headers: head, timeout: 2 * ANSWER_MS })
      const { val } = answer.json<{ val?: string }>()
      return val === undefined ? null : Number(val)
    } catch {
      return null
    }
  }

  function reconcile (window: number): void {
    for (const [name, entry] of windows) if (entry.window !== window) windows.delete(name)
    // All of them in use within one minute: the oldest make module and count anew from NATS.
    for (const name of windows.keys()) {
      if (windows.size < WINDOWS_MAX) break
      windows.delete(name)
    }
  }

  return { count, inexact: () => inexact }
}
