import { sql, type Projection, type Query, type Sql } from '#projections/define.ts'
import type { Bus } from '#src/nats/connect.ts'
import { messagesAfter } from '#src/nats/status.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'
import { isMissing, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet, qualified, rebuildingSet } from '#src/postgres/table-sets.ts'
import { distanceTo, type Lag } from './lag.ts'
import type { DeadLetter } from './dead-letters.ts'

/** The state of a projection by its own tables, whichever process writes them. */
export interface ProjectionStatus {
  positions: Positions
  deadLetters: number
  /** What its tables take on disk. */
  bytes: number
  /** RFC 3339: since when these tables exist. */
  createdAt: string
}

/** null = its tables do not exist yet. Throws the driver's error. */
export async function projectionStatus (pool: Pool, projection: Projection): Promise<ProjectionStatus | null> {
  const set = liveSet(projection)
  const query: Query<ProjectionStatus> = {
    sql: sql`select
      (select coalesce(json_object_agg(stream, position), '{}') from ${qualified(set, 'checkpoints')}) as positions,
      (select count(*) from ${qualified(set, 'dead_letters')}) as dead_letters,
      (select created_at from ${qualified(set, 'metadata')} limit 1) as created_at,
      (select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
        where relnamespace = ${set.schema}::regnamespace and relkind = 'r') as bytes`,
    read: ([row]) => ({
      positions: row!.positions as Positions,
      deadLetters: row!.dead_letters as number,
      bytes: row!.bytes as number,
      createdAt: (row!.created_at as Date).toISOString()
    })
  }
  try {
    return await ask(pool, query)
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** Names of those projections that some process is rebuilding: it holds a lock on the set's name, see `exclusively`.
 *  Throws the driver's error. */
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

/** How far a projection is behind the log, by the log. Throws what `isUnanswered` knows, or JetStreamError. */
export async function lagBehind (bus: Bus, { streams }: Projection, positions: Positions, nowMs: number): Promise<Lag> {
  const parts = await Promise.all(streams.map(async source => {
    const { stream, filter } = source
    const seen = positions[stream] ?? 0
    // Counting creates a consumer on the server, so only when there is something to count.
    const isSeen = await distanceTo(bus, source, seen) === 0
    return isSeen ? { count: 0, firstMs: null } : await messagesAfter(bus, stream, filter, seen)
  }))
  return {
    facts: parts.reduce((sum, { count }) => sum + count, 0),
    seconds: Math.max(0, ...parts.map(({ firstMs }) => (firstMs === null ? 0 : (nowMs - firstMs) / 1000)))
  }
}

/** A dead-lettered fact, and since when it has been. */
export interface DatedDeadLetter extends DeadLetter {
  at: string
}

/** The newest of each stream, `max` of each. None where the tables do not exist. Throws the driver's error. */
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
