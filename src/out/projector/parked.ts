import { sql, type Query } from '#projections/define.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Bus } from '#src/nats/connect.ts'
import { factAtLeader } from '#src/nats/lookup.ts'
import { isPoison, type Pool } from '#src/postgres/pool.ts'
import { ask, inTransaction } from '#src/postgres/run.ts'
import { qualified, type ViewSet } from '#src/postgres/sets.ts'

/** A fact that a view could not take. */
export interface ParkedFact { stream: string, seq: number, subject: string, reason: string }

const PAGE = 100

/** How many facts are parked beside a set. Throws the driver's error. */
export async function countParked (pool: Pool, set: ViewSet): Promise<number> {
  return await ask(pool, { sql: sql`select count(*) as count from ${qualified(set, 'parked')}`, read: ([row]) => row!.count as number })
}

/** The first of them after a place. Throws the driver's error. */
export async function listParked (pool: Pool, set: ViewSet, after: Pick<ParkedFact, 'stream' | 'seq'> = { stream: '', seq: 0 }): Promise<ParkedFact[]> {
  const query: Query<ParkedFact[]> = {
    sql: sql`select stream, seq, subject, reason from ${qualified(set, 'parked')}
      where (stream, seq) > (${after.stream}, ${after.seq}::bigint) order by stream, seq limit ${PAGE}`,
    read: rows => rows as unknown as ParkedFact[]
  }
  return await ask(pool, query)
}

/** Tries the parked facts of a set once more: another version of the code, or of the server, may take them. Facts may come in any order, so a late one is as
 *  good as one in time. Between two of them it ends when told to. Throws when NATS or PostgreSQL does not answer. */
export async function retryParked (bus: Bus, pool: Pool, set: ViewSet, log: Log, signal: AbortSignal): Promise<void> {
  for (let page = await listParked(pool, set); page.length > 0; page = await listParked(pool, set, page.at(-1)!)) {
    for (const parked of page) {
      if (signal.aborted) return
      await retry(bus, pool, set, log, parked)
    }
  }
}

async function retry (bus: Bus, pool: Pool, set: ViewSet, log: Log, { stream, seq }: ParkedFact): Promise<void> {
  try {
    // By the leader's word: a replica that lags would say that it is gone.
    const recorded = await factAtLeader(bus, stream, seq)
    await inTransaction(pool, set, async run => {
      // Not while two sets change places: what is deleted in one must not be written into the other. And of two who try, one finds it gone.
      await run(sql`lock table checkpoints in row exclusive mode`)
      if (await run(sql`delete from parked where stream = ${stream} and seq = ${seq}`) === 0 || recorded === null) return
      for (const statement of set.projection.project([recorded])) await run(statement)
    })
    log.info({ stream, seq, gone: recorded === null }, 'a parked fact is done with')
  } catch (error) {
    if (!isPoison(error) && !isUnreadable(error)) throw error
    log.debug({ stream, seq, reason: asError(error).message }, 'a parked fact stays parked')
  }
}

/** What the catalog and `project` throw has no code of a server or a socket. */
function isUnreadable (error: unknown): boolean {
  return error instanceof Error && !('code' in error)
}
