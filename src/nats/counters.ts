import { headers } from 'nats'
import { subjects } from '#streams/subjects.ts'
import type { Bus } from './connect.ts'
import { getMessage } from './get.ts'

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

/** Recipients of accounts by day (days since 1970), in the stream QUOTAS: it outlives its servers. */
export interface Quotas {
  /** Takes `n` of `limit`; false = they do not fit, and none is taken. When NATS does not answer within 250 ms, by what
   *  this node has seen. Never rejects. */
  take(account: string, day: number, n: number, limit: number): Promise<boolean>
  /** What was taken is not used. */
  giveBack(account: string, day: number, n: number): void
  /** What is taken. Throws what `isUnanswered` knows. */
  taken(account: string, day: number): Promise<number>
}

/** Mails of routes and their sources by day (days since 1970), in QUOTAS too. */
export interface Caps {
  /** Takes one of `limit`; `full` = there is none left; `unknown` = NATS has not answered, so none is to be used: what
   *  it counts a moment later is given back. Never rejects. */
  take(name: string, day: number, limit: number): Promise<'taken' | 'full' | 'unknown'>
  /** What was taken is not used. */
  giveBack(name: string, day: number): void
}

interface Window {
  window: number
  /** The total when it was last told, and what was added since. */
  seen: number
  waiting: Array<{ n: number, resolve: (position: WindowPosition) => void }>
  isCounting: boolean
}

const ANSWER_MS = 250
const WINDOWS_MAX = 100_000

/** Fixed windows counted in the stream LIMITS. */
export function createCounters (bus: Bus): Counters {
  const counters = new StreamCounters(bus, true)
  return {
    async count (key, limitClass, window, limit) {
      const name = `${key} ${limitClass}`
      const seen = counters.seen(name, window)
      // Past the limit nothing can change till the window ends: no traffic for a flood.
      if (seen >= limit) return { position: seen + 1, exact: true }
      return await counters.add(name, window, subjects.limit(window, key, limitClass), 1)
    },
    inexact: () => counters.inexact()
  }
}

export function createQuotas (bus: Bus): Quotas {
  const counters = new StreamCounters(bus, false)
  const add = async (account: string, day: number, n: number) =>
    await counters.add(account, day, subjects.quota(day, account), n)
  return {
    async take (account, day, n, limit) {
      const { position } = await add(account, day, n)
      if (position > limit) void add(account, day, -n)
      return position <= limit
    },
    giveBack: (account, day, n) => void add(account, day, -n),
    async taken (account, day) {
      const message = await getMessage(bus, 'QUOTAS', { last_by_subj: subjects.quota(day, account) })
      return message === null ? 0 : Number((JSON.parse(Buffer.from(message.data).toString()) as { val: string }).val)
    }
  }
}

export function createCaps (bus: Bus): Caps {
  const counters = new StreamCounters(bus, false, true)
  const add = async (name: string, day: number, n: number) =>
    await counters.add(name, day, subjects.quota(day, name), n)
  return {
    async take (name, day, limit) {
      if (limit === 0) return 'full'
      const { position, exact } = await add(name, day, 1)
      if (!exact) return 'unknown'
      if (position <= limit) return 'taken'
      void add(name, day, -1)
      return 'full'
    },
    giveBack: (name, day) => void add(name, day, -1)
  }
}

/** One increment of a key is on its way at a time, and those who come meanwhile are added together as the next `+n`. So
 *  a key costs one round trip however hard it is used. */
class StreamCounters {
  private readonly bus: Bus
  /** Whether its stream is lost with its server. */
  private readonly isVolatile: boolean
  /** Whether what is counted after the answer was given up is taken back. */
  private readonly undoesLate: boolean
  private readonly windows = new Map<string, Window>()
  private inexactRequests = 0

  constructor (bus: Bus, isVolatile: boolean, undoesLate = false) {
    this.bus = bus
    this.isVolatile = isVolatile
    this.undoesLate = undoesLate
  }

  inexact (): number {
    return this.inexactRequests
  }

  /** The highest total that this node knows of. */
  seen (name: string, window: number): number {
    const entry = this.windows.get(name)
    return entry?.window === window ? entry.seen : 0
  }

  /** The position is that of the last of the `n`. */
  add (name: string, window: number, subject: string, n: number): Promise<WindowPosition> {
    let entry = this.windows.get(name)
    if (entry === undefined || entry.window !== window) {
      if (this.windows.size >= WINDOWS_MAX) this.evict(window)
      entry = { window, seen: 0, waiting: [], isCounting: false }
      this.windows.set(name, entry)
    }
    const current = entry
    return new Promise(resolve => {
      current.waiting.push({ n, resolve })
      if (!current.isCounting) void this.countWaiting(current, subject)
    })
  }

  private async countWaiting (entry: Window, subject: string): Promise<void> {
    entry.isCounting = true
    while (entry.waiting.length > 0) {
      const waiting = entry.waiting.splice(0)
      const sum = waiting.reduce((sum, { n }) => sum + n, 0)
      const counted = this.requestIncrement(subject, sum)
      const total = await answerOf(counted)
      if (total === null) {
        this.inexactRequests += waiting.length
        if (this.undoesLate) this.undo(subject, waiting, counted)
      }
      const own = entry.seen + sum
      // A server that lost its memory counts from zero: what this node has seen still counts here.
      entry.seen = this.isVolatile ? Math.max(total ?? 0, own) : total ?? own
      let position = entry.seen - sum
      for (const { n, resolve } of waiting) resolve({ position: position += n, exact: total !== null })
    }
    entry.isCounting = false
  }

  /** Takes back, once it is counted after all, what was taken; what was given back stays so. */
  private undo (subject: string, waiting: ReadonlyArray<{ n: number }>, counted: Promise<number | null>): void {
    const taken = waiting.reduce((sum, { n }) => sum + Math.max(0, n), 0)
    if (taken === 0) return
    void counted.then(total => total === null ? null : this.requestIncrement(subject, -taken))
  }

  private async requestIncrement (subject: string, n: number): Promise<number | null> {
    const head = headers()
    head.set('Nats-Incr', n < 0 ? String(n) : `+${n}`)
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

/** The total, or null when no answer comes in time. */
async function answerOf (counted: Promise<number | null>): Promise<number | null> {
  const silence = Promise.withResolvers<null>()
  // A busy process comes to its timers before it reads what has long arrived: it reads once more before it calls NATS
  // silent.
  const timer = setTimeout(() => setImmediate(() => silence.resolve(null)), ANSWER_MS)
  const total = await Promise.race([counted, silence.promise])
  clearTimeout(timer)
  return total
}
