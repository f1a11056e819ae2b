import { timestamp } from '#src/base/clock.ts'
import { parseAddress } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import { isErased } from '#streams/email/erase.ts'
import {
  suppressible,
  withReason,
  suppressionOf,
  type SuppressionState,
  type SuppressionFact
} from '#streams/suppression/decide.ts'
import { SuppressionAdded, SuppressionRemoved, type SuppressionReason } from '#streams/suppression/facts.ts'
import { causedBy, stamp, type FactCause } from './fact-log.ts'
import { recordEngagement, type RecipientRef } from './recipient.ts'
import { retryOnConflict } from './retry-on-conflict.ts'
import type { Services, Asker } from './services.ts'
import { readSuppression, suppressionHash } from './suppression-store.ts'

type WritingServices = Pick<Services, 'factLog'>

export interface NewSuppression {
  /** In any spelling. */
  address: string
  reason: SuppressionReason
  /** The email that told, or null. */
  email: string | null
  /** When it happened, where that was before now: a suppression that was lifted since is not put back. */
  happenedAt?: string
}

/** Gives an address no more mail, for one more reason; saying a reason twice is no fact. `created` = nothing stood
 *  before. The address stays as it was first given, and erased when it was. Refuses `invalid_address` and
 *  `sandbox_address`. Throws LogUnavailable or Conflict. */
export async function suppress (
  services: WritingServices,
  asker: Asker | FactCause,
  { address: text, reason, email, happenedAt }: NewSuppression
): Promise<{ suppression: SuppressionState, created: boolean } | Refusal> {
  const address = suppressible(text)
  if (address instanceof Refusal) return address
  const { before, after } = await change(services, asker.account, address, (now, hash, nowMs, last) => {
    if (happenedAt !== undefined && last?.type === 'suppression.removed' && last.time > happenedAt) return null
    const standing = withReason(now.standing, { reason, email, since: timestamp(nowMs) })
    if (standing === null) return null
    const data = { hash, address: now.standing.length > 0 ? now.address : address, reason, standing }
    return stamp(SuppressionAdded, { causation: null, ...asker }, data, nowMs)
  })
  return { suppression: after, created: before.standing.length === 0 }
}

/** Lets an address have mail again, whatever the reasons were. Refuses `not_found`. Throws LogUnavailable or Conflict.
 */
export async function unsuppress (
  services: WritingServices,
  asker: Asker | FactCause,
  text: string
): Promise<void | Refusal> {
  const notFound = new Refusal('not_found', 'This address is not suppressed.')
  const address = parseAddress(text)
  if (address === null) return notFound
  const { before } = await change(
    services,
    asker.account,
    address,
    (now, hash, nowMs) =>
      now.standing.length === 0
        ? null
        : stamp(SuppressionRemoved, { causation: null, ...asker }, { hash, address: now.address }, nowMs)
  )
  if (before.standing.length === 0) return notFound
}

/** Reads, decides, appends, and begins again when somebody else was quicker. `decide` gives null when there is nothing
 *  to do. */
async function change (
  { factLog }: WritingServices,
  account: string,
  address: string,
  decide: (now: SuppressionState, hash: string, nowMs: number, last: SuppressionFact | null) => SuppressionFact | null
): Promise<{ before: SuppressionState, after: SuppressionState }> {
  const hash = suppressionHash(address)
  return await retryOnConflict(async () => {
    const { now: before, last, seq } = await readSuppression(factLog.bus, account, address)
    const fact = decide(before, hash, factLog.clock.nowMs(), last)
    if (fact === null) return { before, after: before }
    await factLog.append([{ fact, expectedSeq: seq }])
    return { before, after: suppressionOf(fact) }
  })
}

/** Somebody asks for no more mail like this one; durable when it resolves. The first time is an event, and what follows
 *  from it is the reactions' business. Who asks again may have been let in again since: then it holds at once, and is
 *  no further event. Throws LogUnavailable or Conflict. */
export async function unsubscribe (
  { factLog }: Pick<Services, 'factLog'>,
  ref: RecipientRef,
  by: 'one-click' | 'page'
): Promise<void> {
  if (await recordEngagement(factLog, ref, { type: 'email.unsubscribed', data: { by, report: null } })) return
  const { request: { fact }, n } = ref
  const { address } = fact.data.recipients[n]!
  // Whose mail it was is forgotten: there is nobody left to suppress.
  if (fact.data.test || isErased(address)) return
  await suppress({ factLog }, causedBy(fact), { address, reason: 'unsubscribe', email: fact.data.email })
}
