import { Type, type Static } from '@sinclair/typebox'
import type { AnyFact } from '../catalog.ts'
import { Id, Nullable, Time } from '../define.ts'
import { Owed } from './facts.ts'

/** A delivery that still has to be made: all that is needed to try, and what a schedule carries until its time has
 *  come. */
export const Pending = Type.Object({
  owed: Owed,
  account: Id('acc'),
  correlation: Type.String({ minLength: 1, maxLength: 200 }),
  causation: Nullable(Id('ev')),
  /** Requests made so far. */
  attempts: Type.Integer({ minimum: 0 }),
  /** When the 24 hours began; null before the first attempt or parking. */
  firstAttemptAt: Nullable(Time),
  /** The time it was scheduled for; null when it comes straight from the fan-out. With the delivery's id it names this
   *  one try. */
  dueAt: Nullable(Time),
  /** Since when its endpoint's pause holds it; null when none does. */
  heldAt: Nullable(Time)
})
export type Pending = Static<typeof Pending>

/** What is pending after `fact`: null when the delivery is settled; undefined when the fact is none of a delivery.
 *  Pure. */
export function pendingAfter (fact: AnyFact): Pending | null | undefined {
  switch (fact.type) {
    case 'delivery.requested':
      return { ...envelope(fact, fact.data), attempts: 0, firstAttemptAt: null, dueAt: null, heldAt: null }
    case 'delivery.deferred': {
      const { attempts, firstAttemptAt, nextAttemptAt, heldAt = null } = fact.data
      return { ...envelope(fact, fact.data), attempts, firstAttemptAt, dueAt: nextAttemptAt, heldAt }
    }
    case 'delivery.attempted': {
      const { nextAttemptAt, attempt, firstAttemptAt } = fact.data
      if (nextAttemptAt === null) return null
      return { ...envelope(fact, fact.data), attempts: attempt, firstAttemptAt, dueAt: nextAttemptAt, heldAt: null }
    }
    case 'delivery.failed':
      return null
    default:
      return undefined
  }
}

type Envelope = Pick<Pending, 'owed' | 'account' | 'correlation' | 'causation'>

function envelope (fact: AnyFact, { delivery, webhook, replay, events, batch, test }: Owed): Envelope {
  return {
    owed: { delivery, webhook, replay, events, batch, ...(test === undefined ? {} : { test }) },
    account: fact.account,
    correlation: fact.correlation,
    causation: fact.id
  }
}

/** Names one try of one delivery: what comes twice under the same key is the same message again, a retry never is. */
export function attemptKey ({ owed, dueAt }: Pending): string {
  return `${owed.delivery} ${owed.replay ?? ''} ${dueAt ?? 'first'}`
}
