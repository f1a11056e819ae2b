import { sql } from '#projections/define.ts'
import type { Bus } from '#src/nats/connect.ts'
import { type StoredMessage, tryDecode } from '#src/nats/message.ts'
import { readRange } from '#src/nats/range.ts'
import type { Move, Positions } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import type { Execute } from '#src/postgres/query.ts'
import { qualified, type TableSet } from '#src/postgres/table-sets.ts'
import { commitAlone } from './commit.ts'
import type { PartSource, RebuildPart } from './parts.ts'
import { createWriter, type StreamItem, type WriterOptions } from './write.ts'

export interface ProjectingOptions extends Pick<WriterOptions, 'onDeadLetter'> {
  bus: Bus
  pool: Pool
  set: TableSet
  /** Up to there and no further. */
  upTo: Positions
  signal: AbortSignal
  /** How many facts go into one transaction. */
  chunk: number
  onFacts(count: number): void
  onError(error: Error): void
}

const CHUNK_BYTES = 8 * 1024 * 1024

/** Projects a part of the log into the set, each transaction with how far the part has come. */
export async function projectPart (part: RebuildPart, options: ProjectingOptions): Promise<void> {
  await projectAll(part.sources, { ...part.positions }, {
    ...options,
    copies: true,
    move: (execute, moves) => moveProgress(execute, options.set, part.n, moves)
  })
}

/** The same for a set that is complete up to `positions`: rows and checkpoints in one transaction. */
export async function projectRange (positions: Positions, options: ProjectingOptions): Promise<void> {
  const sources = options.set.projection.streams.map(({ stream, filter }) => ({ stream, filters: [filter] }))
  await projectAll(sources, positions, options)
}

async function projectAll (
  sources: PartSource[],
  positions: Positions,
  options: ProjectingOptions & Pick<WriterOptions, 'move' | 'copies'>
): Promise<void> {
  const writer = createWriter({ ...options, commit: commitAlone(options.pool) })
  for await (const messages of chunks(byTime(sources, positions, options), options.chunk)) {
    await writer.write(
      messages.map(message => ({ stream: message.stream, ...tryDecode(message) }) satisfies StreamItem),
      positions
    )
    options.onFacts(messages.length)
    // The rest of the process gets its turn.
    await new Promise(setImmediate)
  }
  options.signal.throwIfAborted()
}

/** What belongs together was stored at the same time, in whatever stream: read by time, most rows are written once.
 *  Each stream in its own order, since how far it is read is one number. */
function byTime (
  sources: PartSource[],
  positions: Positions,
  { bus, upTo, signal, onError }: ProjectingOptions
): AsyncGenerator<StoredMessage[]> {
  const streams = sources.map(({ stream, filters }) => {
    const range = { stream, afterSeq: positions[stream]!, endSeq: upTo[stream]!, signal, onError }
    return mergeSorted(filters.map(filter => readRange(bus, { ...range, filters: [filter] })), ({ seq }) => seq)
  })
  return mergeSorted(streams, ({ storedMs }) => storedMs)
}

async function* chunks (messages: AsyncGenerator<StoredMessage[]>, count: number): AsyncGenerator<StoredMessage[]> {
  let gathered: StoredMessage[] = []
  let bytes = 0
  for await (const some of messages) {
    for (const message of some) {
      gathered.push(message)
      bytes += message.data.length
      if (gathered.length < count && bytes < CHUNK_BYTES) continue
      yield gathered
      gathered = []
      bytes = 0
    }
  }
  if (gathered.length > 0) yield gathered
}

async function moveProgress (execute: Execute, set: TableSet, part: number, moves: Move[]): Promise<boolean> {
  for (const { stream, from, to } of moves) {
    const moved = await execute(sql`
      update ${qualified(set, 'progress')} set position = ${to}, updated_at = now()
      where part = ${part} and stream = ${stream} and position = ${from}`)
    if (moved === 0) return false
  }
  return true
}

interface Head<T> {
  source: AsyncGenerator<T[]>
  items: T[]
  at: number
}

/** Merges sources that are each sorted by `keyOf` into one that is, in arrays. Ends them all when it ends. */
async function* mergeSorted<T> (
  sources: Array<AsyncGenerator<T[]>>,
  keyOf: (item: T) => number
): AsyncGenerator<T[]> {
  if (sources.length === 1) return yield* sources[0]!
  const heads: Array<Head<T>> = sources.map(source => ({ source, items: [], at: 0 }))
  try {
    await Promise.all(heads.map(refill))
    for (;;) {
      const open = heads.filter(({ items }) => items.length > 0)
      if (open.length === 0) return
      const { taken, used } = takeUntilUsedUp(open, keyOf)
      yield taken
      await refill(used)
    }
  } finally {
    await Promise.all(sources.map(source => source.return(undefined)))
  }
}

async function refill<T> (head: Head<T>): Promise<void> {
  const { done, value } = await head.source.next()
  head.items = done === true ? [] : value
  head.at = 0
}

/** Up to the last item of any of them: what its source gives next is not known yet. */
function takeUntilUsedUp<T> (heads: Array<Head<T>>, keyOf: (item: T) => number): { taken: T[], used: Head<T> } {
  const taken: T[] = []
  for (;;) {
    let first = heads[0]!
    for (const head of heads) if (keyOf(head.items[head.at]!) < keyOf(first.items[first.at]!)) first = head
    taken.push(first.items[first.at++]!)
    if (first.at === first.items.length) return { taken, used: first }
  }
}
