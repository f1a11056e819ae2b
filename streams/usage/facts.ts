import { Type } from '@sinclair/typebox'
import { factType, type FactOf } from '../define.ts'

/** From its fourth day on a month may be closed: what happened at its end has been told by then, also by those who were
 *  away for a weekend. */
const SETTLES_MS = 3 * 86_400_000

/** `2026-11`, of a time in Unix ms; UTC. */
export function monthOf (ms: number): string {
  return new Date(ms).toISOString().slice(0, 7)
}

/** When a month begins, Unix ms. */
export function monthStartMs (month: string): number {
  return Date.parse(`${month}-01T00:00:00Z`)
}

export function monthAfter (month: string): string {
  const date = new Date(monthStartMs(month))
  date.setUTCMonth(date.getUTCMonth() + 1)
  return monthOf(date.getTime())
}

/** The months that are over and settled at `nowMs`, oldest first: of those that began at `horizonMs` or later, since
 *  what is older is no longer known in full, and from the month of `bornMs` on. Unix ms. */
export function settledMonths (
  { nowMs, horizonMs, bornMs }: { nowMs: number, horizonMs: number, bornMs: number }
): string[] {
  const months: string[] = []
  for (
    let month = monthOf(bornMs), next = monthAfter(month);
    monthStartMs(next) + SETTLES_MS <= nowMs;
    month = next, next = monthAfter(month)
  ) {
    if (monthStartMs(month) >= horizonMs) months.push(month)
  }
  return months
}

const Count = Type.Integer({ minimum: 0 })

/** What is counted of recipients; opens and clicks are those of people, each recipient's first. */
export const Counts = Type.Object({
  accepted: Count,
  suppressed: Count,
  canceled: Count,
  delivered: Count,
  deferred: Count,
  bounced: Count,
  failed: Count,
  opened: Count,
  clicked: Count,
  complained: Count,
  unsubscribed: Count
})

/** A month (UTC) of an account is over: what it comes to, by the sender's domain. Outlives the facts it was counted
 *  from. */
export const UsageClosed = factType(
  'usage.closed',
  1,
  Type.Object({
    month: Type.String({ pattern: '^\\d{4}-\\d\\d$' }),
    domains: Type.Array(Type.Object({ domain: Type.String(), counts: Counts }), { maxItems: 10_000 })
  })
)

export const usageFacts = [UsageClosed] as const

export type UsageClosed = FactOf<typeof UsageClosed>
