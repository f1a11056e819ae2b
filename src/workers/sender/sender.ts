import { decodeFact } from '#streams/catalog.ts'
import { RETRY, type RetryPlan } from '#streams/email/decide.ts'
import { isErased } from '#streams/email/erase.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import { domainOf } from '#streams/address.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { heldBack } from '#streams/suppression/decide.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { readContent } from '#src/actions/email.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { standInFor, type DueSend } from '#src/actions/due-send.ts'
import { openRecipients, subjectOf, type RecipientRef } from '#src/actions/recipient.ts'
import { loadRequest } from '#src/actions/stored-request.ts'
import type { SuppressionStore } from '#src/actions/suppression-store.ts'
import type { Log } from '#src/base/log.ts'
import { unhealthyReasonOf, type Role } from '#src/base/role.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { Dns } from '#src/dns/resolve.ts'
import { createCaps } from '#src/nats/counters.ts'
import type { Heartbeats } from '#src/nats/heartbeats.ts'
import { work, type Job } from '#src/nats/work.ts'
import { createDestinations, type Trust } from './destination.ts'
import { createPolicyStore } from './policy-store.ts'
import type { ContentSource, DeliverTrigger, MissingContent } from './attempt.ts'
import { Deliverer, type DeliverOptions, type RetryInMs } from './deliver.ts'
import { PoolStopped } from './errors.ts'
import type { PolicyFault } from './mx.ts'
import type { AttemptReport } from './recorder.ts'
import { ROUTE_TIMINGS, type RouteTimings } from './route.ts'
import { SessionPool } from './session-pool.ts'
import { SMTP_TIMEOUTS, type SmtpTimeouts } from './session.ts'

export interface SenderOptions {
  factLog: FactLog
  blobs: Blobs
  suppressions: SuppressionStore
  /** Whether an account has a domain. A node that does not know it as its reads the log first. Throws when that
   *  fails. */
  hasDomain: (account: string, name: string) => Promise<boolean>
  /** Nothing of it goes out now, as far as this node knows. */
  isSuspended: (account: string) => boolean
  compose: DeliverOptions['compose']
  heartbeats: Heartbeats
  /** Our id among senders; never used again by another process. */
  worker: string
  /** Recreates a consumer that is missing on the server. */
  repair: (plan: ConsumerPlan) => Promise<boolean>
  /** The relay; `direct:` = straight to the MX hosts of each recipient's domain; null = everything goes to the catcher,
   *  as the mail of test keys and to the sandbox always does. */
  smtpUrl: string | null
  catcherUrl: string
  /** The operator's routes, as they are now, and the whole URL of one; left out = there are none. */
  routes?: { all: () => Iterable<RouteEntry>, urlOf: (route: RouteEntry) => string }
  /** Direct mode: the resolver, the port of MX hosts, and whether they may have private addresses.
   */
  dns: Dns
  mxPort: number
  mxAllowPrivate: boolean
  /** Concurrent transactions; also the most that can be in doubt when this process dies. */
  connections: number
  /** Our name in EHLO. */
  hostname: string
  log: Log
  random?: () => number
  onAttempt?: (attempt: AttemptReport) => void
  /** Called for each host or session that breaks a domain's MTA-STS policy. */
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
  suspensionMs: number
  capMs: number
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
  route: ROUTE_TIMINGS,
  suspensionMs: 5 * 60_000,
  capMs: 10 * 60_000
}

/** Not reading a new recipient's facts saves a fifth of the work (3,807 emails a second without, 2,981 with); an old
 *  one may have some, if its consumer was recreated and begins at the stream's start. */
const FRESH_MS = 300_000
const NO_ROUTES = { all: () => [], urlOf: ({ url }: RouteEntry) => url }
const STOPPED_RETRY_MS = 100
const FAILED_RETRY_MS = 5000

/** Starts to send what is requested and what comes due, until it is stopped. */
export function startSender (options: SenderOptions): Sender {
  return new Sender(options)
}

/** Sends what is requested and what comes due. A request's message is acknowledged once each of its recipients has an
 *  outcome or a schedule in the log. */
export class Sender implements Role {
  readonly name = 'sender'
  private readonly options: SenderOptions
  private readonly stopping = new AbortController()
  private readonly pool: SessionPool
  private readonly deliverer: Deliverer
  private readonly running = new Map<string, Promise<RetryInMs>>()
  private readonly workers: Role[]

  constructor (options: SenderOptions) {
    const timings = { ...TIMINGS, ...options.timings }
    if (timings.leaseMs / 2 <= timings.smtp.dotMs) {
      throw new Error('half a lease must outlive the wait for the reply to the dot')
    }
    this.options = options
    const { connections, hostname, random, routes = NO_ROUTES } = options
    const hasRoutes = () => routes.all()[Symbol.iterator]().next().done !== true
    this.pool = new SessionPool({ connections, hostname, timeouts: timings.smtp, hasRoutes, random })
    this.deliverer = this.createDeliverer(timings)
    this.workers = this.startWorkers()
  }

  /** Recipients in progress. */
  inFlight (): number {
    return this.running.size
  }

  unhealthyReason (): string | null {
    if (this.options.heartbeats.heardForMs() === 0) return 'NATS does not receive our heartbeat'
    return unhealthyReasonOf(this.workers)
  }

  async stop (): Promise<void> {
    this.stopping.abort()
    this.pool.stop()
    await Promise.all(this.workers.map(worker => worker.stop()))
  }

  private createDeliverer (timings: SenderTimings): Deliverer {
    const {
      factLog,
      heartbeats,
      worker,
      compose,
      log,
      random = Math.random,
      onAttempt = () => {},
      routes = NO_ROUTES
    } = this.options
    const { clock } = factLog
    const stopping = this.stopping.signal
    return new Deliverer({
      bus: factLog.bus,
      clock,
      recipients: openRecipients({ factLog, log, random, retry: timings.retry }),
      heartbeats,
      worker,
      pool: this.pool,
      obstacleTo: ref => this.obstacleTo(ref),
      isSuspended: this.options.isSuspended,
      suspensionMs: timings.suspensionMs,
      compose,
      waysTo: createDestinations({
        ...this.options,
        routes: routes.all,
        urlOf: routes.urlOf,
        caps: createCaps(factLog.bus),
        capMs: timings.capMs,
        random,
        policyStore: createPolicyStore(factLog.bus),
        timeouts: timings.smtp,
        routeTimings: timings.route,
        nowMs: () => clock.nowMs(),
        stopping
      }),
      timeouts: timings.smtp,
      leaseMs: timings.leaseMs,
      claimMs: timings.claimMs,
      patienceMs: timings.patienceMs,
      stopping,
      log,
      onAttempt
    })
  }

  private startWorkers (): Role[] {
    const { factLog: { bus }, connections, repair, log } = this.options
    const shared = {
      // A quarter more than there are connections: the next mail is composed and waiting when one comes free.
      concurrency: Math.ceil(connections * 1.25) + 1,
      repair,
      onError: (error: Error) => log.warn({ err: error }, 'sender interrupted; retrying')
    }
    const { sender, senderDue } = consumerPlans
    return [
      work(bus, { ...shared, plan: sender, name: 'sender', handle: job => this.handleRequest(job) }),
      work(bus, { ...shared, plan: senderDue, name: 'sender-due', handle: job => this.handleDue(job) })
    ]
  }

  private async handleRequest (job: Job): Promise<void> {
    const fact = decodeFact(job.bytes) as EmailRequested
    const request = { fact, seq: job.seq, subject: job.subject }
    const content = this.contentOf(fact)
    // What an erasure left of a request has had its first delivery, and no recipient in one place.
    const isRest = fact.data.recipients.some(({ address }) => isErased(address))
    const ageMs = this.options.factLog.clock.nowMs() - Date.parse(fact.time)
    const trigger = !job.redelivered && !isRest && ageMs < FRESH_MS ? 'new' : 'redelivered'
    settle(job, await this.settled(fact.data.recipients.map((_, n) => this.once({ request, n }, content, trigger))))
  }

  private async handleDue (job: Job): Promise<void> {
    const { factLog, log } = this.options
    const due = JSON.parse(new TextDecoder().decode(job.bytes)) as DueSend
    const found = await loadRequest(factLog.bus, due.request, due.email, true)
    if (found === null) log.warn({ email: due.email, n: due.n }, 'due, but its request is gone; recording that')
    const request = found ?? await standInFor(factLog, due)
    const content = found === null ? { missing: 'the request is gone' } : this.contentOf(found.fact)
    settle(job, await this.settled([this.once({ request, n: due.n }, content, 'due')]))
  }

  private contentOf ({ data }: EmailRequested): ContentSource {
    return async () => await readContent(this.options.blobs, data, true) ?? { missing: 'the content is gone' }
  }

  /** One at a time for each recipient: a due message or a second delivery shares the result of the first. */
  private once (
    ref: RecipientRef,
    content: ContentSource | MissingContent,
    trigger: DeliverTrigger
  ): Promise<RetryInMs> {
    const subject = subjectOf(ref)
    const running = this.running.get(subject)
    if (running !== undefined) {
      if (trigger !== 'due') return running
      // A due message may know more than the running one: a retry that was requested while it ended.
      const retry = () => this.once(ref, content, 'due')
      return running.then(retry, retry)
    }
    const started = this.deliverer.deliver(ref, content, trigger).finally(() => this.running.delete(subject))
    this.running.set(subject, started)
    return started
  }

  private async settled (deliveries: Array<Promise<RetryInMs>>): Promise<RetryInMs[]> {
    const results = await Promise.allSettled(deliveries)
    return results.map(result => (result.status === 'fulfilled' ? result.value : this.afterFailure(result.reason)))
  }

  /** In how many ms another try follows. */
  private afterFailure (error: unknown): number {
    if (error instanceof PoolStopped) return STOPPED_RETRY_MS
    this.options.log.warn({ err: error, retryInMs: FAILED_RETRY_MS }, 'sending interrupted; retrying')
    return FAILED_RETRY_MS
  }

  /** The email may have been accepted long ago: the account may have given up the domain since, and the recipient may
   *  want no more mail. */
  private async obstacleTo (
    { request: { fact: { account, data } }, n }: RecipientRef
  ): ReturnType<DeliverOptions['obstacleTo']> {
    const { hasDomain, suppressions } = this.options
    const domain = domainOf(data.from.address)
    if (domain !== SANDBOX_DOMAIN && !await hasDomain(account, domain)) {
      return { name: 'Fail', reason: 'unsendable', detail: 'the sending domain is no longer of this account' }
    }
    const [standing] = await suppressions.standing(account, [data.recipients[n]!.address])
    const reason = heldBack(standing!, data.unsubscribe)
    return reason === null ? null : { name: 'Suppress', reason }
  }
}

function settle (job: Job, waits: RetryInMs[]): void {
  const pending = waits.filter(wait => wait !== null)
  if (pending.length === 0) job.ack()
  else job.retryAfter(Math.min(...pending))
}
