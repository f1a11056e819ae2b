import type { Query } from '#projections/define.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'

/** Rows of one statement. */
export const PAGE = 2000
const CONCURRENCY = 100

/** Reads page after page, until the last one, until `act` resolves to false or `signal` is aborted. `query` gets the
 *  last row of the page before. */
export async function pages<T> (
  pool: Pool,
  signal: AbortSignal,
  query: (after: T | null) => Query<T[]>,
  act: (page: T[]) => Promise<boolean | void>
): Promise<void> {
  for (let after: T | null = null; !signal.aborted;) {
    const page: T[] = await ask(pool, query(after))
    if (page.length === 0 || await act(page) === false || page.length < PAGE) return
    after = page.at(-1)!
  }
}

/** At most 100 at once; none begins after `signal` is aborted. */
export async function each<T> (items: T[], signal: AbortSignal, act: (item: T) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < items.length && !signal.aborted; i += CONCURRENCY) {
    await Promise.all(items.slice(i, i + CONCURRENCY).map(act))
  }
}

/** Deletes page after page until there are no more, or `signal` is aborted; resolves to the number of rows. `query`
 *  deletes PAGE rows at most and reads how many. */
export async function deletePages (pool: Pool, signal: AbortSignal, query: Query<number>): Promise<number> {
  let removed = 0
  for (let count = PAGE; count === PAGE && !signal.aborted; removed += count) count = await ask(pool, query)
  return removed
}
