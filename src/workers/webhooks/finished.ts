import { deliveryStates, type DeliveryState } from '#projections/deliveries/queries.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import type { IsDone, Run } from './redelivery.ts'

/** Which runs the view knows to be over; null when PostgreSQL does not answer: then a delivery may go out once more,
 *  which at least once allows. */
export function finishedDeliveries (pool: Pool): IsDone {
  return async runs => {
    const states = await ask(pool, deliveryStates(runs.map(({ delivery }) => delivery))).catch(() => null)
    return states === null ? null : runs.map(run => isOver(run, states.get(run.delivery)))
  }
}

/** The view knows the last run of each delivery; ids of replays grow with time. */
function isOver ({ replay }: Run, known: DeliveryState | undefined): boolean {
  if (known === undefined) return false
  const [asked, last] = [replay ?? '', known.replay ?? '']
  return last > asked || (last === asked && (known.state === 'delivered' || known.state === 'failed'))
}
