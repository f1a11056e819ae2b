import type { LimitClass } from '#streams/key/facts.ts'
import type { RateLimitStatus } from '#src/actions/limiter.ts'

/** The class of spec section 8 that a request falls into; `route` as the router reads it, below /api or where another
 *  dialect has the same. HEAD counts as the GET it asks about. */
export function limitClassOf (method: string, route: string): LimitClass {
  const path = route.replace(/^\/resend\//, '/api/')
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
