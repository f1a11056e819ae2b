import { groupsOf } from '#streams/groups.ts'
import { subjects } from '#streams/subjects.ts'
import { withReason, suppressionOf, type SuppressionFact } from '#streams/suppression/decide.ts'
import { SuppressionAdded, type SuppressionReason } from '#streams/suppression/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { lastSequence } from '#src/nats/get.ts'
import { lastFactsOf } from '#src/nats/lookup.ts'
import { stamp } from './fact-log.ts'
import { retryOnConflict } from './retry-on-conflict.ts'
import type { Asker, Services } from './services.ts'
import { suppressionHash } from './suppression-store.ts'

/** A normalised address that is to get no more mail, and why. */
export interface WantedSuppression {
  address: string
  reason: SuppressionReason
}

/** Facts of one append: as many as one commit takes. */
const GROUP_MAX = 250

interface Entry extends WantedSuppression {
  hash: string
}

/** Suppresses many addresses; what stands already is no fact, so doing it again does nothing. Says how many reasons it
 *  added. When it throws a part may be done: repeat it. Throws LogUnavailable, Conflict, or what `isUnanswered` knows.
 */
export async function importSuppressions (
  services: Pick<Services, 'factLog'>,
  asker: Asker,
  wanted: readonly WantedSuppression[]
): Promise<number> {
  const throughSeq = await lastSequence(services.factLog.bus, 'CONTROL')
  let added = 0
  for (const round of roundsOf(wanted)) {
    for (const group of groupsOf(round, GROUP_MAX)) {
      added += await retryOnConflict(async () => await appendMissing(services, asker, group, throughSeq))
    }
  }
  return added
}

/** Each reason of an address in a round of its own, so that no append has two facts of one subject. */
function roundsOf (wanted: readonly WantedSuppression[]): Entry[][] {
  const byHash = new Map<string, Map<SuppressionReason, Entry>>()
  for (const { address, reason } of wanted) {
    const hash = suppressionHash(address)
    const reasons = byHash.get(hash) ?? new Map<SuppressionReason, Entry>()
    byHash.set(hash, reasons)
    if (!reasons.has(reason)) reasons.set(reason, { address, reason, hash })
  }
  const rounds: Entry[][] = []
  for (const reasons of byHash.values()) {
    for (const [i, entry] of [...reasons.values()].entries()) (rounds[i] ??= []).push(entry)
  }
  return rounds
}

/** `throughSeq` = what the log held when the import began: what stands is read with all of that in it. What is newer,
 *  or is not known yet where it is read, refuses the append. */
async function appendMissing (
  { factLog }: Pick<Services, 'factLog'>,
  asker: Asker,
  group: readonly Entry[],
  throughSeq: number
): Promise<number> {
  const subjectOf = ({ hash }: Entry) => subjects.suppression(asker.account, hash)
  const last = await lastFactsOf(factLog.bus, 'CONTROL', group.map(subjectOf), throughSeq)
  const nowMs = factLog.clock.nowMs()
  const appends = group.flatMap(entry => {
    const { fact = null, seq = 0 } = last.get(subjectOf(entry)) ?? {}
    const added = addedBy(entry, fact as SuppressionFact | null, asker, nowMs)
    return added === null ? [] : [{ fact: added, expectedSeq: seq }]
  })
  if (appends.length > 0) await factLog.append(appends)
  return appends.length
}

/** The fact that adds an entry's reason; null where it stands. */
function addedBy (
  { address, hash, reason }: Entry,
  last: SuppressionFact | null,
  asker: Asker,
  nowMs: number
): SuppressionAdded | null {
  const now = suppressionOf(last)
  const standing = withReason(now.standing, { reason, email: null, since: timestamp(nowMs) })
  if (standing === null) return null
  const data = { hash, address: now.standing.length > 0 ? now.address : address, reason, standing }
  return stamp(SuppressionAdded, { causation: null, ...asker }, data, nowMs)
}
