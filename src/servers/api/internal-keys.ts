import { randomBytes } from 'node:crypto'
import type { FastifyInstance, InjectOptions } from 'fastify'
import type { Actor } from '#streams/define.ts'
import type { Principal } from '#streams/directory.ts'

/** What somebody may do who was let in at another door, and who that is. */
export interface InternalHolder {
  principal: Principal
  actor: Actor
}

/** Those who ask the API from within this process, having been let in at another door. */
export interface InternalKeys {
  /** An Authorization header that stands for `holder`, for as long as `ask` takes. */
  as<T>(holder: InternalHolder, ask: (authorization: string) => Promise<T>): Promise<T>
  /** Whom such a header stands for; null for any other. */
  holderOf(authorization: string | undefined): InternalHolder | null
}

export function createInternalKeys (): InternalKeys {
  const admitted = new Map<string, InternalHolder>()
  return {
    async as (holder, ask) {
      // Looked up by 256 random bits that never leave the process: nothing that comes over the network can be one.
      const authorization = `Inside ${randomBytes(32).toString('base64url')}`
      admitted.set(authorization, holder)
      try {
        return await ask(authorization)
      } finally {
        admitted.delete(authorization)
      }
    },
    holderOf: authorization => (authorization === undefined ? null : admitted.get(authorization) ?? null)
  }
}

/** `fetch` for the API's client, answered by this very process as `holder`; `correlation` = the id of the request that
 *  is behind it. */
export function internalFetch (
  app: FastifyInstance,
  internalKeys: InternalKeys,
  holder: InternalHolder,
  correlation: string
): typeof fetch {
  return async (input, init = {}) => {
    const { pathname, search } = new URL(String(input))
    const headers = Object.fromEntries(new Headers(init.headers))
    return await internalKeys.as(holder, async authorization => {
      const answer = await app.inject({
        method: init.method as InjectOptions['method'],
        url: pathname + search,
        headers: { ...headers, authorization, 'x-request-id': correlation },
        ...(typeof init.body === 'string' ? { payload: init.body } : {}),
        ...(init.signal == null ? {} : { signal: init.signal })
      })
      const body = answer.statusCode === 204 ? null : new Uint8Array(answer.rawPayload)
      return new Response(body, {
        status: answer.statusCode,
        headers: Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)])
      })
    })
  }
}
