import type { DeliveryRecord } from '#projections/deliveries/queries.ts'
import { misused, readArgs, usageError, type CliCommand } from './command.ts'
import { momentMs } from './since.ts'
import { print } from './table.ts'
import { linesOf } from './trace/branch.ts'
import { gather, type Traced } from './trace/gather.ts'
import { factsOf, treeOf } from './trace/tree.ts'

export const trace: CliCommand = {
  usage: 'jetpost trace <email id> [--as-of <time>] [--json]',
  details:
    `  Shows what was requested, and under each recipient its facts: sequence in the stream (#), time, and how long
  after the request; under each fact the webhook deliveries of its event, with every request. Facts come from
  NATS; without PostgreSQL only the deliveries are missing.
  --as-of  as it was known then: a time like 2027-01-31T12:00:00Z, or how long ago: 1h. Deliveries are
           shown by their own times`,
  async run (args) {
    const { values: { json, 'as-of': asOf }, positionals: [id, ...more] } = readArgs(args, {
      'as-of': { type: 'string' }
    })
    if (id === undefined || more.length > 0) throw misused(trace)
    const atMs = asOf === undefined ? Infinity : momentMs('as-of', asOf)
    if (asOf !== undefined && atMs > Date.now()) throw usageError('--as-of must be in the past.')
    const traced = await gather(id, atMs)
    if (json) print([answerOf(traced)], true)
    else console.log(linesOf(treeOf(traced)).join('\n'))
  }
}

/** As the API answers, but each recipient with its facts instead of one timeline. */
function answerOf (traced: Traced) {
  const { timeline: _timeline, recipients, ...record } = traced.record
  return {
    ...record,
    recipients: recipients.map(recipient => ({
      ...recipient,
      facts: factsOf(traced, recipient.n).map(({ deliveries, ...fact }) => ({
        ...fact,
        deliveries: deliveries?.map(delivery => deliveryAnswer(delivery, traced)) ?? null
      }))
    })),
    trouble: traced.trouble
  }
}

function deliveryAnswer (delivery: DeliveryRecord, { urlOf }: Traced) {
  const { id, webhook, batch, replay, state, reason, requestedAt, nextAttemptAt, endedAt, tries } = delivery
  return {
    id,
    webhook,
    url: urlOf(delivery),
    state,
    reason,
    batch,
    replay,
    requested_at: requestedAt,
    next_attempt_at: nextAttemptAt,
    ended_at: endedAt,
    attempts: tries.map(({ at, attempt, replay: of, status, error, errorKind, durationMs }) => ({
      at,
      attempt,
      replay: of,
      status,
      error,
      error_kind: errorKind,
      duration_ms: durationMs
    }))
  }
}
