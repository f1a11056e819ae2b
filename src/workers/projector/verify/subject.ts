import type { AnyFact } from '#streams/catalog.ts'
import { webhookPartitionOf, emailPartitionOf, subjects } from '#streams/subjects.ts'

/** Whether a message is on its fact's subject. A fact that an erasure has written in place of another may be on a
 *  second one. */
export function isOnItsSubject (fact: AnyFact, subject: string): boolean {
  if (subject === subjectOf(fact)) return true
  if (fact.type === 'email.erased') return subject === subjects.engagement(fact.account, fact.data.email, fact.data.n)
  return fact.type === 'email.recorded' && subject === subjects.recordReplay(emailPartitionOf(fact.data.email))
}

/** Whether a message has its fact's id, or the one an erasure has given it. */
export function hasItsId (fact: AnyFact, msgId: string): boolean {
  if (msgId === fact.id || isCopy(fact, msgId)) return true
  return fact.type === 'email.recorded' && msgId.startsWith(`${fact.data.email} ${fact.data.request} `)
}

/** A request that an erasure has moved is the same fact, without the person. */
export function isCopy (fact: AnyFact, msgId: string): boolean {
  return fact.type === 'email.requested' && msgId.startsWith(`${fact.id} `)
}

interface OfRecipient {
  account: string
  data: { email: string, n: number }
}

const engagement = ({ account, data: { email, n } }: OfRecipient) => subjects.engagement(account, email, n)
const recipient = ({ account, data: { email, n } }: OfRecipient) => subjects.recipient(account, email, n)
const suppression = ({ account, data }: { account: string, data: { hash: string } }) =>
  subjects.suppression(account, data.hash)
const template = ({ account, data }: { account: string, data: { template: string } }) =>
  subjects.template(account, data.template)
const erasure = ({ account, data }: { account: string, data: { erasure: string } }) =>
  subjects.erasure(account, data.erasure)
const key = ({ account, data }: { account: string, data: { key: string } }) => subjects.key(account, data.key)
const domain = ({ data }: { data: { name: string } }) => subjects.domain(data.name)
const webhook = ({ account, data }: { account: string, data: { webhook: string } }) =>
  subjects.webhook(account, data.webhook)
const session = ({ account, data }: { account: string, data: { session: string } }) =>
  subjects.session(account, data.session)
const outcome = ({ data }: { data: { webhook: string } }) => subjects.deliveryOutcome(webhookPartitionOf(data.webhook))
const replay = ({ data }: { data: { webhook: string, replay: string } }) => subjects.replay(data.webhook, data.replay)

const SUBJECTS: { [Type in AnyFact['type']]: (fact: Extract<AnyFact, { type: Type }>) => string } = {
  'email.requested': ({ account, data }) => subjects.request(account, data.email),
  'request.claimed': ({ account, data }) => subjects.claim(account, data.hash),
  'email.recorded': ({ data }) => subjects.record(emailPartitionOf(data.email)),
  'email.moved': ({ account, data }) => subjects.moved(account, data.email),
  'email.opened': engagement,
  'email.clicked': engagement,
  'email.complained': engagement,
  'email.unsubscribed': engagement,
  'email.attempted': recipient,
  'email.delivered': recipient,
  'email.deferred': recipient,
  'email.bounced': recipient,
  'email.failed': recipient,
  'email.in_doubt': recipient,
  'email.suppressed': recipient,
  'email.rescheduled': recipient,
  'email.canceled': recipient,
  'email.retry_requested': recipient,
  'email.erased': recipient,
  'inbound.received': () => subjects.inbound,
  'account.created': ({ account }) => subjects.account(account),
  'suppression.added': suppression,
  'suppression.removed': suppression,
  'template.versioned': template,
  'template.deleted': template,
  'erasure.requested': erasure,
  'erasure.advanced': erasure,
  'erasure.completed': erasure,
  'usage.closed': ({ account, data }) => subjects.usage(account, data.month),
  'key.created': key,
  'key.changed': key,
  'key.rotated': key,
  'key.limits_changed': key,
  'key.revoked': key,
  'domain.added': domain,
  'domain.changed': domain,
  'domain.checked': domain,
  'domain.rotation_started': domain,
  'domain.keys_switched': domain,
  'domain.keys_retired': domain,
  'domain.removed': domain,
  'webhook.created': webhook,
  'webhook.changed': webhook,
  'webhook.secret_rotated': webhook,
  'webhook.rotation_finished': webhook,
  'webhook.enabled': webhook,
  'webhook.failing': webhook,
  'webhook.recovered': webhook,
  'webhook.disabled': webhook,
  'webhook.deleted': webhook,
  'session.opened': session,
  'session.rotated': session,
  'session.ended': session,
  'delivery.requested': ({ data }) =>
    (data.replay === null ? subjects.delivery : subjects.deliveryReplay)(webhookPartitionOf(data.webhook)),
  'delivery.attempted': outcome,
  'delivery.deferred': outcome,
  'delivery.failed': outcome,
  'batch.joined': ({ data }) => subjects.batchMember(data.webhook),
  'batch.formed': ({ data }) => subjects.batchCursor(data.webhook),
  'fanout.advanced': ({ data }) => subjects.fanoutCursor(data.partition),
  'replay.requested': replay,
  'replay.advanced': replay,
  'replay.ended': replay
}

/** The subject a fact belongs on; with it goes its stream. */
export function subjectOf (fact: AnyFact): string {
  return (SUBJECTS[fact.type] as (fact: AnyFact) => string)(fact)
}
