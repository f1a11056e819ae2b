import { pastOfEmails, statusCounts, type PastEmail } from '#projections/emails/activity.ts'
import { emails } from '#projections/emails/project.ts'
import type { EmailStatus } from '#projections/emails/status.ts'
import { deliveriesAbout, type DeliveryRecord } from '#projections/deliveries/queries.ts'
import { knownTime, parseTime, timestamp } from '#src/base/clock.ts'
import type { ListEmailsAnswer, ListEmailsQuery } from '#src/client/types.ts'
import { answerFrom } from '#src/postgres/reads.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { ifAvailable } from '../error-pages.ts'
import { FormRefused, NotPermitted, type Visit } from '../visit.ts'
import { isFine } from './webhook-format.ts'
import { readDeliveries } from './webhook-queries.ts'

export const ROWS = 40
/** Of a filter by status or event in the past: so many emails are looked through for a page. */
const CANDIDATES_MAX = 100
const DELIVERIES_MAX = 500
/** A status is counted up to here. */
export const COUNT_MAX = 1000

export type ListedEmail = ListEmailsAnswer['data'][number]

/** A page of the list, with what is known of its emails' past. */
export interface ActivityPage {
  rows: ListedEmail[]
  nextCursor: string | null
  pasts: Map<string, PastEmail>
  /** The last first; empty where the visitor may not see them. */
  deliveries: DeliveryRecord[]
}

/** Whether the visitor may see more of an email than its row. */
export function maySee ({ may }: Visit, what: 'emails' | 'deliveries' | 'content'): boolean {
  const paths = {
    emails: '/dashboard/emails/x',
    deliveries: '/dashboard/webhooks/deliveries',
    content: '/dashboard/emails/x/source'
  }
  return may('GET', paths[what])
}

/** The time that the page goes back to, in Unix ms; null = now. */
export function asOfIn (visit: Visit): number | null {
  const text = visit.query.get('as_of')
  if (text === null) return null
  if (!maySee(visit, 'emails')) throw new NotPermitted('emails:metadata')
  const ms = parseTime(text)
  if (ms === null || ms > visit.nowMs) {
    throw new FormRefused('as_of must be a time of the past, such as 2026-11-21T12:00:00Z.')
  }
  return knownTime(ms)
}

/** The newest emails that match, and their past. Throws what the API answers. */
export async function readPage (
  visit: Visit,
  context: DashboardContext,
  filters: ListEmailsQuery
): Promise<ActivityPage> {
  const cursor = visit.query.get('cursor') ?? undefined
  const { data, next_cursor: next } = await visit.api.emails.page({ ...filters, limit: ROWS, cursor })
  return { rows: data, nextCursor: next, ...await kept(visit, context, data) }
}

/** The same as it was at `atMs` (Unix). A status or an event is looked for in the newest 100 emails of that time. */
export async function readPastPage (
  visit: Visit,
  context: DashboardContext,
  { status, event, ...filters }: ListEmailsQuery,
  atMs: number
): Promise<ActivityPage> {
  const before = Math.min(
    atMs + 1,
    filters.created_before === undefined ? Infinity : Date.parse(filters.created_before)
  )
  const isFiltered = status !== undefined || event !== undefined
  const { data, next_cursor: next } = await visit.api.emails.page({
    ...filters,
    created_before: timestamp(before),
    limit: isFiltered ? CANDIDATES_MAX : ROWS,
    cursor: visit.query.get('cursor') ?? undefined
  })
  const known = await kept(visit, context, data)
  const rows = data.flatMap(row => {
    const past = known.pasts.get(row.id)
    if (past === undefined || past.createdMs > atMs) return []
    const record = past.at(atMs)
    const isMeant = (status === undefined || listOf(status).includes(record.status)) &&
      (event === undefined || listOf(event).some(type => hadEvent(past, atMs, type)))
    return isMeant ? [{ ...row, status: record.status, scheduled_at: record.scheduled_at }] : []
  })
  return { rows: rows.slice(0, ROWS), nextCursor: next, ...known }
}

function listOf (values: string | readonly string[]): string[] {
  return [values].flat()
}

/** As the webhook's events have it: a deferral and a failure are bounces. */
const EVENT_OF: Record<string, string> = { 'email.deferred': 'email.bounced', 'email.failed': 'email.bounced' }

export function hadEvent ({ moments }: PastEmail, atMs: number, event: string): boolean {
  return moments.some(({ type, atMs: ms, machine }) => ms <= atMs && !machine && (EVENT_OF[type] ?? type) === event)
}

async function kept (
  visit: Visit,
  context: DashboardContext,
  rows: ListedEmail[]
): Promise<Pick<ActivityPage, 'pasts' | 'deliveries'>> {
  const [account, ids] = [visit.account.id, rows.map(({ id }) => id)]
  if (ids.length === 0 || !maySee(visit, 'emails')) return { pasts: new Map(), deliveries: [] }
  const [pasts, deliveries] = await Promise.all([
    answerFrom(context.reads, account, emails, pastOfEmails({ account, ids })),
    maySee(visit, 'deliveries')
      ? readDeliveries(context, account, deliveriesAbout({ account, emails: ids, limit: DELIVERIES_MAX, brief: true }))
      : []
  ])
  return { pasts, deliveries: (deliveries ?? []).toReversed() }
}

/** null = the account has no such email. */
export async function pastOfEmail (
  { account }: Visit,
  { reads }: DashboardContext,
  id: string
): Promise<PastEmail | null> {
  const found = await answerFrom(reads, account.id, emails, pastOfEmails({ account: account.id, ids: [id] }))
  return found.get(id) ?? null
}

/** null = not known now. */
export async function countsOf (
  visit: Visit,
  { reads }: DashboardContext
): Promise<Map<EmailStatus, number> | null> {
  const account = visit.account.id
  return await ifAvailable(answerFrom(reads, account, emails, statusCounts({ account, max: COUNT_MAX })))
}

/** A delivery as it was at `atMs`, by its requests that are kept. */
export function deliveryAt (delivery: DeliveryRecord, atMs: number): DeliveryRecord | null {
  if (delivery.requested_at.getTime() > atMs) return null
  const tries = delivery.tries.filter(({ at }) => at.getTime() <= atMs)
  const isOver = delivery.ended_at !== null && delivery.ended_at.getTime() <= atMs
  if (isOver) return { ...delivery, tries }
  const last = tries.at(-1) ?? null
  const state = last === null ? 'pending' : isFine(last) ? 'delivered' : 'retrying'
  return { ...delivery, tries, last, state, ended_at: null, attempts: tries.length, reason: null }
}
