import { setImmediate as turn } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import type { Projection } from '#projections/define.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'
import { readPositions, waitFor, type Checkpoints, type Positions } from '#src/postgres/checkpoint.ts'
import { isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { inTransaction, type Execute } from '#src/postgres/query.ts'
import { liveSet, type TableSet } from '#src/postgres/table-sets.ts'
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

/** Writes a batch, checkpoint and rows, inside a transaction; may be asked to again after a rollback. */
export type BatchWork = (execute: Execute, client: PoolClient) => Promise<void>

/** Runs `work` among the tables of `set`, in a transaction that is committed when it resolves. Throws what `work`
 *  throws, and the driver's error. */
export type Commit = (set: TableSet, work: BatchWork) => Promise<void>

interface Waiting {
  set: TableSet
  work: BatchWork
  resolve(): void
  reject(error: unknown): void
}

/** Each batch in a transaction of its own. */
export function commitAlone (pool: Pool): Commit {
  return async (set, work) => await inTransaction(pool, [set], work)
}

/** One transaction for the batches of several projections: what comes together, or while another one runs, is committed
 *  together. A batch that fails takes no other with it. */
export class SharedCommit {
  private readonly pool: Pool
  private readonly sets: TableSet[]
  private readonly waiting: Waiting[] = []
  private running = false

  /** `sets`: all that there are batches for. */
  constructor (pool: Pool, sets: TableSet[]) {
    this.pool = pool
    this.sets = sets
  }

  readonly commit: Commit = async (set, work) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.waiting.push({ set, work, resolve, reject })
    if (!this.running) void this.run()
    await promise
  }

  private async run (): Promise<void> {
    this.running = true
    while (this.waiting.length > 0) {
      // What became ready at the same time comes along.
      await turn()
      // In one order in every process: of two that meet at a checkpoint one waits, and none for ever.
      const group = this.waiting.splice(0).toSorted((a, b) => (a.set.schema < b.set.schema ? -1 : 1))
      await this.commitGroup(group)
    }
    this.running = false
  }

  private async commitGroup (group: Waiting[]): Promise<void> {
    try {
      await this.transact(group)
      for (const { resolve } of group) resolve()
    } catch (error) {
      if (group.length === 1 || isUnavailable(error)) { for (const { reject } of group) reject(error) }
      // Alone each shows whether the fault is its own.
      else for (const one of group) await this.commitGroup([one])
    }
  }

  private async transact (group: Waiting[]): Promise<void> {
    await inTransaction(this.pool, this.sets, async (execute, client) => {
      for (const { work } of group) await work(execute, client)
    })
  }
}
