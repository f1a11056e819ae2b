import type { FastifyRequest } from 'fastify'

/** What comes after `/o/`, `/c/` or `/u/`. */
export type Rest = { Params: { '*': string } }

/** The token that a path holds, without what mail programs put behind a URL in plain text: a full stop, a bracket, the
 *  `=` of a soft line break. */
export function tokenOf (request: FastifyRequest<Rest>): string {
  return /^[0-9a-z]*/i.exec(request.params['*'])![0]
}
