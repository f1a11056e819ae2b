import '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'

const NOTICE_S = 60
const NOTICE_CHARS_MAX = 500

/** The browser's side of a session: no script reads these cookies, and no other site sends them along. */
export function sessionCookies (publicUrl: string) {
  const secure = publicUrl.startsWith('https:')
  // A neighbour under the same domain could plant a cookie of any other name. Source: RFC 6265bis 4.1.3.2
  const prefix = secure ? '__Host-' : ''
  const [ticketName, noticeName] = [`${prefix}jetpost_session`, `${prefix}jetpost_notice`]
  const options = { path: secure ? '/' : '/dashboard', httpOnly: true, sameSite: 'strict' as const, secure }
  return {
    /** False where the page came by http and the cookies are for https: the browser would drop them silently. */
    areKept: ({ headers: { origin } }: FastifyRequest): boolean => !secure || origin?.startsWith('http:') !== true,
    /** `''` = the browser sent none. */
    ticketIn: ({ cookies }: FastifyRequest): string => cookies[ticketName] ?? '',
    setTicket: (reply: FastifyReply, ticket: string, untilMs: number) =>
      reply.setCookie(ticketName, ticket, { ...options, expires: new Date(untilMs) }),
    clearTicket: (reply: FastifyReply) => reply.clearCookie(ticketName, options),
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
