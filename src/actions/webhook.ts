import { randomBytes } from 'node:crypto'
import { checkFact, type AnyFact } from '#streams/catalog.ts'
import { Refusal } from '#streams/define.ts'
import { emptyDirectory, evolveDirectory, type WebhookEntry } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import {
  countFault,
  decideChange,
  decideDelete,
  decideFailure,
  decideFinish,
  decideGone,
  decideRotation,
  decideSuccess,
  eventsFault,
  testFault,
  urlFault,
  type WebhookChanges,
  type WebhookDecision,
  type WebhookSettings
} from '#streams/webhook/decide.ts'
import { WebhookCreated, type EventType } from '#streams/webhook/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { literalFault } from '#src/dns/guard.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { askForRelease, requestTestDelivery } from './delivery.ts'
import type { Asker, Services, ServiceSettings } from './services.ts'
import { countOf } from './directory.ts'
import { stamp, type FactCause } from './appenders.ts'
import { retryOnConflictOf } from './retry-on-conflict.ts'

export interface ChangedWebhook {
  webhook: WebhookEntry
  /** In CONTROL: a node whose directory has reached it knows the endpoint like this; 0 when nothing changed. */
  seq: number
}

/** `secret` is `whsec_…`, shown now and never again. */
export interface CreatedWebhook extends ChangedWebhook {
  secret: string
}

/** What making an endpoint needs. */
export type WebhookServices = Pick<Services, 'appenders' | 'directory' | 'vault'> & {
  settings: Pick<ServiceSettings, 'webhookAllowPrivate'>
}

type DecidingServices = Pick<Services, 'appenders' | 'directory'>

/** Makes an endpoint that gets the chosen events from now on, or from `startAt` on, be it in the past. Throws
 *  LogUnavailable. */
export async function createWebhook (
  services: WebhookServices,
  asker: Asker,
  settings: WebhookSettings & { startAt?: string }
): Promise<CreatedWebhook | Refusal> {
  const fault = targetFault(settings.url, services.settings.webhookAllowPrivate) ?? eventsFault(settings.events) ??
    countFault(countOf(services.directory.now.webhooks.values(), asker.account))
  if (fault !== null) return fault
  const nowMs = services.appenders.clock.nowMs()
  const id = newId('wh', nowMs)
  const secret = newSigningSecret()
  const { startAt = timestamp(nowMs), ...chosen } = settings
  const data = { ...chosen, sealedSecret: services.vault.seal(secret, id), startAt }
  const fact = stamp(WebhookCreated, { ...asker, causation: null }, { webhook: id, ...data }, nowMs)
  const [seq] = await services.appenders.append([{ fact, expectedSeq: 0 }])
  return {
    webhook: {
      ...data,
      id,
      account: asker.account,
      previous: null,
      createdAt: fact.time,
      failingSince: null,
      workedAt: null,
      disabled: null
    },
    secret,
    seq: seq!
  }
}

/** Where callbacks may not go, as far as it can be told without asking DNS; a name's addresses are looked at when it is
 *  called. */
export function targetFault (url: string, allowPrivate: boolean): Refusal | null {
  const fault = urlFault(url, allowPrivate)
  if (fault !== null || allowPrivate) return fault
  const why = literalFault(new URL(url).hostname)
  return why === null ? null : new Refusal('invalid_url', `url must lead to the public internet: ${why}.`)
}

/** `whsec_` and 256 bits in standard base64: the whole text is the key of the spec's signature, the decoded part that
 *  of Standard Webhooks, whose libraries do not read base64url. */
function newSigningSecret (): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

/** Changes what is given. What a pause has held goes out once it is over. Throws LogUnavailable, Conflict, or the
 *  client's error when NATS does not answer: said again, it does what is left to do. */
export async function changeWebhook (
  services: WebhookServices,
  asker: Asker,
  id: string,
  changes: WebhookChanges
): Promise<ChangedWebhook | Refusal> {
  const { url, events } = changes
  const fault = (url === undefined ? null : targetFault(url, services.settings.webhookAllowPrivate)) ??
    (events === undefined ? null : eventsFault(events))
  if (fault !== null) return fault
  const changed = await act(services, asker, id, webhook => decideChange(webhook, changes))
  // Also when it was not paused: the first time may have got no further than the fact.
  if (changes.paused === false && !(changed instanceof Refusal)) await askForRelease(services.appenders, id)
  return changed
}

/** Gives an endpoint a new signing secret; for 24 hours the one before signs too. Throws LogUnavailable or Conflict. */
export async function rotateSecret (
  services: WebhookServices,
  asker: Asker,
  id: string
): Promise<CreatedWebhook | Refusal> {
  const secret = newSigningSecret()
  const sealed = services.vault.seal(secret, id)
  const rotated = await act(services, asker, id, (webhook, nowMs) => decideRotation(webhook, sealed, nowMs))
  return rotated instanceof Refusal ? rotated : { ...rotated, secret }
}

/** From now on only the new secret signs. Throws LogUnavailable or Conflict. */
export async function finishRotation (
  services: DecidingServices,
  asker: Asker,
  id: string
): Promise<ChangedWebhook | Refusal> {
  return await act(services, asker, id, decideFinish)
}

/** Ends an endpoint; what is still owed to it ends as failed (`endpoint_deleted`). Throws LogUnavailable or Conflict.
 */
export async function deleteWebhook (
  services: DecidingServices,
  asker: Asker,
  id: string
): Promise<ChangedWebhook | Refusal> {
  const deleted = await act(services, asker, id, decideDelete)
  if (!(deleted instanceof Refusal)) await endWaiting(services, id)
  return deleted
}

/** What waits for an endpoint that is over ends at once; should NATS not answer, when its time comes. */
async function endWaiting ({ appenders }: DecidingServices, id: string): Promise<void> {
  await askForRelease(appenders, id).catch(error => {
    if (!isUnanswered(error)) throw error
  })
}

/** Sends a made-up event of `type`, or of the first type the endpoint listens to, to it alone. Throws LogUnavailable.
 */
export async function testWebhook (
  services: DecidingServices,
  asker: Asker,
  id: string,
  type?: EventType
): Promise<{ event: string, delivery: string } | Refusal> {
  const webhook = ownWebhook(services, asker, id)
  if (webhook instanceof Refusal) return webhook
  const fault = testFault(webhook)
  if (fault !== null) return fault
  const owed = await requestTestDelivery(services.appenders, asker, webhook, type ?? webhook.events[0]!)
  return { event: owed.events[0]!.id, delivery: owed.delivery }
}

/** Decides on what this process knows and appends the facts, if nothing has happened to the endpoint since; else it
 *  catches up and decides again. Throws LogUnavailable or Conflict. */
async function act (
  services: DecidingServices,
  asker: Asker,
  id: string,
  decide: (webhook: WebhookEntry, nowMs: number) => WebhookDecision[] | Refusal
): Promise<ChangedWebhook | Refusal> {
  const subject = subjects.webhook(asker.account, id)
  return await retryOnConflictOf(services.directory, async () => {
    const webhook = ownWebhook(services, asker, id)
    if (webhook instanceof Refusal) return webhook
    const nowMs = services.appenders.clock.nowMs()
    const decided = decide(webhook, nowMs)
    if (decided instanceof Refusal) return decided
    const facts = decided.map(({ type, data }) => checkFact(stamp(type, { ...asker, causation: null }, data, nowMs)))
    const after = evolved(webhook, facts)
    if (facts.length === 0) return { webhook: after, seq: 0 }
    return { webhook: after, seq: await appendFacts(services, subject, facts) }
  })
}

/** Behind what this process knows of the subject; resolves to the last one's sequence. Throws Conflict when it has
 *  moved on. */
async function appendFacts (
  { appenders, directory }: DecidingServices,
  subject: string,
  facts: AnyFact[]
): Promise<number> {
  const expectedSeq = directory.now.versions.get(subject)!
  const seqs = await appenders.append(facts.map((fact, i) => (i === 0 ? { fact, expectedSeq } : { fact })))
  return seqs.at(-1)!
}

/** The account's endpoint, by what this process knows. */
export function ownWebhook (
  services: Pick<Services, 'directory'>,
  asker: Pick<Asker, 'account'>,
  id: string
): WebhookEntry | Refusal {
  const webhook = services.directory.now.webhooks.get(id)
  return webhook === undefined || webhook.account !== asker.account
    ? new Refusal('not_found', `There is no webhook ${id}.`)
    : webhook
}

/** As it is after `facts`, by the directory's own fold; as it was when they end it. */
function evolved (webhook: WebhookEntry, facts: AnyFact[]): WebhookEntry {
  const directory = emptyDirectory()
  const copy = { ...webhook }
  directory.webhooks.set(webhook.id, copy)
  for (const fact of facts) evolveDirectory(directory, { fact, seq: 0, subject: '' })
  return copy
}

/** What an answer of its server says about an endpoint: 410, or since when (Unix ms) it has done nothing but fail, or
 *  that it works. */
export type WebhookNews = { gone: true } | { failingSinceMs: number } | { works: true }

/** Who answered: the endpoint, and its URL when it was asked. */
export interface AnsweringEndpoint {
  id: string
  url: string
}

/** Tells in the log what an answer changes: null when nothing, or when the endpoint is no more, or elsewhere by now.
 *  Throws LogUnavailable or Conflict. */
export async function judgeWebhook (
  services: DecidingServices,
  cause: FactCause,
  { id, url }: AnsweringEndpoint,
  news: WebhookNews
): Promise<ChangedWebhook | null> {
  const judged = await retryOnConflictOf(services.directory, async () => {
    const webhook = services.directory.now.webhooks.get(id)
    const nowMs = services.appenders.clock.nowMs()
    const decided = webhook?.url === url ? decideNews(webhook, news, nowMs) : []
    if (decided.length === 0) return null
    const facts = decided.map(({ type, data }) => checkFact(stamp(type, cause, data, nowMs)))
    const after = evolved(webhook!, facts)
    return { webhook: after, seq: await appendFacts(services, subjects.webhook(webhook!.account, id), facts) }
  })
  if (judged !== null && judged.webhook.disabled !== null) await endWaiting(services, id)
  return judged
}

function decideNews (webhook: WebhookEntry, news: WebhookNews, nowMs: number): WebhookDecision[] {
  if ('gone' in news) return decideGone(webhook)
  return 'works' in news ? decideSuccess(webhook) : decideFailure(webhook, news.failingSinceMs, nowMs)
}
