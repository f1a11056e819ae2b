import { Refusal, type UnstampedOf } from '../define.ts'
import type { AccountEntry, KeyEntry } from '../directory.ts'
import { DEFAULT_LIMITS } from '../key/decide.ts'
import type { LimitClass } from '../key/facts.ts'
import {
  AccountLimitsChanged,
  AccountResumed,
  AccountSuspended,
  FIRST_ACCOUNT,
  NOTE_LENGTH_MAX,
  type accountFacts,
  type SuspensionReason
} from './facts.ts'

/** An account has the windows of so many keys, however many keys it makes. */
const KEYS = 10

/** Requests a minute of a class for all keys of an account together; null = any number: the first account is the
 *  operator's. An operator who gave one of its keys more has meant it. */
export function accountLimitOf (account: AccountEntry, key: KeyEntry, limitClass: LimitClass): number | null {
  const limit = account.limits[limitClass] ?? (account.id === FIRST_ACCOUNT ? null : KEYS * DEFAULT_LIMITS[limitClass])
  return limit === null ? null : Math.max(limit, key.limits[limitClass] ?? 0)
}

type AccountDecision = UnstampedOf<typeof accountFacts[number]>

/** Nothing of the account goes out from now on. Nothing changes when it is said again; the operator's own account must
 *  tell the operator what happens. */
export function decideSuspension (
  { id, suspended }: AccountEntry,
  reason: SuspensionReason,
  note: string | null
): AccountDecision[] | Refusal {
  if (id === FIRST_ACCOUNT) return new Refusal('first_account', 'The first account must not be suspended.')
  if (note !== null && (note === '' || note.length > NOTE_LENGTH_MAX)) {
    return new Refusal('invalid_note', `note must have 1 to ${NOTE_LENGTH_MAX} characters.`)
  }
  if (suspended?.reason === reason && suspended.note === note) return []
  return [{ type: AccountSuspended, data: { account: id, reason, note } }]
}

/** What waits goes out. */
export function decideResumption ({ id, suspended }: AccountEntry): AccountDecision[] {
  return suspended === null ? [] : [{ type: AccountResumed, data: { account: id } }]
}

/** Classes that are left out stay as they are. */
export function decideAccountLimits (
  { id, limits }: AccountEntry,
  change: Partial<Record<LimitClass, number>>
): AccountDecision[] {
  return [{ type: AccountLimitsChanged, data: { account: id, limits: { ...limits, ...change } } }]
}
