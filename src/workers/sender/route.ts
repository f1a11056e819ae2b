import type { Outcome } from '#streams/email/decide.ts'
import { asError } from '#src/base/errors.ts'
import { Memory } from '#src/base/memory.ts'
import type { Dns, MxRecord } from '#src/dns/resolve.ts'
import { namesHost, type PolicyCache } from './mta-sts.ts'
import type { MxConnector } from './mx.ts'
import { setOf, siteOf } from './shaping.ts'
import type { NextHop } from './site.ts'

/** There is no route to the domain: the outcome of its mail, without any connection. */
export interface NoRoute {
  outcome: Extract<Outcome, { kind: 'deferred' | 'bounced' }>
}

/** How long answers of DNS are cached, in ms. */
export interface RouteTimings {
  /** A domain's MX hosts: Node does not tell the TTL of MX records. */
  holdMs: number
  /** That there is nothing, or no answer. */
  negativeMs: number
  /** Between the first query that found no such domain and the one that settles it. */
  missingMs: number
}

export const ROUTE_TIMINGS: RouteTimings = { holdMs: 300_000, negativeMs: 300_000, missingMs: 120_000 }

export interface RouterOptions {
  dns: Dns
  policies: PolicyCache
  connector: MxConnector
  /** Our own names: among a domain's MX hosts, they mark those that mail must not go to. */
  hostnames: readonly string[]
  /** What its sites have to themselves: before their names, and where they get fewer connections. */
  apart?: { name: string, connections: number | null }
  nowMs: () => number
  timings: RouteTimings
}

/** What DNS says of a domain. */
type MxResult =
  | { kind: 'hosts', hosts: MxRecord[] }
  /** It takes no mail (RFC 7505). */
  | { kind: 'refuses' }
  | { kind: 'missing', status: string, error: string }
  | { kind: 'unknown', error: string }
  /** We are its best MX host. */
  | { kind: 'loop', name: string }

interface DomainEntry {
  result: Promise<MxResult>
  untilMs: number
  missingSinceMs: number | null
}

const DOMAINS_MAX = 10_000
/** Of a domain's hosts, only this many are used: the best. */
const HOSTS_MAX = 20
const CNAMES_MAX = 8
/** A query that found nothing counts as the first of two for this long. */
const MISSING_MEMORY_MS = 6 * 3_600_000

/** Finds the MX hosts of domains. Source: RFC 5321 5.1, RFC 7505. */
export class MxRouter {
  private readonly options: RouterOptions
  private readonly ourNames: Set<string>
  private readonly domains = new Memory<DomainEntry>(DOMAINS_MAX)

  constructor (options: RouterOptions) {
    this.options = options
    this.ourNames = new Set(options.hostnames.map(name => name.toLowerCase()))
  }

  /** Where a domain's mail goes. Throws RetryLater. */
  async route (domain: string): Promise<NextHop | NoRoute> {
    const entry = this.entryOf(domain)
    const result = await entry.result
    switch (result.kind) {
      case 'hosts':
        return await this.hopTo(domain, result.hosts)
      case 'refuses':
        return bounced('5.1.10', `${domain} takes no mail: it has a null MX`, 'notaccept')
      case 'missing':
        return this.isSettled(entry.missingSinceMs)
          ? bounced(result.status, result.error, 'hostunknown')
          : deferred(result.error, 'hostunknown', false)
      case 'unknown':
        return deferred(result.error, 'networkerror', true)
      case 'loop':
        return deferred(`${domain} has us, ${result.name}, as its best MX host`, 'networkerror', true)
    }
  }

  /** Concurrent calls share one query. */
  private entryOf (domain: string): DomainEntry {
    const before = this.domains.get(domain)
    if (before !== undefined && this.options.nowMs() < before.untilMs) return before
    const result = this.query(domain)
    const entry: DomainEntry = { result, untilMs: Infinity, missingSinceMs: before?.missingSinceMs ?? null }
    this.domains.set(domain, entry)
    entry.result = result.then(found => {
      this.setTimes(entry, found)
      return found
    })
    return entry
  }

  private setTimes (entry: DomainEntry, { kind }: MxResult): void {
    const { nowMs, timings } = this.options
    const atMs = nowMs()
    const since = entry.missingSinceMs
    entry.untilMs = atMs + (kind === 'hosts' ? timings.holdMs : timings.negativeMs)
    entry.missingSinceMs = kind === 'missing'
      ? (since !== null && atMs - since < MISSING_MEMORY_MS ? since : atMs)
      : kind === 'unknown'
      ? since
      : null
    // Not before the second query may settle it, nor long after: the first retry comes about then.
    if (kind === 'missing' && !this.isSettled(entry.missingSinceMs)) {
      entry.untilMs = entry.missingSinceMs! + timings.missingMs
    }
  }

  private isSettled (sinceMs: number | null): boolean {
    const { nowMs, timings } = this.options
    return sinceMs !== null && nowMs() - sinceMs >= timings.missingMs
  }

  private async query (domain: string): Promise<MxResult> {
    try {
      return await this.mxOf(domain)
    } catch (error) {
      return { kind: 'unknown', error: `${domain}: ${asError(error).message}` }
    }
  }

  private async mxOf (domain: string): Promise<MxResult> {
    const { dns } = this.options
    let name = domain
    for (let hops = 0; hops <= CNAMES_MAX; hops++) {
      const records = await dns.mx(name)
      if (records === null) return { kind: 'missing', status: '5.1.2', error: `there is no domain ${domain}` }
      if (records.length > 0) return this.usable(records)
      // A resolver that follows aliases has done so already; one that does not leaves it to us.
      const alias = await dns.cname(name)
      if (alias === null) return await this.implicitMx(domain, name)
      name = alias
    }
    return { kind: 'unknown', error: `${domain} is an alias without end` }
  }

  /** The domain is its own MX host when it has an address. */
  private async implicitMx (domain: string, name: string): Promise<MxResult> {
    const found = await this.options.dns.addresses(name)
    if ((found?.addresses.length ?? 0) > 0) return { kind: 'hosts', hosts: [{ preference: 0, exchange: name }] }
    return { kind: 'missing', status: '5.4.4', error: `${domain} has neither an MX host nor an address` }
  }

  /** When we are among them, mail goes to better ones only: otherwise it would loop. */
  private usable (records: MxRecord[]): MxResult {
    const named = records.filter(({ exchange }) => exchange !== '')
      .toSorted((one, other) => one.preference - other.preference)
    if (named.length === 0) return { kind: 'refuses' }
    const ours = named.find(({ exchange }) => this.ourNames.has(exchange))
    if (ours === undefined) return { kind: 'hosts', hosts: named.slice(0, HOSTS_MAX) }
    const hosts = named.filter(({ preference }) => preference < ours.preference).slice(0, HOSTS_MAX)
    return hosts.length === 0 ? { kind: 'loop', name: ours.exchange } : { kind: 'hosts', hosts }
  }

  private siteOf (names: readonly string[]): ReturnType<typeof siteOf> {
    const { apart } = this.options
    const site = siteOf(names)
    if (apart === undefined) return site
    const connections = Math.min(site.shape.connections, apart.connections ?? Infinity)
    return { name: `${apart.name} ${site.name}`, shape: { ...site.shape, connections } }
  }

  private async hopTo (domain: string, hosts: MxRecord[]): Promise<NextHop> {
    const policy = await this.options.policies.of(domain)
    const names = hosts.map(({ exchange }) => exchange)
    const { name, shape } = this.siteOf(names)
    const enforced = policy?.mode === 'enforce' ? policy : null
    const route = { domain, hosts, shape, policy }
    const { apart } = this.options
    // As the site's name is: where the hosts are the whole site, a failure of theirs is one of the site.
    const set = apart === undefined ? setOf(names) : `${apart.name} ${setOf(names)}`
    return {
      via: 'mx',
      site: name,
      shape,
      // Hosts that break a policy are a failure of that domain alone.
      hosts: enforced === null ? set : `${set} for ${domain}`,
      domain,
      accepts: session =>
        names.includes(session.host) &&
        (enforced === null || (session.tls?.verified === true && namesHost(enforced, session.host))),
      open: dial => this.options.connector.open(route, dial)
    }
  }
}

function bounced (status: string, error: string, bounceClass: 'hostunknown' | 'notaccept'): NoRoute {
  return { outcome: { kind: 'bounced', reply: null, status, error, class: bounceClass } }
}

function deferred (error: string, bounceClass: 'hostunknown' | 'networkerror', hostTrouble: boolean): NoRoute {
  return { outcome: { kind: 'deferred', reply: null, error, class: bounceClass, hostTrouble } }
}
