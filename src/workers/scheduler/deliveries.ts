import { deliveries } from '#projections/deliveries/project.ts'
import {
  overdueDeliveries,
  pruneAttempts,
  pruneDeliveries,
  unheardDeliveries,
  type WaitingDelivery
} from '#projections/deliveries/queries.ts'
import { pendingAfter } from '#streams/delivery/state.ts'
import { webhookPartitionOf, subjects } from '#streams/subjects.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { scheduleDelivery } from '#src/actions/delivery.ts'
import type { Log } from '#src/base/log.ts'
import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact, lastSequenceUnder } from '#src/nats/get.ts'
import { lastSequencesOf } from '#src/nats/lookup.ts'
import { ackFloorOf } from '#src/nats/status.ts'
import { waitFor } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { deletePages, each, PAGE, pages } from './pages.ts'

export interface DeliveryReconcilerOptions {
  bus: Bus
  pool: Pool
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
  signal: AbortSignal
}

/** The sequence up to which all of a consumer's messages are acknowledged, by the consumer's name. */
type AckFloors = Record<string, number>

const STORE_MS = 60_000
const VIEW_MS = 5000
const ANSWER_MS = 2000
/** A delivery is tried within seconds, or waits for a place on its consumer: then it is not acknowledged. */
const UNHEARD_S = 120
const PLANS = [...consumerPlans.deliveries, consumerPlans.deliveriesReplay, consumerPlans.deliveriesDue]

/** The reconciler's webhook half. Throws when NATS or PostgreSQL does not answer. */
export class DeliveryReconciler {
  private readonly options: DeliveryReconcilerOptions

  constructor (options: DeliveryReconcilerOptions) {
    this.options = options
  }

  /** Restores the schedules of deliveries that would never come back: those due more than `graceS` seconds ago (below
   *  0: due within so many) whose schedule is lost, and those whose request is acknowledged without a fact after it.
   *  Resolves to their number. */
  async restoreSchedules (graceS: number): Promise<number> {
    const { bus, pool, log } = this.options
    const floors = await this.readFloors()
    // An acknowledged message has left a fact behind before: once the projection has what was in the log then, it
    // knows.
    const facts = await lastSequenceUnder(bus, 'WEBHOOKS', 'webhook.>')
    if (!await waitFor(pool, deliveries, { WEBHOOKS: facts }, VIEW_MS)) {
      log.warn('the projection of deliveries is behind; deliveries are not reconciled this time')
      return 0
    }
    return await this.restoreOverdue(floors, graceS) + await this.restoreUnheard(floors)
  }

  /** Deletes rows of the projection whose facts have left the log. Resolves to the number of rows. By sequence and not
   *  by the clock: so the projection holds what a rebuild would give. */
  async prune (): Promise<number> {
    const { bus, pool, signal } = this.options
    const { state } = await api<{ state: { first_seq: number } }>(bus, 'STREAM.INFO.WEBHOOKS', undefined, ANSWER_MS)
    const page = { before: state.first_seq, limit: PAGE }
    return await deletePages(pool, signal, pruneAttempts(page)) + await deletePages(pool, signal, pruneDeliveries(page))
  }

  private async readFloors (): Promise<AckFloors> {
    const { bus, repair } = this.options
    for (const plan of PLANS) await repair(plan)
    return Object.fromEntries(
      await Promise.all(PLANS.map(async plan => [plan.durable_name, await ackFloorOf(bus, plan)] as const))
    )
  }

  private async restoreOverdue (floors: AckFloors, graceS: number): Promise<number> {
    const { pool, signal } = this.options
    let restored = 0
    const query = (after: WaitingDelivery | null) => overdueDeliveries({ limit: PAGE, graceS, after })
    await pages<WaitingDelivery>(pool, signal, query, async page => {
      restored += await this.restoreMissing(page, floors)
    })
    return restored
  }

  private async restoreUnheard (floors: AckFloors): Promise<number> {
    const { pool, signal } = this.options
    const seen = Math.max(...Object.values(floors))
    let restored = 0
    const query = (after: WaitingDelivery | null) => unheardDeliveries({ limit: PAGE, graceS: UNHEARD_S, after })
    await pages<WaitingDelivery>(pool, signal, query, async page => {
      const acknowledged = page.filter(({ webhook, replay, state_seq: seq }) =>
        seq <= floors[consumerOf(webhook, replay)]!
      )
      restored += await this.restoreMissing(acknowledged, floors)
      return page.at(-1)!.state_seq <= seen
    })
    return restored
  }

  /** Stores the schedules that are missing; resolves to their number. A delivery that has come due and is not
   *  acknowledged yet needs none either. */
  private async restoreMissing (waiting: WaitingDelivery[], floors: AckFloors): Promise<number> {
    const { bus, signal } = this.options
    const acknowledged = floors[consumerPlans.deliveriesDue.durable_name]!
    const names = waiting.map(({ id, webhook }) =>
      [
        subjects.scheduleDelivery(webhook, id),
        subjects.scheduleHeld(webhook, id),
        subjects.dueDelivery(webhookPartitionOf(webhook), id)
      ] as const
    )
    const stored = await lastSequencesOf(bus, 'SCHEDULE', names.flat())
    const missing = waiting.filter((_delivery, i) => {
      const [scheduled, held, due] = names[i]!
      return !stored.has(scheduled) && !stored.has(held) && (stored.get(due) ?? 0) <= acknowledged
    })
    let restored = 0
    await each(missing, signal, async delivery => {
      if (await this.schedule(delivery)) restored++
    })
    return restored
  }

  private async schedule ({ state_seq: seq }: WaitingDelivery): Promise<boolean> {
    const { bus } = this.options
    const recorded = await getFact(bus, 'WEBHOOKS', { seq })
    const pending = recorded === null ? null : pendingAfter(recorded.fact)
    if (pending == null) return false
    // With its own due time: a dispatcher sees that it is late, and checks whether it has been done.
    await scheduleDelivery({ bus }, { ...pending, dueAt: pending.dueAt ?? recorded!.fact.time }, STORE_MS)
    return true
  }
}

/** Replayed deliveries have a consumer of their own. */
function consumerOf (webhook: string, replay: string | null): string {
  const plan = replay === null ? consumerPlans.deliveries[webhookPartitionOf(webhook)]! : consumerPlans.deliveriesReplay
  return plan.durable_name
}
