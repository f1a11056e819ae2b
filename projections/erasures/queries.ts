import { Type, type Static } from '@sinclair/typebox'
import { Nullable } from '#streams/define.ts'
import { ErasureCounts } from '#streams/erasure/facts.ts'
import type { ErasureState } from '#streams/erasure/state.ts'
import { Sql, sql, type Query } from '../define.ts'
import { cursorParser, cursorText, type PageCursor } from '../cursor.ts'

const DAY_MS = 86_400_000
/** WEBHOOKS keeps what receivers answered for so long. */
const ANSWERS_DAYS = 30
/** Views that no process has used for so long are dropped. */
const UNUSED_DAYS = 7
/** Views that nobody goes on making are dropped after a day, at the next look. */
const UNFINISHED_DAYS = 2
/** What was stored for no mail is looked for every hour. */
const STRAY_DAYS = 1

/** What an erasure cannot reach, and by when it is gone. */
const Remain = Type.Object({
  what: Type.String(),
  /** Null: no clock of ours decides; `what` says what does. */
  until: Nullable(Type.String())
})
type Remain = Static<typeof Remain>

export const ErasureRecord = Type.Object({
  id: Type.String(),
  status: Type.Union([Type.Literal('pending'), Type.Literal('completed')]),
  address_hash: Type.String({
    description: 'HMAC-SHA-256 of the address under a key of this service, hex: the same for each erasure of it.'
  }),
  requested_at: Type.String(),
  completed_at: Nullable(Type.String()),
  counts: ErasureCounts,
  looked_through: Type.Array(Type.String(), { description: 'Where the address was taken out, once it is completed.' }),
  remains: Type.Array(Remain)
}, {
  examples: [{
    id: 'era_01m7ysevjmwmdcr41jq5rymhkp',
    status: 'completed',
    address_hash: 'b5fc85e55755f9e0d030a10ab4429b6b2944855f90c5af2ea85f1f9f1c2aee1e',
    requested_at: '2026-11-21T12:00:00.000Z',
    completed_at: '2026-11-21T12:00:31.000Z',
    counts: { emails: 12, recipients: 12, canceled: 1, suppressions: 1, inbound: 2, messages: 49 },
    looked_through: ['Suppressions.'],
    remains: [{
      what: 'Words of webhook receivers in the log of deliveries, should they have repeated the address.',
      until: '2026-12-21T12:00:31.000Z'
    }]
  }]
})
export type ErasureRecord = Static<typeof ErasureRecord>

export const ErasurePage = Type.Object({
  data: Type.Array(ErasureRecord),
  has_more: Type.Boolean(),
  next_cursor: Nullable(Type.String())
}, {
  examples: [{ data: ErasureRecord.examples, has_more: false, next_cursor: null }]
})
export type ErasurePage = Static<typeof ErasurePage>

type Standing = Pick<ErasureState, 'id' | 'hash' | 'requestedAt' | 'completedAt' | 'counts'>

/** How long the log keeps content, and facts about mail, in ms. */
export interface RetentionPeriods {
  contentMs: number
  factsMs: number
}

/** What an erasure takes the address out of. */
const LOOKED_THROUGH = [
  'Mail to the address: recipients, names, subject, headers, addresses for answers, names of files, tags and metadata.',
  'Text and files of mail to nobody else, with all values that templates were given.',
  'What became of that mail with this recipient: answers of servers, opens, clicks, complaints, and their events.',
  'Suppressions.',
  'Answers that are kept for Idempotency-Keys.',
  'Mail that came back.',
  'All tables that are made of these.'
]

/** The receipt, so far. */
export function receiptOf (
  { id, hash, requestedAt, completedAt, counts }: Standing,
  kept: RetentionPeriods
): ErasureRecord {
  const remains = completedAt === null ? [] : remainsAfter(Date.parse(completedAt), kept)
  return {
    id,
    status: completedAt === null ? 'pending' : 'completed',
    address_hash: hash,
    requested_at: requestedAt,
    completed_at: completedAt,
    counts,
    looked_through: completedAt === null ? [] : LOOKED_THROUGH,
    remains
  }
}

/** Said of every erasure, whether there was such a thing or not: nobody can look there. `kept` = for how long: a
 *  retention, days, or null = until something else happens. */
const REMAINS: Array<{ what: string, kept: keyof RetentionPeriods | number | null }> = [
  {
    what: 'Mail of other recipients that names the address in its text or its files: it is theirs.',
    kept: 'contentMs'
  },
  {
    what: 'What is known of such mail without its text, if its subject, headers, sender, tags or metadata name the ' +
      'address.',
    kept: 'factsMs'
  },
  {
    what: 'Events of the other recipients of mail to the address, if its subject, sender, tags or metadata name it.',
    kept: 'factsMs'
  },
  {
    what: 'The SHA-256 of the address, so that no mail goes there: until nothing stands against it. Who guesses the ' +
      'address can tell that it is meant.',
    kept: null
  },
  {
    what: 'Templates, and names of keys and endpoints, that name the address: until they are changed.',
    kept: null
  },
  {
    what: 'Mail in the mail catcher, where there is one: until others take its place, or the process ends.',
    kept: null
  },
  {
    what: 'Views whose making or comparing was cut off: until they are dropped, or made to the end.',
    kept: UNFINISHED_DAYS
  },
  {
    what:
      'Text or files of mail that was never accepted, because storing them was cut off: until they are tidied away.',
    kept: STRAY_DAYS
  },
  {
    what: 'Views of an earlier version of Jetpost, kept to go back to: until they have not been in use for as long.',
    kept: UNUSED_DAYS
  },
  {
    what: 'Words of webhook receivers in the log of deliveries, should they have repeated the address.',
    kept: ANSWERS_DAYS
  },
  {
    what: 'Free space in the pages of PostgreSQL: until it is overwritten. `jetpost rebuild all` frees that of the ' +
      'projections at once.',
    kept: null
  },
  {
    what:
      "PostgreSQL's write-ahead log: until its segments are written over, at the latest by as much as max_wal_size.",
    kept: null
  },
  { what: 'The Raft log of NATS servers in a cluster: until their next snapshot.', kept: null },
  {
    what: 'Backups made before: until they are thrown away. A restored one has to be erased from again.',
    kept: null
  }
]

function remainsAfter (completedMs: number, periods: RetentionPeriods): Remain[] {
  return REMAINS.map(({ what, kept }) => {
    if (kept === null) return { what, until: null }
    const keptMs = typeof kept === 'number' ? kept * DAY_MS : periods[kept]
    return { what, until: new Date(completedMs + keptMs).toISOString() }
  })
}

export const parseCursor = cursorParser('era_')

interface Row {
  id: string
  hash: string
  requested_at: Date
  completed_at: Date | null
  counts: Record<string, number>
}

const STEPS = Object.keys(ErasureCounts.properties).map(name =>
  new Sql([`'${name}', coalesce(sum((counts->>'${name}')::bigint), 0)`], [])
)
  .reduce((left, right) => sql`${left}, ${right}`)
/** Under way, the sum of the steps so far. */
const COLUMNS =
  sql`id, hash, requested_at, completed_at, coalesce(counts, (select jsonb_build_object(${STEPS}) from erasure_steps
    where erasure = erasures.id)) as counts`

function standingOf (row: Row): Standing {
  const counts = row.counts as unknown as ErasureCounts
  return {
    id: row.id,
    hash: row.hash,
    requestedAt: row.requested_at.toISOString(),
    completedAt: row.completed_at?.toISOString() ?? null,
    counts
  }
}

export interface ErasureListOptions {
  account: string
  limit: number
  cursor: PageCursor | null
  kept: RetentionPeriods
}

/** A page of an account's erasures, newest first. */
export function listErasures ({ account, limit, cursor, kept }: ErasureListOptions): Query<ErasurePage> {
  const beyond = cursor === null ? sql`` : sql`and (requested_at, id) < (${cursor.at}::timestamptz, ${cursor.id})`
  return {
    sql: sql`select ${COLUMNS} from erasures where account = ${account} ${beyond}
        order by requested_at desc, id desc limit ${limit + 1}`,
    read: rows => {
      const page = (rows as unknown as Row[]).slice(0, limit).map(standingOf)
      const more = rows.length > limit
      return {
        data: page.map(standing => receiptOf(standing, kept)),
        has_more: more,
        next_cursor: more ? cursorText({ at: page.at(-1)!.requestedAt, id: page.at(-1)!.id }) : null
      }
    }
  }
}

interface GetOptions {
  account: string
  kept: RetentionPeriods
}

/** One erasure; null when the account has none of that id. */
export function getErasure ({ account, id, kept }: GetOptions & { id: string }): Query<ErasureRecord | null> {
  return {
    sql: sql`select ${COLUMNS} from erasures where account = ${account} and id = ${id}`,
    read: rows => first(rows, kept)
  }
}

interface PendingOptions extends GetOptions {
  /** An erasure has one of them, by the secret that was the newest when it was asked for. */
  hashes: string[]
}

/** The one that is under way for an address, or null. */
export function pendingErasure ({ account, hashes, kept }: PendingOptions): Query<ErasureRecord | null> {
  return {
    sql: sql`select ${COLUMNS} from erasures where account = ${account} and hash = any(${hashes}::text[])
        and completed_at is null order by requested_at, id limit 1`,
    read: rows => first(rows, kept)
  }
}

function first ([row]: readonly Record<string, unknown>[], kept: RetentionPeriods): ErasureRecord | null {
  return row === undefined ? null : receiptOf(standingOf(row as unknown as Row), kept)
}

/** What is under way in all accounts, the oldest first. */
export function pendingErasures (limit: number): Query<Array<{ account: string, id: string, requestedAt: Date }>> {
  return {
    sql: sql`select account, id, requested_at as "requestedAt" from erasures where completed_at is null
        order by requested_at, id limit ${limit}`,
    read: rows => rows as unknown as Array<{ account: string, id: string, requestedAt: Date }>
  }
}
