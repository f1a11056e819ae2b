import { sql, Sql } from '#projections/define.ts'
import type { TableSet } from '#src/postgres/table-sets.ts'
import type { VerifySession } from './session.ts'

/** A row that differs from the log: its key, and in which columns. Never their values: they may be personal. */
export interface WrongRow {
  key: Record<string, unknown>
  what: 'missing' | 'surplus' | 'different'
  columns: string[]
}

/** Counts of rows. `compared`: what the log gives. `missing`: of those, not in the live table; `surplus`: in the live
 *  table and not given by the log. */
export interface TableComparison {
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

/** Compares every table of two sets of one projection, row by row, by primary key: `live` against `fresh`, which is
 *  right. Leaves out rows that are `aged` on either side: some of their facts may be gone. */
export async function compareSets (
  session: VerifySession,
  live: TableSet,
  fresh: TableSet,
  horizonMs: number | null
): Promise<TableComparison[]> {
  const aged = horizonMs === null ? {} : live.projection.aging?.rows(horizonMs) ?? {}
  const reports: TableComparison[] = []
  for (const table of await tablesOf(session, fresh)) {
    reports.push(await compareTable(session, table, [live, fresh], aged[table.name] ?? sql`false`))
  }
  return reports
}

/** They hold no rows of the projection. */
const OWN_TABLES = ['metadata', 'checkpoints', 'dead_letters']

/** From the server's catalog, so that no table can be forgotten. Throws when one has no primary key. */
async function tablesOf (session: VerifySession, { schema }: TableSet): Promise<Table[]> {
  const tables = await session.query<Table>(sql`
    select c.relname as name,
      array(select a.attname::text from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) as columns,
      array(select a.attname::text from pg_index i cross join unnest(i.indkey::int[]) with ordinality as at (num, n)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = at.num
        where i.indrelid = c.oid and i.indisprimary order by at.n) as key
    from pg_class c where c.relnamespace = ${schema}::regnamespace and c.relkind in ('r', 'p')
      and not c.relname = any(${OWN_TABLES}::text[]) order by c.relname`)
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
  table: Table,
  sets: [TableSet, TableSet],
  aged: Sql
): Promise<TableComparison> {
  const { counted, differences } = statementsFor(table, sets, aged)
  const [{ count: compared } = { count: 0 }] = await session.query<{ count: number }>(counted)
  const report: TableComparison = { table: table.name, compared, missing: 0, surplus: 0, different: 0, examples: [] }
  for await (const page of session.pages<Difference>(differences)) {
    for (const { key, what, columns } of page) {
      report[what]++
      if (report.examples.length < EXAMPLES_MAX) {
        report.examples.push({ key, what, columns: what === 'different' ? columns : [] })
      }
    }
  }
  return report
}

function statementsFor (
  { name, key, columns }: Table,
  [live, fresh]: [TableSet, TableSet],
  aged: Sql
): { counted: Sql, differences: Sql } {
  const rows = ({ schema }: TableSet) =>
    sql`(select *, (${aged}) is true as is_aged from ${text(`${schema}."${name}"`)})`
  const differs = columns.map(column => text(`a."${column}" is distinct from b."${column}"`))
  const keyObject = join(key.map(column => text(`'${column}', coalesce(a."${column}", b."${column}")`)), ', ')
  const sameKey = join(key.map(column => text(`a."${column}" = b."${column}"`)), ' and ')
  const byKey = join(key.map(column => text(`coalesce(a."${column}", b."${column}")`)), ', ')
  const differing = join(
    columns.map((column, i) => sql`case when ${differs[i]!} then ${text(`'${column}'`)} end`),
    ', '
  )
  const first = text(`"${key[0]!}"`)
  return {
    counted: sql`select count(*) as count from ${rows(fresh)} b where not b.is_aged`,
    differences: sql`
      select json_build_object(${keyObject}) as key,
        case when a.${first} is null then 'missing' when b.${first} is null then 'surplus' else 'different' end as what,
        array_remove(array[${differing}]::text[], null) as columns
      from ${rows(live)} a full join ${rows(fresh)} b on ${sameKey}
      where not coalesce(a.is_aged, false) and not coalesce(b.is_aged, false) and (${join(differs, ' or ')})
      order by ${byKey}`
  }
}

/** Names from the catalog, as they are. */
function text (value: string): Sql {
  return new Sql([value], [])
}

function join (parts: readonly Sql[], by: string): Sql {
  return parts.reduce((left, right) => sql`${left}${text(by)}${right}`)
}
