import { countsOf, eachCount, SUMS, type Counts } from '../counts.ts'
import { sql, type Query, type Sql } from '../define.ts'

export interface UsageQueryOptions {
  account: string
  /** `2026-11`, both included. */
  firstMonth: string
  lastMonth: string
  /** The sender's; null = all. */
  domain: string | null
}

/** The closed months of a stretch, oldest first: also those in which the domain sent nothing. */
export function closedMonths (
  { domain, ...months }: UsageQueryOptions
): Query<Array<{ month: string, counts: Counts }>> {
  const sums = domain === null
    ? SUMS
    : eachCount(column => sql`coalesce(sum(${column}) filter (where domain = ${domain}), 0)::bigint as ${column}`)
  return {
    sql: sql`select month, ${sums} from usage where ${within(months)} group by month order by month`,
    read: rows => rows.map(row => ({ month: row.month as string, counts: countsOf(row) }))
  }
}

/** What closed months come to together, by domain. */
export function closedDomains (
  { domain, ...months }: UsageQueryOptions
): Query<Array<{ name: string, counts: Counts }>> {
  const only = domain === null ? sql`true` : sql`domain = ${domain}`
  return {
    sql: sql`select domain, ${SUMS} from usage where ${within(months)} and ${only} group by domain order by domain`,
    read: rows => rows.map(row => ({ name: row.domain as string, counts: countsOf(row) }))
  }
}

function within ({ account, firstMonth, lastMonth }: Omit<UsageQueryOptions, 'domain'>): Sql {
  return sql`account = ${account} and month between ${firstMonth} and ${lastMonth}`
}
