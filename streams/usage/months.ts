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
