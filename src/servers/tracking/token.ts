import type { FastifyRequest } from 'fastify'

/** The rest of the path after `/o/`, `/c/` or `/u/`. */
export type TokenPath = { Params: { '*': string } }

/** The token in a path, without what mail programs append to a URL in plain text: a full stop, a bracket, the `=` of a
 *  soft line break. */
export function tokenOf (request: FastifyRequest<TokenPath>): string {
  return /^[0-9a-z]*/i.exec(request.params['*'])![0]
}
