import type { WebhookEntry } from '../directory.ts'
import { BATCH_EVENTS_MAX } from '../webhook/facts.ts'

/** When events of an endpoint go out together: as soon as so many wait, or when the oldest has waited so long. */
export interface BatchRules {
  maxEvents: number
  maxWaitMs: number
}

/** What an endpoint that no longer wants batches, or is no longer there, has waiting goes out at once: nothing is to
 *  stay behind. */
const AT_ONCE: BatchRules = { maxEvents: BATCH_EVENTS_MAX, maxWaitMs: 0 }

/** `webhook` is undefined once deleted. Its deliveries then end as failed, which everybody can see. */
export function batchRules (webhook: WebhookEntry | undefined): BatchRules {
  return webhook === undefined || webhook.disabled !== null ? AT_ONCE : webhook.batch ?? AT_ONCE
}

/** Unix ms when the oldest of those that wait has waited long enough. */
export function batchDueMs (oldestMs: number, { maxWaitMs }: BatchRules): number {
  return oldestMs + maxWaitMs
}

/** Is there a batch to be formed of `count` members? `oldestMs` = when the oldest joined, Unix ms. */
export function isBatchReady (count: number, oldestMs: number, rules: BatchRules, nowMs: number): boolean {
  return count >= rules.maxEvents || batchDueMs(oldestMs, rules) <= nowMs
}

/** The batches that members make now, in their order: full ones, and what is left when its oldest has waited long
 *  enough. */
export function batchesOf<M extends { joinedMs: number }> (members: M[], rules: BatchRules, nowMs: number): M[][] {
  const batches: M[][] = []
  for (let i = 0; i < members.length; i += rules.maxEvents) {
    const batch = members.slice(i, i + rules.maxEvents)
    if (isBatchReady(batch.length, batch[0]!.joinedMs, rules, nowMs)) batches.push(batch)
  }
  return batches
}
