import { isEngagement, pastOf } from './erase.ts'
import type { EmailErased, EngagementFact, RecipientFact, SubjectFact } from './facts.ts'

/** What the contract calls a recipient's status. */
export type RecipientStatus =
  | 'scheduled'
  | 'queued'
  | 'sending'
  | 'deferred'
  | 'in_doubt'
  | 'delivered'
  | 'bounced'
  | 'failed'
  | 'suppressed'
  | 'canceled'

/** The claim on one transaction: until `leaseUntil` only `worker` may finish it. */
export interface Claim {
  /** Id of the fact. */
  id: string
  attempt: number
  worker: string
  leaseUntil: string
}

/** One recipient of one email, folded from the facts of its subject. */
export interface RecipientState {
  status: RecipientStatus
  /** Facts so far; the next one's `sequence` is one more. */
  facts: number
  /** Transactions begun so far; the number of the last one. */
  attempts: number
  /** The last claim, whatever became of it; null before the first. */
  claim: Claim | null
  /** The Date header of the first claim, which every copy carries. */
  date: string | null
  /** When the next attempt is due; null when none is. */
  nextAttemptAt: string | null
  deferrals: number
  doubts: { sender: number, line: number }
  /** In doubt, and no further copy goes out by itself. */
  held: boolean
  /** When the budget ends, where it is not the request's any more. */
  expiresAt: string | null
  /** The person is forgotten: it stays as it stood, and nothing is done about it any more. */
  erased: boolean
}

/** `scheduledAt` = when the request wants to be sent; null = at once. */
export function newRecipient (scheduledAt: string | null): RecipientState {
  return {
    status: scheduledAt === null ? 'queued' : 'scheduled',
    facts: 0,
    attempts: 0,
    claim: null,
    date: null,
    nextAttemptAt: scheduledAt,
    deferrals: 0,
    doubts: { sender: 0, line: 0 },
    held: false,
    expiresAt: null,
    erased: false
  }
}

/** What the state becomes with one more fact. The table is in README.md. */
export function evolve (before: RecipientState, fact: SubjectFact): RecipientState {
  if (fact.type === 'email.erased') return forgotten(fact)
  const attempts = Math.max(before.attempts, attemptIn(fact))
  const state = { ...before, facts: before.facts + 1, attempts, nextAttemptAt: null, held: false }
  switch (fact.type) {
    case 'email.attempted': {
      const { attempt, worker, leaseUntil, date } = fact.data
      return {
        ...state,
        status: 'sending',
        claim: { id: fact.id, attempt, worker, leaseUntil },
        date: before.date ?? date
      }
    }
    case 'email.delivered':
      return { ...state, status: 'delivered' }
    case 'email.bounced':
      return { ...state, status: 'bounced' }
    case 'email.failed':
      return { ...state, status: 'failed' }
    case 'email.suppressed':
      return { ...state, status: 'suppressed' }
    case 'email.canceled':
      return { ...state, status: 'canceled' }
    case 'email.rescheduled':
      return { ...state, status: 'scheduled', nextAttemptAt: fact.data.scheduledAt, expiresAt: fact.data.expiresAt }
    case 'email.retry_requested':
      return { ...state, status: 'queued', expiresAt: fact.data.expiresAt }
    case 'email.deferred':
      return { ...state, status: 'deferred', deferrals: before.deferrals + 1, nextAttemptAt: fact.data.nextAttemptAt }
    case 'email.in_doubt': {
      const { cause, held, nextAttemptAt } = fact.data
      return {
        ...state,
        status: 'in_doubt',
        doubts: { ...before.doubts, [cause]: before.doubts[cause] + 1 },
        held,
        nextAttemptAt
      }
    }
  }
}

/** What the facts before it came to, which may be gone or not. */
function forgotten (fact: EmailErased): RecipientState {
  const past = pastOf(fact).map(({ fact }) => fact).filter(isOutcome)
  const state = past.reduce(evolve, newRecipient(null))
  return { ...state, facts: fact.data.past.length + 1, nextAttemptAt: null, erased: true }
}

function isOutcome (fact: RecipientFact | EngagementFact): fact is RecipientFact {
  return !isEngagement(fact)
}

const TERMINAL: ReadonlySet<RecipientStatus> = new Set(['delivered', 'bounced', 'failed', 'suppressed', 'canceled'])

/** True when a server's verdict, the end of the budget, a suppression or a person has settled it. */
export function isTerminal (state: RecipientState): boolean {
  return TERMINAL.has(state.status)
}

/** The number of the transaction that a fact is of; 0 = of none. */
export function attemptIn ({ data }: SubjectFact | EngagementFact): number {
  if (!('attempt' in data) || ('untried' in data && data.untried !== undefined)) return 0
  return data.attempt
}
