import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
export type AddressRanges = ReadonlyArray<[Address, number]>

/** The names of ranges that `JETPOST_TRUST_PROXY` takes, as Fastify reads them. */
const NAMED: Record<string, string[]> = {
  loopback: ['127.0.0.1/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']
}
export const RANGE_NAMES = Object.keys(NAMED)

/** `entries` = addresses, ranges like 10.0.0.0/8, and names. */
export function addressRanges (entries: readonly string[]): AddressRanges {
  return entries.flatMap(entry => NAMED[entry] ?? [entry]).map(entry => {
    const [text, bits] = entry.split('/')
    const address = ipaddr.process(text!)
    return [address, bits === undefined ? address.toByteArray().length * 8 : Number(bits)]
  })
}

export function isInRanges (ranges: AddressRanges, text: string): boolean {
  if (ranges.length === 0) return false
  const address = ipaddr.process(text)
  return ranges.some(([range, bits]) => address.kind() === range.kind() && address.match(range as ipaddr.IPv6, bits))
}
