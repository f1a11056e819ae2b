import { Type, type Static } from '@sinclair/typebox'
import { EVENT_TYPES, type EventType } from '#streams/webhook/facts.ts'
import { all, json, sql, type Query, type Sql } from '../define.ts'
import { cursorParser, cursorText, type PageCursor } from '../cursor.ts'
import { mailboxText } from './requested.ts'
import type { EmailChange } from './project.ts'
import type { EmailPage, EmailRecord, EmailSummary, LastResponse, RecipientRecord, TimelineEntry } from './records.ts'
import type { EmailStatus } from './status.ts'

export const TIMELINE_MAX = 5000

/** `email.bounced` and `bounced` are the same filter. */
export const EventFilter = Type.Union(
  EVENT_TYPES.flatMap(type => [type, type.slice('email.'.length)]).map(name => Type.Literal(name))
)

/** The filters of GET /api/emails that this view can answer; all given ones must hold, of several values one. */
export interface EmailFilters {
  status?: readonly Static<typeof EmailStatus>[]
  /** Address of any recipient, whole, in any case of letters. */
  to?: string
  /** The sender's address, likewise. */
  from?: string
  /** The sender's domain. */
  domain?: string
  tag?: readonly string[]
  /** Name → value as text; `"7"` finds the string and the number, `"true"` the string and the boolean. */
  metadata?: Record<string, string>
  template_id?: string
  /** RFC 3339: at or after. */
  created_after?: string
  /** RFC 3339: before. */
  created_before?: string
  /** Some recipient has had this event (spec 6.1). */
  event?: readonly Static<typeof EventFilter>[]
  /** Substring of subject, sender or a recipient, in any case of letters. */
  q?: string
}

export const parseCursor = cursorParser('em_')

export interface EmailListOptions {
  account: string
  filters: EmailFilters
  /** Rows a page, from 1. */
  limit: number
  /** After which the page begins. */
  cursor: PageCursor | null
}

export const COLUMNS =
  sql`emails.id, emails.key, emails.test, emails.from_address, emails.from_name, emails.to_list, emails.cc_list,
  emails.bcc_list, emails.reply_to_list, emails.subject, emails.template, emails.template_version, emails.tags,
  emails.metadata, emails.created_at,
  email_states.status, email_states.scheduled_at`

/** A page of an account's emails, newest first. Stable: a new row comes before the first page, never into a later one.
 */
export function listEmails (options: EmailListOptions): Query<EmailPage> {
  const { filters, limit } = options
  const branches = branchesOf(filters).map(branch => branchSql(options, branch))
  const found = branches.reduce((left, right) => sql`(${left}) union all (${right})`)
  return {
    sql: branches.length === 1
      ? found
      : sql`select * from (${found}) found order by created_at desc, id desc limit ${limit + 1}`,
    read: rows => {
      const data = (rows as unknown as EmailRow[]).slice(0, limit).map(summaryOf)
      const more = rows.length > limit
      return {
        data,
        has_more: more,
        next_cursor: more ? cursorText({ at: data.at(-1)!.created_at, id: data.at(-1)!.id }) : null
      }
    }
  }
}

/** Emails of which no other branch has any: one status, one first event. Each walks its index in the list's order and
 *  stops when a page is full; of several values at once PostgreSQL would read and sort every email. */
interface Branch {
  status: EmailStatus | null
  /** It has one of these events; none = any. */
  events: readonly EventType[]
  /** It has none of these. */
  without: readonly EventType[]
}

function branchesOf ({ status = [], event = [] }: EmailFilters): Branch[] {
  const events = [...new Set(event.map(eventType))]
  if (status.length > 0) return [...new Set(status)].map(one => ({ status: one, events, without: [] }))
  if (events.length === 0) return [{ status: null, events, without: [] }]
  return events.map((one, i) => ({ status: null, events: [one], without: events.slice(0, i) }))
}

function branchSql ({ account, filters, limit, cursor }: EmailListOptions, branch: Branch): Sql {
  // The table whose index is walked: what only the states know is looked for there. Nearly every email is delivered, so
  // no index tells those apart.
  const { status, events, without } = branch
  const driver = status === null && (events.length === 0 || events.includes('email.delivered'))
    ? sql`emails`
    : sql`email_states`
  const conditions = [
    sql`emails.account = ${account} and email_states.account = ${account}`,
    ...(cursor === null ? [] : [sql`(${driver}.created_at, ${driver}.id) < (${cursor.at}::timestamptz, ${cursor.id})`]),
    ...(filters.created_after === undefined
      ? []
      : [sql`${driver}.created_at >= ${filters.created_after}::timestamptz`]),
    ...(filters.created_before === undefined
      ? []
      : [sql`${driver}.created_at < ${filters.created_before}::timestamptz`]),
    ...(status === null ? [] : [sql`email_states.status = ${status}`]),
    ...(events.length === 0 ? [] : [some(events.map(event => HAS_EVENT[event]))]),
    ...without.map(event => sql`not ${HAS_EVENT[event]}`),
    ...filterConditions(account, filters)
  ]
  return sql`select ${COLUMNS} from emails join email_states on email_states.id = emails.id
    where ${all(conditions)} order by ${driver}.created_at desc, ${driver}.id desc limit ${limit + 1}`
}

/** Conditions of which one must hold; at least one. */
function some (conditions: Sql[]): Sql {
  return sql`(${conditions.reduce((left, right) => sql`${left} or ${right}`)})`
}

function filterConditions (
  account: string,
  { to, from, domain, tag = [], metadata, template_id, q }: EmailFilters
): Sql[] {
  return [
    ...(from === undefined ? [] : [sql`lower(emails.from_address) = lower(${from})`]),
    ...(domain === undefined ? [] : [sql`emails.from_domain = ${domain.toLowerCase()}`]),
    ...(to === undefined
      ? []
      : [
        sql`emails.id in (select email from recipients where account = ${account} and lower(address) = lower(${to}))`
      ]),
    ...(template_id === undefined ? [] : [sql`emails.template = ${template_id}`]),
    ...(tag.length === 0 ? [] : [sql`emails.tags <> '{}' and emails.tags && ${[...tag]}::text[]`]),
    ...Object.entries(metadata ?? {}).map(([name, value]) => metadataCondition(name, value)),
    ...(q === undefined ? [] : [sql`emails.search ilike ${`%${q.replaceAll(/[\\%_]/g, '\\$&')}%`}`])
  ]
}

/** Literals, not parameters: only so can the partial indexes serve. */
const HAS_EVENT: Record<EventType, Sql> = {
  'email.delivered': sql`email_states.events @> '{email.delivered}'`,
  'email.bounced': sql`email_states.events @> '{email.bounced}'`,
  'email.opened': sql`email_states.events @> '{email.opened}'`,
  'email.clicked': sql`email_states.events @> '{email.clicked}'`,
  'email.complained': sql`email_states.events @> '{email.complained}'`,
  'email.unsubscribed': sql`email_states.events @> '{email.unsubscribed}'`
}

function eventType (event: string): EventType {
  return EVENT_TYPES.find(type => type === event || type === `email.${event}`)!
}

/** A query string knows only text, metadata also numbers, booleans and null: whatever the text may mean is looked for.
 */
function metadataCondition (name: string, value: string): Sql {
  const meanings: unknown[] = [value]
  if (/^(true|false|null|-?(0|[1-9]\d{0,15})(\.\d{1,15})?)$/.test(value)) meanings.push(JSON.parse(value))
  const found = meanings.map(meaning => sql`emails.metadata @> ${json({ [name]: meaning })}::jsonb`)
  return sql`emails.metadata <> '{}' and ${some(found)}`
}

/** One email with its recipients and everything that happened; null when the account has none of that id. */
export function getEmail ({ account, id }: { account: string, id: string }): Query<EmailRecord | null> {
  return {
    sql: sql`select ${COLUMNS}, emails.headers, emails.attachments, emails.track_opens, emails.track_clicks,
        emails.unsubscribe,
      (select jsonb_agg(to_jsonb(recipients) order by n) from recipients where email = emails.id) as recipients,
      (select jsonb_agg(to_jsonb(facts) order by seq) from (select * from timeline where email = emails.id
        order by seq limit ${TIMELINE_MAX}) facts) as timeline
      from emails join email_states on email_states.id = emails.id
      where emails.account = ${account} and emails.id = ${id}`,
    read: ([row]) => (row === undefined ? null : recordOf(row as unknown as DetailedRow))
  }
}

/** Where the request of an email lies in REQUESTS; null when the account has none of that id. */
export function findRequest ({ account, id }: { account: string, id: string }): Query<number | null> {
  return {
    sql: sql`select request_seq from emails where account = ${account} and id = ${id}`,
    read: ([row]) => (row?.request_seq as number | undefined) ?? null
  }
}

/** Which of these emails there are. */
export function knownEmails (ids: string[]): Query<Set<string>> {
  return {
    sql: sql`select id from emails where id = any(${ids}::text[])`,
    read: rows => new Set(rows.map(row => row.id as string))
  }
}

/** Columns that only a single email shows, and those that none does. */
type Detailed = 'headers' | 'attachments' | 'track_opens' | 'track_clicks' | 'unsubscribe'
type Hidden = 'account' | 'from_domain' | 'request_seq' | 'search' | 'erased'

export interface EmailRow extends Omit<EmailChange, Detailed | Hidden | 'created_at'> {
  status: EmailStatus
  scheduled_at: Date | null
  created_at: Date
}

/** Rows inside jsonb: times are text there, in PostgreSQL's own form. */
export interface RecipientRow
  extends Omit<Static<typeof RecipientRecord>, 'last_response'>, Static<typeof LastResponse>
{
  reply_seq: number
}

interface FactRow {
  id: string
  type: string
  time: string
  n: number
  data: Record<string, unknown>
}

export interface DetailedRow extends EmailRow, Pick<EmailChange, Detailed> {
  recipients: RecipientRow[]
  timeline: FactRow[] | null
}

export function summaryOf (row: EmailRow): EmailSummary {
  return {
    id: row.id,
    email_id: row.id,
    from: mailboxText({ address: row.from_address, name: row.from_name }),
    to: row.to_list,
    cc: row.cc_list,
    bcc: row.bcc_list,
    reply_to: row.reply_to_list,
    subject: row.subject,
    status: row.status,
    tags: row.tags,
    metadata: row.metadata,
    template: row.template === null ? null : { id: row.template, version: row.template_version! },
    scheduled_at: row.scheduled_at?.toISOString() ?? null,
    test: row.test,
    key_id: row.key,
    created_at: row.created_at.toISOString()
  }
}

export function recordOf (row: DetailedRow): EmailRecord {
  const summary = summaryOf(row)
  const asked = { type: 'email.requested', time: summary.created_at }
  const { headers, attachments, unsubscribe, track_opens: opens, track_clicks: clicks } = row
  const rest = { headers, attachments, track: { opens, clicks }, unsubscribe }
  return {
    ...summary,
    ...rest,
    recipients: row.recipients.map(recipientOf),
    timeline: [asked, ...(row.timeline ?? []).map(entryOf)]
  }
}

function recipientOf (row: RecipientRow): Static<typeof RecipientRecord> {
  const { smtp_code, enhanced_code, response, host, error } = row
  return {
    n: row.n,
    address: row.address,
    name: row.name,
    kind: row.kind,
    status: row.status,
    attempts: row.attempts,
    attempted_at: time(row.attempted_at),
    delivered_at: time(row.delivered_at),
    deferred_at: time(row.deferred_at),
    bounced_at: time(row.bounced_at),
    failed_at: time(row.failed_at),
    in_doubt_at: time(row.in_doubt_at),
    suppressed_at: time(row.suppressed_at),
    canceled_at: time(row.canceled_at),
    opened_at: time(row.opened_at),
    clicked_at: time(row.clicked_at),
    complained_at: time(row.complained_at),
    unsubscribed_at: time(row.unsubscribed_at),
    next_attempt_at: time(row.next_attempt_at),
    last_response: row.reply_seq === 0 ? null : { smtp_code, enhanced_code, response, host, error }
  }
}

/** Data of a fact under the names the API uses; what a client has no use for (worker, lease, digest) stays out. */
function entryOf ({ id, type, time: at, n, data }: FactRow): TimelineEntry {
  const {
    to,
    sequence,
    attempt,
    messageId,
    reply,
    error,
    host,
    reason,
    detail,
    cause,
    held,
    scheduledAt,
    nextAttemptAt
  } = data
  const { status, report, url, machine, feedback, by } = data
  const untried = data.untried as { code: number | null, enhanced: string | null } | undefined
  // What a bounce mail told was no transaction of ours, though the fact has room for one.
  const { stage, address, via, tls, plain, ms } = report == null ? data : {}
  const answer = reply as { code: number, enhanced: string | null, text: string } | null | undefined
  const { code = null, enhanced = null } = answer ?? untried ?? {}
  const said = answer === undefined
    ? {}
    : { smtp_code: code, enhanced_code: enhanced, response: answer?.text ?? null }
  const entry = {
    id,
    type,
    time: time(at)!,
    n,
    recipient: to,
    sequence,
    attempt: untried === undefined ? attempt : undefined,
    untried: untried === undefined ? undefined : true,
    message_id: messageId,
    stage,
    ...said,
    error,
    host,
    address,
    via,
    tls,
    plain,
    ms,
    class: data.class,
    reason,
    detail,
    cause,
    held,
    status,
    report,
    url,
    machine,
    feedback,
    by,
    scheduled_at: scheduledAt,
    next_attempt_at: nextAttemptAt
  }
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined)) as TimelineEntry
}

function time (text: string | null): string | null {
  return text === null ? null : new Date(text).toISOString()
}
