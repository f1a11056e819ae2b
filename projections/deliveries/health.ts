import { sql, type Query } from '../define.ts'
import { DELIVERY_STATES, type DeliveryStateName } from './project.ts'

/** How many deliveries of an endpoint are in each state, counted up to the query's `max`. */
export type DeliveryCounts = Record<DeliveryStateName, number>

/** The states of deliveries first requested at or after `since` (RFC 3339), for each of an account's endpoints: each
 *  state is counted up to `max`, so that an endpoint with millions costs no more. */
export function deliveryCounts (
  { account, webhooks, since, max }: { account: string, webhooks: string[], since: string, max: number }
): Query<Map<string, DeliveryCounts>> {
  return {
    sql: sql`select names.webhook, states.name as state, found.count
      from unnest(${webhooks}::text[]) as names (webhook) cross join unnest(${[
      ...DELIVERY_STATES
    ]}::text[]) as states (name) cross join lateral (
        select count(*)::int as count from (
          select 1 from deliveries where account = ${account} and webhook = names.webhook and state = states.name
            and requested_at >= ${since}::timestamptz
          limit ${max}) counted) found`,
    read: rows => {
      const counts = new Map(webhooks.map(id => [id, { pending: 0, retrying: 0, delivered: 0, failed: 0 }]))
      for (
        const { webhook, state, count } of rows as Array<{ webhook: string, state: DeliveryStateName, count: number }>
      ) counts.get(webhook)![state] = count
      return counts
    }
  }
}
