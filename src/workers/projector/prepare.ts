import type { Client } from 'pg'
import { isMade, makeIndexes, makeTables, type TableSet } from '#src/postgres/table-sets.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'
import { transact } from '#src/postgres/query.ts'
import { beginningOf, cut, nameOf, type Part, type Rerecorded } from './cut.ts'

export interface Plan {
  /** Into so many parts, when it begins anew. */
  parts: number
  rerecorded: Rerecorded
  /** The ends of the streams. */
  upTo: Positions
}

/** Makes a set's tables and says what is to be read into which part of it; null = all of it has been. Goes on with what
 *  was left by a build of the same texts that was cut in the same way and is not of a longer log; throws away any
 *  other. */
export async function prepare (client: Client, set: TableSet, plan: Plan): Promise<Part[] | null> {
  const left = await leftOver(client, set, plan)
  if (left !== 'nothing') return left
  const sources = cut(set.projection, plan.parts)
  const parts = sources.map((of, n) => ({
    n,
    sources: of,
    positions: beginningOf(set.projection, plan.rerecorded, n, sources.length)
  }))
  await transact(client, async () => {
    await client.query(`drop schema if exists ${set.schema} cascade`)
    await makeTables(client, set)
    await client.query(
      `create table ${set.schema}.progress (part integer, stream text collate "C", position bigint not null, cut text not null,
      updated_at timestamptz not null default now(), primary key (part, stream))`
    )
    const rows = parts.flatMap(({ n: part, positions }) =>
      Object.entries(positions).map(([stream, position]) => ({ part, stream, position }))
    )
    await client.query(
      `insert into ${set.schema}.progress (part, stream, position, cut) select part, stream, position, $2
      from json_to_recordset($1) as rows (part integer, stream text, position bigint)`,
      [JSON.stringify(rows), nameOf(sources)]
    )
  })
  return parts
}

async function leftOver (client: Client, set: TableSet, { upTo }: Plan): Promise<Part[] | null | 'nothing'> {
  if (!await isMade(client, set)) return 'nothing'
  const { rows: [there] } = await client.query<{ progress: boolean }>(
    'select to_regclass($1) is not null as progress',
    [`${set.schema}.progress`]
  )
  const table = there!.progress ? 'progress' : 'checkpoints'
  const { rows } = await client.query<{ part: number, stream: string, position: number, cut: string }>(
    `select * from ${set.schema}.${table}`
  )
  if (rows.some(({ stream, position }) => !(position <= upTo[stream]!))) return 'nothing'
  if (!there!.progress) return null
  const sources = cut(set.projection, Math.max(...rows.map(({ part }) => part)) + 1)
  if (rows.some(row => row.cut !== nameOf(sources))) return 'nothing'
  return sources.map((of, n) => ({
    n,
    sources: of,
    positions: Object.fromEntries(
      rows.filter(({ part }) => part === n).map(({ stream, position }) => [stream, position])
    )
  }))
}

/** The end of a fill: where all parts have come together, and what the set needs before it is read. */
export async function finish (client: Client, set: TableSet, upTo: Positions, indexes: boolean): Promise<void> {
  await transact(client, async () => {
    await client.query("set local maintenance_work_mem = '256MB'")
    if (indexes) await makeIndexes(client, set)
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
    // Nobody knows a new table's rows, and whoever guesses reads all of it.
    const { rows: tables } = await client.query<{ name: string }>(
      "select relname as name from pg_class where relnamespace = $1::regnamespace and relkind = 'r'",
      [set.schema]
    )
    await client.query(`analyze ${tables.map(({ name }) => `${set.schema}.${name}`).join(', ')}`)
  })
}
