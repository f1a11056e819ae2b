import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { SessionEntry } from '#streams/directory.ts'
import { sha256Hex } from '#src/base/secret.ts'

/** The token of a session's forms. It follows from what only the browser's secret and the log lead to. */
export function csrfOf ({ hash }: Pick<SessionEntry, 'hash'>): string {
  return sha256Hex(`form ${hash}`)
}

/** Accepts the token of the previous secret as well, for pages that were open when it was replaced. */
export function isCsrf ({ hash, previousHash }: SessionEntry, given: string): boolean {
  const text = Buffer.from(given)
  return [hash, ...(previousHash === null ? [] : [previousHash])].some(known => {
    const expected = Buffer.from(csrfOf({ hash: known }))
    return expected.length === text.length && timingSafeEqual(expected, text)
  })
}

/** Whether another site made the request. Browsers without Sec-Fetch-Site are judged by Origin. Source:
 *  https://www.w3.org/TR/fetch-metadata/ */
export function isForeign ({ headers }: FastifyRequest, publicUrl: string): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site !== 'same-origin' && site !== 'none'
  return headers.origin !== undefined && !isOwnUrl(headers.origin, headers, publicUrl)
}

/** Whether a URL is on the requested host or on the public one; a proxy may have replaced the latter. */
export function isOwnUrl (url: string, headers: IncomingHttpHeaders, publicUrl: string): boolean {
  const { host, origin } = URL.parse(url) ?? {}
  return host !== undefined && (host === headers.host || origin === new URL(publicUrl).origin)
}

/** The posted fields; none for any other request. */
export function formOf ({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams()
}
