/** What can be wrong with the log. */
export const FINDING_KINDS = [
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
export type FindingKind = typeof FINDING_KINDS[number]

/** One thing that is wrong: where in the log, and what. Nothing in it is personal. */
export interface LogFinding {
  where: string
  message: string
}

/** How many of a kind there are, and the first of them. */
export interface FindingGroup {
  kind: FindingKind
  count: number
  examples: LogFinding[]
}

const EXAMPLES_MAX = 20

/** Counts all, keeps a few. */
export class FindingCollector {
  private readonly groups = new Map<FindingKind, FindingGroup>()

  add (kind: FindingKind, where: string, message: string): void {
    const group = this.groups.get(kind) ?? { kind, count: 0, examples: [] }
    group.count++
    if (group.examples.length < EXAMPLES_MAX) group.examples.push({ where, message })
    this.groups.set(kind, group)
  }

  /** The kinds that were found. */
  list (): FindingGroup[] {
    return FINDING_KINDS.flatMap(kind => this.groups.get(kind) ?? [])
  }
}
