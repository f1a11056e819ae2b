import { sql, type Query } from '../define.ts'

/** Where in WEBHOOKS the last fact lies of each delivery whose next attempt was due more than `graceS` seconds ago (below 0: is due within so
 *  many) and of which nothing was heard since: for the sweep that makes lost schedules again. The longest overdue first. */
export function overdueDeliveryFacts (limit: number, graceS: number): Query<number[]> {
  return {
    sql: sql`select state_seq from deliveries where next_attempt_at < now() - make_interval(secs => ${graceS}) order by next_attempt_at limit ${limit}`,
    read: rows => rows.map(row => row.state_seq as number)
  }
}

export interface DeliveryState {
  delivery: string
  state: 'pending' | 'retrying' | 'delivered' | 'failed'
  attempts: number
  firstAttemptAt: Date | null
  nextAttemptAt: Date | null
}

/** Where deliveries stand, by id. One that is not there is not known to the view yet. */
export function deliveryStates (ids: string[]): Query<Map<string, DeliveryState>> {
  return {
    sql: sql`select id as delivery, state, attempts, first_attempt_at as "firstAttemptAt", next_attempt_at as "nextAttemptAt"
      from deliveries where id = any(${ids}::text[])`,
    read: rows => new Map((rows as unknown as DeliveryState[]).map(row => [row.delivery, row]))
  }
}
