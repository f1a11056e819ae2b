import type { AnyFact } from './catalog.ts'
import { isErased } from './email/erase.ts'
import { emailPartitionOf, subjects, type DeliveryKind } from './subjects.ts'

/** The streams that hold facts. */
export const FACT_STREAMS = ['REQUESTS', 'EMAILS', 'INBOUND', 'CONTROL', 'WEBHOOKS'] as const
export type FactStream = typeof FACT_STREAMS[number]

/** Where a fact lies. */
export interface Place {
  stream: FactStream
  subject: string
}

/** Where the facts of a type lie: the subject of each follows from itself. */
interface PlaceRule<F> {
  stream: FactStream
  subjectOf: (fact: F) => string
}

function on<F> (stream: FactStream, subjectOf: (fact: F) => string): PlaceRule<F> {
  return { stream, subjectOf }
}

interface Of<Data> {
  account: string
  data: Data
}
type OfRecipient = Of<{ email: string, n: number }>
type OfWebhook = Of<{ webhook: string }>

const recipient = on('EMAILS', ({ account, data: { email, n } }: OfRecipient) => subjects.recipient(account, email, n))
const engagement = on(
  'EMAILS',
  ({ account, data: { email, n } }: OfRecipient) => subjects.engagement(account, email, n)
)
const account = on('CONTROL', ({ account }: Of<object>) => subjects.account(account))
const key = on('CONTROL', ({ account, data }: Of<{ key: string }>) => subjects.key(account, data.key))
const session = on('CONTROL', ({ account, data }: Of<{ session: string }>) => subjects.session(account, data.session))
const user = on('CONTROL', ({ account, data }: Of<{ user: string }>) => subjects.user(account, data.user))
const domain = on('CONTROL', ({ data }: Of<{ name: string }>) => subjects.domain(data.name))
const webhook = on('CONTROL', ({ account, data }: OfWebhook) => subjects.webhook(account, data.webhook))
const route = on('CONTROL', ({ account, data }: Of<{ route: string }>) => subjects.route(account, data.route))
const feedbackSource = on(
  'CONTROL',
  ({ account, data }: Of<{ source: string }>) => subjects.feedbackSource(account, data.source)
)
const suppression = on('CONTROL', ({ account, data }: Of<{ hash: string }>) => subjects.suppression(account, data.hash))
const template = on(
  'CONTROL',
  ({ account, data }: Of<{ template: string }>) => subjects.template(account, data.template)
)
const erasure = on('CONTROL', ({ account, data }: Of<{ erasure: string }>) => subjects.erasure(account, data.erasure))
const alert = on('CONTROL', ({ account, data }: Of<{ alert: string }>) => subjects.alert(account, data.alert))
type OfDelivery = Of<{ webhook: string, replay: string | null }>
const outcome = on(
  'WEBHOOKS',
  ({ data }: OfDelivery) => subjects.deliveryOutcome(deliveryKind(data), data.webhook)
)
const replay = on(
  'WEBHOOKS',
  ({ data }: Of<{ webhook: string, replay: string }>) => subjects.replay(data.webhook, data.replay)
)

/** The bus on one page, as code. */
const PLACES: { [Type in AnyFact['type']]: PlaceRule<Extract<AnyFact, { type: Type }>> } = {
  'email.requested': on('REQUESTS', ({ account, data }) => subjects.request(account, data.email)),
  'request.claimed': on('REQUESTS', ({ account, data }) => subjects.claim(account, data.hash)),
  'email.recorded': on('EMAILS', ({ data }) => {
    // Only an erasure writes a record without a person, in the place of another.
    const isReplay = data.recipients.some(({ address }) => isErased(address))
    return (isReplay ? subjects.recordReplay : subjects.record)(emailPartitionOf(data.email))
  }),
  'email.moved': on('EMAILS', ({ account, data }) => subjects.moved(account, data.email)),
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
  'inbound.received': on('INBOUND', () => subjects.inbound),
  'inbound.reported': on('INBOUND', () => subjects.inboundReport),
  'account.created': account,
  'account.limits_changed': account,
  'account.quota_changed': account,
  'account.suspended': account,
  'account.resumed': account,
  'suppression.added': suppression,
  'suppression.removed': suppression,
  'template.versioned': template,
  'template.deleted': template,
  'erasure.requested': erasure,
  'erasure.advanced': erasure,
  'erasure.completed': erasure,
  'usage.closed': on('CONTROL', ({ account, data }) => subjects.usage(account, data.month)),
  'alert.raised': alert,
  'alert.ended': alert,
  'alert.told': alert,
  'alert.claimed': alert,
  'operation.requested': on('CONTROL', ({ account }) => subjects.operations(account)),
  'backup.completed': on('CONTROL', ({ account }) => subjects.backup(account)),
  'key.created': key,
  'key.changed': key,
  'key.rotated': key,
  'key.limits_changed': key,
  'key.revoked': key,
  'user.created': user,
  'user.changed': user,
  'user.removed': user,
  'user.linked': user,
  'user.passkey_added': user,
  'user.passkey_used': user,
  'user.passkey_removed': user,
  'domain.added': domain,
  'domain.changed': domain,
  'domain.checked': domain,
  'domain.rotation_started': domain,
  'domain.keys_switched': domain,
  'domain.keys_resealed': domain,
  'domain.keys_retired': domain,
  'domain.removed': domain,
  'webhook.created': webhook,
  'webhook.changed': webhook,
  'webhook.secret_rotated': webhook,
  'webhook.secret_resealed': webhook,
  'webhook.rotation_finished': webhook,
  'webhook.enabled': webhook,
  'webhook.failing': webhook,
  'webhook.recovered': webhook,
  'webhook.disabled': webhook,
  'webhook.deleted': webhook,
  'route.created': route,
  'route.changed': route,
  'route.resealed': route,
  'route.deleted': route,
  'feedback_source.created': feedbackSource,
  'feedback_source.changed': feedbackSource,
  'feedback_source.secret_rotated': feedbackSource,
  'feedback_source.key_resealed': feedbackSource,
  'feedback_source.deleted': feedbackSource,
  'session.link_made': session,
  'session.opened': session,
  'session.rotated': session,
  'session.confirmed': session,
  'session.ended': session,
  'delivery.requested': on('WEBHOOKS', ({ data }) => subjects.delivery(deliveryKind(data), data.webhook)),
  'delivery.attempted': outcome,
  'delivery.moved': outcome,
  'delivery.failed': outcome,
  'batch.joined': on('WEBHOOKS', ({ data }) => subjects.batchMember(data.webhook)),
  'batch.formed': on('WEBHOOKS', ({ data }) => subjects.batchCursor(data.webhook)),
  'dispatch.advanced': on('WEBHOOKS', ({ data }) => subjects.dispatchCursor(data.partition)),
  'fanout.advanced': on('WEBHOOKS', ({ data }) => subjects.fanoutCursor(data.partition)),
  'replay.requested': replay,
  'replay.advanced': replay,
  'replay.ended': replay
}

function deliveryKind ({ replay }: { replay: string | null }): DeliveryKind {
  return replay === null ? 'delivery' : 'redelivery'
}

/** Where a fact lies: the one place where it may be appended. */
export function placeOf (fact: AnyFact): Place {
  const { stream, subjectOf } = PLACES[fact.type] as PlaceRule<AnyFact>
  return { stream, subject: subjectOf(fact) }
}

/** Where an erasure ends a recipient's engagements, with one more `email.erased`. */
export function engagementEndOf (fact: Extract<AnyFact, { type: 'email.erased' }>): Place {
  return { stream: engagement.stream, subject: engagement.subjectOf(fact) }
}
