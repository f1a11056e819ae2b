/** Where time comes from; tests hand in their own. */
export interface Clock {
  /** Unix time in milliseconds. */
  nowMs (): number
}

export const systemClock: Clock = { nowMs: () => Date.now() }

/** RFC 3339 UTC with milliseconds and `Z`, the one form of time in facts and answers. */
export function timestamp (ms: number): string {
  return new Date(ms).toISOString()
}
