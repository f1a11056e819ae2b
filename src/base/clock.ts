/** Where time comes from; tests hand in their own. */
export interface Clock {
  /** Unix time in milliseconds. */
  nowMs(): number
}

export const systemClock: Clock = { nowMs: () => Date.now() }

let last = { s: NaN, text: '' }

/** RFC 3339 UTC with milliseconds and `Z`, the one form of time in facts and responses. Under load many share a
 *  second, which is formatted once. */
export function timestamp (ms: number): string {
  const s = Math.floor(ms / 1000)
  if (s !== last.s) last = { s, text: new Date(s * 1000).toISOString().slice(0, -4) }
  return `${last.text}${String(Math.floor(ms - s * 1000)).padStart(3, '0')}Z`
}

const RFC3339 =
  /^(\d{4})-(\d\d)-(\d\d)[Tt](?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/** Unix ms of an RFC 3339 time, or null for any other text: without an offset, with an hour 24, or the 30th of
 *  February, which Date.parse reads as the 2nd of March. */
export function parseTime (text: string): number | null {
  const match = RFC3339.exec(text)
  if (match === null) return null
  const [year, month, day] = match.slice(1).map(Number) as [number, number, number]
  const ms = Date.parse(text.toUpperCase())
  return Number.isNaN(ms) || new Date(Date.UTC(year, month - 1, day)).getUTCDate() !== day ? null : ms
}

const LAST_MS = Date.UTC(10_000, 0) - 1

/** A time to compare with, in the years that every server supports: PostgreSQL has no year 0, NATS none before 1678,
 *  four digits none after 9999. Nothing here is older than the epoch, so an earlier time becomes the epoch. */
export function knownTime (ms: number): number {
  return Math.min(Math.max(ms, 0), LAST_MS)
}
