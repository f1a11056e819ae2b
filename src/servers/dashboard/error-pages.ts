import type { FastifyRequest } from 'fastify'
import { isUser } from '#streams/session/decide.ts'
import type { Visitor } from '#src/actions/session.ts'
import { deadline } from '#src/base/errors.ts'
import { JetpostError } from '#src/client/client.ts'
import { isUnanswered, LogUnavailable } from '#src/nats/errors.ts'
import { isUnavailable } from '#src/postgres/pool.ts'
import { ProjectionUnavailable } from '#src/postgres/reads.ts'
import { sentence } from './parts.ts'
import { FormRefused, NotPermitted, PageNotFound } from './visit.ts'

/** A part of a page that takes longer is left out. The API itself waits two seconds for a projection that is behind. */
const PART_TIMEOUT_MS = 2500

/** The result; null while its projection is behind, away or slow. The rest of the page is shown all the same. */
export async function ifAvailable<T> (result: Promise<T>, timeoutMs = PART_TIMEOUT_MS): Promise<T | null> {
  try {
    return await deadline(result, timeoutMs, `no answer within ${timeoutMs} ms`)
  } catch (error) {
    if (
      isUnanswered(error) || error instanceof ProjectionUnavailable || isUnavailable(error) ||
      (error instanceof JetpostError && error.status === 503)
    ) return null
    throw error
  }
}

/** What a visitor reads when a page or a form fails. */
export interface ErrorPage {
  status: number
  title: string
  text: string
}

const STILL_SENDING = 'Mail is still sent. This page works again once it is back.'
const NATS_AWAY = 'NATS does not answer. Nothing accepted is lost.'
const UNAVAILABLE: Record<ProjectionUnavailable['code'], string> = {
  projection_behind: `This page is behind the log. ${STILL_SENDING}`,
  projection_unavailable: `PostgreSQL does not answer. ${STILL_SENDING}`,
  busy: 'Your account reads too much at once.'
}
const RETRY = 'Try again in a moment.'
const MAY_BE_DONE = 'The change may have been made. Check before you try again.'

/** The page for an error of a handler, an action or the API; 500 for what nobody foresaw. */
export function errorPageOf (error: unknown, { id, method, visitor }: FastifyRequest): ErrorPage {
  if (error instanceof NotPermitted) return { status: 403, title: 'Not allowed', text: notPermitted(error, visitor) }
  if (error instanceof PageNotFound) return { status: 404, title: 'Page not found', text: error.message }
  if (error instanceof FormRefused) return { status: 422, title: 'Request refused', text: error.message }
  if (error instanceof ProjectionUnavailable) {
    return { status: 503, title: 'Temporarily unavailable', text: UNAVAILABLE[error.code] }
  }
  if (error instanceof LogUnavailable && error.doubt) {
    return { status: 503, title: 'No answer', text: `${NATS_AWAY} ${MAY_BE_DONE}` }
  }
  if (error instanceof LogUnavailable || isUnanswered(error)) {
    return { status: 503, title: 'NATS is unavailable', text: `${NATS_AWAY} ${RETRY}` }
  }
  if (error instanceof JetpostError) return apiErrorPage(error, id, method)
  const status = (error as { statusCode?: unknown }).statusCode
  if (typeof status !== 'number' || status >= 500) return unexpected(id)
  const text = status === 413 ? 'The form is too large.' : 'The request is malformed.'
  return { status, title: 'Bad request', text }
}

function notPermitted ({ scope }: NotPermitted, visitor: Visitor | null): string {
  const { principal } = visitor!
  return isUser(principal)
    ? `Your role does not have the scope ${scope}. Ask an owner of the account.`
    : `You signed in with the key ${principal.name}, which does not have the scope ${scope}.`
}

function apiErrorPage (error: JetpostError, id: string, method: string): ErrorPage {
  const { message, status } = error
  if (status === null || status === 503) {
    return { status: 503, title: 'Temporarily unavailable', text: unavailableText(error, method) }
  }
  if (status >= 500) return unexpected(id)
  if (status === 404) {
    return { status, title: 'Not found', text: 'It does not exist in this account. It may have been deleted.' }
  }
  if (status === 403) return { status, title: 'Not allowed', text: 'You may not do this: it takes more than you hold.' }
  return { status, title: 'Request refused', text: message }
}

function unexpected (id: string): ErrorPage {
  return { status: 500, title: 'Something went wrong', text: `The log of Jetpost has the details under ${id}.` }
}

function unavailableText ({ status, code, message }: JetpostError, method: string): string {
  if (status === null) return `Jetpost did not answer in time. ${method === 'GET' ? RETRY : MAY_BE_DONE}`
  if (code === 'projection_behind' || code === 'projection_unavailable') return UNAVAILABLE[code]
  return code === 'log_unavailable' ? `${NATS_AWAY} ${RETRY}` : sentence(message)
}
