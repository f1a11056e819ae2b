import { Type } from '@sinclair/typebox'
import { factType, type FactOf } from '../define.ts'

const Count = Type.Integer({ minimum: 0 })

/** What is counted of recipients; opens and clicks are those of people, each recipient's first. */
export const Counts = Type.Object({
  accepted: Count,
  suppressed: Count,
  canceled: Count,
  delivered: Count,
  deferred: Count,
  bounced: Count,
  failed: Count,
  opened: Count,
  clicked: Count,
  complained: Count,
  unsubscribed: Count
})

/** A month (UTC) of an account is over: what it comes to, by the sender's domain. Outlives the facts it was counted
 *  from. */
export const UsageClosed = factType(
  'usage.closed',
  1,
  Type.Object({
    month: Type.String({ pattern: '^\\d{4}-\\d\\d$' }),
    domains: Type.Array(Type.Object({ domain: Type.String(), counts: Counts }), { maxItems: 10_000 })
  })
)

export const usageFacts = [UsageClosed] as const

export type UsageClosed = FactOf<typeof UsageClosed>
