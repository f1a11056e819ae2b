import { deadline } from '#src/base/errors.ts'

/** A run of a delivery: its own, or the one a replay asks for. */
export interface Run {
  delivery: string
  replay: string | null
}

/** Which of these have come to their end by the view of deliveries, in their order; null when it cannot say now. A run
 *  that a later replay has overruled is at its end. */
export type IsDone = (runs: Run[]) => Promise<boolean[] | null>

const ASK_MAX = 500
const ANSWER_MS = 2000
const AWAY_MS = 10_000

/** Asks the view about many deliveries at once. False when it knows nothing or is away: then the request is made, at
 *  least once holds. */
export function createDoneCheck (isDone: IsDone | undefined): (run: Run) => Promise<boolean> {
  const waiting: Array<{ run: Run, tell: (done: boolean) => void }> = []
  let awayUntilMs = 0

  async function ask (): Promise<void> {
    const asked = waiting.splice(0, ASK_MAX)
    if (waiting.length > 0) setImmediate(() => void ask())
    const answer = isDone!(asked.map(({ run }) => run))
    const done = await deadline(answer, ANSWER_MS, 'the view of deliveries did not answer').catch(() => null)
    if (done === null) awayUntilMs = Date.now() + AWAY_MS
    for (const [i, { tell }] of asked.entries()) tell(done?.[i] ?? false)
  }

  return run => {
    if (isDone === undefined || Date.now() < awayUntilMs) return Promise.resolve(false)
    return new Promise(tell => {
      if (waiting.length === 0) setImmediate(() => void ask())
      waiting.push({ run, tell })
    })
  }
}
