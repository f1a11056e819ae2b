import type { Outcome } from '#streams/email/decide.ts'
import type { Dns, MxRecord } from '#src/dns/resolve.ts'
import { asError } from '#src/base/errors.ts'
import { Memory } from '#src/base/memory.ts'
import type { Policies } from './mta-sts.ts'
import type { OpenMx } from './mx.ts'
import { setOf, siteOf } from './shaping.ts'
import type { Place } from './site.ts'
import { namesHost } from './sts-policy.ts'

/** There is no way to the domain: what becomes of its mail without anybody having been asked. */
export interface NoWay {
  outcome: Extract<Outcome, { kind: 'deferred' | 'bounced' }>
}

/** Where a domain's mail goes. Throws Crowded. */
export type Route = (domain: string) => Promise<Place | NoWay>

/** How long answers of DNS hold, in ms. */
export interface RouteTimings {
  /** A domain's MX hosts: Node does not tell the TTL of MX records. */
  holdMs: number
  /** That there is nothing, or no answer. */
  negativeMs: number
  /** Between the first look that found no such domain and the one that settles it. */
  missingMs: number
}

export const ROUTE_TIMINGS: RouteTimings = { holdMs: 300_000, negativeMs: 300_000, missingMs: 120_000 }

export interface RouterOptions {
  dns: Dns
  policies: Policies
  open: OpenMx
  /** Our own name: among a domain's MX hosts, it stands for those that mail must not go to. */
  hostname: string
  nowMs: () => number
  timings: RouteTimings
}

/** What DNS says of a domain. */
type Found =
  | { kind: 'hosts', hosts: MxRecord[] }
  /** It says that it takes no mail (RFC 7505). */
  | { kind: 'refuses' }
  | { kind: 'missing', status: string, error: string }
  | { kind: 'unknown', error: string }
  /** Its mail is ours to take. */
  | { kind: 'loop' }

interface Entry {
  found: Promise<Found>
  untilMs: number
  missingSinceMs: number | null
}

const DOMAINS_MAX = 10_000
/** As many of a domain's hosts are looked at: the best. */
const HOSTS_MAX = 20
const CNAMES_MAX = 8
/** A look that found nothing counts for so long as the first of two. */
const MISSING_MEMORY_MS = 6 * 3_600_000

/** Finds the MX hosts of domains. Source: RFC 5321 5.1, RFC 7505. */
export function createRouter ({ dns, policies, open, hostname, nowMs, timings }: RouterOptions): Route {
  const entries = new Memory<Entry>(DOMAINS_MAX)
  const ourName = hostname.toLowerCase()

  return async domain => {
    const { found, missingSinceMs } = await known(domain)
    switch (found.kind) {
      case 'hosts':
        return await placeOf(domain, found.hosts)
      case 'refuses':
        return gone('5.1.10', `${domain} takes no mail: it has a null MX`)
      case 'missing':
        return isSettled(missingSinceMs) ? gone(found.status, found.error) : notYet(found.error, 'hostunknown', false)
      case 'unknown':
        return notYet(found.error, 'networkerror', true)
      case 'loop':
        return notYet(`${domain} has us, ${hostname}, as its best MX host`, 'networkerror', true)
    }
  }

  function isSettled (sinceMs: number | null): boolean {
    return sinceMs !== null && nowMs() - sinceMs >= timings.missingMs
  }

  async function known (domain: string): Promise<{ found: Found, missingSinceMs: number | null }> {
    let entry = entries.get(domain)
    if (entry === undefined || nowMs() >= entry.untilMs) entry = lookUp(domain, entry)
    return { found: await entry.found, missingSinceMs: entry.missingSinceMs }
  }

  /** Those who ask meanwhile share the question. */
  function lookUp (domain: string, before: Entry | undefined): Entry {
    const entry: Entry = { found: find(domain), untilMs: Infinity, missingSinceMs: before?.missingSinceMs ?? null }
    entries.set(domain, entry)
    entry.found = entry.found.then(found => {
      keep(entry, found)
      return found
    })
    return entry
  }

  function keep (entry: Entry, { kind }: Found): void {
    const atMs = nowMs()
    entry.untilMs = atMs + (kind === 'hosts' ? timings.holdMs : timings.negativeMs)
    const since = entry.missingSinceMs
    entry.missingSinceMs = kind === 'missing'
      ? (since !== null && atMs - since < MISSING_MEMORY_MS ? since : atMs)
      : kind === 'unknown'
      ? since
      : null
    // Not before the second look may settle it, nor long after: the first retry comes about then.
    if (kind === 'missing' && !isSettled(entry.missingSinceMs)) {
      entry.untilMs = entry.missingSinceMs! + timings.missingMs
    }
  }

  async function find (domain: string): Promise<Found> {
    try {
      return await mxOf(domain)
    } catch (error) {
      return { kind: 'unknown', error: `${domain}: ${asError(error).message}` }
    }
  }

  async function mxOf (domain: string): Promise<Found> {
    let name = domain
    for (let hops = 0; hops <= CNAMES_MAX; hops++) {
      const records = await dns.mx(name)
      if (records === null) return { kind: 'missing', status: '5.1.2', error: `there is no domain ${domain}` }
      if (records.length > 0) return withoutUs(records)
      // A resolver that follows aliases has done so already; one that does not leaves it to us.
      const alias = await dns.cname(name)
      if (alias === null) return await implicit(domain, name)
      name = alias
    }
    return { kind: 'unknown', error: `${domain} is an alias without end` }
  }

  /** The domain is its own MX host when it has an address. */
  async function implicit (domain: string, name: string): Promise<Found> {
    const found = await dns.addresses(name)
    if ((found?.addresses.length ?? 0) > 0) return { kind: 'hosts', hosts: [{ preference: 0, exchange: name }] }
    return { kind: 'missing', status: '5.4.4', error: `${domain} has neither an MX host nor an address` }
  }

  /** We may stand among them ourselves: then mail goes to better ones only, or it would go round. */
  function withoutUs (records: MxRecord[]): Found {
    const named = records.filter(({ exchange }) => exchange !== '').toSorted((one, other) =>
      one.preference - other.preference
    )
    if (named.length === 0) return { kind: 'refuses' }
    const ours = named.find(({ exchange }) => exchange === ourName)?.preference ?? Infinity
    const hosts = named.filter(({ preference }) => preference < ours).slice(0, HOSTS_MAX)
    return hosts.length === 0 ? { kind: 'loop' } : { kind: 'hosts', hosts }
  }

  async function placeOf (domain: string, hosts: MxRecord[]): Promise<Place> {
    const policy = await policies.of(domain)
    const names = hosts.map(({ exchange }) => exchange)
    const { name, shape } = siteOf(names)
    const strict = policy?.mode === 'enforce' ? policy : null
    const way = { domain, hosts, shape, policy }
    return {
      via: 'mx',
      site: name,
      shape,
      // A policy that its hosts do not keep is the trouble of that domain alone.
      hosts: strict === null ? setOf(names) : `${setOf(names)} for ${domain}`,
      domain,
      takes: session =>
        names.includes(session.host) &&
        (strict === null || (session.tls?.verified === true && namesHost(strict, session.host))),
      open: dial => open(way, dial)
    }
  }

  function gone (status: string, error: string): NoWay {
    return { outcome: { kind: 'bounced', reply: null, status, error, class: 'hostunknown' } }
  }

  function notYet (error: string, why: 'hostunknown' | 'networkerror', hostTrouble: boolean): NoWay {
    return { outcome: { kind: 'deferred', reply: null, error, class: why, hostTrouble } }
  }
}
