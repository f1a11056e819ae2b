import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import type { FieldFault } from '#streams/define.ts'
import { EMAILS_MAX } from '#streams/email/facts.ts'
import { resolveOptions } from '#streams/email/defaults.ts'
import type { DraftFile, EmailDraft } from '#src/actions/email.ts'
import type { Services } from '#src/actions/services.ts'
import { attachmentFaults, FILES_MAX, readAttachment } from '#src/content/attachments.ts'
import { acceptAll, type BatchAnswer, type Mode } from '../batches.ts'
import { BIG_BODY_BYTES_MAX } from '../body-budget.ts'
import type { Api } from '../context.ts'
import { readDraft, SendRequest } from '../drafts.ts'
import { acceptOne, contextOf, SENDING, type Finish } from '../emails.ts'
import { HttpProblem, invalid, mustFault, unavailable } from '../errors.ts'
import { compileValidator } from '../faults.ts'
import type { Acceptor } from '#src/actions/acceptor.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { translateEmail, type RemoteFile, type TranslatedEmail } from './email.ts'
import { resendErrorOf } from './errors.ts'
import { FetchRefused, type RemoteFiles } from './remote-files.ts'

/** Source: Resend's description, "Idempotency-Key". */
const KEY_CHARS_MAX = 256
const ROUTE = { bodyLimit: BIG_BODY_BYTES_MAX, config: { ...SENDING, keyCharsMax: KEY_CHARS_MAX } }
/** Resend tracks nothing and adds no List-Unsubscribe where nobody asks for it. */
const QUIET = { opens: false, clicks: false, unsubscribe: false }
/** What `translateEmail` makes of a body is judged instead. */
const AnyBody = Type.Unknown()

const checkEmail = compileValidator(SendRequest)

export interface ResendModules {
  services: Services
  acceptor: Acceptor
  remoteFiles: RemoteFiles
  reads: Reads
}

export function resendSendRoutes (app: Api, sending: ResendModules): void {
  const { services } = sending

  app.post('/emails', { ...ROUTE, schema: { body: AnyBody } }, async (request, reply) => {
    const translated = translateEmail(request.body, services.factLog.clock.nowMs())
    const draft = draftOf(services, request, translated)
    if (draft instanceof HttpProblem) throw draft
    const { id } = await acceptOne(sending, { request, reply }, draft, finishWith(sending, request, translated.remote))
    return await reply.code(200).removeHeader('location').send({ id })
  })

  app.post('/emails/batch', { ...ROUTE, schema: { body: AnyBody } }, async (request, reply) => {
    const mode = modeOf(request)
    const drafts = emailsOf(request.body).map(email => batchDraftOf(services, request, email))
    const answer = await acceptAll(sending, { request, reply }, drafts, mode, finishWith(sending, request))
      .catch((error: unknown) => refusedInPart(error, mode))
    return await reply.code(200).removeHeader('location').send(batchOf(answer, mode))
  })
}

/** Judges the translated email as the API judges a request. */
function draftOf (services: Services, request: FastifyRequest, email: TranslatedEmail): EmailDraft | HttpProblem {
  const checked = checkEmail(email.request)
  const found = [...email.faults, ...('error' in checked ? checked.error.faults : [])]
  const draft = readDraft(email.request as SendRequest, found, contextOf(services, request))
  if (Array.isArray(draft)) return invalid(draft.map(fault => ({ ...fault, field: asGiven(fault.field, email) })))
  return draft.files.length + email.remote.length <= FILES_MAX
    ? draft
    : invalid([mustFault('attachments', 'too_many', `have at most ${FILES_MAX} files`)])
}

/** Files that are to be fetched are not in the list that was judged. */
function asGiven (field: string, { here }: TranslatedEmail): string {
  return field.replace(/^attachments\[(\d+)\]/, (_all, i: string) => `attachments[${here[Number(i)] ?? i}]`)
}

/** Fetching the files of a hundred emails would take the time of a hundred. */
function batchDraftOf (services: Services, request: FastifyRequest, given: unknown): EmailDraft | HttpProblem {
  const email = translateEmail(given, services.factLog.clock.nowMs())
  const faults = email.remote.map(({ at }) =>
    mustFault(`attachments[${at}].path`, 'not_supported', 'not be used in a batch: send content')
  )
  const draft = draftOf(services, request, email)
  if (faults.length === 0) return draft
  return invalid([...faults, ...(draft instanceof HttpProblem ? draft.body.details as FieldFault[] : [])])
}

function emailsOf (body: unknown): unknown[] {
  const isBatch = Array.isArray(body) && body.length >= 1 && body.length <= EMAILS_MAX
  if (isBatch) return body
  throw invalid([mustFault('body', 'invalid_value', `be a list of 1 to ${EMAILS_MAX} emails`)])
}

function modeOf ({ headers }: FastifyRequest): Mode {
  return headers['x-batch-validation'] === 'permissive' ? 'permissive' : 'strict'
}

/** What a new email still lacks: whether it is tracked where nobody says so, and the files that lie elsewhere. */
function finishWith (
  { remoteFiles }: ResendModules,
  { principal }: FastifyRequest,
  remote: readonly RemoteFile[] = []
): Finish {
  const { account, defaults } = principal!
  return async (draft, domain) => {
    const options = resolveOptions(draft.options, defaults, domain === 'sandbox' ? {} : domain.defaults, QUIET)
    if (remote.length === 0) return { ...draft, options }
    return { ...draft, options, files: await withRemote(remoteFiles, account, draft.files, remote) }
  }
}

async function withRemote (
  remoteFiles: RemoteFiles,
  account: string,
  here: readonly DraftFile[],
  remote: readonly RemoteFile[]
): Promise<DraftFile[]> {
  const contents = await remoteFiles.fetch(account, remote).catch((error: unknown) => {
    if (!(error instanceof FetchRefused)) throw error
    throw invalid([mustFault(`attachments[${(error.cause as RemoteFile).at}].path`, 'not_fetched', error.message)])
  })
  if (contents === null) throw unavailable('busy', 'Too many emails wait for files from elsewhere: try again.')
  const given = here.map(({ filename, contentType, contentId, content }) =>
    givenFile(filename, content, contentType, contentId)
  )
  for (const [i, { at, filename, contentType, contentId }] of remote.entries()) {
    given.splice(at, 0, givenFile(filename, contents[i]!, contentType, contentId))
  }
  const faults = attachmentFaults(given)
  if (faults.length > 0) throw invalid(faults.map(fault => ({ ...fault, field: `attachments${fault.field}` })))
  return given.map(readAttachment)
}

function givenFile (filename: string, content: string, type: string | undefined, id: string | null | undefined) {
  return {
    filename,
    content,
    ...(type === undefined ? {} : { content_type: type }),
    ...(id == null ? {} : { content_id: id })
  }
}

/** In permissive mode a batch of nothing but faults is answered like any other. */
function refusedInPart (error: unknown, mode: Mode): BatchAnswer {
  const isOfEach = error instanceof HttpProblem && error.status === 422 && mode === 'permissive'
  if (!isOfEach) throw error
  const byEmail = Map.groupBy(error.body.details as FieldFault[], ({ field }) => /^emails\[(\d+)\]/.exec(field)?.[1])
  if (byEmail.has(undefined)) throw error
  return { data: [...byEmail.values()].map(faults => invalid(faults.map(ofEmail)).body as BatchAnswer['data'][number]) }
}

function ofEmail ({ field, ...fault }: FieldFault): FieldFault {
  return { ...fault, field: field.replace(/^emails\[\d+\]\.?/, '') }
}

function batchOf ({ data }: BatchAnswer, mode: Mode) {
  const sent = data.flatMap(one => ('id' in one ? { id: one.id } : []))
  const errors = data.flatMap((one, index) => ('id' in one ? [] : { index, message: messageOfOne(one) }))
  return mode === 'permissive' ? { data: sent, errors } : { data: sent }
}

function messageOfOne (body: Record<string, unknown>): string {
  const status = Array.isArray(body.details) ? 422 : 403
  return resendErrorOf(new HttpProblem(status, body)).message
}
