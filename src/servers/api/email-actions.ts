import { Type } from '@sinclair/typebox'
import { emails } from '#projections/emails/project.ts'
import { findRequest } from '#projections/emails/queries.ts'
import type { Refusal } from '#streams/define.ts'
import type { Principal } from '#streams/directory.ts'
import type { Services } from '#src/actions/services.ts'
import {
  cancelEmail,
  mayChange,
  NotChanged,
  rescheduleEmail,
  retryEmail,
  type Changed
} from '#src/actions/email-change.ts'
import { loadRequest, type StoredRequest } from '#src/actions/stored-request.ts'
import { parseTime, timestamp } from '#src/base/clock.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { refuseFaults, type Api } from './context.ts'
import { conflict, forbidden, notFound, RecipientStates } from './errors.ts'
import { granted, IdParams, isEmailId, MUST_BE_OBJECT, MUST_BE_TIME, timeFaults } from './params.ts'

const ID = 'em_01m7ysevjmwmdcr41jq5rymhkp'
const CancelAnswer = Type.Object({ id: Type.String(), canceled: RecipientStates, gone: RecipientStates }, {
  examples: [{
    id: ID,
    canceled: [{ n: 1, address: 'ben@example.com', status: 'canceled' }],
    gone: [{ n: 0, address: 'ada@example.com', status: 'delivered' }]
  }]
})
const RescheduleAnswer = Type.Object({
  id: Type.String(),
  scheduled_at: Type.String(),
  rescheduled: RecipientStates,
  gone: RecipientStates
}, {
  examples: [{
    id: ID,
    scheduled_at: '2026-12-24T18:00:00.000Z',
    rescheduled: [{ n: 0, address: 'ada@example.com', status: 'scheduled' }],
    gone: []
  }]
})
const RetryAnswer = Type.Object({ id: Type.String(), retried: RecipientStates, others: RecipientStates }, {
  examples: [{
    id: ID,
    retried: [{ n: 0, address: 'ada@example.com', status: 'queued' }],
    others: [{ n: 1, address: 'ben@example.com', status: 'delivered' }]
  }]
})

const RescheduleRequest = Type.Object({
  scheduled_at: Type.String({ must: MUST_BE_TIME, description: 'When to send instead.' })
}, {
  must: MUST_BE_OBJECT,
  additionalProperties: false,
  examples: [{ scheduled_at: '2026-12-24T18:00:00Z' }]
})

const shared = { tags: ['Emails'], params: IdParams }

/** The projection says where the request lies, which never changes; the log alone decides what becomes of it. */
export function emailActionRoutes (app: Api, services: Services, reads: Reads): void {
  app.patch('/emails/:id', {
    config: { scope: 'emails:send', errors: [404, 409], testKeys: true },
    schema: {
      ...shared,
      operationId: 'rescheduleEmail',
      summary: 'Move a scheduled email to another time',
      description: 'Lists the recipients that were moved and those that had gone. 409 when all had gone.',
      body: RescheduleRequest,
      response: { 200: RescheduleAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request, timeFaults(request, 'scheduled_at'))
    const atMs = parseTime(request.body.scheduled_at)!
    const { email, found } = await findChangeable(services, reads, request)
    const { changed, others } = changeOf(await rescheduleEmail(services, found, atMs))
    return { id: email, scheduled_at: timestamp(atMs), rescheduled: changed, gone: others }
  })

  app.post('/emails/:id/cancel', {
    config: { scope: 'emails:send', errors: [404, 409], testKeys: true },
    schema: {
      ...shared,
      operationId: 'cancelEmail',
      summary: 'Cancel an email',
      description: 'Lists the recipients that were canceled, and those for whom it was too late. 409 when it was too ' +
        'late for all.',
      response: { 200: CancelAnswer }
    }
  }, async request => {
    const { email, found } = await findChangeable(services, reads, request)
    const { changed, others } = changeOf(await cancelEmail(services, found))
    return { id: email, canceled: changed, gone: others }
  })

  app.post('/emails/:id/retry', {
    config: { scope: 'emails:send', errors: [404, 409], testKeys: true },
    schema: {
      ...shared,
      operationId: 'retryEmail',
      summary: 'Send an email again to those who did not get it',
      description: 'Only to recipients that bounced, failed, were suppressed or are held in doubt. 409 when there are' +
        ' none, or when the content is gone.',
      response: { 202: RetryAnswer }
    }
  }, async (request, reply) => {
    const { email, found } = await findChangeable(services, reads, request)
    const { changed, others } = changeOf(await retryEmail(services, found))
    return reply.code(202).send({ id: email, retried: changed, others })
  })
}

interface EmailParams {
  params: { id: string }
  principal: Principal | null
}

/** The request of an email that the key may change. Throws 404, 403, and 409 when its content is gone. */
export async function findChangeable (
  services: Services,
  reads: Reads,
  request: EmailParams
): Promise<{ email: string, found: StoredRequest }> {
  const { email, found } = await findEmail(services, reads, request)
  if (found === null) throw conflict('content_expired', 'The content of this email is no longer kept.')
  if (!mayChange(services, request.principal!, found)) {
    throw forbidden('The key must be linked to the domain of the email, and of its mode.')
  }
  return { email, found }
}

/** The request of an email, null when the log no longer has it. Throws 404 for an id that the account has not. */
export async function findEmail (
  services: Services,
  reads: Reads,
  { params: { id }, principal }: EmailParams
): Promise<{ email: string, found: StoredRequest | null }> {
  if (!isEmailId(id)) throw notFound()
  const seq = await answerFrom(reads, principal!.account, emails, findRequest({ account: principal!.account, id }))
  if (seq === null) throw notFound()
  return { email: id, found: await loadRequest(services.factLog.bus, seq, id) }
}

/** The refusal names the recipients that could not be changed. */
export function changeOf (change: Changed | Refusal): Changed {
  if (change instanceof NotChanged) throw conflict(change.code, change.message, { recipients: change.others })
  return granted(change, { in_the_past: 'scheduled_at', too_late: 'scheduled_at' })
}
