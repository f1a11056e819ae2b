import ipaddr from 'ipaddr.js'
import { promises as dns, type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { asError } from '#src/base/errors.ts'

/** The address must not be called; the message is for the owner of the endpoint. */
export class TargetRefused extends Error {
  override name = 'TargetRefused'
}

const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
/** `::8.8.8.8`, as resolvers write it, is read by ipaddr.js as if it were mapped; it is an unassigned IPv6 address.
 *  Source: RFC 4291 2.5.5.1. */
const COMPATIBLE = /^::[\d.]+$/
/** Azure's hosts serve metadata here, keys included: a public address that only their guests can call. */
const AZURE_HOST = '168.63.129.16'

/** True for an address of the public internet. Everything special is not: private, loopback, link-local, CGNAT,
 *  multicast, documentation, where clouds keep metadata, and every form in which IPv6 carries an IPv4 address elsewhere
 *  (mapped ones count as what they carry). Source: IANA special-purpose registries, RFC 6890. */
export function isPublic (address: string): boolean {
  if (!ipaddr.isValid(address) || COMPATIBLE.test(address)) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast' || parsed.toString() === AZURE_HOST) return false
  return parsed.kind() === 'ipv4' || (parsed.match(GLOBAL_UNICAST) && !isIsatap(parsed as ipaddr.IPv6))
}

/** An interface id 0:5efe or 200:5efe carries an IPv4 address. Source: RFC 5214 6.1. */
function isIsatap ({ parts }: ipaddr.IPv6): boolean {
  return (parts[4]! & ~0x200) === 0 && parts[5] === 0x5efe
}

const CONNECT_TIMEOUT_MS = 5000
/** The system's resolver blocks a thread of Node's four while it waits: with two at most, names without an answer leave
 *  the others free. */
const SYSTEM_LOOKUPS_MAX = 2
const SYSTEM_WAITING_MAX = 200

export interface ConnectorOptions {
  /** How names are resolved; else by DNS and the system. */
  resolve?: Resolve
  /** PEM of the authority to trust in place of the well-known ones. */
  ca?: string
}

/** Makes connections for undici and checks where they go: after DNS, at the moment of connecting, and to the very
 *  addresses that were checked, so that a name cannot change in between. `allowPrivate` lets every address
 *  pass. */
export function createConnector (
  allowPrivate: boolean,
  { resolve = createResolver(), ca }: ConnectorOptions = {}
): buildConnector.connector {
  const lookup: LookupFunction = (host, options, callback) => {
    resolve(host).then(found => {
      const addresses = allowed(found, options.family)
      if (addresses.length === 0) throw new TargetRefused(`${host} has no address that may be called`)
      if (options.all === true) callback(null, addresses)
      else callback(null, addresses[0]!.address, addresses[0]!.family)
    }).catch(error => callback(asError(error), '', 0))
  }
  function allowed (found: LookupAddress[], family: unknown): LookupAddress[] {
    const wanted = family === 4 || family === 6 ? [family] : [4, 6]
    return found.filter(({ address, family: its }) => wanted.includes(its) && (allowPrivate || isPublic(address)))
  }
  const connect = buildConnector({
    timeout: CONNECT_TIMEOUT_MS,
    lookup,
    ca,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: 250
  })
  return (options, callback) => {
    const host = options.hostname.replace(/^\[(.*)\]$/, '$1')
    const fault = allowPrivate ? null : literalFault(host)
    if (fault !== null) return callback(new TargetRefused(fault), null)
    connect(options, callback)
  }
}

/** An IPv6 literal without its brackets. */
const bare = (hostname: string) => hostname.replace(/^\[(.*)\]$/, '$1')

/** Names of private networks. Source: RFC 6761 6.3, RFC 6762 3, RFC 8375; ICANN keeps `internal` for
 *  it. */
const PRIVATE_NAME = /(^|\.)(localhost|local|internal|home\.arpa)$/i

/** Why a URL's host may not be called as it is written, or null; without DNS. Dots at its end make no difference,
 *  however many: resolvers treat two differently. */
export function literalFault (written: string): string | null {
  const host = bare(written).replace(/\.+$/, '')
  if (isIP(host) !== 0) return isPublic(host) ? null : `${host} is not a public address`
  return PRIVATE_NAME.test(host) ? `${host} is a name of private networks` : null
}

/** Why a URL's host may not be called, or null: as a connection would find now. One that has no address at present is
 *  not refused for it. */
export async function hostFault (hostname: string, resolve: Resolve = createResolver()): Promise<string | null> {
  const host = bare(hostname)
  const fault = literalFault(host)
  if (fault !== null || isIP(host) !== 0) return fault
  const found = await resolve(host).catch(() => [])
  return found.length > 0 && !found.some(({ address }) => isPublic(address)) ? `${host} has no public address` : null
}

export type Resolve = (host: string) => Promise<LookupAddress[]>

/** Names with a dot are queried in DNS without blocking a thread; the rest, and what DNS does not know (the hosts file
 *  does), in the system. `server` = `host:port` of a resolver, or null for the system's. */
export function createResolver (server: string | null = null): Resolve {
  const resolver = new dns.Resolver({ timeout: 2000, tries: 2 })
  if (server !== null) resolver.setServers([server])
  let looking = 0
  const waiting: Array<() => void> = []

  async function ask (host: string): Promise<LookupAddress[]> {
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    return [
      ...(four.status === 'fulfilled' ? four.value.map(address => ({ address, family: 4 })) : []),
      ...(six.status === 'fulfilled' ? six.value.map(address => ({ address, family: 6 })) : [])
    ]
  }

  async function askSystem (host: string): Promise<LookupAddress[]> {
    if (waiting.length >= SYSTEM_WAITING_MAX) throw new Error(`too many names wait to be resolved, ${host} among them`)
    if (looking >= SYSTEM_LOOKUPS_MAX) await new Promise<void>(go => waiting.push(go))
    else looking++
    try {
      return await dns.lookup(host, { all: true })
    } finally {
      // The slot is handed on: otherwise a new call could take it before a waiting one.
      const next = waiting.shift()
      if (next === undefined) looking--
      else next()
    }
  }

  return async host => {
    const known = host.includes('.') ? await ask(host) : []
    return known.length > 0 ? known : await askSystem(host)
  }
}
