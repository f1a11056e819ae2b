import { sql, Sql } from '#projections/define.ts'
import type { TableSet } from '#src/postgres/table-sets.ts'
import type { VerifySession } from './session.ts'

/** A row that is not as it should be: its key, and in which columns. Never what is in them: that may be personal. */
export interface WrongRow {
  key: Record<string, unknown>
  what: 'missing' | 'surplus' | 'different'
  columns: string[]
}

/** `compared` = what the log gives. `missing` = of that the view has it not; `surplus` = the view has what the log does
 *  not give. */
export interface TableReport {
  table: string
  compared: number
  missing: number
  surplus: number
  different: number
  examples: WrongRow[]
}

const EXAMPLES_MAX = 5

interface Table {
  name: string
  key: string[]
  columns: string[]
}

/** Every table of two sets of one projection, row by row, by primary key: `live` against `fresh`, which is right. Those
 *  rows count that are not `aged` on either side; of an aged one some facts may be gone. */
export async function compareSets (
  session: VerifySession,
  live: TableSet,
  fresh: TableSet,
  horizonMs: number | null
): Promise<TableReport[]> {
  const aged = horizonMs === null ? {} : live.projection.aging?.rows(horizonMs) ?? {}
  const reports: TableReport[] = []
  for (const table of await tablesOf(session, fresh)) {
    reports.push(await compareTable(session, table, [live, fresh], aged[table.name] ?? sql`false`))
  }
  return reports
}

/** The cursor and what was set aside are no rows of the view. */
const OURS = ['about', 'checkpoints', 'dead_letters']

/** By the catalog of the server, so that no table can be forgotten. Throws when one has no primary key. */
async function tablesOf (session: VerifySession, { schema }: TableSet): Promise<Table[]> {
  const tables = await session.ask<Table>(sql`
    select c.relname as name,
      array(select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) as columns,
      array(select a.attname::text from pg_index i cross join unnest(i.indkey::int[]) with ordinality as at (num, place)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = at.num
        where i.indrelid = c.oid and i.indisprimary order by at.place) as key
    from pg_class c where c.relnamespace = ${schema}::regnamespace and c.relkind in ('r', 'p') and not c.relname = any(${OURS}::text[]) order by c.relname`)
  const keyless = tables.find(({ key }) => key.length === 0)
  if (keyless !== undefined) throw new Error(`the table ${keyless.name} has no primary key`)
  return tables
}

interface Difference {
  key: Record<string, unknown>
  what: WrongRow['what']
  columns: string[]
}

async function compareTable (
  session: VerifySession,
  { name, key, columns }: Table,
  [live, fresh]: [TableSet, TableSet],
  aged: Sql
): Promise<TableReport> {
  const report: TableReport = { table: name, compared: 0, missing: 0, surplus: 0, different: 0, examples: [] }
  const differs = new Map(columns.map(column => [column, text(`a."${column}" is distinct from b."${column}"`)]))
  const rows = ({ schema }: TableSet) =>
    sql`(select *, (${aged}) is true as is_aged from ${text(`${schema}."${name}"`)})`
  const joined = sql`${rows(live)} a full join ${rows(fresh)} b on ${
    join(key.map(column => text(`a."${column}" = b."${column}"`)), ' and ')
  }
    where not coalesce(a.is_aged, false) and not coalesce(b.is_aged, false)`
  const [counted] = await session.ask<{ count: number }>(
    sql`select count(*) as count from ${rows(fresh)} b where not b.is_aged`
  )
  report.compared = counted!.count
  const question = sql`
    select json_build_object(${
    join(key.map(column => text(`'${column}', coalesce(a."${column}", b."${column}")`)), ', ')
  }) as key,
      case when a."${text(key[0]!)}" is null then 'missing' when b."${
    text(key[0]!)
  }" is null then 'surplus' else 'different' end as what,
      array_remove(array[${
    join(columns.map(column => sql`case when ${differs.get(column)!} then ${text(`'${column}'`)} end`), ', ')
  }]::text[], null) as columns
    from ${joined} and (${join([...differs.values()], ' or ')})
    order by ${join(key.map(column => text(`coalesce(a."${column}", b."${column}")`)), ', ')}`
  for await (const page of session.pages<Difference>(question)) {
    for (const { key, what, columns } of page) {
      report[what]++
      if (report.examples.length < EXAMPLES_MAX) {
        report.examples.push({ key, what, columns: what === 'different' ? columns : [] })
      }
    }
  }
  return report
}

/** Names from the catalog, as text. */
function text (value: string): Sql {
  return new Sql([value], [])
}

function join (parts: readonly Sql[], by: string): Sql {
  return parts.reduce((left, right) => sql`${left}${text(by)}${right}`)
}
