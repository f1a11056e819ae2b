import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { DeliveryAttempted, DeliveryFact, Member } from '#streams/delivery/facts.ts'
import { WEBHOOK_PARTITIONS } from '#streams/subjects.ts'
import { given, givenNew, sql, type Projection, type Sql } from '../define.ts'
import { fold, pick } from '../fold.ts'

/** The state of each delivery, and every request made for it. Reads all facts of WEBHOOKS and skips the others: one
 *  filter keeps one order. */
export const deliveries: Projection = {
  name: 'deliveries',
  version: 3,
  streams: [{
    stream: 'WEBHOOKS',
    filter: 'webhook.>',
    partition: partition => (partition < WEBHOOK_PARTITIONS ? `webhook.${partition}.>` : null)
  }],
  // The reconciler prunes these rows by sequence: this says only which rows can be compared. A delivery goes on for a
  // day after its first fact, and a replayed one keeps the first fact it had.
  aging: {
    stream: 'WEBHOOKS',
    rows: horizonMs => ({
      deliveries: sql`requested_at < to_timestamp(${horizonMs + DAY_MS}::float8 / 1000)`,
      delivery_attempts: sql`at < to_timestamp(${horizonMs}::float8 / 1000)`
    })
  },
  project
}

const DAY_MS = 86_400_000

type DeliveryStep = Exclude<DeliveryFact, { type: 'fanout.advanced' | `batch.${string}` }>

export const DELIVERY_STATES = ['pending', 'retrying', 'delivered', 'failed'] as const
export type DeliveryStateName = typeof DELIVERY_STATES[number]

/** The columns of a delivery's row, by one or several of its facts. */
interface DeliveryChange {
  id: string
  account: string
  webhook: string
  event?: string
  event_type?: string
  event_seq?: number
  email?: string
  events?: string[]
  event_types?: string[]
  event_seqs?: number[]
  emails?: string[]
  first_seq: number
  requested_at: string
  replay: string
  batch: boolean
  test: boolean
  state: DeliveryStateName
  state_seq: number
  state_at: string
  next_attempt_at?: string | null
  ended_at?: string | null
  reason?: string
  attempts: number
  first_attempt_at?: string
  attempt_seq: number
  http_status?: number | null
  error?: string | null
  error_kind?: string | null
  duration_ms?: number
}

/** Columns of the first fact, of the run's last fact, and of its last request. */
const WITH_FIRST = ['first_seq', 'requested_at'] as const
const WITH_STATE = ['state_seq', 'state', 'state_at', 'next_attempt_at', 'ended_at', 'reason', 'batch', 'test'] as const
const WITH_ATTEMPT = ['attempt_seq', 'http_status', 'error', 'error_kind', 'duration_ms'] as const

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const steps = facts.filter(isStep)
  const requests = steps.filter(isRequest)
  const changes = fold(steps.map(changeOf), change => change.id, merge)
  return [
    ...(changes.length === 0 ? [] : [upsert(changes)]),
    ...(requests.length === 0 ? [] : [insertAttempts(requests)])
  ]
}

function isStep (recorded: Recorded<AnyFact>): recorded is Recorded<DeliveryStep> {
  return recorded.fact.type.startsWith('delivery.')
}

function isRequest (recorded: Recorded<DeliveryStep>): recorded is Recorded<DeliveryAttempted> {
  return recorded.fact.type === 'delivery.attempted'
}

function changeOf ({ fact, seq }: Recorded<DeliveryStep>): DeliveryChange {
  const { delivery: id, webhook, replay, events, batch, test } = fact.data
  const common = {
    id,
    account: fact.account,
    webhook,
    ...contentsOf(events),
    first_seq: seq,
    requested_at: fact.time,
    replay: replay ?? '',
    batch,
    test: test !== undefined,
    state_seq: seq,
    state_at: fact.time,
    attempts: 0,
    attempt_seq: 0
  }
  switch (fact.type) {
    case 'delivery.requested':
      return { ...common, state: 'pending' }
    case 'delivery.attempted':
      return { ...common, ...attemptOf(fact, seq) }
    case 'delivery.deferred':
      return { ...common, state: 'retrying', attempts: fact.data.attempts, next_attempt_at: fact.data.nextAttemptAt }
    case 'delivery.failed':
      return { ...common, state: 'failed', attempts: fact.data.attempts, ended_at: fact.time, reason: fact.data.reason }
  }
}

function contentsOf (events: Member[]): Partial<DeliveryChange> {
  if (events.length === 1) {
    const { id, type, seq, email } = events[0]!
    return { event: id, event_type: type, event_seq: seq, email }
  }
  return {
    events: events.map(({ id }) => id),
    event_types: events.map(({ type }) => type),
    event_seqs: events.map(({ seq }) => seq),
    emails: events.map(({ email }) => email)
  }
}

function attemptOf ({ time, data }: DeliveryAttempted, seq: number) {
  const { result, attempt, firstAttemptAt, nextAttemptAt, status, error, errorKind, durationMs } = data
  return {
    state: result,
    next_attempt_at: nextAttemptAt,
    ended_at: result === 'retrying' ? null : time,
    attempts: attempt,
    first_attempt_at: firstAttemptAt,
    attempt_seq: seq,
    http_status: status,
    error,
    error_kind: errorKind,
    duration_ms: durationMs
  }
}

/** The same rule as the upsert's, so that it does not matter how facts were batched. A delivery that has arrived stays
 *  delivered: when two processes had it at the same time, the failure of the other counts no more. The last request of
 *  a delivered row is the one that arrived. */
function merge (a: DeliveryChange, b: DeliveryChange): DeliveryChange {
  const first = pick(b.first_seq < a.first_seq ? b : a, WITH_FIRST)
  if (a.replay !== b.replay) return { ...(b.replay > a.replay ? b : a), ...first }
  return {
    ...a,
    ...first,
    ...pick(leads(b, a, 'state_seq') ? b : a, WITH_STATE),
    ...pick(leads(b, a, 'attempt_seq') ? b : a, WITH_ATTEMPT),
    attempts: Math.max(a.attempts, b.attempts),
    first_attempt_at: earliest(a.first_attempt_at, b.first_attempt_at)
  }
}

function leads (b: DeliveryChange, a: DeliveryChange, by: 'state_seq' | 'attempt_seq'): boolean {
  const [arrived, had] = [b.state === 'delivered', a.state === 'delivered']
  return arrived === had ? b[by] > a[by] : arrived
}

function earliest (a: string | undefined, b: string | undefined): string | undefined {
  return a === undefined || (b !== undefined && b < a) ? b : a
}

const LATER_RUN = sql`excluded.replay > old.replay`
const SAME_RUN = sql`excluded.replay = old.replay`
const LATER_STATE = sql`(excluded.replay, excluded.state = 'delivered', excluded.state_seq)
  > (old.replay, old.state = 'delivered', old.state_seq)`
const LATER_ATTEMPT = sql`(excluded.replay, excluded.state = 'delivered', excluded.attempt_seq)
  > (old.replay, old.state = 'delivered', old.attempt_seq)`
const COLUMNS = sql`id, account, webhook, event, event_type, event_seq, email,
  events, event_types, event_seqs, emails, first_seq, requested_at,
  replay, batch, test, state, state_seq, state_at, next_attempt_at, ended_at, reason,
  attempts, first_attempt_at, attempt_seq, http_status, error, error_kind, duration_ms`

function upsert (changes: DeliveryChange[]): Sql {
  return sql`
    insert into deliveries as old (${COLUMNS})
    select ${COLUMNS} from ${given('deliveries', changes)}
    order by id
    on conflict (id) do update set
      requested_at = case when excluded.first_seq < old.first_seq then excluded.requested_at else old.requested_at end,
      first_seq = least(old.first_seq, excluded.first_seq),
      replay = greatest(old.replay, excluded.replay),
      state = case when ${LATER_STATE} then excluded.state else old.state end,
      state_at = case when ${LATER_STATE} then excluded.state_at else old.state_at end,
      next_attempt_at = case when ${LATER_STATE} then excluded.next_attempt_at else old.next_attempt_at end,
      ended_at = case when ${LATER_STATE} then excluded.ended_at else old.ended_at end,
      reason = case when ${LATER_STATE} then excluded.reason else old.reason end,
      batch = case when ${LATER_STATE} then excluded.batch else old.batch end,
      test = case when ${LATER_STATE} then excluded.test else old.test end,
      state_seq = case when ${LATER_STATE} then excluded.state_seq else old.state_seq end,
      http_status = case when ${LATER_ATTEMPT} then excluded.http_status else old.http_status end,
      error = case when ${LATER_ATTEMPT} then excluded.error else old.error end,
      error_kind = case when ${LATER_ATTEMPT} then excluded.error_kind else old.error_kind end,
      duration_ms = case when ${LATER_ATTEMPT} then excluded.duration_ms else old.duration_ms end,
      attempt_seq = case when ${LATER_ATTEMPT} then excluded.attempt_seq else old.attempt_seq end,
      attempts = case when ${LATER_RUN} then excluded.attempts
        when ${SAME_RUN} then greatest(old.attempts, excluded.attempts) else old.attempts end,
      first_attempt_at = case when ${LATER_RUN} then excluded.first_attempt_at
        when ${SAME_RUN} then least(old.first_attempt_at, excluded.first_attempt_at) else old.first_attempt_at end`
}

function insertAttempts (requests: Recorded<DeliveryAttempted>[]): Sql {
  const rows = requests.map(({ fact: { time, data }, seq }) => ({
    seq,
    delivery: data.delivery,
    replay: data.replay ?? '',
    attempt: data.attempt,
    at: time,
    duration_ms: data.durationMs,
    http_status: data.status,
    response: data.response,
    error: data.error,
    error_kind: data.errorKind,
    url: data.request.url,
    headers: data.request.headers
  }))
  return sql`insert into delivery_attempts select * from ${
    givenNew('delivery_attempts', rows)
  } order by seq on conflict do nothing`
}
