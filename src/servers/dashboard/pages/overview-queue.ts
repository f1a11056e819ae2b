import { queueOf, type Queue } from '#projections/emails/queue.ts'
import type { Clock } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { ask } from '#src/postgres/query.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { number, time } from '../parts.ts'
import type { ProjectionReport } from '#src/operations/projection-monitor.ts'
import { ifAvailable } from '../error-pages.ts'
import { countText } from './webhook-queries.ts'

/** Emails of one state are counted up to this. */
export const COUNTED_MAX = 10_000
/** A younger count is not repeated. */
const FRESH_MS = 1000
/** An older count is not shown. */
const STALE_MS = 60_000
/** A page waits no longer for a count: after a million emails were sent, PostgreSQL needs two seconds to step over
 *  their dead index entries. */
const COUNT_TIMEOUT_MS = 400
const ACCOUNTS_MAX = 1000

interface CachedQueue {
  queue: Queue | null
  atMs: number
  counting: Promise<void> | null
}

/** The queue of an account as it was last counted; null = unknown. */
type QueueReader = (account: string) => Promise<Queue | null>

export function createQueueReader ({ pool }: Reads, clock: Clock): QueueReader {
  const known = new Memory<CachedQueue>(ACCOUNTS_MAX)

  async function count (account: string, counted: CachedQueue): Promise<void> {
    try {
      const queue = await ask(pool, queueOf({ account, max: COUNTED_MAX }))
      Object.assign(counted, { queue, atMs: clock.nowMs() })
    } finally {
      counted.counting = null
    }
  }

  return async account => {
    const counted = known.get(account) ?? { queue: null, atMs: -STALE_MS, counting: null }
    known.set(account, counted)
    if (clock.nowMs() - counted.atMs >= FRESH_MS) counted.counting ??= count(account, counted)
    if (counted.counting !== null) await ifAvailable(counted.counting, COUNT_TIMEOUT_MS)
    return clock.nowMs() - counted.atMs < STALE_MS ? counted.queue : null
  }
}

const NAMES = {
  queued: 'Queued',
  sending: 'Sending',
  deferred: 'Deferred',
  scheduled: 'Scheduled'
} as const

/** `projections` = for operators; null = not shown. */
export function queueCard ({ counts, oldestAt }: Queue, projections: ProjectionReport[] | null, nowMs: number): Html {
  const states = (Object.keys(NAMES) as Array<keyof typeof NAMES>).map(status => {
    const count = countText(counts[status], COUNTED_MAX)
    return html`<div><dt>${NAMES[status]}</dt><dd>${
      counts[status] === 0 ? count : html`<a href="/dashboard/emails?status=${status}">${count}</a>`
    }</dd></div>`
  })
  const lags = (projections ?? []).flatMap(({ lag }) => lag?.seconds ?? [])
  const lagS = lags.length === 0 ? null : Math.round(Math.max(...lags))
  const lag = lagS !== null && html`<div><dt>Projection lag</dt>
<dd><a href="/dashboard/operations/projections">${number(lagS)} s</a></dd></div>`
  return html`<section class="card"><h2>In progress</h2><dl class="facts tight">${states}<div><dt>Oldest queued</dt>
<dd>${time(oldestAt, nowMs)}</dd></div>
${lag}</dl></section>`
}
