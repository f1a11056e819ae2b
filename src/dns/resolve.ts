import { Resolver } from 'node:dns/promises'
import { errorCode } from '#src/base/errors.ts'

/** Questions to DNS, each answered within 5 s. They throw DnsUnavailable. An answer has at most 64 kB, which DNS itself sees to. */
export interface Dns {
  /** TXT records, each joined to one string; empty when there are none. */
  txt (name: string): Promise<string[]>
  /** Target of the CNAME, lower case and without the final dot, or null. */
  cname (name: string): Promise<string | null>
}

/** DNS did not say (no answer in time, SERVFAIL, REFUSED, nonsense): there may be records or none. */
export class DnsUnavailable extends Error {
  override name = 'DnsUnavailable'
}

const ANSWER_MS = 5000
/** Within ANSWER_MS even when all are needed, for one server. */
const TRIES = { timeout: 1500, maxTimeout: 1500, tries: 3 }
const AT_ONCE = 32
const WAITING_MAX = 1000
/** NXDOMAIN, and a name without records of the type. */
const NONE = new Set(['ENOTFOUND', 'ENODATA'])

/** `server` = `host:port` of a resolver, or null for the system's. */
export function openDns (server: string | null): Dns {
  const inTurn = turns()

  /** Each question has a resolver of its own, so that it can be given up alone. */
  async function ask<T> (question: (resolver: Resolver) => Promise<T[]>): Promise<T[]> {
    const endMs = performance.now() + ANSWER_MS
    return await inTurn(async () => {
      const leftMs = endMs - performance.now()
      if (leftMs <= 0) throw new DnsUnavailable('DNS is asked too much')
      const resolver = new Resolver(TRIES)
      if (server !== null) resolver.setServers([server])
      const timer = setTimeout(() => resolver.cancel(), leftMs)
      try {
        return await question(resolver)
      } catch (error) {
        if (NONE.has(errorCode(error))) return []
        throw new DnsUnavailable(`DNS does not say: ${errorCode(error)}`, { cause: error })
      } finally {
        clearTimeout(timer)
      }
    })
  }

  return {
    txt: async name => (await ask(resolver => resolver.resolveTxt(name))).map(parts => parts.join('')),
    cname: async name => (await ask(resolver => resolver.resolveCname(name)))[0]?.toLowerCase().replace(/\.$/, '') ?? null
  }
}

/** Runs AT_ONCE acts at once, the others in the order they came. Who waits does so no longer than those before may take. */
function turns () {
  const waiting: Array<() => void> = []
  let running = 0
  return async <T>(act: () => Promise<T>): Promise<T> => {
    if (waiting.length >= WAITING_MAX) throw new DnsUnavailable('DNS is asked too much')
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
