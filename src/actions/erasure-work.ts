import { RequestClaimed } from '#streams/email/facts.ts'
import type { ToDelete } from '#streams/erasure/decide.ts'
import type { ErasureState } from '#streams/erasure/state.ts'
import { subjects } from '#streams/subjects.ts'
import { foldAddress, type SuppressionFact } from '#streams/suppression/decide.ts'
import { SuppressionAdded, SuppressionRemoved } from '#streams/suppression/facts.ts'
import { CLAIM_MS, consumerPlans } from '#streams/topology.ts'
import { factAt } from '#src/nats/certain.ts'
import { getFact } from '#src/nats/get.ts'
import { readFacts } from '#src/nats/range.ts'
import { ackFloorOf } from '#src/nats/status.ts'
import { cleanerOf, find, isNothing, noFindings, withoutAddress, type ErasureFindings } from './erasure-find.ts'
import { callOff, eraseRecipients } from './erasure-recipients.ts'
import { eraseRequest, type RequestEraser } from './erasure-request.ts'
import { completeErasure, deleteAnnounced, forget, loadErasure } from './erasure.ts'
import { causedBy, stamp, type FactLog } from './fact-log.ts'
import { retryOnConflict } from './retry-on-conflict.ts'
import type { Services } from './services.ts'
import { suppressionHash } from './suppression-store.ts'

type WorkingServices = Pick<Services, 'factLog' | 'vault' | 'tokens' | 'settings'>

/** One erasure, worked on by one process. What is remembered here only saves reading: a worker that knows nothing
 *  reads the whole log again. */
export interface Eraser {
  /** Does what can be done now, until `signal` is aborted. `waiting` = somebody else comes first: a transaction under
   *  way, a mail or a fact that has yet to be read; `clean` = there is nothing left, and has not been for `quietMs`;
   *  `done` = the receipt is in the log. Throws LogUnavailable, Conflict, Ended, or when NATS does not answer. */
  round(signal: AbortSignal): Promise<'waiting' | 'working' | 'clean' | 'done'>
  /** Nothing is left, in the log and in the views. Throws like `round`. */
  complete(): Promise<void>
}

export interface EraserOptions {
  services: WorkingServices
  account: string
  id: string
  /** So long after the last deletion the log must have had nothing more: who had read what is gone may have been about
   *  to write. */
  quietMs: number
}

/** Emails at once: so that a fact tells of many of them, and not of more than it can. */
const GROUP = 50

export function createEraser ({ services, account, id, quietMs }: EraserOptions): Eraser {
  const { factLog } = services
  const found = noFindings()
  let begun = false
  let quietSinceMs = 0

  async function round (signal: AbortSignal): Promise<'waiting' | 'working' | 'clean' | 'done'> {
    const standing = await loadErasure(factLog, account, id)
    if (standing === null || standing.erasure.completedAt !== null) return 'done'
    const { erasure } = standing
    if (!begun) await deleteAnnounced(factLog, erasure)
    // Announced last of all: nothing else was left then.
    if (erasure.address === null) return 'clean'
    const address = foldAddress(services.vault.open(erasure.address, id))
    const before = performance.now()
    await find(factLog.bus, services.tokens, { account, id, address }, found, signal)
    const suppressions = await eraseSuppression(factLog, account, address)
    if (signal.aborted) return 'working'
    if (begun && isNothing(found) && suppressions.length === 0) {
      return before - quietSinceMs >= quietMs
        ? 'clean'
        : 'working'
    }
    begun = true
    await forget(factLog, erasure, [...suppressions, ...await eraseClaims(factLog, address, found.claims)])
    const eraser = { factLog, settings: services.settings, erasure, address, clean: cleanerOf(address) }
    await eraseEmails(eraser, found, signal)
    await settleMails(erasure)
    found.claims.clear()
    quietSinceMs = performance.now()
    return isNothing(found) ? 'working' : 'waiting'
  }

  /** Those that are gone are found no more. */
  async function settleMails (erasure: ErasureState): Promise<void> {
    const read = await readMails(factLog, found)
    await forget(factLog, erasure, read)
    for (const { seqs } of read) for (const seq of seqs) found.inbound.delete(seq)
  }

  return { round, complete: () => completeErasure(factLog, { account, id }) }
}

/** Recipients first, then their requests: a process that dies in between is followed by one that finds the rest by
 *  the request. */
async function eraseEmails (
  eraser: RequestEraser,
  { traces, rests }: ErasureFindings,
  signal: AbortSignal
): Promise<void> {
  const { factLog, erasure } = eraser
  const all = [...traces.values()]
  for (let i = 0; i < all.length && !signal.aborted; i += GROUP) {
    const group = all.slice(i, i + GROUP)
    const gone = await Promise.all(
      group.map(async trace =>
        await callOff(factLog, erasure.account, trace) ? await eraseRecipients(eraser, trace) : null
      )
    )
    await forget(factLog, erasure, gone.flatMap(toDelete => toDelete ?? []))
    const ready = group.filter((_trace, i) => gone[i] !== null)
    const asked = await Promise.all(ready.map(trace => eraseRequest(eraser, trace, rests.get(trace.email) ?? [])))
    await forget(factLog, erasure, inOrder(asked.flat()))
    for (const { email } of ready) traces.delete(email)
  }
}

/** All requests before any record. */
function inOrder (toDelete: ToDelete[]): ToDelete[] {
  return toDelete.toSorted((a, b) => Number(b.stream === 'REQUESTS') - Number(a.stream === 'REQUESTS'))
}

/** What stands against the address goes on standing, by its hash alone. Gives what may be deleted then. Throws
 *  LogUnavailable, Conflict, or when NATS does not answer. */
async function eraseSuppression (
  factLog: FactLog,
  account: string,
  address: string
): Promise<ToDelete[]> {
  const subject = subjects.suppression(account, suppressionHash(address))
  return await retryOnConflict(async () => {
    const facts = await readFacts(factLog.bus, 'CONTROL', subject, 'leader')
    const last = facts.at(-1)
    if (last === undefined) return []
    const said = last.fact as SuppressionFact
    const nameless = said.data.address === null
    if (!nameless) await factLog.append([{ fact: withoutName(said, factLog.clock.nowMs()), expectedSeq: last.seq }])
    const seqs = (nameless ? facts.slice(0, -1) : facts).map(({ seq }) => seq)
    return seqs.length === 0 ? [] : [{ stream: 'CONTROL', seqs, counts: { suppressions: 1 } }]
  })
}

/** As of when it was said first: what happened before that is known already. */
function withoutName (said: SuppressionFact, nowMs: number): SuppressionFact {
  const { actor } = said
  const cause = { ...causedBy(said), ...(actor === undefined ? {} : { actor }) }
  const fact = said.type === 'suppression.added'
    ? stamp(SuppressionAdded, cause, { ...said.data, address: null }, nowMs)
    : stamp(SuppressionRemoved, cause, { ...said.data, address: null }, nowMs)
  return { ...fact, time: said.time } as SuppressionFact
}

/** Idempotency-Keys stay taken, for as long as they were to: their answers no longer name the address. Gives what may
 *  be deleted then. */
async function eraseClaims (
  factLog: FactLog,
  address: string,
  claims: ReadonlySet<number>
): Promise<ToDelete[]> {
  for (const seq of claims) await eraseClaim(factLog, address, seq)
  return claims.size === 0 ? [] : [{ stream: 'REQUESTS', seqs: [...claims], counts: {} }]
}

async function eraseClaim ({ bus, clock, append }: FactLog, address: string, seq: number): Promise<void> {
  const found = await factAt(bus, 'REQUESTS', seq)
  if (found?.fact.type !== 'request.claimed') return
  const { subject, fact: { time, data, account, correlation, causation } } = found
  // Its place is taken: somebody has done it; or its time has ended just now.
  if ((await getFact(bus, 'REQUESTS', { last_by_subj: subject }, 'leader'))?.seq !== seq) return
  const nowMs = clock.nowMs()
  const answer = { ...data.answer, body: withoutAddress(data.answer.body, address) }
  const fact = { ...stamp(RequestClaimed, { account, correlation, causation }, { ...data, answer }, nowMs), time }
  await append([{ fact, expectedSeq: seq, ttlMs: Math.max(1000, Date.parse(time) + CLAIM_MS - nowMs) }])
}

/** Mails that came back and have been read, which is all they were kept for; those that have not been yet stay where
 *  they are. */
async function readMails (
  { bus }: Pick<FactLog, 'bus'>,
  { inbound }: Pick<ErasureFindings, 'inbound'>
): Promise<ToDelete[]> {
  if (inbound.size === 0) return []
  const floor = await ackFloorOf(bus, consumerPlans.inbound)
  return [...inbound].filter(seq => seq <= floor).map(seq => ({
    stream: 'INBOUND',
    seqs: [seq],
    counts: { inbound: 1 }
  }))
}
