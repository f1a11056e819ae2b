import type { FastifyContextConfig } from 'fastify'
import type { KeyEntry } from '#streams/directory.ts'
import type { Clock } from '#src/base/clock.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import { createKeyFinder } from '#src/actions/key-finder.ts'

/** Whether a test key may not ask this: what writes is for live keys, unless the route changes test data alone for a
 *  test key, and sees to that. */
export function needsLiveKey (method: string, { scope, testKeys }: FastifyContextConfig): boolean {
  const reads = method === 'GET' || method === 'HEAD' || scope?.endsWith(':read') === true
  return !reads && testKeys !== true
}

/** `Bearer`, one space, one token of the characters of RFC 6750 2.1. Longer than any key of ours is malformed. */
const BEARER = /^bearer ([A-Za-z0-9._~+/=-]{1,256})$/i
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

export function createAuthenticator (directory: LiveDirectory, clock: Clock): Authenticator {
  const find = createKeyFinder(directory, clock)
  return {
    keyOf (authorization, address) {
      const token = BEARER.exec(authorization ?? '')?.[1]
      return token === undefined ? null : find(token, address)
    }
  }
}
