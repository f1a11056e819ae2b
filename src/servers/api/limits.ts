import type { LimitClass } from '#streams/key/facts.ts'
import type { RateLimitStatus } from '#src/actions/limiter.ts'

/** The class of spec section 8 that a request falls into; `path` as the router reads it. HEAD counts as the GET it asks
 *  about. */
export function limitClassOf (method: string, path: string): LimitClass {
  if (path === '/api/emails' && method === 'POST') return 'emails:send'
  if (path === '/api/emails/batch' && method === 'POST') return 'emails:batch'
  if (path === '/api/emails' && (method === 'GET' || method === 'HEAD')) return 'emails:list'
  if (path === '/api/templates' && method === 'POST') return 'templates:create'
  return 'other'
}

export function limitHeaders (status: RateLimitStatus): Record<string, string> {
  return {
    'x-ratelimit-limit': String(status.limit),
    'x-ratelimit-remaining': String(status.remaining),
    'x-ratelimit-reset': String(status.resetS)
  }
}
