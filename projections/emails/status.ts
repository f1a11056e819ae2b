import { Type, type Static } from '@sinclair/typebox'
import { sql, type Sql } from '../define.ts'

/** Statuses of a recipient from which something is still to come, the liveliest first. */
const OPEN = ['sending', 'queued', 'scheduled', 'deferred', 'in_doubt'] as const
const ENDED = ['delivered', 'bounced', 'failed', 'suppressed', 'canceled'] as const

export const RecipientStatus = Type.Union([...OPEN, ...ENDED].map(status => Type.Literal(status)))
export type RecipientStatus = Static<typeof RecipientStatus>
export const EmailStatus = Type.Union([...OPEN, ...ENDED, 'partial' as const].map(status => Type.Literal(status)))
export type EmailStatus = Static<typeof EmailStatus>

const liveliest = OPEN.reduce((cases, status) => sql`${cases} when bool_or(status = ${status}) then ${status}`, sql``)

/** An email's status from its recipients', as an aggregate over rows with a column `status`: the one they share; else
 *  the liveliest that is still open; else (all ended, not alike) `partial`. A held doubt counts as open: it waits for a
 *  person, who looks for `in_doubt`. */
export const rollUp: Sql = sql`case when count(distinct status) = 1 then min(status) ${liveliest} else 'partial' end`

/** The same of recipients that are in memory; at least one. */
export function rolledUp (statuses: readonly RecipientStatus[]): EmailStatus {
  if (statuses.every(status => status === statuses[0])) return statuses[0]!
  return OPEN.find(status => statuses.includes(status)) ?? 'partial'
}
