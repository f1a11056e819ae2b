import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { StreamItem } from './write.ts'

/** How far a projection is behind the log. */
export interface Lag {
  /** Facts it has not written, as NATS last said. */
  facts: number
  /** Age of the oldest of those it has received, in seconds; 0 when it has written all it received. */
  seconds: number
}

interface ConsumerInfo {
  num_pending: number
  delivered: { consumer_seq: number }
}

const POLL_MS = 5000
const POLL_MS_MAX = 30_000

/** Counts the facts a projector has not written: those NATS has not delivered to its consumers yet, and those it has
 *  received. */
export class LagMeter {
  private readonly bus: Bus
  private readonly followed = new Map<string, { consumer: string, written: number }>()
  private readonly polls: Role
  private facts = 0
  private oldestMs: number | null = null

  constructor (bus: Bus) {
    this.bus = bus
    this.polls = repeat({
      name: 'projection lag',
      round: () => this.poll(),
      firstInMs: POLL_MS,
      againMs: POLL_MS,
      roundMsMax: POLL_MS_MAX,
      // When the consumer or the server is gone, the last figure stands, and the projector's own state says why.
      onError () {}
    })
  }

  follow (stream: string, consumer: string): void {
    this.followed.set(stream, { consumer, written: 0 })
  }

  /** Received and not written yet. */
  received (items: StreamItem[]): void {
    const times = items.flatMap(({ fact }) => (fact === null ? [] : Date.parse(fact.time)))
    this.oldestMs = times.length === 0 ? null : Math.min(...times)
    this.facts = Math.max(this.facts, items.length)
  }

  wrote (items: StreamItem[]): void {
    for (const { stream } of items) {
      const at = this.followed.get(stream)
      if (at !== undefined) at.written++
    }
    this.facts = Math.max(0, this.facts - items.length)
    this.oldestMs = null
  }

  /** It follows nothing any more. */
  reset (): void {
    this.followed.clear()
    this.oldestMs = null
  }

  read (): Lag {
    const { facts, oldestMs } = this
    return { facts, seconds: oldestMs === null ? 0 : Math.max(0, (Date.now() - oldestMs) / 1000) }
  }

  async stop (): Promise<void> {
    await this.polls.stop()
  }

  private async poll (): Promise<number> {
    const behind = await Promise.all([...this.followed].map(async ([stream, at]) => {
      const subject = `CONSUMER.INFO.${stream}.${at.consumer}`
      const { num_pending: pending, delivered } = await api<ConsumerInfo>(this.bus, subject, undefined)
      return pending + Math.max(0, delivered.consumer_seq - at.written)
    }))
    this.facts = behind.reduce((sum, count) => sum + count, 0)
    return POLL_MS
  }
}
