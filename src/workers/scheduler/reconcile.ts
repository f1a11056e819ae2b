import { emails } from '#projections/emails/project.ts'
import {
  knownEmails,
  overdueRecipients,
  unheardEmails,
  type OverdueRecipient,
  type UnheardEmail
} from '#projections/emails/queries.ts'
import { stats } from '#projections/stats/project.ts'
import { subjects } from '#streams/subjects.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { scheduleSend } from '#src/actions/recipient.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { lastSequencesOf } from '#src/nats/lookup.ts'
import { ackFloorOf } from '#src/nats/status.ts'
import { waitFor } from '#src/postgres/checkpoint.ts'
import { isMissing, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { openDeliveryCare } from './deliveries.ts'
import { each, PAGE, pages } from './pages.ts'
import { deleteAged } from './retention.ts'

export interface ReconcilerOptions {
  bus: Bus
  pool: Pool
  blobs: Blobs
  /** Makes a consumer, and its stream, again when it is gone from the server. */
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
}

export interface Reconciler extends Role {
  /** The schedules are lost: store those of all that waits again, now and twice more when the views and the senders
   *  have caught up. */
  soon(): void
}

const EVERY_MS = 300_000
const AGAIN_MS = 30_000
/** After the first look, and after the second: views of facts that came just before the loss are seconds behind, and
 *  senders still hold what was asked before mail that has only a booked place. */
const LOOK_AGAIN_MS = [15_000, 60_000]
const LOOKS_AFTER_LOSS = 1 + LOOK_AGAIN_MS.length
/** Postgres may be away for a while without anybody missing a reconciler. */
const PATIENCE_MS = 600_000
const GRACE_S = 60
/** Retries wait for hours, scheduled mail for as long as its content is kept. */
const AHEAD_S = 400 * 86_400
const VIEW_MS = 5000
const TIDY_MS = 3_600_000
const BLOB_AGE_MS = 3_600_000

/** Schedules are derived, and can be lost. Whatever the views say should have happened by now gets its schedule again,
 *  due at once; who receives it looks at the facts before acting, so one too many does no harm; but what still has its
 *  schedule keeps it: its time may be a place in a line, later than the views know. At start and every 5 min; after a
 *  loss, also for what is not due yet. */
export function startReconciler ({ bus, pool, blobs, repair, log }: ReconcilerOptions): Reconciler {
  const stopping = new AbortController()
  const { signal } = stopping
  const care = openDeliveryCare({ bus, pool, repair, log, signal })
  let wake = new AbortController()
  let looksLeft = 0
  let tidyDueMs = 0
  let lastDoneMs = Date.now()
  let lastError: Error | null = null

  async function run (): Promise<void> {
    while (!signal.aborted) {
      const pauseMs = await turn()
      wake = new AbortController()
      await sleep(pauseMs, AbortSignal.any([wake.signal, signal]))
    }
  }

  /** One reconciler; resolves to the time until the next. */
  async function turn (): Promise<number> {
    const everything = looksLeft > 0
    looksLeft = Math.max(0, looksLeft - 1)
    try {
      await reconcile(everything ? -AHEAD_S : GRACE_S)
      lastDoneMs = Date.now()
      await tidyUp()
      if (looksLeft === LOOKS_AFTER_LOSS) return 0
      return looksLeft > 0 ? LOOK_AGAIN_MS.at(-looksLeft)! : EVERY_MS
    } catch (error) {
      if (everything) looksLeft = LOOKS_AFTER_LOSS
      lastError = asError(error)
      if (isMissing(error)) log.info('the reconciler waits until its view is made')
      else log.warn({ err: lastError }, 'reconciler interrupted')
      return AGAIN_MS
    }
  }

  async function reconcile (graceS: number): Promise<void> {
    for (const plan of [consumerPlans.sender, consumerPlans.senderDue]) await repair(plan)
    const overdue = await sweepOverdue(graceS)
    const unheard = await sweepUnheard()
    const deliveries = await care.remind(graceS)
    if (overdue + unheard + deliveries > 0) log.info({ overdue, unheard, deliveries, everything: graceS < 0 }, 'swept')
  }

  /** Those whose time the views know. Resolves to how many had lost their schedule. */
  async function sweepOverdue (graceS: number): Promise<number> {
    let found = 0
    await pages<OverdueRecipient>(
      pool,
      signal,
      after => overdueRecipients({ limit: PAGE, graceS, after }),
      async page => {
        found += await remind(page)
      }
    )
    return found
  }

  /** Those who have nothing but a place booked in a line: no fact tells of it. Whose request is acknowledged has a fact
   *  or a schedule; once the view has seen what was in the log after that, who has no fact there must have a schedule.
   */
  async function sweepUnheard (): Promise<number> {
    const acknowledged = await ackFloorOf(bus, consumerPlans.sender)
    const facts = await lastSequenceUnder(bus, 'EMAILS', 'email.>')
    if (!await waitFor(pool, emails, { EMAILS: facts }, VIEW_MS)) return 0
    let found = 0
    await pages<UnheardEmail>(pool, signal, after => unheardEmails({ limit: PAGE, after }), async page => {
      const settled = page.filter(({ requestSeq }) => requestSeq <= acknowledged)
      found += await remind(
        settled.flatMap(({ ns, createdMs, ...rest }) => ns.map(n => ({ ...rest, n, wakeMs: createdMs })))
      )
      // The oldest come first: what follows waits for the sender still.
      return settled.length > 0
    })
    return found
  }

  /** Stores the schedules that are not there; resolves to their number. What has come due and was not worked off yet
   *  needs none either. */
  async function remind (recipients: OverdueRecipient[]): Promise<number> {
    const worked = await ackFloorOf(bus, consumerPlans.senderDue)
    const names = recipients.map(({ account, email, n }) =>
      [subjects.scheduleSend(account, email, n), subjects.dueSend(account, email, n)] as const
    )
    const stored = await lastSequencesOf(bus, 'SCHEDULE', names.flat())
    const lost = recipients.filter((_recipient, i) =>
      !stored.has(names[i]![0]) && (stored.get(names[i]![1]) ?? 0) <= worked
    )
    await each(
      lost,
      signal,
      ({ account, email, n, requestSeq, wakeMs }) =>
        scheduleSend(bus, { account, email, n, request: requestSeq }, Math.max(wakeMs, Date.now()))
    )
    return lost.length
  }

  /** On a clock of its own, and whatever becomes of it: a store that is slow to list must not keep mail from being
   *  swept. */
  async function tidyUp (): Promise<void> {
    if (Date.now() < tidyDueMs) return
    tidyDueMs = Date.now() + TIDY_MS
    await tidy('content without an email', removeOrphans)
    await tidy(
      'pieces of content whose storing was cut off',
      async () => await blobs.removeStray(Date.now() - BLOB_AGE_MS)
    )
    await tidy('deliveries that have left the log', care.prune)
    await tidy(
      'rows whose facts have left the log',
      async () => await deleteAged({ bus, pool, projections: [emails, stats], nowMs: Date.now, signal })
    )
  }

  async function tidy (what: string, remove: () => Promise<number>): Promise<void> {
    try {
      const removed = await remove()
      if (removed > 0) log.info({ what, removed }, 'tidied up')
    } catch (error) {
      log.warn({ what, err: error }, 'not tidied up')
    }
  }

  /** Content is written before its email is accepted; when that never happened, nobody will ask for it. A view that is
   *  behind must not judge. */
  async function removeOrphans (): Promise<number> {
    const old = (await blobs.list()).filter(({ writtenMs }) => writtenMs < Date.now() - BLOB_AGE_MS).map(({ name }) =>
      name
    )
    if (old.length === 0) return 0
    const requests = await lastSequenceUnder(bus, 'REQUESTS', 'request.>')
    if (!await waitFor(pool, emails, { REQUESTS: requests }, VIEW_MS)) return 0
    const known = await ask(pool, knownEmails(old))
    const orphans = old.filter(name => !known.has(name))
    await each(orphans, signal, name => blobs.remove(name))
    return orphans.length
  }

  const running = run()
  return {
    name: 'scheduler',
    soon () {
      looksLeft = LOOKS_AFTER_LOSS
      wake.abort()
    },
    unhealthyReason () {
      if (Date.now() - lastDoneMs < EVERY_MS + PATIENCE_MS) return null
      return `the reconciler has not been through since ${timestamp(lastDoneMs)}: ${lastError?.message}`
    },
    async stop () {
      stopping.abort()
      await running
    }
  }
}
