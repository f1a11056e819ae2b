import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { SessionEntry } from '#streams/directory.ts'
import { sha256Hex } from '#src/base/secret.ts'

const NOTICE_S = 60

/** The browser's side of a session: no script reads it, and no other site sends it along. */
export function cookies (publicUrl: string) {
  const secure = publicUrl.startsWith('https:')
  // A neighbour under the same domain could plant one of any other name. Source: RFC 6265bis 4.1.3.2
  const prefix = secure ? '__Host-' : ''
  const [ticketName, noticeName] = [`${prefix}jetpost_session`, `${prefix}jetpost_notice`]
  const plain = { path: secure ? '/' : '/dashboard', httpOnly: true, sameSite: 'strict' as const, secure }
  return {
    /** Whether the browser will keep a ticket: what is for https alone it drops without a word where the page came by
     *  http. */
    areKept: ({ headers: { origin } }: FastifyRequest): boolean => !secure || origin?.startsWith('http:') !== true,
    ticketOf: ({ cookies: given }: FastifyRequest): string => given[ticketName] ?? '',
    give: (reply: FastifyReply, ticket: string, untilMs: number) =>
      reply.setCookie(ticketName, ticket, { ...plain, expires: new Date(untilMs) }),
    take: (reply: FastifyReply) => reply.clearCookie(ticketName, plain),
    /** What the next page says once. */
    leaveNotice: (reply: FastifyReply, text: string) =>
      reply.setCookie(noticeName, Buffer.from(text).toString('base64url'), { ...plain, maxAge: NOTICE_S }),
    takeNotice (request: FastifyRequest, reply: FastifyReply): string | null {
      const text = request.cookies[noticeName]
      if (text === undefined) return null
      reply.clearCookie(noticeName, plain)
      return Buffer.from(text, 'base64url').toString().slice(0, 500)
    }
  }
}

export type Cookies = ReturnType<typeof cookies>

/** The token of a session's forms. It follows from what only the browser's secret and the log lead to. */
export function csrfOf ({ hash }: Pick<SessionEntry, 'hash'>): string {
  return sha256Hex(`form ${hash}`)
}

/** Also of the secret before, for pages that were open when it was replaced. */
export function isCsrf ({ hash, previousHash }: SessionEntry, given: string): boolean {
  const text = Buffer.from(given)
  return [hash, ...(previousHash === null ? [] : [previousHash])].some(known => {
    const wanted = Buffer.from(csrfOf({ hash: known }))
    return wanted.length === text.length && timingSafeEqual(wanted, text)
  })
}

/** Whether the browser says that another site is behind a request, or nothing at all where it would. Source:
 *  https://www.w3.org/TR/fetch-metadata/ */
export function isForeign ({ headers }: FastifyRequest, publicUrl: string): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site !== 'same-origin' && site !== 'none'
  return headers.origin !== undefined && !isOurs(headers.origin, headers, publicUrl)
}

/** Whether a URL is on the host that was asked, or on the public one, in whose place a proxy may have put another. */
export function isOurs (url: string, headers: IncomingHttpHeaders, publicUrl: string): boolean {
  const { host, origin } = URL.parse(url) ?? {}
  return host !== undefined && (host === headers.host || origin === new URL(publicUrl).origin)
}

/** What was posted; nothing for any other request. */
export function formOf ({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams()
}
