import { asError } from '#src/base/errors.ts'
import { backoffMs } from '#src/base/backoff.ts'
import {
  closeSession,
  HostTrouble,
  openSession,
  quitSession,
  resetSession,
  type Session,
  type SmtpTimeouts
} from './session.ts'
import { demandOf, relayShape } from './shaping.ts'
import { isSuspended, Site, WHOLE, type Dial, type Health, type Place, type Waiter } from './site.ts'
import type { Relay } from './target.ts'

/** The hosts are left alone for a while; `downForMs` since the trouble began. Nothing was tried now. */
export class Suspended extends Error {
  override name = 'Suspended'
  readonly trouble: HostTrouble
  readonly retryInMs: number
  readonly downForMs: number
  constructor (trouble: HostTrouble, retryInMs: number, downForMs: number) {
    super(trouble.message)
    this.trouble = trouble
    this.retryInMs = retryInMs
    this.downForMs = downForMs
  }
}

/** Enough wait for the site: a place is booked for later. Nothing is the matter. */
export class Crowded extends Error {
  override name = 'Crowded'
  readonly retryInMs: number
  constructor (retryInMs: number) {
    super('enough wait for the site')
    this.retryInMs = retryInMs
  }
}

/** The pool is being stopped: the work belongs to somebody else now. */
export class Stopped extends Error {
  override name = 'Stopped'
}

export interface Pool {
  /** Runs `act` with a session that the mail may go over; no two at once with the same. Waits for a free one of all
   *  `connections`. Throws Suspended, Crowded, Stopped, or what `act` throws. */
  use<T>(to: Relay | Place, act: (session: Session) => Promise<T>): Promise<T>
  /** Notes that the hosts sent us away in the middle of a session. */
  blame(to: Relay | Place, trouble: HostTrouble): void
  /** Notes a refusal whose words may be about the pace, and not about the mail. */
  heard(to: Relay | Place, trouble: HostTrouble): void
  /** Sends the waiting away, closes idle sessions now and the others as they come back. */
  stop(): void
}

export interface PoolOptions {
  connections: number
  hostname: string
  timeouts: SmtpTimeouts
  random?: () => number
}

const SUSPEND_FIRST_MS = 5000
const SUSPEND_MAX_MS = { relay: 60_000, mx: 300_000 }
/** Who would have to wait longer for the pace alone does not wait in line. */
const LINE_WAIT_MS_MAX = 5000
/** A connection serves so many in a row while another site has none at all. */
const TURN_MESSAGES = 10
/** Sites that have never answered a mail hold at most so large a part of all connections together, and one address so
 *  many of them: who points many domains at servers that only hold the line keeps nobody else's mail waiting. */
const UNPROVEN_PART = 2
const UNPROVEN_PER_ADDRESS = 3
/** Who finds no room at such a site, or at its address, comes back after so long, and up to twice that: it may be a
 *  while until somebody hangs up. */
const UNPROVEN_WAIT_MS = 500
const ADDRESS_WAIT_MS = 5000
/** Sites remembered; of those where nothing goes on, the one not used for longest is forgotten. */
const SITES_MAX = 5000

/** At most `connections` SMTP sessions over all sites, kept and used again. Hosts that cannot be reached are suspended,
 *  5 s doubling to a minute (a relay) or five; then one session probes them before the others may follow. A relay has
 *  all connections; a site on the internet as many as it has shown to bear, and a line of bounded length. */
export function createPool ({ connections, hostname, timeouts, random = Math.random }: PoolOptions): Pool {
  const sites = new Map<Place['site'], Site>()
  const relays = new Map<Relay, Place>()
  /** Those with a line. */
  const lined = new Set<Site>()
  /** Longest idle first. */
  const resting = new Map<Session, { site: Site, timer: NodeJS.Timeout }>()
  const strangersWaitingMax = Math.ceil(connections / 4) + 1
  let strangersWaiting = 0
  const unprovenMax = Math.max(1, Math.floor(connections / UNPROVEN_PART))
  /** Connections of sites that are not proven, and which address those lead to whose first transaction is not over. */
  let unproven = 0
  const unprovenAt = new Map<string, number>()
  const dials = new WeakMap<Session, () => void>()
  let open = 0
  let stopped = false
  let serving = false
  let served = true

  async function use<T> (to: Relay | Place, act: (session: Session) => Promise<T>): Promise<T> {
    const place = placeOf(to)
    const site = siteOf(place)
    const session = await acquire(site, place)
    const before = {
      messages: session.messages,
      replies: session.replies,
      failures: site.failures,
      full: site.isFull(),
      ms: Date.now()
    }
    try {
      const result = await act(session)
      if (session.usable && session.messages > before.messages) recovered(site, place)
      judge(site, session, before)
      if (session.replies > before.replies && site.failures === before.failures) {
        site.pace.succeeded(Date.now(), Date.now() - before.ms, before.full)
      }
      return result
    } finally {
      release(site, session)
    }
  }

  /** Whether it has shown by now that it answers mail. */
  function judge (site: Site, session: Session, before: Pick<Session, 'messages' | 'replies'>): void {
    if (site.proven) return
    if (session.replies === before.replies) {
      if (session.messages > before.messages) site.tries++
      return
    }
    site.proven = true
    unproven -= site.open
    if (lined.size > 0) serve()
  }

  function placeOf (to: Relay | Place): Place {
    if ('site' in to) return to
    const known = relays.get(to)
    if (known !== undefined) return known
    const open = () => openSession(to, hostname, timeouts)
    const place: Place = {
      via: 'relay',
      site: to,
      shape: relayShape(connections),
      hosts: to.host,
      domain: '',
      takes: () => true,
      open
    }
    relays.set(to, place)
    return place
  }

  function siteOf (place: Place): Site {
    const known = sites.get(place.site)
    if (known !== undefined) {
      sites.delete(place.site)
      sites.set(place.site, known)
      return known
    }
    if (sites.size >= SITES_MAX) forgetOne()
    const site = new Site(place)
    sites.set(place.site, site)
    return site
  }

  function forgetOne (): void {
    for (const [name, site] of sites) if (site.rests()) return void sites.delete(name)
  }

  async function acquire (site: Site, place: Place): Promise<Session> {
    if (stopped) throw new Stopped('the pool is stopped')
    const nowMs = Date.now()
    const sick = site.sickness(place, nowMs)
    const waitMs = site.pace.messageWaitMs(nowMs)
    const idle = waitMs > 0 || (sick !== null && site.via === 'mx') ? null : site.idleFor(place)
    if (idle !== null) return begin(site, unrest(idle))
    if (sick !== null) throw suspendedBy(sick)
    if (waitMs > LINE_WAIT_MS_MAX) throw new Crowded(site.pace.book(nowMs, random))
    return await new Promise((go, fail) => enqueue(site, { place, go, fail }))
  }

  function enqueue (site: Site, waiter: Waiter): void {
    site.waiting.push(waiter)
    if (site.via === 'mx') strangersWaiting++
    lined.add(site)
    serve()
    if (site.via === 'relay') return
    if (site.waiting.length > site.pace.connections() + 1) turnAwayLast(site)
    if (strangersWaiting > strangersWaitingMax) turnAwayLast(longestLine())
  }

  /** A newcomer of a site with a short line may stay: one with a long line must not fill all places. */
  function longestLine (): Site {
    return [...lined].filter(({ via }) => via === 'mx').reduce((
      one,
      other
    ) => (other.waiting.length > one.waiting.length ? other : one))
  }

  function turnAwayLast (site: Site): void {
    const leastMs = site.proven ? 0 : UNPROVEN_WAIT_MS * (1 + random())
    leaveLine(site, [site.waiting.pop()!], () => new Crowded(Math.max(leastMs, site.pace.book(Date.now(), random))))
  }

  /** Gives what is free to those who wait, the sites with the fewest connections first. Whatever changes meanwhile is
   *  looked at again. */
  function serve (): void {
    served = false
    if (serving) return
    serving = true
    while (!served) {
      served = true
      for (const site of [...lined].sort((one, other) => one.open - other.open)) serveSite(site)
    }
    serving = false
  }

  function serveSite (site: Site): void {
    for (let waiter; (waiter = site.waiting[0]) !== undefined;) {
      const nowMs = Date.now()
      const sick = site.sickness(waiter.place, nowMs)
      if (sick !== null) {
        leaveLine(site, [site.takeWaiter(0)], () => suspendedBy(sick))
        continue
      }
      const waitMs = site.pace.messageWaitMs(nowMs)
      if (waitMs > 0) return serveIn(site, waitMs)
      if (handOver(site)) continue
      if (!hasRoom(site, nowMs)) return
      site.takeWaiter(0)
      unline(site)
      void connect(site, waiter)
    }
  }

  function serveIn (site: Site, ms: number): void {
    site.timer ??= setTimeout(() => {
      site.timer = undefined
      serve()
    }, ms).unref()
  }

  /** An idle session to the first in line who may use one. */
  function handOver (site: Site): boolean {
    for (const session of site.idle) {
      const waiter = site.takeWaiterFor(session)
      if (waiter === null) continue
      unline(site)
      waiter.go(begin(site, unrest(session)))
      return true
    }
    return false
  }

  /** Whether one more connection may be made there; idle ones that nobody in line can use make room. */
  function hasRoom (site: Site, nowMs: number): boolean {
    if (site.isFull()) {
      const [useless] = site.idle
      if (useless === undefined) return false
      closeIdle(useless)
      if (site.isFull()) return false
    }
    const waitMs = site.pace.connectionWaitMs(nowMs)
    if (waitMs > 0) {
      serveIn(site, waitMs)
      return false
    }
    if (!site.proven && unproven >= unprovenMax) closeOldest(other => !other.proven)
    if (isHeldBack(site)) return false
    if (open >= connections) closeOldest(() => true)
    return open < connections
  }

  function isHeldBack (site: Site): boolean {
    return !site.proven && unproven >= unprovenMax
  }

  /** Of idle sessions, the one that has been so for longest. */
  function closeOldest (which: (site: Site) => boolean): void {
    for (const [session, { site }] of resting) if (which(site)) return closeIdle(session)
  }

  function begin (site: Site, session: Session): Session {
    site.pace.messageBegun(Date.now())
    return session
  }

  /** One who is no longer in line. */
  function unline (site: Site): void {
    if (site.via === 'mx') strangersWaiting--
    if (site.waiting.length === 0) lined.delete(site)
  }

  function leaveLine (site: Site, waiters: Waiter[], why: () => Error): void {
    for (const waiter of waiters) {
      unline(site)
      waiter.fail(why())
    }
  }

  function suspendedBy ({ trouble, untilMs, sinceMs }: Health): Suspended {
    const nowMs = Date.now()
    return new Suspended(trouble, Math.max(250, untilMs - nowMs), nowMs - sinceMs)
  }

  /** A transaction went through: what was the matter is over, unless it is so fresh that the hosts are still being left
   *  alone. */
  function recovered (site: Site, { hosts }: Place): void {
    for (const name of [WHOLE, hosts]) {
      const health = site.health.get(name)
      if (health !== undefined && !isSuspended(health, Date.now())) site.health.delete(name)
    }
  }

  async function connect (site: Site, { place, go, fail }: Waiter): Promise<void> {
    open++
    site.open++
    if (!site.proven) unproven++
    const sick = site.health.get(place.hosts)
    if (sick !== undefined) sick.probing = true
    const { dial, over } = dialAt(site)
    try {
      const session = await place.open(dial)
      site.health.delete(place.hosts)
      dials.set(session, over)
      session.connection.once('end', () => forgetIdle(session))
      go(begin(site, session))
    } catch (error) {
      over()
      fail(error instanceof Crowded ? error : unreachable(site, place, error))
      if (sick !== undefined) sick.probing = false
      closed(site)
    }
  }

  function unreachable (site: Site, place: Place, error: unknown): Suspended {
    const trouble = error instanceof HostTrouble ? error : new HostTrouble(asError(error).message, 'connect', null)
    if (!site.proven) site.tries++
    blame(place, trouble)
    heard(place, trouble)
    return suspendedBy(site.health.get(place.hosts)!)
  }

  /** What a connection in the making is told, and what ends its counting against its address. */
  function dialAt (site: Site): { dial: Dial, over: () => void } {
    let held: string | null = null
    const over = () => {
      if (held === null) return
      const left = unprovenAt.get(held)! - 1
      if (left > 0) unprovenAt.set(held, left)
      else unprovenAt.delete(held)
      held = null
    }
    const at = (address: string) => {
      over()
      const count = unprovenAt.get(address) ?? 0
      if (!site.proven && count >= UNPROVEN_PER_ADDRESS) throw new Crowded(ADDRESS_WAIT_MS * (1 + random()))
      site.pace.connectionBegun(Date.now())
      if (site.proven) return
      unprovenAt.set(address, count + 1)
      held = address
    }
    return { dial: { stranger: site.isStranger(), at }, over }
  }

  /** Many sessions fail together; the first to say so counts for all. Whoever waits for the hosts need not wait in
   *  line. */
  function blame (to: Relay | Place, trouble: HostTrouble): void {
    const place = placeOf(to)
    const site = siteOf(place)
    const nowMs = Date.now()
    const before = site.health.get(place.hosts)
    if (before !== undefined && nowMs < before.untilMs && !before.probing) return
    site.failures++
    // That one domain's hosts are away, or not as its policy says, tells nothing about the others of a great site.
    if (place.hosts === place.site || trouble.reply !== null) site.pace.failed()
    const failures = (before?.failures ?? 0) + 1
    const untilMs = nowMs + backoffMs(failures, SUSPEND_FIRST_MS, SUSPEND_MAX_MS[site.via])
    suspend(site, place.hosts, { trouble, sinceMs: before?.sinceMs ?? nowMs, failures, untilMs, probing: false })
  }

  function suspend (site: Site, hosts: string, health: Health): void {
    site.health.set(hosts, health)
    leaveLine(site, site.takeWaitersFor(hosts), () => suspendedBy(health))
  }

  function heard (to: Relay | Place, trouble: HostTrouble): void {
    const { reply } = trouble
    const place = placeOf(to)
    const demand = reply === null || place.via === 'relay' ? null : demandOf(place.shape, reply, trouble.stage)
    if (demand === null) return
    const site = siteOf(place)
    const nowMs = Date.now()
    if (demand === 'hearsay' && !site.confirms(place.domain, nowMs)) return
    site.failures++
    if (demand === 'slow' || demand === 'hearsay') {
      site.pace.slowDown(nowMs)
      leaveLine(site, site.takeWaitersFor(WHOLE), () => new Crowded(site.pace.book(nowMs, random)))
    } else {
      site.pace.failed()
      suspend(site, WHOLE, { trouble, sinceMs: nowMs, failures: 1, untilMs: nowMs + demand.suspendMs, probing: false })
    }
  }

  function release (site: Site, session: Session): void {
    dials.get(session)?.()
    if (!session.usable) return closed(site)
    if (
      stopped || session.messages >= site.shape.messages || site.open > site.pace.connections() || yields(site, session)
    ) {
      quitSession(session)
      return closed(site)
    }
    if (!session.dirty) return offer(site, session)
    void resetSession(session, timeouts).then(clean => {
      session.dirty = false
      if (clean) return offer(site, session)
      closeSession(session)
      closed(site)
    })
  }

  /** All connections are open, and another site that waits has fewer, or none for a while: it may have this one's
   *  place. */
  function yields (site: Site, session: Session): boolean {
    if (open < connections) return false
    for (const other of lined) {
      if (other === site || other.isFull() || isHeldBack(other) || other.timer !== undefined) continue
      if (site.open >= other.open + 2 || (other.open === 0 && session.messages >= TURN_MESSAGES)) return true
    }
    return false
  }

  /** Idle, and at once somebody's who waits for it; or whoever waits for another site may have its place. */
  function offer (site: Site, session: Session): void {
    if (!session.usable) return closed(site)
    site.idle.add(session)
    resting.set(session, { site, timer: setTimeout(() => closeIdle(session), site.shape.idleMs).unref() })
    if (lined.size > 0) serve()
  }

  function closed (site: Site): void {
    open--
    site.open--
    if (!site.proven) unproven--
    if (lined.size > 0) serve()
  }

  function unrest (session: Session): Session {
    const { site, timer } = resting.get(session)!
    clearTimeout(timer)
    resting.delete(session)
    site.idle.delete(session)
    return session
  }

  /** The server ended it while nobody used it. */
  function forgetIdle (session: Session): void {
    const rest = resting.get(session)
    if (rest === undefined) return
    unrest(session)
    closed(rest.site)
  }

  function closeIdle (session: Session): void {
    const rest = resting.get(session)
    if (rest === undefined) return
    unrest(session)
    quitSession(session)
    closed(rest.site)
  }

  function stop (): void {
    stopped = true
    for (const site of sites.values()) {
      clearTimeout(site.timer)
      leaveLine(site, site.takeWaitersFor(WHOLE), () => new Stopped('the pool is stopped'))
    }
    for (const session of resting.keys()) closeIdle(session)
  }

  return { use, blame, heard, stop }
}
