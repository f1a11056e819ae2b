import type { WebhookEntry } from '../directory.ts'
import { BATCH_EVENTS_MAX } from '../webhook/facts.ts'

/** When events of an endpoint go out together: as soon as `maxEvents` wait, or when the oldest has waited `maxWaitMs`.
 */
export interface BatchRules {
  maxEvents: number
  maxWaitMs: number
}

/** For an endpoint that no longer wants batches, or is deleted: its waiting events go out at once, and none stays
 *  behind. */
const AT_ONCE: BatchRules = { maxEvents: BATCH_EVENTS_MAX, maxWaitMs: 0 }

/** `webhook` is undefined once deleted. Its deliveries then end as failed, visibly. */
export function batchRules (webhook: WebhookEntry | undefined): BatchRules {
  return webhook === undefined || webhook.disabled !== null ? AT_ONCE : webhook.batch ?? AT_ONCE
}

/** Unix ms when the oldest waiting event has waited `maxWaitMs`. */
export function batchDueMs (oldestMs: number, { maxWaitMs }: BatchRules): number {
  return oldestMs + maxWaitMs
}

/** Do `count` members make a batch now? `oldestMs` = when the oldest joined, Unix ms. */
export function isBatchReady (count: number, oldestMs: number, rules: BatchRules, nowMs: number): boolean {
  return count >= rules.maxEvents || batchDueMs(oldestMs, rules) <= nowMs
}

/** The batches that members make now, in their order: full ones, and the rest when its oldest member has waited long
 *  enough. */
export function batchesOf<M extends { joinedMs: number }> (members: M[], rules: BatchRules, nowMs: number): M[][] {
  const batches: M[][] = []
  for (let i = 0; i < members.length; i += rules.maxEvents) {
    const batch = members.slice(i, i + rules.maxEvents)
    if (isBatchReady(batch.length, batch[0]!.joinedMs, rules, nowMs)) batches.push(batch)
  }
  return batches
}
