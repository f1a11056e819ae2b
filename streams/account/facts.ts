import { Type } from '@sinclair/typebox'
import { factType, Id } from '../define.ts'

export const AccountCreated = factType(
  'account.created',
  1,
  Type.Object({ account: Id('acc'), name: Type.String({ minLength: 1, maxLength: 200 }) })
)

export const accountFacts = [AccountCreated] as const
