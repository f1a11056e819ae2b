import { Type } from '@sinclair/typebox'
import { factType, Id, Name } from '../define.ts'

/** The account that every installation starts with, the operator's. Its id is fixed, so that nodes starting together
 *  make one. */
export const FIRST_ACCOUNT = 'acc_first'

export const AccountCreated = factType(
  'account.created',
  1,
  Type.Object({ account: Id('acc'), name: Name })
)

export const accountFacts = [AccountCreated] as const
