/** What can be wrong with the log. */
export const KINDS = [
  'unreadable',
  'id',
  'duplicate',
  'subject',
  'gap',
  'cause',
  'pointer',
  'history',
  'object'
] as const
export type Kind = typeof KINDS[number]

/** One thing that is wrong: `where` in the log, and a sentence. Nothing in it is personal. */
export interface Finding {
  where: string
  says: string
}

/** How many of a kind there are, and the first of them. */
export interface Found {
  kind: Kind
  count: number
  examples: Finding[]
}

const EXAMPLES_MAX = 20

/** Counts all, keeps a few. */
export interface Findings {
  add(kind: Kind, where: string, says: string): void
  /** Those kinds that there is something of. */
  list(): Found[]
}

export function collectFindings (): Findings {
  const all = new Map<Kind, Found>()
  return {
    add (kind, where, says) {
      const found = all.get(kind) ?? { kind, count: 0, examples: [] }
      found.count++
      if (found.examples.length < EXAMPLES_MAX) found.examples.push({ where, says })
      all.set(kind, found)
    },
    list: () => KINDS.flatMap(kind => all.get(kind) ?? [])
  }
}
