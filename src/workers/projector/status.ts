import { sql, type Projection, type Query, type Sql } from '#projections/define.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'
import { ahead } from '#src/nats/status.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'
import { isMissing, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet, qualified, rebuildingSet } from '#src/postgres/table-sets.ts'
import type { Lag } from './lag.ts'
import type { DeadLetter } from './dead-letters.ts'

/** How a view stands, by its own tables: whichever process writes it. */
export interface ProjectionStatus {
  positions: Positions
  deadLetters: number
  /** What its tables take on disk. */
  bytes: number
  /** RFC 3339: since when there is this one. */
  madeAt: string
}

/** null = there is no such view yet. Throws the driver's error. */
export async function projectionStatus (pool: Pool, projection: Projection): Promise<ProjectionStatus | null> {
  const set = liveSet(projection)
  const query: Query<ProjectionStatus> = {
    sql: sql`select
      (select coalesce(json_object_agg(stream, position), '{}') from ${qualified(set, 'checkpoints')}) as positions,
      (select count(*) from ${qualified(set, 'dead_letters')}) as dead_letters,
      (select made_at from ${qualified(set, 'about')} limit 1) as made,
      (select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class where relnamespace = ${set.schema}::regnamespace and relkind = 'r') as bytes`,
    read: ([row]) => ({
      positions: row!.positions as Positions,
      deadLetters: row!.dead_letters as number,
      bytes: row!.bytes as number,
      madeAt: (row!.made as Date).toISOString()
    })
  }
  try {
    return await ask(pool, query)
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** Names of those of the projections that some process makes anew at this moment: it holds the name of the set, see
 *  `alone`. Throws the driver's error. */
export async function beingRebuilt (pool: Pool, projections: readonly Projection[]): Promise<Set<string>> {
  const schemas = projections.map(projection => rebuildingSet(projection).schema)
  const held: Sql = sql`select 1 from pg_locks where locktype = 'advisory' and granted and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32 | objid::bigint) = hashtextextended(schema, 1)`
  const names = await ask(pool, {
    sql: sql`select schema from unnest(${schemas}::text[]) as schema where exists (${held})`,
    read: rows => new Set(rows.map(row => row.schema as string))
  })
  return new Set(projections.filter(projection => names.has(rebuildingSet(projection).schema)).map(({ name }) => name))
}

/** How far a view is behind the log, by the log. Throws what `isUnanswered` knows, or JetStreamError. */
export async function lagBehind (bus: Bus, { streams }: Projection, positions: Positions, nowMs: number): Promise<Lag> {
  const parts = await Promise.all(streams.map(async ({ stream, filter }) => {
    const seen = positions[stream] ?? 0
    // What lies behind may be for others: to count makes a consumer on the server, and is left for when there is
    // something.
    const isSeen = await lastSequence(bus, stream) <= seen || await lastSequenceUnder(bus, stream, filter) <= seen
    return isSeen ? { count: 0, firstMs: null } : await ahead(bus, stream, filter, seen)
  }))
  return {
    facts: parts.reduce((sum, { count }) => sum + count, 0),
    seconds: Math.max(0, ...parts.map(({ firstMs }) => (firstMs === null ? 0 : (nowMs - firstMs) / 1000)))
  }
}

/** A dead-lettered fact, and since when it is. */
export interface DatedDeadLetter extends DeadLetter {
  at: string
}

/** The newest of each stream, `max` of each. None where there is no such view. Throws the driver's error. */
export async function newestDeadLetters (pool: Pool, projection: Projection, max: number): Promise<DatedDeadLetter[]> {
  const found = await Promise.all(projection.streams.map(async ({ stream }) =>
    await ask(pool, {
      sql: sql`select stream, seq, subject, reason, dead_lettered_at as at from ${
        qualified(liveSet(projection), 'dead_letters')
      } where stream = ${stream} order by seq desc limit ${max}`,
      read: rows => rows.map(row => ({ ...row as unknown as DeadLetter, at: (row.at as Date).toISOString() }))
    }).catch(error => {
      if (isMissing(error)) return []
      throw error
    })
  ))
  return found.flat()
}
