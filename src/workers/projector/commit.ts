import type { PoolClient } from 'pg'
import { setImmediate as turn } from 'node:timers/promises'
import { isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { inTransaction, type Execute } from '#src/postgres/query.ts'
import type { TableSet } from '#src/postgres/table-sets.ts'

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
