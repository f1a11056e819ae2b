import type { FastifyInstance, FastifyRequest } from 'fastify'
import { KeyedSemaphore } from '#src/base/keyed-semaphore.ts'
import { unavailable, type HttpProblem } from './errors.ts'

/** Reading and storing one above this takes a tenth of a second of the process's time. */
const BYTES_MIN = 1024 * 1024
/** What one of them waits for leaves time for another. Of an account one at a time: each turn of the event loop would
 *  else do a piece of every one of them before it comes to the small requests of others, and accept one connection. */
const TURNS = { max: 2, maxPerKey: 1, waitMs: 10_000, waitingMax: 200, waitingMaxPerKey: 50 }

const tooMany = () => unavailable('busy', 'Too many big bodies arrive at once: try again.')

declare module 'fastify' {
  interface FastifyRequest {
    /** Lets the next big body have its turn; null = it has none. */
    endTurn: (() => void) | null
  }
}

type ReadBody = (request: FastifyRequest, body: Buffer, done: (error: Error | null, value?: unknown) => void) => void

/** Wraps what reads bodies: a big one is read once it has its turn, which lasts until its request is answered. It is
 *  refused with 503 when that does not come in time. */
export function turnsOfBigBodies (
  app: Pick<FastifyInstance, 'decorateRequest' | 'addHook'>
): (read: ReadBody) => ReadBody {
  const turns = new KeyedSemaphore(TURNS)
  app.decorateRequest('endTurn', null)
  app.addHook('onResponse', async request => request.endTurn?.())

  async function take (request: FastifyRequest): Promise<HttpProblem | null> {
    const { account } = request.principal!
    if (!await turns.acquire(account)) return tooMany()
    let isOver = false
    request.endTurn = () => {
      if (!isOver) turns.release(account)
      isOver = true
    }
    if (!request.raw.socket.destroyed) return null
    // Nobody waits for the answer, whose end is past.
    request.endTurn()
    return tooMany()
  }

  return read => (request, body, done) => {
    if (body.length < BYTES_MIN) return read(request, body, done)
    void take(request).then(refusal => refusal === null ? read(request, body, done) : done(refusal), done)
  }
}
