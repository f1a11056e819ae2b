import { sleep } from '#src/base/backoff.ts'
import { Conflict } from '#src/nats/errors.ts'
import type { LiveDirectory } from './directory.ts'

const CONFLICTS_MAX = 12
const CATCH_UP_MS = 2000
/** Longest pause after a first conflict, so that the same writers do not conflict again; it grows with each
 *  conflict. */
const PAUSE_MS = 10

/** Reads, decides and appends, again after each conflict. Throws Conflict after twelve of them, and what `attempt`
 *  throws. */
export async function retryOnConflict<T> (attempt: () => Promise<T>): Promise<T> {
  for (let conflicts = 1;; conflicts++) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof Conflict) || conflicts > CONFLICTS_MAX) throw error
      await sleep(Math.random() * PAUSE_MS * conflicts)
    }
  }
}

/** The same for decisions by the directory: it catches up with the log before the next attempt. */
export async function retryOnConflictOf<T> (
  directory: Pick<LiveDirectory, 'catchUp'>,
  attempt: () => Promise<T>
): Promise<T> {
  let first = true
  return await retryOnConflict(async () => {
    if (!first) await directory.catchUp(CATCH_UP_MS)
    first = false
    return await attempt()
  })
}
