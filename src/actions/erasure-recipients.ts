import { nextStep } from '#streams/email/decide.ts'
import { ERASED } from '#streams/address.ts'
import { redact, type Clean } from '#streams/email/erase.ts'
import { EmailErased, type EngagementFact, type RecipientFact } from '#streams/email/facts.ts'
import type { ToDelete } from '#streams/erasure/decide.ts'
import type { ErasureState } from '#streams/erasure/state.ts'
import { subjects } from '#streams/subjects.ts'
import { consumerPlans } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import type { StoredFact } from '#src/nats/message.ts'
import { readFacts } from '#src/nats/range.ts'
import { ackFloorOf } from '#src/nats/status.ts'
import type { Trace } from './erasure-find.ts'
import { stamp, type FactLog } from './fact-log.ts'
import { standInFor } from './due-send.ts'
import { changeRecipients, loadRecipient, type RecipientRef, type RecipientChange } from './recipient.ts'
import { loadRequest } from './stored-request.ts'
import { retryOnConflict } from './retry-on-conflict.ts'

/** How often somebody else may move a recipient while it is being called off. */
const LOOKS_MAX = 10

/** Calls off what still waits for these recipients; false while a transaction is under way, whose outcome comes first.
 *  What is in doubt stays so: it may have arrived, and nothing more goes out once the recipient is erased. Throws
 *  LogUnavailable, Conflict, or when NATS does not answer. */
export async function callOff (
  factLog: FactLog,
  account: string,
  { email, ns, requests }: Trace
): Promise<boolean> {
  // Where the request is gone, or all that is left of it names others, only facts say where it was.
  const place = requests.at(-1) ?? 1
  const kept = await loadRequest(factLog.bus, place, email)
  const ended = await Promise.all([...ns].map(async n => {
    const request = kept ?? await standInFor(factLog, { account, email, n, request: place })
    return await callOffOne(factLog, { request, n })
  }))
  return ended.every(Boolean)
}

async function callOffOne (factLog: FactLog, ref: RecipientRef): Promise<boolean> {
  for (let looks = 0; looks < LOOKS_MAX; looks++) {
    const change = await changeNow(factLog, ref)
    if (change === 'wait') return false
    if (change === null) return true
    await changeRecipients(factLog, [{ ref, change }])
  }
  return false
}

/** What has to be done first; null = nothing is under way. */
async function changeNow (
  { bus, clock }: FactLog,
  ref: RecipientRef
): Promise<NonNullable<RecipientChange> | 'wait' | null> {
  const { state } = await loadRecipient(bus, ref)
  if (state.erased) return null
  switch (state.status) {
    case 'scheduled':
    case 'queued':
    case 'deferred':
      return { name: 'Cancel' }
    case 'sending': {
      // Its own sender says what became of it, or another one that it is in doubt; once the lease is over anybody may.
      const step = nextStep(state, { nowMs: clock.nowMs(), request: ref.request.fact.data, voidClaim: null }, false)
      return step.do === 'doubt' ? { name: 'Doubt', claim: step.claim, cause: 'sender' } : 'wait'
    }
    default:
      return null
  }
}

/** What reactions follow from: they read a fact when they come to it. */
const CAUSES: ReadonlySet<string> = new Set(['email.bounced', 'email.complained', 'email.unsubscribed'])

export interface RecipientEraser {
  factLog: FactLog
  erasure: ErasureState
  clean: Clean
}

/** Puts one fact in the place of all facts of a recipient; gives what may be deleted then, null while a worker
 *  has yet to read it. The engagement's subject gets its end as well, in the same append: an engagement that is on its
 *  way to it is refused there. Throws LogUnavailable, Conflict, or when NATS does not answer. */
async function eraseRecipient (
  { factLog, erasure, clean }: RecipientEraser,
  email: string,
  n: number
): Promise<{ seqs: number[], canceled: boolean } | null> {
  return await retryOnConflict(async () => {
    const [facts, engagements] = await Promise.all([
      readFacts(factLog.bus, 'EMAILS', subjects.recipient(erasure.account, email, n), 'leader'),
      readFacts(factLog.bus, 'EMAILS', subjects.engagement(erasure.account, email, n), 'leader')
    ])
    const lastCause = [...facts, ...engagements].filter(({ fact }) => CAUSES.has(fact.type)).reduce(
      (last, { seq }) => Math.max(last, seq),
      0
    )
    if (lastCause > 0 && await ackFloorOf(factLog.bus, consumerPlans.reactions) < lastCause) return null
    const past = [...facts, ...engagements].filter(isPast).sort((a, b) => a.seq - b.seq)
    if (facts.at(-1)?.fact.type !== 'email.erased') {
      const redacted = past.map(({ seq, storedMs, fact }) => ({
        seq,
        storedAt: timestamp(storedMs),
        fact: redact(fact, clean)
      }))
      await appendEnds(factLog, erasure, { email, n }, { facts, engagements, redacted })
    }
    return {
      seqs: past.map(({ seq }) => seq),
      canceled: past.some(({ fact }) => fact.type === 'email.canceled' && fact.time >= erasure.requestedAt)
    }
  })
}

type Past = StoredFact & { fact: RecipientFact | EngagementFact }

function isPast (stored: StoredFact): stored is Past {
  return stored.fact.type !== 'email.erased'
}

interface RecipientPlace {
  email: string
  n: number
}
interface RecipientHistory {
  facts: StoredFact[]
  engagements: StoredFact[]
  redacted: EmailErased['data']['past']
}

async function appendEnds (
  { clock, append }: FactLog,
  { account, correlation, id }: ErasureState,
  { email, n }: RecipientPlace,
  { facts, engagements, redacted }: RecipientHistory
): Promise<void> {
  const nowMs = clock.nowMs()
  const request = Math.max(1, ...redacted.map(({ fact }) => (fact as Past['fact']).data.request))
  const data = { email, n, request, to: ERASED, sequence: redacted.length + 1, erasure: id }
  const stamped = (past: EmailErased['data']['past']) =>
    stamp(EmailErased, { account, correlation, causation: null }, { ...data, past }, nowMs)
  await append([
    { fact: stamped(redacted), expectedSeq: facts.at(-1)?.seq ?? 0 },
    { fact: stamped([]), endsEngagements: true, expectedSeq: engagements.at(-1)?.seq ?? 0 }
  ])
}

/** What was known of a trace's recipients, ready to be deleted; null while it must not be yet. */
export async function eraseRecipients (
  eraser: RecipientEraser,
  { email, ns }: Trace
): Promise<ToDelete[] | null> {
  const first = Math.min(...ns)
  const erased = await Promise.all(
    [...ns].map(async n => ({ n, gone: await eraseRecipient(eraser, email, n) }))
  )
  if (erased.some(({ gone }) => gone === null)) return null
  return erased.map(({ n, gone }) => {
    const { seqs, canceled } = gone!
    return {
      stream: 'EMAILS',
      seqs,
      counts: { recipients: 1, emails: n === first ? 1 : 0, canceled: canceled ? 1 : 0 }
    }
  })
}
