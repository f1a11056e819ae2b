import { decodeFact } from '#streams/catalog.ts'
import { RETRY, type RetryPlan } from '#streams/email/decide.ts'
import { isErased } from '#streams/email/erase.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import { domainOf } from '#streams/address.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { heldBack } from '#streams/suppression/decide.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import { readContent } from '#src/actions/email-content.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import {
  loadRequest,
  openRecipients,
  standInFor,
  subjectOf,
  type RecipientRef,
  type DueSend
} from '#src/actions/recipient.ts'
import type { SuppressionStore } from '#src/actions/suppression-store.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { Dns } from '#src/dns/resolve.ts'
import type { Heartbeats } from '#src/nats/heartbeats.ts'
import { work, type Job } from '#src/nats/work.ts'
import { createDestinations, type Trust } from './destination.ts'
import {
  createDeliver,
  type AttemptReport,
  type ContentSource,
  type DeliverOptions,
  type Missing,
  type Occasion,
  type Waiting
} from './deliver.ts'
import type { PolicyFault } from './mx.ts'
import { createPool, Stopped } from './pool.ts'
import { ROUTE_TIMINGS, type RouteTimings } from './route.ts'
import { SMTP_TIMEOUTS, type SmtpTimeouts } from './session.ts'

export interface SenderOptions {
  appenders: Appenders
  blobs: Blobs
  suppressions: SuppressionStore
  /** Whose a domain is, or null. A node that does not know it for `expected`'s makes sure first. Throws when that
   *  cannot be told. */
  ownerOf: (domain: string, expected: string) => Promise<string | null>
  compose: DeliverOptions['compose']
  heartbeats: Heartbeats
  /** Our id among senders; never used again by another process. */
  worker: string
  /** Makes a consumer again that is gone from the server. */
  repair: (plan: ConsumerPlan) => Promise<boolean>
  /** The relay; `direct:` = straight to the MX hosts of each recipient's domain; null = everything goes to the catcher,
   *  as the mail of test keys and to the sandbox always does. */
  smtpUrl: string | null
  catcherUrl: string
  /** Direct mode: the resolver, the port that MX hosts are spoken to on, and whether they may have private addresses.
   */
  dns: Dns
  mxPort: number
  mxAllowPrivate: boolean
  /** Transactions under way at once; also the most that can be in doubt when this process dies. */
  connections: number
  /** Our name in EHLO. */
  hostname: string
  log: Log
  random?: () => number
  onAttempt?: (attempt: AttemptReport) => void
  /** Told of each session that a domain's MTA-STS policy does not allow. */
  onPolicyFault?: (fault: PolicyFault) => void
  /** For tests. */
  trust?: Trust
  timings?: Partial<SenderTimings>
}

/** What tests shorten. */
export interface SenderTimings {
  retry: RetryPlan
  smtp: SmtpTimeouts
  leaseMs: number
  claimMs: number
  patienceMs: number
  route: RouteTimings
}

/** The dot goes out in the first half of the lease; the other half outlives the dot's timeout, and a minute of NATS
 *  being away after that. A target may be away for a minute (a restart) before its mail is deferred by schedule: then
 *  10,000 mails behind a dead relay hold no place in the queue, and cost one fact and one schedule a try. */
const TIMINGS: SenderTimings = {
  retry: RETRY,
  smtp: SMTP_TIMEOUTS,
  leaseMs: 2 * (SMTP_TIMEOUTS.dotMs + 60_000),
  claimMs: 30_000,
  patienceMs: 60_000,
  route: ROUTE_TIMINGS
}

export interface Sender extends Role {
  /** Recipients being worked on. */
  inFlight(): number
}

/** Not reading a new recipient's facts saves a fifth of the work (3,807 emails a second without, 2,981 with); an old
 *  one may have some, if its consumer was made again and begins at the stream's start. */
const FRESH_MS = 300_000

/** Sends what is requested and what comes due, until stopped. A request's message is acknowledged once each of its
 *  recipients has an outcome or a schedule in the log. */
export function startSender (options: SenderOptions): Sender {
  const { appenders, log, random = Math.random, onAttempt = () => {} } = options
  const timings = { ...TIMINGS, ...options.timings }
  if (timings.leaseMs / 2 <= timings.smtp.dotMs) {
    throw new Error('half a lease must outlive the wait for the reply to the dot')
  }
  const stopping = new AbortController()
  const pool = createPool({
    connections: options.connections,
    hostname: options.hostname,
    timeouts: timings.smtp,
    random
  })
  const deliver = createDeliver({
    bus: appenders.bus,
    clock: appenders.clock,
    recipients: openRecipients({ appenders, log, random, retry: timings.retry }),
    heartbeats: options.heartbeats,
    worker: options.worker,
    pool,
    obstacleTo,
    compose: options.compose,
    destinationOf: createDestinations({
      ...options,
      random,
      timeouts: timings.smtp,
      routeTimings: timings.route,
      nowMs: () => appenders.clock.nowMs(),
      stopping: stopping.signal
    }),
    timeouts: timings.smtp,
    leaseMs: timings.leaseMs,
    claimMs: timings.claimMs,
    patienceMs: timings.patienceMs,
    stopping: stopping.signal,
    log,
    onAttempt
  })
  const inFlight = new Map<string, Promise<Waiting>>()

  /** Accepted long ago, maybe: the domain may have been given up since, and the recipient may want no more mail. */
  async function obstacleTo (
    { request: { fact: { account, data } }, n }: RecipientRef
  ): ReturnType<DeliverOptions['obstacleTo']> {
    const domain = domainOf(data.from.address)
    if (domain !== SANDBOX_DOMAIN && await options.ownerOf(domain, account) !== account) {
      return { name: 'Fail', reason: 'unsendable', detail: 'the sending domain is no longer of this account' }
    }
    const [standing] = await options.suppressions.standing(account, [data.recipients[n]!.address])
    const reason = heldBack(standing!, data.unsubscribe)
    return reason === null ? null : { name: 'Suppress', reason }
  }

  /** One at a time for each recipient: who comes second (a due message, a second delivery) shares what the first finds.
   */
  function once (ref: RecipientRef, content: ContentSource | Missing, occasion: Occasion): Promise<Waiting> {
    const subject = subjectOf(ref)
    const running = inFlight.get(subject)
    // What has come due may be more than the running one knows of: a retry that was asked for while it ended.
    if (running !== undefined) {
      return occasion === 'due'
        ? running.then(() => once(ref, content, 'due'), () => once(ref, content, 'due'))
        : running
    }
    const started = deliver(ref, content, occasion).finally(() => inFlight.delete(subject))
    inFlight.set(subject, started)
    return started
  }

  async function handleRequest (job: Job): Promise<void> {
    const fact = decodeFact(job.bytes) as EmailRequested
    const request = { fact, seq: job.seq, subject: job.subject }
    const content = contentOf(fact)
    // What an erasure left of a request has had its first delivery, and nobody in the place of some recipient.
    const isRest = fact.data.recipients.some(({ address }) => isErased(address))
    const fresh = !job.redelivered && !isRest && appenders.clock.nowMs() - Date.parse(fact.time) < FRESH_MS
    const results = await Promise.allSettled(
      fact.data.recipients.map((_recipient, n) => once({ request, n }, content, fresh ? 'new' : 'again'))
    )
    settle(job, results)
  }

  async function handleDue (job: Job): Promise<void> {
    const due = JSON.parse(new TextDecoder().decode(job.bytes)) as DueSend
    const kept = await loadRequest(appenders.bus, due.request, due.email)
    if (kept === null) log.warn({ email: due.email, n: due.n }, 'due, but its request is gone')
    const request = kept ?? await standInFor(appenders, due)
    const content = kept === null ? { missing: 'the request is gone' } : contentOf(request.fact)
    settle(job, await Promise.allSettled([once({ request, n: due.n }, content, 'due')]))
  }

  function contentOf ({ data }: EmailRequested): ContentSource {
    return async () => await readContent(options.blobs, data) ?? { missing: 'the content is gone' }
  }

  function settle (job: Job, results: Array<PromiseSettledResult<Waiting>>): void {
    const waits = results.map(result => (result.status === 'fulfilled' ? result.value : afterFailure(result.reason)))
    const pending = waits.filter(wait => wait !== null)
    if (pending.length === 0) job.ack()
    else job.retryAfter(Math.min(...pending))
  }

  /** Milliseconds until somebody tries again. */
  function afterFailure (error: unknown): number {
    if (error instanceof Stopped) return 100
    log.warn({ err: error }, 'sending interrupted')
    return 5000
  }

  // A quarter more than there are connections: the next mail is composed and waiting when one comes free.
  const concurrency = Math.ceil(options.connections * 1.25) + 1
  const shared = {
    concurrency,
    repair: options.repair,
    onError: (error: Error) => log.warn({ err: error }, 'sender interrupted')
  }
  const roles = [
    work(appenders.bus, { ...shared, plan: consumerPlans.sender, name: 'sender', handle: handleRequest }),
    work(appenders.bus, { ...shared, plan: consumerPlans.senderDue, name: 'sender-due', handle: handleDue })
  ]
  return {
    name: 'sender',
    inFlight: () => inFlight.size,
    unhealthyReason () {
      if (options.heartbeats.heardForMs() === 0) return 'NATS does not hear our heartbeat'
      return roles.map(role => role.unhealthyReason()).find(unhealthyReason => unhealthyReason !== null) ?? null
    },
    async stop () {
      stopping.abort()
      pool.stop()
      await Promise.all(roles.map(role => role.stop()))
    }
  }
}
