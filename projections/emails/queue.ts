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
