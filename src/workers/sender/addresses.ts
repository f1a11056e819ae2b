import type { Dns } from '#src/dns/resolve.ts'
import { Memory } from '#src/base/memory.ts'

const HOSTS_MAX = 10_000
const TTL_MS_MIN = 1000
const TTL_MS_MAX = 3_600_000
const NEGATIVE_TTL_MS = 300_000

/** Addresses of MX hosts, IPv4 first, cached for their TTL (1 s to an hour), none for 5 min. Throws DnsUnavailable. */
export function createAddressCache (dns: Dns, nowMs: () => number): (host: string) => Promise<string[]> {
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
