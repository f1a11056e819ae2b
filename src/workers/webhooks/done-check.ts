import { deliveryStates, type DeliveryState } from '#projections/deliveries/queries.ts'
import { deadline } from '#src/base/errors.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'

/** A run of a delivery: the first one (`replay` null), or the one a replay requested. */
export interface DeliveryRun {
  delivery: string
  replay: string | null
}

/** Which of these runs have ended by the projection of deliveries, in their order; null when it does not answer. A run
 *  that a later replay overrules has ended. */
export type IsDone = (runs: DeliveryRun[]) => Promise<boolean[] | null>

const RUNS_MAX = 500
const ANSWER_MS = 2000
const AWAY_MS = 10_000

/** Asks the projection of deliveries in PostgreSQL. */
export function finishedDeliveries (pool: Pool): IsDone {
  return async runs => {
    const states = await ask(pool, deliveryStates(runs.map(({ delivery }) => delivery))).catch(() => null)
    return states === null ? null : runs.map(run => isOver(run, states.get(run.delivery)))
  }
}

/** The projection holds the last run of each delivery; ids of replays grow with time. */
function isOver ({ replay }: DeliveryRun, known: DeliveryState | undefined): boolean {
  if (known === undefined) return false
  const [run, last] = [replay ?? '', known.replay ?? '']
  return last > run || (last === run && (known.state === 'delivered' || known.state === 'failed'))
}

/** Checks many runs with one query. A check answers false when the projection does not know or does not answer: then
 *  the request is made, which at least once allows. */
export function createDoneCheck (isDone: IsDone | undefined): (run: DeliveryRun) => Promise<boolean> {
  const waiting: Array<{ run: DeliveryRun, resolve: (done: boolean) => void }> = []
  let awayUntilMs = 0

  async function check (): Promise<void> {
    const checks = waiting.splice(0, RUNS_MAX)
    if (waiting.length > 0) setImmediate(() => void check())
    const answer = isDone!(checks.map(({ run }) => run))
    const done = await deadline(answer, ANSWER_MS, 'the projection of deliveries did not answer').catch(() => null)
    if (done === null) awayUntilMs = Date.now() + AWAY_MS
    for (const [i, { resolve }] of checks.entries()) resolve(done?.[i] ?? false)
  }

  return run => {
    if (isDone === undefined || Date.now() < awayUntilMs) return Promise.resolve(false)
    return new Promise(resolve => {
      if (waiting.length === 0) setImmediate(() => void check())
      waiting.push({ run, resolve })
    })
  }
}
