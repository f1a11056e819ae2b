import type { DeliveryRecord } from '#projections/deliveries/queries.ts'
import { print, readArgs, usageError, type Command } from './command.ts'
import { momentMs } from './since.ts'
import { linesOf } from './trace/branch.ts'
import { gather, type Traced } from './trace/gather.ts'
import { factsOf, treeOf } from './trace/tree.ts'

export const trace: Command = {
  usage: 'jetpost trace <email id> [--as-of <time>] [--json]',
  means: 'an email of any account: what was asked, what became of each recipient, and what endpoints were told of it',
  details:
    `  --as-of  as it was known then: a time like 2027-01-31T12:00:00Z, or how long ago: 1h. What endpoints were told is shown by its own times
  Under each recipient stand its facts with their place in the stream (#), their time, and how long after the request that was; under each fact the deliveries of
  its event, and every request made for them. Facts come from NATS; without PostgreSQL all but the deliveries is shown.`,
  async run (args) {
    const { values: { json, 'as-of': asOf }, positionals: [id, ...more] } = readArgs(args, {
      'as-of': { type: 'string' }
    })
    if (id === undefined || more.length > 0) throw usageError(`usage: ${trace.usage}`)
    const atMs = asOf === undefined ? Infinity : momentMs('as-of', asOf)
    if (asOf !== undefined && atMs > Date.now()) throw usageError('--as-of is a time in the past.')
    const traced = await gather(id, atMs)
    if (json) print([answerOf(traced)], true)
    else console.log(linesOf(treeOf(traced)).join('\n'))
  }
}

/** As the API tells it, but each recipient with its facts instead of one timeline. */
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
