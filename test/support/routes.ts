import type { RouteSettings, RouteSource } from '#streams/route/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'

/** A rule that all mail fits. */
export const ANY_MAIL = { senderDomains: [], keys: [], tags: [], recipientDomains: [] }

/** A route with the settings of one that says nothing else. */
export function routeOf (name: string, settings: Partial<RouteSettings> = {}): RouteEntry {
  return {
    id: `rt_${name}`,
    name,
    createdAt: '2026-11-24T10:00:00.000Z',
    url: `smtp://${name}.example.com`,
    sealedUrl: null,
    position: 100,
    match: ANY_MAIL,
    fallbacks: [],
    hostname: null,
    sources: [],
    messagesPerSecond: null,
    connections: null,
    warmUp: null,
    ...settings
  }
}

export function sourceOf (address: string, rest: Partial<RouteSource> = {}): RouteSource {
  return { address, hostname: null, weight: 1, tags: [], warmUp: null, ...rest }
}
