import type { Dns } from '#src/dns/resolve.ts'
import { Memory } from '#src/base/memory.ts'

const HOSTS_MAX = 10_000
const HOLD_MS_MIN = 1000
const HOLD_MS_MAX = 3_600_000
const NEGATIVE_MS = 300_000

/** Addresses of MX hosts, IPv4 first, remembered for as long as DNS says (1 s to an hour), none for 5 min. Throws
 *  DnsUnavailable. */
export function createAddressBook (dns: Dns, nowMs: () => number): (host: string) => Promise<string[]> {
  const known = new Memory<{ addresses: string[], untilMs: number }>(HOSTS_MAX)
  return async host => {
    const kept = known.get(host)
    if (kept !== undefined && nowMs() < kept.untilMs) return kept.addresses
    const found = await dns.addresses(host)
    const addresses = found?.addresses ?? []
    const holdMs = addresses.length === 0
      ? NEGATIVE_MS
      : Math.min(HOLD_MS_MAX, Math.max(HOLD_MS_MIN, found!.ttlS * 1000))
    known.set(host, { addresses, untilMs: nowMs() + holdMs })
    return addresses
  }
}
