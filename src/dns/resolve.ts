import ipaddr from 'ipaddr.js'
import { Resolver } from 'node:dns/promises'
import { errorCode } from '#src/base/errors.ts'

/** DNS queries, each answered within 5 s. They throw DnsUnavailable. DNS limits an answer to 64 kB. */
export interface Dns {
  /** TXT records, each joined to one string; empty when there are none. */
  txt(name: string): Promise<string[]>
  /** Target of the CNAME, lower case and without the final dot, or null. */
  cname(name: string): Promise<string | null>
  /** MX records in no order, names in lower case and without the final dot ('' = the null MX, RFC 7505); null when
   *  there is no such name. */
  mx(name: string): Promise<MxRecord[] | null>
  /** IPv4 addresses, before IPv6 ones, and for how many seconds they all hold; null when there is no such name. */
  addresses(name: string): Promise<Addresses | null>
}

/** For setting up a server, never for mail. */
export interface ReverseDns extends Dns {
  /** PTR names of an IP address, lower case and without the final dot; empty when there are none. */
  names(address: string): Promise<string[]>
}

export interface MxRecord {
  preference: number
  exchange: string
}

/** `ttlS` is 0 when there are none. */
export interface Addresses {
  addresses: string[]
  ttlS: number
}

/** DNS did not answer (timeout, SERVFAIL, REFUSED, malformed): there may be records or none. */
export class DnsUnavailable extends Error {
  override name = 'DnsUnavailable'
}

const ANSWER_MS = 5000
/** Within ANSWER_MS even when all are needed, for one server. */
const TRIES = { timeout: 1500, maxTimeout: 1500, tries: 3 }
const AT_ONCE = 32
const WAITING_MAX = 1000
/** NXDOMAIN, and a name without records of the type. */
const NO_NAME = 'ENOTFOUND'
const NO_DATA = 'ENODATA'

/** `server` = `host:port` of a resolver, or null for the system's. */
export function openDns (server: string | null): ReverseDns {
  const inTurn = turns()

  async function ask<T> (question: (resolver: Resolver) => Promise<T[]>): Promise<T[]> {
    return await askName(question) ?? []
  }

  /** Each query has a resolver of its own, so that it can be canceled alone. null = there is no such name. */
  async function askName<T> (question: (resolver: Resolver) => Promise<T[]>): Promise<T[] | null> {
    const endMs = performance.now() + ANSWER_MS
    return await inTurn(async () => {
      const leftMs = endMs - performance.now()
      if (leftMs <= 0) throw new DnsUnavailable('too many DNS queries are waiting')
      const resolver = new Resolver(TRIES)
      if (server !== null) resolver.setServers([server])
      const timer = setTimeout(() => resolver.cancel(), leftMs)
      try {
        return await question(resolver)
      } catch (error) {
        if (errorCode(error) === NO_NAME) return null
        if (errorCode(error) === NO_DATA) return []
        throw new DnsUnavailable(`DNS does not say: ${errorCode(error)}`, { cause: error })
      } finally {
        clearTimeout(timer)
      }
    })
  }

  async function mx (name: string): Promise<MxRecord[] | null> {
    const found = await askName(resolver => resolver.resolveMx(name))
    return found?.map(({ priority, exchange }) => ({ preference: priority, exchange: plainName(exchange) })) ?? null
  }

  /** One family is enough: only when neither has an answer is it unknown. */
  async function addresses (name: string): Promise<Addresses | null> {
    const answers = await Promise.allSettled([
      askName(resolver => resolver.resolve4(name, { ttl: true })),
      askName(resolver => resolver.resolve6(name, { ttl: true }))
    ])
    const said = answers.flatMap(answer => (answer.status === 'fulfilled' ? [answer.value] : []))
    const found = said.flatMap(records => records ?? [])
    const failed = answers.find(answer => answer.status === 'rejected')
    if (found.length === 0 && failed !== undefined) throw failed.reason
    if (said.every(records => records === null)) return null
    return {
      addresses: found.map(({ address }) => address),
      ttlS: found.length === 0 ? 0 : Math.min(...found.map(({ ttl }) => ttl))
    }
  }

  return {
    txt: async name => (await ask(resolver => resolver.resolveTxt(name))).map(parts => parts.join('')),
    cname: async name => (await ask(resolver => resolver.resolveCname(name))).map(plainName)[0] ?? null,
    mx,
    addresses,
    // Resolver.reverse would ask the hosts file first, which other servers do not see.
    names: async address => (await ask(resolver => resolver.resolvePtr(reverseName(address)))).map(plainName)
  }
}

/** Where the PTR records of an address are. Source: RFC 1035 3.5, RFC 3596 2.5. */
function reverseName (address: string): string {
  const parsed = ipaddr.process(address)
  const bytes = parsed.toByteArray()
  if (parsed.kind() === 'ipv4') return `${bytes.toReversed().join('.')}.in-addr.arpa`
  return `${
    bytes.flatMap(byte => [byte >> 4, byte & 15]).map(nibble => nibble.toString(16)).toReversed().join('.')
  }.ip6.arpa`
}

function plainName (name: string): string {
  return name.toLowerCase().replace(/\.$/, '')
}

/** Runs AT_ONCE acts at once, the others in order. None waits longer than those before it may take. */
function turns () {
  const waiting: Array<() => void> = []
  let running = 0
  return async <T>(act: () => Promise<T>): Promise<T> => {
    if (waiting.length >= WAITING_MAX) throw new DnsUnavailable('too many DNS queries are waiting')
    if (running < AT_ONCE) running++
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await act()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
