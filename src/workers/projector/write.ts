import { Sql, sql } from '#projections/define.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { asError } from '#src/base/errors.ts'
import type { DecodedMessage } from '#src/nats/message.ts'
import { moveCheckpoints, type Move, type Positions } from '#src/postgres/checkpoint.ts'
import { createCopier } from '#src/postgres/copy.ts'
import { isPoison } from '#src/postgres/pool.ts'
import type { Execute } from '#src/postgres/query.ts'
import { qualified, type TableSet } from '#src/postgres/table-sets.ts'
import type { Commit } from './commit.ts'

/** What a stream holds at a sequence: a fact, or the reason why it is none. */
export interface StreamItem extends Omit<DecodedMessage, 'newer'> {
  stream: string
}

/** Another projector has moved the checkpoint. */
export class Overtaken extends Error {}

/** `project` threw: the fault is its own or the fact's, not PostgreSQL's. */
class Unprojectable extends Error {}

export interface Writer {
  /** Writes items, each stream's in order and after `positions`, which move along: rows and checkpoint in one
   *  transaction. An item that cannot be read, projected or stored is dead-lettered, alone. Throws Overtaken, and the
   *  driver's error when PostgreSQL is unavailable or at fault. */
  write(items: StreamItem[], positions: Positions): Promise<void>
}

export interface WriterOptions {
  set: TableSet
  commit: Commit
  /** Moves the positions in the transaction that writes the rows; false when one is not where it should be. The set's
   *  checkpoints unless given. */
  move?(execute: Execute, moves: Move[]): Promise<boolean>
  /** Writes rows by COPY where it can: very many take half of PostgreSQL's time. */
  copies?: boolean
  onDeadLetter(item: Pick<StreamItem, 'stream' | 'seq' | 'subject'>, reason: string): void
}

export function createWriter (
  {
    set,
    commit,
    onDeadLetter,
    copies = false,
    move = (execute, moves) => moveCheckpoints(execute, set, moves)
  }: WriterOptions
): Writer {
  const { projection } = set
  const copier = createCopier(set)

  async function write (items: StreamItem[], positions: Positions, byCopy = copies): Promise<void> {
    if (items.length === 0) return
    try {
      await writeOnce(items, positions, byCopy)
    } catch (error) {
      if (!(error instanceof Unprojectable) && !isPoison(error)) throw error
      // COPY fails on a row that exists already; the statement may not.
      if (byCopy) return await write(items, positions, false)
      if (items.length === 1) {
        return await writeOnce([{ ...items[0]!, fact: null, reason: asError(error).message }], positions, false)
      }
      // One fact spoils the batch: halved until it stands alone.
      const half = items.length >> 1
      await write(items.slice(0, half), positions, false)
      await write(items.slice(half), positions, false)
    }
  }

  async function writeOnce (items: StreamItem[], positions: Positions, byCopy: boolean): Promise<void> {
    const moves = [...new Set(items.map(({ stream }) => stream))].map(stream => ({
      stream,
      from: positions[stream]!,
      to: items.findLast(item => item.stream === stream)!.seq
    }))
    const deadLetters = items.filter(({ fact }) => fact === null)
    const statements = [...project(items.filter(isRead)), ...deadLetters.map(item => deadLetter(set, item))]
    await commit(set, async (execute, client) => {
      if (!await move(execute, moves)) throw new Overtaken()
      for (const statement of statements) {
        await (byCopy ? copier.execute(client, execute, statement) : execute(statement))
      }
    })
    for (const { stream, to } of moves) positions[stream] = to
    for (const item of deadLetters) onDeadLetter(item, item.reason)
  }

  function project (facts: Array<StreamItem & Recorded<AnyFact>>): Sql[] {
    try {
      return facts.length === 0 ? [] : projection.project(facts)
    } catch (error) {
      throw new Unprojectable(asError(error).message, { cause: error })
    }
  }

  return { write: async (items, positions) => await write(items, positions) }
}

function isRead (item: StreamItem): item is StreamItem & Recorded<AnyFact> {
  return item.fact !== null
}

const REASON_CHARS_MAX = 1000

function deadLetter (set: TableSet, { stream, seq, subject, reason }: StreamItem): Sql {
  return sql`insert into ${qualified(set, 'dead_letters')} (stream, seq, subject, reason)
    values (${stream}, ${seq}, ${subject}, ${reason.slice(0, REASON_CHARS_MAX)})
    on conflict (stream, seq) do nothing`
}
