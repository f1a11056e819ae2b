import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { pastOf } from '#streams/email/erase.ts'
import type { EmailErased, EmailRequested } from '#streams/email/facts.ts'
import { json, sql, type Query } from '../define.ts'
import type { RequestedEmail } from './requested.ts'
import { emailRow, erasureRow, isErasure, isOutcome, timelineRow, type EmailChange } from './project.ts'
import { recordOf, TIMELINE_MAX, type DetailedRow, type RecipientRow } from './queries.ts'
import { changeOf, erasureOf, recipientTable, unseen, type RecipientRowChange } from './recipient.ts'
import type { EmailRecord } from './records.ts'
import { rolledUp } from './status.ts'

/** A fact of EMAILS, and when it was stored there (Unix ms). */
export type Stored = Recorded<AnyFact> & { storedMs: number }

/** What was asked, as the view has it. Nothing in it changes, but for what is erased; and `scheduled_at`, of which
 *  `scheduled_seq` 0 says that it did not. */
export interface AskedRow extends Omit<EmailChange, 'created_at'> {
  created_at: Date
  recipients: Array<
    EmailRequested['data']['recipients'][number] & { scheduled_at: string | null, scheduled_seq: number }
  >
}

/** What was asked of one email; null when the account has none of that id. Without an account: whosever it is. */
export function findAsked ({ account, id }: { account?: string, id: string }): Query<AskedRow | null> {
  const own = account === undefined ? sql`true` : sql`emails.account = ${account}`
  return {
    sql: sql`select emails.*, (select jsonb_agg(to_jsonb(recipients) order by n) from recipients
        where email = emails.id) as recipients
      from emails where ${own} and emails.id = ${id}`,
    read: ([row]) => (row as unknown as AskedRow | undefined) ?? null
  }
}

/** The same by the request or its record, for when the view cannot be asked. */
export function askedRow (asked: RequestedEmail): AskedRow {
  const { at, recipients, scheduledAt } = asked
  return {
    ...asStored(emailRow(asked)),
    created_at: new Date(at),
    recipients: asStored(recipients.map(recipient => ({ ...recipient, scheduled_at: scheduledAt, scheduled_seq: 0 })))
  }
}

/** When it was to be sent before anybody moved it; undefined when every recipient was moved since: then only the
 *  request knows. */
export function firstSchedule ({ recipients }: AskedRow): string | null | undefined {
  const unmoved = recipients.find(({ scheduled_seq: seq }) => seq === 0)
  return unmoved?.scheduled_at == null ? unmoved?.scheduled_at : new Date(unmoved.scheduled_at).toISOString()
}

/** The record of an email as it was known at `atMs` (Unix), by the facts that were stored then or before. `facts`: all
 *  that lie under its subjects. */
export function asOf (
  asked: AskedRow,
  scheduledAt: string | null,
  facts: readonly Stored[],
  atMs: number
): EmailRecord {
  const known = knownAt(facts, atMs)
  const recipients = recipientTable.fold([...unseen(beginningOf(asked, scheduledAt)), ...known.flatMap(changesOf)])
  const latest = recipients.reduce((one, other) => (other.scheduled_seq > one.scheduled_seq ? other : one))
  return recordOf({
    ...asked,
    status: rolledUp(recipients.map(({ status }) => status)),
    scheduled_at: latest.scheduled_at == null ? null : new Date(latest.scheduled_at),
    recipients: asStored(recipients.map(withColumns)),
    timeline: asStored(known.flatMap(rowsOf).slice(0, TIMELINE_MAX)) as unknown as DetailedRow['timeline']
  })
}

/** What was known of the recipients at `atMs`, in the order of the log. What an erasure left of the facts in whose
 *  place it stands is known since they were stored. */
export function knownAt (facts: readonly Stored[], atMs: number): Stored[] {
  const all = facts.flatMap(
    stored => (isErasure(stored) ? [...pastIn(stored.fact), stored] : isOutcome(stored) ? [stored] : [])
  )
  return all.filter(({ storedMs }) => storedMs <= atMs).sort((a, b) => a.seq - b.seq)
}

function pastIn (erased: EmailErased): Stored[] {
  return pastOf(erased).map(({ storedAt, ...recorded }) => ({ ...recorded, storedMs: Date.parse(storedAt) }))
}

function changesOf (recorded: Recorded<AnyFact>): RecipientRowChange[] {
  return isErasure(recorded) ? [erasureOf(recorded)] : isOutcome(recorded) ? [changeOf(recorded)] : []
}

function rowsOf (recorded: Recorded<AnyFact>): object[] {
  return isErasure(recorded) ? [erasureRow(recorded)] : isOutcome(recorded) ? [timelineRow(recorded)] : []
}

/** As much of what was asked as a recipient's beginnings need. */
function beginningOf (
  { id, account, recipients, request_seq: request }: AskedRow,
  scheduledAt: string | null
): RequestedEmail {
  const beginning: Partial<RequestedEmail> = { email: id, account, recipients, scheduledAt, request }
  return beginning as RequestedEmail
}

/** What a table would add: a column that nobody has set is null. */
const UNSET = Object.fromEntries(recipientTable.columns.map(column => [column, null]))

function withColumns (change: RecipientRowChange): RecipientRow {
  return { ...UNSET, ...JSON.parse(JSON.stringify(change)) }
}

/** What PostgreSQL would give back: it keeps not all that a string may hold. */
function asStored<Row> (row: Row): Row {
  return JSON.parse(json(row)) as Row
}
