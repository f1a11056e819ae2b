import { JetpostError } from '#src/client/client.ts'
import { ViewUnavailable } from '#src/postgres/reads.ts'

/** What a view answers; null while it is behind the log or away: the rest of the page, which may say why, is shown all the same. */
export async function orBehind<T> (answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof ViewUnavailable || (error instanceof JetpostError && error.status === 503)) return null
    throw error
  }
}
