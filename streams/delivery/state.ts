import { Type, type Static } from '@sinclair/typebox'
import type { AnyFact } from '../catalog.ts'
import { Id, Nullable, Time } from '../define.ts'
import { Owed } from './facts.ts'

/** A delivery that has not ended: all that an attempt needs. It is the payload of the delivery's schedule. */
export const Pending = Type.Object({
  owed: Owed,
  account: Id('acc'),
  correlation: Type.String({ minLength: 1, maxLength: 200 }),
  causation: Nullable(Id('ev')),
  /** Requests made so far. */
  attempts: Type.Integer({ minimum: 0 }),
  /** When the 24 hours began; null before the first attempt or deferral. */
  firstAttemptAt: Nullable(Time),
  /** The time it was scheduled for; null when it comes straight from the fan-out. */
  dueAt: Nullable(Time),
  /** When its endpoint's pause began to hold it; null when none does. */
  heldAt: Nullable(Time)
})
export type Pending = Static<typeof Pending>

/** The delivery as `fact` leaves it: null when it has ended; undefined when the fact is of no delivery. Pure. */
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

/** Identifies one attempt of one delivery: a redelivered message has the same key, a retry has another one. */
export function attemptKey ({ owed, dueAt }: Pending): string {
  return `${owed.delivery} ${owed.replay ?? ''} ${dueAt ?? 'first'}`
}
