import { Type, type Static } from '@sinclair/typebox'
import { factType, type FactOf } from '../define.ts'

/** Commands whose own facts are kept for a while only, or that make none. */
export const OPERATIONS = [
  'rebuild.requested',
  'rebuild.stopped',
  'dead_letters.retried',
  'replay.requested',
  'replay.canceled',
  'delivery.replayed'
] as const
export type OperatorAction = typeof OPERATIONS[number]

/** Such a command was given. It is said before it is done: of what was done nothing is missing. */
export const OperationRequested = factType(
  'operation.requested',
  1,
  Type.Object({
    operation: Type.Union(OPERATIONS.map(name => Type.Literal(name))),
    /** What it is about: a projection's name, or the id of an endpoint, a replay or a delivery. */
    subject: Type.String({ minLength: 1, maxLength: 200 })
  })
)
export type OperationRequest = Static<typeof OperationRequested.data>

export const operationFacts = [OperationRequested] as const

export type OperationRequested = FactOf<typeof OperationRequested>
