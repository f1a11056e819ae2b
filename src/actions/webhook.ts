import { randomBytes } from 'node:crypto'
import { Refusal } from '#streams/define.ts'
import type { Webhook } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { countFault, eventsFault, urlFault, type NewWebhook } from '#streams/webhook/decide.ts'
import { WebhookCreated, WebhookDeleted, WebhookDisabled } from '#streams/webhook/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { Asker, Desk } from './desk.ts'
import { stamp, type Cause } from './ledger.ts'

export interface CreatedWebhook {
  webhook: Webhook
  /** `whsec_…`, shown now and never again. */
  secret: string
  /** In CONTROL: a node whose directory has reached it knows the endpoint. */
  seq: number
}

/** What making an endpoint needs. */
export type WebhookDesk = Pick<Desk, 'ledger' | 'directory' | 'vault' | 'webhookAllowPrivate'>

type EndingDesk = Pick<Desk, 'ledger' | 'directory'>

/** Makes an endpoint that gets the chosen events from now on. Throws LogUnavailable. */
export async function createWebhook (desk: WebhookDesk, asker: Asker, { url, events }: NewWebhook): Promise<CreatedWebhook | Refusal> {
  const fault = urlFault(url, desk.webhookAllowPrivate) ?? eventsFault(events) ?? countFault(countOf(desk, asker.account))
  if (fault !== null) return fault
  const nowMs = desk.ledger.clock.nowMs()
  const id = newId('wh', nowMs)
  const secret = newSigningSecret()
  const data = { url, events, sealedSecret: desk.vault.seal(secret, id), startAt: timestamp(nowMs) }
  const fact = stamp(WebhookCreated, { ...asker, causation: null }, { webhook: id, ...data }, nowMs)
  const [seq] = await desk.ledger.control.append([{ subject: subjects.webhook(asker.account, id), fact, expectedSeq: 0 }])
  return { webhook: { ...data, id, account: asker.account, createdAt: fact.time, disabled: null }, secret, seq: seq! }
}

/** `whsec_` and 256 bits in standard base64: the whole text is the key of the spec's signature, the decoded part that of Standard Webhooks,
 *  whose libraries do not read base64url. */
function newSigningSecret (): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

function countOf (desk: Pick<Desk, 'directory'>, account: string): number {
  let count = 0
  for (const webhook of desk.directory.now.webhooks.values()) if (webhook.account === account) count++
  return count
}

/** Ends an endpoint; what is still owed to it ends as failed (`endpoint_deleted`). Throws LogUnavailable. */
export async function deleteWebhook (desk: EndingDesk, asker: Asker, id: string): Promise<{ seq: number } | Refusal> {
  const webhook = desk.directory.now.webhooks.get(id)
  if (webhook === undefined || webhook.account !== asker.account) return new Refusal('not_found', `There is no webhook ${id}.`)
  const fact = stamp(WebhookDeleted, { ...asker, causation: null }, { webhook: id }, desk.ledger.clock.nowMs())
  const [seq] = await desk.ledger.control.append([{ subject: subjects.webhook(asker.account, id), fact }])
  return { seq: seq! }
}

/** Stops callbacks to an endpoint that said 410; null when this process knows that it is over already. A second fact would change nothing.
 *  Throws LogUnavailable. */
export async function disableWebhook (desk: EndingDesk, cause: Cause, webhook: Webhook): Promise<number | null> {
  const known = desk.directory.now.webhooks.get(webhook.id)
  if (known === undefined || known.disabled !== null) return null
  const fact = stamp(WebhookDisabled, cause, { webhook: webhook.id, reason: 'gone' }, desk.ledger.clock.nowMs())
  const [seq] = await desk.ledger.control.append([{ subject: subjects.webhook(webhook.account, webhook.id), fact }])
  return seq!
}
