import type { ToDelete } from '#streams/erasure/decide.ts'
import type { ErasureState } from '#streams/erasure/state.ts'
import { foldAddress } from '#streams/suppression/decide.ts'
import type { Services } from './services.ts'
import { completeErasure, forget, deleteAnnounced, loadErasure } from './erasure.ts'
import { find, isNothing, noFindings, type ErasureFindings } from './erasure-find.ts'
import { callOff, eraseRecipients } from './erasure-recipients.ts'
import { eraseRequest, type RequestEraser } from './erasure-request.ts'
import { eraseClaims, eraseSuppression, readMails } from './erasure-rest.ts'

type WorkingServices = Pick<Services, 'factLog' | 'vault' | 'tokens' | 'settings'>

/** One erasure, worked on by one process. What is remembered here only saves reading: a worker that knows nothing
 *  reads the whole log again. */
export interface Eraser {
  /** Does what can be done now. `waiting` = somebody else comes first: a transaction under way, a mail or a fact that
   *  has yet to be read; `clean` = there is nothing left, and has not been for `quietMs`; `done` = the receipt is in
   *  the log. Throws LogUnavailable, Conflict, Ended, or when NATS does not answer. */
  round(): Promise<'waiting' | 'working' | 'clean' | 'done'>
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
  signal: AbortSignal
}

/** Emails at once: so that a fact tells of many of them, and not of more than it can. */
const GROUP = 50

export function createEraser ({ services, account, id, quietMs, signal }: EraserOptions): Eraser {
  const { factLog } = services
  const found = noFindings()
  let begun = false
  let quietSinceMs = 0

  async function round (): Promise<'waiting' | 'working' | 'clean' | 'done'> {
    const standing = await loadErasure(factLog, account, id)
    if (standing === null || standing.erasure.completedAt !== null) return 'done'
    const { erasure } = standing
    if (!begun) await deleteAnnounced(factLog, erasure)
    // Announced last of all: nothing else was left then.
    if (erasure.address === null) return 'clean'
    const address = foldAddress(services.vault.open(erasure.address, id))
    const before = performance.now()
    await find(factLog.bus, services.tokens, { account, id, address }, found, signal)
    const suppressions = await eraseSuppression(factLog, erasure)
    if (signal.aborted) return 'working'
    if (begun && isNothing(found) && suppressions.length === 0) {
      return before - quietSinceMs >= quietMs
        ? 'clean'
        : 'working'
    }
    begun = true
    await forget(factLog, erasure, [...suppressions, ...await eraseClaims(factLog, address, found.claims)])
    await eraseEmails({ factLog, settings: services.settings, erasure, address }, found, signal)
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
        await callOff(factLog, erasure.account, trace) ? await eraseRecipients(factLog, erasure, trace) : null
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
