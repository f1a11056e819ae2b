import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'

/** One SQL statement, or a fragment of one, as a value: text and parameters apart, so that no value ever becomes text.
 *  Made by `sql` only. */
export class Sql {
  /** The text between the parameters: one piece more than there are values. */
  readonly pieces: readonly string[]
  readonly values: readonly unknown[]
  constructor (pieces: readonly string[], values: readonly unknown[]) {
    this.pieces = pieces
    this.values = values
  }

  /** With `$1`, `$2` … where the values go. */
  get text (): string {
    return this.pieces.reduce((text, piece, i) => `${text}$${i}${piece}`)
  }
}

/** sql`select … where id = ${id}`: values are bound (JSON values only), an Sql inside becomes part of the text with
 *  its own values bound. */
export function sql (strings: TemplateStringsArray, ...values: unknown[]): Sql {
  const pieces = [strings[0]!]
  const bound: unknown[] = []
  values.forEach((value, i) => {
    const inner = value instanceof Sql ? value : new Sql(['', ''], [storable(value)])
    pieces[pieces.length - 1] += inner.pieces[0]!
    pieces.push(...inner.pieces.slice(1))
    pieces[pieces.length - 1] += strings[i + 1]!
    bound.push(...inner.values)
  })
  return new Sql(pieces, bound)
}

/** Conditions that must all hold; none = everything. */
export function all (conditions: Sql[]): Sql {
  return conditions.reduce((left, right) => sql`${left} and ${right}`, sql`true`)
}

/** A value as the text of a jsonb parameter. What JSON may hold and Postgres may not, NUL and lone surrogates, becomes
 *  U+FFFD: strangers' replies and metadata carry them, and one such fact would stop its projection for good. */
export function json (value: unknown): string {
  const text = JSON.stringify(value)
  return /\\u(?:0000|d[89a-f])/.test(text) ? JSON.stringify(storable(value)) : text
}

/** Rows on their way to a table, as a parameter: one JSON text, unless the caller that runs the statement brings them
 *  in another way. */
export class Rows {
  readonly table: string
  readonly rows: readonly object[]
  readonly areNew: boolean
  constructor (table: string, rows: readonly object[], areNew: boolean) {
    this.table = table
    this.rows = rows
    this.areNew = areNew
  }

  /** What the driver asks for. */
  toPostgres (): string {
    return json(this.rows)
  }
}

function storable (value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed().replaceAll('\0', '\uFFFD')
  if (Array.isArray(value)) return value.map(storable)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [storable(key), storable(inner)]))
}

/** A stream and the subjects of it that a projection reads. */
export interface Source {
  stream: string
  /** Subject filter, wildcards allowed. */
  filter: string
  /** The part of it that a partition has, of 0 to EMAIL_PARTITIONS - 1; null = nothing. Only where no row is made of
   *  facts of two partitions: they may be read side by side. */
  partition?: (partition: number) => string | null
  /** Where another stream tells the same a little later: up to `upTo` of its last fact on `subject` a view that is made
   *  again need not read this one. */
  rerecorded?: { stream: string, subject(partition: number): string, upTo(fact: AnyFact): number }
}

/** How rows leave with the facts they are made of. */
export interface Aging {
  /** The stream whose age decides. */
  stream: string
  /** Table → which of its rows are of things that began before `horizonMs` (Unix), as a condition. What has a fact at
   *  all that is older does not count: such rows are as they should be only until facts of theirs are gone. */
  rows(horizonMs: number): Record<string, Sql>
}

/** Takes rows that meet the condition out of a table, `limit` at most, and none that somebody is just writing; answers
 *  how many. By their places: so one statement does for every table, whatever its key. */
export function deleteSome (table: Sql, condition: Sql, limit: number): Query<number> {
  return {
    sql: sql`with gone as (delete from ${table} where ctid = any(array(select ctid from ${table}
        where ${condition} limit ${limit} for update skip locked)) returning 1)
      select count(*) as count from gone`,
    read: ([row]) => row!.count as number
  }
}

/** A view in the making: facts in, SQL out. Its tables are made by `tables.sql` and `indexes.sql` in the folder of its
 *  name. A changed shape is a new version and a rebuild. */
export interface Projection {
  name: string
  version: number
  /** One entry a stream: the checkpoint is kept by stream. */
  streams: readonly Source[]
  /** Left out = its facts are kept for ever, and so are its rows. */
  aging?: Aging
  /** The statements for a batch of facts, to be run in order in one transaction. Pure. Facts may come twice, and those
   *  of different streams in any order: the rows come out the same. */
  project(facts: readonly Recorded<AnyFact>[]): Sql[]
}

/** A question to a view: the statement, and how its rows become the answer. */
export interface Query<Answer> {
  sql: Sql
  /** `rows` as the driver gives them: timestamptz as Date, bigint as number. */
  read(rows: readonly Record<string, unknown>[]): Answer
}
