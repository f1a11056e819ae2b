import type { WebhookEntry } from '../directory.ts'

/** Older endpoints are past it: the fact that opened their backfill may have left the log of deliveries, which is kept
 *  30 days. */
const OPENING_AGE_MS_MAX = 29 * 24 * 3_600_000

/** Is an endpoint to get what happened before it was there? Then its backfill has to be opened before anything else
 *  goes to it. */
export function wantsBackfill ({ startAt, createdAt }: WebhookEntry, nowMs: number): boolean {
  return startAt < createdAt && nowMs - Date.parse(createdAt) < OPENING_AGE_MS_MAX
}
