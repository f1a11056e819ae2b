import { Type } from '@sinclair/typebox'
import { factType, Id, Name } from '../define.ts'
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

export const accountFacts = [AccountCreated, AccountLimitsChanged] as const
