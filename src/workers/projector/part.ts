import { sql } from '#projections/define.ts'
import type { Bus } from '#src/nats/connect.ts'
import { tryDecode, type StoredMessage } from '#src/nats/message.ts'
import { readRange } from '#src/nats/range.ts'
import type { Move, Positions } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import type { Run } from '#src/postgres/query.ts'
import { qualified, type TableSet } from '#src/postgres/table-sets.ts'
import type { Part, PartSource } from './cut.ts'
import { merge } from './merge.ts'
import { createWriter, type Item, type WriterOptions } from './write.ts'

export interface ReadingOptions extends Pick<WriterOptions, 'onDeadLetter'> {
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

/** Reads a part to its end and writes it into the set, each transaction with how far the part has come. */
export async function fillPart (part: Part, options: ReadingOptions): Promise<void> {
  await readAll(part.sources, { ...part.positions }, {
    ...options,
    copies: true,
    move: (run, moves) => moveProgress(run, options.set, part.n, moves)
  })
}

/** The same for a set that is filled: rows and checkpoints in one transaction. */
export async function readOn (positions: Positions, options: ReadingOptions): Promise<void> {
  const sources = options.set.projection.streams.map(({ stream, filter }) => ({ stream, filters: [filter] }))
  await readAll(sources, positions, options)
}

async function readAll (
  sources: PartSource[],
  positions: Positions,
  options: ReadingOptions & Pick<WriterOptions, 'move' | 'copies'>
): Promise<void> {
  const writer = createWriter(options)
  for await (const messages of chunks(inTime(sources, positions, options), options.chunk)) {
    await writer.write(
      messages.map(message => ({ stream: message.stream, ...tryDecode(message) }) satisfies Item),
      positions
    )
    options.onFacts(messages.length)
    // A process that does more than this one thing gets its turn.
    await new Promise(setImmediate)
  }
  options.signal.throwIfAborted()
}

/** What belongs together was written at the same time, wherever it lies: read in step most rows are written once. Each
 *  stream in its own order, since how far it is read is one number. */
function inTime (
  sources: PartSource[],
  positions: Positions,
  { bus, upTo, signal, onError }: ReadingOptions
): AsyncGenerator<StoredMessage[]> {
  const streams = sources.map(({ stream, filters }) =>
    merge(
      filters.map(filter =>
        readRange(bus, {
          stream,
          filters: [filter],
          afterSeq: positions[stream]!,
          endSeq: upTo[stream]!,
          signal,
          onError
        })
      ),
      ({ seq }) => seq
    )
  )
  return merge(streams, ({ storedMs }) => storedMs)
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

async function moveProgress (run: Run, set: TableSet, part: number, moves: Move[]): Promise<boolean> {
  for (const { stream, from, to } of moves) {
    const moved = await run(
      sql`update ${
        qualified(set, 'progress')
      } set position = ${to}, updated_at = now() where part = ${part} and stream = ${stream} and position = ${from}`
    )
    if (moved === 0) return false
  }
  return true
}
