import type { UnstampedOf } from '../define.ts'
import type { AccountEntry, KeyEntry } from '../directory.ts'
import { DEFAULT_LIMITS } from '../key/decide.ts'
import type { LimitClass } from '../key/facts.ts'
import { AccountLimitsChanged, FIRST_ACCOUNT, type accountFacts } from './facts.ts'

/** An account has the windows of so many keys, however many keys it makes. */
const KEYS = 10

/** Requests a minute of a class for all keys of an account together; null = any number: the first account is the
 *  operator's. An operator who gave one of its keys more has meant it. */
export function accountLimitOf (account: AccountEntry, key: KeyEntry, limitClass: LimitClass): number | null {
  const limit = account.limits[limitClass] ?? (account.id === FIRST_ACCOUNT ? null : KEYS * DEFAULT_LIMITS[limitClass])
  return limit === null ? null : Math.max(limit, key.limits[limitClass] ?? 0)
}

/** Classes that are left out stay as they are. */
export function decideAccountLimits (
  { id, limits }: AccountEntry,
  change: Partial<Record<LimitClass, number>>
): Array<UnstampedOf<typeof accountFacts[number]>> {
  return [{ type: AccountLimitsChanged, data: { account: id, limits: { ...limits, ...change } } }]
}
