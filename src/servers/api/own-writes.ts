import type { Services } from '#src/actions/services.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { unavailable } from './errors.ts'

/** For reads from the directory. 503 when this node's stays behind the log: an older answer would deny a write. */
export async function seeAllWrites ({ directory }: Services): Promise<void> {
  if (!await directory.catchUp(SEEN_MS)) {
    throw unavailable('projection_behind', 'This server is behind the log: try again.')
  }
}

/** The write is stored, whether this node sees it in time or not: a 503 would ask for a second one. The next read waits
 *  for it, or says 503. */
export async function sawOwnWrite ({ directory }: Services, seq: number): Promise<void> {
  await directory.reached(seq, SEEN_MS)
}
