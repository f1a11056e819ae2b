import type { Static } from '@sinclair/typebox'
import { Counts } from '#streams/usage/facts.ts'
import { Sql, sql } from './define.ts'

export type Counts = Static<typeof Counts>
export type Counted = keyof Counts

/** What is counted, each a column of its name wherever there are counts. */
export const COUNTED = Object.keys(Counts.properties) as Counted[]

export const NOTHING = Object.fromEntries(COUNTED.map(name => [name, 0])) as Counts

export function plus (a: Counts, b: Counts): Counts {
  return Object.fromEntries(COUNTED.map(name => [name, a[name] + b[name]])) as Counts
}

/** The counts of a row, whatever else is in it. */
export function countsOf (row: Record<string, unknown>): Counts {
  return Object.fromEntries(COUNTED.map(name => [name, row[name]])) as Counts
}

/** A fragment for each count, with commas between them. */
export function eachCount (fragment: (column: Sql, name: Counted) => Sql): Sql {
  return COUNTED.map(name => fragment(new Sql([name], []), name)).reduce((left, right) => sql`${left}, ${right}`)
}

/** `accepted, suppressed, …` */
export const COLUMNS = eachCount(column => column)

/** The counts of a group of rows. PostgreSQL's sum of bigint is numeric, which the driver gives as text. */
export const SUMS = eachCount(column => sql`coalesce(sum(${column}), 0)::bigint as ${column}`)
