import type { AnyFact } from '#streams/catalog.ts'
import { isErased } from '#streams/email/erase.ts'
import { CONTENT_STREAM } from '#src/nats/blob-places.ts'
import type { VerifySession } from './session.ts'
import { isStepFact, stepOf } from './history.ts'

/** Streams of facts, by the number they have in the index. */
export const STREAMS = ['REQUESTS', 'EMAILS', 'INBOUND', 'CONTROL', 'WEBHOOKS'] as const
export type StreamName = typeof STREAMS[number]
/** Erasures delete from the object store, too. */
export const numberOf = (stream: string): number => [...STREAMS, CONTENT_STREAM].indexOf(stream)

const SCHEMA = 'jetpost_proof'

/** Not logged, without indexes: written once, then joined and sorted as a whole. `facts`: everything that lies in the
 *  streams; `id` null = it cannot be read. `late` = came while the others were read: known, but not looked into.
 *  `kind`: what of it the questions ask for. `request` = the place in REQUESTS it points at. `copy` = has the id of
 *  another on purpose. `gaps`: sequences without a message, with when their neighbours were stored. `erased`: what
 *  erasures say they have deleted. `events`: what deliveries point at in EMAILS. `objects`: what the object store
 *  holds. `windows`: from which id to which what was erased was made. `works`: when an erasure has deleted from
 *  REQUESTS. */
const TABLES = `
  create unlogged table facts (stream smallint not null, seq bigint not null, id text collate "C", cause text collate "C", kind smallint not null, email text collate "C",
    request bigint, copy boolean not null, late boolean not null);
  create unlogged table steps (email text collate "C" not null, n smallint not null, seq bigint not null, step text not null);
  create unlogged table gaps (stream smallint not null, low bigint not null, high bigint not null, before_ms bigint not null, after_ms bigint not null);
  create unlogged table erased (stream smallint not null, seq bigint not null, id text collate "C");
  create unlogged table events (seq bigint not null, event_seq bigint not null, event text collate "C" not null);
  create unlogged table objects (email text collate "C" not null, seq bigint not null, written_ms bigint not null);
  create unlogged table works (ms bigint not null);
  create unlogged table windows (low text collate "C" not null, high text collate "C" not null)`

/** `request` = with its content in it, or without any; `storedContent` = its content lies in the object store. */
export const KIND = { other: 0, request: 1, storedContent: 2, recorded: 3, moved: 4 } as const

export interface Entry {
  stream: number
  seq: number
  fact: AnyFact | null
  copy: boolean
  late: boolean
}
export interface Gap {
  stream: number
  low: number
  high: number
  beforeMs: number
  afterMs: number
}

/** Where the log is written down in the shape that the questions need: in PostgreSQL, so that it may be of any length.
 */
export interface LogIndex {
  enter(entry: Entry): void
  gap(gap: Gap): void
  object(email: string, seq: number, writtenMs: number): void
  window(low: string, high: string): void
  /** Waits while more is held than is worth a statement. */
  settle(): Promise<void>
  /** All that was entered can be asked for. */
  close(): Promise<void>
}

/** A table's rows as they gather: a text a column, its values parted by line breaks. No value holds one: ids, numbers,
 *  and JSON of both. */
interface Sheet {
  table: string
  columns: readonly (readonly [name: string, type: string])[]
  values: string[][]
  rows: number
}

const ROWS_MAX = 5000

export async function openLogIndex ({ ask }: VerifySession): Promise<LogIndex> {
  await dropLogIndex({ ask })
  await ask(`create schema ${SCHEMA}; set search_path = ${SCHEMA}, public; ${TABLES}`)
  const sheets = {
    facts: sheet(
      'facts',
      'stream smallint, seq bigint, id text, cause text, kind smallint, email text, request bigint, copy boolean, late boolean'
    ),
    steps: sheet('steps', 'email text, n smallint, seq bigint, step text'),
    gaps: sheet('gaps', 'stream smallint, low bigint, high bigint, before_ms bigint, after_ms bigint'),
    erased: sheet('erased', 'stream smallint, seq bigint, id text'),
    events: sheet('events', 'seq bigint, event_seq bigint, event text'),
    objects: sheet('objects', 'email text, seq bigint, written_ms bigint'),
    works: sheet('works', 'ms bigint'),
    windows: sheet('windows', 'low text, high text')
  }
  let writing: Promise<unknown> = Promise.resolve()

  function enter ({ stream, seq, fact, copy, late }: Entry): void {
    if (fact === null) return put(sheets.facts, stream, seq, null, null, KIND.other, null, null, copy, late)
    const { id, causation } = fact
    put(sheets.facts, stream, seq, id, causation, kindOf(fact), emailOf(fact), requestOf(fact), copy, late)
    enterErased(fact)
    // An erasure that was at work while we read may have left only the last of a recipient's facts.
    if (isStepFact(fact)) put(sheets.steps, fact.data.email, fact.data.n, seq, JSON.stringify(stepOf(fact)))
    if (late) return
    for (const event of eventsOf(fact)) put(sheets.events, seq, event.seq, event.id)
  }

  function enterErased (fact: AnyFact): void {
    if (fact.type === 'email.erased') {
      for (const { seq, fact: past } of fact.data.past) {
        put(sheets.erased, numberOf('EMAILS'), seq, (past as { id: string }).id)
      }
    }
    if (fact.type !== 'erasure.advanced') return
    if (fact.data.deletes.some(({ stream }) => stream === 'REQUESTS')) put(sheets.works, Date.parse(fact.time))
    for (const { stream, seqs } of fact.data.deletes) {
      for (const seq of seqs) put(sheets.erased, numberOf(stream), seq, null)
    }
  }

  async function settle (): Promise<void> {
    for (const each of Object.values(sheets)) if (each.rows >= ROWS_MAX) await flush(each)
  }

  /** One statement is under way while the next one gathers. */
  async function flush (each: Sheet): Promise<void> {
    await writing
    const values = each.values.map(column => column.join('\n'))
    each.values = each.columns.map(() => [])
    each.rows = 0
    writing = ask({ text: insertOf(each), values })
    writing.catch(() => {})
  }

  async function close (): Promise<void> {
    for (const each of Object.values(sheets)) if (each.rows > 0) await flush(each)
    await writing
    await ask('create index if not exists erased_place on erased (stream, seq)')
    await ask(`analyze ${Object.keys(sheets).join(', ')}`)
  }

  return {
    enter,
    gap: ({ stream, low, high, beforeMs, afterMs }) => put(sheets.gaps, stream, low, high, beforeMs, afterMs),
    object: (email, seq, writtenMs) => put(sheets.objects, email, seq, writtenMs),
    window: (low, high) => put(sheets.windows, low, high),
    settle,
    close
  }
}

/** Also what a index that was never closed has left. */
export async function dropLogIndex ({ ask }: Pick<VerifySession, 'ask'>): Promise<void> {
  await ask(`drop schema if exists ${SCHEMA} cascade`)
}

function sheet (table: string, columns: string): Sheet {
  const named = columns.split(', ').map(column => column.split(' ') as [string, string])
  return { table, columns: named, values: named.map(() => []), rows: 0 }
}

function put (to: Sheet, ...row: Array<string | number | boolean | null>): void {
  row.forEach((value, i) => to.values[i]!.push(value === null ? '' : String(value)))
  to.rows++
}

/** Arrays of text cost the server and us least as one text. */
function insertOf ({ table, columns }: Sheet): string {
  const names = columns.map(([name]) => name).join(', ')
  const values = columns.map(([name, type]) => `${name}::${type}`).join(', ')
  const arrays = columns.map((_column, i) => `string_to_array($${i + 1}, E'\\n', '')`).join(', ')
  return `insert into ${table} (${names}) select ${values} from unnest(${arrays}) as given (${names})`
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
  const events = fact.type === 'delivery.requested'
    ? fact.data.events
    : fact.type === 'batch.joined'
    ? [fact.data.event]
    : []
  return events.filter(({ seq }) => seq > 0)
}
