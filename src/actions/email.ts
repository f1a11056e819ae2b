import { domainOf } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import type { Key } from '#streams/directory.ts'
import { isVerifiedEnough } from '#streams/domain/decide.ts'
import { scheduleFault } from '#streams/email/decide.ts'
import { resolveOptions, type SendDefaults } from '#streams/email/defaults.ts'
import { EmailRequested, RequestClaimed } from '#streams/email/facts.ts'
import { maySendFrom } from '#streams/key/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { heldBack } from '#streams/suppression/decide.ts'
import { CLAIM_MS } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { RenderBudget } from '#src/content/mustache.ts'
import type { Append } from '#src/nats/append.ts'
import type { Services } from './services.ts'
import { stamp } from './appenders.ts'

type Requested = EmailRequested['data']

/** A file as it was given; `content` in base64. */
export type DraftFile = Requested['attachments'][number] & { content: string }

/** A send request that has passed validation. */
export interface Draft
  extends Pick<Requested, 'from' | 'recipients' | 'replyTo' | 'headers' | 'tags' | 'metadata' | 'onDoubt'>
{
  /** null = the template's. */
  subject: string | null
  html: string | null
  text: string | null
  files: DraftFile[]
  template: { id: string, variables: Record<string, unknown> } | null
  /** Unix ms, or null for at once. */
  scheduledMs: number | null
  /** How long servers may take for a final verdict, once it is to be sent; null = 72 h. */
  expiresInS: number | null
  options: Partial<SendDefaults>
}

/** An email that will be accepted with the next append. */
export interface Prepared {
  email: string
  createdAt: string
  status: 'queued' | 'scheduled' | 'suppressed'
  /** Those who get no mail. */
  suppressed: string[]
  append: Append
}

/** What is left of an Idempotency-Key and of the body it came with: both SHA-256, hex. */
export interface Idempotency {
  hash: string
  bodyHash: string
}

/** The answer that a claim keeps. */
export type Answer = RequestClaimed['data']['answer']

/** RFC 5321 4.5.4.1 allows 4–5 days for a final verdict; after three nobody waits for a mail any more. */
const BUDGET_S = 72 * 3600
/** The accepting append is given up after so long: the client hears 503 and may try again. */
const ACCEPT_TIMEOUT_MS = 5000

/** Spec 4.1 rule 1: null when the key may send from the draft's domain. */
export function linkFault (
  { directory }: Pick<Services, 'directory'>,
  key: Key,
  { from }: Pick<Draft, 'from'>
): Refusal | null {
  const domain = domainOf(from.address)
  if (maySendFrom(key, domain, directory.now.domains.get(domain)?.account)) return null
  return new Refusal('domain_not_linked', 'The sending domain is not linked to this key.')
}

/** Who asks, in which request, and what its templates may make of it in all. */
export interface Preparing {
  key: Key
  correlation: string
  budget: RenderBudget
}

/** Makes ready what accepting will append. Refuses `domain_not_linked`, `domain_unverified`, `in_the_past`, `too_late`,
 *  `subject_required`, and what a template refuses. Content too big for a fact is stored already. Throws when NATS does
 *  not answer. */
export async function prepareEmail (
  services: Services,
  { key, correlation, budget }: Preparing,
  draft: Draft
): Promise<Prepared | Refusal> {
  const name = domainOf(draft.from.address)
  const domain = services.directory.now.domains.get(name)
  const nowMs = services.appenders.clock.nowMs()
  const refusal = linkFault(services, key, draft) ??
    (draft.scheduledMs === null
      ? null
      : scheduleFault(draft.scheduledMs, nowMs, nowMs + services.settings.contentRetentionMs))
  if (refusal !== null) return refusal
  if (!isVerifiedEnough(domain, services.settings.requireVerifiedDomains)) {
    return new Refusal('domain_unverified', `The DNS records of ${name} are not verified.`)
  }
  const [rendered, standing] = await Promise.all([
    draft.template === null
      ? null
      : services.templates.render(key.account, draft.template.id, draft.template.variables, budget),
    services.suppressions.standing(key.account, draft.recipients.map(({ address }) => address))
  ])
  if (rendered instanceof Refusal) return rendered
  const subject = draft.subject ?? rendered?.subject ?? null
  if (subject === null) return new Refusal('subject_required', 'Neither the request nor its template has a subject.')
  const options = resolveOptions(draft.options, key.defaults, domain?.defaults)
  const content = {
    html: rendered?.html ?? draft.html,
    text: rendered?.text ?? draft.text,
    files: draft.files.map(file => file.content)
  }
  const template = rendered === null ? null : { id: draft.template!.id, version: rendered.version }
  const append = await requestOf(services, key, correlation, draft, { subject, content, template, options })
  const { email, scheduledAt } = append.fact.data
  // Who is suppressed when a scheduled email goes out is not known today.
  const suppressed = scheduledAt !== null
    ? []
    : draft.recipients.filter((_recipient, n) => heldBack(standing[n]!, options.unsubscribe) !== null).map((
      { address }
    ) => address)
  const status = scheduledAt !== null
    ? 'scheduled'
    : suppressed.length === draft.recipients.length
    ? 'suppressed'
    : 'queued'
  return { email, createdAt: append.fact.time, status, suppressed, append }
}

/** What a draft became: rendered, its options resolved. */
export type Filled = Pick<Requested, 'subject' | 'template'> & {
  content: Content
  options: ReturnType<typeof resolveOptions>
}

/** Who asks for an email, and how long its content is kept. */
interface Asked {
  email: string
  key: Pick<Key, 'id' | 'test'>
  nowMs: number
  contentRetentionMs: number
}

async function requestOf (services: Services, key: Key, correlation: string, draft: Draft, filled: Filled) {
  const nowMs = services.appenders.clock.nowMs()
  const email = newId('em', nowMs)
  const { contentRetentionMs } = services.settings
  const data = requestedOf(draft, filled, { email, key, nowMs, contentRetentionMs })
  const content = await stow(services, email, filled.content)
  const fact = stamp(
    EmailRequested,
    { account: key.account, correlation, causation: null },
    { ...data, content },
    nowMs
  )
  return {
    subject: subjects.request(key.account, email),
    fact,
    ...(contentRetentionMs < CLAIM_MS ? { ttlMs: contentRetentionMs } : {})
  }
}

/** The request a draft makes, its content with it. */
export function requestedOf (
  draft: Draft,
  { subject, content, template, options }: Filled,
  { email, key, nowMs, contentRetentionMs }: Asked
): Requested {
  // A time that has just passed means now.
  const scheduledMs = draft.scheduledMs === null || draft.scheduledMs <= nowMs ? null : draft.scheduledMs
  const { from, recipients, replyTo, headers, tags, metadata, onDoubt } = draft
  const budgetEndsMs = (scheduledMs ?? nowMs) + (draft.expiresInS ?? BUDGET_S) * 1000
  return {
    email,
    key: key.id,
    test: key.test,
    from,
    recipients,
    replyTo,
    subject,
    headers,
    attachments: draft.files.map(({ content: _content, ...file }) => file),
    content,
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

/** Accepts emails, all or none: resolves once the log has them durably. With an Idempotency-Key its claim is part of
 *  the same append: throws Conflict when the key is taken. Throws LogUnavailable. */
export async function acceptEmails (
  services: Services,
  asker: { account: string, correlation: string },
  emails: Prepared[],
  claim: { key: Idempotency, answer: Answer } | null
): Promise<void> {
  const part: Append[] = emails.map(({ append }) => append)
  if (claim !== null) {
    const data = { ...claim.key, emails: emails.map(({ email }) => email), answer: claim.answer }
    const fact = stamp(RequestClaimed, { ...asker, causation: null }, data, services.appenders.clock.nowMs())
    part.push({ subject: subjects.claim(asker.account, claim.key.hash), fact, expectedSeq: 0, ttlMs: CLAIM_MS })
  }
  await services.appenders.requests.append(part, ACCEPT_TIMEOUT_MS)
}

/** Content above this is not kept in the fact: who follows REQUESTS holds up to a thousand of them in memory, and a
 *  commit carries many. */
const CONTENT_BYTES_MAX = 256 * 1024

type Content = NonNullable<Requested['content']>

/** Content small enough stays in the fact; bigger goes to the object store first, so that an accepted email never lacks
 *  it. */
async function stow (services: Services, email: string, content: Content): Promise<Content | null> {
  const sizeMax = Math.min(CONTENT_BYTES_MAX, (services.appenders.bus.nc.info?.max_payload ?? 1_048_576) / 2)
  // UTF-8 and JSON escapes make at most six bytes of a character: most mail is decided without encoding it twice.
  const length = (content.html?.length ?? 0) + (content.text?.length ?? 0)
  const filesLength = content.files.reduce((sum, file) => sum + file.length, 0)
  if (length * 6 + filesLength <= sizeMax) return content
  const bytes = Buffer.from(JSON.stringify(content))
  if (bytes.length <= sizeMax) return content
  await services.blobs.put(email, bytes)
  return null
}
