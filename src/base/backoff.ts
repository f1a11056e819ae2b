import { setTimeout as wait } from 'node:timers/promises'

/** Waits `ms`, or until `signal` is aborted; never rejects. */
export async function sleep (ms: number, signal?: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => {})
}

/** Milliseconds before try `attempt` (counted from 1): `firstMs` doubling up to `maxMs`. */
export function backoffMs (attempt: number, firstMs: number, maxMs: number): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 30))
}
