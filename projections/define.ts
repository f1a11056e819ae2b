import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'

/** One SQL statement, or a fragment of one, as a value: text and parameters apart, so that no value ever becomes text. Made by `sql` only. */
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

/** sql`select … where id = ${id}`: values are bound (JSON values only), an Sql inside becomes part of the text with its own values bound. */
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

/** A value as the text of a jsonb parameter. What JSON may hold and Postgres may not, NUL and lone surrogates, becomes U+FFFD: strangers'
 *  replies and metadata carry them, and one such fact would stop its projection for good. */
export function json (value: unknown): string {
  const text = JSON.stringify(value)
  return /\\u(?:0000|d[89a-f])/.test(text) ? JSON.stringify(storable(value)) : text
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
}

/** A view in the making: facts in, SQL out. A changed shape is a new version and a rebuild. */
export interface Projection {
  name: string
  version: number
  /** One entry a stream: the checkpoint is kept by stream. */
  streams: readonly Source[]
  /** The statements for a batch of facts, to be run in order in one transaction. Pure. Facts may come twice, and those of different streams
   *  in any order: the rows come out the same. */
  project (facts: readonly Recorded<AnyFact>[]): Sql[]
}

/** A question to a view: the statement, and how its rows become the answer. */
export interface Query<Answer> {
  sql: Sql
  /** `rows` as the driver gives them: timestamptz as Date, bigint as number. */
  read (rows: readonly Record<string, unknown>[]): Answer
}
