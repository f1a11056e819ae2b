import { accountLimitOf } from '#streams/account/decide.ts'
import type { KeyEntry } from '#streams/directory.ts'
import type { LimitClass } from '#streams/key/facts.ts'
import { DEFAULT_LIMITS, limitOf } from '#streams/key/decide.ts'
import type { Clock } from '#src/base/clock.ts'
import { networkOf } from '#src/base/network.ts'
import type { Counters } from '#src/nats/counters.ts'
import type { LiveDirectory } from './directory.ts'

const WINDOW_MS = 60_000
/** Addresses of unauthenticated clients remembered in one window. */
const UNAUTHENTICATED_MAX = 100_000

/** What the X-RateLimit headers say, and whether this request is past the limit. Spec section 8. */
export interface RateLimitStatus {
  limit: number
  remaining: number
  /** Unix seconds at which the window resets. */
  resetS: number
  /** Seconds to wait when over, at least 1; else null. */
  retryAfterS: number | null
}

export interface Limiter {
  /** Counts a request of a key, and with those of all keys of its account; exact over all nodes while NATS answers.
   *  The answer is the key's, or the account's where that one is past its limit. */
  count(key: KeyEntry, limitClass: LimitClass): Promise<RateLimitStatus>
  /** Counts a request without a key by its address, on this node alone. */
  countUnauthenticated(address: string, limitClass: LimitClass): RateLimitStatus
}

export function createLimiter (counters: Counters, directory: Pick<LiveDirectory, 'now'>, clock: Clock): Limiter {
  let unauthenticatedWindow = 0
  let unauthenticated = new Map<string, number>()

  function statusOf (position: number, limit: number, window: number, nowMs: number): RateLimitStatus {
    const resetMs = (window + 1) * WINDOW_MS
    return {
      limit,
      remaining: Math.max(0, limit - position),
      resetS: resetMs / 1000,
      retryAfterS: position > limit ? Math.max(1, Math.ceil((resetMs - nowMs) / 1000)) : null
    }
  }

  async function countIn (id: string, limitClass: LimitClass, limit: number, nowMs: number): Promise<RateLimitStatus> {
    const window = Math.floor(nowMs / WINDOW_MS)
    const { position } = await counters.count(id, limitClass, window, limit)
    return statusOf(position, limit, window, nowMs)
  }

  return {
    async count (key, limitClass) {
      const nowMs = clock.nowMs()
      const account = directory.now.accounts.get(key.account)
      const status = await countIn(key.id, limitClass, limitOf(key, limitClass), nowMs)
      const limit = account === undefined ? null : accountLimitOf(account, key, limitClass)
      // What a key is refused takes no place of the others'.
      if (limit === null || status.retryAfterS !== null) return status
      const ofAll = await countIn(key.account, limitClass, limit, nowMs)
      return ofAll.retryAfterS === null ? status : ofAll
    },
    countUnauthenticated (address, limitClass) {
      const nowMs = clock.nowMs()
      const window = Math.floor(nowMs / WINDOW_MS)
      if (window !== unauthenticatedWindow || unauthenticated.size > UNAUTHENTICATED_MAX) {
        unauthenticatedWindow = window
        unauthenticated = new Map()
      }
      const name = `${limitClass} ${networkOf(address)}`
      const position = (unauthenticated.get(name) ?? 0) + 1
      unauthenticated.set(name, position)
      return statusOf(position, DEFAULT_LIMITS[limitClass], window, nowMs)
    }
  }
}
