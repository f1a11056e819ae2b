import { Type, type Static } from '@sinclair/typebox'
import type { RecipientStatus } from '#streams/email/state.ts'
import { sql, type Sql } from '../define.ts'

/** Statuses of a recipient that is not over, the most active first. */
const OPEN = ['sending', 'queued', 'scheduled', 'deferred', 'in_doubt'] as const
const ENDED = ['delivered', 'bounced', 'failed', 'suppressed', 'canceled'] as const

export const RecipientStatusSchema = Type.Union([...OPEN, ...ENDED].map(status => Type.Literal(status)))
export const EmailStatus = Type.Union([...OPEN, ...ENDED, 'partial' as const].map(status => Type.Literal(status)))
export type EmailStatus = Static<typeof EmailStatus>

const mostActive = OPEN.reduce((cases, status) => sql`${cases} when bool_or(status = ${status}) then ${status}`, sql``)

/** An email's status from its recipients', as an aggregate over rows with a column `status`: the one they share; else
 *  the most active that is still open; else (all ended, and different) `partial`. A held doubt counts as open: it waits
 *  for a person, who looks for `in_doubt`. */
export const rollUp: Sql = sql`case when count(distinct status) = 1 then min(status) ${mostActive} else 'partial' end`

/** The same for recipients in memory; at least one. */
export function rolledUp (statuses: readonly RecipientStatus[]): EmailStatus {
  if (statuses.every(status => status === statuses[0])) return statuses[0]!
  return OPEN.find(status => statuses.includes(status)) ?? 'partial'
}
