import type { Client } from 'pg'
import type { Positions } from '#src/postgres/checkpoint.ts'
import { transact } from '#src/postgres/query.ts'
import { createIndexes, createTables, isCreated, type TableSet } from '#src/postgres/table-sets.ts'
import { fingerprintOfParts, splitSources, startOf, type RebuildPart, type Rerecorded } from './parts.ts'

export interface RebuildPlan {
  /** Into so many parts, when it begins from nothing. */
  parts: number
  rerecorded: Rerecorded
  /** The ends of the streams. */
  upTo: Positions
}

/** Creates a set's tables and says what is to be read into which part of it; null = all of it has been. Goes on with an
 *  unfinished rebuild by the same SQL that was split in the same way and is not of a longer log; drops any other. */
export async function prepare (client: Client, set: TableSet, plan: RebuildPlan): Promise<RebuildPart[] | null> {
  const left = await unfinished(client, set, plan)
  if (left !== 'nothing') return left
  const split = splitSources(set.projection, plan.parts)
  const parts = split.map((sources, n) => ({
    n,
    sources,
    positions: startOf(set.projection, plan.rerecorded, n, split.length)
  }))
  await transact(client, async () => {
    await client.query(`drop schema if exists ${set.schema} cascade`)
    await createTables(client, set)
    await client.query(`
      create table ${set.schema}.progress (
        part integer, stream text collate "C", position bigint not null, split text not null,
        updated_at timestamptz not null default now(), primary key (part, stream)
      )`)
    const rows = parts.flatMap(({ n: part, positions }) =>
      Object.entries(positions).map(([stream, position]) => ({ part, stream, position }))
    )
    await client.query(
      `insert into ${set.schema}.progress (part, stream, position, split) select part, stream, position, $2
      from json_to_recordset($1) as rows (part integer, stream text, position bigint)`,
      [JSON.stringify(rows), fingerprintOfParts(split)]
    )
  })
  return parts
}

async function unfinished (
  client: Client,
  set: TableSet,
  { upTo }: RebuildPlan
): Promise<RebuildPart[] | null | 'nothing'> {
  if (!await isCreated(client, set)) return 'nothing'
  const { rows: [found] } = await client.query<{ progress: boolean }>(
    'select to_regclass($1) is not null as progress',
    [`${set.schema}.progress`]
  )
  const table = found!.progress ? 'progress' : 'checkpoints'
  const { rows } = await client.query<{ part: number, stream: string, position: number, split: string }>(
    `select * from ${set.schema}.${table}`
  )
  if (rows.some(({ stream, position }) => !(position <= upTo[stream]!))) return 'nothing'
  if (!found!.progress) return null
  const split = splitSources(set.projection, Math.max(...rows.map(({ part }) => part)) + 1)
  if (rows.some(row => row.split !== fingerprintOfParts(split))) return 'nothing'
  return split.map((sources, n) => ({
    n,
    sources,
    positions: Object.fromEntries(
      rows.filter(({ part }) => part === n).map(({ stream, position }) => [stream, position])
    )
  }))
}

/** The end of a rebuild: one checkpoint where all parts have arrived, and what the set needs before it is read. */
export async function finish (client: Client, set: TableSet, upTo: Positions, indexes: boolean): Promise<void> {
  await transact(client, async () => {
    await client.query("set local maintenance_work_mem = '256MB'")
    if (indexes) await createIndexes(client, set)
    const rows = Object.entries(upTo).filter(([, position]) => position > 0).map(([stream, position]) => ({
      stream,
      position
    }))
    await client.query(
      `insert into ${set.schema}.checkpoints (stream, position)
      select stream, position from json_to_recordset($1) as rows (stream text, position bigint)`,
      [JSON.stringify(rows)]
    )
    await client.query(`drop table ${set.schema}.progress`)
    // The planner knows nothing of a new table's rows, and would read all of it.
    const { rows: tables } = await client.query<{ name: string }>(
      "select relname as name from pg_class where relnamespace = $1::regnamespace and relkind = 'r'",
      [set.schema]
    )
    await client.query(`analyze ${tables.map(({ name }) => `${set.schema}.${name}`).join(', ')}`)
  })
}
