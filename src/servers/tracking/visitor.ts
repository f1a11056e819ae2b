import type { IncomingHttpHeaders } from 'node:http'
import { isbot } from 'isbot'
import { MAIL_PROGRAMS, PROGRAMS } from './programs.ts'

/** Requests for a page before anybody wants to see it. */
const AHEAD = /\b(prefetch|prerender|preview)\b/i
const AHEAD_HEADERS = ['purpose', 'sec-purpose', 'x-purpose', 'x-moz']

/** True when the headers of a GET show a program, and not a person's browser or mail program. Whether it came too early
 *  for a person needs the facts of the mail: see `streams/email/engagements.ts`. */
export function isProgram (headers: IncomingHttpHeaders): boolean {
  if (AHEAD_HEADERS.some(name => AHEAD.test(String(headers[name] ?? '')))) return true
  const agent = headers['user-agent']?.trim() ?? ''
  if (agent === '' || PROGRAMS.some(pattern => pattern.test(agent))) return true
  return !MAIL_PROGRAMS.some(pattern => pattern.test(agent)) && isbot(agent)
}
