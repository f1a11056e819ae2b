import { sql, type Query } from '../define.ts'

/** How many of an endpoint's replayed deliveries wait: never tried, or due within `soonS` seconds; each kind is counted
 *  up to `max`. Those that the endpoint has refused and that are due in some hours do not count. */
export function replayBacklog (
  { account, webhook, soonS, max }: { account: string, webhook: string, soonS: number, max: number }
): Query<number> {
  const waiting = sql`select 1 from deliveries
    where account = ${account} and webhook = ${webhook} and state in ('pending', 'retrying') and replay <> ''`
  const soon = sql`now() + make_interval(secs => ${soonS})`
  return {
    sql: sql`select (select count(*) from (${waiting} and attempts = 0 limit ${max}) untried)
      + (select count(*) from (${waiting} and attempts > 0 and next_attempt_at < ${soon} limit ${max}) due) as count`,
    read: ([row]) => Number(row!.count)
  }
}

/** How many failed deliveries of an account's endpoints are not replayed yet, by endpoint: only endpoints with any,
 *  each counted up to `max`. */
export function failedWaiting (
  { account, webhooks, max }: { account: string, webhooks: string[], max: number }
): Query<Array<{ webhook: string, count: number }>> {
  return {
    sql: sql`select endpoints.id as webhook, found.count
      from unnest(${webhooks}::text[]) as endpoints (id) cross join lateral (
        select count(*) as count from (
          select 1 from deliveries where account = ${account} and webhook = endpoints.id and state = 'failed'
          limit ${max}) counted) found
      where found.count > 0 order by found.count desc, endpoints.id`,
    read: rows => rows.map(row => ({ webhook: row.webhook as string, count: Number(row.count) }))
  }
}
