import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { Item } from './write.ts'

/** How far a view is behind the log. */
export interface Lag {
  /** Facts it has not written, as NATS last said. */
  facts: number
  /** Age of the oldest of those it was given, in seconds; 0 when it has written all it was given. */
  seconds: number
}

export interface LagMeter {
  follows(stream: string, consumer: string): void
  /** Was given these and has not written them. */
  holds(items: Item[]): void
  wrote(items: Item[]): void
  /** Holds nothing any more, and follows nothing. */
  lost(): void
  read(): Lag
  stop(): void
}

const LOOK_MS = 5000

interface Info {
  num_pending: number
  delivered: { consumer_seq: number }
}

/** Counts what a projector has before it: what NATS has not given to its consumers yet, and what was given and is not
 *  written. */
export function createLagMeter (bus: Bus): LagMeter {
  const followed = new Map<string, { consumer: string, written: number }>()
  let facts = 0
  let oldestMs: number | null = null

  async function look (): Promise<void> {
    const behind = await Promise.all([...followed].map(async ([stream, at]) => {
      const { num_pending: pending, delivered } = await api<Info>(
        bus,
        `CONSUMER.INFO.${stream}.${at.consumer}`,
        undefined
      )
      return pending + Math.max(0, delivered.consumer_seq - at.written)
    }))
    facts = behind.reduce((sum, count) => sum + count, 0)
  }

  // A consumer that is gone, or a server that is: the last figure stands, and the projector's own trouble tells.
  const timer = setInterval(() => void look().catch(() => {}), LOOK_MS)
  timer.unref()

  return {
    follows: (stream, consumer) => void followed.set(stream, { consumer, written: 0 }),
    holds (items) {
      const times = items.flatMap(({ fact }) => (fact === null ? [] : Date.parse(fact.time)))
      oldestMs = times.length === 0 ? null : Math.min(...times)
      facts = Math.max(facts, items.length)
    },
    wrote (items) {
      for (const { stream } of items) {
        const at = followed.get(stream)
        if (at !== undefined) at.written++
      }
      facts = Math.max(0, facts - items.length)
      oldestMs = null
    },
    lost () {
      followed.clear()
      oldestMs = null
    },
    read: () => ({ facts, seconds: oldestMs === null ? 0 : Math.max(0, (Date.now() - oldestMs) / 1000) }),
    stop: () => clearInterval(timer)
  }
}
