import { JetpostError } from '#src/client/client.ts'
import { deadline, Late } from '#src/base/errors.ts'
import { isUnavailable } from '#src/postgres/pool.ts'
import { ProjectionUnavailable } from '#src/postgres/reads.ts'

/** A part of a page that takes longer is left out. The API itself waits two seconds for a projection that is behind. */
const PART_TIMEOUT_MS = 2500

/** The result; null while its projection is behind, away or slow. The rest of the page is shown all the same. */
export async function ifAvailable<T> (result: Promise<T>, timeoutMs = PART_TIMEOUT_MS): Promise<T | null> {
  try {
    return await deadline(result, timeoutMs, `no answer within ${timeoutMs} ms`)
  } catch (error) {
    if (
      error instanceof Late || error instanceof ProjectionUnavailable || isUnavailable(error) ||
      (error instanceof JetpostError && error.status === 503)
    ) return null
    throw error
  }
}
