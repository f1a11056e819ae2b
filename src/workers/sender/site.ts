import { backoffMs } from '#src/base/backoff.ts'
import { Memory } from '#src/base/memory.ts'
import { Suspended, troubleOf, type HostFailure, type HostTrouble } from './errors.ts'
import { Pace } from './pace.ts'
import { openSession, type SmtpTimeouts, type SmtpSession } from './session.ts'
import { relayShape, type TrafficShape } from './shaping.ts'
import type { Relay } from './target.ts'

/** The bound on hosts remembered at one site. */
const HOSTS_MAX = 1000
/** How long hosts that refused one more connection are left with what they took; then one more is tried. */
const HOLD_MS = 5 * 60_000

/** Connections to the hosts of one site, by the hosts' name, and how many of them they bear: known once they have
 *  refused one more while they went on with the others. Times are `nowMs` of one clock. */
export class HostLimits {
  /** Those being opened included. */
  private readonly open = new Map<string, number>()
  private readonly limits = new Memory<{ limit: number, sinceMs: number }>(HOSTS_MAX)

  opened (hosts: string): void {
    this.open.set(hosts, this.openTo(hosts) + 1)
  }

  closed (hosts: string): void {
    const left = this.openTo(hosts) - 1
    if (left > 0) this.open.set(hosts, left)
    else this.open.delete(hosts)
  }

  isFull (hosts: string, nowMs: number): boolean {
    const known = this.limits.get(hosts)
    if (known === undefined) return false
    return this.openTo(hosts) >= known.limit + (nowMs - known.sinceMs < HOLD_MS ? 0 : 1)
  }

  /** A connection stands: with more than the limit of them, there is none any more. */
  connected (hosts: string): void {
    const known = this.limits.get(hosts)
    if (known !== undefined && this.openTo(hosts) > known.limit) this.limits.delete(hosts)
  }

  /** The last that was opened failed. True = it was one more: the others, open or being opened, are the limit from now
   *  on. False = there is no other, so it says nothing about a limit. */
  refused (hosts: string, nowMs: number): boolean {
    const limit = this.openTo(hosts) - 1
    if (limit > 0) this.limits.set(hosts, { limit, sinceMs: nowMs })
    else this.limits.delete(hosts)
    return limit > 0
  }

  private openTo (hosts: string): number {
    return this.open.get(hosts) ?? 0
  }
}

/** Where a mail goes next: a site, and what this mail requires of its sessions. Mails of many domains go to one site.
 */
export interface NextHop {
  via: 'relay' | 'mx'
  /** Names the site. */
  site: string | Relay
  shape: TrafficShape
  /** Names what fails together: within a great provider's site, the hosts of one domain may be down alone. */
  hosts: string
  /** The recipient's domain; '' = it makes no difference. */
  domain: string
  /** Whether the mail may go over this session. */
  accepts(session: SmtpSession): boolean
  /** Opens a session that the mail may go over; throws HostFailure, or what `dial` throws. */
  open(dial: Dial): Promise<SmtpSession>
}

/** How a session is opened. */
export interface Dial {
  /** The site has never answered a mail: its greeting gets less time than others'. */
  unproven: boolean
  /** Called before each connection to an address. Throws RetryLater when too many unproven sites share the address. */
  at(address: string): void
}

/** Hosts that failed: since when, and until when nothing is sent to them. */
export interface Suspension {
  trouble: HostTrouble
  sinceMs: number
  failures: number
  untilMs: number
  /** One session tests whether the hosts are back. */
  probing: boolean
}

/** A mail that waits for a session. */
export interface Waiter {
  hop: NextHop
  resolve: (session: SmtpSession) => void
  reject: (error: Error) => void
}

const SUSPEND_FIRST_MS = 5000
const SUSPEND_MAX_MS = { relay: 60_000, mx: 300_000 }
/** The bound on suspensions at one site: a great provider has many hosts. */
const SUSPENSIONS_MAX = 1000
/** Replies about our reputation at a shared site: the bound on domains remembered, and for how long. */
const HEARSAY_MAX = 100
const HEARSAY_MS = 15 * 60_000
/** A server that is only slow would never become proven: after this many tries it gets the usual timeouts. */
const UNPROVEN_TRIES_MAX = 3

/** The key of a suspension that holds for all hosts of a site. */
export const WHOLE = ''

/** One site, as this process knows it. */
export class Site {
  readonly via: NextHop['via']
  readonly shape: TrafficShape
  readonly pace: Pace
  waiting: Waiter[] = []
  readonly idle = new Set<SmtpSession>()
  readonly limits = new HostLimits()
  /** Connections, those being opened included. */
  open = 0
  /** Failures so far: a transaction that ends with the same number saw none meanwhile. */
  failures = 0
  /** It has answered a mail: it is no trap that only holds connections. */
  proven: boolean
  /** Tries that failed before it was proven. */
  tries = 0
  /** Set while the rate alone holds mail back. */
  timer: NodeJS.Timeout | undefined
  /** By the hosts' name, or WHOLE. */
  private readonly suspensions = new Memory<Suspension>(SUSPENSIONS_MAX)
  private readonly hearsay = new Memory<number>(HEARSAY_MAX)

  constructor ({ via, shape }: NextHop) {
    this.via = via
    this.shape = shape
    this.proven = via === 'relay'
    this.pace = new Pace(shape, via === 'mx')
  }

  /** What keeps mail from going there now, or null. */
  suspensionOf ({ hosts }: NextHop, nowMs: number): Suspension | null {
    for (const name of [WHOLE, hosts]) {
      const suspension = this.suspensions.get(name)
      if (suspension !== undefined && isActive(suspension, nowMs)) return suspension
    }
    return null
  }

  /** Marks the hosts, if they are suspended, as being tested by one session. */
  probe ({ hosts }: NextHop): Suspension | undefined {
    const suspension = this.suspensions.get(hosts)
    if (suspension !== undefined) suspension.probing = true
    return suspension
  }

  /** A connection stands: mail may follow. Whether the trouble is over only a transaction tells. */
  connected ({ hosts }: NextHop, nowMs: number): void {
    this.limits.connected(hosts)
    const suspension = this.suspensions.get(hosts)
    if (suspension === undefined) return
    suspension.probing = false
    suspension.untilMs = nowMs
  }

  /** A transaction went through: suspensions that have run out are over. A new one stays. */
  recovered ({ hosts }: NextHop, nowMs: number): void {
    for (const name of [WHOLE, hosts]) {
      const suspension = this.suspensions.get(name)
      if (suspension !== undefined && !isActive(suspension, nowMs)) this.suspensions.delete(name)
    }
  }

  /** Suspends the hosts. Many sessions fail together, and the first counts for all: null = they are suspended already.
   */
  failed (hop: NextHop, failure: HostFailure, nowMs: number): Suspension | null {
    const before = this.suspensions.get(hop.hosts)
    if (before !== undefined && nowMs < before.untilMs && !before.probing) return null
    this.failures++
    // One domain's hosts that are down, or break its policy, say nothing about the others of a great site.
    if (hop.hosts === hop.site || failure.reply !== null) this.pace.failed()
    const failures = (before?.failures ?? 0) + 1
    const untilMs = nowMs + backoffMs(failures, SUSPEND_FIRST_MS, SUSPEND_MAX_MS[this.via])
    const suspension = {
      trouble: troubleOf(failure),
      sinceMs: before?.sinceMs ?? nowMs,
      failures,
      untilMs,
      probing: false
    }
    this.suspensions.set(hop.hosts, suspension)
    return suspension
  }

  /** Suspends all hosts for `forMs`, as a reply demanded. */
  suspend (failure: HostFailure, nowMs: number, forMs: number): Suspension {
    this.failures++
    this.pace.failed()
    const trouble = troubleOf(failure)
    const suspension = { trouble, sinceMs: nowMs, failures: 1, untilMs: nowMs + forMs, probing: false }
    this.suspensions.set(WHOLE, suspension)
    return suspension
  }

  slowDown (nowMs: number): void {
    this.failures++
    this.pace.slowDown(nowMs)
  }

  /** The error for a mail whose own connection has just failed. */
  triedError ({ hosts }: NextHop, failure: HostFailure): Suspended {
    return errorOf(this.suspensions.get(hosts)!, failure)
  }

  isInHaste (): boolean {
    return !this.proven && this.tries < UNPROVEN_TRIES_MAX
  }

  /** Notes what one domain's replies say; true when another domain's said the same lately. */
  confirms (domain: string, nowMs: number): boolean {
    this.hearsay.set(domain, nowMs)
    return this.hearsay.some((saidMs, other) => other !== domain && nowMs - saidMs < HEARSAY_MS)
  }

  isFull (): boolean {
    return this.open >= this.pace.connections()
  }

  /** The first waiter who may get a new connection, if there is one: neither does another test his hosts, nor have they
   *  all connections that they take. -1 = none. */
  nextToConnect (nowMs: number): number {
    // Of many waiters nearly all are for the same hosts.
    let held: string | null = null
    return this.waiting.findIndex(({ hop }) => {
      if (hop.hosts === held) return false
      const isHeld = this.limits.isFull(hop.hosts, nowMs) || this.suspensionOf(hop, nowMs) !== null
      if (isHeld) held = hop.hosts
      return !isHeld
    })
  }

  /** Somebody waits who may get one more connection. */
  wantsMore (nowMs: number): boolean {
    return !this.isFull() && this.nextToConnect(nowMs) !== -1
  }

  isUnused (): boolean {
    return this.open === 0 && this.waiting.length === 0
  }

  /** Takes the first waiter who may use this session. */
  takeWaiterFor (session: SmtpSession): Waiter | null {
    const index = this.waiting.findIndex(({ hop }) => hop.accepts(session))
    return index === -1 ? null : this.takeWaiter(index)
  }

  takeWaiter (index: number): Waiter {
    return index === 0 ? this.waiting.shift()! : this.waiting.splice(index, 1)[0]!
  }

  /** Takes all who wait for these hosts. */
  takeWaitersFor (hosts: string): Waiter[] {
    const leaves = ({ hop }: Waiter) => hosts === WHOLE || hop.hosts === hosts
    const leaving = this.waiting.filter(leaves)
    this.waiting = this.waiting.filter(waiter => !leaves(waiter))
    return leaving
  }

  idleFor (hop: NextHop): SmtpSession | null {
    for (const session of this.idle) if (hop.accepts(session)) return session
    return null
  }
}

function isActive ({ probing, untilMs }: Suspension, nowMs: number): boolean {
  return probing || nowMs < untilMs
}

const RETRY_MS_MIN = 250

/** `failure` null = for a mail that was not tried. */
export function errorOf ({ trouble, untilMs, sinceMs }: Suspension, failure: HostFailure | null = null): Suspended {
  const nowMs = Date.now()
  return new Suspended(trouble, failure, Math.max(RETRY_MS_MIN, untilMs - nowMs), nowMs - sinceMs)
}

/** The bound on sites remembered: when it is reached, the unused site that was not needed for longest is forgotten. */
const SITES_MAX = 5000

export interface SitesOptions {
  connections: number
  hostname: string
  timeouts: SmtpTimeouts
}

/** The sites that this process knows; a relay is a site of its own. */
export class Sites {
  private readonly options: SitesOptions
  private readonly sites = new Map<NextHop['site'], Site>()
  private readonly relays = new Map<Relay, NextHop>()

  constructor (options: SitesOptions) {
    this.options = options
  }

  all (): Iterable<Site> {
    return this.sites.values()
  }

  siteOf (hop: NextHop): Site {
    const known = this.sites.get(hop.site)
    if (known !== undefined) {
      this.sites.delete(hop.site)
      this.sites.set(hop.site, known)
      return known
    }
    if (this.sites.size >= SITES_MAX) this.forgetOne()
    const site = new Site(hop)
    this.sites.set(hop.site, site)
    return site
  }

  nextHopOf (to: Relay | NextHop): NextHop {
    if ('site' in to) return to
    let hop = this.relays.get(to)
    if (hop === undefined) {
      hop = this.relayHop(to)
      this.relays.set(to, hop)
    }
    return hop
  }

  private relayHop (relay: Relay): NextHop {
    const { connections, hostname, timeouts } = this.options
    return {
      via: 'relay',
      site: relay,
      shape: relayShape(connections),
      hosts: relay.host,
      domain: '',
      accepts: () => true,
      open: () => openSession(relay, hostname, timeouts)
    }
  }

  private forgetOne (): void {
    for (const [name, site] of this.sites) if (site.isUnused()) return void this.sites.delete(name)
  }
}
