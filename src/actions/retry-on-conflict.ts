import { sleep } from '#src/base/backoff.ts'
import { Conflict } from '#src/nats/errors.ts'
import type { LiveDirectory } from './directory.ts'

const CONFLICTS_MAX = 12
const CATCH_UP_MS = 2000
/** So that those who clash do not clash again at once: up to so long, growing with each rival. */
const PAUSE_MS = 10

/** Reads, decides and appends; once more when somebody else was quicker. Throws Conflict after twelve rivals, and what
 *  `attempt` throws. */
export async function retryOnConflict<T> (attempt: () => Promise<T>): Promise<T> {
  for (let rivals = 1;; rivals++) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof Conflict) || rivals > CONFLICTS_MAX) throw error
      await sleep(Math.random() * PAUSE_MS * rivals)
    }
  }
}

/** The same for who decides by the directory: what the others did is folded in before the next attempt. */
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
