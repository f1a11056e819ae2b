import type { AnyFact } from '#streams/catalog.ts'
import { isErased } from '#streams/email/erase.ts'
import { FACT_STREAMS } from '#streams/place.ts'
import { CONTENT_STREAM } from '#src/nats/blob-transfer.ts'
import { historyStepOf, isStepFact } from './history.ts'
import type { VerifySession } from './session.ts'

/** The number of a stream in the index. Erasures delete from the object store, too. */
export const numberOf = (stream: string): number => [...FACT_STREAMS, CONTENT_STREAM].indexOf(stream)

const SCHEMA = 'jetpost_log_verify'

/** Unlogged and without indexes: written once, then joined and sorted as a whole.
 *  - `facts`: everything in the streams; `id` null = it cannot be read; `late` = stored while the others were read:
 *    known, but not checked; `kind`: see KIND; `request` = the sequence in REQUESTS it points at; `copy` = has the
 *    id of another on purpose.
 *  - `steps`: what the history of a recipient depends on.
 *  - `gaps`: sequences without a message, with when their neighbours were stored.
 *  - `erased`: what erasures say they have deleted.
 *  - `events`: what deliveries point at in EMAILS.
 *  - `objects`: what the object store holds.
 *  - `works`: when an erasure has deleted from REQUESTS.
 *  - `windows`: from which id to which what was erased was created. */
const TABLES = {
  facts: 'stream smallint not null, seq bigint not null, id text, cause text, kind smallint not null, email text, ' +
    'request bigint, copy boolean not null, late boolean not null',
  steps: 'email text not null, n smallint not null, seq bigint not null, step text not null',
  gaps: 'stream smallint not null, low bigint not null, high bigint not null, before_ms bigint not null, ' +
    'after_ms bigint not null',
  erased: 'stream smallint not null, seq bigint not null, id text',
  events: 'seq bigint not null, event_seq bigint not null, event text not null',
  objects: 'email text not null, seq bigint not null, written_ms bigint not null',
  works: 'ms bigint not null',
  windows: 'low text not null, high text not null'
}
type TableName = keyof typeof TABLES

/** `request` = with its content in it, or without any; `storedContent` = its content is in the object store. */
export const KIND = { other: 0, request: 1, storedContent: 2, recorded: 3, moved: 4 } as const

export interface IndexedFact {
  stream: number
  seq: number
  fact: AnyFact | null
  copy: boolean
  late: boolean
}

export interface SequenceGap {
  stream: number
  low: number
  high: number
  beforeMs: number
  afterMs: number
}

const ROWS_MAX = 5000

/** The log in the shape that the checks need: in PostgreSQL, so that it may be of any length. */
export class LogIndex {
  private readonly query: VerifySession['query']
  private readonly buffers: Record<TableName, RowBuffer>
  private writing: Promise<unknown> = Promise.resolve()

  private constructor (query: VerifySession['query']) {
    this.query = query
    this.buffers = Object.fromEntries(
      Object.entries(TABLES).map(([table, columns]) => [table, new RowBuffer(table, columns)])
    ) as Record<TableName, RowBuffer>
  }

  static async open ({ query }: VerifySession): Promise<LogIndex> {
    await dropLogIndex({ query })
    const tables = Object.entries(TABLES).map(([table, columns]) =>
      `create unlogged table ${table} (${columns.replaceAll(/\btext\b/g, 'text collate "C"')})`
    )
    await query(`create schema ${SCHEMA}; set search_path = ${SCHEMA}, public; ${tables.join('; ')}`)
    return new LogIndex(query)
  }

  addFact ({ stream, seq, fact, copy, late }: IndexedFact): void {
    const { facts, steps, events } = this.buffers
    if (fact === null) return facts.add(stream, seq, null, null, KIND.other, null, null, copy, late)
    const { id, causation } = fact
    facts.add(stream, seq, id, causation, kindOf(fact), emailOf(fact), requestOf(fact), copy, late)
    this.addErased(fact)
    // An erasure that was at work while we read may have left only the last of a recipient's facts.
    if (isStepFact(fact)) steps.add(fact.data.email, fact.data.n, seq, JSON.stringify(historyStepOf(fact)))
    if (late) return
    for (const event of eventsOf(fact)) events.add(seq, event.seq, event.id)
  }

  addGap ({ stream, low, high, beforeMs, afterMs }: SequenceGap): void {
    this.buffers.gaps.add(stream, low, high, beforeMs, afterMs)
  }

  addObject (email: string, seq: number, writtenMs: number): void {
    this.buffers.objects.add(email, seq, writtenMs)
  }

  addWindow (low: string, high: string): void {
    this.buffers.windows.add(low, high)
  }

  /** Waits while more is buffered than one statement writes. */
  async flushFull (): Promise<void> {
    for (const buffer of Object.values(this.buffers)) if (buffer.rows >= ROWS_MAX) await this.flush(buffer)
  }

  /** Everything that was added can be queried. */
  async close (): Promise<void> {
    for (const buffer of Object.values(this.buffers)) if (buffer.rows > 0) await this.flush(buffer)
    await this.writing
    await this.query('create index if not exists erased_place on erased (stream, seq)')
    await this.query(`analyze ${Object.keys(TABLES).join(', ')}`)
  }

  private addErased (fact: AnyFact): void {
    const { erased, works } = this.buffers
    if (fact.type === 'email.erased') {
      for (const { seq, fact: past } of fact.data.past) {
        erased.add(numberOf('EMAILS'), seq, (past as { id: string }).id)
      }
    }
    if (fact.type !== 'erasure.advanced') return
    if (fact.data.deletes.some(({ stream }) => stream === 'REQUESTS')) works.add(Date.parse(fact.time))
    for (const { stream, seqs } of fact.data.deletes) {
      for (const seq of seqs) erased.add(numberOf(stream), seq, null)
    }
  }

  /** One statement is running while the next one gathers. */
  private async flush (buffer: RowBuffer): Promise<void> {
    await this.writing
    this.writing = this.query(buffer.takeInsert())
    this.writing.catch(() => {})
  }
}

/** Also what an index that was never closed has left. */
export async function dropLogIndex ({ query }: Pick<VerifySession, 'query'>): Promise<void> {
  await query(`drop schema if exists ${SCHEMA} cascade`)
}

/** A table's rows as they gather: a text a column, its values separated by line breaks. No value holds one: ids,
 *  numbers, and JSON of both. Arrays of text cost the server and us least as one text. */
class RowBuffer {
  rows = 0
  private readonly insert: string
  private values: string[][]

  constructor (table: string, definition: string) {
    const columns = definition.split(', ').map(column => column.split(' ') as [name: string, type: string])
    const names = columns.map(([name]) => name).join(', ')
    const values = columns.map(([name, type]) => `${name}::${type}`).join(', ')
    const arrays = columns.map((_column, i) => `string_to_array($${i + 1}, E'\\n', '')`).join(', ')
    this.insert = `insert into ${table} (${names}) select ${values} from unnest(${arrays}) as added (${names})`
    this.values = columns.map(() => [])
  }

  add (...row: Array<string | number | boolean | null>): void {
    row.forEach((value, i) => this.values[i]!.push(value === null ? '' : String(value)))
    this.rows++
  }

  /** The statement that writes what has gathered; begins again with nothing. */
  takeInsert (): { text: string, values: string[] } {
    const values = this.values.map(column => column.join('\n'))
    this.values = this.values.map(() => [])
    this.rows = 0
    return { text: this.insert, values }
  }
}

function kindOf (fact: AnyFact): number {
  if (fact.type === 'email.recorded') return KIND.recorded
  if (fact.type === 'email.moved') return KIND.moved
  if (fact.type !== 'email.requested') return KIND.other
  // Of whom all are erased nothing is kept.
  return fact.data.content === null && !fact.data.recipients.every(({ address }) => isErased(address))
    ? KIND.storedContent
    : KIND.request
}

function emailOf ({ data }: AnyFact): string | null {
  return 'email' in data ? data.email : null
}

function requestOf ({ data }: AnyFact): number | null {
  // An attempt at a callback has a request of another kind.
  return 'request' in data && typeof data.request === 'number' ? data.request : null
}

/** Test events are no facts of EMAILS. */
function eventsOf (fact: AnyFact): ReadonlyArray<{ id: string, seq: number }> {
  const events = fact.type === 'delivery.requested' || fact.type === 'delivery.attempted'
    ? fact.data.events
    : fact.type === 'batch.joined'
    ? [fact.data.event]
    : []
  return events.filter(({ seq }) => seq > 0)
}
