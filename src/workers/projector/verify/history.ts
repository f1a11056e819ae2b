import type { AnyFact } from '#streams/catalog.ts'
import type { EmailErased, EngagementFact, RecipientFact, SubjectFact } from '#streams/email/facts.ts'
import { attemptIn } from '#streams/email/state.ts'

/** What of a recipient's fact decides which facts may come before and after it. */
export interface HistoryStep {
  type: (SubjectFact | EngagementFact)['type']
  sequence: number
  /** 0 = of no transaction. */
  attempt: number
  /** In doubt, and no further copy goes out by itself. */
  held: boolean
  /** A bounce that came back by mail. */
  report: boolean
}

export type StepFact = RecipientFact | EngagementFact | EmailErased

export function isStepFact (fact: AnyFact): fact is StepFact {
  return 'sequence' in fact.data
}

export function historyStepOf (fact: StepFact): HistoryStep {
  const { type, data } = fact
  return {
    type,
    sequence: data.sequence,
    attempt: attemptIn(fact),
    held: type === 'email.in_doubt' && fact.data.held,
    report: type === 'email.bounced' && fact.data.report !== null
  }
}

const ENGAGEMENTS: ReadonlySet<HistoryStep['type']> = new Set<EngagementFact['type']>([
  'email.opened',
  'email.clicked',
  'email.complained',
  'email.unsubscribed'
])
const OVER: ReadonlySet<HistoryStep['type'] | null> = new Set<HistoryStep['type']>([
  'email.delivered',
  'email.bounced',
  'email.failed',
  'email.suppressed',
  'email.canceled'
])
/** Facts after which a recipient may be canceled: no transaction is in progress, and it is not over. */
const CANCELABLE_AFTER: ReadonlySet<HistoryStep['type'] | null> = new Set<HistoryStep['type'] | null>([
  null,
  'email.rescheduled',
  'email.retry_requested',
  'email.deferred'
])

/** What a recipient's facts so far say about the next. `last` null = nothing is known of it yet. */
interface RecipientHistory {
  last: HistoryStep | null
  attempts: number
  /** Earlier facts are gone by age, so the number of attempts is not known yet. */
  open: boolean
}

/** Why the facts of one recipient, in the order of the log, break the rules of streams/email/README.md; null when they
 *  do not. The first of them may be gone by age when `aged`. What only the sender can have known (which claim is void,
 *  when a lease was over) is not checked. */
export function faultIn (steps: readonly HistoryStep[], aged: boolean): string | null {
  const outcomes = steps.filter(({ type }) => !ENGAGEMENTS.has(type))
  const forgotten = outcomes.findIndex(({ type }) => type === 'email.erased')
  // What came before it is deleted fact by fact.
  if (forgotten !== -1) return faultAfterErasure(outcomes.slice(forgotten))
  const number = numberFault(steps, aged)
  if (number !== null) return number
  let known: RecipientHistory = { last: null, attempts: 0, open: aged }
  for (const step of outcomes) {
    const fault = known.open ? null : stepFault(known, step)
    if (fault !== null) return fault
    known = { last: step, attempts: Math.max(known.attempts, step.attempt), open: known.open && step.attempt === 0 }
  }
  return null
}

/** It is on both of the recipient's subjects. */
function faultAfterErasure (outcomes: readonly HistoryStep[]): string | null {
  const next = outcomes.find(({ type }) => type !== 'email.erased')
  return next === undefined ? null : `${next.type} follows email.erased`
}

/** Each fact has the number its writer counted: the facts on its own subject, and of the other subject at most those
 *  that there are. */
function numberFault (steps: readonly HistoryStep[], aged: boolean): string | null {
  const seen = { outcomes: 0, engagements: 0 }
  for (const { type, sequence } of steps) {
    const isEngagement = ENGAGEMENTS.has(type)
    const own = isEngagement ? ++seen.engagements : ++seen.outcomes
    const others = isEngagement ? seen.outcomes : seen.engagements
    if (sequence < own) return `${type} has number ${sequence} and is fact ${own} of its subject`
    if (!aged && sequence > own + others) {
      return `${type} has number ${sequence}, and only ${own + others - 1} are before it`
    }
  }
  return null
}

function stepFault ({ last, attempts }: RecipientHistory, step: HistoryStep): string | null {
  const before = last?.type ?? null
  const after = `${step.type} follows ${before ?? 'nothing'}`
  switch (step.type) {
    case 'email.attempted':
      if (step.attempt !== attempts + 1) return `${after} as attempt ${step.attempt}, and ${attempts} were made`
      return mayBegin(last) ? null : after
    case 'email.delivered':
      if (step.attempt > attempts + 1) return `${step.type} is of attempt ${step.attempt}, and ${attempts} were made`
      return OVER.has(before) && before !== 'email.canceled' ? after : null
    case 'email.bounced':
    case 'email.deferred':
      return outcomeFault(step, last, attempts) ? after : null
    case 'email.in_doubt':
      return before === 'email.attempted' && step.attempt === attempts ? null : after
    case 'email.failed':
    case 'email.suppressed':
      return mayBegin(last) ? null : after
    case 'email.canceled':
      return CANCELABLE_AFTER.has(before) ? null : after
    case 'email.rescheduled':
      return before === null || before === 'email.rescheduled' ? null : after
    case 'email.retry_requested':
      return before === 'email.bounced' || before === 'email.failed' || before === 'email.suppressed' ||
          last?.held === true
        ? null
        : after
    default:
      return null
  }
}

/** A claim without an outcome may be void: its worker knows. */
function mayBegin (last: HistoryStep | null): boolean {
  return last === null || (!OVER.has(last.type) && !last.held)
}

function outcomeFault (step: HistoryStep, last: HistoryStep | null, attempts: number): boolean {
  const before = last?.type ?? null
  if (step.report) {
    return attempts === 0 ||
      !(before === 'email.attempted' || before === 'email.delivered' || before === 'email.deferred' ||
        before === 'email.in_doubt')
  }
  if (step.attempt === 0) return !mayBegin(last)
  // Of the claim in progress or in doubt, or of a transaction that had no claim yet.
  if (step.attempt === attempts) return before !== 'email.attempted' && before !== 'email.in_doubt'
  return step.attempt !== attempts + 1 || !mayBegin(last)
}
