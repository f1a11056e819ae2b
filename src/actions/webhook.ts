import { randomBytes } from 'node:crypto'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import type { WebhookEntry } from '#streams/directory.ts'
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
  formatFault,
  testFault,
  urlFault,
  type WebhookChanges,
  type WebhookDecision,
  type WebhookSettings
} from '#streams/webhook/decide.ts'
import { formatOf } from '#streams/delivery/decide.ts'
import { testKeyRefusal } from '#streams/key/decide.ts'
import { WebhookCreated, type EventType, type WebhookFormat, type WebhookMode } from '#streams/webhook/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { literalFault } from '#src/dns/guard.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { requestTestDelivery } from './delivery.ts'
import { wakeReplays } from './replay-schedule.ts'
import type { Asker, MayCallPrivate, Services, ServiceSettings } from './services.ts'
import { countOf } from './directory.ts'
import { askedBy, roleActor, stamp, type FactCause } from './fact-log.ts'
import { createEntity, handleCommand, type CommandServices, type Handled } from './handle-command.ts'

/** `secret` is `whsec_…`, shown now and never again. */
export type CreatedWebhook = Handled<'webhook'> & { secret: string }

/** What making an endpoint needs. */
export type WebhookServices = CommandServices & Pick<Services, 'vault'> & {
  settings: Pick<ServiceSettings, 'mayCallPrivate'>
}

/** Makes an endpoint that gets the chosen events from now on, or from `startAt` on, be it in the past. Throws
 *  LogUnavailable. */
export async function createWebhook (
  services: WebhookServices,
  asker: Asker,
  settings: WebhookSettings & { format?: WebhookFormat, startAt?: string }
): Promise<CreatedWebhook | Refusal> {
  const { format = 'jetpost', startAt, ...chosen } = settings
  const fault = modeFault(asker, settings.mode) ?? formatFault(format, settings.batch) ??
    targetFault(services.settings, asker.account, settings.url) ?? eventsFault(settings.events) ??
    countFault(countOf(services.directory.now.webhooks.values(), asker.account))
  if (fault !== null) return fault
  const nowMs = services.factLog.clock.nowMs()
  const id = newId('wh', nowMs)
  const secret = newSigningSecret()
  const data = {
    webhook: id,
    ...chosen,
    ...formatOf({ format }),
    sealedSecret: services.vault.seal(secret, id),
    startAt: startAt ?? timestamp(nowMs)
  }
  return { ...await createEntity(services, 'webhook', id, stamp(WebhookCreated, askedBy(asker), data, nowMs)), secret }
}

/** Whose webhooks may go to http and private addresses, where the operator allows them at all: the first account's.
 *  Another account would read what the services of this machine and its network answer. */
export function privateTargets (isAllowed: boolean): MayCallPrivate {
  return account => isAllowed && account === FIRST_ACCOUNT
}

/** Where an account's callbacks may not go, as far as it can be told without asking DNS; a name's addresses are looked
 *  at when it is called. Tells where the operator could allow it. */
export function targetFault (
  { mayCallPrivate }: Pick<ServiceSettings, 'mayCallPrivate'>,
  account: string,
  url: string
): Refusal | null {
  const isAllowed = mayCallPrivate(account)
  const fault = urlFault(url, isAllowed)
  if (isAllowed || urlFault(url, true) !== null) return fault
  const refuse = (why: string, others: string) => {
    const how = `The operator can allow ${others}: JETPOST_WEBHOOK_ALLOW_PRIVATE=true.`
    return new Refusal('invalid_url', account === FIRST_ACCOUNT ? `${why} ${how}` : why)
  }
  if (fault !== null) return refuse(fault.message, 'http and private addresses')
  const why = literalFault(new URL(url).hostname)
  return why === null ? null : refuse(`url must be public: ${why}.`, 'private ones')
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
): Promise<Handled<'webhook'> | Refusal> {
  const { url, events } = changes
  const fault = modeFault(asker, changes.mode ?? 'test') ??
    (url === undefined ? null : targetFault(services.settings, asker.account, url)) ??
    (events === undefined ? null : eventsFault(events))
  if (fault !== null) return fault
  const changed = await change(
    services,
    asker,
    id,
    webhook => formatFault(webhook.format, changes.batch) ?? decideChange(webhook, changes)
  )
  // Also when it was not paused: the first time may have got no further than the fact.
  if (changes.paused === false && !(changed instanceof Refusal)) await wakeReplays(services.factLog, id)
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
  const rotated = await change(services, asker, id, (webhook, nowMs) => decideRotation(webhook, sealed, nowMs))
  return rotated instanceof Refusal ? rotated : { ...rotated, secret }
}

/** From now on only the new secret signs. Throws LogUnavailable or Conflict. */
export async function finishRotation (
  services: CommandServices,
  asker: Asker,
  id: string
): Promise<Handled<'webhook'> | Refusal> {
  return await change(services, asker, id, decideFinish)
}

/** Ends an endpoint; what is still owed to it ends as failed (`endpoint_deleted`). Throws LogUnavailable or Conflict.
 */
export async function deleteWebhook (
  services: CommandServices,
  asker: Asker,
  id: string
): Promise<Handled<'webhook'> | Refusal> {
  const deleted = await change(services, asker, id, decideDelete)
  if (!(deleted instanceof Refusal)) await endReplays(services, id)
  return deleted
}

/** The replays of an endpoint that is over end at once; should NATS not answer, when their time comes. */
async function endReplays ({ factLog }: CommandServices, id: string): Promise<void> {
  await wakeReplays(factLog, id).catch(error => {
    if (!isUnanswered(error)) throw error
  })
}

/** Sends a made-up event of `type`, or of the first type the endpoint listens to, to it alone. Throws LogUnavailable.
 */
export async function testWebhook (
  services: CommandServices,
  asker: Asker,
  id: string,
  type?: EventType
): Promise<{ event: string, delivery: string } | Refusal> {
  const webhook = ownWebhook(services, asker, id)
  if (webhook instanceof Refusal) return webhook
  const fault = modeFault(asker, webhook.mode) ?? testFault(webhook)
  if (fault !== null) return fault
  const owed = await requestTestDelivery(services.factLog, asker, webhook, type ?? webhook.events[0]!)
  return { event: owed.events[0]!.id, delivery: owed.delivery }
}

async function change (
  services: CommandServices,
  asker: Asker,
  id: string,
  decide: (webhook: WebhookEntry, nowMs: number) => WebhookDecision[] | Refusal
): Promise<Handled<'webhook'> | Refusal> {
  return await handleCommand(services, 'webhook', id, askedBy(asker), (_webhook, nowMs) => {
    const webhook = ownWebhook(services, asker, id)
    return webhook instanceof Refusal ? webhook : modeFault(asker, webhook.mode) ?? decide(webhook, nowMs)
  })
}

/** A test key changes endpoints for mail of test keys alone, and leaves them so. */
export function modeFault ({ test = false }: Asker, mode: WebhookMode | undefined): Refusal | null {
  return test && mode !== 'test' ? testKeyRefusal() : null
}

/** The account's endpoint, by what this process knows. */
export function ownWebhook (
  services: Pick<Services, 'directory'>,
  asker: Pick<Asker, 'account'>,
  id: string
): WebhookEntry | Refusal {
  const webhook = services.directory.now.webhooks.get(id)
  return webhook === undefined || webhook.account !== asker.account
    ? noSuchWebhook(id)
    : webhook
}

const noSuchWebhook = (id: string) => new Refusal('not_found', `There is no webhook ${id}.`)

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
  services: CommandServices,
  cause: FactCause,
  { id, url }: AnsweringEndpoint,
  news: WebhookNews
): Promise<Handled<'webhook'> | null> {
  const judged = await handleCommand(
    services,
    'webhook',
    id,
    { ...cause, actor: roleActor('webhooks') },
    (webhook, nowMs) => webhook?.url === url ? decideNews(webhook, news, nowMs) : noSuchWebhook(id)
  )
  if (judged instanceof Refusal || judged.seq === 0) return null
  if (judged.webhook.disabled !== null) await endReplays(services, id)
  return judged
}

function decideNews (webhook: WebhookEntry, news: WebhookNews, nowMs: number): WebhookDecision[] {
  if ('gone' in news) return decideGone(webhook)
  return 'works' in news ? decideSuccess(webhook) : decideFailure(webhook, news.failingSinceMs, nowMs)
}
