import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { emailsBeside, placeOfEmail, type EmailWithEvents } from '#projections/emails/neighbours.ts'
import { emails } from '#projections/emails/project.ts'
import { findRequest, getEmail } from '#projections/emails/queries.ts'
import type { EmailRecord, EmailSummary } from '#projections/emails/records.ts'
import type { EmailStatus } from '#projections/emails/status.ts'
import { parseMailbox } from '#streams/address.ts'
import { messageIdOf } from '#streams/email/decide.ts'
import { mayDo } from '#streams/key/decide.ts'
import type { EventType } from '#streams/webhook/facts.ts'
import { readContent, shownContent } from '#src/actions/email.ts'
import { cancelEmail, rescheduleEmail } from '#src/actions/email-change.ts'
import { resendTagsOf } from '#src/actions/resend-event.ts'
import type { Services } from '#src/actions/services.ts'
import { loadRequest } from '#src/actions/stored-request.ts'
import { parseTime } from '#src/base/clock.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import type { Api } from '../context.ts'
import { changeOf, findChangeable } from '../email-actions.ts'
import { invalid, mustFault, notFound } from '../errors.ts'
import { IdParams, isEmailId, MUST_BE_TIME } from '../params.ts'
import { isFields, timeOf } from './email.ts'
import { listOf, noSuchPlace, readResendPage, ResendListQuery, type ResendPage } from './lists.ts'

interface ReadModules {
  services: Services
  reads: Reads
}

export function resendEmailRoutes (app: Api, { services, reads }: ReadModules): void {
  app.get('/emails', {
    config: { scope: 'emails:list' },
    schema: { querystring: ResendListQuery },
    attachValidation: true
  }, async request => {
    const page = readResendPage(request)
    const { account } = request.principal!
    const beside = await besideOf(reads, account, page)
    const found = await answerFrom(reads, account, emails, emailsBeside({ account, limit: page.limit, beside }))
    return listOf(found.emails.map(listed), found.hasMore)
  })

  app.get('/emails/:id', {
    config: { scope: 'emails:metadata' },
    schema: { params: IdParams }
  }, async request => {
    const { params: { id }, principal } = request
    if (!isEmailId(id)) throw notFound()
    const email = await answerFrom(reads, principal!.account, emails, getEmail({ account: principal!.account, id }))
    if (email === null) throw notFound()
    const { events, tags } = { events: eventsOf(email), tags: Object.entries(resendTagsOf(email)) }
    return {
      object: 'email',
      ...listed({ ...email, events }),
      ...await bodiesOf({ services, reads }, request, id),
      tags: tags.map(([name, value]) => ({ name, value }))
    }
  })
}

export function resendChangeRoutes (app: Api, { services, reads }: ReadModules): void {
  const config = { scope: 'emails:send', testKeys: true } as const

  app.patch('/emails/:id', {
    config,
    schema: { params: IdParams, body: Type.Unknown() }
  }, async request => {
    const atMs = momentOf(request.body, services.factLog.clock.nowMs())
    const { email, found } = await findChangeable(services, reads, request)
    changeOf(await rescheduleEmail(services, found, atMs))
    return { object: 'email', id: email }
  })

  app.post('/emails/:id/cancel', { config, schema: { params: IdParams } }, async request => {
    const { email, found } = await findChangeable(services, reads, request)
    changeOf(await cancelEmail(services, found))
    return { object: 'email', id: email }
  })
}

async function besideOf (reads: Reads, account: string, { after, before }: ResendPage) {
  const id = after ?? before
  if (id === null) return null
  const place = isEmailId(id) ? await answerFrom(reads, account, emails, placeOfEmail({ account, id })) : null
  if (place === null) throw noSuchPlace(after === null ? 'before' : 'after')
  return { place, which: after === null ? 'newer' as const : 'older' as const }
}

/** Unix ms of `scheduled_at`. Throws 422. */
function momentOf (body: unknown, nowMs: number): number {
  const { scheduled_at: at = null } = isFields(body) ? body : {}
  if (at === null) {
    throw invalid([{ field: 'scheduled_at', code: 'required', message: 'scheduled_at is required.' }])
  }
  const time = timeOf(at, nowMs)
  const ms = typeof time === 'string' ? parseTime(time) : null
  if (ms === null) throw invalid([mustFault('scheduled_at', 'invalid_value', MUST_BE_TIME)])
  return ms
}

function listed (email: EmailWithEvents) {
  const { id, from, to, cc, bcc, reply_to, subject, scheduled_at, created_at, events, status } = email
  const last_event = lastEventOf(status, events)
  return {
    id,
    message_id: messageIdFor(email),
    from,
    to,
    cc,
    bcc,
    reply_to,
    subject,
    last_event,
    scheduled_at,
    created_at
  }
}

/** That of the first recipient: each gets a message of its own. */
function messageIdFor ({ id, from }: EmailSummary): string {
  return messageIdOf({ email: id, from: parseMailbox(from)! }, 0)
}

const LAST_EVENTS: Record<Exclude<EmailStatus, 'partial'>, string> = {
  queued: 'queued',
  sending: 'sent',
  in_doubt: 'sent',
  scheduled: 'scheduled',
  deferred: 'delivery_delayed',
  delivered: 'delivered',
  bounced: 'bounced',
  failed: 'failed',
  suppressed: 'suppressed',
  canceled: 'canceled'
}
/** What may follow a delivery, what says most first. */
const MARKS = [['email.complained', 'complained'], ['email.clicked', 'clicked'], ['email.opened', 'opened']] as const

/** One word for all recipients. */
function lastEventOf (status: EmailStatus, events: readonly EventType[]): string {
  const mark = MARKS.find(([type]) => events.includes(type))
  if (mark !== undefined) return mark[1]
  if (status !== 'partial') return LAST_EVENTS[status]
  return events.includes('email.bounced') ? 'bounced' : 'delivered'
}

function eventsOf ({ recipients }: EmailRecord): EventType[] {
  const some = (name: 'complained_at' | 'clicked_at' | 'opened_at' | 'bounced_at') =>
    recipients.some(recipient => recipient[name] !== null)
  return [
    ...(some('complained_at') ? ['email.complained' as const] : []),
    ...(some('clicked_at') ? ['email.clicked' as const] : []),
    ...(some('opened_at') ? ['email.opened' as const] : []),
    ...(some('bounced_at') ? ['email.bounced' as const] : [])
  ]
}

/** Null where the key may not read them, or they are no longer kept. */
async function bodiesOf (
  { services, reads }: ReadModules,
  { principal }: Pick<FastifyRequest, 'principal'>,
  id: string
): Promise<{ html: string | null, text: string | null }> {
  const none = { html: null, text: null }
  if (!mayDo(principal!, 'emails:read')) return none
  const { account } = principal!
  const seq = await answerFrom(reads, account, emails, findRequest({ account, id }))
  const found = seq === null ? null : await loadRequest(services.factLog.bus, seq, id)
  const content = found === null ? null : await readContent(services.blobs, found.fact.data)
  if (found === null || content === null) return none
  const { html, text } = shownContent(found.fact.data, content)
  return { html, text }
}
