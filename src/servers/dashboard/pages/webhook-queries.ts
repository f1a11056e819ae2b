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

/** What the view of deliveries says; null when it cannot be read: an endpoint can be paused and mended all the same. */
export async function readDeliveries<T> ({ reads }: DashboardContext, query: Query<T>): Promise<T | null> {
  try {
    return await answerFrom(reads, deliveries, query)
  } catch (error) {
    if (error instanceof ProjectionUnavailable) return null
    throw error
  }
}

export const UNREADABLE =
  html`<p class="box warn">The log of deliveries cannot be read just now. Webhooks go out all the same, and what happened will be here.</p>`

/** 24 hours ago. */
export function dayAgo ({ nowMs }: Visit): string {
  return timestamp(nowMs - DAY_MS)
}

/** Where the deliveries of the last 24 hours stand, each kind counted up to `max`. */
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
  const parts: Array<[count: number, words: string]> = [[delivered, 'delivered'], [failed, 'failed'], [
    retrying,
    'retrying'
  ], [pending, 'pending']]
  const said = parts.filter(([count]) => count > 0).map(([count, words]) => `${countText(count, max)} ${words}`)
  return said.length === 0 ? html`<span class="none">Nothing</span>` : html`${said.join(' · ')}`
}
