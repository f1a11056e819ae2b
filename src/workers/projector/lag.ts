import type { Projection, Source } from '#projections/define.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'
import type { StreamItem } from './write.ts'

/** How far a projection is behind the log. */
export interface Lag {
  /** Facts it has not written, as NATS last said: messages in between that it does not read count, too. */
  facts: number
  /** Age of the oldest of those it has received, in seconds; 0 when it has written all it received. */
  seconds: number
}

const POLL_MS = 5000
const POLL_MS_MAX = 30_000

/** Counts the facts that a projector has not written. */
export class LagMeter {
  private readonly bus: Bus
  private readonly projection: Projection
  private readonly polls: Role
  /** While it follows. */
  private positions: Positions | null = null
  private facts = 0
  private oldestMs: number | null = null

  constructor (bus: Bus, projection: Projection) {
    this.bus = bus
    this.projection = projection
    this.polls = repeat({
      name: 'projection lag',
      round: () => this.poll(),
      firstInMs: POLL_MS,
      againMs: POLL_MS,
      roundMsMax: POLL_MS_MAX,
      // When the server is gone, the last figure stands, and the projector's own state says why.
      onError () {}
    })
  }

  /** It follows from `positions`, which move along. */
  follow (positions: Positions): void {
    this.positions = positions
  }

  /** Received and not written yet. */
  received (items: StreamItem[]): void {
    const times = items.flatMap(({ fact }) => (fact === null ? [] : Date.parse(fact.time)))
    this.oldestMs = times.length === 0 ? null : Math.min(...times)
    this.facts = Math.max(this.facts, items.length)
  }

  wrote (items: StreamItem[]): void {
    this.facts = Math.max(0, this.facts - items.length)
    this.oldestMs = null
  }

  /** It follows nothing any more. */
  reset (): void {
    this.positions = null
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
    const { bus, positions, projection: { streams } } = this
    if (positions === null) return POLL_MS
    const behind = await Promise.all(streams.map(source => distanceTo(bus, source, positions[source.stream]!)))
    this.facts = behind.reduce((sum, count) => sum + count, 0)
    return POLL_MS
  }
}

/** How far the last message that a source has lies behind `seen`, in sequences; 0 = it is seen. The last of the stream
 *  may be of other projections. Throws what `isUnanswered` knows, or JetStreamError. */
export async function distanceTo (bus: Bus, { stream, filter }: Source, seen: number): Promise<number> {
  if (await lastSequence(bus, stream) <= seen) return 0
  return Math.max(0, await lastSequenceUnder(bus, stream, filter) - seen)
}
