/** Where time comes from; tests hand in their own. */
export interface Clock {
  /** Unix time in milliseconds. */
  nowMs (): number
}

export const systemClock: Clock = { nowMs: () => Date.now() }

let last = { ms: NaN, text: '' }

/** RFC 3339 UTC with milliseconds and `Z`, the one form of time in facts and answers. Under load many facts share one: it is written once. */
export function timestamp (ms: number): string {
  if (ms !== last.ms) last = { ms, text: new Date(ms).toISOString() }
  return last.text
}
