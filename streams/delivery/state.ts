import type { AnyFact } from '../catalog.ts'
import type { Owed } from './facts.ts'

/** A delivery that has not ended: all that an attempt needs. */
export interface Pending {
  owed: Owed
  account: string
  correlation: string
  causation: string | null
  /** Requests made so far. */
  attempts: number
  /** When the 24 hours began (RFC 3339); null before the first attempt. */
  firstAttemptAt: string | null
  /** When its next attempt is due, RFC 3339: the first at once. */
  dueAt: string
}

/** The delivery as `fact` leaves it: null when it has ended; undefined when the fact is of no delivery. Pure. */
export function pendingAfter (fact: AnyFact): Pending | null | undefined {
  switch (fact.type) {
    case 'delivery.requested':
      return { ...envelope(fact, fact.data), attempts: 0, firstAttemptAt: null, dueAt: fact.time }
    case 'delivery.moved': {
      const { attempts, firstAttemptAt, nextAttemptAt } = fact.data
      return { ...envelope(fact, fact.data), attempts, firstAttemptAt, dueAt: nextAttemptAt }
    }
    case 'delivery.attempted': {
      const { nextAttemptAt, attempt, firstAttemptAt } = fact.data
      if (nextAttemptAt === null) return null
      return { ...envelope(fact, fact.data), attempts: attempt, firstAttemptAt, dueAt: nextAttemptAt }
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
