import { isSandbox } from '#streams/suppression/decide.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import type { Dns } from '#src/dns/resolve.ts'
import type { DeliverOptions } from './deliver.ts'
import { PolicyCache, type PolicyStore } from './mta-sts.ts'
import { MxConnector, type PolicyFault } from './mx.ts'
import type { Departure } from './open-route.ts'
import { MxRouter, type RouteTimings } from './route.ts'
import type { SmtpTimeouts } from './session.ts'
import { parseTarget, type Relay } from './target.ts'
import { Ways, type Way, type WaysOptions } from './ways.ts'

const HOSTS_MAX = 10_000
const TTL_MS_MIN = 1000
const TTL_MS_MAX = 3_600_000
const NEGATIVE_TTL_MS = 300_000

/** Addresses of MX hosts, IPv4 first, cached for their TTL (1 s to an hour), none for 5 min. Throws DnsUnavailable. */
function createAddressCache (dns: Dns, nowMs: () => number): (host: string) => Promise<string[]> {
  const cache = new Memory<{ addresses: string[], untilMs: number }>(HOSTS_MAX)
  return async host => {
    const cached = cache.get(host)
    if (cached !== undefined && nowMs() < cached.untilMs) return cached.addresses
    const found = await dns.addresses(host)
    const addresses = found?.addresses ?? []
    const ttlMs = addresses.length === 0
      ? NEGATIVE_TTL_MS
      : Math.min(TTL_MS_MAX, Math.max(TTL_MS_MIN, found!.ttlS * 1000))
    cache.set(host, { addresses, untilMs: nowMs() + ttlMs })
    return addresses
  }
}

/** Which authority to trust in place of the well-known ones, and the port of MTA-STS policy hosts. */
export interface Trust {
  ca: string
  policyPort: number
  policyRefreshMs: number
}

export interface DestinationOptions extends Pick<WaysOptions, 'routes' | 'urlOf' | 'caps' | 'connections' | 'capMs'> {
  smtpUrl: string | null
  catcherUrl: string
  dns: Dns
  policyStore: PolicyStore
  mxPort: number
  mxAllowPrivate: boolean
  hostname: string
  timeouts: SmtpTimeouts
  routeTimings: RouteTimings
  nowMs: () => number
  /** Aborted when the sender stops. */
  stopping: AbortSignal
  random: () => number
  log: Log
  onPolicyFault?: (fault: PolicyFault) => void
  trust?: Trust
}

/** Where each recipient's mail goes: by the routes, to the relay or the MX hosts of SMTP_URL, or to the catcher. */
export function createDestinations (options: DestinationOptions): DeliverOptions['waysTo'] {
  const { smtpUrl, catcherUrl, hostname } = options
  const catcher = parseTarget(catcherUrl)
  const routerFrom = createRouters(options)
  const router = smtpUrl === 'direct:' ? routerFrom({ source: null, hostname }) : null
  const relay = smtpUrl === null || router !== null ? catcher : parseTarget(smtpUrl)
  const ways = new Ways({
    ...options,
    routerFrom,
    usual: async domain => router === null ? relay : await router.route(domain)
  })
  return ref => {
    const { request: { fact: { data } }, n } = ref
    return data.test || isSandbox(data.recipients[n]!.address) ? caught(catcher) : ways.of(ref)
  }
}

async function* caught (catcher: Relay): AsyncGenerator<Way> {
  yield { route: null, to: catcher, isLast: true, giveBack () {} }
}

/** Routers by where mail departs from. What receivers say about themselves they share. */
function createRouters (
  options: DestinationOptions
): (from: Pick<Departure, 'source' | 'hostname'> & Partial<Departure>) => MxRouter {
  const { dns, policyStore, timeouts, nowMs, stopping, random, log, onPolicyFault = () => {}, trust } = options
  const shared = { allowPrivate: options.mxAllowPrivate, nowMs, stopping, log, ca: trust?.ca }
  const addressesOf = createAddressCache(dns, nowMs)
  let policies: PolicyCache | null = null
  return ({ source, hostname, apart }) => {
    policies ??= new PolicyCache({
      ...shared,
      dns,
      store: policyStore,
      port: trust?.policyPort,
      refreshMs: trust?.policyRefreshMs
    })
    const connector = new MxConnector({
      ...shared,
      addressesOf,
      port: options.mxPort,
      source,
      hostname,
      timeouts,
      random,
      onPolicyFault
    })
    // Mail that comes here by the usual name is ours as well, whatever a route is called.
    const hostnames = [hostname, options.hostname]
    return new MxRouter({ dns, policies, connector, hostnames, apart, nowMs, timings: options.routeTimings })
  }
}
