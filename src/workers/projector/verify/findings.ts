import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { FactStream } from '#streams/place.ts'

/** What the server says of a stream. Times Unix ms; `ageMs` Infinity = kept for ever. */
export interface StreamExtent {
  first: number
  last: number
  createdMs: number
  ageMs: number
}

/** What is known of the streams once all is read. */
export interface LogState {
  streams: Record<FactStream, StreamExtent>
  /** How long content is kept. */
  contentMs: number
  /** When reading ended, Unix ms. */
  nowMs: number
}

interface Info {
  created: string
  config: { max_age: number }
  state: { first_seq: number, last_seq: number }
}

export async function extentOf (bus: Bus, stream: string): Promise<StreamExtent> {
  const { created, config, state } = await api<Info>(bus, `STREAM.INFO.${stream}`, undefined)
  return {
    first: state.first_seq,
    last: state.last_seq,
    createdMs: Date.parse(created),
    ageMs: config.max_age === 0 ? Infinity : config.max_age / 1e6
  }
}

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
