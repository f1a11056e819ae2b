import type { Projection } from '#projections/define.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'
import { readPositions, waitFor, type Checkpoints, type Positions } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { hurryProjectors } from './gathering.ts'

/** NATS has this long for an answer, where the reader has more. */
const ANSWER_MS = 2000

/** One read of the streams and one of the checkpoint when nothing is behind, which is nearly always. A stream's last
 *  sequence may belong to a subject the projection does not read (REQUESTS holds claims) or to a message that is gone,
 *  so it proves "all seen" and never "behind"; only then the last message under the filter is asked for, which brings
 *  its body with it. Both are answered by the stream's leader: a replica may not have heard of the newest facts. */
export function createCheckpoints (bus: Bus, pool: Pool): Checkpoints {
  async function lagging (projection: Projection, answerMs: number): Promise<Projection['streams']> {
    const [last, seen] = await Promise.all([
      Promise.all(projection.streams.map(async ({ stream }) => await lastSequence(bus, stream, answerMs))),
      readPositions(pool, liveSet(projection))
    ])
    return projection.streams.filter(({ stream }, i) => seen[stream]! < last[i]!)
  }

  return {
    async caughtUp (projection, timeoutMs = 2000) {
      const endMs = performance.now() + timeoutMs
      const leftMs = (): number => Math.max(1, endMs - performance.now())
      const answerMs = (): number => Math.min(ANSWER_MS, leftMs())
      const behind = await lagging(projection, answerMs())
      if (behind.length === 0) return true
      hurryProjectors(bus)
      const targets: Positions = {}
      await Promise.all(behind.map(async ({ stream, filter }) => {
        targets[stream] = await lastSequenceUnder(bus, stream, filter, answerMs())
      }))
      return await waitFor(pool, projection, targets, leftMs())
    }
  }
}
