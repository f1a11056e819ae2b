import { parseAddress } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import { advancesOf, type Doomed } from '#streams/erasure/decide.ts'
import { ErasureAdvanced, ErasureCompleted, ErasureRequested, type ErasureFact } from '#streams/erasure/facts.ts'
import { evolveErasure, type Erasure } from '#streams/erasure/state.ts'
import { subjects } from '#streams/subjects.ts'
import { newId } from '#src/base/id.ts'
import { deleteSecurely } from '#src/nats/forget.ts'
import { loadHistory } from '#src/nats/history.ts'
import { subjectsUnder } from '#src/nats/load.ts'
import type { Asker, Desk } from './desk.ts'
import { stamp, type Ledger } from './ledger.ts'
import { amongRivals } from './rivals.ts'
import { suppressionHash } from './suppression-book.ts'

/** Asks that an address be forgotten: durable when it resolves, and done by whoever has the role `scheduler`. Refuses `invalid_address`. Throws
 *  LogUnavailable. */
export async function requestErasure ({ ledger, vault }: Pick<Desk, 'ledger' | 'vault'>, asker: Asker, text: string): Promise<Erasure | Refusal> {
  const address = parseAddress(text)
  if (address === null) return new Refusal('invalid_address', 'address is not a mail address.')
  const nowMs = ledger.clock.nowMs()
  const erasure = newId('era', nowMs)
  const data = { erasure, hash: suppressionHash(address), address: vault.seal(address, erasure) }
  const fact = stamp(ErasureRequested, { ...asker, causation: null }, data, nowMs)
  await ledger.control.append([{ subject: subjects.erasure(asker.account, erasure), fact, expectedSeq: 0 }])
  return evolveErasure(null, fact)
}

/** Somebody else has finished it. */
export class Ended extends Error {}

/** An erasure as the log has it, the last sequence of its subject, and where its request lies while it does. */
export interface Standing { erasure: Erasure, seq: number, requestSeq: number | null }

/** Null when there is none. Throws when NATS does not answer. */
export async function loadErasure ({ bus }: Pick<Ledger, 'bus'>, account: string, id: string): Promise<Standing | null> {
  const facts = await loadHistory(bus, 'CONTROL', subjects.erasure(account, id))
  const erasure = facts.reduce<Erasure | null>((state, { fact }) => evolveErasure(state, fact as ErasureFact), null)
  if (erasure === null) return null
  return { erasure, seq: facts.at(-1)!.seq, requestSeq: facts.find(({ fact }) => fact.type === 'erasure.requested')?.seq ?? null }
}

/** Read at most. */
const ERASURES_MAX = 1000

/** Those of an account, newest first, a thousand at most. Throws when NATS does not answer. */
export async function loadErasures (ledger: Pick<Ledger, 'bus'>, account: string): Promise<Erasure[]> {
  const names = await subjectsUnder(ledger.bus, 'CONTROL', subjects.erasure(account, '*'))
  const newest = names.map(name => name.slice(name.lastIndexOf('.') + 1)).sort().reverse().slice(0, ERASURES_MAX)
  const found: Erasure[] = []
  for (const id of newest) found.push((await loadErasure(ledger, account, id))!.erasure)
  return found
}

/** Tells what is about to be deleted, and deletes it, in that order: so that whoever finds it gone finds why. Things are deleted in the order they are given.
 *  Safe to repeat, and for several at once. Throws Ended, LogUnavailable, Conflict, or when NATS does not answer. */
export async function forget (ledger: Ledger, { account, id }: Pick<Erasure, 'account' | 'id'>, doomed: readonly Doomed[]): Promise<void> {
  if (doomed.length === 0) return
  await amongRivals(async () => {
    const standing = await loadErasure(ledger, account, id)
    if (standing === null || standing.erasure.completedAt !== null) throw new Ended(`${id} has ended`)
    const { erasure, seq } = standing
    const cause = { account, correlation: erasure.correlation, causation: null }
    const shared = { erasure: id, hash: erasure.hash, requestedAt: erasure.requestedAt }
    const nowMs = ledger.clock.nowMs()
    const facts = advancesOf(erasure, doomed).map(advance => stamp(ErasureAdvanced, cause, { ...shared, ...advance }, nowMs))
    if (facts.length === 0) return
    await ledger.control.append(facts.map((fact, i) => ({ subject: subjects.erasure(account, id), fact, ...(i === 0 ? { expectedSeq: seq } : {}) })))
  })
  for (const { stream, seqs } of doomed) await deleteSecurely(ledger.bus, stream, seqs)
}

/** Deletes what was told of and may not have been deleted when its worker died. */
export async function keepWord ({ bus }: Ledger, { told }: Erasure): Promise<void> {
  for (const [stream, seqs] of told) await deleteSecurely(bus, stream, [...seqs])
}

/** Nothing is left to do: the sealed address goes, and the receipt comes. Said twice, happened once. Throws LogUnavailable, Conflict, or when NATS does not
 *  answer. */
export async function completeErasure (ledger: Ledger, { account, id }: Pick<Erasure, 'account' | 'id'>): Promise<void> {
  const before = await loadErasure(ledger, account, id)
  if (before === null || before.erasure.completedAt !== null) return
  if (before.requestSeq !== null) await forget(ledger, before.erasure, [{ stream: 'CONTROL', seqs: [before.requestSeq], counts: {} }])
  await amongRivals(async () => {
    const { erasure, seq } = (await loadErasure(ledger, account, id))!
    if (erasure.completedAt !== null) return
    const { hash, requestedAt, counts, correlation } = erasure
    const fact = stamp(ErasureCompleted, { account, correlation, causation: null }, { erasure: id, hash, requestedAt, counts }, ledger.clock.nowMs())
    await ledger.control.append([{ subject: subjects.erasure(account, id), fact, expectedSeq: seq }])
  })
}
