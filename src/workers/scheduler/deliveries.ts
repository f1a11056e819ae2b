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

export interface DeliveryCareOptions {
  bus: Bus
  pool: Pool
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
  signal: AbortSignal
}

/** The reconciler's webhook half. Throws when NATS or PostgreSQL does not answer. */
export interface DeliveryCare {
  /** Has deliveries come again that nothing would bring back any more: those due more than `graceS` seconds ago (below
   *  0: due within so many) whose schedule is lost, and those whose request is acknowledged and of which nothing was
   *  heard. Resolves to their number. */
  remind(graceS: number): Promise<number>
  /** Takes out of the view what has left the log. Resolves to the number of rows. */
  prune(): Promise<number>
}

/** Where a consumer's messages are all acknowledged, by its name. */
type Floors = Record<string, number>

const STORE_MS = 60_000
const VIEW_MS = 5000
const ANSWER_MS = 2000
/** A delivery is tried within seconds, or waits for a place on its consumer: then it is not acknowledged. */
const UNHEARD_S = 120
const PLANS = [...consumerPlans.deliveries, consumerPlans.deliveriesReplay, consumerPlans.deliveriesDue]

export function openDeliveryCare ({ bus, pool, repair, log, signal }: DeliveryCareOptions): DeliveryCare {
  /** What is acknowledged left a fact behind before: once the view has seen what was in the log after that, it knows
   *  what became of it. */
  async function remind (graceS: number): Promise<number> {
    const floors = await floorsNow()
    const facts = await lastSequenceUnder(bus, 'WEBHOOKS', 'webhook.>')
    if (!await waitFor(pool, deliveries, { WEBHOOKS: facts }, VIEW_MS)) {
      log.warn('the view of deliveries is behind: deliveries are not swept')
      return 0
    }
    return await remindOverdue(floors, graceS) + await remindUnheard(floors)
  }

  async function floorsNow (): Promise<Floors> {
    for (const plan of PLANS) await repair(plan)
    return Object.fromEntries(
      await Promise.all(PLANS.map(async plan => [plan.durable_name, await ackFloorOf(bus, plan)] as const))
    )
  }

  async function remindOverdue (floors: Floors, graceS: number): Promise<number> {
    let found = 0
    await pages<WaitingDelivery>(
      pool,
      signal,
      after => overdueDeliveries({ limit: PAGE, graceS, after }),
      async page => {
        found += await bringBack(page, floors)
      }
    )
    return found
  }

  async function remindUnheard (floors: Floors): Promise<number> {
    const seen = Math.max(...Object.values(floors))
    let found = 0
    await pages<WaitingDelivery>(
      pool,
      signal,
      after => unheardDeliveries({ limit: PAGE, graceS: UNHEARD_S, after }),
      async page => {
        found += await bringBack(
          page.filter(({ webhook, replay, stateSeq }) => stateSeq <= floors[consumerOf(webhook, replay)]!),
          floors
        )
        return page.at(-1)!.stateSeq <= seen
      }
    )
    return found
  }

  /** Stores the schedules that are not there; resolves to their number. What has come due and was not worked off yet
   *  needs none either. */
  async function bringBack (waiting: WaitingDelivery[], floors: Floors): Promise<number> {
    const worked = floors[consumerPlans.deliveriesDue.durable_name]!
    const names = waiting.map(({ id, webhook }) => {
      const partition = webhookPartitionOf(webhook)
      return [
        subjects.scheduleDelivery(webhook, id),
        subjects.scheduleHeld(webhook, id),
        subjects.dueDelivery(partition, id)
      ] as const
    })
    const stored = await lastSequencesOf(bus, 'SCHEDULE', names.flat())
    const lost = waiting.filter((_delivery, i) => {
      const [scheduled, held, due] = names[i]!
      return !stored.has(scheduled) && !stored.has(held) && (stored.get(due) ?? 0) <= worked
    })
    let found = 0
    await each(lost, signal, async ({ stateSeq }) => {
      const recorded = await getFact(bus, 'WEBHOOKS', { seq: stateSeq })
      const pending = recorded === null ? null : pendingAfter(recorded.fact)
      if (pending == null) return
      // As due as it was: whoever gets it sees that it is late and asks whether it has been done.
      await scheduleDelivery({ bus }, { ...pending, dueAt: pending.dueAt ?? recorded!.fact.time }, STORE_MS)
      found++
    })
    return found
  }

  /** By the place in the log and not by the clock: so the view holds what reading the log anew would give. */
  async function prune (): Promise<number> {
    const { state } = await api<{ state: { first_seq: number } }>(bus, 'STREAM.INFO.WEBHOOKS', undefined, ANSWER_MS)
    const page = { before: state.first_seq, limit: PAGE }
    return await deletePages(pool, signal, pruneAttempts(page)) + await deletePages(pool, signal, pruneDeliveries(page))
  }

  return { remind, prune }
}

/** What is asked for again goes another way than what is new. */
function consumerOf (webhook: string, replay: string | null): string {
  return (replay === null ? consumerPlans.deliveries[webhookPartitionOf(webhook)]! : consumerPlans.deliveriesReplay)
    .durable_name
}
