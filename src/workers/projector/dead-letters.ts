import { sql, type Query } from '#projections/define.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Bus } from '#src/nats/connect.ts'
import { factAt } from '#src/nats/certain.ts'
import { isPoison, type Pool } from '#src/postgres/pool.ts'
import { ask, inTransaction } from '#src/postgres/query.ts'
import { qualified, type TableSet } from '#src/postgres/table-sets.ts'

/** A fact that could not be written into a projection. */
export interface DeadLetter {
  stream: string
  seq: number
  subject: string
  reason: string
}

const PAGE = 100

/** How many facts are dead-lettered beside a set. Throws the driver's error. */
export async function countDeadLetters (pool: Pool, set: TableSet): Promise<number> {
  return await ask(pool, {
    sql: sql`select count(*) as count from ${qualified(set, 'dead_letters')}`,
    read: ([row]) => row!.count as number
  })
}

/** The first of them after a place. Throws the driver's error. */
export async function listDeadLetters (
  pool: Pool,
  set: TableSet,
  after: Pick<DeadLetter, 'stream' | 'seq'> = { stream: '', seq: 0 }
): Promise<DeadLetter[]> {
  const query: Query<DeadLetter[]> = {
    sql: sql`select stream, seq, subject, reason from ${qualified(set, 'dead_letters')}
      where (stream, seq) > (${after.stream}, ${after.seq}::bigint) order by stream, seq limit ${PAGE}`,
    read: rows => rows as unknown as DeadLetter[]
  }
  return await ask(pool, query)
}

/** Retries the dead-lettered facts of a set: another version of the code, or of the server, may accept them. Facts may
 *  be projected in any order, so a late one does no harm. Stops between two of them when `signal` is aborted. Throws
 *  when NATS or PostgreSQL does not answer. */
export async function retryDeadLetters (
  bus: Bus,
  pool: Pool,
  set: TableSet,
  log: Log,
  signal: AbortSignal
): Promise<void> {
  for (
    let page = await listDeadLetters(pool, set);
    page.length > 0;
    page = await listDeadLetters(pool, set, page.at(-1)!)
  ) {
    for (const deadLetter of page) {
      if (signal.aborted) return
      await retry(bus, pool, set, log, deadLetter)
    }
  }
}

async function retry (bus: Bus, pool: Pool, set: TableSet, log: Log, { stream, seq }: DeadLetter): Promise<void> {
  try {
    const recorded = await factAt(bus, stream, seq)
    await inTransaction(pool, [set], async execute => {
      // Not while two sets are swapped: what is deleted in one must not be written into the other. And of two that
      // retry, one finds it gone.
      await execute(sql`lock table checkpoints in row exclusive mode`)
      const deleted = await execute(sql`delete from dead_letters where stream = ${stream} and seq = ${seq}`)
      if (deleted === 0 || recorded === null) return
      for (const statement of set.projection.project([recorded])) await execute(statement)
    })
    log.info({ stream, seq, gone: recorded === null }, 'dead letter settled')
  } catch (error) {
    if (!isPoison(error) && !isUnreadable(error)) throw error
    log.debug({ stream, seq, reason: asError(error).message }, 'dead letter retried without success')
  }
}

/** Errors of the catalog and of `project` have no code of a server or a socket. */
function isUnreadable (error: unknown): boolean {
  return error instanceof Error && !('code' in error)
}
