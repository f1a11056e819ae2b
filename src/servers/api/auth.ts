import type { FastifyContextConfig } from 'fastify'
import { opens } from '#streams/key/decide.ts'
import type { KeyEntry } from '#streams/directory.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Clock } from '#src/base/clock.ts'
import { networkOf } from '#src/base/network.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'

/** Whether a test key may not ask this: what writes is for live keys, unless the route changes test data alone for a
 *  test key, and sees to that. */
export function needsLiveKey (method: string, { scope, testKeys }: FastifyContextConfig): boolean {
  const reads = method === 'GET' || method === 'HEAD' || scope?.endsWith(':read') === true
  return !reads && testKeys !== true
}

/** `Bearer`, one space, one token of the characters of RFC 6750 2.1. Longer than any key of ours is malformed. */
const BEARER = /^bearer ([A-Za-z0-9._~+/=-]{1,256})$/i
/** An unknown key makes this node look at the log before it says 401. So many requests a second of one address may wait
 *  for that; the others get their 401 from what is known. */
const LOOKS_A_SECOND = 100
const ADDRESSES_MAX = 10_000

/** The one Authorization header of a request; undefined when there is none, or more than one: Node would keep the first
 *  and say nothing. */
export function authorizationOf (rawHeaders: string[]): string | undefined {
  let found: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!
    if (name.length !== 13 || name.toLowerCase() !== 'authorization') continue
    if (found !== undefined) return undefined
    found = rawHeaders[i + 1]!
  }
  return found
}

export interface Authenticator {
  /** The live key that the Authorization header names, or null = 401. Rejects never. */
  keyOf(authorization: string | undefined, address: string): KeyEntry | null | Promise<KeyEntry | null>
}

/** Knows keys by the directory. A key made a moment ago on another node is found by catching up once. */
export function createAuthenticator (directory: LiveDirectory, clock: Clock): Authenticator {
  let second = 0
  let waited = new Map<string, number>()

  function find (hash: string): KeyEntry | null {
    const key = directory.now.keysByHash.get(hash)
    return key !== undefined && opens(key, hash, clock.nowMs()) ? key : null
  }

  function mayWait (address: string): boolean {
    const now = Math.floor(clock.nowMs() / 1000)
    if (now !== second || waited.size > ADDRESSES_MAX) {
      second = now
      waited = new Map()
    }
    const count = (waited.get(address) ?? 0) + 1
    waited.set(address, count)
    return count <= LOOKS_A_SECOND
  }

  async function findAfterLook (hash: string): Promise<KeyEntry | null> {
    await directory.look()
    return find(hash)
  }

  return {
    keyOf (authorization, address) {
      const token = BEARER.exec(authorization ?? '')?.[1]
      if (token === undefined) return null
      // Found by the hash of the whole secret: nothing about a stored hash can be learned from how long this takes.
      const hash = sha256Hex(token)
      const key = find(hash)
      if (key !== null || directory.now.keysByHash.has(hash)) return key
      return /^jp_(live|test)_/.test(token) && mayWait(networkOf(address)) ? findAfterLook(hash) : null
    }
  }
}
