import type { EventType } from '#streams/webhook/facts.ts'
import { sql, type Query } from '../define.ts'
import type { PageCursor } from '../cursor.ts'
import { COLUMNS, summaryOf, type EmailRow } from './queries.ts'
import type { EmailSummary } from './records.ts'

/** An email in a list, and the events that some recipient has had. */
export type EmailWithEvents = EmailSummary & { events: EventType[] }

/** Where an email stands in the list of its account; null when the account has none of that id. */
export function placeOfEmail ({ account, id }: { account: string, id: string }): Query<PageCursor | null> {
  return {
    sql: sql`select id, created_at from emails where account = ${account} and id = ${id}`,
    read: ([row]) => (row === undefined ? null : { id, at: (row.created_at as Date).toISOString() })
  }
}

export interface NeighbourOptions {
  account: string
  /** Rows a page, from 1. */
  limit: number
  /** The older or the newer ones next to this place; null = the newest of all. */
  beside: { place: PageCursor, which: 'older' | 'newer' } | null
}

/** The emails beside one of an account's, newest first, and whether there are more on that side. */
export function emailsBeside (
  { account, limit, beside }: NeighbourOptions
): Query<{ emails: EmailWithEvents[], hasMore: boolean }> {
  const isNewer = beside?.which === 'newer'
  const place = sql`(emails.created_at, emails.id)`
  const given = beside === null ? sql`` : sql`(${beside.place.at}::timestamptz, ${beside.place.id})`
  const condition = beside === null ? sql`true` : isNewer ? sql`${place} > ${given}` : sql`${place} < ${given}`
  const order = isNewer ? sql`emails.created_at, emails.id` : sql`emails.created_at desc, emails.id desc`
  return {
    sql: sql`select ${COLUMNS}, email_states.events from emails join email_states on email_states.id = emails.id
      where emails.account = ${account} and email_states.account = ${account} and ${condition}
      order by ${order} limit ${limit + 1}`,
    read: rows => {
      const page = (rows as unknown as Array<EmailRow & { events: EventType[] }>).slice(0, limit)
      const emails = page.map(row => ({ ...summaryOf(row), events: row.events }))
      return { emails: isNewer ? emails.reverse() : emails, hasMore: rows.length > limit }
    }
  }
}
