import { Refusal } from '#streams/define.ts'
import { advancesOf, type ToDelete } from '#streams/erasure/decide.ts'
import { ErasureAdvanced, ErasureCompleted, ErasureRequested, type ErasureFact } from '#streams/erasure/facts.ts'
import { evolveErasure, type ErasureState } from '#streams/erasure/state.ts'
import { foldAddress, mailAddress } from '#streams/suppression/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { newId } from '#src/base/id.ts'
import type { Vault } from '#src/base/secret.ts'
import { deleteSecurely } from '#src/nats/blobs.ts'
import { readFacts } from '#src/nats/range.ts'
import { subjectsUnder } from '#src/nats/status.ts'
import type { Asker, Services } from './services.ts'
import { askedBy, stamp, type FactLog } from './fact-log.ts'
import { retryOnConflict } from './retry-on-conflict.ts'

/** Requests the erasure of an address: durable when it resolves, and carried out by the role `scheduler`. Refuses
 *  `invalid_address`. Throws LogUnavailable. */
export async function requestErasure (
  { factLog, vault }: Pick<Services, 'factLog' | 'vault'>,
  asker: Asker,
  text: string
): Promise<ErasureState | Refusal> {
  const address = mailAddress(text)
  if (address instanceof Refusal) return address
  const nowMs = factLog.clock.nowMs()
  const erasure = newId('era', nowMs)
  const data = { erasure, hash: erasureHashes(vault, asker.account, address)[0], address: vault.seal(address, erasure) }
  const fact = stamp(ErasureRequested, askedBy(asker), data, nowMs)
  await factLog.append([{ fact, expectedSeq: 0 }])
  return evolveErasure(null, fact)
}

/** What stands for an address once it is erased: the same for each erasure of it in an account, and nothing that who
 *  guesses the address could check without JETPOST_SECRET. Hex; by each secret, newest first: an erasure has the one
 *  that was the newest then. */
export function erasureHashes (
  vault: Pick<Vault, 'derive'>,
  account: string,
  address: string
): [newest: string, ...older: string[]] {
  const hex = (text: string) => Buffer.from(text, 'base64url').toString('hex')
  const [newest, ...older] = vault.derive(`${account} ${foldAddress(address)}`, 'erasure')
  return [hex(newest), ...older.map(hex)]
}

/** Somebody else has finished it. */
export class Ended extends Error {}

/** An erasure as the log has it, the last sequence of its subject, and where its request lies while it does. */
export interface LoadedErasure {
  erasure: ErasureState
  seq: number
  requestSeq: number | null
}

/** Null when there is none. Throws when NATS does not answer. */
export async function loadErasure (
  { bus }: Pick<FactLog, 'bus'>,
  account: string,
  id: string
): Promise<LoadedErasure | null> {
  const facts = await readFacts(bus, 'CONTROL', subjects.erasure(account, id), 'leader')
  const erasure = facts.reduce<ErasureState | null>(
    (state, { fact }) => evolveErasure(state, fact as ErasureFact),
    null
  )
  if (erasure === null) return null
  return {
    erasure,
    seq: facts.at(-1)!.seq,
    requestSeq: facts.find(({ fact }) => fact.type === 'erasure.requested')?.seq ?? null
  }
}

/** Read at most. */
const ERASURES_MAX = 1000

/** Those of an account, newest first, a thousand at most. Throws when NATS does not answer. */
export async function loadErasures (factLog: Pick<FactLog, 'bus'>, account: string): Promise<ErasureState[]> {
  const names = await subjectsUnder(factLog.bus, 'CONTROL', subjects.erasure(account, '*'))
  const newest = names.map(name => name.slice(name.lastIndexOf('.') + 1)).sort().reverse().slice(0, ERASURES_MAX)
  const found: ErasureState[] = []
  for (const id of newest) found.push((await loadErasure(factLog, account, id))!.erasure)
  return found
}

/** Announces what is about to be deleted, then deletes it: where something is gone, a fact says why. Things
 *  are deleted in the order they are given. Safe to repeat, and for several at once. Throws Ended, LogUnavailable,
 *  Conflict, or when NATS does not answer. */
export async function forget (
  factLog: FactLog,
  { account, id }: Pick<ErasureState, 'account' | 'id'>,
  toDelete: readonly ToDelete[]
): Promise<void> {
  if (toDelete.length === 0) return
  await retryOnConflict(async () => {
    const standing = await loadErasure(factLog, account, id)
    if (standing === null || standing.erasure.completedAt !== null) throw new Ended(`${id} has ended`)
    const { erasure, seq } = standing
    const cause = askedBy(erasure)
    const shared = { erasure: id, hash: erasure.hash, requestedAt: erasure.requestedAt }
    const nowMs = factLog.clock.nowMs()
    const facts = advancesOf(erasure, toDelete).map(advance =>
      stamp(ErasureAdvanced, cause, { ...shared, ...advance }, nowMs)
    )
    if (facts.length === 0) return
    await factLog.append(facts.map((fact, i) => (i === 0 ? { fact, expectedSeq: seq } : { fact })))
  })
  for (const { stream, seqs } of toDelete) await deleteSecurely(factLog.bus, stream, seqs)
}

/** Deletes what was announced, and may not have been deleted when its worker died. */
export async function deleteAnnounced ({ bus }: FactLog, { announced }: ErasureState): Promise<void> {
  for (const [stream, seqs] of announced) await deleteSecurely(bus, stream, [...seqs])
}

/** Nothing is left to do: the sealed address goes, and the receipt comes. Said twice, happened once. Throws
 *  LogUnavailable, Conflict, or when NATS does not answer. */
export async function completeErasure (
  factLog: FactLog,
  { account, id }: Pick<ErasureState, 'account' | 'id'>
): Promise<void> {
  const before = await loadErasure(factLog, account, id)
  if (before === null || before.erasure.completedAt !== null) return
  if (before.requestSeq !== null) {
    await forget(factLog, before.erasure, [{ stream: 'CONTROL', seqs: [before.requestSeq], counts: {} }])
  }
  await retryOnConflict(async () => {
    const { erasure, seq } = (await loadErasure(factLog, account, id))!
    if (erasure.completedAt !== null) return
    const { hash, requestedAt, counts } = erasure
    const fact = stamp(ErasureCompleted, askedBy(erasure), {
      erasure: id,
      hash,
      requestedAt,
      counts
    }, factLog.clock.nowMs())
    await factLog.append([{ fact, expectedSeq: seq }])
  })
}
