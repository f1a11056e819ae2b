import type { AnyFact } from '#streams/catalog.ts'
import { webhookPartitionOf, emailPartitionOf, subjects } from '#streams/subjects.ts'

/** Whether a message is what its fact says: on the fact's subject, and under its id. What an erasure has put in the
 *  place of another has a second subject, or the id of that place in its own. */
export function isPlaced (fact: AnyFact, subject: string): boolean {
  if (subject === placeOf(fact)) return true
  if (fact.type === 'email.erased') return subject === subjects.engagement(fact.account, fact.data.email, fact.data.n)
  return fact.type === 'email.recorded' && subject === subjects.recordReplay(emailPartitionOf(fact.data.email))
}

export function isNamed (fact: AnyFact, msgId: string): boolean {
  if (msgId === fact.id || isCopy(fact, msgId)) return true
  return fact.type === 'email.recorded' && msgId.startsWith(`${fact.data.email} ${fact.data.request} `)
}

/** A request that an erasure has moved is the same fact, without the person. */
export function isCopy (fact: AnyFact, msgId: string): boolean {
  return fact.type === 'email.requested' && msgId.startsWith(`${fact.id} `)
}

/** The subject a fact belongs on; with it goes its stream. */
export function placeOf (fact: AnyFact): string {
  const { account } = fact
  switch (fact.type) {
    case 'email.requested':
      return subjects.request(account, fact.data.email)
    case 'request.claimed':
      return subjects.claim(account, fact.data.hash)
    case 'email.recorded':
      return subjects.record(emailPartitionOf(fact.data.email))
    case 'email.moved':
      return subjects.moved(account, fact.data.email)
    case 'email.opened':
    case 'email.clicked':
    case 'email.complained':
    case 'email.unsubscribed':
      return subjects.engagement(account, fact.data.email, fact.data.n)
    case 'email.attempted':
    case 'email.delivered':
    case 'email.deferred':
    case 'email.bounced':
    case 'email.failed':
    case 'email.in_doubt':
    case 'email.suppressed':
    case 'email.rescheduled':
    case 'email.canceled':
    case 'email.retry_requested':
    case 'email.erased':
      return subjects.recipient(account, fact.data.email, fact.data.n)
    case 'inbound.received':
      return subjects.inbound
    case 'account.created':
      return subjects.account(account)
    case 'suppression.added':
    case 'suppression.removed':
      return subjects.suppression(account, fact.data.hash)
    case 'template.versioned':
    case 'template.deleted':
      return subjects.template(account, fact.data.template)
    case 'erasure.requested':
    case 'erasure.advanced':
    case 'erasure.completed':
      return subjects.erasure(account, fact.data.erasure)
    case 'usage.closed':
      return subjects.usage(account, fact.data.month)
    case 'key.created':
    case 'key.changed':
    case 'key.rotated':
    case 'key.limits_changed':
    case 'key.revoked':
      return subjects.key(account, fact.data.key)
    case 'domain.added':
    case 'domain.changed':
    case 'domain.checked':
    case 'domain.rotation_started':
    case 'domain.keys_switched':
    case 'domain.keys_retired':
    case 'domain.removed':
      return subjects.domain(fact.data.name)
    case 'webhook.created':
    case 'webhook.changed':
    case 'webhook.secret_rotated':
    case 'webhook.rotation_finished':
    case 'webhook.enabled':
    case 'webhook.failing':
    case 'webhook.recovered':
    case 'webhook.disabled':
    case 'webhook.deleted':
      return subjects.webhook(account, fact.data.webhook)
    case 'session.opened':
    case 'session.rotated':
    case 'session.ended':
      return subjects.session(account, fact.data.session)
    case 'delivery.requested':
      return (fact.data.replay === null ? subjects.delivery : subjects.deliveryReplay)(
        webhookPartitionOf(fact.data.webhook)
      )
    case 'delivery.attempted':
    case 'delivery.deferred':
    case 'delivery.failed':
      return subjects.deliveryOutcome(webhookPartitionOf(fact.data.webhook))
    case 'batch.joined':
      return subjects.batchMember(fact.data.webhook)
    case 'batch.formed':
      return subjects.batchCursor(fact.data.webhook)
    case 'fanout.advanced':
      return subjects.fanoutCursor(fact.data.partition)
    case 'replay.requested':
    case 'replay.advanced':
    case 'replay.ended':
      return subjects.replay(fact.data.webhook, fact.data.replay)
  }
}
