import { Type, type Static } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Refusal, type FieldFault } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { isRepeat, type Acceptor } from '#src/actions/acceptor.ts'
import type { Services } from '#src/actions/services.ts'
import { prepareEmail, type EmailDraft, type PreparedEmail, type SendContext } from '#src/actions/email.ts'
import { sendingDomains } from '#src/actions/sending-domain.ts'
import { InvalidVariables } from '#src/actions/template-cache.ts'
import { newRenderBudget } from '#src/content/mustache.ts'
import { BIG_BODY_BYTES_MAX } from './body-budget.ts'
import { schemaFaults, type Api } from './context.ts'
import { readDraft, SendRequest, type DraftContext } from './drafts.ts'
import { forbidden, HttpProblem, invalid } from './errors.ts'
import { acceptAndAnswer, replay, underKeyOf } from './idempotency.ts'

/** The answer for one accepted email. */
export const SendAnswer = Type.Object({
  id: Type.String(),
  /** The same as `id`, under the name it has in webhooks. */
  email_id: Type.String(),
  status: Type.Union((['queued', 'scheduled', 'suppressed'] as const).map(status => Type.Literal(status))),
  created_at: Type.String(),
  /** Recipients who get nothing, since they are suppressed. */
  suppressed: Type.Optional(Type.Array(Type.String()))
}, {
  examples: [{
    id: 'em_01m7ysevjmwmdcr41jq5rymhkp',
    email_id: 'em_01m7ysevjmwmdcr41jq5rymhkp',
    status: 'queued',
    created_at: '2026-11-21T12:00:00.000Z'
  }]
})

/** Of each route that takes new mail. */
export const SENDING = { scope: 'emails:send', idempotent: true, sends: true, testKeys: true } as const

export function sendRoutes (app: Api, services: Services, acceptor: Acceptor): void {
  app.post('/emails', {
    bodyLimit: BIG_BODY_BYTES_MAX,
    config: { ...SENDING, errors: [409] },
    schema: {
      operationId: 'sendEmail',
      summary: 'Send an email',
      description: 'Answers once the email is durably accepted. Each recipient gets a message of its own, and has a ' +
        'status of its own.',
      tags: ['Emails'],
      body: SendRequest,
      response: { 202: SendAnswer }
    },
    attachValidation: true
  }, async (request, reply) => {
    const draft = readDraft(request.body, schemaFaults(request), contextOf(services, request))
    if (Array.isArray(draft)) throw invalid(draft)
    return await acceptOne({ services, acceptor }, { request, reply }, draft)
  })
}

/** A request that sends, and its answer. */
export interface Sending {
  request: FastifyRequest
  reply: FastifyReply
}

/** What a draft is once all is known that sending needs; it is asked for new emails alone, not for repeats. */
export type Finish = (draft: EmailDraft, domain: DomainEntry | 'sandbox') => Promise<EmailDraft>

/** Accepts an email, or finds the answer that its Idempotency-Key got before. Throws what refuses it. */
export async function acceptOne (
  { services, acceptor }: { services: Services, acceptor: Acceptor },
  { request, reply }: Sending,
  draft: EmailDraft,
  finish: Finish = async draft => draft
): Promise<Static<typeof SendAnswer>> {
  const [domain] = await draftDomains(services, request, [draft])
  if (domain instanceof HttpProblem) throw domain
  return await underKeyOf(acceptor, request, async claim => {
    if (isRepeat(claim)) return replay(reply, claim.earlier)
    const prepared = await prepareEmail(services, sendContextOf(request), await finish(draft, domain!), domain!)
    if (prepared instanceof Refusal) throw invalid(faultsOfRefusal(prepared))
    const answer = { status: 202, location: `/api/emails/${prepared.email}`, body: answerOf(prepared) }
    return await acceptAndAnswer(acceptor, request, reply, claim, { emails: [prepared], answer })
  })
}

/** The domain that each draft is sent from, or the 403 where it is not linked to the request's key. */
export async function draftDomains (
  services: Pick<Services, 'directory'>,
  { principal }: FastifyRequest,
  drafts: readonly EmailDraft[]
): Promise<Array<DomainEntry | 'sandbox' | HttpProblem>> {
  const domains = await sendingDomains(services, principal!, drafts.map(({ from }) => from.address))
  return domains.map(domain => (domain instanceof Refusal ? forbidden(domain.message) : domain))
}

/** What preparing an email knows of the request that asks for it. */
export function sendContextOf ({ principal, id, trace }: FastifyRequest): SendContext {
  return { principal: principal!, correlation: id, trace, budget: newRenderBudget() }
}

export function contextOf (services: Services, request: FastifyRequest): DraftContext {
  const { factLog: { clock }, settings: { contentRetentionMs } } = services
  return { nowMs: clock.nowMs(), contentRetentionMs, isRepeatable: request.headers['idempotency-key'] !== undefined }
}

export function answerOf ({ email, createdAt, status, suppressed }: PreparedEmail) {
  return {
    id: email,
    email_id: email,
    status,
    created_at: createdAt,
    ...(suppressed.length === 0 ? {} : { suppressed })
  }
}

/** Which field a refusal is about. */
const FIELDS: Record<string, string> = {
  domain_unverified: 'from',
  in_the_past: 'scheduled_at',
  too_late: 'scheduled_at',
  subject_required: 'subject',
  template_not_found: 'template_id',
  template_failed: 'template_id'
}

/** What is wrong with a draft that cannot be prepared. */
export function faultsOfRefusal (refusal: Refusal): FieldFault[] {
  if (refusal instanceof InvalidVariables) {
    return refusal.faults.map(({ name, code, message }) => ({ field: `variables.${name}`, code, message }))
  }
  return [{ field: FIELDS[refusal.code] ?? 'body', code: refusal.code, message: refusal.message }]
}
