import type { Static } from '@sinclair/typebox'
import { domainOf } from '../address.ts'
import { Refusal } from '../define.ts'
import type { SuppressionReason } from '../suppression/facts.ts'
import type { EmailRequested, Plain, RecipientFact, Reply, Stage } from './facts.ts'
import { isTerminal, type RecipientState } from './state.ts'

export type SmtpReply = Static<typeof Reply>
export type SmtpStage = Static<typeof Stage>

/** Gaps between attempts: `firstS`, doubling, at most `maxS`, all in seconds. */
export interface RetryPlan {
  firstS: number
  maxS: number
}

/** 5 min passes default greylisting; 4 h is the widest gap RFC 5321 4.5.4.1 and its senders know. */
export const RETRY: RetryPlan = { firstS: 300, maxS: 14_400 }
const JITTER = 0.2
/** A failing host says nothing about the message: the gaps stop growing here (20 min), so that mail flows soon after
 *  the host is back. */
const HOST_TROUBLE_STEP_MAX = 3
/** A server that always resets after the dot would get one more copy with every retry. The first such doubt gets its
 *  retry, the second says that it is the server's way; sender deaths are our own and rarer, but no message is worth a
 *  sixth copy. */
const LINE_DOUBTS_MAX = 2
const DOUBTS_MAX = 5

/** Seconds until the next attempt after `attempt` (counted from 1): doubles from 5 min to at most 4 h, ±20 % by
 *  `random()` in [0, 1). */
export function retryAfterS (attempt: number, random: () => number, plan: RetryPlan = RETRY): number {
  const gapS = Math.min(plan.maxS, plan.firstS * 2 ** Math.min(attempt - 1, 30))
  return gapS * (1 - JITTER + 2 * JITTER * random())
}

/** The Message-ID of every copy for one recipient: it names the recipient too, so that whatever comes back can be told
 *  apart. */
export function messageIdOf (request: Pick<EmailRequested['data'], 'email' | 'from'>, n: number): string {
  return `<${request.email}.${n}@${domainOf(request.from.address)}>`
}

/** A time that has passed by no more than this means now: clocks differ, and a request may be sent again. */
const PAST_MS_MAX = 300_000
/** After a lease: clocks differ, and the sender's own words, or the doubt that another sender records, are to come
 *  first. */
const LEASE_OVER_MS = 300_000
/** What must be left of the content's time when a scheduled email goes out: three days of attempts, and one. */
const SCHEDULE_MARGIN_MS = 4 * 86_400_000

/** Why nothing can be scheduled for then, or null. Unix ms; `contentEndsMs` = when the content is gone. */
export function scheduleFault (atMs: number, nowMs: number, contentEndsMs: number): Refusal | null {
  if (atMs < nowMs - PAST_MS_MAX) return new Refusal('in_the_past', 'scheduled_at must not be in the past.')
  const lastMs = contentEndsMs - SCHEDULE_MARGIN_MS
  if (atMs <= lastMs) return null
  return new Refusal(
    'too_late',
    `scheduled_at must be ${new Date(lastMs).toISOString()} or earlier: content is not kept for longer.`
  )
}

/** What came of a transaction, before it is a fact. `hostTrouble` = the server or the way to it, not this message, was
 *  the matter; `untried` = there was no transaction at all: the server is left alone until then, after it gave another
 *  mail this reply (null = none). */
export type Outcome =
  | { kind: 'delivered', reply: SmtpReply }
  | {
    kind: 'deferred'
    reply: SmtpReply | null
    error: string | null
    class: string
    hostTrouble: boolean
    untried?: { code: number | null, enhanced: string | null, until: string }
  }
  /** `reply` null: no server was asked, and `error` and `status` (RFC 3463) say why. */
  | { kind: 'bounced', reply: SmtpReply | null, status: string | null, error: string | null, class: string }

export interface Transaction {
  host: string | null
  /** The host's IP address. */
  address?: string
  tls: { version: string, cipher: string, verified: boolean } | null
  /** Why there was no TLS. */
  plain?: Static<typeof Plain>
  via: 'relay' | 'mx'
  /** Milliseconds from the first command to the reply. */
  ms: number
  /** Which; left out = SMTP_URL's. */
  route?: string
  /** The address of ours that it went from, where the route says which. */
  source?: string
}

export type RecipientCommand =
  | {
    name: 'Claim'
    worker: string
    leaseUntil: string
    messageId: string
    date: string
    renderer: string
    digest: string
    due: boolean
    route?: string
  }
  /** `claim` = id of the claim the transaction was finished under; null when it ended before it had one. */
  | {
    name: 'RecordOutcome'
    claim: string | null
    attempt: number
    stage: SmtpStage
    transaction: Transaction
    outcome: Outcome
  }
  /** A report came back that says no for good; `report` = the mail it came in. */
  | {
    name: 'RecordReport'
    report: string
    host: string | null
    reply: SmtpReply | null
    status: string | null
    error: string | null
    class: string
  }
  /** A relay says that the next server has taken the mail. */
  | { name: 'RecordArrival', host: string | null, reply: SmtpReply }
  | { name: 'Doubt', claim: string, cause: 'sender' | 'line' }
  | { name: 'Fail', reason: 'expired' | 'unsendable', detail: string | null }
  | { name: 'Suppress', reason: SuppressionReason }
  | { name: 'Cancel' }
  | { name: 'Reschedule', scheduledAt: string, expiresAt: string }
  | { name: 'Retry', expiresAt: string }

/** What a rule may know besides the state. */
export interface DecisionContext {
  nowMs: number
  request: Pick<EmailRequested['data'], 'expiresAt' | 'onDoubt'>
  random: () => number
  retry: RetryPlan
  /** Id of a claim of our own under which no dot was sent: it binds nobody. */
  voidClaim: string | null
}

type SharedKeys = 'email' | 'n' | 'request' | 'to' | 'sequence' | 'event' | 'from' | 'tags'
type DecisionOf<F> = F extends RecipientFact ? { type: F['type'], data: Omit<F['data'], SharedKeys> } : never

/** A fact yet without its recipient, id and time. */
export type Decision = DecisionOf<RecipientFact>

/** The fact that follows, nothing when it has been said, or why not. */
export function decide (
  state: RecipientState,
  command: RecipientCommand,
  given: DecisionContext
): Decision | null | Refusal {
  if (state.erased) return decideNothing(command)
  switch (command.name) {
    case 'Claim':
      return claim(state, command, given)
    case 'RecordOutcome':
      return recordOutcome(state, command, given)
    case 'RecordReport':
      return recordReport(state, command, given)
    case 'RecordArrival':
      return recordArrival(state, command, given)
    case 'Doubt':
      return doubt(state, command, given)
    case 'Fail':
      return fail(state, command, given)
    case 'Suppress':
      return refuseTransaction(state, given) ?? { type: 'email.suppressed', data: { reason: command.reason } }
    case 'Cancel':
      return cancel(state)
    case 'Reschedule':
      return reschedule(state, command)
    case 'Retry':
      return retry(state, command)
  }
}

/** Of who is forgotten nothing more is said: what has happened is void, and what is asked for is refused. */
function decideNothing ({ name }: RecipientCommand): null | Refusal {
  const tells = name === 'RecordOutcome' || name === 'RecordReport' || name === 'RecordArrival' || name === 'Doubt' ||
    name === 'Fail'
  return tells ? null : new Refusal('erased', 'The recipient is erased.')
}

type Named<Name extends RecipientCommand['name']> = Extract<RecipientCommand, { name: Name }>

function claim (state: RecipientState, command: Named<'Claim'>, given: DecisionContext): Decision | Refusal {
  const { name: _name, ...data } = command
  const refusal = refuseTransaction(state, given)
  if (refusal !== null) return refusal
  return { type: 'email.attempted', data: { ...data, attempt: state.attempts + 1, date: state.date ?? data.date } }
}

/** A transaction may begin unless the recipient is settled, held or somebody else's. */
function refuseTransaction (state: RecipientState, given: DecisionContext): Refusal | null {
  if (isTerminal(state)) return new Refusal('settled', `The recipient is ${state.status}.`)
  if (state.held) return new Refusal('held', 'The recipient is in doubt and held.')
  if (state.status === 'sending' && state.claim?.id !== given.voidClaim) {
    return new Refusal('claimed', 'Another worker holds the claim.')
  }
  return null
}

function recordOutcome (
  state: RecipientState,
  command: Named<'RecordOutcome'>,
  given: DecisionContext
): Decision | null {
  // Only its delivery tells more than a cancel: an earlier copy was on its way when the others were called off.
  const arrivedAfterAll = state.status === 'canceled' && command.claim !== null && command.outcome.kind === 'delivered'
  if (isTerminal(state) && !arrivedAfterAll) return null
  const counts = command.claim === null
    ? countsUnclaimed(state, command.attempt, given)
    : countsClaimed(state, command.claim, command.outcome)
  return counts ? outcomeFact(state, command, given) : null
}

/** Before the dot nothing was done: what came of it says nothing about a transaction of somebody else's, nor does it
 *  resolve a held doubt. */
function countsUnclaimed (state: RecipientState, attempt: number, given: DecisionContext): boolean {
  return attempt > state.attempts && refuseTransaction(state, given) === null
}

/** A late reply under a claim that others have given up: only a delivery still matters, the newer attempt will learn
 *  the rest. */
function countsClaimed (state: RecipientState, claim: string, outcome: Outcome): boolean {
  if (outcome.kind === 'delivered') return true
  return state.claim?.id === claim && (state.status === 'sending' || state.status === 'in_doubt')
}

function outcomeFact (
  state: RecipientState,
  { attempt, stage, transaction, outcome }: Named<'RecordOutcome'>,
  given: DecisionContext
): Decision {
  const shared = { attempt, ...transaction }
  switch (outcome.kind) {
    case 'delivered':
      return { type: 'email.delivered', data: { ...shared, reply: outcome.reply } }
    case 'bounced': {
      const { reply, status, error, class: why } = outcome
      return { type: 'email.bounced', data: { ...shared, stage, reply, status, error, class: why, report: null } }
    }
    case 'deferred': {
      const { reply, error, class: why, hostTrouble, untried } = outcome
      const step = hostTrouble ? Math.min(attempt, HOST_TROUBLE_STEP_MAX) : attempt
      return {
        type: 'email.deferred',
        data: {
          ...shared,
          stage,
          reply,
          error,
          class: why,
          nextAttemptAt: untried === undefined
            ? retryAt(state, step, given)
            : withinBudget(state, Date.parse(untried.until), given),
          first: state.deferrals === 0,
          ...(untried === undefined ? {} : { untried: { code: untried.code, enhanced: untried.enhanced } })
        }
      }
    }
  }
}

/** Only of what has gone out, or may have. While a claim is live its outcome comes first: the report may be quicker
 *  than the reply it follows. Once the lease is over nobody may be there to say so, and the report is what is known. */
function recordReport (
  state: RecipientState,
  { name: _name, ...said }: Named<'RecordReport'>,
  { nowMs }: DecisionContext
): Decision | null | Refusal {
  if (isLive(state, nowMs)) return outcomeFirst()
  switch (state.status) {
    case 'sending':
    case 'delivered':
    case 'deferred':
    case 'in_doubt':
      // It was put off without a try.
      if (state.attempts === 0) return null
      return {
        type: 'email.bounced',
        data: { ...said, attempt: state.attempts, stage: 'data', tls: null, via: 'mx', ms: 0 }
      }
    default:
      return null
  }
}

function isLive ({ status, claim }: RecipientState, nowMs: number): boolean {
  return status === 'sending' && claim !== null && nowMs <= Date.parse(claim.leaseUntil) + LEASE_OVER_MS
}

const outcomeFirst = () => new Refusal('claimed', 'The outcome of the transaction comes first.')

/** Only where nobody knows whether a copy has gone out: what was put off before the dot is known not to have. */
function recordArrival (
  state: RecipientState,
  { host, reply }: Named<'RecordArrival'>,
  { nowMs }: DecisionContext
): Decision | null | Refusal {
  if (isLive(state, nowMs)) return outcomeFirst()
  const inDoubt = state.status === 'sending' || state.status === 'in_doubt' ||
    (state.status === 'deferred' && state.doubts.sender + state.doubts.line > 0)
  if (!inDoubt) return null
  return { type: 'email.delivered', data: { attempt: state.attempts, host, reply, tls: null, via: 'relay', ms: 0 } }
}

/** Never past the budget's end: then the verdict is `failed`, and not later. */
function retryAt (state: RecipientState, attempt: number, given: DecisionContext): string {
  return withinBudget(state, given.nowMs + retryAfterS(attempt, given.random, given.retry) * 1000, given)
}

function withinBudget (state: RecipientState, atMs: number, { request }: DecisionContext): string {
  return new Date(Math.min(atMs, Date.parse(state.expiresAt ?? request.expiresAt))).toISOString()
}

function doubt (state: RecipientState, { claim, cause }: Named<'Doubt'>, given: DecisionContext): Decision | null {
  if (state.status !== 'sending' || state.claim?.id !== claim) return null
  const { attempt } = state.claim
  const line = state.doubts.line + (cause === 'line' ? 1 : 0)
  const held = given.request.onDoubt === 'hold' || line >= LINE_DOUBTS_MAX ||
    state.doubts.sender + state.doubts.line + 1 >= DOUBTS_MAX
  // The line's peer may need a while to recover; a dead sender leaves nothing to wait for.
  const next = cause === 'line' ? retryAt(state, 1, given) : new Date(given.nowMs).toISOString()
  return { type: 'email.in_doubt', data: { attempt, cause, held, nextAttemptAt: held ? null : next } }
}

function fail (
  state: RecipientState,
  { reason, detail }: Named<'Fail'>,
  given: DecisionContext
): Decision | null | Refusal {
  if (isTerminal(state)) return null
  return refuseTransaction(state, given) ?? { type: 'email.failed', data: { attempt: state.attempts, reason, detail } }
}

/** A recipient that waits can be canceled; a claim may be a second from its dot, and what is in doubt may have
 *  arrived. */
function cancel (state: RecipientState): Decision | Refusal {
  switch (state.status) {
    case 'scheduled':
    case 'queued':
    case 'deferred':
      return { type: 'email.canceled', data: {} }
    default:
      return new Refusal('not_cancelable', `The recipient is ${state.status}.`)
  }
}

function reschedule (
  state: RecipientState,
  { scheduledAt, expiresAt }: Named<'Reschedule'>
): Decision | null | Refusal {
  if (state.status !== 'scheduled') return new Refusal('not_scheduled', `The recipient is ${state.status}.`)
  if (state.nextAttemptAt === scheduledAt) return null
  return { type: 'email.rescheduled', data: { scheduledAt, expiresAt } }
}

/** After an end without a delivery, or when a person takes the risk of a second copy. */
function retry (state: RecipientState, { expiresAt }: Named<'Retry'>): Decision | Refusal {
  const ended = state.status === 'bounced' || state.status === 'failed' || state.status === 'suppressed' || state.held
  return ended
    ? { type: 'email.retry_requested', data: { expiresAt } }
    : new Refusal('not_retryable', `The recipient is ${state.status}.`)
}

/** What a worker who holds the recipient has to do now. */
export type NextStep =
  | { do: 'nothing' }
  | { do: 'send' }
  | { do: 'fail' }
  /** Its time has not come: the schedule must be in place. */
  | { do: 'schedule', atMs: number }
  /** Another worker is at it, until then at the latest. */
  | { do: 'wait', untilMs: number }
  | { do: 'doubt', claim: string }

/** `claimantGone` = the worker of the live claim is dead for certain. */
export function nextStep (
  state: RecipientState,
  given: Pick<DecisionContext, 'nowMs' | 'request' | 'voidClaim'>,
  claimantGone: boolean
): NextStep {
  if (isTerminal(state) || state.held || state.erased) return { do: 'nothing' }
  if (state.status === 'sending' && state.claim !== null && state.claim.id !== given.voidClaim) {
    const leaseEndsMs = Date.parse(state.claim.leaseUntil)
    return claimantGone || given.nowMs > leaseEndsMs
      ? { do: 'doubt', claim: state.claim.id }
      : { do: 'wait', untilMs: leaseEndsMs }
  }
  const expiresMs = Date.parse(state.expiresAt ?? given.request.expiresAt)
  if (given.nowMs >= expiresMs) return { do: 'fail' }
  const dueMs = state.nextAttemptAt === null ? 0 : Date.parse(state.nextAttemptAt)
  return dueMs > given.nowMs ? { do: 'schedule', atMs: dueMs } : { do: 'send' }
}
