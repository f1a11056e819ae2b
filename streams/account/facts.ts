import { Type } from '@sinclair/typebox'
import { factType, Id, Name } from '../define.ts'

export const AccountCreated = factType(
  'account.created',
  1,
  Type.Object({ account: Id('acc'), name: Name })
)

export const accountFacts = [AccountCreated] as const
