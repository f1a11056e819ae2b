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

/** Deliveries of an endpoint that its health is read from, the newest of each state. */
const SAMPLE_MAX = 100

/** How an endpoint has answered. */
export interface EndpointAnswers {
  /** Since the beginning of the time asked about, of the newest deliveries. */
  delivered: number
  failing: number
  /** The same by equal stretches of that time, oldest first. */
  stretches: Array<{ delivered: number, failing: number }>
  /** The last request; null = none is known. */
  last: { status: number | null, error: string | null, duration_ms: number } | null
  /** Of the requests that were answered well, in ms; null = there were none. */
  medianMs: number | null
  /** Of what is kept; null = never. */
  lastSuccess: Date | null
}

interface HealthRow {
  webhook: string
  state: DeliveryStateName
  at: Date
  ended_at: Date | null
  attempt_seq: number
  http_status: number | null
  error: string | null
  duration_ms: number | null
}

/** How an account's endpoints answered from `sinceMs` to `nowMs` (Unix), in so many stretches: by the newest deliveries
 *  of each state, so that one with millions costs no more. */
export function endpointAnswers (
  { account, webhooks, sinceMs, nowMs, stretches }: {
    account: string
    webhooks: string[]
    sinceMs: number
    nowMs: number
    stretches: number
  }
): Query<Map<string, EndpointAnswers>> {
  return {
    sql: sql`select names.webhook, found.* from unnest(${webhooks}::text[]) as names (webhook)
      cross join unnest(${[...DELIVERY_STATES]}::text[]) as states (name) cross join lateral (
        select state, requested_at as at, ended_at, attempt_seq, http_status, error, duration_ms from deliveries
        where account = ${account} and webhook = names.webhook and state = states.name
        order by requested_at desc, id desc limit ${SAMPLE_MAX}) found`,
    read: rows => {
      const all = rows as unknown as HealthRow[]
      const lengthMs = (nowMs - sinceMs) / stretches
      return new Map(webhooks.map(id => [
        id,
        healthOf(all.filter(({ webhook }) => webhook === id), { sinceMs, lengthMs, stretches })
      ]))
    }
  }
}

function healthOf (
  rows: HealthRow[],
  { sinceMs, lengthMs, stretches }: { sinceMs: number, lengthMs: number, stretches: number }
): EndpointAnswers {
  const recent = rows.filter(({ at, attempt_seq: seq }) => at.getTime() >= sinceMs && seq > 0)
  const count = (some: HealthRow[]) => {
    const delivered = some.filter(({ state }) => state === 'delivered').length
    return { delivered, failing: some.length - delivered }
  }
  const placeOf = ({ at }: HealthRow) => Math.min(stretches - 1, Math.floor((at.getTime() - sinceMs) / lengthMs))
  const last = rows.reduce<HealthRow | null>(
    (best, row) => (row.attempt_seq > (best?.attempt_seq ?? 0) ? row : best),
    null
  )
  const fine = rows.filter(({ state }) => state === 'delivered')
  const times = fine.flatMap(({ duration_ms: ms }) => ms ?? []).sort((a, b) => a - b)
  return {
    ...count(recent),
    stretches: Array.from({ length: stretches }, (_, i) => count(recent.filter(row => placeOf(row) === i))),
    last: last === null ? null : { status: last.http_status, error: last.error, duration_ms: last.duration_ms ?? 0 },
    medianMs: times[Math.floor(times.length / 2)] ?? null,
    lastSuccess: fine.reduce<Date | null>(
      (best, { ended_at: at }) => (at !== null && at > (best ?? new Date(0)) ? at : best),
      null
    )
  }
}
