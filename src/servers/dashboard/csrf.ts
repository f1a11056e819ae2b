import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sha256Hex } from '#src/base/secret.ts'
import type { SessionEntry } from '#streams/session/state.ts'

/** So long somebody may take to sign in at the issuer. */
export const OIDC_S = 600
const NOTICE_S = 60
const NOTICE_CHARS_MAX = 500

/** The browser's side of a session: no script reads these cookies, and no other site sends them along. */
export function sessionCookies (publicUrl: string) {
  const secure = publicUrl.startsWith('https:')
  // A neighbour under the same domain could plant a cookie of any other name. Source: RFC 6265bis 4.1.3.2
  const prefix = secure ? '__Host-' : ''
  const [ticketName, noticeName] = [`${prefix}jetpost_session`, `${prefix}jetpost_notice`]
  const oidcName = `${prefix}jetpost_oidc`
  const options = { path: secure ? '/' : '/dashboard', httpOnly: true, sameSite: 'strict' as const, secure }
  return {
    /** False where the page came by http and the cookies are for https: the browser would drop them silently. */
    areKept: ({ headers: { origin } }: FastifyRequest): boolean => !secure || origin?.startsWith('http:') !== true,
    /** `''` = the browser sent none. */
    ticketIn: ({ cookies }: FastifyRequest): string => cookies[ticketName] ?? '',
    setTicket: (reply: FastifyReply, ticket: string, untilMs: number) =>
      reply.setCookie(ticketName, ticket, { ...options, expires: new Date(untilMs) }),
    clearTicket: (reply: FastifyReply) => reply.clearCookie(ticketName, options),
    /** What a sign-in at the issuer must come back with: also from there, so not strict. */
    setOidc: (reply: FastifyReply, sealed: string) =>
      reply.setCookie(oidcName, sealed, { ...options, sameSite: 'lax', maxAge: OIDC_S }),
    takeOidc (request: FastifyRequest, reply: FastifyReply): string {
      reply.clearCookie(oidcName, { ...options, sameSite: 'lax' })
      return request.cookies[oidcName] ?? ''
    },
    /** The next page shows the notice once. */
    setNotice: (reply: FastifyReply, text: string) =>
      reply.setCookie(noticeName, Buffer.from(text).toString('base64url'), { ...options, maxAge: NOTICE_S }),
    takeNotice (request: FastifyRequest, reply: FastifyReply): string | null {
      const text = request.cookies[noticeName]
      if (text === undefined) return null
      reply.clearCookie(noticeName, options)
      return Buffer.from(text, 'base64url').toString().slice(0, NOTICE_CHARS_MAX)
    }
  }
}

export type SessionCookies = ReturnType<typeof sessionCookies>

const TOKEN_BYTES = 32

/** The token of a session's forms, masked: another text in each page, so that the size of a compressed page tells
 *  nothing of it. Source: BREACH, breachattack.com. */
export function csrfOf (session: Pick<SessionEntry, 'hash'>): string {
  const mask = randomBytes(TOKEN_BYTES)
  return Buffer.concat([mask, xor(tokenOf(session), mask)]).toString('base64url')
}

/** It follows from what only the browser's secret and the log lead to. */
function tokenOf ({ hash }: Pick<SessionEntry, 'hash'>): Buffer {
  return Buffer.from(sha256Hex(`form ${hash}`), 'hex')
}

function xor (one: Buffer, other: Buffer): Buffer {
  return Buffer.from(one.map((byte, i) => byte ^ other[i]!))
}

/** Accepts the token of the previous secret as well, for pages that were open when it was replaced. */
export function isCsrf ({ hash, previousHash }: SessionEntry, given: string): boolean {
  const bytes = Buffer.from(given, 'base64url')
  if (bytes.length !== 2 * TOKEN_BYTES) return false
  const token = xor(bytes.subarray(TOKEN_BYTES), bytes.subarray(0, TOKEN_BYTES))
  return [hash, ...(previousHash === null ? [] : [previousHash])].some(known =>
    timingSafeEqual(tokenOf({ hash: known }), token)
  )
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
