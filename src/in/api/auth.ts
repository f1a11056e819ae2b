import { isLive } from '#streams/key/decide.ts'
import type { Key } from '#streams/directory.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Clock } from '#src/base/clock.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'

/** `Bearer`, one space, one token of the characters of RFC 6750 2.1. Longer than any key of ours is malformed. */
const BEARER = /^bearer ([A-Za-z0-9._~+/=-]{1,256})$/i
/** An unknown key makes this node catch up with the log before it says 401: so often a second for one address, and in all. */
const CATCH_UPS_A_SECOND = { address: 5, all: 50 }
const CATCH_UP_MS = 1000

/** The one Authorization header of a request; undefined when there is none, or more than one: Node would keep the first and say nothing. */
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
  keyOf (authorization: string | undefined, address: string): Key | null | Promise<Key | null>
}

/** Knows keys by the directory. A key made a moment ago on another node is found by catching up once. */
export function createAuthenticator (directory: LiveDirectory, clock: Clock): Authenticator {
  let second = 0
  let spent = new Map<string, number>()
  let spentInAll = 0

  function find (hash: string): Key | null {
    const key = directory.now.keysByHash.get(hash)
    return key !== undefined && isLive(key, clock.nowMs()) ? key : null
  }

  function mayCatchUp (address: string): boolean {
    const now = Math.floor(clock.nowMs() / 1000)
    if (now !== second) {
      second = now
      spent = new Map()
      spentInAll = 0
    }
    const used = spent.get(address) ?? 0
    if (used >= CATCH_UPS_A_SECOND.address || spentInAll >= CATCH_UPS_A_SECOND.all) return false
    spent.set(address, used + 1)
    spentInAll++
    return true
  }

  async function findAfterCatchingUp (hash: string): Promise<Key | null> {
    await directory.catchUp(CATCH_UP_MS).catch(() => false)
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
      return /^jp_(live|test)_/.test(token) && mayCatchUp(address) ? findAfterCatchingUp(hash) : null
    }
  }
}
