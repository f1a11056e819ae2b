import type { IncomingMessage } from 'node:http'

const ORIGIN = /^https?:\/\/[^/?#]*/i

/** The path of a request target as the router reads it: without the origin of an absolute form, query and fragment, and
 *  percent-decoded but for what would then mean something else (`%2F`). What cannot be decoded stays. Source: RFC 9112
 *  3.2. */
export function pathOf (target: string): string {
  const path = target.replace(ORIGIN, '').split(/[?#]/, 1)[0]!
  return path.replaceAll(/(%[0-9a-f]{2})+/gi, decode)
}

function decode (text: string): string {
  try {
    return decodeURI(text)
  } catch {
    return text
  }
}

/** True for what RFC 9112 3.2 wants refused with 400: no Host header, or more than one, of which Node keeps the first
 *  and a proxy may have gone by another. */
export function lacksHost ({ httpVersion, rawHeaders }: IncomingMessage): boolean {
  const hosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.length === 4 && name.toLowerCase() === 'host').length
  return hosts > 1 || (hosts === 0 && httpVersion === '1.1')
}

const undecodable = new WeakSet<IncomingMessage>()

/** Marks a request whose target cannot be decoded, so that no route can be found for it. */
export function markUndecodable (request: IncomingMessage): void {
  undecodable.add(request)
}

export function isUndecodable (request: IncomingMessage): boolean {
  return undecodable.has(request)
}
