import type { DeliverySummary } from '#projections/deliveries/queries.ts'
import type { WebhookEntry } from '#streams/directory.ts'

/** The endpoint's state that keeps a delivery from its first attempt. */
export const DELIVERY_WAITS = ['paused', 'failing', 'busy'] as const
export type DeliveryWait = typeof DELIVERY_WAITS[number]

/** The same for people. */
export const DELIVERY_WAIT_WORDS: Record<DeliveryWait, string> = {
  paused: 'endpoint paused',
  failing: 'endpoint down',
  busy: 'endpoint busy or down'
}

/** Until then it may be tried at any moment. */
const LATE_MS = 30_000

/** What a delivery without an attempt waits for; null = nothing, or it is too early to say. `webhook` null = it is
 *  deleted. An endpoint that fails since a few minutes counts as busy. */
export function waitOf (
  { state, requested_at: requested }: Pick<DeliverySummary, 'state' | 'requested_at'>,
  webhook: Pick<WebhookEntry, 'paused' | 'failingSince'> | null,
  nowMs: number
): DeliveryWait | null {
  if (state !== 'pending' || webhook === null || nowMs - requested.getTime() <= LATE_MS) return null
  if (webhook.paused) return 'paused'
  return webhook.failingSince === null ? 'busy' : 'failing'
}
