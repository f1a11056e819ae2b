import { Rows, Sql } from './define.ts'

/** What becomes of columns when a row is told of again: said once, for changes in memory and for the upsert. Merging
 *  must be associative: facts are folded batch by batch. */
export interface Law<Change> {
  /** Sets these columns of `into`, a copy of `a`, to what holds after `a` and then `b`. */
  merge(into: Change, a: Change, b: Change, columns: readonly Column<Change>[]): void
  /** The same for one column, as an SQL expression of the rows `old` and `excluded`. */
  set(column: string): string
}

type Column<Change> = keyof Change & string

/** What changes are ranked by: a column that is always known, or a condition in both languages. */
type Rank<Change> = Column<Change> | { of(change: Change): boolean, sql(row: string): string }

/** The laws that columns may have, for one type of changes. Undefined is as null: not known. JavaScript compares as
 *  PostgreSQL does: times are in the facts' one form, texts are ASCII and collate "C". */
export function laws<Change extends object> () {
  type Name = Column<Change>
  return {
    /** The greatest value that is known. */
    max: byValue<Change>('greatest(old, excluded)', (b, a) => isKnown(b) && (!isKnown(a) || b > a)),
    /** The least value that is known. */
    min: byValue<Change>('least(old, excluded)', (b, a) => isKnown(b) && (!isKnown(a) || b < a)),
    /** The first value that is known. */
    first: byValue<Change>('coalesce(old, excluded)', (_, a) => !isKnown(a)),
    /** The last value that is known. */
    last: byValue<Change>('coalesce(excluded, old)', b => isKnown(b)),
    /** That of the change with the greater rank, known or not; of several ranks the first that differs decides. */
    by: (...ranks: Rank<Change>[]) =>
      byChange<Change>(`${inSql('excluded', ranks)} > ${inSql('old', ranks)}`, (b, a) => outranks(b, a, ranks)),
    /** That of the change with the lesser rank. */
    byLeast: (rank: Name) => byChange<Change>(`excluded.${rank} < old.${rank}`, (b, a) => b[rank] < a[rank]),
    /** The law's among changes of one run; of two runs that of the greater. */
    within: (run: Name, law: Law<Change>): Law<Change> => ({
      merge (into, a, b, columns) {
        if (b[run] === a[run]) law.merge(into, a, b, columns)
        else if (b[run] > a[run]) copy(into, b, columns)
      },
      set: column =>
        `case when excluded.${run} > old.${run} then excluded.${column}
          when excluded.${run} = old.${run} then ${law.set(column)} else old.${column} end`
    }),
    /** The law's until a change has the flag; null from then on. */
    blank: (flag: Name, law: Law<Change>): Law<Change> => ({
      merge (into, a, b, columns) {
        if (!a[flag] && !b[flag]) law.merge(into, a, b, columns)
        else for (const column of columns) into[column] = null as Change[Name]
      },
      set: column => `case when old.${flag} or excluded.${flag} then null else ${law.set(column)} end`
    })
  }
}

/** Each column by itself: `replaces` says whether `b` takes the place of `a`. `set` names the rows in the place of
 *  their column. */
function byValue<Change> (set: string, replaces: (b: unknown, a: unknown) => boolean): Law<Change> {
  return {
    merge (into, a, b, columns) {
      for (const column of columns) {
        if (replaces(b[column], a[column])) into[column] = b[column]
      }
    },
    set: column => set.replaceAll(/old|excluded/g, row => `${row}.${column}`)
  }
}

/** All columns together, by the change they come with. */
function byChange<Change> (condition: string, leads: (b: Change, a: Change) => boolean): Law<Change> {
  return {
    merge (into, a, b, columns) {
      if (leads(b, a)) copy(into, b, columns)
    },
    set: column => `case when ${condition} then excluded.${column} else old.${column} end`
  }
}

function copy<Change> (into: Change, from: Change, columns: readonly Column<Change>[]): void {
  for (const column of columns) into[column] = from[column]
}

function isKnown (value: unknown): value is NonNullable<unknown> {
  return value !== undefined && value !== null
}

function outranks<Change> (b: Change, a: Change, ranks: readonly Rank<Change>[]): boolean {
  for (const rank of ranks) {
    const told = typeof rank === 'string' ? b[rank] : rank.of(b)
    const had = typeof rank === 'string' ? a[rank] : rank.of(a)
    if (told !== had) return told > had
  }
  return false
}

function inSql<Change> (row: string, ranks: readonly Rank<Change>[]): string {
  return `(${ranks.map(rank => (typeof rank === 'string' ? `${row}.${rank}` : rank.sql(row))).join(', ')})`
}

export interface TableOptions {
  /** Which rows that are there already are written, as an SQL condition of `old` and `excluded`; all unless given. */
  where?: string
  /** Its rows are hardly ever there already: where none is, inserting is all that the statement does. */
  areNew?: boolean
}

/** A table of a projection that is written by its columns' laws. */
export interface Table<Change> {
  readonly columns: readonly Column<Change>[]
  /** One change a row, made of its changes in their order: a statement cannot touch a row twice. */
  fold(changes: readonly Change[]): Change[]
  /** The statement that writes the changes, whichever of the rows are there; its text is always the same. Nothing where
   *  there are none. */
  upsert(changes: readonly Change[]): Sql[]
}

/** `columns`: all that changes tell of, by name; null = it never changes. */
export function table<Change extends object> (
  name: string,
  primaryKey: readonly Column<Change>[],
  columns: Record<Column<Change>, Law<Change> | null>,
  { where, areNew = false }: TableOptions = {}
): Table<Change> {
  const names = Object.keys(columns) as Column<Change>[]
  const ruled = names.filter(column => columns[column] !== null)
  // By law, not by column: a rank is compared once for all columns that go with it.
  const byLaw = [...Map.groupBy(ruled, column => columns[column]!)]
  const keyOf = keyFunction(primaryKey)

  function merge (a: Change, b: Change): Change {
    const into = { ...a }
    for (const [law, columns] of byLaw) law.merge(into, a, b, columns)
    return into
  }

  function fold (changes: readonly Change[]): Change[] {
    // Told twice, such a row is the same: the statement does nothing.
    if (byLaw.length === 0) return [...changes]
    const folded = new Map<unknown, Change>()
    for (const change of changes) {
      const key = keyOf(change)
      const before = folded.get(key)
      folded.set(key, before === undefined ? change : merge(before, change))
    }
    return [...folded.values()]
  }

  const list = names.join(', ')
  const key = primaryKey.join(', ')
  const sets = ruled.map(column => `${column} = ${columns[column]!.set(column)}`)
  const pieces = [
    `insert into ${name} as old (${list}) select ${list} from json_populate_recordset(null::${name}, `,
    `::json) order by ${key} on conflict (${key}) ` +
    (sets.length === 0 ? 'do nothing' : `do update set ${sets.join(', ')}`) +
    (where === undefined ? '' : ` where ${where}`)
  ]
  return {
    columns: names,
    fold,
    upsert: changes => (changes.length === 0 ? [] : [new Sql(pieces, [new Rows(name, fold(changes), areNew)])])
  }
}

function keyFunction<Change> ([one, two, ...more]: readonly Column<Change>[]): (change: Change) => unknown {
  if (two === undefined) return change => change[one!]
  if (more.length === 0) return change => `${change[one!]} ${change[two]}`
  return change => [one!, two, ...more].map(column => change[column]).join(' ')
}
