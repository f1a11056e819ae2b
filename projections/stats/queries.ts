import { COUNTED, countsOf, eachCount, SUMS, type Counts } from '../counts.ts'
import { all, Sql, sql, type Query } from '../define.ts'

export const INTERVALS = ['hour', 'day', 'month'] as const
export type Interval = typeof INTERVALS[number]

export const GROUPS = ['domain', 'tag', 'destination'] as const
export type GroupBy = typeof GROUPS[number]

/** Which mail is meant; null = any. A destination is counted apart from domains and tags. */
export interface Which {
  account: string
  domain: string | null
  tag: string | null
  destination: string | null
}

export interface StatsOptions {
  which: Which
  /** Unix ms, both at the beginning of an hour: from then on, and before that. */
  fromMs: number
  toMs: number
  /** Months (`2026-11`) that are left out. */
  except: readonly string[]
}

/** What a stretch of time comes to; `startMs` = its beginning, Unix ms. */
export interface Bucket {
  startMs: number
  counts: Counts
}

/** The stretches in which anything happened, oldest first. */
export function countsByTime (options: StatsOptions & { interval: Interval }): Query<Bucket[]> {
  const { which, interval } = options
  return {
    sql: sql`select date_trunc(${interval}, hour, 'UTC') as start, ${SUMS} from ${tableFor(which, null)} where ${
      conditions(options, null)
    } group by start order by start`,
    read: rows => rows.map(row => ({ startMs: (row.start as Date).getTime(), counts: countsOf(row) }))
  }
}

/** What a domain, tag or destination comes to. */
export interface Group {
  name: string
  counts: Counts
}

/** At most `limit` of them, those first that most was accepted of. */
export function countsByName (options: StatsOptions & { by: GroupBy, limit: number }): Query<Group[]> {
  const { which, by, limit } = options
  return {
    sql: sql`
      select ${NAMES[by]} as name, ${SUMS} from ${tableFor(which, by)} where ${conditions(options, by)}
      group by name order by sum(accepted) desc, name limit ${limit}`,
    read: rows => rows.map(row => ({ name: row.name as string, counts: countsOf(row) }))
  }
}

const NAMES: Record<GroupBy, Sql> = { domain: sql`domain`, tag: sql`tag`, destination: sql`destination` }

function tableFor ({ destination }: Which, by: GroupBy | null): Sql {
  return destination !== null || by === 'destination' ? sql`stats_destinations` : sql`stats_hours`
}

function conditions ({ which, fromMs, toMs, except }: StatsOptions, by: GroupBy | null): Sql {
  const { account, domain, tag, destination } = which
  const byDestination = destination !== null || by === 'destination'
  return all([
    sql`account = ${account} and hour >= ${time(fromMs)} and hour < ${time(toMs)}`,
    ...(except.length === 0 ? [] : [sql`to_char(hour at time zone 'UTC', 'YYYY-MM') <> all(${except}::text[])`]),
    ...(destination === null ? [] : [sql`destination = ${destination}`]),
    ...(domain === null ? [] : [sql`domain = ${domain}`]),
    ...(byDestination ? [] : [tag === null && by === 'tag' ? sql`tag <> ''` : sql`tag = ${tag ?? ''}`])
  ])
}

/** What a month of an account comes to, by the sender's domain. */
export function countsOfMonth (
  { account, month, limit }: { account: string, month: string, limit: number }
): Query<Array<{ domain: string, counts: Counts }>> {
  const start = sql`(${`${month}-01`}::timestamp at time zone 'UTC')`
  return {
    sql: sql`
      select domain, ${SUMS} from stats_hours
      where account = ${account} and tag = '' and hour >= ${start}
        and hour < ((${`${month}-01`}::timestamp + interval '1 month') at time zone 'UTC')
      group by domain order by sum(accepted) desc, domain limit ${limit}`,
    read: rows => rows.map(row => ({ domain: row.domain as string, counts: countsOf(row) }))
  }
}

/** How the mail of a sender's domain fares, since `fromMs` and, of that, since `recentMs`. */
export interface Fare {
  account: string
  domain: string
  all: Counts
  recent: Counts
}

const RECENT_SUMS = eachCount((column, name) =>
  sql`coalesce(sum(${column}) filter (where hour >= past.recent), 0)::bigint as ${new Sql([`recent_${name}`], [])}`
)

/** Of all accounts, for who runs them: at most `limit`, those first that most came back of. Times as in StatsOptions.
 */
export function fares (
  { fromMs, recentMs, limit }: { fromMs: number, recentMs: number, limit: number }
): Query<Fare[]> {
  return {
    sql: sql`
      select account, domain, ${SUMS}, ${RECENT_SUMS} from stats_hours, (select ${time(recentMs)} as recent) as past
      where tag = '' and domain <> '' and hour >= ${time(fromMs)}
      group by account, domain having sum(delivered + bounced + failed + complained) > 0
      order by sum(bounced + complained) desc, sum(accepted) desc, domain limit ${limit}`,
    read: rows =>
      rows.map(row => ({
        account: row.account as string,
        domain: row.domain as string,
        all: countsOf(row),
        recent: countsOf(Object.fromEntries(COUNTED.map(name => [name, row[`recent_${name}`]])))
      }))
  }
}

/** What the mail of each account came to that anything came back of, since `fromMs`, or since what `laterMs` says for
 *  an account. Unix ms, at the beginning of an hour. */
export function accountFares (
  { fromMs, laterMs }: { fromMs: number, laterMs: ReadonlyMap<string, number> }
): Query<Array<{ account: string, counts: Counts }>> {
  return {
    sql: sql`
      select account, ${SUMS} from stats_hours
        left join unnest(${[...laterMs.keys()]}::text[], ${[...laterMs.values()]}::float8[]) as later(account, ms)
        using (account)
      where tag = '' and domain <> '' and hour >= ${time(fromMs)}
        and hour >= to_timestamp(coalesce(later.ms, 0) / 1000)
      group by account having sum(bounced + complained) > 0`,
    read: rows => rows.map(row => ({ account: row.account as string, counts: countsOf(row) }))
  }
}

function time (ms: number): Sql {
  return sql`to_timestamp(${ms}::float8 / 1000)`
}
