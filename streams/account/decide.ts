import { Refusal, type UnstampedOf } from '../define.ts'
import type { AccountEntry, Principal } from '../directory.ts'
import { DEFAULT_LIMITS } from '../key/decide.ts'
import { byLimitClass, type LimitClass } from '../key/facts.ts'
import {
  AccountLimitsChanged,
  AccountQuotaChanged,
  AccountResumed,
  AccountSuspended,
  FIRST_ACCOUNT,
  NOTE_LENGTH_MAX,
  RECIPIENTS_PER_DAY_MAX,
  type accountFacts,
  type SuspensionReason
} from './facts.ts'

/** An account has the windows of so many keys, however many keys it makes. */
const KEYS = 10

/** Requests a minute for all keys of an account together; null = any number: the first account is the operator's. */
export function accountLimitsOf ({ id, limits }: AccountEntry): Record<LimitClass, number | null> {
  return byLimitClass(name => limits[name] ?? (id === FIRST_ACCOUNT ? null : KEYS * DEFAULT_LIMITS[name]))
}

/** The same of a class, as one of its keys has it: an operator who gave that key more has meant it. */
export function accountLimitOf (
  account: AccountEntry,
  key: Pick<Principal, 'limits'>,
  limitClass: LimitClass
): number | null {
  const limit = accountLimitsOf(account)[limitClass]
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

/** What an operator may change about an account; what is left out stays, classes of limits too. */
export interface AccountChange {
  limits?: Partial<Record<LimitClass, number>>
  /** null = any number. */
  recipientsPerDay?: number | null
}

export function decideAccountChange (
  account: Pick<AccountEntry, 'id' | 'limits' | 'recipientsPerDay'>,
  { limits: changed = {}, recipientsPerDay = account.recipientsPerDay }: AccountChange
): AccountDecision[] {
  const { id } = account
  const limits = { ...account.limits, ...changed }
  const isLimited = Object.keys(changed).some(name => limits[name as LimitClass] !== account.limits[name as LimitClass])
  return [
    ...(isLimited ? [{ type: AccountLimitsChanged, data: { account: id, limits } }] : []),
    ...(recipientsPerDay === account.recipientsPerDay
      ? []
      : [{ type: AccountQuotaChanged, data: { account: id, recipientsPerDay } }])
  ]
}

export function quotaFault (recipientsPerDay: number): Refusal | null {
  const isFine = Number.isInteger(recipientsPerDay) && recipientsPerDay >= 1 &&
    recipientsPerDay <= RECIPIENTS_PER_DAY_MAX
  return isFine
    ? null
    : new Refusal('invalid_quota', `recipients a day must be a whole number from 1 to ${RECIPIENTS_PER_DAY_MAX}.`)
}

/** Shares of its mail above which an account is suspended; null = never. */
export interface SuspensionRates {
  bounces: number | null
  complaints: number | null
}

/** What came of an account's mail, in recipients. */
interface Fate {
  delivered: number
  bounced: number
  failed: number
  complained: number
}

/** Of fewer, a rate says nothing; a few bounces or complaints anybody has. */
const SETTLED_MIN = 100
const BOUNCED_MIN = 10
const COMPLAINED_MIN = 3

/** Why an account must be suspended by what came of its mail; null = it need not be. */
export function suspensionFor (
  { delivered, bounced, failed, complained }: Fate,
  { bounces, complaints }: SuspensionRates
): { reason: SuspensionReason, note: string } | null {
  const settled = delivered + bounced + failed
  if (settled < SETTLED_MIN) return null
  const saying = (part: number, of: number, what: string, share: number) =>
    `${part} of ${of} recipients ${what}, more than ${Number((share * 100).toFixed(3))} %`
  if (bounces !== null && bounced >= BOUNCED_MIN && bounced > settled * bounces) {
    return { reason: 'bounces', note: saying(bounced, settled, 'bounced', bounces) }
  }
  if (complaints !== null && complained >= COMPLAINED_MIN && complained > delivered * complaints) {
    return { reason: 'complaints', note: saying(complained, delivered, 'complained', complaints) }
  }
  return null
}
