import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import type { DomainEntry, Principal } from '#streams/directory.ts'
import { isProvenByAnother, isVerifiedEnough } from '#streams/domain/decide.ts'
import { messageIdOf, scheduleFault } from '#streams/email/decide.ts'
import { resolveOptions, type SendDefaults } from '#streams/email/defaults.ts'
import { EmailRequested, RequestClaimed } from '#streams/email/facts.ts'
import { heldBack } from '#streams/suppression/decide.ts'
import { CLAIM_MS } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { inSpan } from '#src/base/tracing.ts'
import type { Alternative } from '#src/content/mime.ts'
import type { Content } from '#src/content/compose.ts'
import type { RenderBudget } from '#src/content/mustache.ts'
import { viewOf, type MessageView } from '#src/content/submitted.ts'
import type { Append } from '#src/nats/append.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import { LogUnavailable } from '#src/nats/errors.ts'
import { untilAnswered } from '#src/nats/retry-on-disconnect.ts'
import { stamp } from './fact-log.ts'
import { loadRecipient, type RecipientRef } from './recipient.ts'
import type { Asker, Services, ServiceSettings } from './services.ts'

type EmailRequest = EmailRequested['data']

/** A file as it was given; `content` in base64. */
export type DraftFile = EmailRequest['attachments'][number] & { content: string }

/** A message that came whole: its header without what is not passed on, its body in base64, and what to list of it. */
export interface DraftMessage {
  head: string
  body: string
  attachments: EmailRequest['attachments']
}

/** A send request that has passed validation. */
export interface EmailDraft
  extends Pick<EmailRequest, 'from' | 'recipients' | 'replyTo' | 'headers' | 'tags' | 'metadata' | 'onDoubt'>
{
  /** null = the template's. */
  subject: string | null
  html: string | null
  text: string | null
  files: DraftFile[]
  alternatives: Alternative[]
  /** The message, where it came whole: then there is no other content. */
  whole?: DraftMessage
  template: { id: string, variables: Record<string, unknown> } | null
  /** Unix ms, or null for at once. */
  scheduledMs: number | null
  /** How long servers may take for a final verdict, once it is to be sent; null = 72 h. */
  expiresInS: number | null
  options: Partial<SendDefaults>
}

/** An email that will be accepted with the next append. */
export interface PreparedEmail {
  email: string
  createdAt: string
  status: 'queued' | 'scheduled' | 'suppressed'
  /** Those who get no mail. */
  suppressed: string[]
  /** How many do. */
  recipients: number
  append: Append
}

/** What is left of an Idempotency-Key and of the body it came with: both SHA-256, hex. */
export interface IdempotencyKey {
  hash: string
  bodyHash: string
}

/** The answer that a claim keeps. */
export type SendAnswer = RequestClaimed['data']['answer']

/** RFC 5321 4.5.4.1 allows 4–5 days for a final verdict; after three nobody waits for a mail any more. */
const BUDGET_S = 72 * 3600
/** The accepting append is given up after so long: the client hears 503 and may try again. Longer than a cluster takes
 *  to elect a leader, 4 to 9 s: an accept that gave up meanwhile would be stored all the same. */
const ACCEPT_TIMEOUT_MS = 12_000

/** Who sends, in which request, and what its templates may take in all. */
export interface SendContext {
  principal: Pick<Principal, 'id' | 'account' | 'test' | 'defaults'>
  correlation: string
  /** Its span, where it is traced. */
  trace?: string | undefined
  budget: RenderBudget
}

/** Makes ready what accepting will append, for a draft whose `domain` is linked to the key. Refuses
 *  `domain_unverified`, `in_the_past`, `too_late`, `subject_required`, and what a template refuses. Content too big
 *  for a fact is stored already. Throws when NATS does not answer. */
export async function prepareEmail (
  services: Services,
  context: SendContext,
  draft: EmailDraft,
  domain: DomainEntry | 'sandbox'
): Promise<PreparedEmail | Refusal> {
  const { principal, budget } = context
  const refusal = draftFault(services, draft, domain)
  if (refusal !== null) return refusal
  const [rendered, standing] = await Promise.all([
    draft.template === null
      ? null
      : services.templates.render(principal.account, { ...draft.template, ownSubject: draft.subject !== null }, budget),
    untilAnswered(async () =>
      await services.suppressions.standing(principal.account, draft.recipients.map(({ address }) => address))
    )
  ])
  if (rendered instanceof Refusal) return rendered
  const subject = draft.subject ?? rendered?.subject ?? null
  if (subject === null) return new Refusal('subject_required', 'subject is required: the template has none.')
  const defaults = domain === 'sandbox' ? undefined : domain.defaults
  const options = resolveOptions(draft.options, principal.defaults, defaults)
  const content = {
    html: rendered?.html ?? draft.html,
    text: rendered?.text ?? draft.text,
    ...partsOf(draft)
  }
  const template = rendered === null ? null : { id: draft.template!.id, version: rendered.version }
  const append = await appendOf(services, context, draft, { subject, content, template, options })
  return preparedOf(append, draft.recipients.filter((_, n) => heldBack(standing[n]!, options.unsubscribe) !== null))
}

function draftFault (
  services: Services,
  draft: EmailDraft,
  domain: DomainEntry | 'sandbox'
): Refusal | null {
  const { factLog, directory, settings } = services
  const nowMs = factLog.clock.nowMs()
  const fault = draft.scheduledMs === null
    ? null
    : scheduleFault(draft.scheduledMs, nowMs, nowMs + settings.contentRetentionMs)
  if (fault !== null || domain === 'sandbox') return fault
  const claims = directory.now.domainsByName.get(domain.name) ?? []
  const isRequired = mustBeVerified(services, domain.account) || isProvenByAnother(domain, claims)
  if (isVerifiedEnough(domain, isRequired)) return null
  return new Refusal(
    'domain_unverified',
    `from must be on a verified domain: publish the DNS records of ${domain.name} that GET /api/domains shows.`
  )
}

/** Whether an account may send only from domains that DNS shows to be its own. Where mail leaves this machine the
 *  operator's choice is for the first account alone: another could send as anybody. */
export function mustBeVerified (
  { settings: { requireVerifiedDomains, smtpUrl }, directory }: Pick<Services, 'directory'> & {
    settings: Pick<ServiceSettings, 'requireVerifiedDomains' | 'smtpUrl'>
  },
  account: string
): boolean {
  const leaves = smtpUrl !== null || directory.now.routes.size > 0
  return requireVerifiedDomains || (leaves && account !== FIRST_ACCOUNT)
}

/** `held` = recipients who would get nothing now. Who is suppressed when a scheduled email goes out is not known
 *  today. */
function preparedOf (append: Append & { fact: EmailRequested }, held: EmailDraft['recipients']): PreparedEmail {
  const { time, data: { email, scheduledAt, recipients } } = append.fact
  const suppressed = scheduledAt !== null ? [] : held.map(({ address }) => address)
  const unscheduled = suppressed.length === recipients.length ? 'suppressed' : 'queued'
  return {
    email,
    createdAt: time,
    status: scheduledAt !== null ? 'scheduled' : unscheduled,
    suppressed,
    recipients: recipients.length - suppressed.length,
    append
  }
}

/** What a draft became: rendered, its options resolved. */
export type FilledDraft = Pick<EmailRequest, 'subject' | 'template'> & {
  content: Content
  options: ReturnType<typeof resolveOptions>
}

/** What of a draft's content no template makes. */
export function partsOf (
  { files, alternatives, whole }: EmailDraft
): Pick<Content, 'files' | 'alternatives' | 'mime'> {
  return {
    files: files.map(({ content }) => content),
    ...(alternatives.length === 0 ? {} : { alternatives }),
    ...(whole === undefined ? {} : { mime: whole.body })
  }
}

/** Who asks for an email, and how long its content is kept. */
interface EmailOrigin {
  email: string
  principal: Pick<Principal, 'id' | 'test'>
  nowMs: number
  contentRetentionMs: number
}

async function appendOf (
  services: Services,
  { principal, correlation, trace }: SendContext,
  draft: EmailDraft,
  filled: FilledDraft
): Promise<Append & { fact: EmailRequested }> {
  const nowMs = services.factLog.clock.nowMs()
  const email = newId('em', nowMs)
  const { contentRetentionMs } = services.settings
  const data = requestedOf(draft, filled, { email, principal, nowMs, contentRetentionMs })
  const content = await storeContent(services, email, filled.content)
  const fact = stamp(
    EmailRequested,
    { account: principal.account, correlation, causation: null, ...(trace === undefined ? {} : { trace }) },
    { ...data, content },
    nowMs
  )
  return {
    fact,
    ...(contentRetentionMs < CLAIM_MS ? { ttlMs: contentRetentionMs } : {})
  }
}

/** The request a draft makes, its content with it. */
export function requestedOf (
  draft: EmailDraft,
  { subject, content, template, options }: FilledDraft,
  { email, principal, nowMs, contentRetentionMs }: EmailOrigin
): EmailRequest {
  // A time that has just passed means now.
  const scheduledMs = draft.scheduledMs === null || draft.scheduledMs <= nowMs ? null : draft.scheduledMs
  const { from, recipients, replyTo, headers, tags, metadata, onDoubt } = draft
  const budgetEndsMs = (scheduledMs ?? nowMs) + (draft.expiresInS ?? BUDGET_S) * 1000
  return {
    email,
    key: principal.id,
    test: principal.test,
    from,
    recipients,
    replyTo,
    subject,
    headers,
    attachments: draft.whole?.attachments ?? draft.files.map(({ content: _content, ...file }) => file),
    content,
    ...(draft.whole === undefined ? {} : { head: draft.whole.head }),
    template,
    track: { opens: options.opens, clicks: options.clicks },
    unsubscribe: options.unsubscribe,
    tags,
    metadata,
    scheduledAt: scheduledMs === null ? null : timestamp(scheduledMs),
    // Nothing can be sent once the content is gone.
    expiresAt: timestamp(Math.min(budgetEndsMs, nowMs + contentRetentionMs)),
    onDoubt
  }
}

/** The log did not answer in time: the emails may have been accepted, all or none. */
export class AcceptanceUnknown extends LogUnavailable {
  override name = 'AcceptanceUnknown'
  /** Their ids. */
  readonly emails: string[]
  constructor ({ message }: LogUnavailable, emails: string[]) {
    super(message, true)
    this.emails = emails
  }
}

/** Accepts emails, all or none: resolves once the log has them durably. With an Idempotency-Key its claim is part of
 *  the same append: throws Conflict when the key is taken. Throws AcceptanceUnknown, and LogUnavailable where nothing
 *  was stored. */
export async function acceptEmails (
  services: Pick<Services, 'factLog'>,
  { account, correlation }: Pick<Asker, 'account' | 'correlation'>,
  emails: PreparedEmail[],
  claim: { key: IdempotencyKey, answer: SendAnswer } | null
): Promise<void> {
  const part: Append[] = emails.map(({ append }) => append)
  if (claim !== null) {
    const data = { ...claim.key, emails: emails.map(({ email }) => email), answer: claim.answer }
    const fact = stamp(RequestClaimed, { account, correlation, causation: null }, data, services.factLog.clock.nowMs())
    part.push({ fact, expectedSeq: 0, ttlMs: CLAIM_MS })
  }
  const attributes = { 'messaging.system': 'nats', 'messaging.destination.name': 'REQUESTS' }
  const span = { name: 'append', kind: 'producer', parent: emails[0]?.append.fact.trace, attributes } as const
  try {
    await inSpan(span, () => services.factLog.append(part, ACCEPT_TIMEOUT_MS))
  } catch (error) {
    if (!(error instanceof LogUnavailable) || !error.doubt) throw error
    throw new AcceptanceUnknown(error, emails.map(({ email }) => email))
  }
}

/** Content above this is not kept in the fact: who follows REQUESTS holds up to a thousand of them in memory, and a
 *  commit carries many. */
const CONTENT_BYTES_MAX = 256 * 1024

/** Content small enough stays in the fact; bigger goes to the object store first, so that an accepted email never lacks
 *  it. */
async function storeContent (services: Services, email: string, content: Content): Promise<Content | null> {
  const sizeMax = Math.min(CONTENT_BYTES_MAX, (services.factLog.bus.nc.info?.max_payload ?? 1_048_576) / 2)
  // UTF-8 and JSON escapes make at most six bytes of a character: most mail is decided without encoding it twice.
  const others = (content.alternatives ?? []).map(alternative => alternative.content)
  const length = [content.html, content.text, ...others].reduce((sum, text) => sum + (text?.length ?? 0), 0)
  const filesLength = content.files.reduce((sum, file) => sum + file.length, content.mime?.length ?? 0)
  if (length * 6 + filesLength <= sizeMax) return content
  const bytes = bytesOf(content)
  if (bytes.length <= sizeMax) return content
  await services.blobs.put(email, bytes)
  return null
}

/** The content's JSON. Files are base64, of which JSON changes nothing: copied once, and not looked through. */
function bytesOf ({ files, mime, ...rest }: Content): Buffer {
  const whole = mime === undefined ? ['', '', ''] : [',"mime":"', mime, '"']
  const head = Buffer.from(JSON.stringify(rest).slice(0, -1))
  const list = `${whole[2]},"files":[`
  const marks = files.length === 0 ? 0 : 3 * files.length - 1
  const others = head.length + whole[0]!.length + whole[1]!.length + list.length + marks + ']}'.length
  const bytes = Buffer.allocUnsafe(files.reduce((sum, file) => sum + file.length, others))
  let at = head.copy(bytes)
  for (const text of [whole[0]!, whole[1]!, list]) at += bytes.write(text, at, 'latin1')
  for (const [i, file] of files.entries()) {
    at += bytes.write(i === 0 ? '"' : ',"', at, 'latin1')
    at += bytes.write(file, at, 'latin1')
    at += bytes.write('"', at, 'latin1')
  }
  bytes.write(']}', at, 'latin1')
  return bytes
}

/** Bodies and files ride in the request, or lie in the object store; null = they are gone, for certain with `patient`.
 *  Throws when NATS does not answer. */
export async function readContent (
  blobs: Blobs,
  { email, content }: EmailRequested['data'],
  patient = false
): Promise<Content | null> {
  if (content !== null) return content
  const bytes = await blobs.get(email, patient)
  return bytes === null ? null : JSON.parse(new TextDecoder().decode(bytes)) as Content
}

/** The texts that readers of an email are shown; of a message that came whole they are among its parts. */
export function shownContent ({ head }: Pick<EmailRequested['data'], 'head'>, content: Content): MessageView {
  if (head !== undefined) return viewOf({ head, body: Buffer.from(content.mime ?? '', 'base64') })
  const { html, text, alternatives = [] } = content
  return { html, text, alternatives }
}

/** The message that a recipient got, or will get if it went out at the request's time. Throws when NATS does not
 *  answer. */
export async function readMessage (
  { factLog, compose }: Pick<Services, 'factLog' | 'compose'>,
  ref: RecipientRef,
  content: Content
): Promise<Buffer> {
  const { request: { fact }, n } = ref
  const { state } = await loadRecipient(factLog.bus, ref)
  const copy = { messageId: messageIdOf(fact.data, n), date: state.date ?? fact.time }
  return (await compose(ref, content, copy)).message
}
