import { emails } from '#projections/emails/project.ts'
import {
  overdueRecipients,
  unheardEmails,
  type OverdueRecipient,
  type UnheardEmail
} from '#projections/emails/queue.ts'
import { subjects } from '#streams/subjects.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { scheduleSend } from '#src/actions/due-send.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { lastSequencesOf } from '#src/nats/lookup.ts'
import { ackFloorOf } from '#src/nats/status.ts'
import { waitFor } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { each, PAGE, pages } from './pages.ts'

export interface EmailReconcilerOptions {
  bus: Bus
  pool: Pool
  repair: (plan: ConsumerPlan) => Promise<boolean>
  signal: AbortSignal
}

const VIEW_MS = 5000

/** The reconciler's half of emails. Throws when NATS or PostgreSQL does not answer. */
export class EmailReconciler {
  private readonly options: EmailReconcilerOptions

  constructor (options: EmailReconcilerOptions) {
    this.options = options
  }

  /** Restores the schedules of recipients that would never come back: those due more than `graceS` seconds ago (below
   *  0: due within so many), and those without any fact. */
  async restoreSchedules (graceS: number): Promise<{ overdue: number, unheard: number }> {
    for (const plan of [consumerPlans.sender, consumerPlans.senderDue]) await this.options.repair(plan)
    return { overdue: await this.restoreOverdue(graceS), unheard: await this.restoreUnheard() }
  }

  /** Recipients whose time the projection knows. Resolves to how many had lost their schedule. */
  private async restoreOverdue (graceS: number): Promise<number> {
    const { pool, signal } = this.options
    let restored = 0
    const query = (after: OverdueRecipient | null) => overdueRecipients({ limit: PAGE, graceS, after })
    await pages<OverdueRecipient>(pool, signal, query, async page => {
      restored += await this.restoreMissing(page)
    })
    return restored
  }

  /** Recipients that have only a place in a queue, of which no fact tells. A request that is acknowledged has left a
   *  fact or a schedule. So once the projection has what was in the log after that, a recipient without a fact must
   *  have a schedule. */
  private async restoreUnheard (): Promise<number> {
    const { bus, pool, signal } = this.options
    const acknowledged = await ackFloorOf(bus, consumerPlans.sender)
    const facts = await lastSequenceUnder(bus, 'EMAILS', 'email.>')
    if (!await waitFor(pool, emails, { EMAILS: facts }, VIEW_MS)) return 0
    let restored = 0
    const query = (after: UnheardEmail | null) => unheardEmails({ limit: PAGE, after })
    await pages<UnheardEmail>(pool, signal, query, async page => {
      const settled = page.filter(({ requestSeq }) => requestSeq <= acknowledged)
      const recipients = settled.flatMap(({ ns, createdMs, ...rest }) =>
        ns.map(n => ({ ...rest, n, wakeMs: createdMs }))
      )
      restored += await this.restoreMissing(recipients)
      // The oldest come first: the later ones still wait for the sender.
      return settled.length > 0
    })
    return restored
  }

  /** Stores the schedules that are missing; resolves to their number. A recipient that has come due and is not
   *  acknowledged yet needs none either. */
  private async restoreMissing (recipients: OverdueRecipient[]): Promise<number> {
    const { bus, signal } = this.options
    const acknowledged = await ackFloorOf(bus, consumerPlans.senderDue)
    const names = recipients.map(({ account, email, n }) =>
      [subjects.scheduleSend(account, email, n), subjects.dueSend(account, email, n)] as const
    )
    const stored = await lastSequencesOf(bus, 'SCHEDULE', names.flat())
    const missing = recipients.filter((_recipient, i) => {
      const [scheduled, due] = names[i]!
      return !stored.has(scheduled) && (stored.get(due) ?? 0) <= acknowledged
    })
    await each(
      missing,
      signal,
      ({ account, email, n, requestSeq, wakeMs }) =>
        scheduleSend(bus, { account, email, n, request: requestSeq }, Math.max(wakeMs, Date.now()))
    )
    return missing.length
  }
}
