import { overdueDeliveryFacts } from '#projections/deliveries/queries.ts'
import { emails } from '#projections/emails/project.ts'
import { knownEmails, overdueRecipients } from '#projections/emails/queries.ts'
import { pendingAfter } from '#streams/delivery/state.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { scheduleDelivery } from '#src/actions/delivery.ts'
import { scheduleSend } from '#src/actions/recipient.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequenceUnder, loadFact } from '#src/nats/load.ts'
import { waitFor } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/run.ts'

export interface SweepOptions {
  bus: Bus
  pool: Pool
  blobs: Blobs
  /** Makes a consumer, and its stream, again when it is gone from the server. */
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
}

export interface Sweep extends Role {
  /** The schedules are lost: store those of all that waits again, now and once more when the views have caught up. */
  soon (): void
}

const EVERY_MS = 300_000
const AGAIN_MS = 30_000
/** Views of facts that came just before the loss are seconds behind. */
const SECOND_LOOK_MS = 60_000
const LOOKS_AFTER_LOSS = 2
/** Postgres may be away for a while without anybody missing a sweep. */
const PATIENCE_MS = 600_000
const GRACE_S = 60
/** Retries wait for hours, scheduled mail for as long as its content is kept. */
const AHEAD_S = 400 * 86_400
const OVERDUE_MAX = 10_000
const ALL_MAX = 200_000
const AT_ONCE = 100
const BLOB_AGE_MS = 3_600_000

/** Schedules are derived, and can be lost. Whatever the views say should have happened by now gets its schedule again, due at once; who receives it
 *  looks at the facts before acting, so one too many does no harm. At start and every 5 min; after a loss, also for what is not due yet. */
export function startSweep ({ bus, pool, blobs, repair, log }: SweepOptions): Sweep {
  const stopping = new AbortController()
  let wake = new AbortController()
  let looksLeft = 0
  let orphansDueMs = 0
  let lastDoneMs = Date.now()
  let lastError: Error | null = null

  async function run (): Promise<void> {
    while (!stopping.signal.aborted) {
      const pauseMs = await turn()
      wake = new AbortController()
      await sleep(pauseMs, AbortSignal.any([wake.signal, stopping.signal]))
    }
  }

  /** One sweep; resolves to the time until the next. */
  async function turn (): Promise<number> {
    const everything = looksLeft > 0
    looksLeft = Math.max(0, looksLeft - 1)
    try {
      await (everything ? sweep(-AHEAD_S, ALL_MAX) : sweep(GRACE_S, OVERDUE_MAX))
      lastDoneMs = Date.now()
      await sweepOrphans()
      return looksLeft === LOOKS_AFTER_LOSS ? 0 : looksLeft > 0 ? SECOND_LOOK_MS : EVERY_MS
    } catch (error) {
      if (everything) looksLeft = LOOKS_AFTER_LOSS
      lastError = asError(error)
      log.warn({ err: lastError }, 'sweep interrupted')
      return AGAIN_MS
    }
  }

  async function sweep (graceS: number, limit: number): Promise<void> {
    for (const plan of [consumerPlans.senderDue, consumerPlans.deliveriesDue]) await repair(plan)
    const recipients = await ask(pool, overdueRecipients(limit, graceS))
    await each(recipients, ({ account, email, n, requestSeq, wakeMs }) => scheduleSend(bus, { account, email, n, request: requestSeq }, Math.max(wakeMs, Date.now())))
    const deliveries = await ask(pool, overdueDeliveryFacts(limit, graceS))
    await each(deliveries, remindDelivery)
    if (recipients.length + deliveries.length > 0) log.info({ recipients: recipients.length, deliveries: deliveries.length, everything: graceS < 0 }, 'swept')
  }

  /** On a clock of its own, and whatever becomes of it: a store that is slow to list must not keep mail from being swept. */
  async function sweepOrphans (): Promise<void> {
    if (Date.now() < orphansDueMs) return
    orphansDueMs = Date.now() + BLOB_AGE_MS
    try {
      const orphans = await removeOrphans()
      if (orphans > 0) log.info({ orphans }, 'content without an email removed')
    } catch (error) {
      log.warn({ err: error }, 'orphaned content not swept')
    }
  }

  async function remindDelivery (seq: number): Promise<void> {
    const found = await loadFact(bus, 'WEBHOOKS', seq)
    const pending = found === null ? null : pendingAfter(found.fact)
    if (pending != null && pending.dueAt !== null) await scheduleDelivery({ bus }, pending, SECOND_LOOK_MS)
  }

  /** Content is written before its email is accepted; when that never happened, nobody will ask for it. A view that is behind must not judge. */
  async function removeOrphans (): Promise<number> {
    const old = (await blobs.list()).filter(({ writtenMs }) => writtenMs < Date.now() - BLOB_AGE_MS).map(({ name }) => name)
    if (old.length === 0) return 0
    const requests = await lastSequenceUnder(bus, 'REQUESTS', 'request.>')
    if (!await waitFor(pool, emails, { REQUESTS: requests }, 5000)) return 0
    const known = await ask(pool, knownEmails(old))
    const orphans = old.filter(name => !known.has(name))
    await each(orphans, name => blobs.remove(name))
    return orphans.length
  }

  /** So many at once, and none after the role was told to stop. */
  async function each<T> (items: T[], act: (item: T) => Promise<void>): Promise<void> {
    for (let i = 0; i < items.length && !stopping.signal.aborted; i += AT_ONCE) await Promise.all(items.slice(i, i + AT_ONCE).map(act))
  }

  const running = run()
  return {
    name: 'scheduler',
    soon () {
      looksLeft = LOOKS_AFTER_LOSS
      wake.abort()
    },
    trouble () {
      if (Date.now() - lastDoneMs < EVERY_MS + PATIENCE_MS) return null
      return `the sweep has not been through since ${timestamp(lastDoneMs)}: ${lastError?.message}`
    },
    async stop () {
      stopping.abort()
      await running
    }
  }
}
