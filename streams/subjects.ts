/** Mail is spread over this many partitions by its id; order holds within one, and a stream can be split by it. */
export const EMAIL_PARTITIONS = 16
/** Webhook endpoints are spread over this many partitions by their id. */
export const WEBHOOK_PARTITIONS = 8

/** FNV-1a, 32 bit: stable for ever, since subjects in the log depend on it. */
function hash (text: string): number {
  let value = 0x811c9dc5
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  return value >>> 0
}

export const emailPartitionOf = (email: string): number => hash(email) % EMAIL_PARTITIONS
export const webhookPartitionOf = (webhook: string): number => hash(webhook) % WEBHOOK_PARTITIONS

/** New deliveries, and those that a replay asks for. */
export type DeliveryKind = 'delivery' | 'redelivery'
export const DELIVERY_KINDS: readonly DeliveryKind[] = ['delivery', 'redelivery']

/** One subject for each kind of entity; `email.…` and `control.…` have one subject an entity, so its last sequence is
 *  its version. */
export const subjects = {
  request: (account: string, email: string) => `request.${emailPartitionOf(email)}.${account}`,
  recipient: (account: string, email: string, n: number) => `email.${emailPartitionOf(email)}.${account}.${email}.${n}`,
  /** What the recipient did with it: beside the outcomes, or a click during DATA would come between a claim and its
   *  outcome. */
  engagement: (account: string, email: string, n: number) =>
    `email.${emailPartitionOf(email)}.${account}.${email}.${n}.engagement`,
  /** Of a recipient whose account is not known. */
  recipientOfAny: (email: string, n: number) => `email.${emailPartitionOf(email)}.*.${email}.${n}`,
  /** All that lies in EMAILS about one email; `*` = of whatever account, which the server looks for longer. */
  ofEmail: (account: string, email: string) => `email.${emailPartitionOf(email)}.${account}.${email}.>`,
  /** Requests of a partition without their content, in the order of REQUESTS. One subject for all: one an email would
   *  double the subjects the server holds. */
  record: (partition: number) => `email.${partition}.record`,
  /** Where the request of an email lies now; only of those that were moved. */
  moved: (account: string, email: string) => `email.${emailPartitionOf(email)}.${account}.${email}.request`,
  movedOfAny: (email: string) => `email.${emailPartitionOf(email)}.*.${email}.request`,
  /** Records that stand in the place of others: apart, so that those are in the order of REQUESTS. */
  recordReplay: (partition: number) => `email.${partition}.record.replay`,
  /** Of all partitions. */
  records: 'email.*.record',
  recordsReplay: 'email.*.record.replay',
  inbound: 'inbound.mail',
  /** What relays report by HTTP. */
  inboundReport: 'inbound.report',
  account: (account: string) => `control.${account}.account.${account}`,
  key: (account: string, key: string) => `control.${account}.key.${key}`,
  user: (account: string, user: string) => `control.${account}.user.${user}`,
  session: (account: string, session: string) => `control.${account}.session.${session}`,
  webhook: (account: string, webhook: string) => `control.${account}.webhook.${webhook}`,
  /** Routes are the installation's: `account` = the first. */
  route: (account: string, route: string) => `control.${account}.route.${route}`,
  feedbackSource: (account: string, source: string) => `control.${account}.feedback_source.${source}`,
  /** `hash` of the folded address. Beside `control.`: there may be millions, and nobody holds them all in memory. */
  suppression: (account: string, hash: string) => `suppression.${account}.${hash}`,
  /** Beside `control.`: nobody holds them in memory. */
  erasure: (account: string, erasure: string) => `erasure.${account}.${erasure}`,
  /** Of the operator; the first account's. */
  alert: (account: string, alert: string) => `alert.${account}.${alert}`,
  alerts: 'alert.>',
  backup: (account: string) => `backup.${account}`,
  operations: (account: string) => `operation.${account}`,
  /** `month` as in `2026-11`. */
  usage: (account: string, month: string) => `usage.${account}.${month}`,
  /** Beside `control.`: templates are large, and read where they are used. */
  template: (account: string, template: string) => `template.${account}.${template}`,
  /** `hash` of an idempotency key. */
  claim: (account: string, hash: string) => `claim.${account}.${hash}`,
  /** One subject a name, for all accounts: so that only one account owns it. Host names hold no underscore, so the
   *  dots can be told. */
  domain: (name: string) => `control.domain.${name.replaceAll('.', '_')}`,
  /** What is owed to an endpoint: by new events, and again by replays, apart so that new ones never stand behind. */
  delivery: (kind: DeliveryKind, webhook: string) => `webhook.${webhookPartitionOf(webhook)}.${kind}.${webhook}`,
  /** What came of it. */
  deliveryOutcome: (kind: DeliveryKind, webhook: string) =>
    `webhook.${webhookPartitionOf(webhook)}.${kind}.${webhook}.outcome`,
  /** What is owed to all endpoints of a partition, and what came of it as well. */
  deliveries: (kind: DeliveryKind, partition: number) => `webhook.${partition}.${kind}.*`,
  deliveryFacts: (kind: DeliveryKind, partition: number) => `webhook.${partition}.${kind}.>`,
  deliveryOutcomes: (kind: DeliveryKind, partition: number) => `webhook.${partition}.${kind}.*.outcome`,
  dispatchCursor: (partition: number) => `webhook.${partition}.dispatch`,
  fanoutCursor: (partition: number) => `webhook.${partition}.cursor`,
  /** Events of one endpoint that wait for their batch, and how far they have been put into batches. */
  batchMember: (webhook: string) => `webhook.${webhookPartitionOf(webhook)}.member.${webhook}`,
  batchCursor: (webhook: string) => `webhook.${webhookPartitionOf(webhook)}.batch.${webhook}`,
  replay: (webhook: string, replay: string) => `webhook.${webhookPartitionOf(webhook)}.replay.${webhook}.${replay}`,
  scheduleSend: (account: string, email: string, n: number) =>
    `schedule.send.${emailPartitionOf(email)}.${account}.${email}.${n}`,
  dueSend: (account: string, email: string, n: number) =>
    `due.send.${emailPartitionOf(email)}.${account}.${email}.${n}`,
  scheduleBatch: (webhook: string) => `schedule.batch.${webhook}`,
  dueBatch: (webhook: string) => `due.batch.${webhook}`,
  /** `*` = all replays of an endpoint that wait for longer. */
  scheduleReplay: (webhook: string, replay: string) => `schedule.replay.${webhook}.${replay}`,
  dueReplay: (webhook: string, replay: string) => `due.replay.${webhook}.${replay}`,
  limit: (window: number, key: string, limitClass: string) => `limit.${window}.${key}.${limitClass.replace(':', '-')}`,
  quota: (day: number, account: string) => `quota.${day}.${account}`,
  /** Of a mail domain, by the hash of its name. */
  policy: (hash: string) => `policy.${hash}`,
  /** When a key was last used. */
  use: (account: string, key: string) => `use.${account}.${key}`,
  heartbeat: (worker: string) => `heartbeat.${worker}`,
  /** A lease: the last message says who holds it; `*` = all of a kind. */
  lease: (kind: string, name: string) => `heartbeat.lease.${kind}.${name}`
} as const

/** Whether a filter, wildcards allowed, covers a subject. Source: NATS documentation, "Subject-Based Messaging". */
export function isUnder (subject: string, filter: string): boolean {
  const [tokens, wanted] = [subject.split('.'), filter.split('.')]
  const isOpen = wanted.at(-1) === '>'
  if (isOpen ? tokens.length < wanted.length : tokens.length !== wanted.length) return false
  return wanted.every((token, i) => token === '*' || token === tokens[i] || (isOpen && i === wanted.length - 1))
}
