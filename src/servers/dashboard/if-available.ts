import { JetpostError } from '#src/client/client.ts'
import { deadline, Late } from '#src/base/errors.ts'
import { isUnavailable } from '#src/postgres/pool.ts'
import { ProjectionUnavailable } from '#src/postgres/reads.ts'

/** A part of a page that a view does not answer in this time is left out; the API itself waits two seconds for one that
 *  is behind. */
const PATIENCE_MS = 2500

/** What a view answers; null while it is behind the log, away or slow: the rest of the page, which may say why, is
 *  shown all the same. */
export async function ifAvailable<T> (answer: Promise<T>, patienceMs = PATIENCE_MS): Promise<T | null> {
  try {
    return await deadline(answer, patienceMs, 'a view does not answer')
  } catch (error) {
    if (
      error instanceof Late || error instanceof ProjectionUnavailable || isUnavailable(error) ||
      (error instanceof JetpostError && error.status === 503)
    ) return null
    throw error
  }
}
