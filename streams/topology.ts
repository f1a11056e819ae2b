const second = 1_000_000_000
const day = 86_400 * second

/** The object store for content beyond 256 kB; one object an email, named by its id. */
export const CONTENT_BUCKET = 'CONTENT'

/** A JetStream stream as its API takes it: durations in nanoseconds, -1 for no limit. */
export interface StreamPlan {
  name: string
  subjects: string[]
  storage: 'file' | 'memory'
  discard: 'old' | 'new'
  max_age: number
  max_msgs?: number
  max_msgs_per_subject: number
  duplicate_window: number
  allow_direct: true
  deny_delete?: boolean
  deny_purge?: boolean
  allow_atomic?: boolean
  allow_msg_ttl?: boolean
  allow_msg_schedules?: boolean
  allow_msg_counter?: boolean
  allow_rollup_hdrs?: boolean
  persist_mode?: 'async'
}

/** A durable pull consumer as the API takes it. Facts alone are the truth: its acks are a convenience that a crash may
 *  forget. */
export interface ConsumerPlan {
  stream: string
  durable_name: string
  filter_subject: string
  ack_policy: 'explicit'
  /** Nanoseconds until an unacknowledged message comes again. */
  ack_wait: number
  max_ack_pending: number
  max_deliver: -1
}

/** What the operator may choose. */
export interface Retention {
  factsMs: number
  contentMs: number
}

const stream = (name: string, subjects: string[], rest: Partial<StreamPlan>): StreamPlan => ({
  name,
  subjects,
  storage: 'file',
  discard: 'old',
  max_age: 0,
  max_msgs_per_subject: -1,
  duplicate_window: 120 * second,
  allow_direct: true,
  ...rest
})

/** How long an idempotency key is kept, in ms. Source: contract, "Idempotency". */
export const CLAIM_MS = 7 * 86_400_000

/** Every stream, with why it lives as it does: README.md. */
export function streamPlans (retention: Retention): StreamPlan[] {
  const contentNs = retention.contentMs * 1e6
  const scheduled = {
    allow_msg_schedules: true,
    allow_msg_ttl: true,
    allow_rollup_hdrs: true,
    persist_mode: 'async'
  } as const
  return [
    // Where content is kept for less than claims are, each request carries its own TTL.
    stream('REQUESTS', ['request.>', 'claim.>'], {
      discard: 'new',
      max_age: Math.max(contentNs, CLAIM_MS * 1e6),
      allow_atomic: true,
      allow_msg_ttl: true,
      deny_purge: true
    }),
    // A sender must see the facts about what it can still send: facts outlive content.
    stream('EMAILS', ['email.>'], {
      discard: 'new',
      max_age: Math.max(retention.factsMs * 1e6, contentNs + 10 * day),
      allow_atomic: true,
      deny_purge: true
    }),
    // Mail that came in holds other people's words, like content.
    stream('INBOUND', ['inbound.>'], { discard: 'new', max_age: contentNs, allow_atomic: true, deny_purge: true }),
    stream(
      'CONTROL',
      ['control.>', 'suppression.>', 'template.>', 'erasure.>', 'usage.>', 'alert.>', 'backup.>', 'operation.>'],
      { discard: 'new', allow_atomic: true, deny_purge: true }
    ),
    // No fsync for schedules: every one is derived from a fact, and the reconciler makes again what a power cut took.
    stream('SCHEDULE', ['schedule.>', 'due.>'], { max_age: contentNs + 10 * day, ...scheduled }),
    stream('WEBHOOKS', ['webhook.>'], { discard: 'new', max_age: 30 * day, allow_atomic: true, deny_purge: true }),
    // The object store's stream, as the client would lay it out: chunks under C, descriptions under M.
    stream(`OBJ_${CONTENT_BUCKET}`, [`$O.${CONTENT_BUCKET}.C.>`, `$O.${CONTENT_BUCKET}.M.>`], {
      discard: 'new',
      max_age: contentNs,
      allow_rollup_hdrs: true
    }),
    stream('LIMITS', ['limit.>'], {
      storage: 'memory',
      max_age: 180 * second,
      max_msgs_per_subject: 1,
      allow_msg_counter: true
    }),
    stream('QUOTAS', ['quota.>'], { max_age: 3 * day, max_msgs_per_subject: 1, allow_msg_counter: true }),
    // Policies end after a year at most.
    stream('POLICIES', ['policy.>'], { max_age: 366 * day, max_msgs: 100_000, max_msgs_per_subject: 1 }),
    stream('USES', ['use.>'], { max_age: 400 * day, max_msgs_per_subject: 1 }),
    stream('HEARTBEATS', ['heartbeat.>'], { storage: 'memory', max_age: 180 * second, max_msgs_per_subject: 1 })
  ]
}

const consumer = (streamName: string, name: string, filter: string): ConsumerPlan => ({
  stream: streamName,
  durable_name: name,
  filter_subject: filter,
  ack_policy: 'explicit',
  ack_wait: 30 * second,
  max_ack_pending: 4000,
  max_deliver: -1
})

/** Every durable consumer. Followers (projections, fan-out, dispatch, directory) have none: their cursor is theirs. */
export const consumerPlans = {
  sender: consumer('REQUESTS', 'sender', 'request.>'),
  senderDue: consumer('SCHEDULE', 'sender-due', 'due.send.>'),
  inbound: consumer('INBOUND', 'inbound', 'inbound.>'),
  reactions: consumer('EMAILS', 'reactions', 'email.>'),
  batchMembers: consumer('WEBHOOKS', 'batch-members', 'webhook.*.member.>'),
  batchesDue: consumer('SCHEDULE', 'batches-due', 'due.batch.>'),
  replays: consumer('WEBHOOKS', 'replays', 'webhook.*.replay.>'),
  replaysDue: consumer('SCHEDULE', 'replays-due', 'due.replay.>')
}
