import type { WebhookEntry } from '#streams/directory.ts'
import { replayBacklog } from '#projections/deliveries/backlog.ts'
import { deliveryPlace, failedDeliveries, parsePlace } from '#projections/deliveries/queries.ts'
import { cursorText } from '#projections/cursor.ts'
import { deliveries } from '#projections/deliveries/project.ts'
import { readPositions } from '#src/postgres/checkpoint.ts'
import { isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import type { FindDelivery } from './replay.ts'
import type { FailedPage } from './replay-job.ts'

/** The failed deliveries of an endpoint by the view, page by page; null when it is behind or PostgreSQL does not
 *  answer. Throws the driver's error when it answers with one. */
export function failedPages (pool: Pool): FailedPage {
  return async ({ after, limit, seenSeq, ...range }) => {
    const positions = await readPositions(pool, liveSet(deliveries)).catch(unlessAway)
    if (positions === null || positions.WEBHOOKS! < seenSeq) return null
    const rows = await ask(pool, failedDeliveries(range, { limit, after: after === '' ? null : parsePlace(after) }))
      .catch(unlessAway)
    return rows?.map(({ id, state_seq: owedSeq, ended_at: endedAt }) => ({
      cursor: cursorText({ at: endedAt.toISOString(), id }),
      owedSeq
    })) ?? null
  }
}

/** What is due within so long is in the way of more. */
const SOON_S = 60

/** How many of an endpoint's deliveries that replays have asked for are in the way of more; null when PostgreSQL does
 *  not answer. Throws like `failedPages`. */
export function waitingDeliveries (
  pool: Pool
): (webhook: Pick<WebhookEntry, 'account' | 'id'>, max: number) => Promise<number | null> {
  return async ({ account, id: webhook }, max) =>
    await ask(pool, replayBacklog({ account, webhook, soonS: SOON_S, max })).catch(unlessAway)
}

/** A view that is away is waited for; one that cannot be asked like this would be waited for in vain. */
function unlessAway (error: unknown): null {
  if (isUnavailable(error)) return null
  throw error
}

/** Where a delivery's last fact lies. Throws the driver's error. */
export function findDelivery (pool: Pool): FindDelivery {
  return async (account, id) => await ask(pool, deliveryPlace({ account, id }))
}
