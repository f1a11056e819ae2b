import type { Projection } from '#projections/define.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/load.ts'
import { readPositions, waitFor, type Positions, type View } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { liveSet } from '#src/postgres/table-sets.ts'

/** What NATS has for an answer, where the reader has more. */
const ANSWER_MS = 2000

/** How reads wait for their view. One look at the streams and one at the checkpoint when nothing is behind, which is
 *  nearly always. A stream's last sequence may belong to a subject the projection does not read (REQUESTS holds claims)
 *  or to a message that is gone, so it proves "all seen" and never "behind"; only then the last message under the
 *  filter is asked for, which brings its body with it. Both are answered by the stream's leader: a direct get may be
 *  answered by a replica that has not heard of the newest facts. */
export function createView (bus: Bus, pool: Pool): View {
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
      const targets: Positions = {}
      await Promise.all((await lagging(projection, answerMs())).map(async ({ stream, filter }) => {
        targets[stream] = await lastSequenceUnder(bus, stream, filter, answerMs())
      }))
      return Object.keys(targets).length === 0 || await waitFor(pool, projection, targets, leftMs())
    }
  }
}
