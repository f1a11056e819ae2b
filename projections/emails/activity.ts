import type { AnyFact } from '#streams/catalog.ts'
import { sql, type Query } from '../define.ts'
import { asOf, firstSchedule, type AskedRow, type Stored } from './as-of.ts'
import type { EmailRecord } from './records.ts'
import { EmailStatus } from './status.ts'

/** Facts of one email that are read, from its first one on: what comes after them is left out. */
const FACTS_MAX = 500

/** An email with what is kept of its past. */
export interface PastEmail {
  id: string
  createdMs: number
  /** Ascending; `atMs` = when it happened, Unix ms. */
  moments: Array<{ atMs: number, type: string, n: number, machine: boolean }>
  /** As it was at that time (Unix ms), by when its facts happened; it must have been there. */
  at(ms: number): EmailRecord
}

interface KeptFact {
  seq: number
  n: number
  id: string
  type: string
  time: string
  data: Record<string, unknown>
}

/** The past of these emails of an account, by id. For lists: an email by itself is asked of the log, which knows when
 *  each fact was stored; here the time at which it happened counts. */
export function pastOfEmails ({ account, ids }: { account: string, ids: string[] }): Query<Map<string, PastEmail>> {
  return {
    sql: sql`select emails.*,
        (select jsonb_agg(to_jsonb(recipients) order by n) from recipients where email = emails.id) as recipients,
        (select jsonb_agg(to_jsonb(facts) order by seq) from (select seq, n, id, type, time, data from timeline
          where email = emails.id order by seq limit ${FACTS_MAX}) facts) as facts
      from emails where account = ${account} and id = any(${ids}::text[])`,
    read: rows =>
      new Map((rows as unknown as Array<AskedRow & { facts: KeptFact[] | null }>).map(row => [row.id, pastOf(row)]))
  }
}

function pastOf (row: AskedRow & { facts: KeptFact[] | null }): PastEmail {
  const facts = row.facts ?? []
  // What an erasure took away is changed in its rows already.
  const stored = facts.filter(({ type }) => type !== 'email.erased').map(fact => storedOf(row, fact))
  const moments = facts.map(({ time, type, n, data }) => ({
    atMs: Date.parse(time),
    type,
    n,
    machine: data.machine === true
  }))
  // Where every recipient was moved, only the log knows the first time; that it was scheduled is known here as well.
  const known = firstSchedule(row)
  const scheduledAt = known === undefined ? row.recipients[0]!.scheduled_at : known
  return {
    id: row.id,
    createdMs: row.created_at.getTime(),
    moments: moments.toSorted((a, b) => a.atMs - b.atMs),
    at: ms => asOf(row, scheduledAt, stored, ms)
  }
}

function storedOf ({ id: email, account }: AskedRow, { seq, n, id, type, time, data }: KeptFact): Stored {
  const fact = { id, type, account, time: new Date(time).toISOString(), data: { ...data, email, n } }
  return { fact: fact as unknown as AnyFact, seq, subject: '', storedMs: Date.parse(time) }
}

const STATUSES = EmailStatus.anyOf.map(({ const: status }) => status)

/** Emails of an account in each status, counted up to `max`: it reads no more rows than it counts. */
export function statusCounts (
  { account, max }: { account: string, max: number }
): Query<Map<EmailStatus, number>> {
  return {
    sql: sql`select states.name, found.count from unnest(${STATUSES}::text[]) as states (name)
      cross join lateral (select count(*)::int as count from (
        select 1 from email_states where account = ${account} and status = states.name limit ${max}) counted) found`,
    read: rows => new Map(rows.map(({ name, count }) => [name as EmailStatus, count as number]))
  }
}
