import { decodeFact } from '#streams/catalog.ts'
import { Refusal } from '#streams/define.ts'
import { isGone } from '#streams/email/classes.ts'
import type { EmailBounced, EmailComplained, EmailUnsubscribed } from '#streams/email/facts.ts'
import type { SuppressionReason } from '#streams/suppression/facts.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { causedBy, type Appenders } from '#src/actions/appenders.ts'
import { loadRequest } from '#src/actions/recipient.ts'
import { suppress } from '#src/actions/suppression.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { work, type Job } from '#src/nats/work.ts'

export interface ReactionOptions {
  appenders: Appenders
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
}

const CONCURRENCY = 200

type Cause = EmailBounced | EmailComplained | EmailUnsubscribed

/** Facts that anything follows from, by how they begin: parsing all the others would be most of the work. */
const CAUSES = ['email.bounced', 'email.complained', 'email.unsubscribed'].map(type => Buffer.from(`"type":"${type}"`))
/** `type` is the second field of every fact. */
const TYPE_WITHIN_BYTES = 160

/** When this fact, then that action: an address that is gone, complained or unsubscribed gets no more mail.
 *  Acknowledged once the suppression is durable. Facts may be read again, all of them when the consumer is made anew:
 *  saying a reason twice is no fact, and what was lifted since stays lifted. */
export function startReactions ({ appenders, repair, log }: ReactionOptions): Role {
  async function react (job: Job): Promise<void> {
    if (mayCause(job.bytes)) await suppressAfter(decodeFact(job.bytes) as Cause)
    job.ack()
  }

  async function suppressAfter (fact: Cause): Promise<void> {
    const reason = reasonIn(fact)
    if (reason === null) return
    const { to: address, email, request } = fact.data
    if (await isRehearsal(request, email)) return
    const done = await suppress({ appenders }, causedBy(fact), { address, reason, email, happenedAt: fact.time })
    if (done instanceof Refusal) return
    log.info({ email, reason, created: done.created }, 'address suppressed')
  }

  /** What becomes of a test key's mail says nothing about the address: nobody there has seen it. */
  async function isRehearsal (seq: number, email: string): Promise<boolean> {
    return (await loadRequest(appenders.bus, seq, email))?.fact.data.test === true
  }

  return work(appenders.bus, {
    plan: consumerPlans.reactions,
    name: 'reactions',
    concurrency: CONCURRENCY,
    handle: react,
    repair,
    onError: error => log.warn({ err: error }, 'a reaction was interrupted')
  })
}

function mayCause (bytes: Uint8Array): boolean {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, TYPE_WITHIN_BYTES))
  return CAUSES.some(cause => head.includes(cause))
}

/** Why the address gets no more mail, or null. Of bounces only those that say it is gone: the others are about us, the
 *  message or the moment. */
function reasonIn (fact: Cause): SuppressionReason | null {
  switch (fact.type) {
    case 'email.bounced':
      return isGone(fact.data.class) ? 'bounce' : null
    case 'email.complained':
      return 'complaint'
    case 'email.unsubscribed':
      return 'unsubscribe'
  }
}
