/** Makes one change of several about the same row, in order: a statement cannot touch a row twice. */
export function fold<Change> (
  changes: readonly Change[],
  keyOf: (change: Change) => string,
  merge: (before: Change, change: Change) => Change
): Change[] {
  const folded = new Map<string, Change>()
  for (const change of changes) {
    const key = keyOf(change)
    const before = folded.get(key)
    folded.set(key, before === undefined ? change : merge(before, change))
  }
  return [...folded.values()]
}

/** The named columns, also when they are not there: what is absent must not shine through from the other change. */
export function pick<Change, Name extends keyof Change> (change: Change, names: readonly Name[]): Pick<Change, Name> {
  return Object.fromEntries(names.map(name => [name, change[name]])) as Pick<Change, Name>
}
