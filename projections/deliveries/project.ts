import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { DeliveryFact } from '#streams/delivery/facts.ts'
import { json, sql, type Projection, type Sql } from '../define.ts'
import { fold, pick } from '../fold.ts'

/** Where each webhook event stands on its way to each endpoint. Reads the fan-out's cursors too and skips them: one filter keeps one order. */
export const deliveries: Projection = {
  name: 'deliveries',
  version: 1,
  streams: [{ stream: 'WEBHOOKS', filter: 'webhook.>' }],
  project
}

type Step = Exclude<DeliveryFact, { type: 'fanout.advanced' }>

/** What one fact, or several of one delivery, say about its row. */
interface Change {
  id: string
  account: string
  webhook: string
  state: 'pending' | 'retrying' | 'delivered' | 'failed'
  state_seq: number
  attempts: number
  attempt_seq: number
  event: string
  event_type: string
  event_seq: number
  email: string
  created_at?: string
  first_attempt_at?: string | null
  next_attempt_at?: string | null
  ended_at?: string | null
  reason?: string
  http_status?: number | null
  error?: string | null
  duration_ms?: number
}

/** The columns that follow the fact with the highest sequence together, and those of the last HTTP request. */
const WITH_STATE = ['state_seq', 'state', 'next_attempt_at', 'ended_at', 'reason'] as const
const WITH_ATTEMPT = ['attempt_seq', 'http_status', 'error', 'duration_ms'] as const

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const changes = fold(facts.filter(isStep).map(changeOf), change => change.id, merge)
  return changes.length === 0 ? [] : [upsert(changes)]
}

function isStep (recorded: Recorded<AnyFact>): recorded is Recorded<Step> {
  return recorded.fact.type.startsWith('delivery.')
}

function changeOf ({ fact, seq }: Recorded<Step>): Change {
  const { delivery, webhook, event, email } = fact.data
  const owed = { id: delivery, account: fact.account, webhook, event: event.id, event_type: event.type, event_seq: event.seq, email }
  const common = { ...owed, state_seq: seq, attempts: 0, attempt_seq: 0 }
  switch (fact.type) {
    case 'delivery.requested':
      return { ...common, state: 'pending', created_at: fact.time }
    case 'delivery.attempted': {
      const { result, attempt, firstAttemptAt, nextAttemptAt, status, error, durationMs } = fact.data
      return {
        ...common,
        state: result,
        attempts: attempt,
        first_attempt_at: firstAttemptAt,
        next_attempt_at: nextAttemptAt,
        ended_at: result === 'retrying' ? null : fact.time,
        attempt_seq: seq,
        http_status: status,
        error,
        duration_ms: durationMs
      }
    }
    case 'delivery.parked': {
      const { attempts, firstAttemptAt, nextAttemptAt } = fact.data
      return { ...common, state: 'retrying', attempts, first_attempt_at: firstAttemptAt, next_attempt_at: nextAttemptAt }
    }
    case 'delivery.failed':
      return { ...common, state: 'failed', attempts: fact.data.attempts, ended_at: fact.time, reason: fact.data.reason }
  }
}

/** The same law as the upsert's, so that it does not matter how facts were batched. */
function merge (a: Change, b: Change): Change {
  return {
    ...a,
    ...pick(b.state_seq > a.state_seq ? b : a, WITH_STATE),
    ...pick(b.attempt_seq > a.attempt_seq ? b : a, WITH_ATTEMPT),
    created_at: a.created_at ?? b.created_at,
    attempts: Math.max(a.attempts, b.attempts),
    first_attempt_at: a.first_attempt_at ?? b.first_attempt_at
  }
}

function upsert (changes: Change[]): Sql {
  return sql`
    insert into deliveries as old (id, account, webhook, event, event_type, event_seq, email, created_at,
      state, state_seq, attempts, first_attempt_at, next_attempt_at, ended_at, reason, attempt_seq, http_status, error, duration_ms)
    select id, account, webhook, event, event_type, event_seq, email, created_at,
      state, state_seq, attempts, first_attempt_at, next_attempt_at, ended_at, reason, attempt_seq, http_status, error, duration_ms
    from json_populate_recordset(null::deliveries, ${json(changes)}::json)
    order by id
    on conflict (id) do update set
      created_at = coalesce(old.created_at, excluded.created_at),
      attempts = greatest(old.attempts, excluded.attempts),
      first_attempt_at = coalesce(old.first_attempt_at, excluded.first_attempt_at),
      state = case when excluded.state_seq > old.state_seq then excluded.state else old.state end,
      next_attempt_at = case when excluded.state_seq > old.state_seq then excluded.next_attempt_at else old.next_attempt_at end,
      ended_at = case when excluded.state_seq > old.state_seq then excluded.ended_at else old.ended_at end,
      reason = case when excluded.state_seq > old.state_seq then excluded.reason else old.reason end,
      state_seq = greatest(old.state_seq, excluded.state_seq),
      http_status = case when excluded.attempt_seq > old.attempt_seq then excluded.http_status else old.http_status end,
      error = case when excluded.attempt_seq > old.attempt_seq then excluded.error else old.error end,
      duration_ms = case when excluded.attempt_seq > old.attempt_seq then excluded.duration_ms else old.duration_ms end,
      attempt_seq = greatest(old.attempt_seq, excluded.attempt_seq)`
}
