import type { Query } from '#projections/define.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'

/** Rows a statement. */
export const PAGE = 2000
const AT_ONCE = 100

/** Page after page, until the last, until `act` says false or `signal` is given. `query` is handed the last row of the
 *  page before. */
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

/** So many at once, and none after `signal`. */
export async function each<T> (items: T[], signal: AbortSignal, act: (item: T) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < items.length && !signal.aborted; i += AT_ONCE) {
    await Promise.all(items.slice(i, i + AT_ONCE).map(act))
  }
}

/** Deletes page after page until there is no more, or `signal` is given; resolves to the number of rows. `query` takes
 *  PAGE rows at most and answers how many. */
export async function deletePages (pool: Pool, signal: AbortSignal, query: Query<number>): Promise<number> {
  let removed = 0
  for (let count = PAGE; count === PAGE && !signal.aborted; removed += count) count = await ask(pool, query)
  return removed
}
