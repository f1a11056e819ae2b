import { RequestClaimed } from '#streams/email/facts.ts'
import type { ToDelete } from '#streams/erasure/decide.ts'
import type { ErasureState } from '#streams/erasure/state.ts'
import { subjects } from '#streams/subjects.ts'
import { SuppressionAdded, SuppressionRemoved } from '#streams/suppression/facts.ts'
import type { SuppressionFact } from '#streams/suppression/state.ts'
import { CLAIM_MS, consumerPlans } from '#streams/topology.ts'
import { getFact } from '#src/nats/get.ts'
import { readFacts } from '#src/nats/range.ts'
import { ackFloorOf } from '#src/nats/status.ts'
import { withoutAddress, type ErasureFindings } from './erasure-find.ts'
import { causedBy, stamp, type FactLog } from './fact-log.ts'
import { retryOnConflict } from './retry-on-conflict.ts'

/** What stands against the address goes on standing, by its hash alone. Gives what may be deleted then. Throws
 *  LogUnavailable, Conflict, or when NATS does not answer. */
export async function eraseSuppression (
  factLog: FactLog,
  { account, hash }: Pick<ErasureState, 'account' | 'hash'>
): Promise<ToDelete[]> {
  return await retryOnConflict(async () => {
    const facts = await readFacts(factLog.bus, 'CONTROL', subjects.suppression(account, hash), 'leader')
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
  const cause = causedBy(said)
  const fact = said.type === 'suppression.added'
    ? stamp(SuppressionAdded, cause, { ...said.data, address: null }, nowMs)
    : stamp(SuppressionRemoved, cause, { ...said.data, address: null }, nowMs)
  return { ...fact, time: said.time } as SuppressionFact
}

/** Idempotency-Keys stay taken, for as long as they were to: their answers no longer name the address. Gives what may
 *  be deleted then. */
export async function eraseClaims (
  factLog: FactLog,
  address: string,
  claims: ReadonlySet<number>
): Promise<ToDelete[]> {
  for (const seq of claims) await eraseClaim(factLog, address, seq)
  return claims.size === 0 ? [] : [{ stream: 'REQUESTS', seqs: [...claims], counts: {} }]
}

async function eraseClaim ({ bus, clock, append }: FactLog, address: string, seq: number): Promise<void> {
  const found = await getFact(bus, 'REQUESTS', { seq }, 'leader')
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
export async function readMails (
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
