import { deliveryCounts, type DeliveryCounts } from '#projections/deliveries/health.ts'
import { deliveries } from '#projections/deliveries/project.ts'
import type { Query } from '#projections/define.ts'
import { timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import { answerFrom, ProjectionUnavailable } from '#src/postgres/reads.ts'
import { number } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Visit } from '../visit.ts'

const DAY_MS = 86_400_000

/** The result from the projection `deliveries`; null while it is unavailable: the rest of the page works without it. */
export async function readDeliveries<T> ({ reads }: DashboardContext, query: Query<T>): Promise<T | null> {
  try {
    return await answerFrom(reads, deliveries, query)
  } catch (error) {
    if (error instanceof ProjectionUnavailable) return null
    throw error
  }
}

export const UNAVAILABLE = html`<p class="box warn">The list of deliveries is unavailable. Webhooks are still sent.</p>`

/** 24 hours ago. */
export function dayAgo ({ nowMs }: Visit): string {
  return timestamp(nowMs - DAY_MS)
}

/** Deliveries of the last 24 hours by state, each counted up to `max`. */
export async function countsOf (
  context: DashboardContext,
  visit: Visit,
  webhooks: string[],
  max: number
): Promise<Map<string, DeliveryCounts> | null> {
  return await readDeliveries(
    context,
    deliveryCounts({ account: visit.account.id, webhooks, since: dayAgo(visit), max })
  )
}

/** `1,000+` where counting stopped. */
export function countText (count: number, max: number): string {
  return count < max ? number(count) : `${number(max)}+`
}

/** In a line: `12 delivered · 3 failed`. */
export function countsLine (counts: DeliveryCounts | undefined, max: number): Html {
  if (counts === undefined) return html`<span class="none">–</span>`
  const { delivered, failed, pending, retrying } = counts
  const parts = Object.entries({ delivered, failed, retrying, pending }).filter(([, count]) => count > 0)
  return parts.length === 0
    ? html`<span class="none">None</span>`
    : html`${parts.map(([state, count]) => `${countText(count, max)} ${state}`).join(' · ')}`
}
