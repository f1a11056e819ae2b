import { timingSafeEqual } from 'node:crypto'
import '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Session } from '#streams/directory.ts'
import { sha256Hex } from '#src/base/secret.ts'

const TICKET = 'jetpost_session'
const NOTICE = 'jetpost_notice'
const NOTICE_S = 60

/** The browser's side of a session: no script reads it, and no other site sends it along. `secure` = the dashboard is reached by https. */
export function cookies (secure: boolean) {
  const plain = { path: '/dashboard', httpOnly: true, sameSite: 'strict' as const, secure }
  return {
    ticketOf: ({ cookies: given }: FastifyRequest): string => given[TICKET] ?? '',
    give: (reply: FastifyReply, ticket: string, untilMs: number) => reply.setCookie(TICKET, ticket, { ...plain, expires: new Date(untilMs) }),
    take: (reply: FastifyReply) => reply.clearCookie(TICKET, plain),
    /** What the next page says once. */
    leaveNotice: (reply: FastifyReply, text: string) => reply.setCookie(NOTICE, Buffer.from(text).toString('base64url'), { ...plain, maxAge: NOTICE_S }),
    takeNotice (request: FastifyRequest, reply: FastifyReply): string | null {
      const text = request.cookies[NOTICE]
      if (text === undefined) return null
      reply.clearCookie(NOTICE, plain)
      return Buffer.from(text, 'base64url').toString().slice(0, 500)
    }
  }
}

export type Cookies = ReturnType<typeof cookies>

/** The token of a session's forms. It follows from what only the browser's secret and the log lead to. */
export function csrfOf ({ hash }: Pick<Session, 'hash'>): string {
  return sha256Hex(`form ${hash}`)
}

/** Also of the secret before, for pages that were open when it was replaced. */
export function isCsrf ({ hash, previousHash }: Session, given: string): boolean {
  const text = Buffer.from(given)
  return [hash, ...(previousHash === null ? [] : [previousHash])].some(known => {
    const wanted = Buffer.from(csrfOf({ hash: known }))
    return wanted.length === text.length && timingSafeEqual(wanted, text)
  })
}

/** Whether the browser says that another site is behind a request, or nothing at all where it would. Source: https://www.w3.org/TR/fetch-metadata/ */
export function isForeign ({ headers }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site !== 'same-origin' && site !== 'none'
  return headers.origin !== undefined && (!URL.canParse(headers.origin) || new URL(headers.origin).host !== headers.host)
}

/** What was posted; nothing for any other request. */
export function formOf ({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams()
}
