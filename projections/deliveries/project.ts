import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { DeliveryAttempted, DeliveryFact, Member } from '#streams/delivery/facts.ts'
import { WEBHOOK_PARTITIONS } from '#streams/subjects.ts'
import { sql, type Projection, type Sql } from '../define.ts'
import { laws, table } from '../table.ts'

/** The state of each delivery, and every request made for it. Reads all facts of WEBHOOKS and skips the others: one
 *  filter keeps one order. */
export const deliveries: Projection = {
  name: 'deliveries',
  version: 5,
  streams: [{
    stream: 'WEBHOOKS',
    filter: 'webhook.>',
    partition: partition => (partition < WEBHOOK_PARTITIONS ? `webhook.${partition}.>` : null)
  }],
  // The cleanup prunes these rows by sequence: this says only which rows can be compared. A delivery goes on for a
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

type DeliveryStep = Exclude<DeliveryFact, { type: `${string}.advanced` | `batch.${string}` }>

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

const { max, min, by, byLeast, within } = laws<DeliveryChange>()

/** A delivery that has arrived stays delivered: when two processes had it at the same time, the failure of the other
 *  counts no more. The last request of a delivered row is the one that arrived. */
const arrived = {
  of: ({ state }: DeliveryChange) => state === 'delivered',
  sql: (row: string) => `${row}.state = 'delivered'`
}

/** Columns of the first fact, of the run's last fact, and of its last request. */
const beginning = byLeast('first_seq')
const state = by('replay', arrived, 'state_seq')
const attempt = by('replay', arrived, 'attempt_seq')

export const deliveryTable = table<DeliveryChange>('deliveries', ['id'], {
  id: null,
  account: null,
  webhook: null,
  event: null,
  event_type: null,
  event_seq: null,
  email: null,
  events: null,
  event_types: null,
  event_seqs: null,
  emails: null,
  first_seq: min,
  requested_at: beginning,
  replay: max,
  batch: state,
  test: state,
  state,
  state_seq: state,
  state_at: state,
  next_attempt_at: state,
  ended_at: state,
  reason: state,
  attempts: within('replay', max),
  first_attempt_at: within('replay', min),
  attempt_seq: attempt,
  http_status: attempt,
  error: attempt,
  error_kind: attempt,
  duration_ms: attempt
})

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const steps = facts.filter(isStep)
  return [
    ...deliveryTable.upsert(steps.map(changeOf)),
    ...attemptTable.upsert(steps.filter(isRequest).map(attemptRow))
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
    case 'delivery.moved':
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
    // Of most it is the first fact.
    ...(attempt === 1 ? { requested_at: firstAttemptAt } : {}),
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

function attemptRow ({ fact: { time, data }, seq }: Recorded<DeliveryAttempted>) {
  return {
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
  }
}

const attemptTable = table<ReturnType<typeof attemptRow>>('delivery_attempts', ['seq'], {
  seq: null,
  delivery: null,
  replay: null,
  attempt: null,
  at: null,
  duration_ms: null,
  http_status: null,
  response: null,
  error: null,
  error_kind: null,
  url: null,
  headers: null
}, { areNew: true })
