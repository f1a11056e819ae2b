import { Kind, Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Refusal, type FieldFault } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { EMAILS_MAX } from '#streams/email/facts.ts'
import { isRepeat, type Acceptor } from '#src/actions/acceptor.ts'
import type { Services } from '#src/actions/services.ts'
import { prepareEmail, type EmailDraft, type PreparedEmail, type SendContext } from '#src/actions/email.ts'
import { BIG_BODY_BYTES_MAX } from './body-budget.ts'
import { refuseFaults, type Api } from './context.ts'
import { readDraft, SendRequest, type DraftContext } from './drafts.ts'
import {
  answerOf,
  contextOf,
  faultsOfRefusal,
  SendAnswer,
  sendContextOf,
  SENDING,
  draftDomains,
  type Finish,
  type Sending
} from './emails.ts'
import { HttpProblem, invalid, ProblemBody } from './errors.ts'
import { compileValidator } from './faults.ts'
import { acceptAndAnswer, replay, underKeyOf, type Acceptance } from './idempotency.ts'
import { MUST_BE_OBJECT } from './params.ts'

/** Each email is checked apart, so that the faults of one cannot hide behind those of another: here its schema only
 *  describes. */
const { [Kind]: _kind, ...shape } = SendRequest
const Described = Type.Unknown(shape)

const BatchRequest = Type.Object({
  emails: Type.Array(Described, {
    minItems: 1,
    maxItems: EMAILS_MAX,
    noun: 'email',
    description: `The emails, 1 to ${EMAILS_MAX}.`
  }),
  mode: Type.Optional(Type.Union([Type.Literal('strict'), Type.Literal('permissive')], {
    description:
      '`strict`: all emails are accepted, or none. `permissive`: those without faults are. `strict` when left out.'
  }))
}, {
  must: `${MUST_BE_OBJECT} with a list of emails, like {"emails":[{"from":…}]}`,
  additionalProperties: false,
  examples: [{
    emails: [{ from: 'ada@sandbox.jetpost.test', to: 'grace@example.com', subject: 'Hello', text: 'Hello' }],
    mode: 'strict'
  }]
})

/** In permissive mode an email that was refused has its error in its place. */
const BatchAnswer = Type.Object({ data: Type.Array(Type.Union([SendAnswer, ProblemBody])) }, {
  examples: [{ data: [...SendAnswer.examples as object[], { error: 'Insufficient API key permissions' }] }]
})
export type BatchAnswer = Static<typeof BatchAnswer>

const checkEmail = compileValidator(SendRequest)

/** A draft that may be sent, and from where. */
type LinkedDraft = { draft: EmailDraft, domain: DomainEntry | 'sandbox' }

export type Mode = 'strict' | 'permissive'

export function batchRoutes (app: Api, services: Services, acceptor: Acceptor): void {
  app.post('/emails/batch', {
    bodyLimit: BIG_BODY_BYTES_MAX,
    config: { ...SENDING, errors: [409] },
    schema: {
      operationId: 'sendBatch',
      summary: `Send up to ${EMAILS_MAX} emails`,
      description:
        'One durable append: in strict mode all are accepted or none, in permissive mode all that have no fault.',
      tags: ['Emails'],
      body: BatchRequest,
      response: { 202: BatchAnswer }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request)
    const { emails, mode = 'strict' } = request.body
    const drafts = emails.map(email => readOne(email, contextOf(services, request)))
    return await acceptAll({ services, acceptor }, { request, reply }, drafts, mode)
  })
}

/** Accepts the emails of a batch, or finds the answer that its Idempotency-Key got before. Throws what refuses it as a
 *  whole. */
export async function acceptAll (
  { services, acceptor }: { services: Services, acceptor: Acceptor },
  { request, reply }: Sending,
  drafts: Array<EmailDraft | HttpProblem>,
  mode: Mode,
  finish: Finish = async draft => draft
): Promise<BatchAnswer> {
  refuse(mode, drafts)
  const linked = await linkAll(services, request, drafts)
  refuse(mode, linked)
  return await underKeyOf(acceptor, request, async claim => {
    if (isRepeat(claim)) return replay(reply, claim.earlier)
    const results = await prepareAll(services, sendContextOf(request), linked, finish)
    refuse(mode, results)
    return await acceptAndAnswer(acceptor, request, reply, claim, acceptanceOf(results))
  })
}

function readOne (email: unknown, context: DraftContext): EmailDraft | HttpProblem {
  const checked = checkEmail(email)
  const draft = readDraft(email as SendRequest, 'error' in checked ? checked.error.faults : [], context)
  return Array.isArray(draft) ? invalid(draft) : draft
}

async function linkAll (
  services: Services,
  request: FastifyRequest,
  results: Array<EmailDraft | HttpProblem>
): Promise<Array<LinkedDraft | HttpProblem>> {
  const drafts = results.filter(isNoProblem)
  const domains = await draftDomains(services, request, drafts)
  const found = new Map(drafts.map((draft, i) => [draft, domains[i]!]))
  return results.map(draft => {
    if (draft instanceof HttpProblem) return draft
    const domain = found.get(draft)!
    return domain instanceof HttpProblem ? domain : { draft, domain }
  })
}

/** One after the other, and the process has a breath between two: templates may make much of little. */
async function prepareAll (
  services: Services,
  context: SendContext,
  linked: Array<LinkedDraft | HttpProblem>,
  finish: Finish
): Promise<Array<PreparedEmail | HttpProblem>> {
  const results: Array<PreparedEmail | HttpProblem> = []
  for (const result of linked) {
    results.push(result instanceof HttpProblem ? result : await prepareOne(services, context, result, finish))
    await new Promise(setImmediate)
  }
  return results
}

async function prepareOne (
  services: Services,
  context: SendContext,
  { draft, domain }: LinkedDraft,
  finish: Finish
): Promise<PreparedEmail | HttpProblem> {
  const finished = await finish(draft, domain).catch(onlyProblem)
  if (finished instanceof HttpProblem) return finished
  const prepared = await prepareEmail(services, context, finished, domain)
  return prepared instanceof Refusal ? invalid(faultsOfRefusal(prepared)) : prepared
}

function onlyProblem (error: unknown): HttpProblem {
  if (error instanceof HttpProblem) return error
  throw error
}

function isNoProblem<T> (result: T | HttpProblem): result is T {
  return !(result instanceof HttpProblem)
}

/** Throws when the batch fails as a whole: by any email in strict mode, by all of them in permissive mode. 403 comes
 *  before 422, as for one email; a 422 names all faults of all emails. */
function refuse (mode: Mode, results: readonly unknown[]): void {
  const problems = results.filter(result => result instanceof HttpProblem)
  if (problems.length === 0 || (mode === 'permissive' && problems.length < results.length)) return
  const refusal = problems.find(({ status }) => status === 403)
  if (refusal !== undefined) throw refusal
  throw invalid(results.flatMap((result, i) => (result instanceof HttpProblem ? placedFaults(result, i) : [])))
}

/** The faults of one email as faults of the batch. */
function placedFaults ({ body }: HttpProblem, i: number): FieldFault[] {
  const place = `emails[${i}]`
  return (body.details as FieldFault[]).map(({ field, code, message }) =>
    field === 'body'
      ? { field: place, code, message: message.replace(/^body/, place) }
      : { field: `${place}.${field}`, code, message }
  )
}

function acceptanceOf (results: Array<PreparedEmail | HttpProblem>): Acceptance<BatchAnswer> {
  const data = results.map(result =>
    result instanceof HttpProblem ? result.body as Static<typeof ProblemBody> : answerOf(result)
  )
  return {
    emails: results.filter(isNoProblem),
    answer: { status: 202, location: null, body: { data } }
  }
}
