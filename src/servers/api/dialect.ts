import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RateLimitStatus } from '#src/actions/limiter.ts'
import { answer, type HttpProblem } from './errors.ts'
import { limitHeaders } from './limits.ts'

/** How an API words what all of its requests and answers have: ours, or another's whose clients ask us. */
export interface Dialect {
  /** The bytes of a body as they are to be counted and parsed. */
  readable(body: Buffer): Buffer
  /** Whether what no route reads is passed over; else it is refused. */
  isLenient: boolean
  answer(request: FastifyRequest, reply: FastifyReply, problem: HttpProblem): FastifyReply
  limitHeaders(status: RateLimitStatus, nowMs: number): Record<string, string>
}

/** Spec 7 and 8. */
export const OWN_DIALECT: Dialect = {
  readable: body => body,
  isLenient: false,
  answer: (_request, reply, problem) => answer(reply, problem),
  limitHeaders
}
