import { Kind, Type, type Static } from '@sinclair/typebox'
import { Refusal } from '#streams/define.ts'
import type { Services } from '#src/actions/services.ts'
import { linkFault, prepareEmail, type Draft, type Prepared, type Preparing } from '#src/actions/email.ts'
import { newRenderBudget } from '#src/content/mustache.ts'
import { refuseFaults, type Api } from './context.ts'
import { readDraft, SendRequest, type DraftContext } from './drafts.ts'
import { answerOf, contextOf, problemOfRefusal, SendAnswer } from './emails.ts'
import { forbidden, invalid, ProblemBody, type Fault, type Problem } from './errors.ts'
import { compileValidator } from './faults.ts'
import type { Acceptance, Acceptor } from './idempotency.ts'

const BATCH_MAX = 100

/** Each email is checked apart, so that the faults of one cannot hide behind those of another: here its schema only
 *  describes. */
const { [Kind]: _kind, ...shape } = SendRequest
const Described = Type.Unknown(shape)

const BatchRequest = Type.Object({
  emails: Type.Array(Described, {
    minItems: 1,
    maxItems: BATCH_MAX,
    description: `emails is a list of 1 to ${BATCH_MAX} emails.`
  }),
  mode: Type.Optional(Type.Union([Type.Literal('strict'), Type.Literal('permissive')], {
    description: 'mode is strict (all are accepted or none; the default) or permissive (those without fault are).'
  }))
}, {
  additionalProperties: false,
  description: 'The body is a JSON object.',
  examples: [{
    emails: [{ from: 'ada@sandbox.jetpost.test', to: 'grace@example.com', subject: 'Hello', text: 'Hello' }],
    mode: 'strict'
  }]
})

/** In permissive mode an email that was refused has its error in its place. */
const BatchAnswer = Type.Object({ data: Type.Array(Type.Union([SendAnswer, ProblemBody])) }, {
  examples: [{ data: [...SendAnswer.examples as object[], { error: 'Insufficient API key permissions' }] }]
})
type BatchAnswer = Static<typeof BatchAnswer>

const checkEmail = compileValidator(SendRequest)

/** What became of one email of a batch. */
type Result = Prepared | Problem

export function batchRoutes (app: Api, services: Services, acceptor: Acceptor): void {
  app.post('/emails/batch', {
    config: { scope: 'emails:send', errors: [409], idempotent: true },
    schema: {
      operationId: 'sendBatch',
      summary: 'Send up to 100 emails',
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
    const key = request.key!
    const drafts = emails.map(email => readOne(email, contextOf(services, request)))
    const faulty = drafts.some(draft => Array.isArray(draft))
    if (faulty && (mode === 'strict' || drafts.every(draft => Array.isArray(draft)))) throw invalid(placed(drafts))
    const isLinked = (draft: Draft | Fault[]) => Array.isArray(draft) || linkFault(services, key, draft) === null
    return await acceptor.accept(request, reply, {
      body: request.body,
      isAllowed: () => (mode === 'strict' ? drafts.every(isLinked) : drafts.some(isLinked)),
      prepare: async () => {
        const results = await prepareAll(services, { key, correlation: request.id, budget: newRenderBudget() }, drafts)
        return mode === 'strict' ? strictly(results) : permissively(results)
      }
    })
  })
}

function readOne (email: unknown, context: DraftContext): Draft | Fault[] {
  const checked = checkEmail(email)
  return readDraft(email as SendRequest, 'error' in checked ? checked.error.faults : [], context)
}

function placed (drafts: Array<Draft | Fault[]>): Fault[] {
  return drafts.flatMap((
    draft,
    i
  ) => (Array.isArray(draft) ? draft.map(fault => ({ ...fault, field: fieldIn(i, fault.field) })) : []))
}

function fieldIn (i: number, field: string): string {
  return field === 'body' ? `emails[${i}]` : `emails[${i}].${field}`
}

/** One after the other, and the process has a breath between two: templates may make much of little. */
async function prepareAll (
  services: Services,
  preparing: Preparing,
  drafts: Array<Draft | Fault[]>
): Promise<Result[]> {
  const results: Result[] = []
  for (const draft of drafts) {
    results.push(await prepareOne(services, preparing, draft))
    await new Promise(setImmediate)
  }
  return results
}

async function prepareOne (services: Services, preparing: Preparing, draft: Draft | Fault[]): Promise<Result> {
  if (Array.isArray(draft)) return invalid(draft)
  const prepared = await prepareEmail(services, preparing, draft)
  return prepared instanceof Refusal ? problemOfRefusal(prepared) : prepared
}

function isPrepared (result: Result): result is Prepared {
  return 'append' in result
}

/** 403 before 422, as for one email; and all faults of all emails together. */
function strictly (results: Result[]): Acceptance<BatchAnswer> {
  const prepared = results.filter(isPrepared)
  if (prepared.length < results.length) throw worst(results)
  return acceptance(prepared, prepared.map(answerOf))
}

function permissively (results: Result[]): Acceptance<BatchAnswer> {
  const prepared = results.filter(isPrepared)
  if (prepared.length === 0) throw worst(results)
  return acceptance(
    prepared,
    results.map(result => (isPrepared(result) ? answerOf(result) : result.body as Static<typeof ProblemBody>))
  )
}

function worst (results: Result[]): Problem {
  if (results.some(result => !isPrepared(result) && result.status === 403)) return forbidden()
  return invalid(
    results.flatMap((result, i) => (isPrepared(result)
      ? []
      : (result.body.details as Fault[]).map(fault => ({ ...fault, field: fieldIn(i, fault.field) })))
    )
  )
}

function acceptance (emails: Prepared[], data: BatchAnswer['data']): Acceptance<BatchAnswer> {
  return { emails, answer: { status: 202, location: null, body: { data } } }
}
