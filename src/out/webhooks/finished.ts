import { deliveryStates } from '#projections/deliveries/queries.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/run.ts'
import type { IsDone } from './redelivery.ts'

/** Which deliveries the view knows to be over; null when PostgreSQL does not answer: then a delivery may go out once more, which at least
 *  once allows. */
export function finishedDeliveries (pool: Pool): IsDone {
  return async deliveries => {
    const states = await ask(pool, deliveryStates(deliveries)).catch(() => null)
    if (states === null) return null
    return new Set([...states].filter(([, { state }]) => state === 'delivered' || state === 'failed').map(([id]) => id))
  }
}
