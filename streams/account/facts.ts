import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Name, Nullable } from '../define.ts'
import { Limits } from '../key/facts.ts'

/** The account that every installation starts with, the operator's. Its id is fixed, so that nodes starting together
 *  make one. */
export const FIRST_ACCOUNT = 'acc_first'

export const AccountCreated = factType(
  'account.created',
  1,
  Type.Object({ account: Id('acc'), name: Name })
)

/** Requests a minute by class of all its keys together: all that an operator has set. */
export const AccountLimitsChanged = factType(
  'account.limits_changed',
  1,
  Type.Object({ account: Id('acc'), limits: Limits })
)

/** Recipients a day that an operator may allow. */
export const RECIPIENTS_PER_DAY_MAX = 1_000_000_000

/** How many recipients its mail may have on a day (UTC); null = any number. */
export const AccountQuotaChanged = factType(
  'account.quota_changed',
  1,
  Type.Object({
    account: Id('acc'),
    recipientsPerDay: Nullable(Type.Integer({ minimum: 1, maximum: RECIPIENTS_PER_DAY_MAX }))
  })
)

/** Why nothing goes out: its clients are told the class. */
export const SUSPENSION_REASONS = ['abuse', 'bounces', 'complaints', 'billing', 'other'] as const
export const SuspensionReason = Type.Union(SUSPENSION_REASONS.map(name => Type.Literal(name)))
export type SuspensionReason = Static<typeof SuspensionReason>
export const NOTE_LENGTH_MAX = 500

/** Nothing goes out: new mail is refused, what was accepted waits. `note` is for operators. */
export const AccountSuspended = factType(
  'account.suspended',
  1,
  Type.Object({
    account: Id('acc'),
    reason: SuspensionReason,
    note: Nullable(Type.String({ minLength: 1, maxLength: NOTE_LENGTH_MAX }))
  })
)

export const AccountResumed = factType('account.resumed', 1, Type.Object({ account: Id('acc') }))

export const accountFacts = [
  AccountCreated,
  AccountLimitsChanged,
  AccountQuotaChanged,
  AccountSuspended,
  AccountResumed
] as const
