import type { DeliveryFailed, ErrorKind, Member } from '#streams/delivery/facts.ts'
import type { EventType } from '#streams/webhook/facts.ts'
import { all, deleteSome, sql, type Query, type Sql } from '../define.ts'
import { cursorParser, cursorText, type PageCursor } from '../cursor.ts'
import { DELIVERY_STATES, type DeliveryStateName } from './project.ts'

/** The last requests shown of one delivery: a run has 11 at most, and any number of replays may follow. */
const ATTEMPTS_MAX = 100
/** The same in a list. */
const BRIEF_ATTEMPTS_MAX = 20

/** A delivery as lists show it. Its events and `requested_at` apart, everything is about its last run: that of the
 *  greatest replay, or the first. */
export interface DeliverySummary {
  id: string
  webhook: string
  /** One, unless it is a batch; oldest first. `seq` 0 = a test event. */
  events: Member[]
  batch: boolean
  test: boolean
  replay: string | null
  state: DeliveryStateName
  /** When it was first requested, as far as the log still has it. */
  requested_at: Date
  first_attempt_at: Date | null
  next_attempt_at: Date | null
  ended_at: Date | null
  /** Why it failed without another request. */
  reason: DeliveryFailed['data']['reason'] | null
  attempts: number
  /** The last request; null when there was none. */
  last: LastAttempt | null
}

export interface LastAttempt {
  status: number | null
  error: string | null
  error_kind: ErrorKind | null
  duration_ms: number
}

/** One HTTP request. */
export interface DeliveryAttempt extends LastAttempt {
  /** Its sequence in WEBHOOKS. */
  seq: number
  replay: string | null
  /** From 1 in each run. */
  attempt: number
  at: Date
  /** The first 4,096 bytes of the response as text. */
  response: string
  url: string
  headers: Record<string, string>
}

export interface DeliveryRecord extends DeliverySummary {
  /** The requests of all its runs, oldest first; the last 100 at most. */
  tries: DeliveryAttempt[]
}

export interface DeliveryPage {
  data: DeliverySummary[]
  has_more: boolean
  /** For the next page; null when this is the last one. */
  next_cursor: string | null
}

/** All that are given must match. */
export interface DeliveryFilters {
  webhook?: string
  event?: string
  email?: string
  state?: DeliveryStateName
  /** Why its last request had no response. */
  errorKind?: ErrorKind
  /** When it was first requested, RFC 3339: at or after; before. */
  since?: string
  until?: string
}

export const parsePlace = cursorParser('whd_')

const COLUMNS =
  sql`id, webhook, event, event_type, event_seq, email, events, event_types, event_seqs, emails, batch, test, replay,
  state, requested_at, first_attempt_at, next_attempt_at, ended_at, reason,
  attempts, attempt_seq, http_status, error, error_kind, duration_ms`

/** A page of an account's deliveries, the newest first. Stable: a new delivery comes before the first page, never into
 *  a later one, and a replay does not move a delivery. `limit` from 1. */
export function listDeliveries (
  { account, filters, limit, cursor }: {
    account: string
    filters: DeliveryFilters
    limit: number
    cursor: PageCursor | null
  }
): Query<DeliveryPage> {
  const { event, email, errorKind } = filters
  const select = event !== undefined || email !== undefined ? byContents : errorKind !== undefined ? byError : byState
  return {
    sql: select(
      account,
      filters,
      conditionsOf(filters, cursor),
      sql`order by requested_at desc, id desc limit ${limit + 1}`
    ),
    read: rows => {
      const data = (rows as unknown as DeliveryRow[]).slice(0, limit).map(summaryOf)
      const has_more = rows.length > limit
      const last = data.at(-1)
      return {
        data,
        has_more,
        next_cursor: has_more ? cursorText({ at: last!.requested_at.toISOString(), id: last!.id }) : null
      }
    }
  }
}

function conditionsOf ({ webhook, errorKind, since, until }: DeliveryFilters, cursor: PageCursor | null): Sql[] {
  return [
    ...(webhook === undefined ? [] : [sql`webhook = ${webhook}`]),
    ...(errorKind === undefined ? [] : [sql`error_kind = ${errorKind}`]),
    ...(since === undefined ? [] : [sql`requested_at >= ${since}::timestamptz`]),
    ...(until === undefined ? [] : [sql`requested_at < ${until}::timestamptz`]),
    ...(cursor === null ? [] : [sql`(requested_at, id) < (${cursor.at}::timestamptz, ${cursor.id})`])
  ]
}

/** Reads each state in the order of its index. */
function byState (account: string, { state }: DeliveryFilters, conditions: Sql[], inOrder: Sql): Sql {
  const states = DELIVERY_STATES.filter(name => state === undefined || name === state)
  return sql`select page.* from unnest(${states}::text[]) as states (name) cross join lateral (
      select ${COLUMNS} from deliveries where account = ${account} and state = states.name and ${
    all(conditions)
  } ${inOrder}) page ${inOrder}`
}

function byError (account: string, { state }: DeliveryFilters, conditions: Sql[], inOrder: Sql): Sql {
  return sql`select ${COLUMNS} from deliveries where ${
    all([sql`account = ${account}`, ...stateIs(state), ...conditions])
  } ${inOrder}`
}

/** An event or an email has few deliveries: all of them are fetched and then filtered. `offset 0` keeps the planner
 *  from scanning a long list in order instead. */
function byContents (account: string, { event, email, state }: DeliveryFilters, conditions: Sql[], inOrder: Sql): Sql {
  const [one, many] = event === undefined
    ? [sql`email = ${email}`, sql`emails @> ${[email]}::text[]`]
    : [sql`event = ${event}`, sql`events @> ${[event]}::text[]`]
  const further = event === undefined || email === undefined
    ? sql`true`
    : sql`(email = ${email} or emails @> ${[email]}::text[])`
  const filtered = all([sql`account = ${account}`, further, ...stateIs(state), ...conditions])
  return sql`select ${COLUMNS} from (
      (select * from deliveries where ${one} offset 0)
      union all (select * from deliveries where ${many} offset 0)) found
    where ${filtered} ${inOrder}`
}

function stateIs (state: DeliveryStateName | undefined): Sql[] {
  return state === undefined ? [] : [sql`state = ${state}`]
}

/** One delivery with its last requests; null when the account has none of that id. */
export function getDelivery ({ account, id }: { account: string, id: string }): Query<DeliveryRecord | null> {
  return {
    sql: sql`select ${COLUMNS}, ${TRIES} from deliveries where account = ${account} and id = ${id}`,
    read: ([row]) => (row === undefined ? null : recordOf(row))
  }
}

const TRIES = sql`(select jsonb_agg(to_jsonb(last) order by seq) from (
    select * from delivery_attempts where delivery = deliveries.id
    order by seq desc limit ${ATTEMPTS_MAX}) last) as tries`

/** When each request was and what came of it, without what was said: for lists, which have many deliveries. */
const BRIEF_TRIES = sql`(select jsonb_agg(to_jsonb(last) order by seq) from (
    select seq, replay, attempt, at, duration_ms, http_status, '' as response, error, error_kind, '' as url,
      '{}'::jsonb as headers
    from delivery_attempts where delivery = deliveries.id order by seq desc limit ${BRIEF_ATTEMPTS_MAX}) last) as tries`

/** The deliveries of these emails' events, each with its last requests: the first requested first, `limit` at most.
 *  `brief` = without what was sent and answered. */
export function deliveriesAbout (
  { account, emails, limit, brief = false }: { account: string, emails: string[], limit: number, brief?: boolean }
): Query<DeliveryRecord[]> {
  return {
    sql: sql`select ${COLUMNS}, ${brief ? BRIEF_TRIES : TRIES} from (
        (select * from deliveries where email = any(${emails}::text[]) offset 0)
        union all (select * from deliveries where emails && ${emails}::text[] offset 0)) deliveries
      where account = ${account} order by requested_at, id limit ${limit}`,
    read: rows => rows.map(recordOf)
  }
}

/** The sequence in WEBHOOKS of the last fact of a delivery's last run; null when the account has no such delivery. */
export function deliveryPlace ({ account, id }: { account: string, id: string }): Query<number | null> {
  return {
    sql: sql`select state_seq from deliveries where account = ${account} and id = ${id}`,
    read: ([row]) => (row?.state_seq as number | undefined) ?? null
  }
}

/** A time span of an endpoint's failures, RFC 3339: at or after `from`, before `to`. */
export interface FailedRange {
  account: string
  webhook: string
  from: string
  to: string
}

export interface FailedDelivery {
  id: string
  /** The sequence in WEBHOOKS of the fact that says so. */
  state_seq: number
  ended_at: Date
}

/** A page of the deliveries that failed then and have not been replayed since, the longest ago first; `after` = the
 *  `ended_at` and id of the last one of the page before. */
export function failedDeliveries (
  range: FailedRange,
  { limit, after }: { limit: number, after: PageCursor | null }
): Query<FailedDelivery[]> {
  const beyond = after === null ? sql`` : sql`and (ended_at, id) > (${after.at}::timestamptz, ${after.id})`
  return {
    sql: sql`select id, state_seq, ended_at from deliveries where ${
      failedIn(range)
    } ${beyond} order by ended_at, id limit ${limit}`,
    read: rows => rows as unknown as FailedDelivery[]
  }
}

function failedIn ({ account, webhook, from, to }: FailedRange): Sql {
  return sql`account = ${account} and webhook = ${webhook} and state = 'failed'
    and ended_at >= ${from}::timestamptz and ended_at < ${to}::timestamptz`
}

/** Deletes deliveries whose last fact lies before `before`, the first sequence that WEBHOOKS still holds: as a rebuild
 *  would leave them out, ended or not (without its last fact a delivery cannot continue). Deletes `limit` rows at most,
 *  and none that is being written; reads how many. */
export function pruneDeliveries ({ before, limit }: { before: number, limit: number }): Query<number> {
  return deleteSome(sql`deliveries`, sql`state_seq < ${before}`, limit)
}

/** The same for requests. */
export function pruneAttempts ({ before, limit }: { before: number, limit: number }): Query<number> {
  return deleteSome(sql`delivery_attempts`, sql`seq < ${before}`, limit)
}

/** Its columns for one event or for several, and for its last request. */
interface DeliveryRow extends Omit<DeliverySummary, 'events' | 'replay' | 'last'>, LastRow {
  event: string | null
  event_type: EventType
  event_seq: number
  email: string
  events: string[]
  event_types: EventType[]
  event_seqs: number[]
  emails: string[]
  replay: string
  attempt_seq: number
}

interface LastRow extends Omit<LastAttempt, 'status'> {
  http_status: number | null
}

/** A row inside jsonb: times are text there, in PostgreSQL's own form. */
interface AttemptRow extends Omit<DeliveryAttempt, 'status' | 'replay' | 'at'>, LastRow {
  replay: string
  at: string
}

function summaryOf (row: DeliveryRow): DeliverySummary {
  const { id, webhook, batch, test, replay, state, requested_at, first_attempt_at, next_attempt_at, ended_at } = row
  return {
    id,
    webhook,
    events: eventsOf(row),
    batch,
    test,
    replay: runOf(replay),
    state,
    requested_at,
    first_attempt_at,
    next_attempt_at,
    ended_at,
    reason: row.reason,
    attempts: row.attempts,
    last: row.attempt_seq === 0 ? null : lastOf(row)
  }
}

/** Null = the first run. */
function runOf (replay: string): string | null {
  return replay === '' ? null : replay
}

function recordOf (row: Record<string, unknown>): DeliveryRecord {
  return { ...summaryOf(row as unknown as DeliveryRow), tries: ((row.tries ?? []) as AttemptRow[]).map(attemptOf) }
}

function eventsOf (row: DeliveryRow): Member[] {
  if (row.event !== null) return [{ id: row.event, type: row.event_type, seq: row.event_seq, email: row.email }]
  return row.events.map((id, i) => ({
    id,
    type: row.event_types[i]!,
    seq: Number(row.event_seqs[i]),
    email: row.emails[i]!
  }))
}

function lastOf ({ http_status: status, error, error_kind, duration_ms }: LastRow): LastAttempt {
  return { status, error, error_kind, duration_ms }
}

function attemptOf ({ seq, replay, attempt, at, response, url, headers, ...row }: AttemptRow): DeliveryAttempt {
  return { seq, replay: runOf(replay), attempt, at: new Date(at), ...lastOf(row), response, url, headers }
}
