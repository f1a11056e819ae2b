/** How the text of a setting is read: each throws an Error that says what must be. */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { nearest } from './suggest.ts'

type Address = ipaddr.IPv4 | ipaddr.IPv6
export type AddressRanges = ReadonlyArray<[Address, number]>

/** The names of ranges that `JETPOST_TRUST_PROXY` takes, as Fastify reads them. */
const NAMED: Record<string, string[]> = {
  loopback: ['127.0.0.1/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']
}
const RANGE_NAMES = Object.keys(NAMED)

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

export const text = (value: string) => value

export function url (...protocols: string[]) {
  return (value: string): string => {
    for (const part of value.split(',')) {
      if (!protocols.includes(URL.parse(part.trim())?.protocol ?? '')) {
        throw new Error(`must be a URL starting with ${protocols.map(name => `${name}//`).join(' or ')}`)
      }
    }
    return value
  }
}

/** One address of a web server, to which paths are added: `https://mail.example.com`, or below a path that a proxy
 *  takes off again. */
export function webUrl (value: string): string {
  const { protocol, username, search, hash } = URL.parse(value) ?? {}
  if (
    (protocol !== 'http:' && protocol !== 'https:') || username !== '' || search !== '' || hash !== '' ||
    value.includes(',')
  ) {
    throw new Error('must be one http:// or https:// URL without user name, query and fragment')
  }
  return value.replace(/\/+$/, '')
}

/** An OpenID Connect issuer: what is told there in plain text anybody on the way could change. */
export function issuerUrl (value: string): string {
  const { protocol, hostname } = URL.parse(value) ?? {}
  const isLocal = protocol === 'http:' && /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname!)
  if (protocol !== 'https:' && !isLocal) throw new Error('must be an https:// URL')
  return value
}

/** A URL that is posted to. */
export function postUrl (value: string): string {
  const { protocol, username } = URL.parse(value) ?? {}
  if ((protocol !== 'http:' && protocol !== 'https:') || username !== '') {
    throw new Error('must be an http:// or https:// URL without user name')
  }
  return value
}

/** A bare address; whether it is one that can be sent to is asked of the rules of mail. */
export function mailAddress (value: string): string {
  if (!/^[^\s@<>,;"]{1,64}@[^\s@<>,;"]{1,253}$/.test(value)) throw new Error('must be a mail address: ops@example.com')
  return value
}

const ADDRESSES_MAX = 10

export function mailAddresses (value: string): string[] {
  const addresses = list(value)
  if (addresses.length > ADDRESSES_MAX) throw new Error(`must have at most ${ADDRESSES_MAX} addresses`)
  return addresses.map(mailAddress)
}

/** As an endpoint's. Source: standardwebhooks.com. */
export function signingSecret (value: string): string {
  const [, text = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(value) ?? []
  const { length } = Buffer.from(text, 'base64')
  if (length < 24 || length > 64) throw new Error('must be whsec_ and the base64 of 24 to 64 bytes')
  return value
}

export function smtpUrl (value: string): string {
  if (value === 'direct:') return value
  if (!/^smtps?:$/.test(URL.parse(value)?.protocol ?? '')) {
    throw new Error('must be a URL starting with smtp:// or smtps://, or direct:')
  }
  return value
}

/** A host name, or an address literal. Source: RFC 5321 4.1.1.1. */
export function ehloName (value: string): string {
  if (!/^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[a-z0-9:.]{3,60}\])$/i.test(value)) {
    throw new Error('must be a host name')
  }
  return value
}

export function integer (min: number, max: number) {
  return (value: string): number => {
    const number = Number(value)
    if (!/^\d+$/.test(value) || number < min || number > max) {
      throw new Error(`must be a whole number from ${min} to ${max}`)
    }
    return number
  }
}

/** A share, from percent; null = 0. */
export function percentage (value: string): number | null {
  const percent = /^\d{1,3}(\.\d{1,3})?$/.test(value) ? Number(value) : NaN
  if (!(percent <= 100)) throw new Error('must be a number from 0 to 100, such as 0.5')
  return percent === 0 ? null : percent / 100
}

/** A share, from 0 to 1. */
export function ratio (value: string): number {
  const share = /^(0|1|[01]?\.\d{1,9})$/.test(value) ? Number(value) : NaN
  if (!(share <= 1)) throw new Error('must be a number from 0 to 1, such as 0.1')
  return share
}

/** Without the slash at its end. */
export function collectorUrl (value: string): string {
  return webUrl(value).replace(/\/+$/, '')
}

export function hostName (value: string): string {
  if (!/^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(value)) {
    throw new Error('must be a host name')
  }
  return value.toLowerCase()
}

/** Where to listen. A name whose last label is a number is a malformed IPv4 address. */
export function address (value: string): string {
  if (isIP(value) === 0 && !/^([a-z0-9_-]+\.)*[a-z0-9_-]*[a-z][a-z0-9_-]*$/i.test(value)) {
    throw new Error('must be an IP address or a host name')
  }
  return value
}

export function oneOf (...names: string[]) {
  return (value: string): string => {
    if (!names.includes(value)) throw new Error(`must be one of ${names.join(', ')}`)
    return value
  }
}

/** An IP address, or one with its port: `10.0.0.2`, `127.0.0.1:5353`, `[::1]:53`. */
export function resolver (value: string): string {
  const match = /^(?:\[([0-9a-f:.]+)\]|([0-9.]+))(?::(\d{1,5}))?$/i.exec(value)
  const address = match?.[1] ?? match?.[2] ?? value
  if (isIP(address) === 0 || Number(match?.[3] ?? 53) > 65_535) {
    throw new Error('must be the IP address of a resolver, with its port if that is not 53: 127.0.0.1:5353, [::1]:53')
  }
  return value
}

export function boolean (value: string): boolean {
  if (/^(true|1|yes|on)$/i.test(value)) return true
  if (/^(false|0|no|off)$/i.test(value)) return false
  throw new Error('must be true or false')
}

export const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** What stands in files of ours, or has stood there: everybody can read it. */
const PUBLIC_SECRETS = [
  'laptop-only-laptop-only-laptop-only',
  'a-secret-for-tests-with-at-least-32-characters',
  'another-secret-with-at-least-32-characters'
]
const SECRET_CHARS_MIN = 32
const HOW_TO_MAKE = 'make one with: openssl rand -hex 32'

/** A secret of the operator's own. Nothing tells a random text from another: only what everybody knows is refused. */
function ownSecret (value: string): string {
  if (value.length < SECRET_CHARS_MIN) {
    throw new Error(`must have at least ${SECRET_CHARS_MIN} characters (${HOW_TO_MAKE})`)
  }
  if (PUBLIC_SECRETS.some(known => value.includes(known))) {
    throw new Error(`must be your own, not one that is published with Jetpost (${HOW_TO_MAKE})`)
  }
  return value
}

/** The secrets of an installation, newest first: the first seals and signs, all of them open and verify. */
export type Ring = readonly [newest: string, ...older: string[]]

/** A token is compared with one after the other. */
export const RING_MAX = 5

/** `secrets` = newest first. Throws an Error that says what must be. */
export function ringOf (secrets: readonly string[]): Ring {
  const [newest, ...older] = secrets.map(ownSecret)
  if (newest === undefined) throw new Error(`must have at least ${SECRET_CHARS_MIN} characters (${HOW_TO_MAKE})`)
  if (older.length >= RING_MAX) throw new Error(`must have at most ${RING_MAX} secrets`)
  if (new Set(secrets).size < secrets.length) throw new Error('must not have the same secret twice')
  return [newest, ...older]
}

/** One secret, taken as it is, or several with commas between them. */
export function ring (value: string): Ring {
  if (!value.includes(',')) return ringOf([value])
  try {
    return ringOf(list(value))
  } catch (error) {
    throw new Error(`is a list, for it has a comma: it, or each secret in it, ${(error as Error).message}`)
  }
}

/** `90d`, `12h`, `30m` in ms. */
export function duration (minMs: number) {
  return (value: string): number => {
    const match = /^(\d+)([mhd])$/.exec(value)
    const ms = match === null ? 0 : Number(match[1]) * UNIT_MS[match[2]!]!
    if (ms < minMs) throw new Error(`must be a duration like 90d or 12h, at least ${minMs / UNIT_MS.h!} h`)
    return ms
  }
}

export function list (value: string): string[] {
  return value.split(',').map(part => part.trim()).filter(part => part !== '')
}

export function proxies (value: string): string[] {
  const entries = list(value)
  const wrong = entries.filter(entry => !RANGE_NAMES.includes(entry) && !isAddressRange(entry))
  if (wrong.length > 0) {
    throw new Error(
      `must be a list of IP addresses, ranges like 10.0.0.0/8, or ${RANGE_NAMES.join(', ')}, not ${wrong.join(', ')}`
    )
  }
  return entries
}

/** An IP address, or one with the length of its prefix. */
function isAddressRange (entry: string): boolean {
  const [address = '', bits, ...rest] = entry.split('/')
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  return bits === undefined || (/^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= (version === 6 ? 128 : 32))
}

/** What other programs set: Kubernetes for a service that is called jetpost, our own receivers, tests and benches. */
const NOT_SETTINGS = /^JETPOST_(SERVICE_|PORT$|PORT_\d|WEBHOOK_SECRET$|TEST_|BENCH_)/
const PREFIX = 'JETPOST_'

/** A fault for each name that begins like a setting and is none: it would have no effect, and nobody would know. */
export function mistypedNames (names: string[], settings: string[]): string[] {
  const known = settings.flatMap(name => (name.startsWith(PREFIX) ? [name.slice(PREFIX.length)] : []))
  const mistyped = names.filter(name => name.startsWith(PREFIX) && !NOT_SETTINGS.test(name))
    .map(name => name.slice(PREFIX.length)).filter(name => !known.includes(name))
  return mistyped.map(name => {
    const meant = nearest(name, known)
    return `${PREFIX}${name} is not a setting${meant === null ? '' : ` (did you mean ${PREFIX}${meant}?)`}`
  })
}
