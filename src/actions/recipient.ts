import type { TSchema } from '@sinclair/typebox'
import type { FactType, Recorded } from '#streams/define.ts'
import { Refusal } from '#streams/define.ts'
import {
  decide,
  messageIdOf,
  RETRY,
  type RecipientCommand,
  type Decision,
  type DecisionContext,
  type RetryPlan
} from '#streams/email/decide.ts'
import { eventBody, eventOf } from '#streams/email/event.ts'
import {
  EmailAttempted,
  EmailBounced,
  EmailCanceled,
  EmailClicked,
  EmailComplained,
  EmailDeferred,
  EmailDelivered,
  EmailFailed,
  EmailInDoubt,
  EmailOpened,
  EmailRescheduled,
  EmailRetryRequested,
  EmailSuppressed,
  EmailUnsubscribed,
  type EngagementFact,
  type RecipientFact,
  type SubjectFact
} from '#streams/email/facts.ts'
import {
  decideEngagement,
  evolveEngagements,
  NO_ENGAGEMENTS,
  withMachine,
  type Engagement,
  type EngagementDecision,
  type Engagements
} from '#streams/email/engagements.ts'
import { evolve, newRecipient, type RecipientState } from '#streams/email/state.ts'
import { subjects } from '#streams/subjects.ts'
import { backoffMs, sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import type { Pointer } from '#src/content/token.ts'
import type { Bus } from '#src/nats/connect.ts'
import { Conflict } from '#src/nats/errors.ts'
import { readFacts } from '#src/nats/range.ts'
import { standInFor } from './due-send.ts'
import { causedBy, occasionNow, stamp, type FactLog } from './fact-log.ts'
import { retryOnConflict } from './retry-on-conflict.ts'
import { lastOn, loadRequest, type StoredRequest } from './stored-request.ts'

/** Which recipient: the request as it lies in REQUESTS, and the place among its recipients. */
export interface RecipientRef {
  request: StoredRequest
  n: number
}

/** A recipient as last seen; `seq` is its subject's last sequence then, 0 when it has no fact. */
export interface Seen {
  state: RecipientState
  seq: number
}

/** The only writer of facts about recipients. */
export interface Recipients {
  /** What a recipient is taken for without reading: nothing has happened yet. Right for nearly every first delivery,
   *  and the log tells when not. */
  unread(ref: RecipientRef): Seen
  /** Reads the subject. Throws when NATS does not answer. */
  load(ref: RecipientRef): Promise<Seen>
  /** Appends the claim within `timeoutMs`. Throws Conflict or LogUnavailable; a Refusal when the rules forbid it. */
  claim(ref: RecipientRef, seen: Seen, claim: ClaimData, options: ClaimOptions): Promise<Seen | Refusal>
  /** Records what has happened, however long NATS is away: it resolves once the log says it, or something that makes it
   *  void. */
  record(
    ref: RecipientRef,
    seen: Seen,
    command: Exclude<RecipientCommand, { name: 'Claim' }>,
    voidClaim: string | null
  ): Promise<Recording>
}

/** `stored` = the fact is in the log; else what the log says makes it void. */
export interface Recording {
  seen: Seen
  stored: boolean
}

type ClaimData = Omit<Extract<RecipientCommand, { name: 'Claim' }>, 'name'>

export interface ClaimOptions {
  voidClaim: string | null
  timeoutMs: number
}

export interface RecipientsOptions {
  factLog: FactLog
  log: Log
  random: () => number
  retry: RetryPlan
}

const TYPES: Record<Decision['type'] | Engagement['type'], FactType<string, TSchema>> = {
  'email.attempted': EmailAttempted,
  'email.delivered': EmailDelivered,
  'email.deferred': EmailDeferred,
  'email.bounced': EmailBounced,
  'email.failed': EmailFailed,
  'email.in_doubt': EmailInDoubt,
  'email.suppressed': EmailSuppressed,
  'email.rescheduled': EmailRescheduled,
  'email.canceled': EmailCanceled,
  'email.retry_requested': EmailRetryRequested,
  'email.opened': EmailOpened,
  'email.clicked': EmailClicked,
  'email.complained': EmailComplained,
  'email.unsubscribed': EmailUnsubscribed
}

export function openRecipients ({ factLog, log, random, retry }: RecipientsOptions): Recipients {
  const load = (ref: RecipientRef) => loadRecipient(factLog.bus, ref)

  async function claim (
    ref: RecipientRef,
    seen: Seen,
    command: ClaimData,
    options: ClaimOptions
  ): Promise<Seen | Refusal> {
    const nowMs = factLog.clock.nowMs()
    const decision = decide(seen.state, { name: 'Claim', ...command }, given(ref, nowMs, options.voidClaim))
    if (decision === null || decision instanceof Refusal) {
      return decision ?? new Refusal('settled', 'There is nothing to claim.')
    }
    return appendFact(factLog, seen, factOf(ref, seen.state.facts + 1, decision, nowMs), options.timeoutMs)
  }

  async function record (
    ref: RecipientRef,
    seen: Seen,
    command: RecipientCommand,
    voidClaim: string | null
  ): Promise<Recording> {
    for (let current = seen;;) {
      const nowMs = factLog.clock.nowMs()
      const decision = decide(current.state, command, given(ref, nowMs, voidClaim))
      if (decision === null || decision instanceof Refusal) return { seen: current, stored: false }
      const stored = await appendSurely(current, factOf(ref, current.state.facts + 1, decision, nowMs))
      if (stored !== null) return { seen: stored, stored: true }
      current = await untilDone('recipient cannot be read', () => load(ref))
    }
  }

  /** The same fact again and again until the log has it; null when the subject has moved on. */
  function appendSurely (seen: Seen, fact: RecipientFact): Promise<Seen | null> {
    return untilDone('outcome waits to be stored', () =>
      appendFact(factLog, seen, fact, 5000).catch(error => {
        if (error instanceof Conflict) return null
        throw error
      }))
  }

  async function untilDone<T> (failure: string, act: () => Promise<T>): Promise<T> {
    for (let attempt = 1;; attempt++) {
      try {
        return await act()
      } catch (error) {
        log.warn({ err: error, attempt }, `${failure}; trying again`)
      }
      await sleep(backoffMs(attempt, 100, 2000))
    }
  }

  function given ({ request }: RecipientRef, nowMs: number, voidClaim: string | null): DecisionContext {
    return { nowMs, request: request.fact.data, random, retry, voidClaim }
  }

  return { unread, load, claim, record }
}

function unread ({ request }: RecipientRef): Seen {
  return { state: newRecipient(request.fact.data.scheduledAt), seq: 0 }
}

/** Reads the facts of a recipient. Throws when NATS does not answer. */
export async function loadRecipient (bus: Bus, ref: RecipientRef): Promise<Seen> {
  return seenIn(ref, await loadFacts(bus, ref))
}

function seenIn (ref: RecipientRef, facts: Recorded<SubjectFact>[]): Seen {
  return facts.reduce((seen, { fact, seq }) => ({ state: evolve(seen.state, fact), seq }), unread(ref))
}

const CHANGE_TIMEOUT_MS = 5000

/** What is asked of a recipient from outside of its sending; `null` = nothing, it is left as it is. */
export type RecipientChange = Extract<RecipientCommand, { name: 'Cancel' | 'Reschedule' | 'Retry' | 'Doubt' }> | null

/** What is asked of some recipients, decided by the log: all are read, decided upon and changed in one append, and all
 *  over again when somebody else was quicker. Resolves, in their order, to what each is now, and the refusal where the
 *  rules forbid it (a change of null refuses nothing and changes nothing). Throws LogUnavailable, or Conflict when
 *  conflicts do not end. */
export async function changeRecipients (
  factLog: FactLog,
  changes: ReadonlyArray<{ ref: RecipientRef, change: RecipientChange }>
): Promise<Array<{ seen: Seen, refusal: Refusal | null }>> {
  return await retryOnConflict(async () => {
    const nowMs = factLog.clock.nowMs()
    const decided = await Promise.all(changes.map(async ({ ref, change }) => {
      const seen = await loadRecipient(factLog.bus, ref)
      const decision = change === null ? null : decide(seen.state, change, givenNow(ref, nowMs))
      if (decision === null || decision instanceof Refusal) return { ref, seen, refusal: decision, fact: null }
      return { ref, seen, refusal: null, fact: factOf(ref, seen.state.facts + 1, decision, nowMs) }
    }))
    const part = decided.flatMap(({ seen, fact }) => (fact === null ? [] : { fact, expectedSeq: seen.seq }))
    const seqs = part.length === 0 ? [] : await factLog.append(part, CHANGE_TIMEOUT_MS)
    return decided.map(({ seen, refusal, fact }) => ({
      seen: fact === null ? seen : { state: evolve(seen.state, fact), seq: seqs.shift()! },
      refusal
    }))
  })
}

/** For who holds no claim. */
function givenNow ({ request }: RecipientRef, nowMs: number): DecisionContext {
  return { nowMs, request: request.fact.data, random: Math.random, retry: RETRY, voidClaim: null }
}

/** Records what a report that came back, or a relay, says. `stored` = it is in the log; a Refusal = its time has
 * not come, an outcome is under way. Throws LogUnavailable, or Conflict when conflicts do not end. */
export async function recordReport (
  factLog: FactLog,
  ref: RecipientRef,
  command: Extract<RecipientCommand, { name: 'RecordReport' | 'RecordArrival' }>
): Promise<{ stored: boolean } | Refusal> {
  return await retryOnConflict(async () => {
    const nowMs = factLog.clock.nowMs()
    const [recorded, engagements] = await Promise.all([
      loadFacts(factLog.bus, ref),
      loadEngagements(factLog.bus, ref)
    ])
    const seen = seenIn(ref, recorded)
    // A mail is read again when its reader died: what it said of an earlier attempt says nothing of one that was asked
    // for since.
    const isKnown = command.name === 'RecordReport' &&
      recorded.some(({ fact }) => fact.type === 'email.bounced' && fact.data.report === command.report)
    const decision = isKnown ? null : decide(seen.state, command, givenNow(ref, nowMs))
    if (decision === null) return { stored: false }
    if (decision instanceof Refusal) return decision
    const fact = factOf(ref, seen.state.facts + engagements.facts + 1, decision, nowMs)
    await factLog.append([{ fact, expectedSeq: seen.seq }], CHANGE_TIMEOUT_MS)
    return { stored: true }
  })
}

/** Records what the recipient did with the mail; false = it has been said already. Throws LogUnavailable, or Conflict
 *  when conflicts do not end. */
export async function recordEngagement (
  factLog: FactLog,
  ref: RecipientRef,
  engagement: Engagement,
  occasion = occasionNow(factLog)
): Promise<boolean> {
  const { id, atMs } = occasion
  return await retryOnConflict(async () => {
    const [recorded, engagements] = await Promise.all([
      loadFacts(factLog.bus, ref),
      loadEngagements(factLog.bus, ref)
    ])
    const facts = recorded.map(({ fact }) => fact)
    const isNew = facts.every(isOutcome) && !engagements.ids.has(id)
    const decision = isNew ? decideEngagement(engagements.state, withMachine(engagement, facts, atMs)) : null
    if (decision === null) return false
    const fact = factOf(ref, recorded.length + engagements.facts + 1, decision, atMs, id)
    await factLog.append([{ fact, expectedSeq: engagements.seq }], CHANGE_TIMEOUT_MS)
    return true
  })
}

async function loadFacts (bus: Bus, ref: RecipientRef): Promise<Recorded<SubjectFact>[]> {
  return await readFacts(bus, 'EMAILS', subjectOf(ref)) as Recorded<SubjectFact>[]
}

/** Any but the one that stands in the place of all. */
function isOutcome (fact: SubjectFact): fact is RecipientFact {
  return fact.type !== 'email.erased'
}

async function loadEngagements (
  bus: Bus,
  ref: RecipientRef
): Promise<{ state: Engagements, facts: number, ids: Set<string>, seq: number }> {
  const found = await readFacts(bus, 'EMAILS', engagementSubjectOf(ref))
  // Of who is forgotten nothing more is counted.
  const state = found.filter(({ fact }) => fact.type !== 'email.erased').reduce(
    (state, { fact }) => evolveEngagements(state, fact as EngagementFact),
    NO_ENGAGEMENTS
  )
  return { state, facts: found.length, ids: new Set(found.map(({ fact }) => fact.id)), seq: found.at(-1)?.seq ?? 0 }
}

/** Whom something that came back is about, by the pointer of one of our tokens; null when nothing is known of it any
 *  more. `patient` and what is thrown: as with `loadRequest`. */
export async function recipientRefOf (
  factLog: FactLog,
  { email, n, request: seq }: Pointer,
  patient = false
): Promise<RecipientRef | null> {
  const request = await loadRequest(factLog.bus, seq, email, patient)
  if (request !== null) return n < request.fact.data.recipients.length ? { request, n } : null
  const last = await lastOn(factLog.bus, subjects.recipientOfAny(email, n), patient)
  return last === null
    ? null
    : { request: await standInFor(factLog, { account: last.fact.account, email, n, request: seq }), n }
}

/** The same by the name that our Message-ID gives it, which anybody can write: only for who is known to us. */
export async function recipientRefNamed (
  factLog: FactLog,
  { email, n }: Pick<Pointer, 'email' | 'n'>,
  patient = false
): Promise<RecipientRef | null> {
  const last = await lastOn(factLog.bus, subjects.recipientOfAny(email, n), patient)
  if (last === null) return null
  const { request } = (last.fact as SubjectFact).data
  return await recipientRefOf(factLog, { email, n, request }, patient)
}

async function appendFact (
  { append }: FactLog,
  seen: Seen,
  fact: RecipientFact,
  timeoutMs: number
): Promise<Seen> {
  const [seq] = await append([{ fact, expectedSeq: seen.seq }], timeoutMs)
  return { state: evolve(seen.state, fact), seq: seq! }
}

export function subjectOf ({ request: { fact }, n }: RecipientRef): string {
  return subjects.recipient(fact.account, fact.data.email, n)
}

function engagementSubjectOf ({ request: { fact }, n }: RecipientRef): string {
  return subjects.engagement(fact.account, fact.data.email, n)
}

/** Stamps a decision, and gives it the very bytes of its webhook event where it is one. `sequence` = its number among
 *  all facts of the recipient. */
function factOf<D extends Decision | EngagementDecision> (
  { request, n }: RecipientRef,
  sequence: number,
  decision: D,
  nowMs: number,
  id = newId('ev', nowMs)
): Extract<RecipientFact | EngagementFact, { type: D['type'] }> {
  const { fact: { data: asked } } = request
  const to = asked.recipients[n]!.address
  const event = eventOf(decision)
  const body = event === null
    ? {}
    : {
      event: eventBody({
        id,
        createdAt: timestamp(nowMs),
        ...event,
        request: asked,
        recipient: { to, messageId: messageIdOf(asked, n), sequence }
      })
    }
  // Without an event nothing else says what the fact is counted by.
  const counted = decision.type === 'email.suppressed' || decision.type === 'email.canceled'
    ? { from: asked.from.address, tags: asked.tags }
    : {}
  const data = { email: asked.email, n, request: request.seq, to, sequence, ...counted, ...decision.data, ...body }
  const cause = { ...causedBy(request.fact), ...(request.idUnknown === true ? { causation: null } : {}) }
  return stamp(TYPES[decision.type], cause, data, nowMs, id) as Extract<
    RecipientFact | EngagementFact,
    { type: D['type'] }
  >
}
