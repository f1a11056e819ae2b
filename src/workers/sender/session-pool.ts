import { asError } from '#src/base/errors.ts'
import { HostFailure, PoolStopped, RetryLater, type Suspended } from './errors.ts'
import { closeSession, quitSession, resetSession, type SmtpSession } from './session.ts'
import { demandOf, type Demand } from './shaping.ts'
import { errorOf, WHOLE, Sites, type NextHop, type Site, type Waiter, type SitesOptions } from './site.ts'
import type { Relay } from './target.ts'
import { UnprovenQuota } from './unproven.ts'

export interface PoolOptions extends SitesOptions {
  /** Mail has other ways than one relay: what waits for one holds places that mail for another could have. */
  hasRoutes?: () => boolean
  random?: () => number
}

/** A mail that would wait longer than this for the pace alone does not wait in the queue. */
const QUEUE_WAIT_MS_MAX = 5000
/** One connection carries this many mails in a row while another site has no connection at all. */
const TURN_MESSAGES = 10
/** A mail that finds no capacity at an unproven site, or behind a probe, comes back after this long, and up to twice
 *  that. */
const NO_REPLY_WAIT_MS = 500
/** A relay without a rate that has not answered yet is taken to need this long for a mail: else mail that finds no
 *  capacity there would come back at once, for ever. */
const RELAY_GUESS_MS = 100

/** A site and a session before a transaction. */
interface Before extends Pick<SmtpSession, 'messages' | 'replies'> {
  failures: number
  full: boolean
  ms: number
}

/** An open session: whose it is. */
interface Held {
  hosts: string
  /** Ends its counting at its address. */
  release: () => void
}

/** At most `connections` SMTP sessions over all sites, kept and reused. Hosts that cannot be reached are suspended, 5 s
 *  doubling to a minute (a relay) or five; then one session probes them, and mail waits in line for what comes of it.
 *  Hosts that refuse one more connection get no more than the others. A relay has all connections; a site on the
 *  internet as many as it has shown to bear. Queues are of bounded length, but for a relay without routes beside it. */
export class SessionPool {
  private readonly connections: number
  private readonly timeouts: PoolOptions['timeouts']
  private readonly hasRoutes: () => boolean
  private readonly random: () => number
  private readonly sites: Sites
  private readonly unproven: UnprovenQuota
  /** Sites with a queue. */
  private readonly queued = new Set<Site>()
  /** Waiters for sites on the internet, over all queues. */
  private mxWaiting = 0
  private readonly mxWaitingMax: number
  /** Longest idle first. */
  private readonly idle = new Map<SmtpSession, { site: Site, timer: NodeJS.Timeout }>()
  private readonly held = new WeakMap<SmtpSession, Held>()
  private open = 0
  private stopped = false
  private isServing = false
  private isServed = true

  constructor (options: PoolOptions) {
    const { connections, timeouts, hasRoutes = () => false, random = Math.random } = options
    this.connections = connections
    this.timeouts = timeouts
    this.hasRoutes = hasRoutes
    this.random = random
    this.sites = new Sites(options)
    this.unproven = new UnprovenQuota(connections, random)
    this.mxWaitingMax = Math.ceil(connections / 4) + 1
  }

  /** Runs `act` with a session that the mail may go over, and that nobody else uses meanwhile. Waits for a free one of
   *  all `connections`. Throws Suspended, RetryLater, PoolStopped, or what `act` throws. */
  async use<T> (to: Relay | NextHop, act: (session: SmtpSession) => Promise<T>): Promise<T> {
    const hop = this.sites.nextHopOf(to)
    const site = this.sites.siteOf(hop)
    const session = await this.acquire(site, hop)
    const { messages, replies } = session
    const before = { messages, replies, failures: site.failures, full: site.isFull(), ms: Date.now() }
    try {
      const result = await act(session)
      this.learn(site, hop, session, before)
      return result
    } finally {
      this.release(site, session)
    }
  }

  /** Why mail for these hosts would wait now: they are left alone, or one session tests them. */
  whyAway (to: Relay | NextHop): Suspended | null {
    const hop = this.sites.nextHopOf(to)
    const suspension = this.sites.siteOf(hop).suspensionOf(hop, Date.now())
    return suspension === null ? null : errorOf(suspension)
  }

  /** Suspends hosts that ended a session, and rejects those who wait for them. */
  hostFailed (to: Relay | NextHop, failure: HostFailure): void {
    const hop = this.sites.nextHopOf(to)
    const site = this.sites.siteOf(hop)
    const suspension = site.failed(hop, failure, Date.now())
    if (suspension !== null) this.dismiss(site, site.takeWaitersFor(hop.hosts), () => errorOf(suspension))
  }

  /** Slows a site down, or suspends it, when the words of a refusal are about the pace and not about the mail. */
  refused (to: Relay | NextHop, failure: HostFailure): void {
    const hop = this.sites.nextHopOf(to)
    const demand = demandIn(hop, failure)
    if (demand === null) return
    const site = this.sites.siteOf(hop)
    const nowMs = Date.now()
    if (demand === 'hearsay' && !site.confirms(hop.domain, nowMs)) return
    if (demand === 'slow' || demand === 'hearsay') {
      site.slowDown(nowMs)
      this.dismiss(site, site.takeWaitersFor(WHOLE), () => new RetryLater(site.pace.reserve(nowMs, this.random)))
    } else {
      const suspension = site.suspend(failure, nowMs, demand.suspendMs)
      this.dismiss(site, site.takeWaitersFor(WHOLE), () => errorOf(suspension))
    }
  }

  /** Rejects all who wait, closes idle sessions now and the others as they are released. */
  stop (): void {
    this.stopped = true
    for (const site of this.sites.all()) {
      clearTimeout(site.timer)
      this.dismiss(site, site.takeWaitersFor(WHOLE), () => new PoolStopped())
    }
    for (const session of this.idle.keys()) this.closeIdle(session)
  }

  /** What a transaction has shown of the site. */
  private learn (site: Site, hop: NextHop, session: SmtpSession, before: Before): void {
    const hasBegun = session.messages > before.messages
    const hasReply = session.replies > before.replies
    if (session.usable && hasBegun) site.recovered(hop, Date.now())
    if (!site.proven && hasReply) {
      this.unproven.proved(site)
      if (this.queued.size > 0) this.serve()
    } else if (!site.proven && hasBegun) site.tries++
    if (hasReply && site.failures === before.failures) {
      site.pace.succeeded(Date.now(), Date.now() - before.ms, before.full)
    }
  }

  private async acquire (site: Site, hop: NextHop): Promise<SmtpSession> {
    if (this.stopped) throw new PoolStopped()
    const nowMs = Date.now()
    const suspension = site.suspensionOf(hop, nowMs)
    const waitMs = site.pace.messageWaitMs(nowMs)
    const idle = waitMs > 0 || (suspension !== null && site.via === 'mx') ? null : site.idleFor(hop)
    if (idle !== null) return begin(site, this.takeIdle(idle))
    if (suspension !== null && !suspension.probing) throw errorOf(suspension)
    if (waitMs > QUEUE_WAIT_MS_MAX) throw new RetryLater(site.pace.reserve(nowMs, this.random))
    return await new Promise((resolve, reject) => {
      site.waiting.push({ hop, resolve, reject })
      this.enqueued(site)
    })
  }

  /** One more waits. */
  private enqueued (site: Site): void {
    if (site.via === 'mx') this.mxWaiting++
    this.queued.add(site)
    this.serve()
    if (site.via === 'relay' && !this.hasRoutes()) return
    if (site.waiting.length > site.pace.connections() + 1) this.dismissLast(site)
    // A site with a short queue may add to it: one with a long queue must not fill all places.
    if (this.mxWaiting > this.mxWaitingMax) this.dismissLast(this.longestQueue())
  }

  private longestQueue (): Site {
    return [...this.queued].filter(({ via }) => via === 'mx')
      .reduce((one, other) => (other.waiting.length > one.waiting.length ? other : one))
  }

  private dismissLast (site: Site): void {
    const waiter = site.waiting.pop()!
    const answers = site.proven && site.suspensionOf(waiter.hop, Date.now()) === null
    const leastMs = answers ? 0 : NO_REPLY_WAIT_MS * (1 + this.random())
    const guessMs = site.via === 'relay' ? RELAY_GUESS_MS : 0
    const retryInMs = () => Math.max(leastMs, site.pace.reserve(Date.now(), this.random, guessMs))
    this.dismiss(site, [waiter], () => new RetryLater(retryInMs()))
  }

  /** For waiters who were taken from the queue. */
  private dismiss (site: Site, waiters: Waiter[], error: () => Error): void {
    for (const waiter of waiters) {
      this.dequeued(site)
      waiter.reject(error())
    }
  }

  /** One waiter has left the queue. */
  private dequeued (site: Site): void {
    if (site.via === 'mx') this.mxWaiting--
    if (site.waiting.length === 0) this.queued.delete(site)
  }

  /** Gives what is free to those who wait, the sites with the fewest connections first, until nothing changes. */
  private serve (): void {
    this.isServed = false
    if (this.isServing) return
    this.isServing = true
    while (!this.isServed) {
      this.isServed = true
      for (const site of [...this.queued].sort((one, other) => one.open - other.open)) this.serveSite(site)
    }
    this.isServing = false
  }

  private serveSite (site: Site): void {
    while (site.waiting.length > 0) {
      const nowMs = Date.now()
      const waitMs = site.pace.messageWaitMs(nowMs)
      if (waitMs > 0) return this.serveIn(site, waitMs)
      if (this.handOver(site)) continue
      const next = site.nextToConnect(nowMs)
      if (next === -1 || !this.makeRoom(site, nowMs)) return
      const waiter = site.takeWaiter(next)
      this.dequeued(site)
      void this.connect(site, waiter)
    }
  }

  private serveIn (site: Site, ms: number): void {
    site.timer ??= setTimeout(() => {
      site.timer = undefined
      this.serve()
    }, ms).unref()
  }

  /** Gives an idle session to the first waiter who may use one. */
  private handOver (site: Site): boolean {
    for (const session of site.idle) {
      const waiter = site.takeWaiterFor(session)
      if (waiter === null) continue
      this.dequeued(site)
      waiter.resolve(begin(site, this.takeIdle(session)))
      return true
    }
    return false
  }

  /** Whether one more connection may be opened there; closes idle ones that no waiter can use. */
  private makeRoom (site: Site, nowMs: number): boolean {
    if (site.isFull()) {
      const [useless] = site.idle
      if (useless === undefined) return false
      this.closeIdle(useless)
      if (site.isFull()) return false
    }
    const waitMs = site.pace.connectionWaitMs(nowMs)
    if (waitMs > 0) {
      this.serveIn(site, waitMs)
      return false
    }
    if (this.unproven.isUsedUpFor(site)) this.closeOldest(other => !other.proven)
    if (this.unproven.isUsedUpFor(site)) return false
    if (this.open >= this.connections) this.closeOldest(() => true)
    return this.open < this.connections
  }

  private async connect (site: Site, waiter: Waiter): Promise<void> {
    const { hop, resolve, reject } = waiter
    this.open++
    site.open++
    site.limits.opened(hop.hosts)
    this.unproven.opened(site)
    const suspension = site.probe(hop)
    const { dial, release } = this.unproven.dialTo(site)
    try {
      const session = await hop.open(dial)
      site.connected(hop, Date.now())
      this.held.set(session, { hosts: hop.hosts, release })
      session.connection.once('end', () => this.forgetIdle(session))
      resolve(begin(site, session))
      if (suspension !== undefined) this.serve()
    } catch (error) {
      release()
      const thrown = error instanceof RetryLater ? error : this.unreachable(site, hop, error)
      if (suspension !== undefined) suspension.probing = false
      this.closed(site, hop.hosts)
      if (thrown === null) this.waitAgain(site, waiter)
      else reject(thrown)
    }
  }

  /** Null = the hosts refused one more connection only: the mail waits for one of the others. */
  private unreachable (site: Site, hop: NextHop, error: unknown): Error | null {
    const failure = error instanceof HostFailure ? error : new HostFailure(asError(error).message, 'connect', null)
    if (!site.proven) site.tries++
    const isOneMore = site.limits.refused(hop.hosts, Date.now())
    if (isOneMore && demandIn(hop, failure) === null) return null
    this.hostFailed(hop, failure)
    this.refused(hop, failure)
    return site.triedError(hop, failure)
  }

  /** First in line, as he was. */
  private waitAgain (site: Site, waiter: Waiter): void {
    const suspension = site.suspensionOf(waiter.hop, Date.now())
    if (this.stopped) return waiter.reject(new PoolStopped())
    if (suspension !== null && !suspension.probing) return waiter.reject(errorOf(suspension))
    site.waiting.unshift(waiter)
    this.enqueued(site)
  }

  private release (site: Site, session: SmtpSession): void {
    const { hosts, release } = this.held.get(session)!
    release()
    if (!session.usable) return this.closed(site, hosts)
    if (this.mustClose(site, session)) {
      quitSession(session)
      return this.closed(site, hosts)
    }
    if (!session.dirty) return this.makeIdle(site, session)
    void resetSession(session, this.timeouts).then(isClean => {
      session.dirty = false
      if (isClean) return this.makeIdle(site, session)
      closeSession(session)
      this.closed(site, hosts)
    })
  }

  private mustClose (site: Site, session: SmtpSession): boolean {
    return this.stopped || session.messages >= site.shape.messages || site.open > site.pace.connections() ||
      this.yields(site, session)
  }

  /** All connections are open, and another site that waits has fewer, or has had none for a while: it gets this one's
   *  place. */
  private yields (site: Site, session: SmtpSession): boolean {
    if (this.open < this.connections) return false
    const nowMs = Date.now()
    for (const other of this.queued) {
      if (other === site || this.unproven.isUsedUpFor(other) || other.timer !== undefined) continue
      if (!other.wantsMore(nowMs)) continue
      if (site.open >= other.open + 2 || (other.open === 0 && session.messages >= TURN_MESSAGES)) return true
    }
    return false
  }

  /** A waiter for the site may have the session at once, and a waiter for another site its place. */
  private makeIdle (site: Site, session: SmtpSession): void {
    if (!session.usable) return this.closed(site, this.held.get(session)!.hosts)
    site.idle.add(session)
    this.idle.set(session, { site, timer: setTimeout(() => this.closeIdle(session), site.shape.idleMs).unref() })
    if (this.queued.size > 0) this.serve()
  }

  private takeIdle (session: SmtpSession): SmtpSession {
    const { site, timer } = this.idle.get(session)!
    clearTimeout(timer)
    this.idle.delete(session)
    site.idle.delete(session)
    return session
  }

  /** The server closed it while nobody used it. */
  private forgetIdle (session: SmtpSession): void {
    const entry = this.idle.get(session)
    if (entry === undefined) return
    this.takeIdle(session)
    this.closed(entry.site, this.held.get(session)!.hosts)
  }

  private closeIdle (session: SmtpSession): void {
    const entry = this.idle.get(session)
    if (entry === undefined) return
    this.takeIdle(session)
    quitSession(session)
    this.closed(entry.site, this.held.get(session)!.hosts)
  }

  /** Closes the session that has been idle for longest. */
  private closeOldest (which: (site: Site) => boolean): void {
    for (const [session, { site }] of this.idle) if (which(site)) return this.closeIdle(session)
  }

  private closed (site: Site, hosts: string): void {
    this.open--
    site.open--
    site.limits.closed(hosts)
    this.unproven.closed(site)
    if (this.queued.size > 0) this.serve()
  }
}

function demandIn ({ via, shape }: NextHop, { reply, stage }: HostFailure): Demand {
  return reply === null || via === 'relay' ? null : demandOf(shape, reply, stage)
}

function begin (site: Site, session: SmtpSession): SmtpSession {
  site.pace.messageBegun(Date.now())
  return session
}
