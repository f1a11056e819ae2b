import { decodeFact } from '#streams/catalog.ts'
import { Refusal } from '#streams/define.ts'
import { isGone } from '#streams/email/classes.ts'
import type { EmailBounced, EmailComplained, EmailUnsubscribed } from '#streams/email/facts.ts'
import type { SuppressionReason } from '#streams/suppression/facts.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { causedBy, type FactLog } from '#src/actions/fact-log.ts'
import { loadRequest } from '#src/actions/stored-request.ts'
import { suppress } from '#src/actions/suppression.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { work, type Job } from '#src/nats/work.ts'

export interface ReactionOptions {
  factLog: FactLog
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
}

const CONCURRENCY = 200

type SuppressingFact = EmailBounced | EmailComplained | EmailUnsubscribed

/** The facts that may suppress an address, by how they begin: parsing all others would be most of the work. */
const SUPPRESSING = ['email.bounced', 'email.complained', 'email.unsubscribed']
  .map(type => Buffer.from(`"type":"${type}"`))
/** `type` is the second field of every fact. */
const TYPE_WITHIN_BYTES = 160

/** Suppresses addresses that do not exist, complain or unsubscribe. A fact is acknowledged once the suppression is
 *  durable. Facts may be read again, all of them when the consumer is recreated: a reason that is known adds no fact,
 *  and a suppression removed since stays removed. */
export function startReactions ({ factLog, repair, log }: ReactionOptions): Role {
  async function react (job: Job): Promise<void> {
    if (maySuppress(job.bytes)) await suppressAfter(decodeFact(job.bytes) as SuppressingFact)
    job.ack()
  }

  async function suppressAfter (fact: SuppressingFact): Promise<void> {
    const reason = reasonIn(fact)
    if (reason === null) return
    const { to: address, email, request } = fact.data
    if (await isTestMail(request, email)) return
    const done = await suppress({ factLog }, causedBy(fact), { address, reason, email, happenedAt: fact.time })
    if (done instanceof Refusal) return
    log.info({ email, reason, created: done.created }, 'address suppressed')
  }

  /** A test key's mail reaches nobody, so its outcome says nothing about the address. */
  async function isTestMail (seq: number, email: string): Promise<boolean> {
    return (await loadRequest(factLog.bus, seq, email))?.fact.data.test === true
  }

  return work(factLog.bus, {
    plan: consumerPlans.reactions,
    name: 'reactions',
    concurrency: CONCURRENCY,
    handle: react,
    repair,
    onError: error => log.warn({ err: error }, 'suppression after a fact interrupted; retrying')
  })
}

function maySuppress (bytes: Uint8Array): boolean {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, TYPE_WITHIN_BYTES))
  return SUPPRESSING.some(type => head.includes(type))
}

/** Why the address gets no more mail, or null. Of bounces only those that say the address does not exist: the others
 *  are about us, the message or the moment. */
function reasonIn (fact: SuppressingFact): SuppressionReason | null {
  switch (fact.type) {
    case 'email.bounced':
      return isGone(fact.data.class) ? 'bounce' : null
    case 'email.complained':
      return 'complaint'
    case 'email.unsubscribed':
      return 'unsubscribe'
  }
}
