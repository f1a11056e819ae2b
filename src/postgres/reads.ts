import type { Projection, Query } from '#projections/define.ts'
import { asError, deadline } from '#src/base/errors.ts'
import type { View } from './checkpoint.ts'
import { isUnavailable, type Pool } from './pool.ts'
import { ask } from './query.ts'

/** What reads need: the rows, and a way to wait until they show what the log holds. */
export interface Reads {
  pool: Pool
  view: View
}

/** A view cannot answer now: it is behind the log, or cannot be reached. */
export class ProjectionUnavailable extends Error {
  readonly code: 'projection_behind' | 'view_unavailable'

  constructor (code: ProjectionUnavailable['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** How long a read waits for its view to show what was written before it came; the end of it is left for the view's own
 *  answer. */
const VIEW_TIMEOUT_MS = 2000
const VIEW_ANSWER_MS = 200
const SILENT = 'PostgreSQL says nothing'

/** The answer once the view has everything the log held when the request came; never a stale one. Throws
 *  ProjectionUnavailable. */
export async function answerFrom<T> ({ pool, view }: Reads, projection: Projection, query: Query<T>): Promise<T> {
  try {
    // Rather SILENT than wait for as long as a statement may take, three times what a reader is promised. It is
    // PostgreSQL's silence: NATS's has ended the question before.
    const caughtUp = await deadline(
      view.caughtUp(projection, VIEW_TIMEOUT_MS - VIEW_ANSWER_MS),
      VIEW_TIMEOUT_MS,
      SILENT
    )
    if (!caughtUp) throw new ProjectionUnavailable('projection_behind', 'The projection is behind the log')
    return await ask(pool, query)
  } catch (error) {
    if (isUnavailable(error) || asError(error).message === SILENT) {
      throw new ProjectionUnavailable('view_unavailable', 'The projection is unavailable')
    }
    throw error
  }
}
