import type { Query } from '#projections/define.ts'
import { deliveryCounts, type DeliveryCounts } from '#projections/deliveries/health.ts'
import { deliveries } from '#projections/deliveries/project.ts'
import { timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import { answerFrom, ProjectionUnavailable } from '#src/postgres/reads.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { number, type Faults } from '../parts.ts'
import type { Visit } from '../visit.ts'

/** Reads the fields of a link or a form one by one, and remembers what is wrong with them. */
export function createFieldReader (given: URLSearchParams) {
  const wrong = new Map<string, string>()
  return {
    /** The field as `parse` has it. undefined = empty, or `parse` gave null, which is recorded as `fault`. */
    read<T> (name: string, parse: (text: string) => T | null, fault: string): T | undefined {
      const text = fieldText(given, name)
      if (text === '') return undefined
      const value = parse(text)
      if (value === null) wrong.set(name, fault)
      return value ?? undefined
    },
    faults: (): Faults => ({
      of: name => wrong.get(name) ?? null,
      summary: wrong.size === 0 ? null : [...wrong.values()].join(' ')
    })
  }
}

export function fieldText (given: URLSearchParams, name: string): string {
  return given.get(name)?.trim() ?? ''
}

const DAY_MS = 86_400_000

/** The result from the projection `deliveries`; null while it is unavailable: the rest of the page works without it. */
export async function readDeliveries<T> (
  { reads }: DashboardContext,
  account: string,
  query: Query<T>
): Promise<T | null> {
  try {
    return await answerFrom(reads, account, deliveries, query)
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
    visit.account.id,
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
