import { queueOf, type Queue } from '#projections/emails/queue.ts'
import type { Clock } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { ask } from '#src/postgres/query.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { number, time } from '../parts.ts'
import type { ProjectionReport } from '#src/operations/projection-monitor.ts'
import { ifAvailable } from '../if-available.ts'
import { countText } from './webhook-queries.ts'

/** Emails of one state are counted so far. */
export const COUNTED_MAX = 10_000
/** What was counted so lately is not counted again, whoever asks. */
const FRESH_MS = 1000
/** What was counted so long ago says nothing any more. */
const STALE_MS = 60_000
/** A page waits no longer: right after a million emails went out it takes PostgreSQL two seconds to step over what they
 *  left in the index. */
const PATIENCE_MS = 400
const ACCOUNTS_MAX = 1000

interface CachedQueue {
  queue: Queue | null
  atMs: number
  counting: Promise<void> | null
}

/** Tells how much waits in an account, as it was counted last; null = nobody knows. */
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
    if (counted.counting !== null) await ifAvailable(counted.counting, PATIENCE_MS)
    return clock.nowMs() - counted.atMs < STALE_MS ? counted.queue : null
  }
}

const NAMES = {
  queued: 'Queued',
  sending: 'Sending',
  deferred: 'Put off, tried again',
  scheduled: 'Scheduled'
} as const

/** `views` = those of the installation, for its operators; null = they are not told. */
export function queueCard ({ counts, oldestAt }: Queue, views: ProjectionReport[] | null, nowMs: number): Html {
  const states = (Object.keys(NAMES) as Array<keyof typeof NAMES>).map(status => {
    const count = countText(counts[status], COUNTED_MAX)
    return html`<div><dt>${NAMES[status]}</dt><dd>${
      counts[status] === 0 ? count : html`<a href="/dashboard/emails?status=${status}">${count}</a>`
    }</dd></div>`
  })
  const lags = (views ?? []).flatMap(({ lag }) => lag?.seconds ?? [])
  const lagS = lags.length === 0 ? null : Math.round(Math.max(...lags))
  return html`<section class="card"><h2>On the way</h2><dl class="facts tight">${states}<div><dt>Oldest that is queued</dt><dd>${
    time(oldestAt, nowMs)
  }</dd></div>
${
    lagS !== null &&
    html`<div><dt>Lists behind the log</dt><dd><a href="/dashboard/operations">${number(lagS)} s</a></dd></div>`
  }</dl></section>`
}
