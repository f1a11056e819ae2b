import { sql, type Query } from '../define.ts'
import type { EmailStatus } from './status.ts'

/** Emails that something is still to happen to. */
export const WAITING = ['queued', 'sending', 'deferred', 'scheduled', 'in_doubt'] as const satisfies EmailStatus[]
export type WaitingStatus = typeof WAITING[number]

export interface Queue {
  /** Emails of an account in each of the states, counted up to `max`. */
  counts: Record<WaitingStatus, number>
  /** When the oldest that is queued was accepted; null when none is, or more are than were counted. */
  oldestAt: Date | null
}

/** How much waits. It reads no more rows than it counts, however many emails there are. */
export function queueOf ({ account, max }: { account: string, max: number }): Query<Queue> {
  return {
    sql: sql`select states.name, found.count, found.oldest from unnest(${WAITING}::text[]) as states (name)
        cross join lateral (
        select count(*) as count, min(created_at) as oldest from (
          select created_at from email_states where account = ${account} and status = states.name
            order by created_at desc, id desc limit ${max}) counted) found`,
    read: rows => {
      const of = (name: WaitingStatus) => rows.find(row => row.name === name)!
      const queued = of('queued')
      return {
        counts: Object.fromEntries(WAITING.map(name => [name, Number(of(name).count)])) as Record<
          WaitingStatus,
          number
        >,
        oldestAt: Number(queued.count) < max ? queued.oldest as Date | null : null
      }
    }
  }
}

/** A recipient that something should have happened to by now. */
export interface OverdueRecipient {
  account: string
  email: string
  n: number
  /** Where the request lies in REQUESTS. */
  requestSeq: number
  /** When somebody should have looked, or should look; Unix ms. */
  wakeMs: number
}

/** Recipients whose next attempt, or whose claim's lease, was over more than `graceS` seconds ago (below 0: is over
 *  within so many) and of whom nothing was heard since: for the reconciler that makes lost schedules again. The longest
 *  overdue first; `after` = the last of the page before. */
export function overdueRecipients (
  { limit, graceS, after }: { limit: number, graceS: number, after: OverdueRecipient | null }
): Query<OverdueRecipient[]> {
  const beyond = after === null
    ? sql``
    : sql`and (wake_at, email, n) > (${
      new Date(after.wakeMs).toISOString()
    }::timestamptz, ${after.email}, ${after.n}::smallint)`
  return {
    sql: sql`select account, email, n, request_seq, wake_at from recipients
      where wake_at < now() - make_interval(secs => ${graceS}) ${beyond} order by wake_at, email, n limit ${limit}`,
    read: rows =>
      (rows as unknown as Array<
        Omit<OverdueRecipient, 'requestSeq' | 'wakeMs'> & { request_seq: number, wake_at: Date }
      >)
        .map(({ account, email, n, request_seq, wake_at }) => ({
          account,
          email,
          n,
          requestSeq: request_seq,
          wakeMs: wake_at.getTime()
        }))
  }
}

/** An email whose mail is on its way, and those of its recipients of whom there is no fact yet. */
export interface UnheardEmail {
  account: string
  email: string
  requestSeq: number
  createdMs: number
  ns: number[]
}

/** Emails of all accounts with a recipient that is queued or being sent to, the oldest first, and which of the
 *  recipients nothing was ever heard of: such a one has no time at which somebody should look. `after` = the last of
 *  the page before. */
export function unheardEmails ({ limit, after }: { limit: number, after: UnheardEmail | null }): Query<UnheardEmail[]> {
  // The index on account, status and time is walked in pieces, an account and a status each: an index of its own would
  // cost every change of a recipient.
  const beyond = after === null
    ? sql``
    : sql`and (created_at, id) > (${new Date(after.createdMs).toISOString()}::timestamptz, ${after.email})`
  return {
    sql: sql`with recursive accounts (account) as (
        (select account from email_states order by account limit 1)
        union all
        select next.account from accounts cross join lateral (select account from email_states
          where account > accounts.account order by account limit 1) next
      ), page as (
        select open.* from accounts cross join (values ('queued'), ('sending')) as states (status) cross join lateral (
          select account, id, created_at from email_states where account = accounts.account
            and status = states.status ${beyond}
          order by created_at, id limit ${limit}) open
        order by created_at, id limit ${limit}
      )
      select page.account, page.id as email, page.created_at, emails.request_seq,
        array(select n from recipients where email = page.id and status = 'queued' and status_seq <= 0
          and wake_at is null order by n) as ns
      from page join emails on emails.id = page.id order by page.created_at, page.id`,
    read: rows =>
      (rows as unknown as Array<
        Pick<UnheardEmail, 'account' | 'email' | 'ns'> & { request_seq: number, created_at: Date }
      >)
        .map(({ account, email, ns, request_seq, created_at }) => ({
          account,
          email,
          ns,
          requestSeq: request_seq,
          createdMs: created_at.getTime()
        }))
  }
}
